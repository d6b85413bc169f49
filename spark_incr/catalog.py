"""Tables, sources and views as the manifest describes them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyspark.sql.types as T

from spark_incr.plan.explain import explain_plan
from spark_incr.plan.nodes import Node, walk
from spark_incr.plan.types import Field, Schema, arrow_type, holds, read_type
from spark_incr.runtime.tables import TableDefinition
from spark_incr.sources.definition import SourceDefinition
from spark_incr.sql.parse import parse_statement
from spark_incr.sql.statements import CreateSource, CreateView


@dataclass(frozen=True)
class StoredStatic:
    """A table of Spark that a view reads: its columns, and what tells whether it has changed."""

    schema: Schema
    fingerprint: str


@dataclass(frozen=True)
class StoredView:
    """A view's statement, its columns, and what Spark said when it was compiled.

    `confs` are the session's at that time, `statics` the tables of Spark that the view reads, and
    `sources` the columns that its sources had: a source that grows does not change the view.
    `fingerprint` tells whether the stored state belongs to the plan that is compiled now.
    """

    text: str
    statement: CreateView
    schema: Schema
    memory: Mapping[str, str]
    confs: Mapping[str, str]
    statics: Mapping[str, StoredStatic]
    sources: Mapping[str, Schema]
    fingerprint: str


Definition = TableDefinition | SourceDefinition | StoredView


def plan_fingerprint(plan: Node) -> str:
    """A digest of everything in a plan that its state depends on: what is kept, and the Arrow form of
    VOID, which is not Arrow's own."""
    kinds = (field.type for node in walk(plan) for field in node.schema)
    form = f"\n{arrow_type(T.NullType())}" if any(holds(k, T.NullType) for k in kinds) else ""
    return hashlib.sha256((explain_plan(plan) + form).encode()).hexdigest()[:16]


def write_definition(definition: Definition) -> dict[str, Any]:
    """What CREATE fixed of a relation."""
    if isinstance(definition, TableDefinition):
        return {
            "kind": "table",
            "name": definition.name,
            "schema": schema_json(definition.schema),
            "primary_key": list(definition.primary_key),
            "not_null": sorted(definition.not_null),
            "statement": definition.statement,
            "longest": dict(definition.longest),
            "arranged_by": list(definition.arranged_by),
            "defaults": dict(definition.defaults),
        }
    if isinstance(definition, SourceDefinition):
        return {
            "kind": "source",
            "name": definition.name,
            "schema": schema_json(definition.schema),
            "delivered": schema_json(definition.delivered),
            "not_null": sorted(definition.not_null),
            "statement": definition.text,
        }
    return {
        "kind": "view",
        "name": definition.statement.name,
        "schema": schema_json(definition.schema),
        "statement": definition.text,
        "types": dict(definition.memory),
        "confs": dict(definition.confs),
        "statics": {
            name: {"schema": schema_json(s.schema), "fingerprint": s.fingerprint}
            for name, s in definition.statics.items()
        },
        "sources": {name: schema_json(schema) for name, schema in definition.sources.items()},
        "fingerprint": definition.fingerprint,
    }


def read_definition(item: Mapping[str, Any]) -> Definition:
    """The inverse of `write_definition`."""
    schema = schema_from(item["schema"])
    if item["kind"] == "table":
        return TableDefinition(
            item["name"],
            schema,
            tuple(item["primary_key"]),
            frozenset(item["not_null"]),
            item["statement"],
            item.get("longest", {}),
            tuple(item.get("arranged_by", ())),
            item.get("defaults", {}),
        )
    statement = parse_statement(item["statement"])
    if item["kind"] == "source":
        assert isinstance(statement, CreateSource)
        delivered = schema_from(item["delivered"])
        not_null = frozenset(item["not_null"])
        return SourceDefinition(item["name"], schema, delivered, not_null, statement)
    assert isinstance(statement, CreateView)
    return StoredView(
        item["statement"],
        statement,
        schema,
        item["types"],
        item["confs"],
        {
            name: StoredStatic(schema_from(static["schema"]), static["fingerprint"])
            for name, static in item["statics"].items()
        },
        {name: schema_from(columns) for name, columns in item["sources"].items()},
        item["fingerprint"],
    )


def schema_json(schema: Schema) -> list[list[Any]]:
    return [
        [field.name, json.loads(field.type.json()), *([field.session] if field.session else [])]
        for field in schema
    ]


def schema_from(items: list[list[Any]]) -> Schema:
    return tuple(Field(name, read_type(value), *session) for name, value, *session in items)
