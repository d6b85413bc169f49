"""CAST, and the casts that Spark inserts between operands of different types.

Law: a widening cast never loses a value; a narrowing one raises where the value does not fit.
Only pairs of types whose result is known bit by bit are here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.errors import error
from spark_incr.plan.types import FLOATS, INTEGERS, arrow_type
from spark_incr.runtime.expressions.decimals import (
    as_decimal,
    decimal_array,
    magnitude,
    rescaled,
    scale_of,
    unscaled,
)
from spark_incr.runtime.expressions.evaluation import array_of, nulls_of, values_of
from spark_incr.runtime.expressions.registry import Call, Compiled, Settings, kernel, null

Convert = Callable[[pa.Array], pa.Array]


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
    first, second = as_decimal(left), as_decimal(right)
    if first is None or second is None:
        return None
    scale = max(first.scale, second.scale)
    precision = max(first.precision - first.scale, second.precision - second.scale) + scale
    return T.DecimalType(precision, scale) if precision <= 38 else None


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


def _cast_operands(node: exp.Expression) -> list[exp.Expression] | None:
    known = {"this", "to"}
    if any(value and key not in known for key, value in node.args.items()):
        return None
    return [node.this]


@kernel(
    exp.Cast,
    exp.TryCast,
    words="between integers; integer or decimal to decimal, integers and decimal to double",
    operands=_cast_operands,
)
def cast(call: Call) -> Compiled | None:
    (operand,) = call.operands
    certain = coerce(operand, call.type)
    if certain is not None:
        return certain
    if not call.settings.ansi:
        return None
    source, target = operand.type, call.type
    convert = _narrowing(source, target)
    return None if convert is None else converted(operand, target, convert, raises=True)


def _narrowing(source: T.DataType, target: T.DataType) -> Convert | None:
    if isinstance(source, INTEGERS) and isinstance(target, INTEGERS):
        return lambda array: _narrow_integer(array, source, target)
    if isinstance(target, T.DecimalType) and as_decimal(source) is not None:
        return lambda array: to_decimal(array, scale_of(source), target)
    return None


def _narrow_integer(array: pa.Array, source: T.DataType, target: T.DataType) -> pa.Array:
    try:
        return pc.cast(array, arrow_type(target))
    except pa.ArrowInvalid:
        values = values_of(array.drop_null()).astype(np.int64)
        narrow = values.astype(values_of(pa.nulls(0, arrow_type(target))).dtype)
        raise error(
            "CAST_OVERFLOW",
            value=int(values[narrow != values][0]),
            source=source.simpleString(),
            target=target.simpleString(),
        ) from None
