"""Comparisons and three-valued logic.

Order of values: NaN equals NaN and is greater than everything, -0.0 equals 0.0, strings and
binaries compare as unsigned bytes. AND does not look right where the left side is false, OR where
it is true; NULL is no reason not to look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.types import FLOATS, INTEGERS, arrow_type
from spark_incr.runtime.expressions.casts import (
    coerce,
    common_type,
    counted_beside,
    read_beside,
    rounded_to,
    shortened_decimal,
)
from spark_incr.runtime.expressions.decimals import comparable, scale_of
from spark_incr.runtime.expressions.evaluation import (
    any_null,
    array_of,
    lazily,
    strict,
    true_rows,
    values_of,
)
from spark_incr.runtime.expressions.registry import Call, Compiled, Settings, kernel, literal

Compare = Callable[[pa.Array, pa.Array], pa.Array]

_REST = "strings, binaries, booleans, dates, times"
ORDERED = f"numbers of any two types, {_REST}"
_PLAIN = (
    *INTEGERS,
    T.BooleanType,
    T.StringType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.DecimalType,
)


def _float_aware(compare: Compare, numeric: Callable[..., np.ndarray]) -> Compare:
    """A comparison that knows NaN: where one is met, ranks decide instead of IEEE."""

    def function(left: pa.Array, right: pa.Array) -> pa.Array:
        first, second = values_of(left), values_of(right)
        left_nan, right_nan = np.isnan(first), np.isnan(second)
        if not left_nan.any() and not right_nan.any():
            return compare(left, right)
        both = numeric(first, second)
        ranked = numeric(left_nan, right_nan)
        result = np.where(left_nan | right_nan, ranked, both)
        return array_of(result, pa.bool_(), any_null(left, right))

    return function


def _decimal_aware(
    numeric: Callable[..., np.ndarray], left_scale: int, right_scale: int
) -> Compare:
    """A comparison of decimals or integers, without the cast to their common type."""

    def function(left: pa.Array, right: pa.Array) -> pa.Array:
        sides = comparable(left, left_scale, right, right_scale)
        return array_of(numeric(*sides).astype(np.bool_), pa.bool_(), any_null(left, right))

    return function


def comparison_of(
    symbol: str, left: Compiled, right: Compiled, settings: Settings
) -> tuple[Compiled, Compiled, Compare] | None:
    """Both operands in types that compare, and the comparison of their values."""
    left, right = read_beside(left, right, settings), read_beside(right, left, settings)
    left, right = counted_beside(left, right), counted_beside(right, left)
    kind = common_type(left.type, right.type, settings)
    if kind is None:
        return _shortened(symbol, left, right, settings)
    sides = coerce(left, kind), coerce(right, kind)
    if sides[0] is None or sides[1] is None:
        return None
    plain, numeric = _COMPARISONS[symbol]
    if isinstance(kind, T.DecimalType) and not left.is_null and not right.is_null:
        return left, right, _decimal_aware(numeric, scale_of(left.type), scale_of(right.type))
    if isinstance(kind, FLOATS):
        return sides[0], sides[1], _float_aware(plain, numeric)
    return (sides[0], sides[1], plain) if isinstance(kind, _PLAIN) else None


def _shortened(
    symbol: str, left: Compiled, right: Compiled, settings: Settings
) -> tuple[Compiled, Compiled, Compare] | None:
    """The comparison of decimals of which no type holds both: each is rounded to one that nearly does."""
    kind = shortened_decimal(left.type, right.type, settings)
    if kind is None or any(_digits_unknown(operand) for operand in (left, right)):
        return None
    first, second = (rounded_to(operand, kind) for operand in (left, right))
    return first, second, _decimal_aware(_COMPARISONS[symbol][1], kind.scale, kind.scale)


def _digits_unknown(operand: Compiled) -> bool:
    """Whether a whole number may be one that is written with its type, as 5L, or one that is cast to it."""
    return isinstance(operand.type, INTEGERS) and operand.scalar is not None


_COMPARISONS: dict[str, tuple[Compare, Callable[..., np.ndarray]]] = {
    "=": (pc.equal, np.equal),
    "<>": (pc.not_equal, np.not_equal),
    "<": (pc.less, np.less),
    "<=": (pc.less_equal, np.less_equal),
    ">": (pc.greater, np.greater),
    ">=": (pc.greater_equal, np.greater_equal),
}
_SYMBOLS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


@kernel(*_SYMBOLS, words=ORDERED)
def compare(call: Call) -> Compiled | None:
    left, right = call.operands
    found = comparison_of(_SYMBOLS[type(call.node)], left, right, call.settings)
    return None if found is None else strict(call, found[2], operands=found[:2])


@kernel(exp.NullSafeEQ, exp.NullSafeNEQ, words=ORDERED + "; NULL equals NULL")
def null_safe(call: Call) -> Compiled | None:
    found = comparison_of("=", call.operands[0], call.operands[1], call.settings)
    if found is None:
        return None
    left, right, equal = found
    differs = isinstance(call.node, exp.NullSafeNEQ)

    def evaluate(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        first, second = left.evaluate(columns, n), right.evaluate(columns, n)
        same = equal(first, second)
        if first.null_count or second.null_count:
            same = pc.if_else(same.is_valid(), same, pc.and_(first.is_null(), second.is_null()))
        return pc.invert(same) if differs else same

    return Compiled(call.type, evaluate, call.columns, left.raises or right.raises)


def _is_operands(node: exp.Expr) -> list[exp.Expr] | None:
    test = node.args.get("expression")
    return [node.this] if isinstance(test, exp.Null | exp.Boolean) else None


@kernel(exp.Is, words="NULL, TRUE or FALSE", operands=_is_operands)
def is_test(call: Call) -> Compiled | None:
    (operand,) = call.operands
    test = call.node.args["expression"]

    def evaluate(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        array = operand.evaluate(columns, n)
        if isinstance(test, exp.Null):
            return array.is_null()
        return pc.fill_null(array if test.this else pc.invert(array), False)

    if not isinstance(test, exp.Null) and not isinstance(operand.type, T.BooleanType):
        return None
    return Compiled(call.type, evaluate, call.columns, operand.raises)


@kernel("isnull", "isnotnull", words="any type")
def is_null(call: Call) -> Compiled | None:
    (operand,) = call.operands
    wanted = call.node.name.lower() == "isnull"

    def evaluate(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        array = operand.evaluate(columns, n)
        return array.is_null() if wanted else array.is_valid()

    return Compiled(call.type, evaluate, call.columns, operand.raises)


@kernel(exp.IsNan, words="float and double; NULL is not NaN", arguments=("this",))
def is_nan(call: Call) -> Compiled | None:
    (operand,) = call.operands
    if not isinstance(operand.type, FLOATS):
        return None

    def evaluate(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        return pc.fill_null(pc.is_nan(operand.evaluate(columns, n)), False)

    return Compiled(call.type, evaluate, call.columns, operand.raises)


def _booleans(call: Call) -> list[Compiled] | None:
    found = [coerce(operand, T.BooleanType()) for operand in call.operands]
    return None if None in found else [operand for operand in found if operand is not None]


@kernel(
    exp.And, exp.Or, words="booleans, three-valued; the right side is evaluated only where needed"
)
def junction(call: Call) -> Compiled | None:
    operands = _booleans(call)
    if operands is None:
        return None
    is_and = isinstance(call.node, exp.And)
    decided = literal(pa.scalar(not is_and), T.BooleanType())
    if any(o.scalar is not None and o.scalar == decided.scalar for o in operands):
        return decided
    return _joined(call, operands[0], operands[1], is_and)


def _joined(call: Call, left: Compiled, right: Compiled, is_and: bool) -> Compiled:
    """left AND right, or OR: what may fail on the right sees the rows that the left leaves open."""
    combine = pc.and_kleene if is_and else pc.or_kleene

    def evaluate(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        first = left.evaluate(columns, n)
        if not right.raises:
            return combine(first, right.evaluate(columns, n))
        settled = true_rows(pc.invert(first) if is_and else first)
        return combine(first, lazily(right, columns, n, ~settled))

    return Compiled(call.type, evaluate, call.columns, left.raises or right.raises)


@kernel(exp.Not, words="booleans, three-valued", arguments=("this",))
def negation(call: Call) -> Compiled | None:
    operands = _booleans(call)
    return None if operands is None else strict(call, pc.invert, operands=operands)


@kernel(exp.Between, words=ORDERED, arguments=("this", "low", "high"))
def between(call: Call) -> Compiled | None:
    value, low, high = call.operands
    above = comparison_of(">=", value, low, call.settings)
    below = comparison_of("<=", value, high, call.settings)
    if above is None or below is None:
        return None
    left, right = (strict(call, found[2], operands=found[:2]) for found in (above, below))
    return _joined(call, left, right, is_and=True)


@kernel(
    exp.In,
    words=f"numbers of types that widen exactly, {_REST}; a list of values",
    arguments=("this", "expressions"),
)
def is_in(call: Call) -> Compiled | None:
    value, *items = call.operands
    items = [read_beside(item, value, call.settings) for item in items]
    kind: T.DataType | None = value.type
    for item in items:
        kind = None if kind is None else common_type(kind, item.type, call.settings)
    if kind is None or not items or not isinstance(kind, (*_PLAIN, *FLOATS)):
        return None
    subject, members = coerce(value, kind), [coerce(item, kind) for item in items]
    if subject is None or None in members or any(item.raises for item in items):
        return None
    present = [member for member in members if member is not None and not member.is_null]
    found = _contained(subject, present, kind)
    has_null = len(present) < len(members)

    def evaluate(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        array = subject.evaluate(columns, n)
        inside = found(array, columns, n)
        if has_null:
            inside = pc.if_else(inside, True, pa.scalar(None, pa.bool_()))
        return inside if array.null_count == 0 else pc.if_else(array.is_valid(), inside, None)

    return Compiled(call.type, evaluate, call.columns, subject.raises)


def _contained(
    subject: Compiled, members: Sequence[Compiled], kind: T.DataType
) -> Callable[[pa.Array, Mapping[str, pa.Array], int], pa.Array]:
    """Whether a value is one of the members: by a hash table if these are literals."""
    if not isinstance(kind, FLOATS) and all(member.scalar is not None for member in members):
        known = pa.array([member.scalar for member in members], arrow_type(kind))
        return lambda array, columns, n: pc.is_in(array, known)
    plain, numeric = _COMPARISONS["="]
    equal = _float_aware(plain, numeric) if isinstance(kind, FLOATS) else plain

    def search(array: pa.Array, columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        found = pa.repeat(pa.scalar(False), n)
        for member in members:
            found = pc.or_kleene(found, equal(array, member.evaluate(columns, n)))
        return found

    return search
