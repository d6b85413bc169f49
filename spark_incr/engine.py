"""The engine: one state directory, open for writing.

Law: every version is the whole of all tables, sources and views after some batches; a batch makes
the next version or nothing. A commit changes the tables, lets each view follow in order of what it
reads, writes what is new, and publishes the version when its manifest is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_incr import definitions
from spark_incr.catalog import StoredView
from spark_incr.compile import Compiled
from spark_incr.errors import error, warn
from spark_incr.feed import Subscription
from spark_incr.history import History, Listener, Phases, Record, SourceRead, Timer, record_of
from spark_incr.intake import take_in
from spark_incr.maintenance import Maintained, ViewChange, maintain
from spark_incr.plan.environment import Known
from spark_incr.progress import show_progress
from spark_incr.reading import EngineSnapshot, RelationReader
from spark_incr.relation import Relation, Status
from spark_incr.runner import Runner
from spark_incr.runtime.tables import Table, TableDefinition
from spark_incr.serve.analysis import SparkAnalysis
from spark_incr.sources.attach import attach_stream
from spark_incr.sources.definition import SourceDefinition
from spark_incr.sources.files import FileStream, MicroBatch, is_local
from spark_incr.sources.source import Source
from spark_incr.sources.static import GONE, names_below, static_fingerprint, static_schema
from spark_incr.sql.names import join_name, without_default
from spark_incr.sql.statements import CreateView
from spark_incr.versions import Versions

__all__ = ["Commit", "Engine", "Relation", "RelationReader", "ViewChange"]

RETAIN_VERSIONS = 100
RETAIN_CONF = "spark.incr.retainVersions"
OnFill = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Commit:
    """One version: its number, how long it took, the views that it changed and that failed."""

    version: int
    milliseconds: float
    views: Mapping[str, ViewChange]
    failed: Mapping[str, Exception] = field(default_factory=dict)


class Engine:
    """One state directory, open for writing."""

    def __init__(
        self, spark: SparkSession, state: str | Path, retain_versions: int | None = None
    ) -> None:
        self.spark = spark
        self.path = Path(state)
        kept = retain_versions or int(spark.conf.get(RETAIN_CONF, str(RETAIN_VERSIONS)) or 0)
        self.versions = Versions(self.path, kept)
        self.history = History(self.path.name, kept)
        self.runner = Runner(self)
        self.subscriptions: list[Subscription] = []
        # Whether relations are tables of Spark's own catalog, where `default.t` is `t`.
        self.in_catalog = False
        self.on_fill: OnFill = show_progress
        self.on_relations: Callable[[], None] = lambda: None
        try:
            store = self.versions.store
            self.history.restore(store.manifest_at(version) for version in store.versions())
            definitions.open_relations(self)
            for relation in self.relations:
                if relation.damaged:
                    warn(str(relation.damage()))
        except BaseException:
            self.versions.store.close()
            raise

    def close(self) -> None:
        self.runner.stop()
        self.versions.store.close()

    # What there is

    @property
    def version(self) -> int:
        return self.versions.published.version

    @property
    def relations(self) -> list[Relation]:
        return list(self.versions.relations.values())

    def find(self, name: str) -> Relation | None:
        return self.versions.find(without_default(name) if self.in_catalog else name)

    def relation_named(self, name: str, kind: str) -> Relation:
        """The table, source or view of a name, or an error."""
        found = self.find(name)
        if found is None or found.kind != kind:
            detail = "" if found is None else f"{found.name} is a {found.kind}."
            hint = f"SHOW INCREMENTAL {kind.upper()}S lists what there is."
            raise error("INCR_RELATION_NOT_FOUND", kind=kind, name=name, detail=detail, hint=hint)
        return found

    def relation(self, parts: tuple[str, ...]) -> Known | None:
        """The relation that a query names: one of the engine's, or a static table of Spark."""
        found = self.find(join_name(parts))
        if found is not None:
            return found.known
        schema = static_schema(self.spark, parts)
        if schema is None:
            return None
        for below in filter(None, map(self.find, names_below(self.spark, parts))):
            raise error(
                "INCR_NOT_FOLLOWED", name=join_name(parts), kind=below.kind, relation=below.name
            )
        return Known(join_name(parts), schema)

    def view(self, name: str) -> RelationReader:
        """A view to read from."""
        return self._reader(self.relation_named(name, "view"))

    def table(self, name: str) -> RelationReader:
        """A table to read from."""
        return self._reader(self.relation_named(name, "table"))

    def source(self, name: str) -> RelationReader:
        """A source to read from."""
        return self._reader(self.relation_named(name, "source"))

    def _reader(self, relation: Relation) -> RelationReader:
        return RelationReader(relation.name, relation.schema, self)

    def snapshot(self) -> EngineSnapshot:
        """All relations as of the last version, for as long as the result is held."""
        return EngineSnapshot(self.versions.published)

    def paused(self) -> AbstractContextManager[object]:
        """While the block runs, no commit is made."""
        return self.versions.mutex

    # Changes

    def commit(
        self, changes: Mapping[str, Mapping[str, pa.Table]], *, strict: bool = False
    ) -> Commit:
        """Apply rows to insert and to delete to tables, as one version.

        `{"orders": {"insert": rows, "delete": rows}}`; deletes name rows in full, or by primary
        key. Nothing is applied if anything does not fit. A view that cannot follow is marked as
        failed and the others go on; with `strict`, nothing is applied and its error is raised.
        """
        phases = Phases()
        with Timer(phases, "apply") as timer, self.versions.version() as version:
            tables: dict[str, pa.Table] = {}
            for name, sides in changes.items():
                relation = self.relation_named(name, "table")
                assert isinstance(relation.state, Table)
                if relation.name in tables:
                    raise error("INCR_SCHEMA_MISMATCH", table=name, what="it is named twice")
                _require_sides(name, sides)
                change = relation.state.apply(sides.get("insert"), sides.get("delete"))
                tables[relation.name] = change
            tables = {name: change for name, change in tables.items() if change.num_rows}
            maintained = self.maintain(tables, version, frozenset(), strict)
            record = None
            if tables:
                record = self.persist(version, "commit", phases, timer, tables, maintained)
        return self.committed(record, phases, maintained)

    def advance(
        self, batches: Mapping[str, MicroBatch], refresh: frozenset[str] | set[str], read_ms: float
    ) -> dict[str, Exception]:
        """Take micro-batches of sources in and refresh views, as one version.

        Returns the sources whose batch was refused, and why.
        """
        phases = Phases(read=read_ms)
        with Timer(phases, "apply") as timer, self.versions.version() as version:
            intake = take_in(self.versions, batches, version)
            maintained = self.maintain(intake.changes, version, refresh, False)
            record = None
            if intake.reads or maintained.touched:
                record = self.persist(
                    version, "stream", phases, timer, intake.changes, maintained, intake.reads
                )
        self.committed(record, phases, maintained)
        return intake.failures

    def maintain(
        self,
        changes: Mapping[str, pa.Table],
        version: int,
        refresh: frozenset[str] | set[str],
        strict: bool,
    ) -> Maintained:
        """Let the views follow that every commit brings up to date, and those to refresh."""
        return maintain(
            self.relations,
            changes,
            version,
            due=lambda relation: relation.follows_updates or relation.name in refresh,
            strict=strict,
        )

    def persist(
        self,
        version: int,
        reason: str,
        phases: Phases,
        timer: Timer,
        changes: Iterable[str],
        maintained: Maintained,
        reads: Mapping[str, SourceRead] | None = None,
    ) -> Record:
        """Make a version durable together with the record of what it did."""
        timer.next("commit")
        record = record_of(version, reason, phases, maintained, self.relations, reads)
        changed = {*changes, *maintained.changes}
        body = record.body(self.history.last)
        kept = partial(self.history.committed, record)
        self.versions.persist(version, changed, maintained.changes, body, kept)
        return record

    def committed(self, record: Record | None, phases: Phases, maintained: Maintained) -> Commit:
        """Tell what a version did, after it is there."""
        if record is not None:
            self._tell(record)
            for name, failure in maintained.failed.items():
                what = error(
                    "INCR_VIEW_FAILED",
                    name=name,
                    version=self.relation_named(name, "view").maintained,
                    failure=str(failure).split("\n")[0],
                )
                warn(str(what))
        return Commit(self.version, phases.total, maintained.views, maintained.failed)

    def _tell(self, record: Record) -> None:
        self.history.tell(record)
        for subscription in list(self.subscriptions):
            subscription.deliver()

    def on_progress(self, listener: Listener) -> Callable[[], None]:
        """Call a listener with one JSON text per commit; returns what ends that."""
        self.history.listeners.append(listener)
        return lambda: self.history.listeners.remove(listener)

    # Definitions

    def compile(self, statement: CreateView) -> tuple[Compiled, SparkAnalysis]:
        """The plan of a view that may be created."""
        return definitions.compile_view(self, statement)

    def create_table(self, definition: TableDefinition) -> None:
        definitions.create_table(self, definition)
        self.on_relations()

    def create_view(self, statement: CreateView, text: str) -> None:
        """Create a view and fill it from the relations that hold data."""
        definitions.create_view(self, statement, text)
        self.on_relations()

    def create_source(self, definition: SourceDefinition, or_replace: bool = False) -> str:
        """Create a source, or add columns to one that is there; says which."""
        if is_local(definition):
            FileStream(self.spark, definition, {})  # its path and options are in order
        self.runner.halt(definition.name)
        done = definitions.create_source(self, definition, or_replace)
        self.runner.forget(definition.name)
        self.on_relations()
        return done

    def stream(
        self,
        name: str,
        frame: DataFrame,
        *,
        deletes: DataFrame | None = None,
        changes: str = "",
        key: Sequence[str] = (),
        sequence_by: str | None = None,
        on_error: str = "FAIL",
    ) -> None:
        """Feed a source by a DataFrame of Structured Streaming; the source is created if need be.

        `changes` is the text of a CHANGES clause; `deletes` is a second stream whose rows leave.
        After a restart the same call attaches the stream again, where it stopped.
        """
        attach_stream(self, name, frame, deletes, changes, tuple(key), sequence_by, on_error)

    def drop(self, name: str, kind: str, cascade: bool = False) -> list[str]:
        """Drop a relation, and with `cascade` the views that read it; returns what went."""
        dropped = definitions.drop(self, name, kind, cascade)
        for gone in dropped:
            self.runner.forget(gone)
            self.subscriptions = [s for s in self.subscriptions if s.name != gone]
        self.on_relations()
        return dropped

    def replace_statement(self, relation: Relation, stored: StoredView) -> None:
        """Store a view's statement with other properties; its query stays."""
        with self.versions.version() as version:
            relation.stored = stored
            self.versions.persist(version, set())

    # Maintenance

    def refresh(self, name: str) -> list[str]:
        """Bring a view up to date with all that its sources hold now; says what is to be known."""
        relation = self.relation_named(name, "view")
        if relation.damaged:
            raise relation.damage()
        self.runner.available(self._sources_of(relation))
        phases = Phases()
        lags = bool(relation.pending) or relation.status is not Status.ACTIVE
        with Timer(phases, "apply") as timer, self.versions.version() as version:
            maintained = self.maintain({}, version, {relation.name}, True)
            record = None
            if lags:
                record = self.persist(version, "refresh", phases, timer, {}, maintained)
        self.committed(record, phases, maintained)
        return self._changed_statics(relation)

    def refresh_view(self, name: str) -> None:
        """Rebuild a view from what it reads."""
        definitions.rebuild_view(self, name)

    def refresh_source(self, name: str, full: bool = False) -> None:
        """Read what a source holds now; with `full`, from its start, in place of what it has."""
        relation = self.relation_named(name, "source")
        if full:
            self.runner.read_anew(
                relation,
                lambda batches, ms: definitions.rebuild_source(self, relation, batches, ms),
            )
            return
        self.runner.attached(relation)
        self.runner.available([relation.name])

    def suspend(self, name: str) -> None:
        """Leave a view as it is until it is resumed; what it misses is kept."""
        relation = self.relation_named(name, "view")
        with self.versions.version() as version:
            relation.status = Status.SUSPENDED
            self.versions.persist(version, set())

    def resume(self, name: str) -> None:
        """Maintain a suspended or failed view again, beginning with what it has missed."""
        self.refresh(name)

    def _sources_of(self, relation: Relation) -> list[str]:
        """The sources below a view."""
        names, found = set(relation.reads), []
        for other in reversed(self.relations):
            if other.name in names:
                names |= other.reads
                if isinstance(other.state, Source):
                    found.append(other.name)
        return found

    def _changed_statics(self, relation: Relation) -> list[str]:
        assert relation.stored is not None
        notes = []
        for name, static in relation.stored.statics.items():
            now = static_fingerprint(self.spark, name)
            if now != static.fingerprint:
                what = "is no longer there" if now == GONE else "has changed since it was read"
                notes.append(f"static table {name} {what}; REFRESH ... FULL reads it anew")
        return notes

    # Streams

    def start(self, interval: float = 0.1) -> None:
        """Read the sources as rows arrive, and refresh views on their schedule, in a thread."""
        self.runner.start(interval)

    def stop(self) -> None:
        """Stop what `start` began, after the commit that is under way."""
        self.runner.stop()

    def process_available(self) -> int:
        """Take in all that the sources hold now; returns the version after it."""
        self.runner.available()
        return self.version

    def await_version(self, version: int, timeout: float | None = None) -> bool:
        """Wait until a version is committed; False if the time is over before.

        If the engine was started and has ended by an error, that error is raised.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not self.versions.wait(version, _step(until)):
            if self.runner.dead and self.runner.failure is not None:
                raise self.runner.failure
            if until is not None and time.monotonic() >= until:
                return False
        return True


def _require_sides(table: str, sides: Any) -> None:
    """Refuse what is not Arrow tables of rows to insert and to delete."""
    if not isinstance(sides, Mapping):
        what = f"a {type(sides).__name__} does not say whether its rows come or go"
        hint = f"Write engine.commit({{{table!r}: {{'insert': rows}}}}), or 'delete'."
        raise error("INCR_SCHEMA_MISMATCH", table=table, what=what, hint=hint)
    unknown = set(sides) - {"insert", "delete"}
    if unknown:
        what = f"{sorted(unknown)[0]} is neither insert nor delete"
        raise error("INCR_SCHEMA_MISMATCH", table=table, what=what)
    for rows in sides.values():
        if not isinstance(rows, pa.Table):
            what = f"a {type(rows).__name__} is no pyarrow.Table"
            raise error("INCR_SCHEMA_MISMATCH", table=table, what=what)


def _step(until: float | None) -> float:
    return 1.0 if until is None else max(0.0, min(1.0, until - time.monotonic()))
