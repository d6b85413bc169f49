"""CHAR where it is compared: Spark pads the shorter side with spaces, and nowhere else.

    c = 'ab'   means   c = 'ab   '           where c is CHAR(5)
    c = d      means   c = rpad(d, 5, ' ')   where d is CHAR(3)

Law: padded are the sides of =, <=>, <, >, <=, >= and their negations, of a list of constants after IN,
and of a CASE with a subject, where one is a column of CHAR as a query names it and the other is a
constant or such a column. What is computed of columns is not padded, nor are the sides of BETWEEN and
of NULLIF, rows, and what a subquery gives.

It depends on what was written (`c = z` is not padded where z is another query's name for 'ab'), so
it is made explicit while names are read. From there on CHAR is a string.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from spark_incr.plan.aggregates import is_aggregate
from spark_incr.plan.syntax import expression_of, unsupported

Length = Callable[[exp.Expr], "int | None"]
Read = Callable[[exp.Expr], exp.Expr]

_COMPARISONS = (
    *(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.LT, exp.LTE, exp.GT, exp.GTE),
)
_HIDDEN_COMPARISONS = ("decode", "equal_null")
_UNPADDED = "Compare with a literal, or with CAST(... AS STRING), which is not padded."
_NO_CONSTANTS = (exp.Identifier, exp.Query, exp.Window)


def padded(node: exp.Expr, length: Length, read: Read) -> exp.Expr | None:
    """A comparison that pads, over what `read` makes of its sides; None for any other node.

    `length` tells how long a side is if it is a column of CHAR.
    """
    if isinstance(node, _COMPARISONS):
        return _pair(type(node), node.left, node.right, length, read)
    if isinstance(node, exp.Case) and node.this and length(node.this) is not None:
        return _searched(node, length, read)
    if isinstance(node, exp.In) and not node.args.get("query"):
        return _listed(node, length, read)
    hidden = isinstance(node, exp.Anonymous) and node.name.lower() in _HIDDEN_COMPARISONS
    if hidden and any(length(e) is not None for e in node.expressions):
        raise unsupported(node, f"{node.name.lower()} of CHAR", _UNPADDED)
    return None


def padded_pair(
    left: exp.Expr, left_length: int | None, right: exp.Expr, right_length: int | None
) -> exp.Expr:
    """Two columns as equal ones, of which none, one or both are CHAR."""
    longest = max(left_length or 0, right_length or 0)
    if left_length is not None and right_length is not None:
        left, right = _filled(left, left_length, longest), _filled(right, right_length, longest)
    return exp.EQ(this=left, expression=right)


def _pair(
    kind: type[exp.Expr], left: exp.Expr, right: exp.Expr, length: Length, read: Read
) -> exp.Expr | None:
    lengths = [_length(side, length) for side in (left, right)]
    columns = [length(side) for side in (left, right)]
    if columns == [None, None]:
        return None
    for side in (left, right):
        if _is_other_constant(side):
            raise unsupported(side, "a computed constant beside CHAR", _UNPADDED)
    if lengths[0] is None or lengths[1] is None or lengths[0] == lengths[1]:
        return None
    longest = max(lengths[0], lengths[1])
    sides = [
        _filled(read(s), n, longest)
        for s, n in zip((left, right), lengths, strict=True)
        if n is not None
    ]
    return kind(this=sides[0], expression=sides[1])


def _searched(case: exp.Case, length: Length, read: Read) -> exp.Expr:
    """CASE c WHEN 'ab' ... as CASE WHEN c = 'ab' ...."""
    branches = []
    for branch in case.args["ifs"]:
        test = _pair(exp.EQ, case.this, branch.this, length, read)
        test = test or exp.EQ(this=read(case.this), expression=read(branch.this))
        branches.append(exp.If(this=test, true=read(branch.args["true"])))
    default = case.args.get("default")
    return exp.Case(ifs=branches, default=None if default is None else read(default))


def _listed(node: exp.In, length: Length, read: Read) -> exp.Expr | None:
    own = length(node.this)
    members = node.expressions
    if own is None or any(isinstance(m.unnest(), exp.Null) for m in members):
        return None
    if not all(_is_text(m) for m in members):
        lengths_there = [length(m) for m in members]
        columns = all(isinstance(m.unnest(), exp.Column) for m in members) and any(lengths_there)
        if columns or all(_is_constant(m) for m in members):
            raise unsupported(node, "IN of CHAR with other members than texts", _UNPADDED)
        return None
    lengths = [own, *(len(m.unnest().name) for m in members)]
    texts = [
        _filled(m.unnest().copy(), n, max(lengths))
        for m, n in zip(members, lengths[1:], strict=True)
    ]
    return exp.In(this=_filled(read(node.this), own, max(lengths)), expressions=texts)


def _length(side: exp.Expr, length: Length) -> int | None:
    return len(side.unnest().name) if _is_text(side) else length(side)


def _filled(side: exp.Expr, own: int, longest: int) -> exp.Expr:
    """A side of a length, filled up to another."""
    if own == longest:
        return side
    if _is_text(side):
        return exp.Literal.string(side.unnest().name.ljust(longest))
    return expression_of(f"rpad($, {longest}, ' ')", side)


def _is_text(side: exp.Expr) -> bool:
    side = side.unnest()
    return isinstance(side, exp.Literal) and side.is_string


def _is_constant(side: exp.Expr) -> bool:
    return not any(isinstance(n, _NO_CONSTANTS) or is_aggregate(n) for n in side.walk())


def _is_other_constant(side: exp.Expr) -> bool:
    """Whether a constant may be a text, and yet is none that can be read here."""
    side = side.unnest()
    if isinstance(side, (exp.Literal, exp.Null, exp.Boolean, exp.Tuple)):
        return False
    return _is_constant(side)
