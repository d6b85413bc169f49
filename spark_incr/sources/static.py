"""Static tables of Spark as invariant inputs: read once, when a view that reads them is filled."""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_incr.plan.types import Field, Schema, arrow_schema
from spark_incr.runtime.changes import inserted
from spark_incr.sql.dialect import quoted
from spark_incr.sql.names import quote_name


def static_schema(spark: SparkSession, parts: tuple[str, ...]) -> Schema | None:
    """The columns of a table that Spark knows."""
    try:
        fields = spark.table(".".join(quoted(part) for part in parts)).schema.fields
    except PySparkException:
        return None
    return tuple(Field(f.name, f.dataType) for f in fields)


def read_static(spark: SparkSession, name: str) -> pa.Table:
    """The rows of a table that Spark knows, as a change batch."""
    frame = spark.table(quote_name(name))
    schema = tuple(Field(f.name, f.dataType) for f in frame.schema.fields)
    rows = frame.toArrow()
    arrow = arrow_schema(schema)
    return inserted(pa.Table.from_arrays(rows.columns, names=arrow.names).cast(arrow))
