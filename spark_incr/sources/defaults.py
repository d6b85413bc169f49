"""DEFAULT of a column: what Spark admits, and the SQL that stands in its place.

Law: a default is a constant to the statement that uses it, of the column's type; it is kept as it
was written and evaluated by each such statement, so `current_date()` is the day of the change.
"""

from __future__ import annotations

import json
from typing import Any

import pyspark.sql.types as T
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark_incr.errors import error
from spark_incr.plan.types import Field, type_sql

_KEPT_AS = "CURRENT_DEFAULT"


def check_default(spark: SparkSession, name: str, column_type: T.DataType, text: str) -> None:
    """Refuse, as Spark does, what cannot be the default of a column."""
    jvm: Any = spark._jvm
    kind = json.loads(T.StructType([T.StructField("", column_type)]).json())["fields"][0]["type"]
    column = {"name": name, "type": kind, "nullable": True, "metadata": {_KEPT_AS: text}}
    struct = json.dumps({"type": "struct", "fields": [column]})
    field = jvm.org.apache.spark.sql.types.DataType.fromJson(struct).apply(0)
    columns = getattr(jvm.org.apache.spark.sql.catalyst.util, "ResolveDefaultColumns$")
    try:
        getattr(columns, "MODULE$").analyze(field, "CREATE TABLE", _KEPT_AS)
    except Py4JJavaError:
        # Spark breaks down at aggregates, which are no constants.
        raise error("INCR_SYNTAX", what=f"the DEFAULT of {name} is not a constant") from None


def default_sql(column: Field, text: str | None) -> str:
    """A column's default as a value of its type; NULL if it has none."""
    value = "NULL" if text is None else f"(\n{text}\n)"
    return f"CAST({value} AS {type_sql(column.type)})"
