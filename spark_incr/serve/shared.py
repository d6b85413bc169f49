"""One engine for all sessions of a Spark application: JDBC, Connect and Python alike.

Sessions find the relations in Spark's catalog and the statements by the injected parser. What
changes something is carried out one after the other; readers wait for nobody.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from spark_incr.engine import Engine
from spark_incr.java import ensure_java
from spark_incr.serve.catalog_tables import CatalogTables
from spark_incr.serve.execute import carry_out, frame_of
from spark_incr.serve.hearing import Change, Own, admitted, apply_change, hear
from spark_incr.serve.injected_parser import inject_parser
from spark_incr.serve.relations import Relations, declare_all
from spark_incr.serve.versioned import FUNCTION, Versioned, versioned
from spark_incr.sql.names import quote
from spark_incr.sql.tokens import leading_words
from spark_incr.text_table import cell_text

JVM_GONE = (Py4JError, ConnectionError)

# A view means what its session says by these; the engine's own session has them while it compiles.
_MEANING = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")


# A session that sets this gets SHOW TABLES with one column, which Hive's clients count on.
HIVE_NAMES = "spark.incr.hiveShowTables"


class SharedEngine:
    """An engine, the session it works in, and the shelf that all sessions read from."""

    def __init__(self, state: Path, confs: Mapping[str, str]) -> None:
        ensure_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        context = SparkContext(conf=SparkConf().setAll(list(confs.items())))
        self._listening = False
        builder = inject_parser(context._gateway, lambda: self if self._listening else None)
        self.spark = SparkSession(context, builder.getOrCreate())
        try:
            self.engine = Engine(self.spark, state)
        except BaseException:
            self.spark.stop()
            raise
        self.engine.in_catalog = True
        self._shelf = CatalogTables(self.spark, state / "snapshots")
        self._relations = Relations(
            self.spark, state / "snapshots", self._shelf, self.engine.snapshot
        )
        self.engine.on_relations = self._declare
        self._declare()
        self._listening = True

    def close(self) -> None:
        """Stop the sessions and the engine; what is committed stays.

        The JVM may be gone already: who stops a whole group of processes stops it as well.
        """
        with self.engine.paused():
            self._listening = False
            with contextlib.suppress(*JVM_GONE):
                for name in self._relations.names():
                    self._relations.forget(name)
            self.engine.close()
        with contextlib.suppress(*JVM_GONE):
            self.spark.stop()

    # What the parser asks

    def plan(self, session: Any, text: str) -> tuple[str, Any] | None:
        heard = hear(self.engine, text, _schema(session))
        if heard is None:
            return ("rows", self._names(session, text)) if _as_hive(session, text) else None
        if isinstance(heard, Change) or not heard.only_looks:
            return "command", None
        frame = frame_of(self._session(session), *self._carried_out(session, heard, text))
        return "rows", frame._jdf.queryExecution().analyzed()

    def run(self, session: Any, text: str) -> list[str]:
        heard = hear(self.engine, text, _schema(session))
        assert heard is not None
        if isinstance(heard, Change):
            change = apply_change(self.engine, self._session(session), heard, text)
            return [f"{name}: {count}" for name, count in change.counts.items()]
        _, rows = self._carried_out(session, heard, text)
        return ["\t".join(map(cell_text, row)) for row in rows]

    def prepare(self, session: Any, text: str) -> str:
        names = self._relations.mentioned(text)
        if not names:
            return text
        self._relations.refresh(names)
        self._shelf.attach(session, names)
        if "version" not in text.lower() and FUNCTION not in text.lower():
            return text
        resolved, found = versioned(self.engine, text)
        for rows in found:
            self._show_rows(session, rows)
        return resolved

    def _show_rows(self, session: Any, rows: Versioned) -> None:
        """Older rows, or a feed, as a temporary view of the session that asks for them."""
        jvm: Any = self.spark._jvm
        plan: Any = self._relations.frame(rows.schema, rows.rows())._jdf.queryExecution().analyzed()
        frame = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan)
        frame.createOrReplaceTempView(quote(rows.name))

    def _names(self, session: Any, text: str) -> Any:
        """SHOW TABLES as Hive answers it: the names alone."""
        jvm: Any = self.spark._jvm
        plan = jvm.org.apache.spark.sql.execution.SparkSqlParser().parsePlan(text)
        shown = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan)
        none = self.spark.sparkContext._gateway.new_array(jvm.java.lang.String, 0)  # type: ignore[union-attr]
        return shown.select("tableName", none).queryExecution().analyzed()

    def _carried_out(self, session: Any, heard: Own, text: str) -> Any:
        with self.engine.paused(), self._meaning(session):
            statement = admitted(heard.statement, self._shelf.admit)
            return carry_out(self.engine, self.spark, statement, text)

    @contextmanager
    def _meaning(self, session: Any) -> Iterator[None]:
        """The engine's session with what the asking session has set."""
        asked = {key: str(session.conf().get(key)) for key in _MEANING}
        own = {key: str(self.spark.conf.get(key)) for key in _MEANING}
        for key in _MEANING:
            self.spark.conf.set(key, asked[key])
        try:
            yield
        finally:
            for key in _MEANING:
                self.spark.conf.set(key, own[key])

    def _session(self, session: Any) -> SparkSession:
        return SparkSession(self.spark.sparkContext, session)

    def _declare(self) -> None:
        declare_all(self._relations, self.engine)


def _as_hive(session: Any, text: str) -> bool:
    shows = leading_words(text, 2) == ["SHOW", "TABLES"]
    return shows and session.conf().get(HIVE_NAMES, "false") == "true"


def _schema(session: Any) -> str:
    return str(session.sessionState().catalog().getCurrentDatabase())
