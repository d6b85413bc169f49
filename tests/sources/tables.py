"""A table that DML is tried on, and its rows as bags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_incr.errors import IncrementalError
from spark_incr.plan.types import Field, Schema, arrow_schema
from spark_incr.sources.dml import RowChange, Target, change_of

Row = tuple[Any, ...]


def schema_of(spark: SparkSession, ddl: str) -> Schema:
    fields = spark.createDataFrame([], ddl).schema.fields
    return tuple(Field(field.name, field.dataType) for field in fields)


def bag(rows: pa.Table) -> Counter[str]:
    """Rows as a bag; their texts, since NaN is not equal to itself."""
    return Counter(repr(tuple(row.values())) for row in rows.to_pylist())


def bag_of(*rows: Row) -> Counter[str]:
    return Counter(map(repr, rows))


def condition_of(failure: Exception) -> str:
    """Spark's name of a failure, also where it is the reason of one of ours."""
    if isinstance(failure, PySparkException):
        return failure.getCondition() or ""
    assert isinstance(failure, IncrementalError)
    if failure.condition == "INCR_SCHEMA_MISMATCH":
        return failure.message.split("[")[1].split("]")[0]
    return failure.condition


@dataclass(frozen=True)
class Table:
    """A table in a session, and what DML does to it."""

    spark: SparkSession
    target: Target

    def change(self, text: str, args: Any = None) -> RowChange:
        change = change_of(self.spark, text, self.target, args)
        for side in (change.insert, change.delete):
            assert side.schema == arrow_schema(self.target.schema)
        return change

    def fails(self, text: str, args: Any = None) -> str:
        with pytest.raises((IncrementalError, PySparkException)) as caught:
            self.change(text, args)
        return condition_of(caught.value)


Given = Callable[..., Table]
