"""+ - * / DIV % and the signs. ANSI: what does not fit, and a zero divisor, is an error.

The result type is told by Spark; operands are brought to it (integers, floats) or are used as they
are (decimals, whose exact result is rounded HALF_UP to the result's scale). A division looks at
its divisor first, so a row whose divisor is NULL does not evaluate the dividend.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.errors import error
from spark_incr.plan.types import FLOATS, INTEGERS
from spark_incr.runtime.expressions import decimals
from spark_incr.runtime.expressions.casts import coerce
from spark_incr.runtime.expressions.dates import DATES_AND_TIMES, moved
from spark_incr.runtime.expressions.decimals import as_decimal, scale_of, unscaled
from spark_incr.runtime.expressions.evaluation import (
    Mask,
    Values,
    any_null,
    array_of,
    checked,
    nulls_of,
    strict,
    values_of,
)
from spark_incr.runtime.expressions.quotients import quotient_array
from spark_incr.runtime.expressions.registry import Call, Compiled, kernel, null

NUMBERS = "integers, float, double and decimals; mixed operands as Spark widens them"
_DIVISOR_FIRST = (1, 0)
# Spark negates decimals in a context of 34 digits, which rounds those that have more, and finds a
# remainder only if the whole quotient fits its context.
_CONTEXT = 34


def _same_type(call: Call) -> list[Compiled] | None:
    """The operands in the result's type."""
    found = [coerce(operand, call.type) for operand in call.operands]
    return None if None in found else [operand for operand in found if operand is not None]


def _null_operand(call: Call) -> bool:
    return any(operand.is_null for operand in call.operands)


def _all_decimal(call: Call) -> bool:
    return all(as_decimal(operand.type) is not None for operand in call.operands)


def _sum_or_product(
    call: Call,
    what: str,
    integer: Callable[[pa.Array, pa.Array], pa.Array],
    floating: Callable[[pa.Array, pa.Array], pa.Array],
    decimal: Callable[[Values, int, Values, int], tuple[Values, int]],
) -> Compiled | None:
    if not call.settings.ansi:
        return None
    if _null_operand(call):
        return null(call.type)
    result = call.type
    if isinstance(result, T.DecimalType):
        if not _all_decimal(call):
            return None
        left_scale, right_scale = (scale_of(operand.type) for operand in call.operands)

        def exact(left: pa.Array, right: pa.Array) -> pa.Array:
            values, scale = decimal(unscaled(left), left_scale, unscaled(right), right_scale)
            rounded = decimals.rescaled(values, scale, result.scale)
            return decimals.decimal_array(rounded, result, any_null(left, right))

        return strict(call, exact, raises=True)
    operands = _same_type(call)
    if operands is None:
        return None
    if isinstance(result, INTEGERS):
        return strict(
            call,
            lambda left, right: checked(what, integer, left, right),
            raises=True,
            operands=operands,
        )
    return strict(call, floating, operands=operands) if isinstance(result, FLOATS) else None


def _added(left: Values, left_scale: int, right: Values, right_scale: int) -> tuple[Values, int]:
    sides = decimals.aligned(left, left_scale, right, right_scale)
    return decimals.added(*sides), max(left_scale, right_scale)


def _subtracted(
    left: Values, left_scale: int, right: Values, right_scale: int
) -> tuple[Values, int]:
    return _added(left, left_scale, _negated(right), right_scale)


def _negated(values: Values) -> Values:
    return -(values if decimals.fits(decimals.magnitude(values)) else decimals.wide(values))


def _multiplied(
    left: Values, left_scale: int, right: Values, right_scale: int
) -> tuple[Values, int]:
    return decimals.multiplied(left, right), left_scale + right_scale


@kernel(exp.Add, words=NUMBERS + "; date and days, date or timestamp and a literal interval")
def add(call: Call) -> Compiled | None:
    if isinstance(call.type, DATES_AND_TIMES):
        return moved(call, 1)
    return _sum_or_product(call, "+", pc.add_checked, pc.add, _added)


@kernel(exp.Sub, words=NUMBERS + "; date and days, date or timestamp and a literal interval")
def subtract(call: Call) -> Compiled | None:
    if isinstance(call.type, DATES_AND_TIMES):
        return moved(call, -1)
    return _sum_or_product(call, "-", pc.subtract_checked, pc.subtract, _subtracted)


@kernel(exp.Mul, words=NUMBERS)
def multiply(call: Call) -> Compiled | None:
    return _sum_or_product(call, "*", pc.multiply_checked, pc.multiply, _multiplied)


def _nonzero(divisor: Values, nulls: Mask | None, condition: str) -> Values:
    """The divisor, checked where both sides are there, and 1 where one is not."""
    zero = divisor == 0
    if not zero.any():
        return divisor
    if nulls is None or bool((zero & ~nulls).any()):
        raise error(condition)
    return np.where(zero, divisor.dtype.type(1) if divisor.dtype != object else 1, divisor)


@kernel(exp.Div, words=NUMBERS + "; whole numbers give a double", flags=("typed", "safe"))
def divide(call: Call) -> Compiled | None:
    if not call.settings.ansi:
        return None
    if _null_operand(call):
        return null(call.type)
    result = call.type
    if isinstance(result, T.DecimalType):
        if not _all_decimal(call):
            return None
        left_scale, right_scale = (scale_of(operand.type) for operand in call.operands)

        def exact(left: pa.Array, right: pa.Array) -> pa.Array:
            nulls = any_null(left, right)
            divisor = _nonzero(unscaled(right), nulls, "DIVIDE_BY_ZERO")
            shift = right_scale - left_scale
            return quotient_array(unscaled(left), divisor, shift, result, nulls)

        return strict(call, exact, raises=True, order=_DIVISOR_FIRST)
    operands = _same_type(call)
    if operands is None or not isinstance(result, T.DoubleType):
        return None

    def floating(left: pa.Array, right: pa.Array) -> pa.Array:
        divisor = values_of(right)
        if not divisor.all():
            _nonzero(divisor, any_null(left, right), "DIVIDE_BY_ZERO")
        return pc.divide(left, right)

    return strict(call, floating, raises=True, operands=operands, order=_DIVISOR_FIRST)


@kernel(exp.IntDiv, words="integers; the result is a bigint")
def integral_divide(call: Call) -> Compiled | None:
    if not call.settings.ansi or not isinstance(call.type, T.LongType):
        return None
    if _null_operand(call):
        return null(call.type)
    if not all(isinstance(operand.type, INTEGERS) for operand in call.operands):
        return None

    def whole(left: pa.Array, right: pa.Array) -> pa.Array:
        nulls = any_null(left, right)
        divisor = _nonzero(values_of(right), nulls, "DIVIDE_BY_ZERO")
        dividend = values_of(left)
        if nulls is not None:
            dividend = np.where(nulls, 0, dividend)
        if bool(((divisor == -1) & (dividend == np.iinfo(np.int64).min)).any()):
            raise error("ARITHMETIC_OVERFLOW", what="div")
        quotient = dividend // divisor
        truncated = quotient + ((quotient < 0) & (quotient * divisor != dividend))
        return array_of(truncated, pa.int64(), nulls)

    operands = _same_type(call)
    return (
        None
        if operands is None
        else strict(call, whole, raises=True, operands=operands, order=_DIVISOR_FIRST)
    )


@kernel(exp.Mod, words=NUMBERS)
def modulo(call: Call) -> Compiled | None:
    if not call.settings.ansi:
        return None
    if _null_operand(call):
        return null(call.type)
    result = call.type
    if isinstance(result, T.DecimalType):
        if not _all_decimal(call):
            return None
        left_scale, right_scale = (scale_of(operand.type) for operand in call.operands)
        dividend = as_decimal(call.operands[0].type)
        if dividend is None or dividend.precision - left_scale + right_scale > _CONTEXT:
            return None

        def exact(left: pa.Array, right: pa.Array) -> pa.Array:
            nulls = any_null(left, right)
            divisor = _nonzero(unscaled(right), nulls, "REMAINDER_BY_ZERO")
            sides = decimals.aligned(unscaled(left), left_scale, divisor, right_scale)
            rest = decimals.remainder(*sides)
            values = decimals.rescaled(rest, max(left_scale, right_scale), result.scale)
            return decimals.decimal_array(values, result, nulls)

        return strict(call, exact, raises=True, order=_DIVISOR_FIRST)
    operands = _same_type(call)
    if operands is None or not isinstance(result, INTEGERS + FLOATS):
        return None

    def rest(left: pa.Array, right: pa.Array) -> pa.Array:
        nulls = any_null(left, right)
        divisor = _nonzero(values_of(right), nulls, "REMAINDER_BY_ZERO")
        with np.errstate(invalid="ignore"):
            return array_of(np.fmod(values_of(left), divisor), call.arrow, nulls)

    return strict(call, rest, raises=True, operands=operands, order=_DIVISOR_FIRST)


@kernel(exp.Neg, exp.Negative, words="integers, float, double, decimals", arguments=("this",))
def negate(call: Call) -> Compiled | None:
    return _signed(call, "-", pc.negate_checked, pc.negate, _negated)


@kernel(exp.Abs, words="integers, float, double, decimals", arguments=("this",))
def absolute(call: Call) -> Compiled | None:
    return _signed(call, "abs", pc.abs_checked, pc.abs, np.abs)


def _signed(
    call: Call,
    what: str,
    integer: Callable[[pa.Array], pa.Array],
    floating: Callable[[pa.Array], pa.Array],
    decimal: Callable[[Values], Values],
) -> Compiled | None:
    result = call.type
    if not call.settings.ansi or call.operands[0].type != result:
        return None
    if isinstance(result, INTEGERS):
        return strict(call, lambda array: checked(what, integer, array), raises=True)
    if isinstance(result, FLOATS):
        return strict(call, floating)
    if isinstance(result, T.DecimalType) and result.precision <= _CONTEXT:

        def exact(array: pa.Array) -> pa.Array:
            return decimals.decimal_array(decimal(unscaled(array)), result, nulls_of(array))

        return strict(call, exact)
    return None
