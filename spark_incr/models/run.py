"""Bringing the views of a folder of models up to date: create, replace, or leave alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_incr.drawing import Box, draw
from spark_incr.engine import Engine
from spark_incr.errors import IncrementalError, error, split_place, without_plan
from spark_incr.models.problems import model_error
from spark_incr.models.project import ordered, read_folder
from spark_incr.models.render import Rendered, render
from spark_incr.models.statements import QUERY, SETTINGS, ModelStatement, model_statement
from spark_incr.sql.names import quote, quote_name

_MODEL, _SOURCE = "#2f6fde", "#8d99a9"


@dataclass(frozen=True)
class Models:
    """A folder's models in the order of their references, and their statements for a schema."""

    schema: str
    rendered: Mapping[str, Rendered]
    statements: Mapping[str, ModelStatement]


def load(folder: str | Path, schema: str, variables: Mapping[str, Any]) -> Models:
    """Read and render all models of a folder."""
    files = read_folder(Path(folder))
    rendered = {
        name: render(model, files, schema, variables) for name, model in files.models.items()
    }
    names = ordered({name: model.reads for name, model in rendered.items()})
    return Models(
        schema,
        {name: rendered[name] for name in names},
        {name: model_statement(rendered[name], schema) for name in names},
    )


def action(engine: Engine, statement: ModelStatement, full_refresh: bool = False) -> str:
    """What is to be done for a model: create, replace, or nothing (unchanged, kept)."""
    found = engine.find(statement.name)
    if found is None:
        return "create"
    if found.stored is None:
        what = f"its name is taken by an incremental {found.kind}"
        raise error("INCR_MODEL", model=statement.name, what=what)
    properties = dict(found.stored.statement.properties)
    if full_refresh or properties.get(QUERY) != statement.query_fingerprint:
        return "replace"
    if properties.get(SETTINGS) == statement.settings_fingerprint:
        return "unchanged"
    if statement.on_configuration_change == "fail":
        what = "its settings have changed, and on_configuration_change is fail"
        raise error("INCR_MODEL", model=statement.name, what=what)
    return "replace" if statement.on_configuration_change == "apply" else "kept"


def run(
    engine: Engine, spark: SparkSession, models: Models, full_refresh: bool = False
) -> Iterator[tuple[str, str]]:
    """Carry out what is to be done, model by model; yields names and what was done."""
    if models.schema != "default":
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quote(models.schema)}")
    for name, statement in models.statements.items():
        done = action(engine, statement, full_refresh)
        if done == "replace" and full_refresh:
            spark.sql(f"DROP INCREMENTAL VIEW IF EXISTS {quote_name(statement.name)} CASCADE")
        if done in ("create", "replace"):
            try:
                spark.sql(statement.text)
            except PySparkException as failure:
                raise _refused(models.rendered[name], statement, failure) from failure
        yield name, done


def _refused(
    rendered: Rendered, statement: ModelStatement, failure: PySparkException
) -> IncrementalError:
    """The error of a statement, at the place in the model's file that it is about."""
    what, place = split_place(without_plan(str(failure).strip()))
    if place is not None:
        lines = statement.text.split("\n")[: place.line - 1]
        within = sum(len(line) + 1 for line in lines) + place.column - 1
        within -= len(statement.text) - len(statement.query)
        if within >= 0:
            return rendered.error_at(what, within)
    return model_error(rendered.model, what)


def graph_text(models: Models) -> str:
    """The models, each with what it reads.

    The order is that in which they are made.
    """
    lines = []
    for name, model in models.rendered.items():
        reads = [*model.reads, *model.sources]
        lines.append(f"{name} <- {', '.join(reads)}" if reads else name)
    return "\n".join(lines)


def graph_svg(models: Models, head: str) -> str:
    """The models as a picture, sources on the left."""
    sources = sorted({s for model in models.rendered.values() for s in model.sources})
    boxes = [Box(name, name, (), "source", _SOURCE) for name in sources]
    boxes += [
        Box(name, name, (*model.reads, *model.sources), _badge(model), _MODEL, _about(model))
        for name, model in models.rendered.items()
    ]
    return draw(boxes, head, down=False)


def _badge(model: Rendered) -> str:
    policy = model.settings.get("refresh_policy")
    return f"incremental view, {policy}" if policy else "incremental view"


def _about(model: Rendered) -> tuple[str, ...]:
    comment = model.settings.get("comment")
    return (str(comment),) if comment else ()
