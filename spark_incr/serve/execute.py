"""INCREMENTAL statements: each is carried out and answers with rows that a person can read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession

from spark_incr.engine import Engine, Relation
from spark_incr.errors import IncrementalError, Position, error
from spark_incr.plan.explain import explain_plan
from spark_incr.plan.nodes import Node
from spark_incr.plan.texts import stage_texts
from spark_incr.plan.types import Field, arrow_type, type_text
from spark_incr.runtime.tables import Table, TableDefinition
from spark_incr.runtime.views import View
from spark_incr.sql.show_create import show_create
from spark_incr.sql.statements import (
    AlterView,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    ExplainCreate,
    ExplainMode,
    Refresh,
    SetPolicy,
    SetProperties,
    ShowCreate,
    ShowTables,
    ShowViews,
    Statement,
    TriggerKind,
)

Row = Sequence[str | int | None]


def execute(engine: Engine, spark: SparkSession, statement: Statement, text: str) -> DataFrame:
    """Carry out a statement."""
    columns, rows = _result(engine, spark, statement, text)
    fields = [
        T.StructField(name, T.LongType() if isinstance(sample, int) else T.StringType())
        for name, sample in zip(columns, rows[0] if rows else [None] * len(columns), strict=True)
    ]
    return spark.createDataFrame([tuple(row) for row in rows], T.StructType(fields))


def _result(
    engine: Engine, spark: SparkSession, statement: Statement, text: str
) -> tuple[Sequence[str], list[Row]]:
    match statement:
        case CreateTable():
            return ["status"], [[_create_table(engine, spark, statement)]]
        case CreateView():
            with_position = _Positioned(statement)
            with with_position:
                return ["status"], [[_create_view(engine, statement)]]
        case ExplainCreate(mode, create):
            with _Positioned(create):
                compiled, _ = engine.compile(create)
            return ["plan"], _lines(_explained(compiled.plan, mode, None))
        case Explain(mode, name):
            relation = engine.relation_named(name, "view")
            return ["plan"], _lines(_explained(_plan(relation), mode, relation))
        case Drop(kind, name, if_exists, cascade):
            word = kind.value.lower()
            if if_exists and engine.find(name) is None:
                return ["status"], [[f"{word} {name} does not exist"]]
            gone = engine.drop(name, word, cascade)
            return ["status"], [[f"dropped {dropped}"] for dropped in gone]
        case Refresh(name, full):
            relation = engine.relation_named(name, "view")
            if full:
                engine.refresh_view(name)
                return ["status"], [[f"rebuilt {relation.name}"]]
            return ["status"], [[f"{relation.name} is up to date at version {engine.version}"]]
        case ShowViews(like):
            return _show_views(engine, like)
        case ShowTables(like):
            return _show_tables(engine, like)
        case ShowCreate(kind, name):
            relation = engine.relation_named(name, kind.value.lower())
            return ["statement"], [[_statement(relation)]]
        case Describe(kind, name, extended):
            return _describe(engine, engine.relation_named(name, kind.value.lower()), extended)
        case AlterView():
            return ["status"], [[_alter(engine, statement)]]
    raise error("INCR_UNSUPPORTED", what=f"the statement {type(statement).__name__}")


class _Positioned:
    """Positions in a view's query, as positions in its statement."""

    def __init__(self, statement: CreateView) -> None:
        self._start = statement.body_position

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> None:
        if isinstance(failure, IncrementalError) and failure.position is not None:
            place = failure.position
            column = place.column + (self._start.column - 1 if place.line == 1 else 0)
            failure.place(Position(place.line + self._start.line - 1, column))


def _create_table(engine: Engine, spark: SparkSession, statement: CreateTable) -> str:
    if statement.if_not_exists and engine.find(statement.name) is not None:
        return f"{statement.name} already exists"
    fields = []
    for column in statement.columns:
        type_ = spark.createDataFrame([], f"c {column.type_text}").schema.fields[0].dataType
        if arrow_type(type_) is None:
            raise error("INCR_TYPE_UNSUPPORTED", type=column.type_text, name=column.name)
        fields.append(Field(column.name, type_))
    by_name = {f.name.lower(): f.name for f in fields}
    for name in statement.primary_key:
        if name.lower() not in by_name:
            raise error("INCR_SYNTAX", what=f"primary key column {name} is not a column")
    definition = TableDefinition(
        statement.name,
        tuple(fields),
        tuple(by_name[name.lower()] for name in statement.primary_key),
        frozenset(c.name for c in statement.columns if c.not_null),
        show_create(replace(statement, if_not_exists=False, or_replace=False)),
    )
    if statement.or_replace and engine.find(statement.name) is not None:
        engine.drop(statement.name, "table")
    engine.create_table(definition)
    return f"created table {statement.name}"


def _create_view(engine: Engine, statement: CreateView) -> str:
    if statement.if_not_exists and engine.find(statement.name) is not None:
        return f"{statement.name} already exists"
    if statement.trigger.kind is not TriggerKind.ON_UPDATE:
        raise error("INCR_UNSUPPORTED", what=f"the trigger {statement.trigger.kind.value}")
    engine.create_view(statement, show_create(_canonical(statement)))
    return f"created view {statement.name}"


def _canonical(statement: CreateView) -> CreateView:
    return replace(statement, if_not_exists=False, or_replace=False)


def _alter(engine: Engine, statement: AlterView) -> str:
    relation = engine.relation_named(statement.name, "view")
    stored = relation.stored
    assert stored is not None
    match statement.action:
        case SetPolicy(policy):
            changed = replace(stored.statement, policy=policy)
        case SetProperties(properties):
            merged = {**dict(stored.statement.properties), **dict(properties)}
            changed = replace(stored.statement, properties=tuple(merged.items()))
        case _:
            raise error(
                "INCR_UNSUPPORTED", what=f"ALTER ... {type(statement.action).__name__.upper()}"
            )
    text = show_create(changed)
    engine.replace_statement(relation, replace(stored, text=text, statement=changed))
    return f"altered view {relation.name}"


def _plan(relation: Relation) -> Node:
    assert isinstance(relation.state, View)
    return relation.state.dataflow.plan


def _explained(plan: Node, mode: ExplainMode, relation: Relation | None) -> str:
    if mode is ExplainMode.SQL:
        return stage_texts(plan)

    def size(number: int) -> str | None:
        if relation is None or not isinstance(relation.state, View):
            return None
        parts = []
        for name, arrangement in relation.state.dataflow.stage_arrangements(number).items():
            snapshot = arrangement.snapshot()
            parts.append(f"{name} {snapshot.count()} rows {snapshot.nbytes()} bytes")
        return "; ".join(parts) or None

    text = explain_plan(plan, size)
    if relation is not None:
        snapshot = relation.contents.snapshot
        text += f"\noutput: {snapshot.count()} distinct rows, {snapshot.nbytes()} bytes"
    if mode is ExplainMode.EXTENDED:
        text += "\n\n" + stage_texts(plan)
    return text


def _lines(text: str) -> list[Row]:
    return [[line] for line in text.split("\n")]


def _matches(name: str, like: str | None) -> bool:
    if like is None:
        return True
    pattern = re.escape(like.lower()).replace("%", ".*").replace("_", ".").replace(r"\*", ".*")
    return re.fullmatch(pattern, name.lower()) is not None


def _show_views(engine: Engine, like: str | None) -> tuple[Sequence[str], list[Row]]:
    rows: list[Row] = []
    for relation in engine.relations:
        if isinstance(relation.state, View) and _matches(relation.name, like):
            assert relation.stored is not None
            reads = ", ".join(sorted(relation.state.dataflow.relations))
            snapshot = relation.contents.snapshot
            policy = relation.stored.statement.policy.value
            rows.append([relation.name, reads, policy, snapshot.count(), relation.changed])
    return ["view", "reads", "refresh_policy", "rows", "last_changed_version"], rows


def _show_tables(engine: Engine, like: str | None) -> tuple[Sequence[str], list[Row]]:
    rows: list[Row] = []
    for relation in engine.relations:
        if isinstance(relation.state, Table) and _matches(relation.name, like):
            key = ", ".join(relation.state.definition.primary_key)
            rows.append([relation.name, key, relation.contents.snapshot.count(), relation.changed])
    return ["table", "primary_key", "rows", "last_changed_version"], rows


def _statement(relation: Relation) -> str:
    if isinstance(relation.state, Table):
        return relation.state.definition.statement
    assert relation.stored is not None
    return relation.stored.text


def _describe(
    engine: Engine, relation: Relation, extended: bool
) -> tuple[Sequence[str], list[Row]]:
    rows: list[Row] = [[f.name, type_text(f.type), None] for f in relation.schema]
    if extended:
        state = sum(a.snapshot().nbytes() for a in relation.arrangements.values())
        facts: list[tuple[str, object]] = [
            ("Name", relation.name),
            (
                "Type",
                "INCREMENTAL TABLE" if isinstance(relation.state, Table) else "INCREMENTAL VIEW",
            ),
            ("Distinct rows", relation.contents.snapshot.count()),
            ("State bytes", state),
            ("Last changed version", relation.changed),
            ("Engine version", engine.version),
            ("State directory", engine.path),
        ]
        if relation.stored is not None:
            assert isinstance(relation.state, View)
            statement = relation.stored.statement
            facts += [
                ("Refresh policy", statement.policy.value),
                ("Reads", ", ".join(sorted(relation.state.dataflow.relations))),
                ("Comment", statement.comment or ""),
                ("Properties", ", ".join(f"{k}={v}" for k, v in statement.properties)),
                ("Query", statement.query_text),
            ]
        rows += [["", None, None], ["# Detailed information", None, None]]
        rows += [[label, str(value), None] for label, value in facts]
    return ["col_name", "data_type", "comment"], rows
