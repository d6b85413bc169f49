"""What SHOW and DESCRIBE say of tables, sources and views."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_incr.engine import Engine
from spark_incr.history import iso_time
from spark_incr.plan.scope import folded
from spark_incr.plan.types import type_text
from spark_incr.relation import Relation
from spark_incr.runtime.tables import Table
from spark_incr.runtime.views import View
from spark_incr.sources.source import Source
from spark_incr.sql.parse import parse_statement
from spark_incr.sql.show_create import trigger_text
from spark_incr.sql.statements import CreateSource, CreateTable, CreateView, Statement

Row = Sequence[str | int | None]
Result = tuple[Sequence[str], list[Row]]


def _matches(name: str, like: str | None) -> bool:
    """Whether a name is like a pattern of Spark's SHOW (`a*|b`), or of LIKE (`a%`)."""
    if like is None:
        return True
    pattern = re.escape(like.strip().lower()).replace("%", ".*").replace("_", ".")
    pattern = pattern.replace(r"\*", ".*").replace(r"\|", "|")
    return re.fullmatch(pattern, name.lower()) is not None


def show_views(engine: Engine, like: str | None) -> Result:
    rows: list[Row] = []
    for relation in engine.relations:
        if isinstance(relation.state, View) and _matches(relation.name, like):
            assert relation.stored is not None
            statement = relation.stored.statement
            rows.append(
                [
                    relation.name,
                    ", ".join(sorted(relation.reads)),
                    statement.policy.value,
                    relation.contents.snapshot.count(),
                    relation.changed,
                    trigger_text(statement.trigger),
                    relation.status.value,
                    _shown_version(engine, relation),
                    _brief(relation.failure),
                ]
            )
    columns = (
        "view reads refresh_policy rows last_changed_version trigger status shows_version error"
    )
    return columns.split(), rows


def _brief(failure: str) -> str:
    """An error on one line; of one from a Python function, the line that says what it was."""
    lines = [line.strip() for line in failure.split("\n") if line.strip()]
    return " ".join(lines[:1] + (lines[-1:] if lines[:1] and lines[0].endswith(":") else []))


def _shown_version(engine: Engine, relation: Relation) -> int:
    """The version of its inputs that a view shows: the oldest of those that views below it show."""
    own = relation.maintained if relation.pending or relation.damaged else engine.version
    below = [other for other in engine.relations if other.name in relation.reads]
    return min([own, *(_shown_version(engine, other) for other in below)])


def show_tables(engine: Engine, like: str | None) -> Result:
    rows: list[Row] = []
    for relation in engine.relations:
        if isinstance(relation.state, Table) and _matches(relation.name, like):
            key = ", ".join(relation.state.definition.primary_key)
            rows.append([relation.name, key, relation.contents.snapshot.count(), relation.changed])
    return ["table", "primary_key", "rows", "last_changed_version"], rows


def show_sources(engine: Engine, like: str | None) -> Result:
    rows: list[Row] = []
    for relation in engine.relations:
        if isinstance(relation.state, Source) and _matches(relation.name, like):
            definition = relation.state.definition
            trouble = engine.runner.troubles.get(relation.name)
            failure = relation.failure if trouble is None else str(trouble.failure)
            rows.append(
                [
                    relation.name,
                    definition.statement.format,
                    definition.changes.kind.value,
                    ", ".join(definition.key),
                    relation.contents.snapshot.count(),
                    int(relation.offsets.get("rows", 0)),
                    int(relation.offsets.get("rejected", 0)),
                    relation.changed,
                    "FAILED" if failure else "ACTIVE",
                    _brief(failure),
                ]
            )
    columns = (
        "source format changes key rows rows_read rows_rejected last_changed_version status error"
    )
    return columns.split(), rows


def show_history(engine: Engine, relation: Relation) -> Result:
    """One row per commit that maintained the view, newest first, within the retention."""
    rows: list[Row] = []
    for record in reversed(engine.history.records):
        view = record.views.get(relation.name)
        failure = record.failed.get(relation.name)
        if view is None and failure is None:
            continue
        view = view or {}
        rows.append(
            [
                record.version,
                iso_time(record.timestamp_ms),
                record.reason,
                "failed" if failure else "recomputed" if relation.recomputed else "maintained",
                *(int(view.get(name, 0)) for name in ("rows_in", "inserted", "deleted")),
                round(record.phases.read),
                *(round(view.get(name, 0)) for name in ("expressions_ms", "operators_ms")),
                round(record.phases.commit),
                *(int(view.get(name, 0)) for name in ("state_rows", "state_bytes")),
                _brief(failure or ""),
            ]
        )
    columns = (
        "version timestamp operation outcome rows_in rows_inserted rows_deleted read_ms "
        "expressions_ms operators_ms commit_ms state_rows state_bytes error"
    )
    return columns.split(), rows


def statement_of(relation: Relation) -> str:
    """The statement that makes the relation again."""
    if isinstance(relation.state, Table):
        return relation.state.definition.statement
    if isinstance(relation.state, Source):
        return relation.state.definition.text
    assert relation.stored is not None
    return relation.stored.text


@dataclass(frozen=True)
class Comments:
    """What the statement of a relation says about it, and about its columns by their names."""

    own: str
    columns: Mapping[str, str]


def comments(relation: Relation) -> Comments:
    """The comments of a relation; a table that no statement made has none."""
    statement = _created_by(relation)
    if statement is None:
        return Comments("", {})
    by_name = {folded(c.name): c.comment for c in statement.columns if c.comment}
    columns = {
        f.name: by_name[folded(f.name)] for f in relation.schema if folded(f.name) in by_name
    }
    return Comments(statement.comment or "", columns)


def show_properties(relation: Relation, key: str | None) -> Result:
    """The properties of a relation as Spark shows those of a table."""
    statement = _created_by(relation)
    properties = dict(statement.properties if statement is not None else ())
    if key is not None:
        absent = f"Table {relation.name} does not have property: {key}"
        properties = {key: properties.get(key, absent)}
    return ["key", "value"], [[*item] for item in sorted(properties.items())]


def _created_by(relation: Relation) -> CreateTable | CreateSource | CreateView | None:
    statement: Statement | None = None
    if relation.stored is not None:
        statement = relation.stored.statement
    elif isinstance(relation.state, Source):
        statement = relation.state.definition.statement
    elif not statement_of(relation).startswith("--"):
        statement = parse_statement(statement_of(relation))
    return statement if isinstance(statement, (CreateTable, CreateSource, CreateView)) else None


def describe(engine: Engine, relation: Relation, extended: bool) -> Result:
    said = comments(relation)
    rows: list[Row] = [
        [f.name, type_text(f.type), said.columns.get(f.name)] for f in relation.schema
    ]
    if extended:
        defaults = relation.state.definition.defaults if isinstance(relation.state, Table) else {}
        if defaults:
            rows += [["", None, None], ["# Column Default Values", None, None]]
            given = [f for f in relation.schema if f.name in defaults]
            rows += [[f.name, type_text(f.type), defaults[f.name]] for f in given]
        rows += [["", None, None], ["# Detailed information", None, None]]
        rows += [[label, str(value), None] for label, value in _facts(engine, relation)]
    return ["col_name", "data_type", "comment"], rows


def _facts(engine: Engine, relation: Relation) -> list[tuple[str, object]]:
    state = sum(a.snapshot().nbytes() for a in relation.arrangements.values())
    facts: list[tuple[str, object]] = [
        ("Name", relation.name),
        ("Type", f"INCREMENTAL {relation.kind.upper()}"),
        ("Distinct rows", relation.contents.snapshot.count()),
        ("State bytes", state),
        ("Last changed version", relation.changed),
        ("Engine version", engine.version),
        ("State directory", engine.path),
        ("Comment", comments(relation).own),
    ]
    if relation.stored is not None:
        statement = relation.stored.statement
        facts += [
            ("Refresh policy", statement.policy.value),
            *([("Computed anew", relation.recomputed)] if relation.recomputed else []),
            ("Trigger", trigger_text(statement.trigger)),
            ("Status", relation.status.value),
            ("Shows version", _shown_version(engine, relation)),
            ("Error", relation.failure),
            ("Reads", ", ".join(sorted(relation.reads))),
            ("Properties", ", ".join(f"{k}={v}" for k, v in statement.properties)),
            ("Query", statement.query_text),
        ]
    if isinstance(relation.state, Table):
        definition = relation.state.definition
        facts += [
            ("Primary key", ", ".join(definition.primary_key)),
            (
                "Not null",
                ", ".join(f.name for f in definition.schema if f.name in definition.not_null),
            ),
        ]
    if isinstance(relation.state, Source):
        offsets = ", ".join(f"{k}={v}" for k, v in relation.offsets.items())
        facts += [("Offsets", offsets), ("Statement", relation.state.definition.text)]
    return facts
