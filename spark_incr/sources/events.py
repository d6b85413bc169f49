"""From rows as they arrive to events: a row of the relation, and whether it comes or goes.

Law: every row that arrives becomes events, or a fault with its reason, or counts as without
effect; none is passed over. Events of the weighted forms are a change batch. Events of a source
with a KEY are upserts and deletes, ordered by sequence, then by arrival.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_incr.plan.types import arrow_schema
from spark_incr.runtime.columns import Bools, Ints, single, validity, values
from spark_incr.sources.definition import (
    AFTER,
    BEFORE,
    CHANGE_TYPE,
    COMMIT_VERSION,
    FLAT_DELETED,
    FLAT_OPERATION,
    OPERATION,
    PAYLOAD,
    SourceDefinition,
)
from spark_incr.sql.statements import ChangeKind

_ARRIVES = ("insert", "update_postimage")
_LEAVES = ("delete", "update_preimage")
_UPSERTS, _DELETE = ("c", "r", "u"), "d"


@dataclass(frozen=True)
class Fault:
    """A row that is not applied: its text, why, and where it came from."""

    row: str
    reason: str
    origin: str = ""


# Sums of weights stay far from the ends of 64 bits.
_HEAVIEST = 2**31 - 1


@dataclass
class Events:
    """Rows with weights; `number` says which row that arrived each one stems from.

    `rank` orders events of one sequence: what leaves comes before what arrives.
    """

    rows: pa.Table
    weight: Ints
    number: Ints
    sequence: pa.Array | None = None
    rank: Ints | None = None
    reasons: dict[int, str] = field(default_factory=dict)
    without_effect: int = 0

    def kept(self, keep: Bools) -> Events:
        at = np.flatnonzero(keep)
        return Events(
            self.rows.take(at),
            self.weight[at],
            self.number[at],
            None if self.sequence is None else self.sequence.take(at),
            None if self.rank is None else self.rank[at],
            self.reasons,
            self.without_effect,
        )


def decode(definition: SourceDefinition, rows: pa.Table, deletes: Bools | None = None) -> Events:
    """The events in rows that arrived; `deletes` marks those of a stream of deletes."""
    kind = definition.changes.kind
    if kind is ChangeKind.DEBEZIUM:
        events = _debezium(definition, rows)
    else:
        number = np.arange(rows.num_rows)
        image = _image(definition, [rows.column(f.name) for f in definition.schema])
        events = Events(image, np.ones(rows.num_rows, dtype=np.int64), number)
        if kind is ChangeKind.DELETES and deletes is not None:
            events.weight = np.where(deletes, -1, 1)
        elif kind is ChangeKind.OPERATION:
            assert definition.changes.column is not None
            column = single(rows.column(definition.changes.column))
            _operations(events, column, definition.changes.delete_when)
        elif kind is ChangeKind.WEIGHT:
            assert definition.changes.column is not None
            _weights(events, single(rows.column(definition.changes.column)))
        elif kind is ChangeKind.FEED:
            _change_types(events, single(rows.column(CHANGE_TYPE)))
        elif kind is ChangeKind.DEBEZIUM_FLATTENED:
            _flattened(events, rows)
        if definition.key:
            events.sequence = _sequence(definition, rows)
    return _checked(definition, events)


def _image(definition: SourceDefinition, columns: Sequence[Any]) -> pa.Table:
    schema = arrow_schema(definition.schema)
    return pa.Table.from_arrays([single(c) for c in columns], schema=schema)


def _sequence(definition: SourceDefinition, rows: pa.Table) -> pa.Array | None:
    if definition.sequence is not None:
        return single(rows.column(definition.sequence.name))
    if definition.changes.kind is ChangeKind.FEED:
        return single(rows.column(COMMIT_VERSION))
    return None


def _operations(events: Events, column: pa.Array, delete_when: Sequence[str]) -> None:
    text = column.cast(pa.string())
    goes = values(pc.is_in(text, pa.array(delete_when, pa.string())))
    events.weight = np.where(goes, -1, 1)
    _refuse(events, ~_present(column), "the operation is NULL")


def _weights(events: Events, column: pa.Array) -> None:
    present = _present(column)
    events.weight = np.where(present, values(pc.fill_null(column.cast(pa.int64()), 0)), 0)
    events.without_effect += int((present & (events.weight == 0)).sum())
    _refuse(events, ~present, "the weight is NULL")
    far = (events.weight > _HEAVIEST) | (events.weight < -_HEAVIEST)
    _refuse(events, far, f"the weight is beyond {_HEAVIEST}")


def _change_types(events: Events, column: pa.Array) -> None:
    arrives = values(pc.fill_null(pc.is_in(column, pa.array(_ARRIVES)), False))
    leaves = values(pc.fill_null(pc.is_in(column, pa.array(_LEAVES)), False))
    events.weight = arrives.astype(np.int64) - leaves
    events.rank = arrives.astype(np.int64)
    for at in np.flatnonzero(~arrives & ~leaves):
        events.reasons[int(at)] = f"{CHANGE_TYPE} is {column[int(at)].as_py()!r}"


def _flattened(events: Events, rows: pa.Table) -> None:
    operation = single(rows.column(FLAT_OPERATION))
    deleted = single(rows.column(FLAT_DELETED)).cast(pa.string())
    goes = values(pc.fill_null(pc.equal(operation, _DELETE), False))
    goes = goes | values(pc.fill_null(pc.equal(pc.utf8_lower(deleted), "true"), False))
    events.weight = np.where(goes, -1, 1)
    known = values(pc.fill_null(pc.is_in(operation, pa.array([*_UPSERTS, _DELETE])), False))
    for at in np.flatnonzero(~known & _present(operation)):
        events.reasons[int(at)] = f"{FLAT_OPERATION} is {operation[int(at)].as_py()!r}"
    neither = ~_present(operation) & ~_present(deleted)
    _refuse(events, neither, f"neither {FLAT_OPERATION} nor {FLAT_DELETED} is given")


def _debezium(definition: SourceDefinition, rows: pa.Table) -> Events:
    """An envelope is up to two events: its image before leaves, its image after arrives.

    With a KEY, an image before is only looked at where its key is not that of the image after:
    it need not be there, or whole.
    """
    envelope = {name: _member(rows, name) for name in (BEFORE, AFTER, OPERATION, "ts_ms")}
    operation = envelope[OPERATION].fill_null("")
    is_ = {op: values(pc.equal(operation, op)) for op in ("", *_UPSERTS, _DELETE)}
    before, after = _present(envelope[BEFORE]), _present(envelope[AFTER])
    tombstone = is_[""] & ~before & ~after
    arrives = (is_["c"] | is_["r"] | is_["u"]) & after
    leaves = (is_["u"] | is_[_DELETE]) & before
    images = {
        side: _image(definition, [_field(envelope[side], f.name) for f in definition.schema])
        for side in (BEFORE, AFTER)
    }
    if definition.key:
        leaves &= is_[_DELETE] | ~_same_key(definition, images)
    gone, come = np.flatnonzero(leaves), np.flatnonzero(arrives)
    number = np.concatenate([gone, come])
    order = np.lexsort((np.repeat([0, 1], [len(gone), len(come)]), number))
    weight = np.repeat([-1, 1], [len(gone), len(come)])
    both = pa.concat_tables([images[BEFORE].take(gone), images[AFTER].take(come)])
    events = Events(both.combine_chunks().take(order), weight[order], number[order])
    if definition.sequence is not None:
        events.sequence = _debezium_sequence(definition, rows, envelope, events)
        events.rank = (events.weight > 0).astype(np.int64)
    events.without_effect = int(tombstone.sum())
    known = sum(is_[op] for op in (*_UPSERTS, _DELETE)) > 0
    for at in np.flatnonzero(~known & ~tombstone):
        events.reasons[int(at)] = f"op is {envelope[OPERATION][int(at)].as_py()!r}"
    _refuse(events, known & ~is_[_DELETE] & ~after, "the image after is missing")
    hint = "" if definition.key else "; with a KEY an update needs none"
    needs_before = is_[_DELETE] if definition.key else is_["u"] | is_[_DELETE]
    _refuse(events, needs_before & ~before, f"the image before is missing{hint}")
    return events


def _debezium_sequence(
    definition: SourceDefinition, rows: pa.Table, envelope: dict[str, pa.Array], events: Events
) -> pa.Array:
    assert definition.sequence is not None
    name = definition.sequence.name
    if name in envelope:
        return envelope[name].take(events.number)
    if name in rows.column_names:
        return single(rows.column(name)).take(events.number)
    return single(events.rows.column(name))


def _member(rows: pa.Table, name: str) -> pa.Array:
    """A member of the envelope, which may be wrapped as the payload beside its schema."""
    own = single(rows.column(name)) if name in rows.column_names else None
    if PAYLOAD in rows.column_names:
        inner = _field(single(rows.column(PAYLOAD)), name)
        return inner if own is None else pc.coalesce(own, inner)
    assert own is not None
    return own


def _field(struct: pa.Array, name: str) -> pa.Array:
    """A field of structs, NULL where the struct is."""
    return pc.struct_field(struct, name)


def _same_key(definition: SourceDefinition, images: dict[str, pa.Table]) -> Bools:
    same = np.ones(images[BEFORE].num_rows, dtype=np.bool_)
    for name in definition.key:
        old, new = (single(images[side].column(name)) for side in (BEFORE, AFTER))
        same &= values(pc.fill_null(pc.equal(old, new), False)) | ~_present(old)
    return same


def _present(column: pa.Array) -> Bools:
    valid = validity(column)
    return np.ones(len(column), dtype=np.bool_) if valid is None else valid


def _refuse(events: Events, where: Bools, reason: str) -> None:
    for at in np.flatnonzero(where):
        events.reasons.setdefault(int(at), reason)


def _checked(definition: SourceDefinition, events: Events) -> Events:
    """The events that fit the relation; of the others it is known why they do not."""
    for name in events.rows.column_names:
        column = single(events.rows.column(name))
        if not column.null_count:
            continue
        absent = ~_present(column)
        if name in definition.key:
            what = f"key column {name} is NULL"
        elif name in definition.not_null:
            what, absent = f"column {name} is NOT NULL", absent & (events.weight > 0)
        else:
            continue
        for at in events.number[absent]:
            events.reasons.setdefault(int(at), what)
    if events.sequence is not None and events.sequence.null_count:
        for at in events.number[~_present(events.sequence)]:
            events.reasons.setdefault(int(at), "the sequence is NULL")
    bad = np.isin(events.number, list(events.reasons))
    dropped = bad | (events.weight == 0)
    return events.kept(~dropped) if dropped.any() else events


def row_text(rows: pa.Table, at: int) -> str:
    """A row as JSON, for a person to find it again."""
    row = {k: v for k, v in rows.slice(at, 1).to_pylist()[0].items() if v is not None}
    return json.dumps(row, default=str, ensure_ascii=False)
