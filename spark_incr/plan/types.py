"""Spark types as the plan knows them, and their Arrow form as the runtime keeps them.

The plan speaks `pyspark.sql.types`; these classes need no JVM. Each type has one Arrow form:
timestamps are microseconds, with UTC where Spark's type has a time zone and without otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyspark.sql.types as T


@dataclass(frozen=True)
class Field:
    """A column of a relation or of a plan node."""

    name: str
    type: T.DataType


Schema = tuple[Field, ...]

_ATOMIC: dict[type[T.DataType], pa.DataType] = {
    T.BooleanType: pa.bool_(),
    T.ByteType: pa.int8(),
    T.ShortType: pa.int16(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(),
    T.BinaryType: pa.binary(),
    T.DateType: pa.date32(),
    T.TimestampType: pa.timestamp("us", tz="UTC"),
    T.TimestampNTZType: pa.timestamp("us"),
    T.DayTimeIntervalType: pa.duration("us"),
    T.NullType: pa.null(),
}

INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
FLOATS = (T.FloatType, T.DoubleType)


@cache
def arrow_type(spark_type: T.DataType) -> pa.DataType | None:
    """The Arrow form of a Spark type, or None for a type that cannot be kept.

    >>> arrow_type(T.DecimalType(10, 2)), arrow_type(T.ArrayType(T.DateType()))
    (Decimal128Type(decimal128(10, 2)), ListType(list<element: date32[day]>))
    """
    if isinstance(spark_type, T.StringType):
        return (
            pa.string()
            if type(spark_type) is T.StringType and spark_type.isUTF8BinaryCollation()
            else None
        )
    if isinstance(spark_type, T.DecimalType):
        return pa.decimal128(spark_type.precision, spark_type.scale)
    if isinstance(spark_type, T.ArrayType):
        element = arrow_type(spark_type.elementType)
        return None if element is None else pa.list_(pa.field("element", element))
    if isinstance(spark_type, T.MapType):
        key, value = arrow_type(spark_type.keyType), arrow_type(spark_type.valueType)
        return None if key is None or value is None else pa.map_(key, value)
    if isinstance(spark_type, T.StructType):
        inner = [(f.name, arrow_type(f.dataType)) for f in spark_type.fields]
        # Neither Arrow's conversions nor a look-up by name can tell fields of one name apart.
        if any(t is None for _, t in inner) or len({name for name, _ in inner}) < len(inner):
            return None
        return pa.struct([pa.field(name, t) for name, t in inner if t is not None])
    return _ATOMIC.get(type(spark_type))


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of columns whose types can all be kept."""
    return pa.schema([pa.field(f.name, arrow_type(f.type)) for f in schema])


def type_text(spark_type: T.DataType) -> str:
    """The type as Spark SQL writes it."""
    return spark_type.simpleString()


def contains_float(spark_type: T.DataType) -> bool:
    """Whether a value of the type may hold NaN or -0.0."""
    if isinstance(spark_type, T.ArrayType):
        return contains_float(spark_type.elementType)
    if isinstance(spark_type, T.StructType):
        return any(contains_float(f.dataType) for f in spark_type.fields)
    if isinstance(spark_type, T.MapType):
        return contains_float(spark_type.keyType) or contains_float(spark_type.valueType)
    return isinstance(spark_type, FLOATS)


def has_several_forms(spark_type: T.DataType) -> bool:
    """Whether values of the type may differ and be one key: -0.0 and 0.0, maps in another order."""
    if isinstance(spark_type, T.ArrayType):
        return has_several_forms(spark_type.elementType)
    if isinstance(spark_type, T.StructType):
        return any(has_several_forms(f.dataType) for f in spark_type.fields)
    return isinstance(spark_type, (*FLOATS, T.MapType))
