"""The change of a relation between two stored versions, out of the runs in which they differ.

Law: rows(after) - rows(before) = the live rows of runs that only `after` has, less the live rows of runs
that only `before` has, less the rows of common runs that `after` kills and `before` does not. A common
run is read only where such rows are, so the cost follows the runs that were written and merged away in
between, and nothing has to be written for it when a version is committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_incr.runtime.changes import WEIGHT, add, consolidate, inserted, negate
from spark_incr.runtime.columns import Ints
from spark_incr.runtime.contents import Output
from spark_incr.runtime.persistence import Entry, read_kills, read_run
from spark_incr.runtime.store import Store

_Identity = tuple[int, int, int]


def stored_difference(
    output: Output, store: Store, before: Sequence[Entry], after: Sequence[Entry]
) -> pa.Table:
    """The consolidated change from the runs of one version to those of a later one."""
    old, new = _Runs(store, before), _Runs(store, after)
    parts = [output.answer(output.arrangement.layout.schema.empty_table().select(output.columns))]
    batches = [_weighted(parts[0])]
    for identity in old.entries.keys() | new.entries.keys():
        number = identity[0]
        if identity not in new.entries:
            rows = old.rows(identity, output, alive_but=old.dead(number))
            batches.append(negate(rows))
        elif identity not in old.entries:
            batches.append(new.rows(identity, output, alive_but=new.dead(number)))
        else:
            died = np.setdiff1d(new.dead(number), old.dead(number))
            if len(died):
                batches.append(negate(new.rows(identity, output, only=died)))
    return consolidate(add(batches))


class _Runs:
    """The runs of an arrangement in one manifest, and which rows of which run they take out."""

    def __init__(self, store: Store, entries: Sequence[Entry]) -> None:
        self._store = store
        self.entries: Mapping[_Identity, Entry] = {_identity(entry): entry for entry in entries}
        self._dead: dict[int, list[Ints]] = {}
        for entry in entries:
            for number, rows in read_kills(entry, store).items():
                self._dead.setdefault(number, []).append(rows)

    def dead(self, number: int) -> Ints:
        parts = self._dead.get(number, [])
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64)

    def rows(
        self,
        identity: _Identity,
        output: Output,
        only: Ints | None = None,
        alive_but: Ints | None = None,
    ) -> pa.Table:
        """Rows of a run as the relation shows them, each with its weight."""
        layout = output.arrangement.layout
        _, stored, _, _ = read_run(layout, self.entries[identity], self._store)
        table = stored.select(output.columns)
        if only is None:
            only = np.arange(table.num_rows)
            if alive_but is not None:
                only = np.setdiff1d(only, alive_but, assume_unique=True)
        if len(only) < table.num_rows:
            table = table.take(only)
        return _weighted(output.answer(table.combine_chunks()))


def _weighted(rows: pa.Table) -> pa.Table:
    return rows if WEIGHT in rows.column_names else inserted(rows)


def _identity(entry: Entry) -> _Identity:
    """A run keeps its number, its length and its checksum when its bytes are carried on."""
    segment: list[Any] = entry["rows"]["$segment"]
    return int(entry["number"]), int(segment[2]), int(segment[3])
