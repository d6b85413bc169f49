"""CAST, and the casts that Spark inserts between operands of different types.

Law: a widening cast never loses a value; a narrowing one raises where the value does not fit.
Only pairs of types whose result is known bit by bit are here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.errors import IncrementalError, error
from spark_incr.plan.types import FLOATS, INTEGERS, arrow_type
from spark_incr.runtime.expressions.decimals import (
    MAX_PRECISION,
    as_decimal,
    decimal_array,
    fits,
    magnitude,
    rescaled,
    scale_of,
    unscaled,
    wide,
)
from spark_incr.runtime.expressions.evaluation import Values, array_of, nulls_of, values_of
from spark_incr.runtime.expressions.registry import (
    RULES,
    Call,
    Compiled,
    Settings,
    kernel,
    literal,
    null,
)
from spark_incr.runtime.expressions.text_casts import Convert, read_date, text_reader, text_writer

_TIMES = (T.TimestampType, T.TimestampNTZType)
MICROS_PER_DAY = 86_400_000_000
_PLAIN_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_PLAIN_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_PLAIN_TIME = re.compile(
    _PLAIN_DAY.pattern + r"( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6}|\.[0-9]{3})?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def coerce(operand: Compiled, target: T.DataType) -> Compiled | None:
    """The operand as Spark's implicit cast gives it, where that loses nothing; None elsewhere."""
    source = operand.type
    if source == target:
        return operand
    if isinstance(source, T.NullType):
        return null(target)
    if not _widens(source, target):
        return None
    return converted(operand, target, _conversion(source, target), raises=False)


def common_type(left: T.DataType, right: T.DataType, settings: Settings) -> T.DataType | None:
    """The type in which Spark compares two operands, where both casts are certain."""
    if left == right or isinstance(right, T.NullType):
        return left
    if isinstance(left, T.NullType):
        return right
    kinds = {type(left), type(right)}
    if kinds <= set(INTEGERS):
        return max((left, right), key=lambda t: INTEGERS.index(type(t)))
    if kinds == set(FLOATS):
        return T.DoubleType()
    if not settings.ansi:
        return None
    if kinds & set(FLOATS) and kinds <= {*FLOATS, *INTEGERS, T.DecimalType}:
        return T.DoubleType()
    return _common_decimal(left, right)


def _common_decimal(left: T.DataType, right: T.DataType) -> T.DecimalType | None:
    digits = _digits_of_both(left, right)
    return T.DecimalType(*digits) if digits and digits[0] <= MAX_PRECISION else None


def shortened_decimal(
    left: T.DataType, right: T.DataType, settings: Settings
) -> T.DecimalType | None:
    """The type in which Spark compares decimals that together have too many digits: it has all
    digits before the point, and as many after it as there is room for."""
    digits = _digits_of_both(left, right)
    if digits is None or not settings.ansi or not settings.whole_digits_first:
        return None
    surplus = digits[0] - MAX_PRECISION
    return T.DecimalType(MAX_PRECISION, max(digits[1] - surplus, 0)) if surplus > 0 else None


def _digits_of_both(left: T.DataType, right: T.DataType) -> tuple[int, int] | None:
    """Precision and scale that hold the values of two types, as if there were no limit."""
    first, second = as_decimal(left), as_decimal(right)
    if first is None or second is None:
        return None
    scale = max(first.scale, second.scale)
    return max(first.precision - first.scale, second.precision - second.scale) + scale, scale


def rounded_to(operand: Compiled, target: T.DecimalType) -> Compiled:
    """A number as a decimal type, rounded HALF_UP; too many digits are an error."""
    scale = scale_of(operand.type)
    return converted(operand, target, lambda array: to_decimal(array, scale, target), raises=True)


def converted(operand: Compiled, target: T.DataType, convert: Convert, raises: bool) -> Compiled:
    """The operand through a conversion; a literal is converted once."""

    def evaluate(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        return convert(operand.evaluate(columns, n))

    scalar = None
    if operand.scalar is not None and not raises:
        scalar = convert(pa.repeat(operand.scalar, 1))[0]
    if scalar is not None:
        return Compiled(target, lambda columns, n: pa.repeat(scalar, n), scalar=scalar)
    return Compiled(target, evaluate, operand.columns, raises or operand.raises)


def _widens(source: T.DataType, target: T.DataType) -> bool:
    if isinstance(target, T.DecimalType):
        narrow = as_decimal(source)
        return (
            narrow is not None
            and narrow.scale <= target.scale
            and narrow.precision - narrow.scale <= target.precision - target.scale
        )
    if isinstance(source, INTEGERS):
        if isinstance(target, INTEGERS):
            return INTEGERS.index(type(source)) < INTEGERS.index(type(target))
        return isinstance(target, FLOATS)
    if isinstance(source, T.DecimalType):
        return isinstance(target, FLOATS)
    return isinstance(source, T.FloatType) and isinstance(target, T.DoubleType)


def _conversion(source: T.DataType, target: T.DataType) -> Convert:
    """The conversion of a pair that widens."""
    arrow = arrow_type(target)
    if isinstance(target, T.DecimalType):
        return lambda array: to_decimal(array, scale_of(source), target)
    if isinstance(source, T.DecimalType):
        to_float = decimal_to_double if isinstance(target, T.DoubleType) else decimal_to_float
        return lambda array: to_float(array, source.scale)
    if isinstance(target, FLOATS) and isinstance(source, INTEGERS):
        dtype = np.float64 if isinstance(target, T.DoubleType) else np.float32
        return lambda array: array_of(values_of(array).astype(dtype), arrow, nulls_of(array))
    return lambda array: pc.cast(array, arrow)


def to_decimal(array: pa.Array, scale: int, target: T.DecimalType) -> pa.Array:
    """Unscaled values of a scale as a decimal type, rounded HALF_UP; too many digits are an error."""
    return decimal_array(rescaled(unscaled(array), scale, target.scale), target, nulls_of(array))


def decimal_to_double(array: pa.Array, scale: int) -> pa.Array:
    """The nearest double: exact / exact rounds once while both sides are exact doubles."""
    values = unscaled(array)
    if magnitude(values) < 2**53 and scale <= 22:
        doubles = values.astype(np.float64) / 10.0**scale
    else:
        divisor = 10**scale
        doubles = np.array([int(value) / divisor for value in values], np.float64)
    return array_of(doubles, pa.float64(), nulls_of(array))


def decimal_to_float(array: pa.Array, scale: int) -> pa.Array:
    """The nearest float. By way of a double it would be rounded twice."""
    values = unscaled(array)
    if magnitude(values) < 2**24 and scale <= 10:
        floats = values.astype(np.float32) / np.float32(10**scale)
    else:
        floats = np.array([_nearest_float(Fraction(int(v), 10**scale)) for v in values], np.float32)
    return array_of(floats, pa.float32(), nulls_of(array))


def _nearest_float(exact: Fraction) -> np.float32:
    near = np.float32(float(exact))
    around = (np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf)))
    finite = [value for value in around if np.isfinite(value)]
    even = [int(value.view(np.int32)) & 1 for value in finite]
    ranked = zip(
        [abs(Fraction(float(value)) - exact) for value in finite], even, finite, strict=True
    )
    return min(ranked)[2]


def _cast_operands(node: exp.Expr) -> list[exp.Expr] | None:
    """What is cast. The parser reads CAST as a TryCast, too, but marks TRY_CAST as safe."""
    known = {"this", "to"}
    if any(value and key not in known for key, value in node.args.items()):
        return None
    return [node.this]


@kernel(
    exp.Cast,
    words="between numbers, except from float and double to decimal; boolean to and from numbers;"
    " to string from integers, decimal, boolean, date; from string to integers and date;"
    " between date and timestamp in UTC. TRY_CAST is not among them",
    operands=_cast_operands,
)
def cast(call: Call) -> Compiled | None:
    (operand,) = call.operands
    source, target = operand.type, call.type
    certain = coerce(operand, target)
    if certain is not None:
        return certain
    convert = _total(source, target, call.settings)
    if convert is not None:
        return converted(operand, target, convert, raises=False)
    spelled = _spelled(operand, target, call.settings)
    if spelled is not None or not call.settings.ansi:
        return spelled
    convert = _partial(source, target, call.settings)
    return None if convert is None else converted(operand, target, convert, raises=True)


RULES[exp.TryCast] = RULES[exp.Cast]
kernel("bigint", "smallint", "tinyint", words="as CAST")(cast)
kernel(exp.TsOrDsToDate, words="as CAST; without a format", arguments=("this",), flags=("safe",))(
    cast
)


def to_text(operand: Compiled) -> Compiled | None:
    """The operand as a string."""
    if isinstance(operand.type, T.StringType | T.NullType):
        return coerce(operand, T.StringType())
    write = text_writer(operand.type)
    return None if write is None else converted(operand, T.StringType(), write, raises=False)


def to_date(operand: Compiled, settings: Settings) -> Compiled | None:
    """The operand as a date: one already, or the day of a timestamp."""
    if isinstance(operand.type, T.DateType):
        return operand
    convert = _total(operand.type, T.DateType(), settings)
    return None if convert is None else converted(operand, T.DateType(), convert, raises=False)


def _total(source: T.DataType, target: T.DataType, settings: Settings) -> Convert | None:
    """The conversion of a pair that never fails."""
    if isinstance(target, T.StringType):
        return text_writer(source) if settings.ansi else None
    if isinstance(target, T.BooleanType) and isinstance(source, (*INTEGERS, *FLOATS)):
        return lambda array: array_of(values_of(array) != 0, pa.bool_(), nulls_of(array))
    if isinstance(source, T.BooleanType) and isinstance(target, (*INTEGERS, *FLOATS)):
        return lambda array: pc.cast(pc.cast(array, pa.int8()), arrow_type(target))
    if isinstance(source, T.DoubleType) and isinstance(target, T.FloatType):
        return _narrow_float
    if not settings.is_utc and T.TimestampType in (type(source), type(target)):
        return None
    if isinstance(source, _TIMES) and isinstance(target, T.DateType):
        return _day_of
    if isinstance(source, _TIMES) and isinstance(target, _TIMES):
        return lambda array: array.view(arrow_type(target))
    return None


def _partial(source: T.DataType, target: T.DataType, settings: Settings) -> Convert | None:
    """The conversion of a pair that fails for some values."""
    if isinstance(target, T.DecimalType) and as_decimal(source) is not None:
        return lambda array: to_decimal(array, scale_of(source), target)
    if isinstance(source, T.StringType):
        return text_reader(target)
    if isinstance(target, INTEGERS):
        if isinstance(source, INTEGERS):
            return lambda array: _narrow_integer(array, source, target)
        if isinstance(source, FLOATS):
            return lambda array: _truncated(array, source, target)
        if isinstance(source, T.DecimalType):
            return lambda array: _whole_part(array, source, target)
    if isinstance(source, T.DateType) and isinstance(target, _TIMES) and settings.is_utc:
        return lambda array: _midnight(array, target)
    return None


def read_beside(operand: Compiled, other: Compiled, settings: Settings) -> Compiled:
    """A string literal beside a date or a timestamp as the value that Spark reads from it."""
    if isinstance(other.type, (T.DateType, *_TIMES)) and settings.ansi:
        return _spelled(operand, other.type, settings) or operand
    return operand


def counted_beside(operand: Compiled, other: Compiled) -> Compiled:
    """A whole number that is written beside a decimal, as a decimal of just its digits."""
    if not operand.is_written or not isinstance(other.type, T.DecimalType):
        return operand
    if not isinstance(operand.type, INTEGERS):
        return operand
    counted = T.DecimalType(len(str(abs(operand.value))), 0)
    return converted(operand, counted, _conversion(operand.type, counted), raises=False)


def _spelled(operand: Compiled, target: T.DataType, settings: Settings) -> Compiled | None:
    """A string literal, as the parser writes `1.5BD` or DATE '...', if it is in the plain form."""
    text = operand.value if isinstance(operand.type, T.StringType) else None
    if text is None:
        return None
    arrow = arrow_type(target)
    if isinstance(target, T.DateType) and _PLAIN_DAY.fullmatch(text):
        days = read_date(text)
        return None if days is None else literal(pa.scalar(days, pa.int32()).cast(arrow), target)
    if isinstance(target, _TIMES) and _PLAIN_TIME.fullmatch(text):
        if isinstance(target, T.TimestampType) and not settings.is_utc:
            return None
        try:
            moment = datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
        except ValueError:
            return None
        micros = (moment - _EPOCH) // timedelta(microseconds=1)
        return literal(pa.scalar(micros, pa.int64()).cast(arrow), target)
    return _spelled_number(text, target) if _PLAIN_NUMBER.fullmatch(text) else None


def _spelled_number(text: str, target: T.DataType) -> Compiled | None:
    if isinstance(target, T.DoubleType):
        return literal(pa.scalar(float(text), pa.float64()), target)
    if not isinstance(target, T.DecimalType):
        return None
    value = Decimal(text)
    scale = -int(value.as_tuple().exponent)
    whole = len(value.as_tuple().digits) - scale
    if scale > target.scale or whole > target.precision - target.scale:
        return None
    return literal(pa.scalar(value, arrow_type(target)), target)


def _overflow(value: object, source: T.DataType, target: T.DataType) -> IncrementalError:
    return error(
        "CAST_OVERFLOW",
        value=value,
        source=source.simpleString(),
        target=target.simpleString(),
    )


def _narrow_integer(array: pa.Array, source: T.DataType, target: T.DataType) -> pa.Array:
    try:
        return pc.cast(array, arrow_type(target))
    except pa.ArrowInvalid:
        low, high = _limits(target)
        values = values_of(array.drop_null())
        wrong = values[(values < low) | (values > high)]
        raise _overflow(int(wrong[0]), source, target) from None


def _limits(target: T.DataType) -> tuple[int, int]:
    bits = arrow_type(target).bit_width  # type: ignore[union-attr]
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _truncated(array: pa.Array, source: T.DataType, target: T.DataType) -> pa.Array:
    """The whole part; 2^63 itself is let through and saturates, as in Java."""
    low, high = _limits(target)
    nulls = nulls_of(array)
    values = np.trunc(values_of(array).astype(np.float64))
    if nulls is not None:
        values = np.where(nulls, 0.0, values)
    good = (values >= float(low)) & (values <= float(high))
    if not good.all():
        raise _overflow(values[~good][0], source, target)
    return array_of(saturated(values), pa.int64(), nulls).cast(arrow_type(target))


def saturated(values: Values) -> Values:
    """Doubles as int64: what is too large becomes the largest, NaN becomes 0."""
    top = 2.0**63
    inside = np.where((values < top) & (values >= -top), values, 0.0).astype(np.int64)
    limits = np.iinfo(np.int64)
    return np.where(values >= top, limits.max, np.where(values < -top, limits.min, inside))


def _whole_part(array: pa.Array, source: T.DecimalType, target: T.DataType) -> pa.Array:
    values, factor = unscaled(array), 10**source.scale
    if not fits(factor):
        values = wide(values)
    whole = np.abs(values) // factor
    signed = np.where(values < 0, -whole, whole)
    low, high = _limits(target)
    wrong = (signed < low) | (signed > high)
    if wrong.any():
        raise _overflow(array.filter(pa.array(wrong, pa.bool_()))[0].as_py(), source, target)
    return array_of(signed.astype(np.int64), pa.int64(), nulls_of(array)).cast(arrow_type(target))


def _narrow_float(array: pa.Array) -> pa.Array:
    with np.errstate(over="ignore"):
        return array_of(values_of(array).astype(np.float32), pa.float32(), nulls_of(array))


def _day_of(array: pa.Array) -> pa.Array:
    days = (values_of(array) // MICROS_PER_DAY).astype(np.int32)
    return array_of(days, pa.date32(), nulls_of(array))


def _midnight(array: pa.Array, target: T.DataType) -> pa.Array:
    nulls = nulls_of(array)
    days = values_of(array).astype(np.int64)
    if nulls is not None:
        days = np.where(nulls, 0, days)
    if not fits(magnitude(days) * MICROS_PER_DAY):
        raise error("ARITHMETIC_OVERFLOW", what="date to timestamp")
    return array_of(days * MICROS_PER_DAY, arrow_type(target), nulls)
