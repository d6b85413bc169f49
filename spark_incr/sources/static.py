"""Static tables of Spark as invariant inputs: read once, when a view that reads them is filled.

A fingerprint is taken before the rows are read: of the files, where a table is files alone, and of
the rows otherwise. A refresh compares it, so a table that was not invariant after all is noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_incr.frames import columns_of, computed
from spark_incr.plan.types import Schema, arrow_schema, arrow_type
from spark_incr.runtime.changes import inserted
from spark_incr.runtime.columns import single
from spark_incr.runtime.keys import hash_columns
from spark_incr.serve.questions import unlogged
from spark_incr.serve.spark_plans import items, names_in
from spark_incr.sql.dialect import quoted
from spark_incr.sql.names import quote_name

GONE = "gone"


def static_schema(spark: SparkSession, parts: tuple[str, ...]) -> Schema | None:
    """The columns of a table that Spark knows."""
    try:
        with unlogged():
            return columns_of(spark.table(".".join(quoted(part) for part in parts)))
    except PySparkException:
        return None


def names_below(spark: SparkSession, parts: tuple[str, ...]) -> Iterator[str]:
    """The tables and views that a table or view of Spark reads, itself included."""
    return names_in(spark.table(".".join(quoted(part) for part in parts)))


def read_static(spark: SparkSession, name: str) -> pa.Table:
    """The rows of a table that Spark knows, as a change batch."""
    return inserted(_rows(spark.table(quote_name(name))))


def static_fingerprint(spark: SparkSession, name: str) -> str:
    """What changes when the table does; `GONE` if there is none."""
    try:
        frame = spark.table(quote_name(name))
        files = _files(spark, frame)
        if files:
            return "files:" + hashlib.sha256("\n".join(sorted(files)).encode()).hexdigest()[:16]
        rows = _rows(frame)
    except (PySparkException, Py4JJavaError):  # it is gone, or files of it are
        return GONE
    columns = [single(column) for column in rows.columns]
    total = int(np.sum(hash_columns(columns, rows.num_rows), dtype=np.uint64))
    return f"rows:{rows.num_rows}:{total:016x}"


def _rows(frame: DataFrame) -> pa.Table:
    """The rows of a frame, without columns that cannot be kept: no view reads them."""
    kept = tuple(f for f in columns_of(frame) if arrow_type(f.type) is not None)
    rows = computed(frame.select(*(quoted(f.name) for f in kept)))
    return pa.Table.from_arrays(rows.columns, names=rows.column_names).cast(arrow_schema(kept))


def _files(spark: SparkSession, frame: DataFrame) -> list[str]:
    """Name, size and time of every file, if the table reads nothing but files."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    if not all("Relation " in leaf.toString() for leaf in items(plan.collectLeaves())):
        return []
    jvm: Any = spark._jvm
    conf: Any = spark._jsparkSession.sessionState().newHadoopConf()
    result = []
    for url in frame.inputFiles():
        path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(url))
        status = path.getFileSystem(conf).getFileStatus(path)
        result.append(f"{url} {status.getLen()} {status.getModificationTime()}")
    return result
