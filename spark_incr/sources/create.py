"""A source from its statement: Spark reads the types, or finds them in the files."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from spark_incr.errors import error
from spark_incr.frames import columns_of, type_named
from spark_incr.plan.types import Field, Schema, type_text
from spark_incr.sources.definition import FILE_FORMATS, STREAM, SourceDefinition, define
from spark_incr.sources.error_places import placed
from spark_incr.sql.statements import ChangeKind, ColumnDefinition, CreateSource


def source_definition(spark: SparkSession, statement: CreateSource) -> SourceDefinition:
    """The definition of a source that SQL creates."""
    format_ = statement.format.lower()
    if format_ == STREAM or format_ not in FILE_FORMATS:
        formats = ", ".join(FILE_FORMATS)
        raise error(
            "INCR_SOURCE_UNSUPPORTED",
            source=statement.name,
            what=f"the format {statement.format}; by SQL it is one of {formats}",
            hint="engine.stream takes any stream of Structured Streaming from Python.",
        )
    if statement.columns:
        declared = _declared(spark, statement)
        return define(statement, declared)
    declared = _found(spark, statement)
    columns = tuple(ColumnDefinition(f.name, type_text(f.type)) for f in declared)
    return define(replace(statement, columns=columns), declared)


def _declared(spark: SparkSession, statement: CreateSource) -> Schema:
    fields = []
    for column in statement.columns:
        with placed(column.type_position):
            fields.append(Field(column.name, type_named(spark, column.type_text)))
    return tuple(fields)


def _found(spark: SparkSession, statement: CreateSource) -> Schema:
    """The columns that Spark finds in the files that are there now."""
    if statement.changes.kind is ChangeKind.DEBEZIUM:
        what = "the columns of its rows must be declared"
        raise error("INCR_SOURCE_UNSUPPORTED", source=statement.name, what=what)
    options = dict(statement.options)
    frame = spark.read.format(statement.format).options(**options).load()
    return columns_of(frame)
