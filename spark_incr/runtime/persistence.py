"""Arrangements in the store: which runs are written, and how they come back.

A run is written once. Its entry in the manifest names the segments of its rows and of the rows
that it replaces; both are carried from version to version until the run is merged away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_incr.runtime.arrangement import Arrangement, Layout
from spark_incr.runtime.columns import Hashes
from spark_incr.runtime.run import Kills, Run
from spark_incr.runtime.store import Segment, Store, Transaction
from spark_incr.runtime.stored_run import loaded_kills, loaded_rows, stored_kills, stored_rows

Entry = dict[str, Any]


class Entries:
    """The manifest entries of written runs. What a failed commit wrote is forgotten."""

    def __init__(self) -> None:
        self._written: dict[Run, Entry] = {}
        self._pending: dict[Run, Entry] = {}

    def save(self, arrangement: Arrangement, transaction: Transaction) -> list[Entry]:
        """The entries of all runs of an arrangement; those not written yet are written."""
        return [self._entry(run, transaction) for run in arrangement.runs]

    def _entry(self, run: Run, transaction: Transaction) -> Entry:
        known = self._written.get(run) or self._pending.get(run)
        if known is not None:
            return known
        entry: Entry = {"number": run.number, "rows": transaction.write(stored_rows(run)).to_json()}
        if run.kills:
            entry["kills"] = transaction.write(stored_kills(run.kills)).to_json()
        self._pending[run] = entry
        return entry

    def move(self, carried: Mapping[Segment, Segment]) -> None:
        """Let entries name the copies of segments that were carried on."""
        if not carried:
            return
        for run, entry in self._written.items():
            moved = {
                key: carried.get(Segment.from_json(value), Segment.from_json(value)).to_json()
                for key, value in entry.items()
                if key != "number"
            }
            if any(moved[key] != entry[key] for key in moved):
                self._pending[run] = {"number": run.number, **moved}
        for run in self._pending:
            self._written.pop(run, None)

    def committed(self, live: Sequence[Arrangement]) -> None:
        """The commit succeeded: remember the runs that are still in use."""
        entries = {**self._written, **self._pending}
        self._written = {run: entries[run] for a in live for run in a.runs if run in entries}
        self._pending = {}

    def failed(self) -> None:
        self._pending = {}

    def load(
        self, layout: Layout, version: int, entries: Sequence[Entry], store: Store
    ) -> Arrangement:
        """The arrangement that the entries describe."""
        arrangement = Arrangement.restore(
            layout, version, [read_run(layout, entry, store) for entry in entries]
        )
        self._written.update(zip(arrangement.runs, entries, strict=True))
        return arrangement


def read_run(layout: Layout, entry: Entry, store: Store) -> tuple[int, pa.Table, Hashes, Kills]:
    """A run's number, rows, hashes and kills."""
    rows, hashes = loaded_rows(store.read(Segment.from_json(entry["rows"])), layout)
    return int(entry["number"]), rows, hashes, read_kills(entry, store)


def read_kills(entry: Entry, store: Store) -> Kills:
    """The rows of older runs that a run takes out."""
    return loaded_kills(store.read(Segment.from_json(entry["kills"]))) if "kills" in entry else {}
