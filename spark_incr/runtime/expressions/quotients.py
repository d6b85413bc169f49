"""The quotient of two decimals, exactly as Spark rounds it.

Law: the quotient is rounded HALF_UP to 39 digits after the point and then HALF_UP to the result's
scale. A quotient that is not half way between two results is at least 1 / 2|divisor| away from it,
so that one rounding gives the same while |divisor| < 10^(39 - scale). That one is done by long
division on int64, with the product whole * 10^digits in two words.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyspark.sql.types as T

from spark_incr.runtime.expressions.decimals import (
    decimal_array,
    fits,
    magnitude,
    rounded_down,
    too_many_digits,
    wide,
    words_array,
)
from spark_incr.runtime.expressions.evaluation import Mask, Values

QUOTIENT_SCALE = 39
_HALF = np.uint64(2**32 - 1)
_SHIFT = np.uint64(32)


def quotient_array(
    left: Values, right: Values, shift: int, result: T.DecimalType, nulls: Mask | None
) -> pa.Array:
    """left / right * 10^shift as a decimal; the divisor is nowhere 0."""
    digits, bound = shift + result.scale, max(magnitude(right), 1)
    narrow = object not in (left.dtype, right.dtype) and fits(magnitude(left)) and fits(bound * 20)
    if narrow and 0 <= digits <= 18 and bound < 10 ** (QUOTIENT_SCALE - result.scale):
        return _long_division(left, right, digits, result, nulls)
    exact = _round_division(wide(left), wide(right), shift + QUOTIENT_SCALE)
    return decimal_array(rounded_down(exact, QUOTIENT_SCALE - result.scale), result, nulls)


def _round_division(left: Values, right: Values, digits: int) -> Values:
    """left * 10^digits / right, rounded HALF_UP, on Python integers."""
    if digits < 0:
        right = right * 10**-digits
    else:
        left = left * 10**digits
    size = np.abs(right)
    whole: Values = (2 * np.abs(left) + size) // (2 * size)
    return np.where((left < 0) != (right < 0), -whole, whole)


def _long_division(
    left: Values, right: Values, digits: int, result: T.DecimalType, nulls: Mask | None
) -> pa.Array:
    size, bound = np.abs(right), max(magnitude(right), 1)
    at_once = 1
    while fits(bound * 10 ** (at_once + 1)):
        at_once += 1
    whole, rest = np.divmod(np.abs(left), size)
    fraction, todo = np.zeros(len(left), np.int64), digits
    while todo > 0:
        step = min(todo, at_once)
        more, rest = np.divmod(rest * 10**step, size)
        fraction = fraction * 10**step + more
        todo -= step
    fraction += 2 * rest >= size
    low, high = _multiply_add(whole.view(np.uint64), 10**digits, fraction.view(np.uint64))
    top_high, top_low = divmod(10**result.precision, 2**64)
    wrong = (high > top_high) | ((high == top_high) & (low >= top_low))
    if nulls is not None:
        wrong &= ~nulls
    if wrong.any():
        place = int(np.argmax(wrong))
        raise too_many_digits(int(high[place]) * 2**64 + int(low[place]), result)
    negative = (left < 0) != (right < 0)
    flipped = ~low + np.uint64(1)
    high = np.where(negative, ~high + (flipped == 0), high)
    low = np.where(negative, flipped, low)
    return words_array(low.view(np.int64), high.view(np.int64), result, nulls)


def _multiply_add(values: Values, factor: int, more: Values) -> tuple[Values, Values]:
    """values * factor + more in two words, low and high."""
    low_factor, high_factor = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    low_part, high_part = values & _HALF, values >> _SHIFT
    low_low, low_high = low_part * low_factor, low_part * high_factor
    high_low, high_high = high_part * low_factor, high_part * high_factor
    middle = (low_low >> _SHIFT) + (low_high & _HALF) + (high_low & _HALF)
    product = (low_low & _HALF) | (middle << _SHIFT)
    carried = high_high + (low_high >> _SHIFT) + (high_low >> _SHIFT) + (middle >> _SHIFT)
    low = product + more
    return low, carried + (low < product)
