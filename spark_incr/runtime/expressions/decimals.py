"""Decimals as whole numbers: a column of DECIMAL(p, s) is unscaled integers u with value u / 10^s.

All arithmetic is exact and rounds HALF_UP once, as Java's BigDecimal. Values are int64 while the
largest magnitude shows that nothing can wrap, and Python integers otherwise; never floats.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyspark.sql.types as T

from spark_incr.errors import IncrementalError, error
from spark_incr.runtime.expressions.evaluation import Mask, Values, nulls_of, values_of

MAX_PRECISION = 38
INT_DIGITS: dict[type[T.DataType], int] = {
    T.ByteType: 3,
    T.ShortType: 5,
    T.IntegerType: 10,
    T.LongType: 20,
}
_WORD = 2**63


def as_decimal(spark_type: T.DataType) -> T.DecimalType | None:
    """The decimal type that holds every value of an integer or decimal type."""
    if isinstance(spark_type, T.DecimalType):
        return spark_type
    digits = INT_DIGITS.get(type(spark_type))
    return None if digits is None else T.DecimalType(digits, 0)


def scale_of(spark_type: T.DataType) -> int:
    """The number of digits after the point; integers have none."""
    return spark_type.scale if isinstance(spark_type, T.DecimalType) else 0


def unscaled(array: pa.Array) -> Values:
    """The unscaled values of a decimal or integer array, 0 where it is NULL."""
    nulls = nulls_of(array)
    if not pa.types.is_decimal(array.type):
        whole = values_of(array).astype(np.int64)
        if nulls is not None:
            whole[nulls] = 0
        return whole
    if len(array) == 0 or array.buffers()[1] is None:
        return np.zeros(len(array), np.int64)
    words = np.frombuffer(
        array.buffers()[1], np.int64, count=2 * len(array), offset=16 * array.offset
    ).reshape(-1, 2)
    low, high = words[:, 0].copy(), words[:, 1]
    if nulls is not None:
        low[nulls] = 0
        high = np.where(nulls, 0, high)
    if array.type.precision <= 18 or bool((high == low >> 63).all()):
        return low
    big: Values = (high.astype(object) << 64) | low.view(np.uint64).astype(object)
    return big


def decimal_array(values: Values, spark_type: T.DecimalType, nulls: Mask | None) -> pa.Array:
    """The array of unscaled values; a value that has too many digits is an error."""
    if magnitude(values) >= 10**spark_type.precision:
        values = values if nulls is None else np.where(nulls, 0, values)
        if magnitude(values) >= 10**spark_type.precision:
            raise too_many_digits(magnitude(values), spark_type)
    if values.dtype == object:
        low = (values & (2**64 - 1)).astype(np.uint64).view(np.int64)
        return words_array(low, (values >> 64).astype(np.int64), spark_type, nulls)
    return words_array(values, values >> 63, spark_type, nulls)


def words_array(
    low: Values, high: Values, spark_type: T.DecimalType, nulls: Mask | None
) -> pa.Array:
    """The array of 128-bit numbers that are given by their halves."""
    words = np.empty((len(low), 2), np.int64)
    words[:, 0], words[:, 1] = low, high
    valid = None if nulls is None else pa.array(~nulls).buffers()[1]
    arrow = pa.decimal128(spark_type.precision, spark_type.scale)
    return pa.Array.from_buffers(arrow, len(low), [valid, pa.py_buffer(words)])


def too_many_digits(unscaled_value: int, spark_type: T.DecimalType) -> IncrementalError:
    return error(
        "NUMERIC_VALUE_OUT_OF_RANGE",
        what=f"a value with the unscaled magnitude {unscaled_value}",
        type=spark_type.simpleString(),
    )


def magnitude(values: Values) -> int:
    """The largest absolute value, 0 for no values."""
    return max(int(values.max()), -int(values.min())) if len(values) else 0


def fits(bound: int) -> bool:
    """Whether every number up to the bound, of either sign, is an int64."""
    return bound < _WORD


def wide(values: Values) -> Values:
    """The same numbers as Python integers."""
    return values if values.dtype == object else values.astype(object)


def scaled_up(values: Values, digits: int) -> Values:
    """values * 10^digits."""
    if digits == 0:
        return values
    factor = 10**digits
    narrow = fits(factor) and fits(magnitude(values) * factor)
    product: Values = (values if narrow else wide(values)) * factor
    return product


def rounded_down(values: Values, digits: int) -> Values:
    """values / 10^digits, rounded HALF_UP."""
    if digits == 0:
        return values
    factor = 10**digits
    source = values if fits(magnitude(values) + factor) else wide(values)
    whole: Values = (np.abs(source) + factor // 2) // factor
    return np.where(source < 0, -whole, whole)


def rescaled(values: Values, old: int, new: int) -> Values:
    """Unscaled values of one scale as those of another, rounded HALF_UP."""
    return scaled_up(values, new - old) if new >= old else rounded_down(values, old - new)


def aligned(
    left: Values, left_scale: int, right: Values, right_scale: int
) -> tuple[Values, Values]:
    """Both sides at the larger scale and of one representation."""
    scale = max(left_scale, right_scale)
    return same_width(scaled_up(left, scale - left_scale), scaled_up(right, scale - right_scale))


def same_width(left: Values, right: Values) -> tuple[Values, Values]:
    """Both sides as int64, or both as Python integers."""
    if object in (left.dtype, right.dtype):
        return wide(left), wide(right)
    return left, right


def added(left: Values, right: Values) -> Values:
    if not fits(magnitude(left) + magnitude(right)):
        left, right = wide(left), wide(right)
    return left + right


def multiplied(left: Values, right: Values) -> Values:
    if not fits(magnitude(left) * magnitude(right)):
        left, right = wide(left), wide(right)
    return left * right


def remainder(left: Values, right: Values) -> Values:
    """What is left of the division that truncates; it has the sign of the dividend."""
    left, right = same_width(left, right)
    rest = np.abs(left) % np.abs(right)
    return np.where(left < 0, -rest, rest)


def comparable(
    left: pa.Array, left_scale: int, right: pa.Array, right_scale: int
) -> tuple[Values, Values]:
    """Numbers of one scale that compare as the decimals do."""
    return aligned(unscaled(left), left_scale, unscaled(right), right_scale)
