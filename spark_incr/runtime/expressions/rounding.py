"""round, bround, floor and ceil.

Spark rounds a double by way of its decimal text, so that 2.675 rounds to 2.68 although the double
is below it. Law: that text lies between the same two decimals of k digits as the double does, and
on the same side of the half way between them; unless the double is the one nearest to the half
way, which then is its text if it has at most 15 digits. So comparing with that double decides, and
no text is needed below `_FEW_DIGITS`.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.errors import error
from spark_incr.plan.types import INTEGERS
from spark_incr.runtime.expressions import decimals
from spark_incr.runtime.expressions.casts import coerce, saturated
from spark_incr.runtime.expressions.evaluation import (
    Values,
    array_of,
    nulls_of,
    strict,
    values_of,
)
from spark_incr.runtime.expressions.registry import Call, Compiled, kernel

MAX_DIGITS = 15
_FEW_DIGITS = 1e14
_ALL_WHOLE = 2.0**52
_EXACT = Context(prec=MAX_DIGITS + 16)  # a number below `_ALL_WHOLE` has 16 digits before the point


def _digits(call: Call) -> int | None:
    """The literal number of digits after the point, 0 if it is not given."""
    if len(call.operands) == 1:
        return 0
    number = call.operands[1]
    digits = number.value if isinstance(number.type, T.IntegerType) else None
    return digits if digits is not None and 0 <= digits <= MAX_DIGITS else None


def _rounded(call: Call, even: bool) -> Compiled | None:
    digits = _digits(call)
    if digits is None or not call.settings.ansi:
        return None
    operand, result = call.operands[0], call.type
    if isinstance(operand.type, T.DoubleType) and isinstance(result, T.DoubleType):

        def doubles(array: pa.Array) -> pa.Array:
            return array_of(
                round_doubles(values_of(array), digits, even), pa.float64(), nulls_of(array)
            )

        return strict(call, doubles, operands=(operand,))
    if isinstance(operand.type, INTEGERS) and operand.type == result:
        return operand
    if not isinstance(operand.type, T.DecimalType) or not isinstance(result, T.DecimalType):
        return None
    scale, kept = operand.type.scale, min(digits, operand.type.scale)

    def exact(array: pa.Array) -> pa.Array:
        values = decimals.unscaled(array)
        whole = (
            _half_even(values, scale - kept)
            if even
            else decimals.rounded_down(values, scale - kept)
        )
        return decimals.decimal_array(
            decimals.rescaled(whole, kept, result.scale), result, nulls_of(array)
        )

    return strict(call, exact, raises=True, operands=(operand,))


def _half_even(values: Values, digits: int) -> Values:
    if digits == 0:
        return values
    factor = 10**digits
    source = values if decimals.fits(factor * 2) else decimals.wide(values)
    whole, rest = np.abs(source) // factor, np.abs(source) % factor
    up = (2 * rest > factor) | ((2 * rest == factor) & (whole % 2 == 1))
    rounded: Values = whole + up.astype(whole.dtype)
    return np.where(source < 0, -rounded, rounded)


def round_doubles(values: Values, digits: int, even: bool) -> Values:
    """Doubles to the nearest decimal of so many digits; infinities and NaN stay.

    >>> round_doubles(np.array([2.675, -0.4, 0.125]), 2, even=False).tolist()
    [2.68, -0.4, 0.13]
    """
    factor = 10.0**digits
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(values)
        plain = size * factor < _FEW_DIGITS
        whole = np.floor(size * factor)
        half = (2 * whole + 1) / (2 * factor)
        up = (size > half) | ((size == half) & (whole % 2 == 1)) if even else size >= half
        rounded: Values = np.copysign((whole + up) / factor, values) + 0.0
    if plain.all():
        return rounded
    result = np.where(plain, rounded, values)
    for place in np.flatnonzero(~plain & (size < _ALL_WHOLE)):
        result[place] = _by_text(float(values[place]), digits, even)
    return result


def _by_text(value: float, digits: int, even: bool) -> float:
    """Where decimals of so many digits are about as dense as doubles."""
    mode = ROUND_HALF_EVEN if even else ROUND_HALF_UP
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), mode, _EXACT))


@kernel(
    exp.Round,
    words="double, decimals, integers; a literal number of digits that is not negative",
    arguments=("this", "decimals"),
)
def round_half_up(call: Call) -> Compiled | None:
    return _rounded(call, even=False)


@kernel("bround", words="as round")
def round_half_even(call: Call) -> Compiled | None:
    return _rounded(call, even=True) if len(call.operands) in (1, 2) else None


@kernel(exp.Floor, exp.Ceil, words="double, decimals, integers; NaN gives 0", arguments=("this",))
def floor_or_ceil(call: Call) -> Compiled | None:
    (operand,) = call.operands
    result, down = call.type, isinstance(call.node, exp.Floor)
    if isinstance(operand.type, T.DoubleType) and isinstance(result, T.LongType):
        whole = np.floor if down else np.ceil

        def doubles(array: pa.Array) -> pa.Array:
            nulls, values = nulls_of(array), whole(values_of(array))
            large = (values >= 2.0**63) | (values < -(2.0**63))
            if large.any() and (nulls is None or bool((large & ~nulls).any())):
                raise error("ARITHMETIC_OVERFLOW", what="floor" if down else "ceil")
            return array_of(saturated(values), pa.int64(), nulls)

        return strict(call, doubles, raises=True) if call.settings.ansi else None
    if isinstance(operand.type, INTEGERS):
        return coerce(operand, result)
    if not isinstance(operand.type, T.DecimalType) or not isinstance(result, T.DecimalType):
        return None
    factor = 10**operand.type.scale
    if result.scale != 0:
        return None

    def exact(array: pa.Array) -> pa.Array:
        values = decimals.unscaled(array)
        if not decimals.fits(factor):
            values = decimals.wide(values)
        whole = values // factor if down else -(-values // factor)
        return decimals.decimal_array(whole, result, nulls_of(array))

    return strict(call, exact)
