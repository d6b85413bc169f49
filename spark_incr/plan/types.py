"""Spark types as the plan knows them, and their Arrow form as the runtime keeps them.

The plan speaks `pyspark.sql.types`; these classes need no JVM. Each type has one Arrow form:
timestamps are microseconds, with UTC where Spark's type has a time zone and without otherwise;
times of a day are nanoseconds; intervals of days are microseconds, those of years and months are
months, and those of all units are the text that Spark writes of them. Several types may have one
form: what a value means is told by its column's Spark type alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T
from pyspark.errors import PySparkException

from spark_incr.errors import IncrementalError, error
from spark_incr.sql.names import quote


class UnreadType(T.DataType):
    """A type of Spark that PySpark cannot read: it has a name, and its values cannot be kept."""

    def __init__(self, name: str) -> None:
        self.name = name

    def simpleString(self) -> str:  # noqa: N802, PySpark's name
        return self.name

    def jsonValue(self) -> str:  # noqa: N802, PySpark's name
        return self.name


def read_type(value: Any) -> T.DataType:
    """The type that Spark's JSON says."""
    try:
        return T._parse_datatype_json_value(value)
    except PySparkException:
        pass
    if isinstance(value, str):
        return UnreadType(value)
    if value["type"] == "array":
        return T.ArrayType(read_type(value["elementType"]), value["containsNull"])
    if value["type"] == "map":
        key, item = read_type(value["keyType"]), read_type(value["valueType"])
        return T.MapType(key, item, value["valueContainsNull"])
    fields = [
        T.StructField(f["name"], read_type(f["type"]), f["nullable"], f.get("metadata"))
        for f in value["fields"]
    ]
    return T.StructType(fields)


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
    # Spark writes two intervals alike if and only if all their parts are equal, and reads them back.
    T.CalendarIntervalType: pa.string(),
    # Always NULL. Arrow has a type for that, but loses the length of its lists.
    T.NullType: pa.bool_(),
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
    T.CalendarIntervalType: "Use INTERVAL YEAR TO MONTH or INTERVAL DAY TO SECOND.",
    UnreadType: "Cast it to a type that can be kept: CAST(... AS TIMESTAMP), for example.",
}
"""What to do where a type cannot be kept."""

DIGITS: dict[type[T.DataType], int] = {
    T.ByteType: 3,
    T.ShortType: 5,
    T.IntegerType: 10,
    T.LongType: 20,
}
"""How many digits Spark makes room for where a whole number becomes a decimal."""

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
    if isinstance(spark_type, T.TimeType):
        return pa.time64("ns")
    if isinstance(spark_type, T.DecimalType):
        return pa.decimal128(spark_type.precision, spark_type.scale)
    if isinstance(spark_type, T.ArrayType):
        element = _inside(spark_type.elementType)
        return None if element is None else pa.list_(pa.field("element", element))
    if isinstance(spark_type, T.MapType):
        key, value = _inside(spark_type.keyType), _inside(spark_type.valueType)
        return None if key is None or value is None else pa.map_(key, value)
    if isinstance(spark_type, T.StructType):
        inner = [_inside(f.dataType) for f in spark_type.fields]
        if any(t is None for t in inner):
            return None
        return pa.struct(list(zip(told_apart(spark_type.names), inner, strict=True)))
    return _ATOMIC.get(type(spark_type))


def told_apart(names: Sequence[str]) -> list[str]:
    """The names of fields, each of which is another: Arrow cannot tell fields of one name apart.

    >>> told_apart(["a", "a", "b", "a", "a_2"])
    ['a', 'a_3', 'b', 'a_4', 'a_2']
    """
    if len(set(names)) == len(names):
        return list(names)
    result: list[str] = []
    for name in names:
        other, number = name, 1
        while other in result or (number > 1 and other in names):
            number += 1
            other = f"{name}_{number}"
        result.append(other)
    return result


def _inside(spark_type: T.DataType) -> pa.DataType | None:
    """The Arrow form of a part of a type. Only a column is CHAR: Spark has its name there alone."""
    return None if isinstance(spark_type, T.CharType) else arrow_type(spark_type)


def unkept(field: Field) -> IncrementalError:
    """The error about a column whose type cannot be kept."""
    lost = [part for part in parts(field.type) if _inside(part) is None or not is_storable(part)]
    hints = [_INSTEAD.get(type(part)) for part in lost]
    hint = next((hint for hint in hints if hint), None)
    return error("INCR_TYPE_UNSUPPORTED", type=type_text(field.type), name=field.name, hint=hint)


def is_storable(spark_type: T.DataType) -> bool:
    """Whether a table may have a column of the type; Spark has none with intervals of all units."""
    return arrow_type(spark_type) is not None and not holds(spark_type, T.CalendarIntervalType)


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of columns whose types can all be kept."""
    return pa.schema([pa.field(f.name, arrow_type(f.type)) for f in schema])


def type_text(spark_type: T.DataType) -> str:
    """The type as Spark SQL writes it."""
    return spark_type.simpleString()


def type_sql(spark_type: T.DataType) -> str:
    """A type as SQL; unlike `type_text`, which is for people, names of fields are quoted."""
    if isinstance(spark_type, T.ArrayType):
        return f"ARRAY<{type_sql(spark_type.elementType)}>"
    if isinstance(spark_type, T.MapType):
        return f"MAP<{type_sql(spark_type.keyType)}, {type_sql(spark_type.valueType)}>"
    if isinstance(spark_type, T.StructType):
        fields = (f"{quote(f.name)}: {type_sql(f.dataType)}" for f in spark_type.fields)
        return f"STRUCT<{', '.join(fields)}>"
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


def with_parts(
    spark_type: T.DataType,
    change: Callable[[T.DataType], T.DataType],
    rename: Callable[[Sequence[str]], Sequence[str]] = lambda names: names,
) -> T.DataType:
    """The type in which every part that holds no others is changed, and the fields have new names."""
    if isinstance(spark_type, T.ArrayType):
        element = with_parts(spark_type.elementType, change, rename)
        return T.ArrayType(element, spark_type.containsNull)
    if isinstance(spark_type, T.MapType):
        key = with_parts(spark_type.keyType, change, rename)
        value = with_parts(spark_type.valueType, change, rename)
        return T.MapType(key, value, spark_type.valueContainsNull)
    if isinstance(spark_type, T.StructType):
        return T.StructType(
            [
                T.StructField(name, with_parts(f.dataType, change, rename), f.nullable, f.metadata)
                for name, f in zip(rename(spark_type.names), spark_type.fields, strict=True)
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
    """Whether Spark compares values of the type: all but VARIANT and intervals of all units."""
    return not holds(spark_type, T.VariantType, T.CalendarIntervalType)


def is_ordered(spark_type: T.DataType) -> bool:
    """Whether Spark sorts values of the type."""
    return is_comparable(spark_type) and not holds(spark_type, T.MapType)


def is_collated(spark_type: T.DataType) -> bool:
    """Whether a value is, or holds, a string that is compared otherwise than byte by byte."""
    texts = (part for part in parts(spark_type) if isinstance(part, T.StringType))
    return any(not text.isUTF8BinaryCollation() for text in texts)


def nullable(spark_type: T.DataType) -> T.DataType:
    """The type with NULL allowed at any depth."""
    return T.StructType([T.StructField("c", spark_type)]).toNullable().fields[0].dataType


def as_string(spark_type: T.DataType) -> T.DataType:
    """STRING for CHAR, which is one once comparisons are padded."""
    return T.StringType() if isinstance(spark_type, T.CharType) else spark_type


def char_length(spark_type: T.DataType) -> int | None:
    """The length of CHAR."""
    return spark_type.length if isinstance(spark_type, T.CharType) else None


def is_widened(source: T.DataType, target: T.DataType) -> bool:
    """Whether the values of a type stay apart from each other in another one."""
    if source == target:
        return True
    if isinstance(source, INTEGERS):
        if isinstance(target, INTEGERS):
            return DIGITS[type(source)] < DIGITS[type(target)]
        if isinstance(target, T.DecimalType):
            return DIGITS[type(source)] <= target.precision - target.scale
        return isinstance(target, T.DoubleType) and not isinstance(source, T.LongType)
    if isinstance(source, T.DecimalType) and isinstance(target, T.DecimalType):
        whole = source.precision - source.scale
        return source.scale <= target.scale and whole <= target.precision - target.scale
    return isinstance(source, T.FloatType) and isinstance(target, T.DoubleType)
