"""Tables and views as the manifest describes them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyspark.sql.types as T

from spark_incr.plan.explain import explain_plan
from spark_incr.plan.nodes import Node
from spark_incr.plan.types import Field, Schema
from spark_incr.runtime.tables import TableDefinition
from spark_incr.sql.parse import parse_statement
from spark_incr.sql.statements import CreateView


@dataclass(frozen=True)
class StoredView:
    """A view's statement, its columns, and what Spark said when it was compiled.

    `confs` are the session's at that time, `statics` the tables of Spark that the view reads.
    `fingerprint` tells whether the stored state belongs to the plan that is compiled now.
    """

    text: str
    statement: CreateView
    schema: Schema
    memory: Mapping[str, str]
    confs: Mapping[str, str]
    statics: Mapping[str, Schema]
    fingerprint: str


Definitions = list[tuple[TableDefinition | StoredView, int]]


def plan_fingerprint(plan: Node) -> str:
    """A digest of everything in a plan that its state depends on."""
    return hashlib.sha256(explain_plan(plan).encode()).hexdigest()[:16]


def write_table(definition: TableDefinition, changed: int) -> dict[str, Any]:
    return {
        "kind": "table",
        "name": definition.name,
        "schema": _schema_json(definition.schema),
        "primary_key": list(definition.primary_key),
        "not_null": sorted(definition.not_null),
        "statement": definition.statement,
        "changed": changed,
    }


def write_view(view: StoredView, changed: int) -> dict[str, Any]:
    return {
        "kind": "view",
        "name": view.statement.name,
        "schema": _schema_json(view.schema),
        "statement": view.text,
        "types": dict(view.memory),
        "confs": dict(view.confs),
        "statics": {name: _schema_json(schema) for name, schema in view.statics.items()},
        "fingerprint": view.fingerprint,
        "changed": changed,
    }


def read_definitions(body: Mapping[str, Any]) -> Definitions:
    """The tables and views of a manifest, in order of creation."""
    result: Definitions = []
    for item in body.get("relations", []):
        schema = _schema_from(item["schema"])
        if item["kind"] == "table":
            definition = TableDefinition(
                item["name"],
                schema,
                tuple(item["primary_key"]),
                frozenset(item["not_null"]),
                item["statement"],
            )
            result.append((definition, item["changed"]))
        else:
            statement = parse_statement(item["statement"])
            assert isinstance(statement, CreateView)
            stored = StoredView(
                item["statement"],
                statement,
                schema,
                item["types"],
                item["confs"],
                {name: _schema_from(columns) for name, columns in item["statics"].items()},
                item["fingerprint"],
            )
            result.append((stored, item["changed"]))
    return result


def _schema_json(schema: Schema) -> list[list[Any]]:
    return [[field.name, json.loads(field.type.json())] for field in schema]


def _schema_from(items: list[list[Any]]) -> Schema:
    return tuple(Field(name, T._parse_datatype_json_value(value)) for name, value in items)
