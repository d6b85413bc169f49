"""How Spark reads incremental relations: temporary views over their last committed rows.

Law: after `refresh(names)`, a query over a named relation gives the rows of its last version.
Nothing is done at a commit: a relation is handed to Spark when it is read and has changed since.

Small relations become local relations of Spark, which answer simple queries without a Spark job.
Larger ones become one Parquet file each; from a few thousand rows on, that is quicker to make and
to read. A Python data source would need neither hand-over nor hook, but Spark 4.3 plans the scan
of a temporary view once (again only when filters are pushed into it), so that every scan would
have to choose its version as it runs: two scans of one query could differ, and each needs a
Python worker, which is what small reads would mostly wait for.

A DataFrame shows the version that was current when it was made, for as long as it lives: Spark
binds a temporary view when it analyses a query, and a file stays while any plan can read it.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession

from spark_incr.errors import IncrementalError, error
from spark_incr.plan.scope import folded
from spark_incr.plan.types import Schema
from spark_incr.sql.names import name_parts
from spark_incr.sql.tokens import leading_words, tokenize

LOCAL_ROWS = 4_000
LOCAL_BYTES = 256 << 10
ROW_GROUP = 128 << 10  # rows; Spark reads the groups of a file in parallel
UNCOLLECTED_BYTES = 1 << 30
ATTEMPTS = 3

# Statements that may name a relation without writing its name
_INDIRECT = re.compile(r"\bidentifier\s*(\(|/\*|--)|\bexecute\b")


class Relations:
    """The incremental relations of one engine as Spark sees them in one session.

    `directory` belongs to this object alone; files that an earlier process left in it are deleted.
    A relation is known to Spark by its name as a single identifier: temporary views have no
    qualified names, so *shop.orders* is read as `` `shop.orders` ``.
    """

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._files = _Files(spark, directory)
        self._relations: dict[str, _Relation] = {}
        self._definitions: dict[str, set[str]] = {}
        self._lock = threading.RLock()  # never held while `version` or `snapshot` is called

    def names(self) -> set[str]:
        """The declared relations."""
        return {r.name for r in list(self._relations.values())}

    def declare(
        self,
        name: str,
        schema: Schema,
        version: Callable[[], int],
        snapshot: Callable[[], pa.Table],
    ) -> None:
        """Make a relation known; Spark hears of it when it is first read.

        `version` grows with every change of the rows. `snapshot` gives the current rows, repeated
        as often as they occur, with exactly the Arrow schema of `schema`. A relation that is
        declared again with the same schema keeps what Spark has of it.
        """
        fields = T.StructType([T.StructField(f.name, _nullable(f.type)) for f in schema])
        with self._lock:
            known = self._relations.get(folded(name))
            if known is not None and known.name == name and known.schema == fields:
                known.version, known.snapshot = version, snapshot
                return
            if known is not None:
                self.forget(name)
            view = ".".join(name_parts(name))
            self._relations[folded(name)] = _Relation(name, view, fields, version, snapshot)

    def forget(self, name: str) -> None:
        """Take a relation away from Spark; DataFrames over it stay readable."""
        with self._lock:
            known = self._relations.pop(folded(name), None)
            if known is not None and known.published is not None:
                self._spark.catalog.dropTempView(known.view)

    def refresh(self, names: Iterable[str] | None = None) -> None:
        """Make the temporary views current: the named ones, or all.

        Views that are refreshed together show one version, as long as commits leave time to
        take their rows.
        """
        chosen = self._chosen(names)
        for _ in range(ATTEMPTS):
            versions = [r.version() for r in chosen]
            stale = [(r, v) for r, v in zip(chosen, versions, strict=True) if r.is_older_than(v)]
            if not stale:
                return
            rows = [r.snapshot() for r, _ in stale]
            if versions == [r.version() for r in chosen]:
                break
        with self._lock:
            for (relation, version), table in zip(stale, rows, strict=True):
                declared = self._relations.get(folded(relation.name)) is relation
                if declared and relation.is_older_than(version):
                    self._publish(relation, table)
                    relation.published = version

    def mentioned(self, sql_text: str) -> set[str]:
        """The declared relations that a statement may read; never too few, sometimes too many.

        Every statement must pass here, for Spark keeps temporary views and functions that are
        defined over relations as text: a statement that names one of those reads them too.
        """
        text = _plain(sql_text)
        relations = list(self._relations.values())
        indirect = _INDIRECT.search(text) is not None
        found = {r.name for r in relations if indirect or _occurs(_plain(r.view), text)}
        for definition, read in list(self._definitions.items()):
            if _occurs(definition, text):
                found |= read
        if found and _is_definition(sql_text):
            self._definitions[_plain(_defined_name(sql_text))] = found
        return found & {r.name for r in relations}

    def _chosen(self, names: Iterable[str] | None) -> list[_Relation]:
        with self._lock:
            keys = list(self._relations) if names is None else {folded(n) for n in names}
            return [self._relations[key] for key in keys if key in self._relations]

    def _publish(self, relation: _Relation, table: pa.Table) -> None:
        small = table.num_rows <= LOCAL_ROWS and table.nbytes <= LOCAL_BYTES
        if small or not _fits_parquet(relation.schema):
            frame = self._spark.createDataFrame(table, relation.schema)
        else:
            frame = self._files.frame(table, relation.schema)
        frame.createOrReplaceTempView("`" + relation.view.replace("`", "``") + "`")


@dataclass(eq=False)
class _Relation:
    name: str
    view: str
    schema: T.StructType
    version: Callable[[], int]
    snapshot: Callable[[], pa.Table]
    published: int | None = None

    def is_older_than(self, version: int) -> bool:
        return self.published is None or self.published < version


class _Files:
    """Parquet files that live as long as Spark has a plan that can read them.

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
        """The rows as a DataFrame over a file of their own."""
        self._delete_unread()
        path = self._directory / f"{next(self._numbers):08d}.parquet"
        try:
            _write(table, path)
            self._sizes[str(path)] = path.stat().st_size
        except OSError as failure:
            path.unlink(missing_ok=True)
            raise self._unwritable(failure) from failure
        reader = self._spark.read.schema(schema).option("datetimeRebaseMode", "CORRECTED")
        # Spark's own switch for paths that are names and not patterns
        frame = reader.option("__globPaths__", "false").parquet(f"file:{path}")
        plan: Any = frame._jdf.queryExecution().analyzed()
        reference = self._java.lang.ref.WeakReference(plan.relation().location(), self._unread)
        self._readers.put(reference, str(path))
        return frame

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


def _nullable(spark_type: T.DataType) -> T.DataType:
    """The type with NULL allowed at every depth, as Spark reads it from files."""
    if isinstance(spark_type, T.ArrayType):
        return T.ArrayType(_nullable(spark_type.elementType))
    if isinstance(spark_type, T.MapType):
        return T.MapType(_nullable(spark_type.keyType), _nullable(spark_type.valueType))
    if isinstance(spark_type, T.StructType):
        return T.StructType([T.StructField(f.name, _nullable(f.dataType)) for f in spark_type])
    return spark_type


def _fits_parquet(spark_type: T.DataType) -> bool:
    """Whether the type can be kept in Parquet: no empty struct, no names that differ by case."""
    if isinstance(spark_type, T.ArrayType):
        return _fits_parquet(spark_type.elementType)
    if isinstance(spark_type, T.MapType):
        return _fits_parquet(spark_type.keyType) and _fits_parquet(spark_type.valueType)
    if isinstance(spark_type, T.StructType):
        distinct = {folded(name) for name in spark_type.names}
        fits = 0 < len(distinct) == len(spark_type)
        return fits and all(_fits_parquet(f.dataType) for f in spark_type)
    return True


def _plain(text: str) -> str:
    """Text to look for names in: folded, and quotes alike, doubled or not."""
    return re.sub(r"[`\"]+", "`", folded(text))


def _occurs(name: str, text: str) -> bool:
    found = name in text
    return found and (not name or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None)


def _is_definition(sql_text: str) -> bool:
    words = leading_words(sql_text, 6)
    return words[:1] == ["CACHE"] or "VIEW" in words or "FUNCTION" in words


def _defined_name(sql_text: str) -> str:
    """What a statement defines, without its qualifiers; empty, which occurs anywhere, if unclear.

    >>> _defined_name("CREATE TEMP VIEW IF NOT EXISTS `my view` (a) AS SELECT 1")
    'my view'
    >>> _defined_name("CREATE GLOBAL TEMPORARY VIEW global_temp.v AS SELECT 1")
    'v'
    """
    try:
        tokens = [token.text for token in tokenize(sql_text)]
    except IncrementalError:
        return ""
    kinds = [i for i, word in enumerate(tokens) if word.upper() in ("VIEW", "FUNCTION", "TABLE")]
    rest = tokens[kinds[0] + 1 :] if kinds else []
    if [word.upper() for word in rest[:3]] == ["IF", "NOT", "EXISTS"]:
        rest = rest[3:]
    while rest[1:2] == ["."]:
        rest = rest[2:]
    return rest[0] if rest else ""
