"""One engine for all sessions of a Spark application: JDBC, Connect and Python alike.

Sessions find the relations in Spark's catalog and the statements by the injected parser. What
changes something is carried out one after the other; readers wait for nobody.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession

from spark_incr.engine import Engine
from spark_incr.errors import error
from spark_incr.java import ensure_java
from spark_incr.serve.catalog_tables import CatalogTables
from spark_incr.serve.execute import carry_out, frame_of
from spark_incr.serve.frame_writes import refusal, writing_call
from spark_incr.serve.hearing import Change, Own, admitted, apply_change, hear, named
from spark_incr.serve.injected_parser import inject_parser
from spark_incr.serve.listings import listing
from spark_incr.serve.relations import Relations, declare_all
from spark_incr.serve.settings import settings_of, substituted, under
from spark_incr.serve.versioned import VersionedNames
from spark_incr.text_table import cell_text

JVM_GONE = (Py4JError, ConnectionError)
_QUERY = "spark_incr query"  # the jobs that may be cancelled when the server is to stop
_GRACE = 5.0  # seconds that queries have when the server is to stop
_ANSWERED = 0.5  # seconds for clients to take the answer


class SharedEngine:
    """An engine, the session it works in, and the shelf that all sessions read from."""

    def __init__(self, state: Path, confs: Mapping[str, str]) -> None:
        ensure_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        context = SparkContext(conf=SparkConf().setAll(list(confs.items())))
        self._listening = self._draining = False
        self._thread = threading.local()
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
        self._versioned = VersionedNames(self.spark, self.engine, self._relations)
        self.engine.on_relations = self._declare
        self._declare()
        self._listening = True

    def drain(self) -> None:
        """Let the statements of clients end before the doors close.

        New ones are refused. Queries have a while before Spark cancels them, under that name;
        changes that have begun are carried out.
        """
        self._draining = True
        with contextlib.suppress(*JVM_GONE):
            context = self.spark.sparkContext
            until = time.monotonic() + _GRACE
            while context.statusTracker().getActiveJobsIds() and time.monotonic() < until:
                time.sleep(0.1)
            context.cancelJobsWithTag(_QUERY)
        with self.engine.paused():
            pass
        time.sleep(_ANSWERED)

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
        if self._draining and self._is_query(session):
            raise error("INCR_SERVER_STOPPING")
        text = substituted(self.spark, text)
        heard = hear(self.engine, text, _schema(session))
        if heard is None:
            answer = listing(self.engine, self._session(session), text)
            return None if answer is None else _rows(answer)
        if isinstance(heard, Change) or not heard.only_looks:
            return "command", None
        return _rows(frame_of(self._session(session), *self._carried_out(session, heard, text)))

    def run(self, session: Any, text: str) -> list[str]:
        text = substituted(self.spark, text)
        heard = hear(self.engine, text, _schema(session))
        assert heard is not None
        with self._changing():
            if isinstance(heard, Change):
                change = apply_change(self.engine, self._session(session), heard, text)
                return [f"{name}: {count}" for name, count in change.counts.items()]
            _, rows = self._carried_out(session, heard, text)
            return ["\t".join(map(cell_text, row)) for row in rows]

    def prepare(self, session: Any, text: str) -> str:
        if self._is_query(session):
            self.spark.sparkContext.addJobTag(_QUERY)
        names = self._relations.mentioned(text)
        if not names:
            return text
        self._relations.refresh(names, lambda: self._shelf.attach(session, names))
        return self._versioned.resolve(text)

    def check_name(self, session: Any, name: str) -> None:
        relation = named(self.engine, name, _schema(session))
        call = None if relation is None else writing_call(self.spark._jvm)
        if relation is not None and call is not None:
            raise refusal(relation, call)

    def _is_query(self, session: Any) -> bool:
        """Whether a text comes from a client, and not from a change or from the engine itself."""
        changing = getattr(self._thread, "changes", False)
        return not changing and not session.equals(self.spark._jsparkSession)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """While the block runs, what its thread asks of Spark is part of a change.

        A thread of Python's is one of the JVM's, which Spark uses for one statement after another.
        """
        self.spark.sparkContext.removeJobTag(_QUERY)
        self._thread.changes = True
        try:
            yield
        finally:
            self._thread.changes = False

    def _carried_out(self, session: Any, heard: Own, text: str) -> Any:
        """A view means what the session says that creates it; the engine compiles it in its own."""
        with self.engine.paused(), under(self.spark, settings_of(self._session(session))):
            statement = admitted(heard.statement, self._shelf.admit)
            return carry_out(self.engine, self.spark, statement, text)

    def _session(self, session: Any) -> SparkSession:
        return SparkSession(self.spark.sparkContext, session)

    def _declare(self) -> None:
        declare_all(self._relations, self.engine)


def _rows(frame: DataFrame) -> tuple[str, Any]:
    plan: Any = frame._jdf.queryExecution().analyzed()
    return "rows", plan


def _schema(session: Any) -> str:
    return str(session.sessionState().catalog().getCurrentDatabase())
