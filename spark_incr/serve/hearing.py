"""What a statement is to the engine: one of its own, a change of a table, or Spark's.

Every door hears statements here, so that the same text means the same at each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from spark_incr.engine import Engine, Relation
from spark_incr.errors import IncrementalError, error
from spark_incr.runtime.tables import Table
from spark_incr.sources.dml import RowChange, Target, change_of, target_of
from spark_incr.sql.clauses import property_key
from spark_incr.sql.cursor import Cursor
from spark_incr.sql.names import join_name, name_parts
from spark_incr.sql.parse import parse_statement
from spark_incr.sql.statements import (
    AlterView,
    CreateSource,
    CreateTable,
    CreateView,
    Describe,
    DescribeHistory,
    Explain,
    ExplainCreate,
    Kind,
    RenameTo,
    ShowCreate,
    ShowProperties,
    ShowSources,
    ShowTables,
    ShowViews,
    Statement,
)
from spark_incr.sql.tokens import leading_words

DEFAULT_SCHEMA = "default"
_DEFINING = {"DROP", "ALTER", "CREATE", "REPLACE"}
_LOOKING = (
    Describe,
    DescribeHistory,
    Explain,
    ExplainCreate,
    ShowCreate,
    ShowProperties,
    ShowSources,
    ShowTables,
    ShowViews,
)


@dataclass(frozen=True)
class Own:
    """An INCREMENTAL statement."""

    statement: Statement

    @property
    def only_looks(self) -> bool:
        return isinstance(self.statement, _LOOKING)


@dataclass(frozen=True)
class Change:
    """DML on an incremental table; `name` is how the statement writes it."""

    name: str
    relation: Relation


def hear(engine: Engine, text: str, schema: str = DEFAULT_SCHEMA) -> Own | Change | None:
    """What a text is; None if it is Spark's. `schema` is the current one of its session."""
    statement = parse_statement(text)
    if statement is not None:
        return Own(_in_schema(statement, schema))
    name = target_of(text)
    if name is not None:
        found = engine.find(_qualified(name, schema))
        return None if found is None else _change(name, found)
    return _about_definition(engine, text, schema)


def admitted(statement: Statement, admit: Callable[[str], str]) -> Statement:
    """The statement with the name that a door admits for what it creates."""
    if isinstance(statement, (CreateTable, CreateView, CreateSource)):
        return replace(statement, name=admit(statement.name))
    if isinstance(statement, AlterView) and isinstance(statement.action, RenameTo):
        return replace(statement, action=RenameTo(admit(statement.action.name)))
    return statement


def apply_change(
    engine: Engine, spark: SparkSession, change: Change, text: str, args: Any = None
) -> RowChange:
    """Carry out DML: the session evaluates it, the engine commits the rows."""
    table = change.relation.state
    assert isinstance(table, Table)
    definition = table.definition
    target = Target(
        change.name,
        definition.schema,
        definition.primary_key,
        definition.not_null,
        definition.defaults,
    )
    with engine.paused():
        rows = change_of(spark, text, target, args)
        try:
            engine.commit({change.relation.name: {"insert": rows.insert, "delete": rows.delete}})
        except IncrementalError as failure:
            if failure.condition == "INCR_DUPLICATE_KEY" and rows.key_hint is not None:
                failure.advise(rows.key_hint)
            raise
    return rows


def named(engine: Engine, text: str, schema: str = DEFAULT_SCHEMA) -> Relation | None:
    """The relation that a name of a session's means, quoted or not; None if it is not ours."""
    try:
        return engine.find(_qualified(Cursor(text).name("a name"), schema))
    except IncrementalError:
        return None


def not_applicable(relation: Relation, what: str, hint: str | None = None) -> IncrementalError:
    """The refusal of what would change rows that do not come that way."""
    if hint is None:
        view = relation.kind == "view"
        hint = "Change the tables that it reads." if view else "Its rows come from its stream."
    return error(
        "INCR_NOT_APPLICABLE", name=relation.name, kind=relation.kind, what=what, hint=hint
    )


def _change(name: str, relation: Relation) -> Change:
    if not isinstance(relation.state, Table):
        raise not_applicable(relation, "a statement that changes rows")
    return Change(name, relation)


def _about_definition(engine: Engine, text: str, schema: str) -> Own | None:
    """What Spark's statements show of ours is answered by us; other definitions are refused."""
    words = leading_words(text, 6)
    if words[:2] == ["SHOW", "TBLPROPERTIES"]:
        return _properties(engine, text, schema)
    shown = words[:3] == ["SHOW", "CREATE", "TABLE"]
    if not shown and not (words and words[0] in _DEFINING):
        return None
    if words[:2] in (["DROP", "SCHEMA"], ["DROP", "DATABASE"]):
        _refuse_used_schema(engine, text)
        return None
    name = _defined(text)
    found = None if name is None else engine.find(_qualified(name, schema))
    if found is None:
        return None
    kind = Kind(found.kind.upper())
    if shown:
        return Own(ShowCreate(kind, found.name))
    raise error(
        "INCR_NOT_APPLICABLE",
        name=found.name,
        kind=kind.value.lower(),
        what=f"{words[0]} without INCREMENTAL",
        hint="Create another table, INSERT into it from this one, and drop this one."
        if (words[0], kind) == ("ALTER", Kind.TABLE)
        else f"{words[0]} INCREMENTAL {kind.value} is the statement for it.",
    )


def _properties(engine: Engine, text: str, schema: str) -> Own | None:
    cursor = Cursor(text)
    cursor.take("SHOW", "TBLPROPERTIES")
    found = engine.find(_qualified(cursor.name("a name"), schema))
    if found is None:
        return None
    key = property_key(cursor) if cursor.take("(") else None
    return Own(ShowProperties(Kind(found.kind.upper()), found.name, key))


def _refuse_used_schema(engine: Engine, text: str) -> None:
    cursor = Cursor(text)
    cursor.take("DROP")
    cursor.advance("SCHEMA")
    cursor.take("IF", "EXISTS")
    schema = cursor.name("a schema").lower()
    for relation in engine.relations:
        parts = name_parts(relation.name)
        if len(parts) > 1 and parts[0].lower() == schema:
            raise error(
                "INCR_NOT_APPLICABLE",
                name=relation.name,
                kind=relation.kind,
                what="DROP SCHEMA of its schema",
                hint="Drop the incremental relations of the schema first.",
            )


def _defined(text: str) -> str | None:
    """The table or view that a statement of Spark's would define, None if it would leave it."""
    try:
        cursor = Cursor(text)
        for _ in range(8):
            if cursor.take("TABLE") or cursor.take("VIEW"):
                if cursor.take("IF", "NOT", "EXISTS"):
                    return None
                cursor.take("IF", "EXISTS")
                return cursor.name("a name")
            cursor.advance("a word")
    except IncrementalError:
        pass
    return None


def _qualified(name: str, schema: str) -> str:
    if schema.lower() == DEFAULT_SCHEMA or len(name_parts(name)) > 1:
        return name
    return join_name([schema, name])


def _in_schema(statement: Statement, schema: str) -> Statement:
    """The statement with the names that it means in this schema."""
    if schema.lower() == DEFAULT_SCHEMA:
        return statement
    if isinstance(statement, (CreateView, ExplainCreate)):
        raise error(
            "INCR_NAME_UNUSABLE",
            name=schema,
            what="the query of a view is read in the schema default",
            hint="USE default, and qualify the names of other schemas.",
        )
    if isinstance(statement, (ShowViews, ShowTables, ShowSources)):
        return statement
    return replace(statement, name=_qualified(statement.name, schema))
