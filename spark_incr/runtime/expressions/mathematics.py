"""sqrt, exp, ln, power, sign, greatest and least.

sqrt is exact by IEEE 754. exp, ln and power come from the C library, whose error is below 0.6 units
in the last place, and Java's StrictMath is below 1: the two differ by at most one unit. log10 is
not here: the parser does not tell log10(x) from log(10, x), which Spark computes differently.
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
from spark_incr.runtime.expressions.evaluation import array_of, nulls_of, strict, values_of
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


@kernel(exp.Exp, words=NUMBERS, arguments=("this",))
def exponential(call: Call) -> Compiled | None:
    return _as_doubles(call, pc.exp)


@kernel(exp.Ln, words=NUMBERS + "; NULL for what is not positive", arguments=("this",))
def logarithm(call: Call) -> Compiled | None:
    def evaluate(array: pa.Array) -> pa.Array:
        return pc.ln(pc.if_else(pc.less_equal(array, 0.0), None, array))

    return _as_doubles(call, evaluate)


@kernel(exp.Pow, words=NUMBERS)
def power(call: Call) -> Compiled | None:
    def evaluate(base: pa.Array, exponent: pa.Array) -> pa.Array:
        raised = pc.power(base, exponent)
        # C says that 1 to any power is 1, and so is -1 to an infinite one; Java says NaN.
        bases, exponents = values_of(base), values_of(exponent)
        strange = (np.abs(bases) == 1) & ~np.isfinite(exponents)
        return pc.if_else(pa.array(strange), np.nan, raised) if strange.any() else raised

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
