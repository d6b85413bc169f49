"""INCREMENTAL statements: each is carried out and answers with rows that a person can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession

from spark_incr.catalog import StoredView
from spark_incr.compile import order_note
from spark_incr.engine import Engine, Relation
from spark_incr.errors import IncrementalError, error
from spark_incr.frames import type_named
from spark_incr.plan.explain import Size, explain_plan
from spark_incr.plan.picture import plan_picture
from spark_incr.plan.texts import stage_texts
from spark_incr.plan.types import Field, char_length, is_storable, unkept
from spark_incr.relation import Status, name_taken
from spark_incr.runtime.dataflow import Dataflow
from spark_incr.runtime.tables import TableDefinition, require_keys
from spark_incr.runtime.views import View
from spark_incr.serve.describe import (
    Row,
    describe,
    show_history,
    show_properties,
    show_sources,
    show_tables,
    show_views,
    statement_of,
)
from spark_incr.sources.create import source_definition
from spark_incr.sources.defaults import check_default
from spark_incr.sources.error_places import placed
from spark_incr.sql.show_create import show_create
from spark_incr.sql.statements import (
    AlterView,
    ColumnDefinition,
    CreateSource,
    CreateTable,
    CreateView,
    Describe,
    DescribeHistory,
    Drop,
    Explain,
    ExplainCreate,
    ExplainMode,
    Kind,
    Policy,
    Refresh,
    RenameTo,
    Resume,
    SetPolicy,
    SetProperties,
    SetTrigger,
    ShowCreate,
    ShowProperties,
    ShowSources,
    ShowTables,
    ShowViews,
    Statement,
    Suspend,
    Trigger,
    TriggerKind,
)
from spark_incr.sql.written_names import known_names


def execute(engine: Engine, spark: SparkSession, statement: Statement, text: str) -> DataFrame:
    """Carry out a statement; its answer is a frame."""
    columns, rows = carry_out(engine, spark, statement, text)
    return frame_of(spark, columns, rows)


def frame_of(spark: SparkSession, columns: Sequence[str], rows: Sequence[Row]) -> DataFrame:
    """An answer as a frame of a session: a local relation, which Spark shows without a job."""
    arrays = []
    for place in range(len(columns)):
        values = [row[place] for row in rows]
        numbers = any(isinstance(value, int) for value in values)
        arrays.append(pa.array(values, pa.int64() if numbers else pa.string()))
    return spark.createDataFrame(pa.Table.from_arrays(arrays, names=list(columns)))


def carry_out(
    engine: Engine, spark: SparkSession, statement: Statement, text: str
) -> tuple[Sequence[str], list[Row]]:
    """Carry out a statement; its answer is the names of columns and rows."""
    match statement:
        case CreateTable():
            return ["status"], [[_create_table(engine, spark, statement)]]
        case CreateView():
            with_position = _Positioned(statement)
            with with_position:
                return ["status"], [[_create_view(engine, statement)]]
        case ExplainCreate(mode, create):
            with _Positioned(create):
                compiled, analysis = engine.compile(create)
            flow = Dataflow(compiled.plan, analysis)
            return ["plan"], _lines(_explained(flow, mode, None))
        case Explain(mode, name):
            relation = engine.relation_named(name, "view")
            return ["plan"], _lines(_explained(_flow(relation), mode, relation))
        case Drop(kind, name, if_exists, cascade):
            word = kind.value.lower()
            if if_exists and engine.find(name) is None:
                return ["status"], [[f"{word} {name} does not exist"]]
            gone = engine.drop(name, word, cascade)
            return ["status"], [[f"dropped {dropped}"] for dropped in gone]
        case CreateSource():
            return ["status"], [[_create_source(engine, spark, statement)]]
        case Refresh():
            return ["status"], [[line] for line in _refresh(engine, statement)]
        case ShowViews(like):
            return show_views(engine, like)
        case ShowTables(like):
            return show_tables(engine, like)
        case ShowSources(like):
            return show_sources(engine, like)
        case ShowCreate(kind, name):
            relation = engine.relation_named(name, kind.value.lower())
            return ["statement"], [[statement_of(relation)]]
        case ShowProperties(kind, name, key):
            return show_properties(engine.relation_named(name, kind.value.lower()), key)
        case Describe(kind, name, extended):
            return describe(engine, engine.relation_named(name, kind.value.lower()), extended)
        case DescribeHistory(name):
            return show_history(engine, engine.relation_named(name, "view"))
        case AlterView():
            return ["status"], [[_alter(engine, statement)]]
    raise AssertionError(f"no execution of {type(statement).__name__}")


class _Positioned:
    """Positions in a view's query, as positions in its statement."""

    def __init__(self, statement: CreateView) -> None:
        self._start = statement.body_position

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> None:
        if isinstance(failure, IncrementalError) and failure.position is not None:
            failure.place(failure.position.after(self._start))


def _column_type(spark: SparkSession, column: ColumnDefinition) -> tuple[T.DataType, int | None]:
    """The type of a column, and the length that it allows: VARCHAR is a string of one."""
    with placed(column.type_position):
        found = type_named(spark, column.type_text)
    if isinstance(found, T.VarcharType):
        return T.StringType(), found.length
    return found, char_length(found)


def _create_table(engine: Engine, spark: SparkSession, statement: CreateTable) -> str:
    if statement.if_not_exists and engine.find(statement.name) is not None:
        return f"{statement.name} already exists"
    fields, longest, defaults = [], {}, {}
    for column in statement.columns:
        type_, length = _column_type(spark, column)
        fields.append(Field(column.name, type_))
        if not is_storable(type_):
            raise unkept(fields[-1])
        if length is not None:
            longest[column.name] = length
        if column.default is not None:
            written = type_named(spark, column.type_text)
            check_default(spark, column.name, written, column.default)
            defaults[column.name] = column.default
    by_name = {f.name.lower(): f.name for f in fields}
    for name in statement.primary_key:
        if name.lower() not in by_name:
            raise error("INCR_SYNTAX", what=f"primary key column {name} is not a column")
    primary_key = tuple(by_name[name.lower()] for name in statement.primary_key)
    require_keys(f for f in fields if f.name in primary_key)
    definition = TableDefinition(
        statement.name,
        tuple(fields),
        primary_key,
        frozenset(c.name for c in statement.columns if c.not_null),
        show_create(replace(statement, if_not_exists=False, or_replace=False)),
        longest,
        defaults=defaults,
    )
    replaced = engine.find(statement.name) if statement.or_replace else None
    if replaced is not None:
        _drop_replaced(engine, replaced)
    engine.create_table(definition)
    return f"{'created' if replaced is None else 'replaced'} table {statement.name}"


def _drop_replaced(engine: Engine, table: Relation) -> None:
    """Drop the table that another one takes the place of."""
    if table.kind != "table":
        raise name_taken(table, "table")
    try:
        engine.drop(table.name, "table")
    except IncrementalError as failure:
        if failure.condition == "INCR_RELATION_IN_USE":
            failure.advise("Drop those views first, or DROP INCREMENTAL TABLE with CASCADE.")
        raise


def _create_view(engine: Engine, statement: CreateView) -> str:
    if statement.if_not_exists and engine.find(statement.name) is not None:
        return f"{statement.name} already exists"
    replaced = engine.find(statement.name) if statement.or_replace else None
    if replaced is not None:
        # Readers know it by the name that it was given first.
        statement = replace(statement, name=replaced.name)
    engine.create_view(statement, show_create(_canonical(statement)))
    done = "created" if replaced is None else "replaced"
    return f"{done} view {statement.name}{_notes(engine, statement.name)}"


def _order_note(stored: StoredView) -> str:
    text = stored.statement.query_text
    return order_note(text, stored.schema, known_names(text, stored.memory))


def _notes(engine: Engine, name: str) -> str:
    """What is to be known of a view: who refreshes it, what a batch costs, how its rows are read."""
    relation = engine.relation_named(name, "view")
    assert relation.stored is not None
    statement = relation.stored.statement
    reason = relation.recomputed
    notes = [
        _note(engine, statement.trigger),
        reason and f"each batch computes all of it anew ({reason})",
        _order_note(relation.stored),
    ]
    return "".join(f"; {note}" for note in notes if note)


def _note(engine: Engine, trigger: Trigger) -> str:
    """Who refreshes the view, where not every commit does."""
    if trigger.kind is TriggerKind.SCHEDULE:
        if engine.in_catalog:
            return "its schedule runs while the server does"
        return "its schedule runs while the engine does (engine.start())"
    if trigger.kind is TriggerKind.MANUAL:
        return "REFRESH INCREMENTAL VIEW brings it up to date"
    return ""


def _create_source(engine: Engine, spark: SparkSession, statement: CreateSource) -> str:
    if statement.if_not_exists and engine.find(statement.name) is not None:
        return f"{statement.name} already exists"
    return engine.create_source(source_definition(spark, statement), statement.or_replace)


def _refresh(engine: Engine, statement: Refresh) -> list[str]:
    name = engine.relation_named(statement.name, statement.kind.value.lower()).name
    if statement.kind is Kind.SOURCE:
        engine.refresh_source(name, statement.full)
        return [f"{name} is read up to version {engine.version}"]
    if statement.full:
        engine.refresh_view(name)
        return [f"rebuilt {name}"]
    notes = engine.refresh(name)
    return [f"{name} is up to date at version {engine.version}", *notes]


def _canonical(statement: CreateView) -> CreateView:
    return replace(statement, if_not_exists=False, or_replace=False)


def _alter(engine: Engine, statement: AlterView) -> str:
    relation = engine.relation_named(statement.name, "view")
    stored = relation.stored
    assert stored is not None
    match statement.action:
        case Suspend():
            engine.suspend(relation.name)
            return f"suspended view {relation.name}"
        case Resume():
            engine.resume(relation.name)
            return f"resumed view {relation.name} at version {engine.version}"
        case SetTrigger(trigger):
            changed = replace(stored.statement, trigger=trigger)
        case SetPolicy(policy):
            changed = replace(stored.statement, policy=policy)
            if policy is not stored.statement.policy and (
                relation.recomputed or policy is Policy.FULL
            ):
                _replace_view(engine, relation, changed)
                return f"altered view {relation.name}{_notes(engine, relation.name)}"
        case SetProperties(properties):
            merged = {**dict(stored.statement.properties), **dict(properties)}
            changed = replace(stored.statement, properties=tuple(merged.items()))
        case RenameTo():
            hint = "Create the view under its new name and drop the old one."
            raise error(
                "INCR_NOT_APPLICABLE", name=relation.name, kind="view", what="RENAME TO", hint=hint
            )
    text = show_create(changed)
    if changed.trigger != stored.statement.trigger and relation.status is Status.ACTIVE:
        engine.refresh(relation.name)
    engine.replace_statement(relation, replace(stored, text=text, statement=changed))
    return f"altered view {relation.name}{_notes(engine, relation.name)}"


def _replace_view(engine: Engine, relation: Relation, statement: CreateView) -> None:
    """Compile and fill a view anew."""
    suspended = relation.status is Status.SUSPENDED
    engine.create_view(replace(statement, or_replace=True), show_create(_canonical(statement)))
    if suspended:
        engine.suspend(relation.name)


def _flow(relation: Relation) -> Dataflow:
    assert isinstance(relation.state, View)
    return relation.state.dataflow


def _explained(flow: Dataflow, mode: ExplainMode, relation: Relation | None) -> str:
    plan = flow.plan
    if mode is ExplainMode.SQL:
        return stage_texts(plan)

    text = explain_plan(plan, _sizes(relation), flow.by_spark)
    if relation is not None:
        snapshot = relation.contents.snapshot
        text += f"\noutput: {snapshot.count()} distinct rows, {snapshot.nbytes()} bytes"
        assert relation.stored is not None
        order = _order_note(relation.stored)
        text += order and f"\norder: {order}"
    if mode is ExplainMode.EXTENDED:
        text += "\n\n" + stage_texts(plan)
    return text


def view_picture(relation: Relation) -> str:
    """The plan of a view as SVG, with the sizes of its state."""
    explained = _explained(_flow(relation), ExplainMode.PLAIN, relation)
    return plan_picture(explained, relation.name)


def _sizes(relation: Relation | None) -> Size:
    """What each operator of a view keeps."""

    def size(number: int) -> str | None:
        if relation is None or not isinstance(relation.state, View):
            return None
        flow = relation.state.dataflow
        parts = [f"{side} in table {table}" for side, table in flow.shared(number).items()]
        for name, arrangement in flow.stage_arrangements(number).items():
            snapshot = arrangement.snapshot()
            parts.append(f"{name} {snapshot.count()} rows {snapshot.nbytes()} bytes")
        return "; ".join(parts) or None

    return size


def _lines(text: str) -> list[Row]:
    return [[line] for line in text.split("\n")]
