"""What arrives from streams, taken into the sources inside a version.

Law: the rows of a micro-batch and the note that it was read become part of the same version, or
neither does. A micro-batch with a row that does not fit is not applied at all, unless its source
sets such rows aside. A source whose batch is not applied does not keep others from moving on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from spark_incr.errors import IncrementalError, error
from spark_incr.history import SourceRead
from spark_incr.plan.types import arrow_schema
from spark_incr.relation import Relation
from spark_incr.runtime.changes import add
from spark_incr.runtime.tables import Table
from spark_incr.sources.definition import rejected_name
from spark_incr.sources.events import Fault, decode, row_text
from spark_incr.sources.files import MicroBatch
from spark_incr.sources.source import Source
from spark_incr.versions import Versions

_MISSING = "the row to delete is not there"
_SHOWN = 300


@dataclass
class Intake:
    """The changes of sources in one version, what was read of each, and which were refused."""

    changes: dict[str, pa.Table] = field(default_factory=dict)
    reads: dict[str, SourceRead] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)

    def change(self, name: str, change: pa.Table) -> None:
        known = self.changes.get(name)
        self.changes[name] = change if known is None else add([known, change])

    def read(self, name: str, read: SourceRead) -> None:
        known = self.reads.get(name)
        self.reads[name] = read if known is None else known.then(read)


def take_in(versions: Versions, batches: Mapping[str, MicroBatch], version: int) -> Intake:
    """Apply micro-batches to their sources."""
    intake = Intake()
    for name, batch in batches.items():
        relation = versions.find(name)
        if relation is None or not isinstance(relation.state, Source):
            raise error("INCR_RELATION_NOT_FOUND", kind="source", name=name)
        try:
            _take(versions, relation, relation.state, batch, version, intake)
        except IncrementalError as failure:
            for arrangement in relation.arrangements.values():
                arrangement.rollback(version - 1)
                arrangement.begin(version)
            intake.failures[relation.name] = failure
    return intake


def take_all(
    versions: Versions,
    relation: Relation,
    source: Source,
    batches: Iterable[MicroBatch],
    version: int,
) -> Intake:
    """Apply all micro-batches of one source; the first that is refused is raised."""
    intake = Intake()
    for batch in batches:
        _take(versions, relation, source, batch, version, intake)
    return intake


def _take(
    versions: Versions,
    relation: Relation,
    source: Source,
    batch: MicroBatch,
    version: int,
    intake: Intake,
) -> None:
    definition = source.definition
    if relation.damaged:
        raise relation.damage()
    if not _continues(relation.offsets, batch.offsets or {}):
        raise error("INCR_SOURCE_OFFSETS", source=relation.name)
    events = decode(definition, batch.rows, batch.deletes)
    applied = source.apply(events)
    faults = [
        *batch.faults,
        *(
            Fault(row_text(batch.rows, at), reason, batch.origin(at))
            for at, reason in sorted(events.reasons.items())
        ),
        *(Fault(row, _MISSING) for row in applied.missing),
    ]
    rejected = versions.find(rejected_name(relation.name)) if definition.quarantines else None
    if faults and (rejected is None or not isinstance(rejected.state, Table)):
        raise _refused(relation.name, faults)
    if faults and rejected is not None and isinstance(rejected.state, Table):
        rows = _rejected(rejected.state, faults, version)
        intake.change(rejected.name, rejected.state.apply(rows, None))
    if applied.change.num_rows:
        intake.change(relation.name, applied.change)
    start = dict(relation.offsets)
    source.remember_files(batch.files)
    relation.offsets = {
        **relation.offsets,
        **(batch.offsets or {}),
        "rows": int(relation.offsets.get("rows", 0)) + batch.rows.num_rows,
        "rejected": int(relation.offsets.get("rejected", 0)) + len(faults),
    }
    if batch.files.num_rows:
        files = int(start.get("files", 0)) + batch.files.num_rows
        relation.offsets = {**relation.offsets, "files": files}
    superseded = applied.superseded + events.without_effect
    rows_read = batch.rows.num_rows + len(batch.faults)
    intake.read(
        relation.name, SourceRead(rows_read, len(faults), superseded, start, relation.offsets)
    )


def _continues(committed: Mapping[str, object], arriving: Mapping[str, object]) -> bool:
    """Whether a micro-batch comes by the checkpoint that the rows came by, if that is known."""
    known = committed.get("checkpoint")
    return known is None or arriving.get("checkpoint", known) == known


def _refused(source: str, faults: list[Fault]) -> IncrementalError:
    first = faults[0]
    shown = first.row if len(first.row) <= _SHOWN else first.row[:_SHOWN] + "..."
    place = f" of {first.origin}" if first.origin else ""
    more = f" There are {len(faults) - 1} more." if len(faults) > 1 else ""
    return error(
        "INCR_SOURCE_ROW",
        source=source,
        reason=first.reason,
        detail=f"The row{place}: {shown}.{more} Nothing of the batch was applied.",
    )


def _rejected(table: Table, faults: list[Fault], version: int) -> pa.Table:
    schema = arrow_schema(table.definition.schema)
    now = time.time_ns() // 1000
    columns = [
        [fault.row for fault in faults],
        [fault.reason for fault in faults],
        [fault.origin or None for fault in faults],
        [version] * len(faults),
        pa.array([now] * len(faults), pa.int64()).cast(schema.field("rejected_at").type),
    ]
    return pa.table(columns, schema=schema)
