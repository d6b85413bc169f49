"""Rows to delete and rows to insert, and how Spark is asked for them.

Law: a statement is one query of Spark whose rows hold both sides of the change; what leaves here
has exactly the table's Arrow schema and no NULL where the table forbids it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession

from spark_incr.errors import IncrementalError, error
from spark_incr.frames import computed, schema_of
from spark_incr.plan.types import Schema, arrow_schema
from spark_incr.sources.assignment import OVERFLOW
from spark_incr.sources.defaults import default_sql
from spark_incr.sources.dml_reader import Name
from spark_incr.sources.error_places import place_in
from spark_incr.sql.names import join_name, quote, quote_name


@dataclass(frozen=True)
class Target:
    """The incremental table that a statement changes."""

    name: str
    schema: Schema
    primary_key: tuple[str, ...]
    not_null: frozenset[str]
    defaults: Mapping[str, str] = field(default_factory=dict)

    def default(self, place: int) -> str:
        """SQL of the value that a column has where a statement gives none."""
        column = self.schema[place]
        return default_sql(column, self.defaults.get(column.name))


@dataclass(frozen=True)
class RowChange:
    """What a statement does to its table; `counts` has the names that Delta gives them.

    `key_hint` is what helps when the rows have keys that are there, None for the usual advice.
    """

    insert: pa.Table
    delete: pa.Table
    counts: Mapping[str, int]
    key_hint: str | None = None


@dataclass(frozen=True)
class Queries:
    """Where a statement's queries run: the session, the parameters, the statement and its CTEs."""

    spark: SparkSession
    parameters: Mapping[str, Any] | None
    written: str
    context: str = ""

    def analyse(self, query: str) -> DataFrame:
        text = f"{self.context}\n(\n{query}\n)" if self.context else query
        try:
            return self.spark.sql(text, args=dict(self.parameters) if self.parameters else None)
        except CapturedException as failure:
            place_in(failure, text, self.written)
            raise


def relation(target: Target, table: Name, alias: str | None = None) -> str:
    """The FROM item that reads the target under the name its statement uses for it."""
    if join_name(table.parts).lower() == target.name.lower():
        return f"{table.sql} AS {quote(alias)}" if alias else table.sql
    return f"{quote_name(target.name)} AS {quote(alias or table.parts[-1])}"


def qualifiers(table: Name, alias: str | None) -> frozenset[tuple[str, ...]]:
    """What may stand before a column of the target, in lower case."""
    if alias:
        return frozenset({(alias.lower(),)})
    parts = tuple(part.lower() for part in table.parts)
    return frozenset(parts[n:] for n in range(len(parts)))


def twice(column: Name) -> IncrementalError:
    hint = "Assign each column once."
    name = column.parts[-1]
    return error("INCR_DUPLICATE_COLUMN", name=name, hint=hint, position=column.position)


def unknown_column(target: Target, column: Name) -> IncrementalError:
    names = ", ".join(quote(field.name) for field in target.schema)
    what = f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] There is no column {column.sql} among {names}."
    return error("INCR_SCHEMA_MISMATCH", table=target.name, what=what, position=column.position)


def value_types(frame: DataFrame) -> list[T.DataType]:
    """The types of the values that a query holds in its struct `__incr_v`.

    Inside a struct a value must be one value: Spark refuses generators there.
    """
    values = schema_of(frame)["__incr_v"].dataType
    assert isinstance(values, T.StructType)
    return [field.dataType for field in values.fields]


def value_struct(values: Iterable[str]) -> str:
    fields = ", ".join(f"(\n{value}\n) AS v{n}" for n, value in enumerate(values))
    return f"struct({fields}) AS __incr_v"


def collect(frame: DataFrame) -> pa.Table:
    """Run the query; an overflow in a store assignment gets its name back."""
    try:
        return computed(frame).combine_chunks()
    except PySparkException as failure:
        parameters = failure.getMessageParameters() or {}
        what = parameters.get("errorMessage", "")
        if failure.getCondition() == "USER_RAISED_EXCEPTION" and what.startswith(OVERFLOW):
            raise error("CAST_OVERFLOW_IN_TABLE_INSERT", what=what.removeprefix(OVERFLOW)) from None
        raise


def rows_of(target: Target, columns: list[pa.ChunkedArray], *, checked: bool) -> pa.Table:
    """Columns in the table's order as rows of the table, `checked` for its constraints."""
    schema = arrow_schema(target.schema)
    table = pa.Table.from_arrays(columns, names=schema.names).cast(schema).combine_chunks()
    if checked:
        keys = {name.lower() for name in target.primary_key}
        not_null = {name.lower() for name in target.not_null}
        for field, column in zip(target.schema, table.columns, strict=True):
            if not column.null_count:
                continue
            if field.name.lower() in keys:
                raise error("INCR_NULL_KEY", column=field.name, table=target.name)
            if field.name.lower() in not_null:
                raise error("INCR_NOT_NULL", column=field.name, table=target.name)
    return table


def no_rows(target: Target) -> pa.Table:
    return arrow_schema(target.schema).empty_table()
