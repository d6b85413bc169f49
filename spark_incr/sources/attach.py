"""A DataFrame of Structured Streaming as the feed of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark.sql.types as T
from pyspark.sql import DataFrame

from spark_incr.errors import error
from spark_incr.frames import columns_of
from spark_incr.plan.scope import folded
from spark_incr.plan.types import Field, Schema, type_text
from spark_incr.relation import name_taken
from spark_incr.sources.definition import AFTER, PAYLOAD, STREAM, SourceDefinition, define
from spark_incr.sources.source import Source
from spark_incr.sources.streaming import AttachedStream
from spark_incr.sql.clauses import change_clause
from spark_incr.sql.cursor import Cursor
from spark_incr.sql.statements import (
    ChangeKind,
    Changes,
    ColumnDefinition,
    CreateSource,
    OnError,
)

if TYPE_CHECKING:
    from spark_incr.engine import Engine


def attach_stream(
    engine: Engine,
    name: str,
    frame: DataFrame,
    deletes: DataFrame | None,
    changes: str,
    key: tuple[str, ...],
    sequence_by: str | None,
    on_error: str,
) -> None:
    """Create the source if need be, and let the frame feed it."""
    if not frame.isStreaming or (deletes is not None and not deletes.isStreaming):
        what = "the frame is not a stream; use spark.readStream, or an incremental table"
        raise error("INCR_SOURCE_UNSUPPORTED", source=name, what=what)
    definition = stream_definition(
        name, columns_of(frame), deletes is not None, changes, key, sequence_by, on_error
    )
    known = engine.find(name)
    if known is None:
        engine.create_source(definition)
    elif not isinstance(known.state, Source):
        raise name_taken(known, "source")
    elif known.state.definition != definition:
        engine.create_source(definition, or_replace=True)
    relation = engine.relation_named(name, "source")
    generation = int(relation.offsets.get("generation", 0))
    engine.runner.attach(
        relation.name, AttachedStream(definition, frame, deletes, engine.path, generation)
    )


def stream_definition(
    name: str,
    delivered: Schema,
    with_deletes: bool,
    changes: str,
    key: tuple[str, ...],
    sequence_by: str | None,
    on_error: str,
) -> SourceDefinition:
    clause = _parsed(changes)
    if with_deletes:
        if clause.kind is not ChangeKind.APPEND:
            what = "a stream of deletes together with CHANGES"
            raise error("INCR_SOURCE_UNSUPPORTED", source=name, what=what)
        clause = Changes(ChangeKind.DELETES, deletes_path="")
    columns = tuple(ColumnDefinition(f.name, type_text(f.type)) for f in delivered)
    statement = CreateSource(
        name,
        STREAM,
        columns,
        changes=clause,
        key=key,
        sequence_by=sequence_by,
        on_error=OnError(on_error.upper()),
    )
    declared = delivered
    if clause.kind is ChangeKind.DEBEZIUM:
        declared = _image(name, delivered)
    return define(statement, declared, delivered)


def _parsed(clause: str) -> Changes:
    if not clause:
        return Changes()
    cursor = Cursor(f"({clause})")
    changes = change_clause(cursor)
    cursor.finish()
    return changes


def _image(name: str, delivered: Schema) -> Schema:
    """The columns of the image after a change, in its envelope or the envelope's payload."""
    members = {folded(f.name): f.type for f in delivered}
    payload = members.get(PAYLOAD)
    if isinstance(payload, T.StructType):
        members = {folded(f.name): f.dataType for f in payload.fields}
    image = members.get(AFTER)
    if not isinstance(image, T.StructType):
        raise error("INCR_SOURCE_UNSUPPORTED", source=name, what="there is no struct named after")
    return tuple(Field(f.name, f.dataType) for f in image.fields)
