"""Rows on their way to Spark and back: Arrow tables as frames, and what frames compute as Arrow.

Spark's own ways between the two fail at a VARIANT that is NULL; the tables that hold one take theirs.
They do not know intervals of years and months either: those go as their months, those of all units
as texts, and Spark casts. Structs that have two fields of one name go under other names. VOID goes as
BOOLEAN, since Arrow loses the length of lists of nothing.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as F
import pyspark.sql.types as T
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkValueError
from pyspark.errors.exceptions.captured import CapturedException, convert_exception
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.types import is_variant

from spark_incr.errors import IncrementalError, error, without_own_text
from spark_incr.plan.types import (
    Field,
    Schema,
    arrow_type,
    holds,
    parts,
    read_type,
    told_apart,
    type_text,
    with_parts,
)
from spark_incr.runtime.columns import single
from spark_incr.runtime.nested import made_of, parts_of

_COMPILED = "spark.sql.codegen.factoryMode"
_WRITTEN_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_SESSION = "spark.sessionWindow"
_CHAR = re.compile(r"char\((\d+)\)")
FEW_ROWS = 100
"""So many rows are taken from a plan that is made of rows; more are better carried by a job."""
_ONE_STREAM = 1 << 40
_CARRIED: dict[type[T.DataType], T.DataType] = {
    T.YearMonthIntervalType: T.IntegerType(),
    T.CalendarIntervalType: T.StringType(),
    T.NullType: T.BooleanType(),
}


_WITHOUT_FORM = (T.YearMonthIntervalType, T.CalendarIntervalType)


def type_named(spark: SparkSession, text: str) -> T.DataType:
    """The type that a text says.

    TIME may be switched off: Spark reads the type all the same, and refuses rows that have it.
    """
    session: Any = spark._jsparkSession
    try:
        parsed = session.sessionState().sqlParser().parseDataType(text)
    except Py4JJavaError as failure:
        raise rejected(failure) from None
    kind = read_type(json.loads(parsed.json()))
    if holds(kind, T.TimeType):
        without_rows(spark, T.StructType([T.StructField("c", kind)]))
    return kind


def rejected(failure: Py4JJavaError) -> IncrementalError:
    """An error of Spark that PySpark passes on as Java has it."""
    return error("INCR_SPARK_ERROR", what=str(failure.java_exception.getMessage()))


def columns_of(frame: DataFrame) -> Schema:
    """The columns of a frame.

    Spark has CHAR as STRING, and the name on the column; inside of other types it is a STRING. What
    session_window() has made bears a mark.
    """
    return tuple(
        Field(f.name, _written(f), _SESSION in (f.metadata or {})) for f in schema_of(frame).fields
    )


def schema_of(frame: DataFrame) -> T.StructType:
    """The schema of a frame, in which types may be that PySpark cannot read."""
    try:
        return frame.schema
    except PySparkValueError:
        read = read_type(json.loads(frame._jdf.schema().json()))
        assert isinstance(read, T.StructType)
        return read


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


def without_rows(spark: SparkSession, schema: T.StructType) -> DataFrame:
    """A local relation without rows; that of Python's `createDataFrame` would be an RDD."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    kind = session.parseDataType(schema.json())
    return DataFrame(session.createDataFrame(jvm.java.util.ArrayList(), kind), spark)


def offered(spark: SparkSession, rows: pa.Table, schema: T.StructType) -> DataFrame:
    """Rows as a frame."""
    if holds(schema, T.VariantType):
        columns = [_with_parts(single(column)) for column in rows.columns]
        rows = pa.Table.from_arrays(columns, schema=rows.schema)
    kinds = [f.dataType for f in schema]
    plain = [_carried(kind) for kind in kinds]
    if kinds == plain:
        return spark.createDataFrame(rows, schema)
    fields = [T.StructField(f.name, kind) for f, kind in zip(schema, plain, strict=True)]
    carried = spark.createDataFrame(rows, T.StructType(fields))
    in_months = _cast(carried, [_in_months(_castable(kind)) for kind in kinds])
    pairs = zip(in_months.columns, kinds, strict=True)
    return named(in_months.select([_restored(in_months[n], k).alias(n) for n, k in pairs]), schema)


def named(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """The columns of a frame under the names of a schema, with what it says of them."""
    pairs = zip(frame.columns, schema, strict=True)
    return frame.select([frame[n].alias(f.name, metadata=f.metadata or {}) for n, f in pairs])


def _in_months(kind: T.DataType) -> T.DataType:
    """The type with intervals of months alone, from which nothing is lost in a cast to a number."""
    month = T.YearMonthIntervalType.MONTH
    months = T.YearMonthIntervalType(month, month)
    return with_parts(kind, lambda k: months if isinstance(k, T.YearMonthIntervalType) else k)


def _is_castable(kind: T.DataType) -> bool:
    """Whether Spark casts what is carried to the type: not to VOID, nor keys from texts to intervals."""
    keys = (part.keyType for part in parts(kind) if isinstance(part, T.MapType))
    return not holds(kind, T.NullType) and not any(holds(k, T.CalendarIntervalType) for k in keys)


def _castable(kind: T.DataType) -> T.DataType:
    """The type, or one that Spark casts to and whose fields are numbered, to be `_restored` from."""
    if _is_castable(kind):
        return kind
    return with_parts(
        kind,
        lambda k: k if isinstance(k, T.YearMonthIntervalType) else _CARRIED.get(type(k), k),
        lambda names: [str(place) for place in range(len(names))],
    )


def _restored(value: Column, kind: T.DataType) -> Column:
    """A value in its type, part by part where Spark does not cast it. VOID is NULL, and so a map that
    has it for keys is empty."""
    if _is_castable(kind):
        return value.cast(kind)
    if isinstance(kind, T.ArrayType):
        return F.transform(value, lambda element: _restored(element, kind.elementType))
    if isinstance(kind, T.MapType):
        if isinstance(kind.keyType, T.NullType):
            return F.when(value.isNotNull(), F.create_map()).cast(kind)
        values = F.transform_values(value, lambda _, item: _restored(item, kind.valueType))
        return F.transform_keys(values, lambda key, _: _restored(key, kind.keyType))
    if isinstance(kind, T.StructType):
        fields = [
            _restored(value.getField(str(place)), f.dataType).alias(f.name)
            for place, f in enumerate(kind.fields)
        ]
        return F.when(value.isNotNull(), F.struct(*fields))
    return F.lit(None) if isinstance(kind, T.NullType) else value.cast(kind)


def _carried(kind: T.DataType) -> T.DataType:
    """The type in which values cross: one that Spark's own ways know, and casts to and from.

    Structs are cast field by field in their order, whatever the fields are called.
    """
    return with_parts(kind, lambda k: _CARRIED.get(type(k), k), told_apart)


def _with_parts(array: pa.Array) -> pa.Array:
    """The array in which a VARIANT has its parts, empty ones, also where it is NULL."""
    inside = parts_of(array)
    if not inside:
        return array
    whole = pa.types.is_struct(array.type) and is_variant(array.type)
    return made_of(array, [pc.fill_null(p, b"") if whole else _with_parts(p) for p in inside])


def computed(frame: DataFrame) -> pa.Table:
    """Run the query of a frame.

    NULL is allowed at any depth first: Arrow cannot take a NULL struct as one whose fields are
    never NULL.
    """
    kinds = [f.dataType for f in frame.schema.fields]
    nullable = [f.dataType for f in frame.schema.toNullable().fields]
    carried = [_carried(kind) for kind in nullable]
    if kinds == carried:
        return _collected(frame)
    in_months = _cast(frame, [_in_months(kind) for kind in nullable])
    return _collected(_cast(in_months, carried)).rename_columns(frame.columns)


def in_words(frame: DataFrame) -> DataFrame:
    """The frame as people read it: with texts for the intervals that PySpark has no form of."""
    kinds = [f.dataType for f in frame.schema.fields]
    read = [
        with_parts(k, lambda p: T.StringType() if isinstance(p, _WITHOUT_FORM) else p)
        for k in kinds
    ]
    return frame if kinds == read else _cast(frame, read)


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
        if any(kind is None for _, kind in kinds):
            return frame.toArrow()
        batches = _planned(frame)
        if batches is None and not holds(frame.schema, T.VariantType):
            return frame.toArrow()
        if batches is None:
            collect: Any = frame._collect_as_arrow
            batches = collect(empty_list_if_zero_records=False)
        return pa.Table.from_batches(batches).cast(pa.schema(kinds))
    except Py4JJavaError as failure:
        raise _in_the_users_words(_converted(failure)) from None
    except CapturedException as failure:
        raise _in_the_users_words(failure) from None


def _planned(frame: DataFrame) -> list[pa.RecordBatch] | None:
    """The rows of a frame whose plan is a few rows, else nothing.

    Where all is known when a plan is made, Spark computes it then and there; a job would do no more
    than carry rows, at twice the price.
    """
    plan: Any = frame._jdf.queryExecution().executedPlan()
    if plan.nodeName() != "LocalTableScan":
        return None
    java: Any = frame.sparkSession._jvm
    rows = java.scala.collection.immutable.ArraySeq.unsafeWrapArray(plan.executeCollect())
    if rows.length() > FEW_ROWS:
        return None
    arrow = java.org.apache.spark.sql.execution.arrow
    converters = getattr(getattr(arrow, "ArrowConverters$"), "MODULE$")
    streams = converters.toBatchWithSchemaIterator(
        rows.iterator(), plan.schema(), 0, _ONE_STREAM, "UTC", False, False
    )
    try:
        return list(pa.ipc.open_stream(streams.next()))
    finally:
        streams.close()


def _in_the_users_words(failure: Exception) -> Exception:
    """An error of Spark without the text that it points into, where that has names of the engine."""
    if isinstance(failure, CapturedException):
        failure._desc = without_own_text(str(failure._desc))
    return failure


def _converted(failure: Py4JJavaError) -> Exception:
    """What made a job of Spark's fail; that it was waited for says nothing."""
    java: Any = failure.java_exception
    waited = str(java.getMessage()).startswith("Exception thrown in awaitResult")
    return convert_exception(java.getCause() if waited and java.getCause() is not None else java)


def held(frame: DataFrame) -> DataFrame:
    """The rows that a frame has now, kept by Spark as it has them.

    The job is no query of the session, so its tasks are told by the thread whether to compile.
    """
    spark = frame.sparkSession
    java: Any = spark._jvm
    spark.sparkContext.setLocalProperty(_COMPILED, str(spark.conf.get(_COMPILED)))
    execution = frame._jdf.queryExecution()
    try:
        rows = execution.executedPlan().executeCollect()
    except Py4JJavaError as failure:
        raise _converted(failure) from None
    relation = java.org.apache.spark.sql.catalyst.plans.logical.LocalRelation(
        execution.analyzed().output(),
        java.scala.collection.immutable.ArraySeq.unsafeWrapArray(rows),
        False,
        java.scala.Option.empty(),
    )
    dataset = java.org.apache.spark.sql.classic.Dataset
    return DataFrame(dataset.ofRows(spark._jsparkSession, relation), spark)


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
