"""Spark types as the plan knows them, and their Arrow form as the runtime keeps them.

The plan speaks `pyspark.sql.types`; these classes need no JVM. Each type has one Arrow form:
timestamps are microseconds, with UTC where Spark's type has a time zone and without otherwise;
intervals of days are microseconds, those of years and months are months. Several types may have one
form: what a value means is told by its column's Spark type alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyspark.sql.types as T

from spark_incr.errors import IncrementalError, error


@dataclass(frozen=True)
class Field:
    """A column of a relation or of a plan node; of a relation, whether it holds sessions."""

    name: str
    type: T.DataType
    session: bool = False


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
    T.YearMonthIntervalType: pa.int32(),
    T.NullType: pa.null(),
    # As Spark's own Arrow has it: the mark on its metadata tells it from a struct.
    T.VariantType: pa.struct(
        [
            pa.field("value", pa.binary()),
            pa.field("metadata", pa.binary(), metadata={"variant": "true"}),
        ]
    ),
}

_INSTEAD: dict[type[T.DataType], str] = {
    T.CharType: "Use STRING inside of other types and in sources.",
    T.VarcharType: "Use STRING inside of other types and in sources.",
}
"""What to do where a type cannot be kept."""

INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
FLOATS = (T.FloatType, T.DoubleType)


@cache
def arrow_type(spark_type: T.DataType) -> pa.DataType | None:
    """The Arrow form of a Spark type, or None for a type that cannot be kept.

    >>> arrow_type(T.DecimalType(10, 2)), arrow_type(T.ArrayType(T.DateType()))
    (Decimal128Type(decimal128(10, 2)), ListType(list<element: date32[day]>))
    """
    if isinstance(spark_type, (T.StringType, T.CharType)):
        return pa.string()
    if isinstance(spark_type, T.DecimalType):
        return pa.decimal128(spark_type.precision, spark_type.scale)
    if isinstance(spark_type, T.ArrayType):
        element = _inside(spark_type.elementType)
        return None if element is None else pa.list_(pa.field("element", element))
    if isinstance(spark_type, T.MapType):
        key, value = _inside(spark_type.keyType), _inside(spark_type.valueType)
        # Arrow has no keys that are NULL, which is all that those of `map()` could be.
        void = isinstance(spark_type.keyType, T.NullType)
        return None if key is None or value is None or void else pa.map_(key, value)
    if isinstance(spark_type, T.StructType):
        inner = [(f.name, _inside(f.dataType)) for f in spark_type.fields]
        # Neither Arrow's conversions nor a look-up by name can tell fields of one name apart.
        if any(t is None for _, t in inner) or len({name for name, _ in inner}) < len(inner):
            return None
        return pa.struct([pa.field(name, t) for name, t in inner if t is not None])
    return _ATOMIC.get(type(spark_type))


def _inside(spark_type: T.DataType) -> pa.DataType | None:
    """The Arrow form of a part of a type. Only a column is CHAR: Spark has its name there alone."""
    return None if isinstance(spark_type, T.CharType) else arrow_type(spark_type)


def unkept(field: Field) -> IncrementalError:
    """The error about a column whose type cannot be kept."""
    hints = [_INSTEAD.get(type(part)) for part in parts(field.type) if _inside(part) is None]
    hint = next((hint for hint in hints if hint), None)
    return error("INCR_TYPE_UNSUPPORTED", type=type_text(field.type), name=field.name, hint=hint)


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of columns whose types can all be kept."""
    return pa.schema([pa.field(f.name, arrow_type(f.type)) for f in schema])


def type_text(spark_type: T.DataType) -> str:
    """The type as Spark SQL writes it."""
    return spark_type.simpleString()


def parts(spark_type: T.DataType) -> Iterator[T.DataType]:
    """A type and the types of what its values hold, at any depth."""
    yield spark_type
    inner: list[T.DataType] = []
    if isinstance(spark_type, T.ArrayType):
        inner = [spark_type.elementType]
    elif isinstance(spark_type, T.MapType):
        inner = [spark_type.keyType, spark_type.valueType]
    elif isinstance(spark_type, T.StructType):
        inner = [f.dataType for f in spark_type.fields]
    for each in inner:
        yield from parts(each)


def with_parts(spark_type: T.DataType, change: Callable[[T.DataType], T.DataType]) -> T.DataType:
    """The type in which every part that holds no others is changed."""
    if isinstance(spark_type, T.ArrayType):
        element = with_parts(spark_type.elementType, change)
        return T.ArrayType(element, spark_type.containsNull)
    if isinstance(spark_type, T.MapType):
        key, value = (with_parts(t, change) for t in (spark_type.keyType, spark_type.valueType))
        return T.MapType(key, value, spark_type.valueContainsNull)
    if isinstance(spark_type, T.StructType):
        return T.StructType(
            [
                T.StructField(f.name, with_parts(f.dataType, change), f.nullable, f.metadata)
                for f in spark_type.fields
            ]
        )
    return change(spark_type)


def holds(spark_type: T.DataType, *kinds: type[T.DataType]) -> bool:
    """Whether a value of the type is, or holds at some depth, one of these kinds."""
    return any(isinstance(part, kinds) for part in parts(spark_type))


def is_told_by_text(spark_type: T.DataType) -> bool:
    """Whether values may be equal and yet be told apart by their texts: -0.0 and 0.0, and what a
    collation takes for equal."""
    return holds(spark_type, *FLOATS) or is_collated(spark_type)


def has_several_forms(spark_type: T.DataType) -> bool:
    """Whether values of the type may differ and be one key: -0.0 and 0.0, maps in another order."""
    return holds(spark_type, *FLOATS, T.MapType)


def is_comparable(spark_type: T.DataType) -> bool:
    """Whether Spark compares values of the type, so that they can be keys: all but VARIANT."""
    return not holds(spark_type, T.VariantType)


def is_collated(spark_type: T.DataType) -> bool:
    """Whether a value is, or holds, a string that is compared otherwise than byte by byte."""
    texts = (part for part in parts(spark_type) if isinstance(part, T.StringType))
    return any(not text.isUTF8BinaryCollation() for text in texts)


def as_string(spark_type: T.DataType) -> T.DataType:
    """STRING for CHAR, which is one once comparisons are padded."""
    return T.StringType() if isinstance(spark_type, T.CharType) else spark_type


def char_length(spark_type: T.DataType) -> int | None:
    """The length of CHAR."""
    return spark_type.length if isinstance(spark_type, T.CharType) else None
