"""Creating, filling, rebuilding and dropping relations, and finding them again in a state.

Law: a definition is one version. Filling a view runs the operators of any batch over all rows of
what it reads, so nothing is computed in a second way.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_incr.catalog import StoredStatic, StoredView, plan_fingerprint, read_definition
from spark_incr.compile import Compiled, compile_plan, compile_query
from spark_incr.errors import IncrementalError, error, warn
from spark_incr.history import Phases, Timer
from spark_incr.intake import Intake, take_all
from spark_incr.maintenance import VIEW_FAILURES, Maintained, ViewChange, maintain
from spark_incr.plan.collations import collation_key, key_type
from spark_incr.plan.environment import Catalog, Known
from spark_incr.plan.nodes import Node, column
from spark_incr.plan.scope import folded
from spark_incr.plan.sharing import lookups
from spark_incr.plan.types import Schema
from spark_incr.relation import (
    PENDING,
    Relation,
    Status,
    name_taken,
    next_generation,
    readers_of,
)
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.bag import add_to_bag
from spark_incr.runtime.changes import add, consolidate, negate, weights
from spark_incr.runtime.clock import expression_seconds
from spark_incr.runtime.tables import Table, TableDefinition
from spark_incr.runtime.views import View, chunks
from spark_incr.serve.analysis import SparkAnalysis
from spark_incr.sources.definition import SourceDefinition, grown, rejected_name
from spark_incr.sources.files import MicroBatch
from spark_incr.sources.source import Source
from spark_incr.sources.static import read_static, static_fingerprint, static_schema
from spark_incr.sql.names import join_name, name_parts, without_default
from spark_incr.sql.statements import CreateView
from spark_incr.statistics import count_distinct, count_rows
from spark_incr.versions import REBUILT, WHOLE

if TYPE_CHECKING:
    from spark_incr.engine import Engine

CHUNK_ROWS = 1_000_000


# Creation


def compile_view(engine: Engine, statement: CreateView) -> tuple[Compiled, SparkAnalysis]:
    """The plan of a view that may be created."""

    def counted(name: str, column: str | None) -> int:
        relation = engine.find(name)
        if relation is None:
            return 0
        return count_rows(relation) if column is None else count_distinct(relation, column)

    analysis = SparkAnalysis(engine.spark, counted=counted)
    names = tuple(column.name for column in statement.columns)
    place = statement.body_position
    # Rows are evaluated in the same session, under names and settings that are put there for it.
    with engine.versions.mutex:
        compiled = compile_query(
            statement.query_text, names, engine, analysis, place, statement.policy
        )
    return compiled, analysis


def create_table(engine: Engine, definition: TableDefinition) -> None:
    versions = engine.versions
    with versions.version() as version:
        relation = Relation(definition.name, _table(engine, definition), None, definition.schema)
        _add(engine, relation, version)
        versions.persist(version, {relation.name})


def _table(engine: Engine, definition: TableDefinition) -> Table:
    """A table without rows; Spark tells what strings with a collation are compared by."""
    columns = definition.collated
    if not columns:
        return Table(definition)
    analysis = SparkAnalysis(engine.spark)
    keys = [collation_key(column(f.name), f.type) for f in columns]
    types = [key_type(f.type) for f in columns]

    def compared_by(rows: pa.Table) -> list[pa.Array]:
        return analysis.evaluate(keys, types, columns, rows.select([f.name for f in columns]))

    return Table(definition, compared_by)


def create_source(engine: Engine, definition: SourceDefinition, or_replace: bool = False) -> str:
    """Create a source, or let one that is there grow; says what was done."""
    versions = engine.versions
    known = engine.find(definition.name)
    if known is not None and or_replace and isinstance(known.state, Source):
        return _grow(engine, known, known.state, definition)
    with versions.version() as version:
        relation = Relation(definition.name, Source(definition), None, definition.schema)
        _add(engine, relation, version)
        versions.persist(version, {relation.name, *_add_rejected(engine, definition, version)})
    return f"created source {definition.name}"


def _add_rejected(engine: Engine, definition: SourceDefinition, version: int) -> set[str]:
    """Have the table of what a source sets aside; says what was added."""
    table = definition.rejected()
    known = engine.find(table.name)
    if not definition.quarantines or (known is not None and known.schema == table.schema):
        return set()
    _add(engine, Relation(table.name, Table(table), None, table.schema), version)
    return {table.name}


def _grow(engine: Engine, relation: Relation, source: Source, definition: SourceDefinition) -> str:
    # It keeps the name that it was given first, whatever its letters are now.
    statement = replace(definition.statement, name=relation.name)
    definition = replace(definition, name=relation.name, statement=statement)
    grown(source.definition, definition)
    versions = engine.versions
    with versions.version() as version:
        relation.state = source.grown(definition, version)
        relation.schema = definition.schema
        versions.persist(version, {relation.name, *_add_rejected(engine, definition, version)})
    return f"replaced source {definition.name}"


def create_view(engine: Engine, statement: CreateView, text: str) -> None:
    """Create a view and fill it from the relations that hold data."""
    compiled, analysis = compile_view(engine, statement)
    statics = {
        name: StoredStatic(schema, static_fingerprint(engine.spark, name))
        for name, schema in _static_schemas(engine, compiled).items()
    }
    phases = Phases()
    with Timer(phases, "apply") as timer, engine.versions.version() as version:
        readers: list[Relation] = []
        if statement.or_replace and engine.find(statement.name) is not None:
            readers = _taken_out(engine, statement.name, compiled)
        _arrange_tables(engine, compiled.plan, version)
        view = View(compiled.plan, compiled.schema, analysis, _tables(engine))
        sources = {
            name: relation.schema
            for name in compiled.relations
            if (relation := engine.find(name)) and isinstance(relation.state, Source)
        }
        stored = StoredView(
            text,
            statement,
            compiled.schema,
            analysis.memory,
            analysis.confs,
            statics,
            sources,
            plan_fingerprint(compiled.plan),
        )
        relation = Relation(statement.name, view, stored, compiled.schema, maintained=version)
        _add(engine, relation, version)
        maintained = Maintained(changes={relation.name: WHOLE})
        _fill(engine, relation, view, maintained)
        for reader in readers:
            engine.versions.relations[folded(reader.name)] = reader
            _rebuild(engine, reader, version, maintained)
        record = engine.persist(version, "create", phases, timer, (), maintained)
    engine.committed(record, phases, maintained)


def _static_schemas(engine: Engine, compiled: Compiled) -> dict[str, Schema]:
    """The tables of Spark that a query reads."""
    result = {}
    for name in sorted(compiled.relations):
        if engine.find(name) is None:
            schema = static_schema(engine.spark, name_parts(name))
            assert schema is not None
            result[name] = schema
    return result


def _tables(engine: Engine) -> dict[str, Arrangement]:
    """The rows of all tables, for joins to look up."""
    return {r.name: r.state.rows for r in engine.relations if isinstance(r.state, Table)}


def _arrange_tables(engine: Engine, plan: Node, version: int) -> None:
    """Arrange tables by the columns by which a new view looks them up.

    Law: where another view looks rows up never changes, since its state is made for that. So a table
    stays as it is if another look-up finds its rows, or would find them after.
    """
    views = [r.state for r in engine.relations if isinstance(r.state, View)]
    settled = [each for view in views for sides in lookups(view.dataflow.plan) for each in sides]
    for sides in lookups(plan):
        found = [(lookup, engine.find(lookup.relation)) for lookup in sides]
        tables = [(lookup, r) for lookup, r in found if r and isinstance(r.state, Table)]
        if not any(lookup.fits(_lineage(relation)) for lookup, relation in tables):
            free = [
                (lookup, relation)
                for lookup, relation in tables
                if not relation.unique
                and not any(
                    each.relation == relation.name
                    and (each.fits(_lineage(relation)) or each.fits(lookup.columns))
                    for each in settled
                )
            ]
            for lookup, relation in free[:1]:
                _arrange(relation, lookup.columns, version)
        settled += sides


def _lineage(table: Relation) -> tuple[str, ...]:
    assert isinstance(table.state, Table)
    return table.state.definition.lineage


def _arrange(relation: Relation, columns: tuple[str, ...], version: int) -> None:
    """Let the rows of a table be looked up by some of its columns."""
    assert isinstance(relation.state, Table)
    table = Table(replace(relation.state.definition, arranged_by=columns))
    table.rows.begin(version)
    add_to_bag(table.rows, relation.state.rows.snapshot().rows())
    relation.state = table


def _add(engine: Engine, relation: Relation, version: int) -> None:
    known = engine.versions.find(relation.name)
    if known is not None:
        raise name_taken(known, relation.kind)
    engine.versions.relations[folded(relation.name)] = relation
    for arrangement in relation.arrangements.values():
        arrangement.begin(version)


def _fill(engine: Engine, relation: Relation, view: View, maintained: Maintained) -> None:
    """Feed a view with all rows of what it reads, by the operators of any batch.

    Many rows come in chunks, to bound what is in memory, unless each would be a query of Spark. The
    view is then of states that never were, so that it fails at one of them means nothing: all rows
    come at once then.
    """
    inputs: dict[str, pa.Table] = {}
    for name in sorted(view.dataflow.relations):
        known = engine.find(name)
        if known is not None and known.damaged:
            raise known.damage()
        rows = known.contents.changes() if known else read_static(engine.spark, name)
        inputs[name] = rows
    began, expressions = time.perf_counter(), expression_seconds()
    few = sum(rows.num_rows for rows in inputs.values()) <= CHUNK_ROWS
    if few or view.recomputes:
        _feed(engine, relation, view, [_whole(inputs)])
    else:
        pieces = [{n: chunk} for n, rows in inputs.items() for chunk in chunks(rows, CHUNK_ROWS)]
        try:
            _feed(engine, relation, view, pieces)
        except VIEW_FAILURES:
            for arrangement in view.arrangements.values():
                arrangement.rollback(arrangement.version)
            _feed(engine, relation, view, [_whole(inputs)])
    maintained.views[relation.name] = ViewChange(
        int(weights(view.output.contents().changes()).sum()),
        0,
        (time.perf_counter() - began) * 1e3,
        sum(int(weights(rows).sum()) for rows in inputs.values()),
        (expression_seconds() - expressions) * 1e3,
    )


def _whole(inputs: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """All rows as one batch."""
    return {name: rows.combine_chunks() for name, rows in inputs.items()}


def _feed(
    engine: Engine, relation: Relation, view: View, batches: Sequence[Mapping[str, pa.Table]]
) -> None:
    total = sum(rows.num_rows for batch in batches for rows in batch.values())
    done = 0
    for number, batch in enumerate(batches):
        view.apply(batch, start=number == 0, filling=True)
        done += sum(rows.num_rows for rows in batch.values())
        engine.on_fill(relation.name, done, total)


# Rebuilding and dropping


def rebuild_view(engine: Engine, name: str, reason: str = "refresh full") -> None:
    """Compute a view anew from what it reads; static tables are read again.

    Those that read it follow by what has changed in it, or are computed anew as well if that is not
    known because its state was damaged.
    """
    phases = Phases()
    with Timer(phases, "apply") as timer, engine.versions.version() as version:
        relation = engine.relation_named(name, "view")
        rebuilt = Maintained()
        change = _rebuild(engine, relation, version, rebuilt)
        if isinstance(change, str):
            _rebuild_readers(engine, relation, version, rebuilt)
            followed = Maintained()
        else:
            followed = engine.maintain({relation.name: change}, version, frozenset(), False)
        maintained = followed.joined(rebuilt)
        record = engine.persist(version, reason, phases, timer, (), maintained)
    engine.committed(record, phases, maintained)


def _rebuild(
    engine: Engine, relation: Relation, version: int, maintained: Maintained
) -> pa.Table | str:
    """Fill a view anew inside a version; returns its change, or that all of it is new."""
    old = relation.state
    assert isinstance(old, View)
    assert relation.stored is not None
    old.dataflow.evaluator.start_anew()
    view = View(old.dataflow.plan, relation.schema, old.dataflow.evaluator, _tables(engine))
    relation.state = view
    for arrangement in view.arrangements.values():
        arrangement.begin(version)
    statics = {
        name: replace(static, fingerprint=static_fingerprint(engine.spark, name))
        for name, static in relation.stored.statics.items()
    }
    _fill(engine, relation, view, maintained)
    fingerprint = plan_fingerprint(view.dataflow.plan)
    relation.stored = replace(relation.stored, statics=statics, fingerprint=fingerprint)
    change: pa.Table | str = WHOLE
    if not relation.damaged:
        before = negate(old.output.contents().changes().combine_chunks())
        change = consolidate(add([before, view.output.contents().changes().combine_chunks()]))
        filled = maintained.views[relation.name]
        maintained.views[relation.name] = filled.counted(change)
    relation.caught_up(version)
    maintained.changes[relation.name] = WHOLE if isinstance(change, str) else REBUILT
    return change


def _rebuild_readers(
    engine: Engine, relation: Relation, version: int, maintained: Maintained
) -> None:
    """Fill all views above a relation anew; one that fails has no rows until it is rebuilt itself."""
    for reader in readers_of([relation], engine.relations):
        try:
            _rebuild(engine, reader, version, maintained)
        except VIEW_FAILURES as failure:  # noqa: PERF203, each view stands alone
            reader.damaged = True
            reader.status, reader.failure = Status.FAILED, str(failure)
            maintained.failed[reader.name] = failure


def rebuild_source(
    engine: Engine, relation: Relation, batches: Iterable[MicroBatch], read_ms: float
) -> None:
    """Let a source hold what its stream gives from the beginning; one version, or nothing.

    Views follow by the difference of the rows. Where they cannot, they are computed anew: the rows
    of a damaged source are not known, and none may leave a source that is only added to.
    """
    phases = Phases(read=read_ms)
    with Timer(phases, "apply") as timer, engine.versions.version() as version:
        old, damaged = relation.contents.changes().combine_chunks(), relation.damaged
        intake = _read_anew(engine, relation, batches, version)
        intake.changes.pop(relation.name, None)
        difference = consolidate(add([negate(old), relation.contents.changes().combine_chunks()]))
        changes = intake.changes | ({relation.name: difference} if difference.num_rows else {})
        if damaged or (relation.append_only and (weights(difference) < 0).any()):
            maintained = _rebuild_over(engine, relation, changes, version)
        else:
            maintained = engine.maintain(changes, version, frozenset(), False)
        changed = {relation.name, *changes}
        record = engine.persist(
            version, "refresh full", phases, timer, changed, maintained, intake.reads
        )
    engine.committed(record, phases, maintained)


def _read_anew(
    engine: Engine, relation: Relation, batches: Iterable[MicroBatch], version: int
) -> Intake:
    """Take a stream into a source that has read nothing."""
    assert isinstance(relation.state, Source)
    source = Source(relation.state.definition)
    relation.state = source
    relation.offsets = {"generation": next_generation(relation)}
    relation.damaged, relation.failure, relation.status = False, "", Status.ACTIVE
    for arrangement in source.arrangements.values():
        arrangement.begin(version)
    return take_all(engine.versions, relation, source, batches, version)


def _rebuild_over(
    engine: Engine, relation: Relation, changes: Mapping[str, pa.Table], version: int
) -> Maintained:
    """Fill the views over a relation anew, and let all others follow the changes."""
    rebuilt = Maintained()
    _rebuild_readers(engine, relation, version, rebuilt)
    over = readers_of([relation], engine.relations)
    followed = maintain(
        [other for other in engine.relations if other not in over],
        changes,
        version,
        due=lambda other: other.follows_updates,
        strict=False,
    )
    return followed.joined(rebuilt)


def drop(engine: Engine, name: str, kind: str, cascade: bool) -> list[str]:
    """Drop a relation, and with `cascade` the views that read it; returns what went."""
    versions = engine.versions
    with versions.version() as version:
        relation = engine.relation_named(name, kind)
        owner = _owner(engine, relation)
        if owner is not None:
            raise error("INCR_RELATION_OWNED", name=relation.name, source=owner.name)
        own = _rejected_of(engine, relation)
        readers = readers_of([relation, *own], versions.relations.values())
        if readers and not cascade:
            raise _in_use(relation, readers)
        dropped = [*reversed(readers), *own, relation]
        for gone in dropped:
            del versions.relations[folded(gone.name)]
        versions.persist(version, set())
    return [gone.name for gone in dropped]


def _rejected_of(engine: Engine, relation: Relation) -> list[Relation]:
    """The table of what a source has set aside; it is part of the source."""
    state = relation.state
    if not isinstance(state, Source) or not state.definition.quarantines:
        return []
    found = engine.find(rejected_name(relation.name))
    return [] if found is None else [found]


def _owner(engine: Engine, relation: Relation) -> Relation | None:
    """The source that a table belongs to."""
    owners = (other for other in engine.relations if relation in _rejected_of(engine, other))
    return next(owners, None)


def _taken_out(engine: Engine, name: str, compiled: Compiled) -> list[Relation]:
    """Take a view that is replaced out, and its readers, which are to be rebuilt after it."""
    relation = engine.find(name)
    assert relation is not None
    if relation.kind != "view":
        raise name_taken(relation, "view")
    relations = engine.versions.relations
    readers = readers_of([relation], relations.values())
    circle = compiled.relations & {relation.name, *(reader.name for reader in readers)}
    if circle:
        raise _in_use(relation, readers or [relation], "It would read itself.")
    if readers and list(relation.schema) != list(compiled.schema):
        raise _in_use(relation, readers, "Its columns would change.")
    for gone in (relation, *readers):
        del relations[folded(gone.name)]
    return readers


def _in_use(relation: Relation, readers: Iterable[Relation], detail: str = "") -> Exception:
    names = ", ".join(reader.name for reader in readers)
    # A detail says why a view cannot be replaced: that statement has no CASCADE.
    hint = "Drop the view with CASCADE and create all of them anew." if detail else None
    return error(
        "INCR_RELATION_IN_USE", name=relation.name, readers=names, detail=detail, hint=hint
    )


# Opening


def open_relations(engine: Engine) -> None:
    """Bring the relations of the last manifest back; no data is computed anew, but that of views whose
    state this version would keep in another way, and that is told.

    A view or source whose stored state is damaged is marked so, and the others are there; what is
    in a table exists nowhere else, so a damaged table is an error.
    """
    versions = engine.versions
    manifest = versions.store.manifest
    stale: list[Relation] = []
    items: list[dict[str, object]] = manifest.body.get("relations", [])  # type: ignore[assignment]
    for item in items:
        relation = _reopened(engine, item)
        versions.relations[folded(relation.name)] = relation
        if relation.damaged:
            continue
        if relation.stored is not None:
            assert isinstance(relation.state, View)
            if plan_fingerprint(relation.state.dataflow.plan) != relation.stored.fingerprint:
                stale.append(relation)
                relation.damaged = True
                continue
        _load(engine, relation)
    versions.publish()
    for relation in stale:
        warn(str(error("INCR_VIEW_OUTDATED", name=relation.name)))
        _renew(engine, relation)


def _renew(engine: Engine, relation: Relation) -> None:
    """Compute a view anew, unless one that it reads has brought it along; it may fail alone."""
    if not relation.damaged:
        return
    try:
        rebuild_view(engine, relation.name, "open")
    except VIEW_FAILURES as failure:
        relation.status, relation.failure = Status.FAILED, str(failure)


def _reopened(engine: Engine, item: Mapping[str, object]) -> Relation:
    definition = read_definition(item)
    refusal: IncrementalError | None = None
    if isinstance(definition, TableDefinition):
        relation = Relation(definition.name, _table(engine, definition), None, definition.schema)
    elif isinstance(definition, SourceDefinition):
        relation = Relation(definition.name, Source(definition), None, definition.schema)
    else:
        analysis = SparkAnalysis(engine.spark, definition.memory, definition.confs)
        catalog = _StoredCatalog(engine, definition)
        plan, refusal = _recompiled(definition.statement.query_text, catalog, analysis)
        view = View(plan, definition.schema, analysis, _tables(engine))
        relation = Relation(definition.statement.name, view, definition, definition.schema)
    relation.changed = int(item["changed"])  # type: ignore[call-overload]
    relation.maintained = int(item["maintained"])  # type: ignore[call-overload]
    relation.status = Status(item["status"])
    relation.failure = str(item["failure"])
    relation.offsets = dict(item["offsets"])  # type: ignore[call-overload]
    if refusal is not None:
        relation.damaged = True
        relation.status, relation.failure = Status.FAILED, str(refusal)
    return relation


def _recompiled(
    text: str, catalog: Catalog, analysis: SparkAnalysis
) -> tuple[Node, IncrementalError | None]:
    """The plan of a stored view; one that an older version took apart may be refused by this one."""
    try:
        return compile_plan(text, catalog, analysis), None
    except IncrementalError as refusal:
        analysis.recompute_because(refusal.message)
        return compile_plan(text, catalog, analysis), refusal


def _load(engine: Engine, relation: Relation) -> None:
    versions = engine.versions
    state: Mapping[str, Mapping[str, object]] = versions.store.manifest.body["state"]  # type: ignore[assignment]
    if relation.name not in state:
        relation.damaged = True
        return
    try:
        for name in state[relation.name]:
            if name.startswith(PENDING):
                read = engine.find(name.removeprefix(PENDING))
                assert read is not None
                relation.pending[read.name] = Arrangement(relation.pending_layout(read))
        for name, arrangement in relation.arrangements.items():
            versions.load(relation, name, arrangement)
    except IncrementalError as failure:
        if failure.condition != "INCR_STATE_CORRUPT" or isinstance(relation.state, Table):
            raise
        _mark_damaged(engine, relation, failure)


def _mark_damaged(engine: Engine, relation: Relation, failure: IncrementalError) -> None:
    if isinstance(relation.state, View):
        flow = relation.state.dataflow
        relation.state = View(flow.plan, relation.schema, flow.evaluator, _tables(engine))
    elif isinstance(relation.state, Source):
        relation.state = Source(relation.state.definition)
    relation.pending = {}
    relation.damaged = True
    relation.status, relation.failure = Status.FAILED, failure.message


@dataclass(frozen=True)
class _StoredCatalog:
    """The relations of a stored view: static tables and sources are as they were at its creation."""

    engine: Engine
    view: StoredView

    def relation(self, parts: tuple[str, ...]) -> Known | None:
        name = join_name(parts)
        if name in self.view.statics:
            return Known(name, self.view.statics[name].schema)
        found = self.engine.find(name) or self.engine.find(without_default(name))
        if found is None:
            return None
        schema = self.view.sources.get(found.name)
        return found.known if schema is None else replace(found.known, schema=schema)
