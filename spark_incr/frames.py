"""Rows on their way to Spark and back: Arrow tables as frames, and what frames compute as Arrow.

Spark's own ways between the two fail at a VARIANT that is NULL; the tables that hold one take theirs.
They do not know intervals of years and months either: those go as their months, and Spark casts.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import is_variant

from spark_incr.errors import error
from spark_incr.plan.types import (
    Field,
    Schema,
    arrow_type,
    holds,
    is_comparable,
    type_text,
    with_parts,
)
from spark_incr.runtime.columns import single
from spark_incr.runtime.keys import list_offsets

_WRITTEN_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_SESSION = "spark.sessionWindow"
_CHAR = re.compile(r"char\((\d+)\)")


def type_named(spark: SparkSession, text: str) -> T.DataType:
    """The type that a text says."""
    parsed: Any = spark._jsparkSession.sessionState().sqlParser().parseDataType(text)
    return T._parse_datatype_json_string(parsed.json())


def columns_of(frame: DataFrame) -> Schema:
    """The columns of a frame.

    Spark has CHAR as STRING, and the name on the column; inside of other types it is a STRING. What
    session_window() has made bears a mark.
    """
    return tuple(
        Field(f.name, _written(f), _SESSION in (f.metadata or {})) for f in frame.schema.fields
    )


def _written(field: T.StructField) -> T.DataType:
    char = _CHAR.fullmatch((field.metadata or {}).get(_WRITTEN_TYPE, ""))
    return field.dataType if char is None else T.CharType(int(char[1]))


def columns_for(schema: Schema) -> T.StructType:
    """The columns as Spark has them: the inverse of `columns_of`."""
    fields = [
        T.StructField(f.name, f.type, metadata={_SESSION: True} if f.session else None)
        for f in schema
    ]
    return _named_char(T.StructType(fields))


def _named_char(schema: T.StructType) -> T.StructType:
    return T.StructType(
        [
            T.StructField(
                f.name,
                T.StringType(),
                f.nullable,
                {**(f.metadata or {}), _WRITTEN_TYPE: type_text(f.dataType)},
            )
            if isinstance(f.dataType, T.CharType)
            else f
            for f in schema
        ]
    )


def offered(spark: SparkSession, rows: pa.Table, schema: T.StructType) -> DataFrame:
    """Rows as a frame."""
    if not is_comparable(schema):
        columns = [_with_parts(single(column)) for column in rows.columns]
        rows = pa.Table.from_arrays(columns, schema=rows.schema)
    if not holds(schema, T.YearMonthIntervalType):
        return spark.createDataFrame(rows, schema)
    plain = T.StructType([T.StructField(f.name, _counted(f.dataType)) for f in schema])
    counted = spark.createDataFrame(rows, plain)
    in_months = _cast(counted, [_in_months(f.dataType) for f in schema])
    typed = _cast(in_months, [f.dataType for f in schema])
    return named(typed, schema)


def named(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """The columns of a frame under the names of a schema, with what it says of them."""
    pairs = zip(frame.columns, schema, strict=True)
    return frame.select([frame[n].alias(f.name, metadata=f.metadata or {}) for n, f in pairs])


def _in_months(kind: T.DataType) -> T.DataType:
    """The type with intervals of months alone, from which nothing is lost in a cast to a number."""
    month = T.YearMonthIntervalType.MONTH
    return _intervals_as(T.YearMonthIntervalType(month, month), kind)


def _counted(kind: T.DataType) -> T.DataType:
    """The type with the number of months in place of an interval."""
    return _intervals_as(T.IntegerType(), kind)


def _intervals_as(other: T.DataType, kind: T.DataType) -> T.DataType:
    return with_parts(kind, lambda k: other if isinstance(k, T.YearMonthIntervalType) else k)


def _with_parts(array: pa.Array) -> pa.Array:
    """The array in which a VARIANT has its parts, empty ones, also where it is NULL."""
    kind = array.type
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = [array.field(i) for i in range(kind.num_fields)]
        whole = is_variant(kind)
        parts = [pc.fill_null(f, b"") if whole else _with_parts(f) for f in fields]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pc.is_null(array))
    if not pa.types.is_list(kind) and not pa.types.is_map(kind):
        return array
    offsets = pa.array(list_offsets(array), pa.int32())
    if array.null_count:
        present = pa.concat_arrays([pc.is_valid(array), pa.array([True])])
        offsets = pc.if_else(present, offsets, None)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(offsets, _with_parts(array.values), type=kind)
    return pa.MapArray.from_arrays(offsets, array.keys, _with_parts(array.items), type=kind)


def computed(frame: DataFrame) -> pa.Table:
    """Run the query of a frame.

    NULL is allowed at any depth first: Arrow cannot take a NULL struct as one whose fields are
    never NULL.
    """
    kinds = [f.dataType for f in frame.schema.fields]
    nullable = [f.dataType for f in frame.schema.toNullable().fields]
    counted = [_counted(kind) for kind in nullable]
    if kinds == counted:
        return _collected(frame)
    in_months = _cast(frame, [_in_months(kind) for kind in nullable])
    return _collected(_cast(in_months, counted)).rename_columns(frame.columns)


def in_words(frame: DataFrame) -> DataFrame:
    """The frame as people read it: with texts for the intervals that go as a number of months."""
    kinds = [_intervals_as(T.StringType(), f.dataType) for f in frame.schema.fields]
    return _cast(frame, kinds) if holds(frame.schema, T.YearMonthIntervalType) else frame


def _cast(frame: DataFrame, kinds: list[T.DataType]) -> DataFrame:
    """The columns of a frame in other types; they are numbered, for they may share names."""
    places = [str(place) for place in range(len(kinds))]
    numbered = frame.toDF(*places)
    return numbered.select(
        [numbered[p].cast(k).alias(p) for p, k in zip(places, kinds, strict=True)]
    )


def _collected(frame: DataFrame) -> pa.Table:
    """The rows of a frame, or Spark's error; `toArrow` passes some on as Java has them."""
    kinds = [(f.name, arrow_type(f.dataType)) for f in frame.schema.fields]
    try:
        if is_comparable(frame.schema) or any(kind is None for _, kind in kinds):
            return frame.toArrow()
        collect: Any = frame._collect_as_arrow
        return pa.Table.from_batches(collect(empty_list_if_zero_records=False)).cast(
            pa.schema(kinds)
        )
    except Py4JJavaError as failure:
        raise convert_exception(failure.java_exception) from None


def in_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column that Spark has computed, in the type of the plan.

    Arrow would cast structs by the names of their fields and fill in NULLs for what it misses.
    """
    if _names(array.type) != _names(kind):
        raise error("INCR_INTERNAL", what=f"Spark gives {array.type} in place of {kind}")
    return array.cast(kind)


def _names(kind: pa.DataType) -> list[object]:
    """The names of all fields, at any depth."""
    fields = [kind.field(i) for i in range(kind.num_fields)]
    names: list[object] = [f.name for f in fields] if pa.types.is_struct(kind) else []
    return [*names, *(_names(f.type) for f in fields)]
