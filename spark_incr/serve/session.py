"""Sessions that understand the INCREMENTAL statements.

`session` makes one, `enable` teaches one that exists. The session's `sql` hears our statements and
DML on incremental tables; everything else goes to Spark, with the incremental relations that it
mentions brought up to date first.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.sql_formatter import SQLStringFormatter

from spark_incr.engine import Engine, Relation
from spark_incr.errors import error
from spark_incr.java import ensure_java
from spark_incr.serve.catalog_calls import CatalogCalls
from spark_incr.serve.execute import execute, frame_of
from spark_incr.serve.frame_writes import guard_frames
from spark_incr.serve.hearing import (
    Change,
    Own,
    admitted,
    apply_change,
    hear,
    named,
    not_applicable,
)
from spark_incr.serve.questions import unlogged
from spark_incr.serve.relations import Relations, declare_all
from spark_incr.serve.settings import substituted
from spark_incr.serve.temp_views import TempViews, no_schema
from spark_incr.serve.versioned import VersionedNames
from spark_incr.sql.tokens import leading_words

_DEFAULTS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}

_doors: weakref.WeakKeyDictionary[SparkSession, Door] = weakref.WeakKeyDictionary()

# A session keeps its temporary views and functions when it is disabled and enabled again.
_definitions: dict[str, dict[str, set[str]]] = {}


class Door:
    """One session's way into one engine."""

    def __init__(self, spark: SparkSession, engine: Engine) -> None:
        self.spark = spark
        self.engine = engine
        self.spark_sql = spark.sql
        self.spark_table = spark.table
        self.views = TempViews(spark)
        session: Any = spark._jsparkSession
        self.relations = Relations(
            spark,
            engine.path / "snapshots",
            self.views,
            engine.snapshot,
            _definitions.setdefault(str(session.sessionUUID()), {}),
        )
        self.versioned = VersionedNames(spark, engine, self.relations)
        # Held from bringing relations up to date until Spark has analysed what reads them, so that
        # threads that share the session do not see each other's versions.
        self._reading = threading.RLock()
        engine.on_relations = self.declare
        self.declare()

    def declare(self) -> None:
        """Let Spark know the relations that there are."""
        declare_all(self.relations, self.engine)

    def sql(self, text: str, args: Any = None, **kwargs: Any) -> DataFrame:
        """Spark's `sql`: `{name}` in the text stands for a value, a column or a DataFrame."""
        if not kwargs:
            return self._run(text, args)
        formatter = SQLStringFormatter(self.spark)
        try:
            return self._run(formatter.format(text, **kwargs), args)
        finally:
            formatter.clear()

    @contextmanager
    def schemas_named(self) -> Iterator[None]:
        """Tell whoever reads *mart.x*, which a server has made, how the session knows it."""
        try:
            yield
        except AnalysisException as failure:
            if failure.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
                asked = (failure.getMessageParameters() or {})["relationName"]
                found = named(self.engine, asked)
                if found is not None:
                    raise no_schema(
                        found.name, f"Read `{found.name}`, quoted as one name"
                    ) from None
            raise

    def _run(self, text: str, args: Any) -> DataFrame:
        with self.schemas_named():
            return self._heard(text, args)

    def _heard(self, text: str, args: Any) -> DataFrame:
        text = substituted(self.spark, text)
        heard = hear(self.engine, text)
        if isinstance(heard, Own):
            if args:
                what = "it takes no parameters"
                raise error("INCR_SYNTAX", what=what, hint="Write their values as literals.")
            statement = admitted(heard.statement, self.views.admit)
            with unlogged():
                return execute(self.engine, self.spark, statement, text)
        if leading_words(text, 1) == ["SHOW"]:
            self.views.list_all()
        if isinstance(heard, Change):
            self.read(text)
            with unlogged():
                counts = apply_change(self.engine, self.spark, heard, text, args).counts
            return frame_of(self.spark, list(counts), [list(counts.values())])
        with self._reading:
            self.read(text)
            return self.spark_sql(self.versioned.resolve(text), args)

    def table(self, tableName: str) -> DataFrame:  # noqa: N803, the name is Spark's
        with self._reading, self.schemas_named():
            self.read(tableName)
            return self.spark_table(tableName)

    def read(self, text: str) -> None:
        """Bring what a text may read up to date."""
        self.relations.refresh(self.relations.mentioned(text))

    def require_droppable(self, name: str) -> None:
        """Refuse to drop the temporary view that a relation is kept as."""
        relation = self.engine.find(name) or named(self.engine, name)
        if relation is not None:
            hint = f"DROP INCREMENTAL {relation.kind.upper()} is the statement for it."
            raise not_applicable(relation, "spark.catalog.dropTempView", hint)


def session(
    state: str | os.PathLike[str], builder: SparkSession.Builder | None = None
) -> SparkSession:
    """A Spark session over a state directory; `builder` brings confs of your own."""
    ensure_java()
    # Spark's workers must run the interpreter that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    own = builder is None
    builder = builder or SparkSession.builder.master("local[*]").appName("spark_incr")
    if own:
        for key, value in _DEFAULTS.items():
            builder = builder.config(key, value)
    return enable(builder.getOrCreate(), state)


def enable(spark: SparkSession, state: str | os.PathLike[str]) -> SparkSession:
    """Teach a session the INCREMENTAL statements, over a state directory."""
    known = _doors.get(spark)
    if known is not None:
        if known.engine.path == Path(state):
            return spark
        raise error("INCR_SESSION_BOUND", path=known.engine.path)
    door = Door(spark, Engine(spark, Path(state)))
    _doors[spark] = door
    spark.sql = door.sql  # type: ignore[method-assign,assignment]
    spark.table = door.table  # type: ignore[method-assign]
    spark.__dict__["catalog"] = CatalogCalls(
        spark, door.views.list_all, door.read, door.require_droppable
    )
    DataFrameReader.table = _read_table  # type: ignore[method-assign,assignment]
    guard_frames(_relation)
    stop = spark.stop

    def close() -> None:
        disable(spark)
        stop()

    spark.stop = close  # type: ignore[method-assign]
    return spark


_spark_read_table = DataFrameReader.table


def _read_table(reader: DataFrameReader, tableName: str) -> DataFrame:  # noqa: N803, Spark's name
    """`spark.read.table` sees the last version, as `spark.table` does."""
    door = _doors.get(reader._spark)
    if door is None:
        return _spark_read_table(reader, tableName)
    with door.schemas_named():
        door.read(tableName)
        return _spark_read_table(reader, tableName)


def _relation(spark: SparkSession, name: str) -> Relation | None:
    door = _doors.get(spark)
    return None if door is None else named(door.engine, name)


def disable(spark: SparkSession) -> None:
    """Close the engine of a session and give the session back as it was."""
    door = _doors.pop(spark, None)
    if door is None:
        return
    for name in ("sql", "table", "stop", "catalog"):
        spark.__dict__.pop(name, None)
    door.versioned.forget()
    for name in door.relations.names():
        door.relations.forget(name)
    door.engine.close()


def engine(spark: SparkSession) -> Engine:
    """The engine of a session."""
    door = _doors.get(spark)
    if door is None:
        raise error("INCR_SESSION_UNBOUND")
    return door.engine
