"""sqrt, power, sign, greatest and least.

Law: a row is the same bit by bit whether Spark or a kernel has computed it, or its deletion would not
find it. IEEE 754 rounds sqrt, products and quotients in one way only. exp, ln and the other powers are
not here: Java's StrictMath and the C library differ in the last bit of a few among a hundred values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.runtime.expressions.casts import coerce
from spark_incr.runtime.expressions.comparison import comparison_of
from spark_incr.runtime.expressions.evaluation import Values, array_of, nulls_of, strict, values_of
from spark_incr.runtime.expressions.registry import Call, Compiled, kernel, null

NUMBERS = "any number, as a double"


def _as_doubles(call: Call, function: Callable[..., pa.Array]) -> Compiled | None:
    found = [coerce(operand, T.DoubleType()) for operand in call.operands]
    if None in found or not isinstance(call.type, T.DoubleType):
        return None
    return strict(call, function, operands=[operand for operand in found if operand is not None])


@kernel(exp.Sqrt, words=NUMBERS, arguments=("this",))
def sqrt(call: Call) -> Compiled | None:
    return _as_doubles(call, pc.sqrt)


_POWERS: dict[float, Callable[[Values], Values]] = {
    -1.0: lambda base: 1.0 / base,
    0.0: np.ones_like,
    0.5: lambda base: np.where(np.isneginf(base), np.inf, np.sqrt(base + 0.0)),
    1.0: lambda base: base,
    2.0: lambda base: base * base,
}
"""The exponents for which StrictMath rounds once."""


@kernel(exp.Pow, words=NUMBERS + f"; to the literal power of {', '.join(map(str, _POWERS))}")
def power(call: Call) -> Compiled | None:
    exponent = coerce(call.operands[1], T.DoubleType())
    raised = None if exponent is None else _POWERS.get(exponent.value)
    if raised is None:
        return None

    def evaluate(base: pa.Array, _: pa.Array) -> pa.Array:
        with np.errstate(all="ignore"):
            return array_of(raised(values_of(base)), pa.float64(), nulls_of(base))

    return _as_doubles(call, evaluate)


@kernel(exp.Sign, words=NUMBERS, arguments=("this",))
def sign(call: Call) -> Compiled | None:
    def evaluate(array: pa.Array) -> pa.Array:
        values = values_of(array)
        kept = (values == 0) | np.isnan(values)
        return array_of(
            np.where(kept, values, np.copysign(1.0, values)), pa.float64(), nulls_of(array)
        )

    return _as_doubles(call, evaluate)


@kernel(
    exp.Greatest,
    exp.Least,
    words="values of one type, or of types that widen exactly; NULLs are skipped, NaN is greatest",
    arguments=("this", "expressions"),
    flags=("ignore_nulls",),
)
def extreme(call: Call) -> Compiled | None:
    found = [coerce(operand, call.type) for operand in call.operands]
    if None in found:
        return None
    parts = [part for part in found if part is not None and not part.is_null]
    if not parts:
        return null(call.type)
    symbol = ">" if isinstance(call.node, exp.Greatest) else "<"
    comparison = comparison_of(symbol, parts[0], parts[0], call.settings)
    if comparison is None:
        return None
    beats = comparison[2]

    def evaluate(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        best = parts[0].evaluate(columns, n)
        for part in parts[1:]:
            other = part.evaluate(columns, n)
            taken = pc.if_else(best.is_valid(), pc.fill_null(beats(other, best), False), True)
            best = pc.if_else(pc.and_(taken, other.is_valid()), other, best)
        return best

    return Compiled(call.type, evaluate, call.columns, any(part.raises for part in parts))
