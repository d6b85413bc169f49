"""Rows as frames of Spark: local relations if they are few, Parquet files of their own if many.

Small ones are answered without a Spark job. From a few thousand rows on, a file is quicker to make
and to read. A Python data source would need neither, but Spark 4.3 plans the scan of a temporary
view once (again only when filters are pushed into it), so that every scan would have to choose its
version as it runs: two scans of one query could differ, and each needs a Python worker, which is
what small reads would mostly wait for.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession

from spark_incr.errors import IncrementalError, error
from spark_incr.frames import named, offered
from spark_incr.plan.scope import folded

LOCAL_ROWS = 4_000
LOCAL_BYTES = 256 << 10
ROW_GROUP = 128 << 10  # rows; Spark reads the groups of a file in parallel
UNCOLLECTED_BYTES = 1 << 30


class Snapshots:
    """Frames over rows, and files that live as long as Spark has a plan that can read them.

    `directory` belongs to this object alone; files that an earlier process left in it are deleted.
    All plans over a file share its file index. A weak reference to that index tells when the
    last of them is gone: it comes out of the reference queue, and the file is deleted.
    """

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory.absolute()
        self._numbers = itertools.count()
        self._sizes: dict[str, int] = {}
        self._patience = UNCOLLECTED_BYTES
        jvm: Any = spark._jvm
        self._java = jvm.java
        self._unread = self._java.lang.ref.ReferenceQueue()
        self._readers = self._java.util.HashMap()  # weak reference to an index -> its file
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            for left in self._directory.glob("*.parquet"):
                left.unlink()
        except OSError as failure:
            raise self._unwritable(failure) from failure

    def frame(self, table: pa.Table, schema: T.StructType) -> DataFrame:
        """The rows as a DataFrame that stays readable whatever is committed later."""
        small = table.num_rows <= LOCAL_ROWS and table.nbytes <= LOCAL_BYTES
        if small or not _fits_parquet(schema):
            return offered(self._spark, table, schema)
        return self._file(table, schema)

    def _file(self, table: pa.Table, schema: T.StructType) -> DataFrame:
        self._delete_unread()
        path = self._directory / f"{next(self._numbers):08d}.parquet"
        try:
            _write(table, path)
            self._sizes[str(path)] = path.stat().st_size
        except OSError as failure:
            path.unlink(missing_ok=True)
            raise self._unwritable(failure) from failure
        # Spark would pad what is named CHAR again as it reads.
        plain = T.StructType([T.StructField(f.name, f.dataType) for f in schema])
        reader = self._spark.read.schema(plain).option("datetimeRebaseMode", "CORRECTED")
        # Spark's own switch for paths that are names and not patterns
        frame = reader.option("__globPaths__", "false").parquet(f"file:{path}")
        plan: Any = frame._jdf.queryExecution().analyzed()
        reference = self._java.lang.ref.WeakReference(plan.relation().location(), self._unread)
        self._readers.put(reference, str(path))
        return named(frame, schema) if any(f.metadata for f in schema) else frame

    def _delete_unread(self) -> None:
        self._drain()
        if sum(self._sizes.values()) > self._patience:
            self._java.lang.System.gc()
            self._drain()
            self._patience = max(UNCOLLECTED_BYTES, 2 * sum(self._sizes.values()))

    def _drain(self) -> None:
        while (reference := self._unread.poll()) is not None:
            path = self._readers.remove(reference)
            Path(path).unlink(missing_ok=True)
            del self._sizes[path]

    def _unwritable(self, failure: OSError) -> IncrementalError:
        return error("INCR_STATE_READ_ONLY", path=self._directory, what=failure)


def _write(table: pa.Table, path: Path) -> None:
    # No statistics and no dictionaries: Spark would skip rows by them, and they know neither that
    # NaN is greater than every number nor that -0.0 equals 0.0.
    pq.write_table(
        table,
        path,
        row_group_size=ROW_GROUP,
        compression="lz4",
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
        store_decimal_as_integer=True,
    )


def _fits_parquet(spark_type: T.DataType) -> bool:
    """Whether the type can be kept in Parquet: no empty struct, no names that differ by case, neither
    VOID nor intervals of all units."""
    if isinstance(spark_type, T.ArrayType):
        return _fits_parquet(spark_type.elementType)
    if isinstance(spark_type, T.MapType):
        return _fits_parquet(spark_type.keyType) and _fits_parquet(spark_type.valueType)
    if isinstance(spark_type, T.StructType):
        distinct = {folded(name) for name in spark_type.names}
        fits = 0 < len(distinct) == len(spark_type)
        return fits and all(_fits_parquet(f.dataType) for f in spark_type)
    return not isinstance(spark_type, T.NullType | T.CalendarIntervalType)
