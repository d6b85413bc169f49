"""A source as its statement has it: its columns, and the columns in which its events arrive.

An event arrives with more than the row: an operation, a weight, a change type, or an envelope
around two images of the row. What only says how to read an event is no column of the relation, or
else the delete of a row would never equal the row that was inserted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyspark.sql.types as T

from spark_incr.errors import error
from spark_incr.plan.scope import folded
from spark_incr.plan.types import (
    Field,
    Schema,
    char_length,
    is_collated,
    is_storable,
    type_text,
    unkept,
)
from spark_incr.runtime.tables import TableDefinition, require_keys
from spark_incr.sql.names import is_reserved
from spark_incr.sql.show_create import show_create
from spark_incr.sql.statements import ChangeKind, Changes, CreateSource, OnError

STREAM = "stream"  # the format of a source that a DataFrame of Structured Streaming feeds
FILE_FORMATS = ("json", "csv", "parquet", "orc", "text")
CHANGE_TYPE, COMMIT_VERSION = "_change_type", "_commit_version"
BEFORE, AFTER, OPERATION, PAYLOAD = "before", "after", "op", "payload"
FLAT_OPERATION, FLAT_DELETED = "__op", "__deleted"

_FEED: Schema = (
    Field(CHANGE_TYPE, T.StringType()),
    Field(COMMIT_VERSION, T.LongType()),
    Field("_commit_timestamp", T.TimestampType()),
)
_FLAT: Schema = (Field(FLAT_OPERATION, T.StringType()), Field(FLAT_DELETED, T.StringType()))
_REJECTED: Schema = (
    Field("row", T.StringType()),
    Field("reason", T.StringType()),
    Field("origin", T.StringType()),
    Field("version", T.LongType()),
    Field("rejected_at", T.TimestampType()),
)


@dataclass(frozen=True)
class SourceDefinition:
    """`schema` is the relation's; `delivered` is what a reader hands over."""

    name: str
    schema: Schema
    delivered: Schema
    not_null: frozenset[str]
    statement: CreateSource

    @property
    def key(self) -> tuple[str, ...]:
        return self.statement.key

    @property
    def changes(self) -> Changes:
        return self.statement.changes

    @property
    def append_only(self) -> bool:
        """Whether no row of it ever leaves: then a maximum needs no memory of the others."""
        return self.changes.kind is ChangeKind.APPEND and not self.key

    @property
    def quarantines(self) -> bool:
        return self.statement.on_error is OnError.QUARANTINE

    @property
    def sequence(self) -> Field | None:
        name = self.statement.sequence_by
        return (
            None
            if name is None
            else _named(name, (*_members(self.changes, self.delivered), *self.schema))
        )

    @property
    def text(self) -> str:
        return show_create(self.statement)

    def rejected(self) -> TableDefinition:
        """The table of what is set aside."""
        name = rejected_name(self.name)
        statement = f"-- made by CREATE INCREMENTAL SOURCE {self.name}"
        return TableDefinition(name, _REJECTED, (), frozenset(), statement)


def rejected_name(source: str) -> str:
    if source.endswith("`"):
        return source[:-1] + "__rejected`"
    return source + "__rejected"


def define(
    statement: CreateSource, declared: Schema, arriving: Schema | None = None
) -> SourceDefinition:
    """The definition of a source whose declared columns have these types.

    `arriving` are the columns of its events, where they do not follow from the statement.
    """
    changes, name = statement.changes, statement.name
    envelope = {f.name for f in _members(changes, declared)}
    if changes.kind is ChangeKind.DEBEZIUM and {BEFORE, AFTER} <= envelope:
        what = "columns of Debezium's envelope; declare those of the row that it carries"
        raise error("INCR_SOURCE_UNSUPPORTED", source=name, what=what)
    schema, delivered = _columns(changes, declared)
    delivered = arriving or _with_sequence(statement, schema, delivered)
    seen: set[str] = set()
    for field in schema:
        if not is_storable(field.type) or char_length(field.type) is not None:
            raise unkept(field)
        if is_reserved(field.name):
            raise error("INCR_RESERVED_NAME", name=field.name)
        if folded(field.name) in seen:
            hint = "Give each column a name of its own."
            raise error("INCR_DUPLICATE_COLUMN", name=field.name, hint=hint)
        seen.add(folded(field.name))
    if not schema:
        raise error("INCR_SOURCE_UNSUPPORTED", source=name, what="no column is left for its rows")
    key = tuple(_named(k, schema, name).name for k in statement.key)
    require_keys(f for f in schema if f.name in key)
    for field in schema:
        if field.name in key and is_collated(field.type):
            detail = "Keys of events are compared byte by byte, and such strings are not."
            kind = type_text(field.type)
            raise error("INCR_KEY_TYPE", name=field.name, type=kind, detail=detail)
    if statement.sequence_by is not None:
        if not key:
            what = "SEQUENCE BY orders the events of a key, and there is no KEY"
            raise error("INCR_SOURCE_UNSUPPORTED", source=name, what=what)
        _named(statement.sequence_by, (*_members(changes, delivered), *schema), name)
    if key and changes.kind in (ChangeKind.WEIGHT, ChangeKind.DELETES):
        what = f"KEY together with CHANGES ({changes.kind.value} ...)"
        raise error("INCR_SOURCE_UNSUPPORTED", source=name, what=what)
    canonical = replace(statement, key=key, if_not_exists=False, or_replace=False)
    not_null = frozenset(c.name for c in statement.columns if c.not_null)
    return SourceDefinition(name, schema, delivered, not_null, canonical)


def _columns(changes: Changes, declared: Schema) -> tuple[Schema, Schema]:
    """The columns of the relation, and those in which its events arrive."""
    if changes.kind in (ChangeKind.OPERATION, ChangeKind.WEIGHT):
        assert changes.column is not None
        wanted = folded(changes.column)
        rest = tuple(f for f in declared if folded(f.name) != wanted)
        type_: T.DataType = T.StringType() if changes.kind is ChangeKind.OPERATION else T.LongType()
        technical = tuple(f for f in declared if folded(f.name) == wanted)
        return rest, (*rest, *(technical or (Field(changes.column, type_),)))
    if changes.kind is ChangeKind.FEED:
        rest = _without(declared, _FEED)
        return rest, (*rest, *_FEED)
    if changes.kind is ChangeKind.DEBEZIUM_FLATTENED:
        rest = _without(declared, _FLAT)
        return rest, (*rest, *_FLAT)
    if changes.kind is ChangeKind.DEBEZIUM:
        image = T.StructType([T.StructField(f.name, f.type) for f in declared])
        envelope = (
            Field(BEFORE, image),
            Field(AFTER, image),
            Field(OPERATION, T.StringType()),
            Field("ts_ms", T.LongType()),
        )
        inner = T.StructType([T.StructField(f.name, f.type) for f in envelope])
        return declared, (*envelope, Field(PAYLOAD, inner))
    return declared, declared


def _members(changes: Changes, schema: Schema) -> Schema:
    """The columns, and the members of Debezium's envelope where it is wrapped as a payload."""
    if changes.kind is not ChangeKind.DEBEZIUM:
        return schema
    inner = next((f.type for f in schema if f.name == PAYLOAD), None)
    members = inner.fields if isinstance(inner, T.StructType) else []
    return (*schema, *(Field(f.name, f.dataType) for f in members))


def _without(schema: Schema, technical: Schema) -> Schema:
    names = {folded(f.name) for f in technical}
    return tuple(f for f in schema if folded(f.name) not in names)


def _with_sequence(statement: CreateSource, schema: Schema, delivered: Schema) -> Schema:
    """Debezium's flattened events carry their position in a field of two underscores."""
    name = statement.sequence_by
    if name is None or statement.changes.kind is not ChangeKind.DEBEZIUM_FLATTENED:
        return delivered
    known = {folded(f.name) for f in (*schema, *delivered)}
    if folded(name) in known or not name.startswith("__"):
        return delivered
    return (*delivered, Field(name, T.LongType()))


def _named(name: str, schema: Schema, source: str = "") -> Field:
    for field in schema:
        if folded(field.name) == folded(name):
            return field
    raise error("INCR_SOURCE_UNSUPPORTED", source=source, what=f"there is no column {name}")


def grown(old: SourceDefinition, new: SourceDefinition) -> None:
    """Refuse any change of a source but more columns at its end."""
    what = None
    if new.schema[: len(old.schema)] != old.schema:
        what = "columns may only be added after those that are there"
    elif (new.key, new.statement.sequence_by) != (old.key, old.statement.sequence_by):
        what = "its key or its sequence would change"
    elif new.changes != old.changes:
        what = "the way in which it tells deletes would change"
    elif any(f.name in new.not_null for f in new.schema[len(old.schema) :]):
        what = "a column that is added must allow NULL, which the rows that are there will have"
    if what is not None:
        raise error("INCR_SOURCE_CHANGED", source=old.name, what=what)
