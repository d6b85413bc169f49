"""A source: a relation that a stream changes, and what has to be remembered of the stream.

Law, without a KEY: the rows are the sum of all events. Law, with a KEY: the row of a key is the one of
its event with the greatest sequence (of equal ones, the last to arrive); it is no row if that event
is a delete. So events may be repeated or come in any order, because the sequence of every key
that was ever seen is kept, also of one that is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from spark_incr.plan.types import arrow_schema, arrow_type
from spark_incr.runtime.arrangement import Arrangement, Layout
from spark_incr.runtime.bag import add_to_bag, arrange, bag_layout, find_departing
from spark_incr.runtime.changes import (
    add,
    consolidate,
    empty,
    inserted,
    reweighted,
    rows_of,
    weights,
    with_weights,
)
from spark_incr.runtime.columns import arrays, single
from spark_incr.runtime.contents import Output
from spark_incr.runtime.keys import group_rows
from spark_incr.runtime.order import dense_ranks
from spark_incr.sources.definition import SourceDefinition
from spark_incr.sources.events import Events, row_text

SEQUENCE = "__incr_sequence"
FILES_SCHEMA = pa.schema([("path", pa.string()), ("size", pa.int64()), ("modified", pa.int64())])


@dataclass
class Applied:
    """What events did: the change, rows that were not there to delete, events that came late."""

    change: pa.Table
    missing: list[str] = field(default_factory=list)
    superseded: int = 0


class Source:
    """The rows of a source, the sequence of each key, and the files that were read."""

    def __init__(self, definition: SourceDefinition) -> None:
        self.definition = definition
        self.schema = arrow_schema(definition.schema)
        self.rows = Arrangement(bag_layout(self.schema, definition.key or tuple(self.schema.names)))
        self.files = Arrangement(Layout(FILES_SCHEMA, ("path",), ("path",)))
        self.sequences = self._sequence_arrangement()

    def _sequence_arrangement(self) -> Arrangement | None:
        definition = self.definition
        if not definition.key:
            return None
        kind = arrow_type(definition.sequence.type) if definition.sequence else pa.int64()
        fields = [self.schema.field(name) for name in definition.key]
        layout = pa.schema([*fields, pa.field(SEQUENCE, kind)])
        return Arrangement(Layout(layout, definition.key, definition.key))

    @property
    def arrangements(self) -> dict[str, Arrangement]:
        own = {"rows": self.rows, "files": self.files}
        return own if self.sequences is None else {**own, "sequences": self.sequences}

    @property
    def output(self) -> Output:
        return Output.of_bag(self.rows)

    # Events

    def apply(self, events: Events) -> Applied:
        """Change the rows by events that fit them."""
        if not events.rows.num_rows:
            return Applied(empty(self.schema))
        applied = self._upsert(events) if self.definition.key else self._sum(events)
        add_to_bag(self.rows, applied.change)
        return applied

    def _sum(self, events: Events) -> Applied:
        if (events.weight == 1).all():
            return Applied(inserted(events.rows))
        change = arrange(self.rows.layout, with_weights(events.rows, events.weight))
        weight = weights(change.rows).copy()
        leaving = np.flatnonzero(weight < 0)
        departure = find_departing(self.rows, change.where(weight < 0))
        short = np.flatnonzero(departure.left < 0)
        if not len(short):
            return Applied(change.rows)
        missing = [row_text(rows_of(departure.leaving.rows), int(at)) for at in short]
        weight[leaving[short]] -= departure.left[short]
        kept = np.flatnonzero(weight)
        return Applied(reweighted(change.rows, weight).take(kept), missing)

    def _upsert(self, events: Events) -> Applied:
        key = self.definition.key
        assert self.sequences is not None
        columns = arrays(events.rows, key)
        groups = group_rows(columns, events.rows.num_rows)
        keys = [c.take(groups.first) for c in columns]
        known = self.sequences.snapshot()
        located = known.find_lineage(keys, groups.count)
        ranks, seen = self._ranks(events, known.gather(located, [SEQUENCE])[0], groups.count)
        floor = np.full(groups.count, -1, dtype=np.int64)
        floor[located.probe] = seen
        of_row = groups.of_rows()
        tie = np.zeros(len(of_row)) if events.rank is None else events.rank
        order = np.lexsort((np.arange(len(of_row)), tie, ranks, of_row))
        last = order[np.flatnonzero(np.append(np.diff(of_row[order]) != 0, True))]
        wins = last[ranks[last] >= floor[of_row[last]]]
        change = self._replaced(events, wins, key)
        self._remember(events, wins, key)
        return Applied(change, superseded=len(of_row) - len(wins))

    def _ranks(self, events: Events, stored: pa.Array, count: int) -> tuple[Any, Any]:
        """The order of the events and of the stored sequences, as numbers."""
        if events.sequence is None:
            return np.zeros(events.rows.num_rows, np.int64), np.zeros(len(stored), np.int64)
        both = pa.concat_arrays([events.sequence.cast(stored.type), stored])
        ranks = dense_ranks(both)
        return ranks[: len(events.sequence)], ranks[len(events.sequence) :]

    def _replaced(self, events: Events, wins: Any, key: tuple[str, ...]) -> pa.Table:
        new = events.rows.take(wins).combine_chunks()
        snapshot = self.rows.snapshot()
        located = snapshot.find_lineage(arrays(new, key), new.num_rows)
        names = self.schema.names
        old = pa.Table.from_arrays(snapshot.gather(located, names), schema=self.schema)
        arriving = new.take(np.flatnonzero(events.weight[wins] > 0))
        minus = with_weights(old, np.full(old.num_rows, -1, dtype=np.int64))
        return consolidate(add([minus, inserted(arriving)]))

    def _remember(self, events: Events, wins: Any, key: tuple[str, ...]) -> None:
        assert self.sequences is not None
        if events.sequence is None:
            return
        layout = self.sequences.layout
        columns = [c.take(wins) for c in arrays(events.rows, key)]
        sequence = events.sequence.take(wins).cast(layout.schema.field(SEQUENCE).type)
        rows = pa.Table.from_arrays([*columns, sequence], schema=layout.schema)
        hashes = layout.hashes(rows)
        self.sequences.replace(self.sequences.snapshot().find(rows, hashes), rows, hashes)

    # The stream

    def remember_files(self, files: pa.Table) -> None:
        """Note files that were read; their names are new."""
        if files.num_rows:
            hashes = self.files.layout.hashes(files)
            nowhere = self.files.snapshot().find(files, hashes)
            self.files.replace(nowhere, files, hashes)

    def known_files(self) -> dict[str, int]:
        """The files that were read, with their sizes."""
        rows = self.files.snapshot().rows()
        sizes = single(rows.column("size")).to_pylist()
        return dict(zip(single(rows.column("path")).to_pylist(), sizes, strict=True))

    def grown(self, definition: SourceDefinition, version: int) -> Source:
        """The source with more columns; the rows that are there have NULL in them."""
        result = Source(definition)
        result.files, result.sequences = self.files, self.sequences
        old = self.rows.snapshot().rows().combine_chunks()
        columns = [
            single(old.column(f.name)) if f.name in old.column_names else pa.nulls(len(old), f.type)
            for f in result.schema
        ]
        rows = pa.Table.from_arrays(columns, schema=result.schema)
        result.rows.begin(version)
        add_to_bag(result.rows, with_weights(rows, weights(old)))
        return result
