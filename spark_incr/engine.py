"""The engine: tables, views and their versions.

Law: every version is the whole of all tables and views after some batches; a batch makes the next
version or nothing. A commit changes the tables, lets each view follow in order of what it reads,
writes what is new, and publishes the version when its manifest is there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_incr.catalog import (
    Definitions,
    StoredView,
    plan_fingerprint,
    read_definitions,
    write_table,
    write_view,
)
from spark_incr.compile import Compiled, compile_plan, compile_query
from spark_incr.errors import error
from spark_incr.plan.build import Known
from spark_incr.plan.scope import folded
from spark_incr.plan.types import Schema
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.changes import weights
from spark_incr.runtime.contents import Contents
from spark_incr.runtime.persistence import Entries
from spark_incr.runtime.store import Store
from spark_incr.runtime.tables import Table, TableDefinition
from spark_incr.runtime.views import View, chunks
from spark_incr.serve.analysis import SparkAnalysis
from spark_incr.sources.static import read_static, static_schema
from spark_incr.sql.names import join_name, name_parts
from spark_incr.sql.statements import CreateView

CHUNK_ROWS = 1_000_000
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ViewChange:
    """What a commit did to one view."""

    inserted: int
    deleted: int
    milliseconds: float


@dataclass(frozen=True)
class Commit:
    """One version: its number, how long it took, and the views that it changed."""

    version: int
    milliseconds: float
    views: Mapping[str, ViewChange]


@dataclass
class Relation:
    """A table or view in the engine, and its rows as of the last version."""

    name: str
    state: Table | View
    stored: StoredView | None
    schema: Schema
    changed: int = 0
    published: Contents | None = None

    @property
    def contents(self) -> Contents:
        """The rows with all changes that were made, published or not."""
        return self.state.output.contents()

    @property
    def arrangements(self) -> dict[str, Arrangement]:
        if isinstance(self.state, Table):
            return {"rows": self.state.rows}
        return self.state.arrangements

    @property
    def known(self) -> Known:
        """What a plan may use of the relation."""
        unique = self.state.definition.primary_key if isinstance(self.state, Table) else ()
        return Known(self.name, self.schema, unique)

    def publish(self) -> None:
        self.published = self.contents


@dataclass(frozen=True)
class RelationReader:
    """A table or view to read from."""

    name: str
    schema: Schema
    _contents: Callable[[], Contents]

    def to_arrow(self) -> pa.Table:
        """All rows of the last version."""
        return self._contents().to_arrow()


class Engine:
    """One state directory, open for writing."""

    def __init__(self, spark: SparkSession, state: str | Path) -> None:
        self.spark = spark
        self.path = Path(state)
        self._store = Store.open(self.path)
        self._entries = Entries()
        self._relations: dict[str, Relation] = {}
        self._mutex = threading.RLock()
        self._changed: set[str] = set()
        self.on_progress: Progress = lambda what, done, total: None
        self.on_relations: Callable[[], None] = lambda: None
        try:
            self._open()
        except BaseException:
            self._store.close()
            raise

    # What there is

    @property
    def version(self) -> int:
        return self._store.manifest.version

    @property
    def relations(self) -> list[Relation]:
        return list(self._relations.values())

    def find(self, name: str) -> Relation | None:
        return self._relations.get(folded(name))

    def relation_named(self, name: str, kind: str) -> Relation:
        """The table or view of a name, or an error."""
        found = self.find(name)
        if found is None or (kind == "view") != isinstance(found.state, View):
            raise error("INCR_RELATION_NOT_FOUND", kind=kind, name=name)
        return found

    def view(self, name: str) -> RelationReader:
        """A view to read from."""
        return self._reader(self.relation_named(name, "view"))

    def table(self, name: str) -> RelationReader:
        """A table to read from."""
        return self._reader(self.relation_named(name, "table"))

    def _reader(self, relation: Relation) -> RelationReader:
        def contents() -> Contents:
            assert relation.published is not None
            return relation.published

        return RelationReader(relation.name, relation.schema, contents)

    # Changes

    def commit(self, changes: Mapping[str, Mapping[str, pa.Table]]) -> Commit:
        """Apply rows to insert and to delete to tables, as one version.

        `{"orders": {"insert": rows, "delete": rows}}`; deletes name rows in full, or by primary
        key. Nothing is applied if anything does not fit.
        """
        began = time.perf_counter()
        with self._mutex, self._version() as version:
            tables: dict[str, pa.Table] = {}
            for name, sides in changes.items():
                relation = self.relation_named(name, "table")
                assert isinstance(relation.state, Table)
                unknown = set(sides) - {"insert", "delete"}
                if unknown:
                    what = f"{sorted(unknown)[0]} is neither insert nor delete"
                    raise error("INCR_SCHEMA_MISMATCH", table=name, what=what)
                change = relation.state.apply(sides.get("insert"), sides.get("delete"))
                if change.num_rows:
                    tables[relation.name] = change
            views = self._maintain(tables)
            if tables:
                self._persist(version, {*tables, *views})
        return Commit(self.version, (time.perf_counter() - began) * 1e3, views)

    def _maintain(self, tables: Mapping[str, pa.Table]) -> dict[str, ViewChange]:
        changes = dict(tables)
        views: dict[str, ViewChange] = {}
        for relation in self._relations.values():
            view = relation.state
            if not isinstance(view, View) or not view.dataflow.relations & changes.keys():
                continue
            began = time.perf_counter()
            change = view.apply(changes)
            if change.num_rows:
                changes[relation.name] = change
            weight = weights(change)
            views[relation.name] = ViewChange(
                int(weight[weight > 0].sum()),
                int(-weight[weight < 0].sum()),
                (time.perf_counter() - began) * 1e3,
            )
        return views

    # Definitions

    def create_table(self, definition: TableDefinition) -> None:
        with self._mutex, self._version() as version:
            table = Table(definition)
            relation = Relation(definition.name, table, None, definition.schema)
            self._add(relation, version)
            self._persist(version, {relation.name})
        self.on_relations()

    def compile(self, statement: CreateView) -> tuple[Compiled, SparkAnalysis]:
        """The plan of a view that may be created."""
        analysis = SparkAnalysis(self.spark)
        names = tuple(column.name for column in statement.columns)
        return compile_query(statement.query_text, names, self, analysis), analysis

    def create_view(self, statement: CreateView, text: str) -> None:
        """Create a view and fill it from the tables that hold data."""
        compiled, analysis = self.compile(statement)
        with self._mutex, self._version() as version:
            if statement.or_replace and self.find(statement.name) is not None:
                self._remove(self.relation_named(statement.name, "view"))
            view = View(compiled.plan, compiled.schema, analysis)
            stored = StoredView(
                text,
                statement,
                compiled.schema,
                analysis.memory,
                analysis.confs,
                self._statics(compiled),
                plan_fingerprint(compiled.plan),
            )
            relation = Relation(statement.name, view, stored, compiled.schema)
            self._add(relation, version)
            self._fill(relation)
            self._persist(version, {relation.name})
        self.on_relations()

    def refresh_view(self, name: str) -> None:
        """Rebuild a view from what it reads."""
        with self._mutex, self._version() as version:
            relation = self.relation_named(name, "view")
            assert isinstance(relation.state, View)
            evaluator = relation.state.dataflow.evaluator
            relation.state = View(relation.state.dataflow.plan, relation.schema, evaluator)
            for arrangement in relation.arrangements.values():
                arrangement.begin(version)
            self._fill(relation)
            self._persist(version, {relation.name})

    def drop(self, name: str, kind: str, cascade: bool = False) -> list[str]:
        """Drop a table or view, and with `cascade` the views that read it; returns what went."""
        with self._mutex, self._version() as version:
            relation = self.relation_named(name, kind)
            readers = self._readers(relation)
            if readers and not cascade:
                names = ", ".join(r.name for r in readers)
                raise error("INCR_RELATION_IN_USE", name=relation.name, readers=names)
            dropped = [*reversed(readers), relation]
            for gone in dropped:
                del self._relations[folded(gone.name)]
            self._persist(version, set())
        self.on_relations()
        return [gone.name for gone in dropped]

    def replace_statement(self, relation: Relation, stored: StoredView) -> None:
        """Store a view's statement with other properties; its query stays."""
        with self._mutex, self._version() as version:
            relation.stored = stored
            self._persist(version, set())

    def _readers(self, relation: Relation) -> list[Relation]:
        """The views that read a relation, directly or not, in order of creation."""
        names = {relation.name}
        result = []
        for other in self._relations.values():
            if isinstance(other.state, View) and other.state.dataflow.relations & names:
                names.add(other.name)
                result.append(other)
        return result

    def _remove(self, relation: Relation) -> None:
        if readers := self._readers(relation):
            names = ", ".join(r.name for r in readers)
            raise error("INCR_RELATION_IN_USE", name=relation.name, readers=names)
        del self._relations[folded(relation.name)]

    def _add(self, relation: Relation, version: int) -> None:
        if folded(relation.name) in self._relations:
            raise error("INCR_RELATION_EXISTS", name=relation.name)
        self._relations[folded(relation.name)] = relation
        for arrangement in relation.arrangements.values():
            arrangement.begin(version)

    def _fill(self, relation: Relation) -> None:
        """Feed a view with all rows of what it reads, in chunks, by the operators of any batch."""
        assert isinstance(relation.state, View)
        sources: list[tuple[str, pa.Table]] = []
        for name in sorted(relation.state.dataflow.relations):
            known = self.find(name)
            rows = known.contents.changes() if known else read_static(self.spark, name)
            sources.append((name, rows))
        total = sum(rows.num_rows for _, rows in sources)
        done, start = 0, True
        for name, rows in sources:
            for chunk in chunks(rows, CHUNK_ROWS):
                relation.state.apply({name: chunk}, start)
                done, start = done + chunk.num_rows, False
                self.on_progress(relation.name, done, total)
        if start:
            relation.state.apply({}, True)

    # Catalog, as plans see it

    def relation(self, parts: tuple[str, ...]) -> Known | None:
        """The relation that a query names: one of the engine's, or a static table of Spark."""
        found = self.find(join_name(parts))
        if found is not None:
            return found.known
        schema = static_schema(self.spark, parts)
        return None if schema is None else Known(join_name(parts), schema)

    def _statics(self, compiled: Compiled) -> dict[str, Schema]:
        """The tables of Spark that a query reads."""
        result = {}
        for name in compiled.relations:
            if self.find(name) is None:
                schema = static_schema(self.spark, name_parts(name))
                assert schema is not None
                result[name] = schema
        return result

    # Versions

    @contextmanager
    def _version(self) -> Iterator[int]:
        """Make the next version; after any failure everything is as it was."""
        version = self.version + 1
        relations = dict(self._relations)
        for relation in relations.values():
            for arrangement in relation.arrangements.values():
                arrangement.begin(version)
        states = {name: (r.state, r.stored) for name, r in relations.items()}
        try:
            yield version
        except BaseException:
            self._relations = relations
            for name, relation in relations.items():
                relation.state, relation.stored = states[name]
                for arrangement in relation.arrangements.values():
                    arrangement.rollback(version - 1)
            self._entries.failed()
            raise
        self._entries.committed(self._arrangements())
        for relation in self._relations.values():
            if relation.name in self._changed:
                relation.changed = version
            relation.publish()
        self._changed = set()

    def _arrangements(self) -> list[Arrangement]:
        return [a for r in self._relations.values() for a in r.arrangements.values()]

    def _persist(self, version: int, changed: set[str]) -> None:
        with self._store.begin() as transaction:
            self._entries.move(transaction.carry(self._store.mostly_dead()))
            body: dict[str, Any] = {
                "relations": [
                    _definition(r, version if r.name in changed else r.changed)
                    for r in self._relations.values()
                ],
                "state": {
                    r.name: {
                        name: self._entries.save(arrangement, transaction)
                        for name, arrangement in r.arrangements.items()
                    }
                    for r in self._relations.values()
                },
            }
            transaction.commit(body)
        self._changed = changed

    def _open(self) -> None:
        """Rebuild tables and views from the last manifest; no data is computed anew."""
        manifest = self._store.manifest
        definitions: Definitions = read_definitions(manifest.body)
        state: Mapping[str, Any] = manifest.body.get("state", {})  # type: ignore[assignment]
        stale: list[Relation] = []
        for item, changed in definitions:
            if isinstance(item, TableDefinition):
                relation = Relation(item.name, Table(item), None, item.schema, changed)
            else:
                analysis = SparkAnalysis(self.spark, item.memory, item.confs)
                catalog = _StoredCatalog(self, item.statics)
                plan = compile_plan(item.statement.query_text, catalog, analysis)
                view = View(plan, item.schema, analysis)
                relation = Relation(item.statement.name, view, item, item.schema, changed)
                if plan_fingerprint(plan) != item.fingerprint:
                    stale.append(relation)
            self._relations[folded(relation.name)] = relation
            if relation in stale:
                continue
            for name, arrangement in relation.arrangements.items():
                arrangement.become(
                    self._entries.load(
                        arrangement.layout,
                        manifest.version,
                        state[relation.name][name],
                        self._store,
                    )
                )
            relation.publish()
        for relation in stale:
            self.on_progress(relation.name, 0, 0)
            self.refresh_view(relation.name)

    def close(self) -> None:
        self._store.close()


@dataclass(frozen=True)
class _StoredCatalog:
    """The relations of a stored view: static tables are as they were when it was created."""

    engine: Engine
    statics: Mapping[str, Schema]

    def relation(self, parts: tuple[str, ...]) -> Known | None:
        name = join_name(parts)
        if name in self.statics:
            return Known(name, self.statics[name])
        found = self.engine.find(name)
        return None if found is None else found.known


def _definition(relation: Relation, changed: int) -> dict[str, Any]:
    if isinstance(relation.state, Table):
        return write_table(relation.state.definition, changed)
    assert relation.stored is not None
    return write_view(relation.stored, changed)
