"""Statements of Spark's that list or describe relations, where a server answers them otherwise.

Spark's catalog has views of ours as tables: SHOW VIEWS adds them to its own. A session that sets
`HIVE_ANSWERS` is a client of Hive's, whose words it counts on: SHOW TABLES has one column there, and
DESCRIBE of a table that does not exist says so in a row.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_incr.engine import Engine
from spark_incr.errors import IncrementalError
from spark_incr.serve.execute import frame_of
from spark_incr.serve.hearing import named
from spark_incr.sql.cursor import Cursor
from spark_incr.sql.names import join_name, quote_name
from spark_incr.sql.tokens import leading_words

HIVE_ANSWERS = "spark.incr.hiveShowTables"
_VIEWS = ("namespace", "viewName", "isTemporary")


def listing(engine: Engine, spark: SparkSession, text: str) -> DataFrame | None:
    """The answer to a statement in a session, None if it is as Spark gives it."""
    words = leading_words(text, 2)
    if words == ["SHOW", "VIEWS"]:
        return _views(engine, spark, text)
    if words[:1] not in (["SHOW"], ["DESCRIBE"], ["DESC"]) or not _as_hive(spark):
        return None
    if words == ["SHOW", "TABLES"]:
        return _by_spark(spark, text).select("tableName")
    missing = _missing(spark, text)
    if missing is None:
        return None
    return frame_of(
        spark, ["col_name", "data_type", "comment"], [[f"Table {missing} does not exist", "", ""]]
    )


def _as_hive(spark: SparkSession) -> bool:
    return spark.conf.get(HIVE_ANSWERS, "false") == "true"


def _views(engine: Engine, spark: SparkSession, text: str) -> DataFrame:
    """What SHOW VIEWS lists, and what SHOW TABLES of the same schema and pattern lists of ours."""
    rows = _by_spark(spark, text).collect()
    as_tables = re.sub("VIEWS", "TABLES", text, count=1, flags=re.IGNORECASE)
    for row in _by_spark(spark, as_tables).collect():
        found = named(engine, quote_name(join_name([row.namespace, row.tableName])))
        if found is not None and found.kind == "view":
            rows.append(row)
    columns = list(zip(*sorted(rows), strict=True)) if rows else [()] * len(_VIEWS)
    types = (pa.string(), pa.string(), pa.bool_())
    arrays = [pa.array(column, t) for column, t in zip(columns, types, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, names=list(_VIEWS)))


def _missing(spark: SparkSession, text: str) -> str | None:
    """The table that a plain DESCRIBE asks for, if there is none of that name."""
    try:
        cursor = Cursor(text)
        if not (cursor.take("DESCRIBE") or cursor.take("DESC")):
            return None
        cursor.take("TABLE")
        name = cursor.name("a table")
    except IncrementalError:
        return None
    if cursor.peek() is not None or spark.catalog.tableExists(quote_name(name)):
        return None
    return name


def _by_spark(spark: SparkSession, text: str) -> DataFrame:
    """A statement as Spark itself answers it."""
    jvm: Any = spark._jvm
    plan = jvm.org.apache.spark.sql.execution.SparkSqlParser().parsePlan(text)
    answer = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(answer, spark)
