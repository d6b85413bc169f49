"""Joins of every kind from a condition: keys to look up by, and laws for what is no key.

A condition that reads one side is no key: of the side that may be dropped it is a filter, of the
side that is kept it is a key that is NULL, and so matches nothing, where it does not hold.

Let p be what reads both sides and is no equality. With L' the distinct rows of L and c(l) how often
each occurs, M = σp(L' ⋈ R'), δ the distinct rows, and ρ the repetition of rows,

    L ⋉ R = ρc(δ πL'(M))                L ▷ R = ρc(L') ⊎ ρ-c(δ πL'(M))
    L ⟕ R = ρc·c(M) ⊎ (L ▷ R) × NULLs

so that each side is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.context import Context
from spark_incr.plan.nodes import (
    Aggregate,
    Call,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    Repeat,
    UnionAll,
    column,
    columns_in,
    conjuncts,
)
from spark_incr.plan.types import Field, Schema, type_text


def join_on(
    left: Node, right: Node, condition: exp.Expr | None, kind: JoinKind, context: Context
) -> Node:
    """The join of two nodes on any condition; columns are those of the left, then of the right."""
    if kind is JoinKind.RIGHT:
        swapped = join_on(right, left, condition, JoinKind.LEFT, context)
        return only(swapped, (*left.names, *right.names))
    names = left.names if kind.left_only else (*left.names, *right.names)
    left_names, right_names = set(left.names), set(right.names)
    pairs: list[tuple[exp.Expr, exp.Expr, bool]] = []
    rest: list[exp.Expr] = []
    for part in conjuncts(condition) if condition is not None else []:
        pair = equality(part, left_names, right_names)
        if pair is not None:
            pairs.append(pair)
        elif columns_in(part) <= right_names and kind is not JoinKind.FULL:
            right = Filter(right.schema, right, part)
        elif columns_in(part) <= left_names:
            pairs.append((_true_or_null(part), exp.true(), False))
        elif columns_in(part) <= right_names:
            pairs.append((exp.true(), _true_or_null(part), False))
        else:
            rest.append(part)
    if not rest:
        return only(keyed_join(left, right, pairs, kind, context), names)
    return _join_by_rows(left, right, pairs, rest, kind, context)


def _join_by_rows(
    left: Node,
    right: Node,
    pairs: list[tuple[exp.Expr, exp.Expr, bool]],
    rest: list[exp.Expr],
    kind: JoinKind,
    context: Context,
) -> Node:
    here, there = _counted(left, context), _counted(right, context)
    matched: Node = keyed_join(here.rows, there.rows, pairs, JoinKind.INNER, context)
    for part in rest:
        matched = Filter(matched.schema, matched, part)
    if kind is JoinKind.SEMI:
        return _repeated(_distinct_rows(matched, here), here.count, left.names, context)
    alone = _alone(matched, here, left.names, context)
    if kind is JoinKind.ANTI:
        return alone
    names = (*left.names, *right.names)
    times = exp.Mul(this=column(here.count), expression=column(there.count))
    results = [_repeated(matched, times, names, context), with_nulls(alone, names, right.schema)]
    if kind is JoinKind.FULL:
        alone = _alone(matched, there, right.names, context)
        results.append(with_nulls(alone, names, left.schema))
    return _union(results, (*left.schema, *right.schema), context)


@dataclass(frozen=True)
class _Counted:
    """The distinct rows of a relation, and the column that counts them."""

    rows: Aggregate
    count: str


def _counted(node: Node, context: Context) -> _Counted:
    call = Call(context.names.fresh("times"), "count", (), T.LongType())
    schema = (*node.schema, Field(call.name, call.type))
    return _Counted(Aggregate(schema, node, node.names, (call,), exact=True), call.name)


def _distinct_rows(matched: Node, side: _Counted) -> Node:
    """The rows of one side that matched."""
    rows = only(matched, side.rows.names)
    return Aggregate(rows.schema, rows, rows.names, (), exact=True)


def _alone(matched: Node, side: _Counted, names: tuple[str, ...], context: Context) -> Node:
    """The rows of one side that matched nothing: all of them, less those that matched."""
    all_rows = _repeated(side.rows, side.count, names, context)
    less = _repeated(
        _distinct_rows(matched, side), exp.Neg(this=column(side.count)), names, context
    )
    return _union([all_rows, less], tuple(f for f in side.rows.schema if f.name in names), context)


def _repeated(node: Node, times: str | exp.Expr, names: tuple[str, ...], context: Context) -> Node:
    """The named columns of a node, each row as often as `times` says."""
    number = column(times) if isinstance(times, str) else times
    name = context.names.fresh("times")
    fields = {f.name: f for f in node.schema}
    kept = tuple(fields[n] for n in names)
    projected = Project(
        (*kept, Field(name, T.LongType())), node, (*(column(n) for n in names), number)
    )
    return Repeat(kept, projected, name)


def _union(nodes: list[Node], schema: Schema, context: Context) -> Node:
    """The sum of nodes of one schema, under the same names."""
    fresh = tuple(Field(context.names.fresh(f.name), f.type) for f in schema)
    inputs = []
    for node in nodes:
        own = tuple(Field(context.names.fresh(f.name), f.type) for f in schema)
        inputs.append(Project(own, node, tuple(column(f.name) for f in schema)))
    union = UnionAll(fresh, tuple(inputs))
    return Project(schema, union, tuple(column(f.name) for f in fresh))


def keyed_join(
    left: Node,
    right: Node,
    pairs: list[tuple[exp.Expr, exp.Expr, bool]],
    kind: JoinKind,
    context: Context,
) -> Join:
    """A join on pairs of expressions (and whether NULL equals NULL), computed below it."""
    keys: list[tuple[str, str]] = []
    for here, there, _ in pairs:
        (left_type,) = context.analyzer.types(left.schema, [here])
        (right_type,) = context.analyzer.types(right.schema, [there])
        compared = left_type
        if left_type != right_type:
            compared = context.analyzer.comparison_type(left_type, right_type)
        left, left_key = _with_key(left, cast_to(here, left_type, compared), compared, context)
        right, right_key = _with_key(right, cast_to(there, right_type, compared), compared, context)
        keys.append((left_key, right_key))
    schema = left.schema if kind.left_only else left.schema + right.schema
    return Join(schema, left, right, tuple(keys), kind, tuple(safe for _, _, safe in pairs))


def equality(
    part: exp.Expr, left: set[str], right: set[str]
) -> tuple[exp.Expr, exp.Expr, bool] | None:
    """A condition as a pair of keys, left first, if it equates the two sides."""
    if not isinstance(part, (exp.EQ, exp.NullSafeEQ)):
        return None
    here, there = columns_in(part.left), columns_in(part.right)
    safe = isinstance(part, exp.NullSafeEQ)
    if here and there and here <= left and there <= right:
        return part.left, part.right, safe
    if here and there and here <= right and there <= left:
        return part.right, part.left, safe
    return None


def only(node: Node, names: tuple[str, ...]) -> Node:
    """Exactly the named columns, in this order."""
    if node.names == names:
        return node
    fields = {f.name: f for f in node.schema}
    return Project(tuple(fields[n] for n in names), node, tuple(column(n) for n in names))


def cast_to(expression: exp.Expr, source: T.DataType, target: T.DataType) -> exp.Expr:
    """The expression in the target type."""
    if source == target:
        return expression
    return exp.Cast(this=expression, to=exp.DataType.build(type_text(target), dialect="spark"))


def _with_key(
    node: Node, key: exp.Expr, key_type: T.DataType, context: Context
) -> tuple[Node, str]:
    """The node with the key among its columns."""
    if isinstance(key, exp.Column):
        return node, key.name
    name = context.names.fresh("join_key")
    expressions = (*(column(n) for n in node.names), key)
    return Project((*node.schema, Field(name, key_type)), node, expressions), name


def _true_or_null(condition: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=exp.true())])


def with_nulls(rows: Node, names: tuple[str, ...], other: tuple[Field, ...]) -> Node:
    """The rows extended by NULLs in the columns that only the other side has."""
    types = {f.name: f.type for f in (*rows.schema, *other)}
    own = set(rows.names)
    expressions = tuple(
        column(n) if n in own else cast_to(exp.null(), T.NullType(), types[n]) for n in names
    )
    return Project(tuple(Field(n, types[n]) for n in names), rows, expressions)
