"""Arrangement: the state of a stage, indexed by its lineage.

An arrangement maps an *identity* (the lineage, possibly extended by more columns) to the other
columns of a row; at any version an identity has one live row, in a bag possibly several whose weights
add up. It is a spine of immutable runs, each an Arrow table sorted by a 64-bit hash of the identity. A change replaces rows: the old
ones are stamped with the version in which they died, the new ones become one more small run, so a
batch costs O(Δ) to write and O(Δ log n) to look up. Runs merge geometrically, newest first, drop what
is dead and add up the weights of what is equal; a merge reads and writes O(Δ log n) rows amortised.

Readers hold a `Snapshot`: runs never change, and a row that died after the reader's version is
still live for it.

Where the identity extends the lineage, the hash is made of 40 bits of the lineage and 24 bits of
the rest: a range of hashes is a lineage, one hash is a row of it. Both look-ups are binary searches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_incr.runtime.changes import WEIGHT, reweighted, weights
from spark_incr.runtime.columns import (
    Bools,
    Hashes,
    Ints,
    arrays,
    from_values,
    is_fixed,
    rows_taken,
    single,
    taken,
    taken_of_each,
    validity,
    values,
)
from spark_incr.runtime.keys import equal_columns, hash_columns, merged_order, sorted_order
from spark_incr.runtime.run import REST_BITS, Kills, Run
from spark_incr.runtime.steps import step

_REST_MASK = (np.uint64(1) << REST_BITS) - np.uint64(1)
# Runs whose sizes are within a factor of _FANOUT are of one level; so many of a level are merged
# into one of the next. Runs of the lowest level are cheap to merge and are merged at once.
_FANOUT = 4
_LOWEST = 1024
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Layout:
    """The columns of an arrangement: the lineage, what completes the identity, and the rest."""

    schema: pa.Schema
    lineage: tuple[str, ...]
    identity: tuple[str, ...]

    @property
    def is_bag(self) -> bool:
        """Whether a row is its identity and a weight."""
        return WEIGHT in self.schema.names and len(self.schema) == len(self.identity) + 1

    @property
    def extended(self) -> bool:
        return len(self.identity) > len(self.lineage)

    def hashes(self, rows: pa.Table) -> Hashes:
        """The sort key of each row."""
        lineage = hash_columns(arrays(rows, self.lineage), rows.num_rows)
        if not self.extended:
            return lineage
        rest = hash_columns(arrays(rows, self.identity[len(self.lineage) :]), rows.num_rows)
        return (lineage & ~_REST_MASK) | (rest >> (np.uint64(64) - REST_BITS))


@dataclass(frozen=True)
class Located:
    """Matches of probes in a spine, run by run: probe number, row, and how many each run has."""

    probe: Ints
    row: Ints
    counts: Sequence[int]

    def by_run(self, runs: Sequence[Run]) -> Iterator[tuple[Run, Ints]]:
        """The runs that have matches, and the rows of each."""
        high = 0
        for run, count in zip(runs, self.counts, strict=True):
            low, high = high, high + count
            if count:
                yield run, self.row[low:high]

    def where(self, chosen: Bools) -> Located:
        """The matches that are chosen."""
        ends = np.cumsum([0, *self.counts])
        kept = np.append(0, np.cumsum(chosen))[ends]
        return Located(self.probe[chosen], self.row[chosen], np.diff(kept).tolist())


def _located(found: Sequence[tuple[Ints, Ints]]) -> Located:
    """What was found in each run of a spine."""
    counts = [len(rows) for _, rows in found]
    parts = [part for part, count in zip(found, counts, strict=True) if count]
    if len(parts) == 1:
        return Located(*parts[0], counts)
    probes, rows = zip(*parts, strict=True) if parts else ((_NONE,), (_NONE,))
    return Located(np.concatenate(probes), np.concatenate(rows), counts)


@dataclass(frozen=True)
class Snapshot:
    """An arrangement as of one version."""

    layout: Layout
    runs: tuple[Run, ...]
    version: int

    def rows(self) -> pa.Table:
        """All live rows."""
        live = [run.only_live(run.rows, self.version) for run in self.runs]
        return pa.concat_tables(live) if live else self.layout.schema.empty_table()

    def count(self) -> int:
        total = 0
        for run in self.runs:
            mask = run.alive(self.version)
            total += len(run.hashes) if mask is None else int(mask.sum())
        return total

    def nbytes(self) -> int:
        return sum(run.rows.nbytes + run.hashes.nbytes for run in self.runs)

    def _alive(self, run: Run, found: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
        """Of rows that were found, those that are there."""
        probes, rows = found
        if run.died is not None and len(rows):
            keep = np.flatnonzero(run.died.take(rows) > self.version)
            if len(keep) < len(rows):
                probes, rows = probes.take(keep), rows.take(keep)
        return probes, rows

    def _locate(
        self, names: Sequence[str], keys: Sequence[pa.Array], low: Hashes, high: Hashes | None
    ) -> Located:
        # Binary searches for ascending probes stay in the cache.
        ascending = (low[1:] >= low[:-1]).all()
        order = None if ascending else sorted_order(low, self.layout.extended)
        if order is not None:
            low, high = low[order], None if high is None else high[order]
        located = _located(
            [
                self._alive(run, run.with_hashes(low) if high is None else run.within(low, high))
                for run in self.runs
            ]
        )
        if not len(located.probe):
            return located
        if order is not None:
            located = Located(order.take(located.probe), located.row, located.counts)
        stored, asked = self.gather(located, names), [taken(key, located.probe) for key in keys]
        same = equal_columns(stored, asked, len(located.probe))
        return located if same.all() else located.where(same)

    def _locate_numbers(self, names: Sequence[str], keys: Sequence[pa.Array]) -> Located | None:
        """What `_locate` says, if the key is one number and each run knows their places."""
        if len(names) != 1 or not pa.types.is_integer(keys[0].type) or keys[0].null_count:
            return None
        places = [run.places(names[0]) for run in self.runs]
        numbers = values(keys[0]).astype(np.int64)
        found = []
        for run, known in zip(self.runs, places, strict=True):
            if known is None:
                return None
            found.append(self._alive(run, known.find(numbers)))
        return _located(found)

    def find(self, keys: pa.Table, hashes: Hashes) -> Located:
        """The live row of each identity, if there is one."""
        names = self.layout.identity
        columns = arrays(keys, names)
        located = self._locate_numbers(names, columns)
        return self._locate(names, columns, hashes, None) if located is None else located

    def find_lineage(self, keys: Sequence[pa.Array], length: int) -> Located:
        """All live rows of each lineage."""
        located = self._locate_numbers(self.layout.lineage, keys)
        if located is not None:
            return located
        low = hash_columns(keys, length)
        high = None
        if self.layout.extended:
            low = low & ~_REST_MASK
            high = low | _REST_MASK
        return self._locate(self.layout.lineage, keys, low, high)

    def gather(self, located: Located, names: Sequence[str]) -> list[pa.Array]:
        """The named columns of located rows, in the order of `located`."""
        parts = [(run.rows, at) for run, at in located.by_run(self.runs)]
        if not parts:
            return [pa.array([], self.layout.schema.field(name).type) for name in names]
        if len(parts) == 1:
            ((rows, at),) = parts
            return [taken(column, at) for column in arrays(rows, names)]
        return [
            taken_of_each([(single(rows.column(name)), at) for rows, at in parts]) for name in names
        ]

    def aligned(self, located: Located, names: Sequence[str], length: int) -> list[pa.Array]:
        """The named columns of located rows, one per probe; NULL where a probe found nothing."""
        gathered = self.gather(located, names)
        if len(located.probe) == length and (length < 2 or (np.diff(located.probe) > 0).all()):
            return gathered
        return [scatter(column, located.probe, length) for column in gathered]


def _level(run: Run) -> int:
    killed = sum(len(rows) for rows in run.kills.values())
    weight, level = (run.live + killed) // _LOWEST, 0
    while weight:
        weight, level = weight // _FANOUT, level + 1
    return level


def _first_to_merge(runs: Sequence[Run]) -> int:
    """The first of the youngest runs that are to become one; the last, if none are.

    They reach back to the eldest run that is mostly dead, or are a full level.
    """
    last = len(runs) - 1
    for number, run in enumerate(runs[:last]):
        if run.dead * 2 > len(run.hashes):
            return number
    level, first = _level(runs[last]), last
    while first > 0 and _level(runs[first - 1]) <= level:
        first -= 1
    return first if last - first + 1 >= (_FANOUT if level else 2) else last


def scatter(column: pa.Array, positions: Ints, length: int) -> pa.Array:
    """A column of the given length with the values at the positions and NULL elsewhere."""
    if is_fixed(column.type):
        data = values(column)
        result: npt.NDArray[Any] = np.zeros(length, dtype=data.dtype)
        valid = np.zeros(length, dtype=np.bool_)
        result[positions] = data
        present = validity(column)
        valid[positions] = True if present is None else present
        return from_values(result, valid, column.type)
    index = np.zeros(length, dtype=np.int64)
    found = np.zeros(length, dtype=np.bool_)
    index[positions] = np.arange(len(positions))
    found[positions] = True
    return column.take(from_values(index, found, pa.int64()))


@dataclass
class Arrangement:
    """The writable spine. One batch is applied between `begin` and `publish` or `rollback`."""

    layout: Layout
    version: int = 0
    runs: tuple[Run, ...] = ()
    _next_number: int = 0
    _published: tuple[Run, ...] = ()
    _killed: list[tuple[Run, Ints]] = field(default_factory=list)

    def begin(self, version: int) -> None:
        """Start a version; look-ups see its changes as they are made."""
        self.version = version
        self._published = self.runs
        self._killed = []

    def rollback(self, version: int) -> None:
        """Undo everything since `begin`."""
        for run, positions in self._killed:
            run.revive(positions)
        self._killed = []
        self.runs = self._published
        self.version = version

    def become(self, other: Arrangement) -> None:
        """Take over the state of another arrangement of the same layout."""
        assert self.layout == other.layout
        self.version, self.runs, self._published = other.version, other.runs, other.runs
        self._next_number = other._next_number

    def snapshot(self) -> Snapshot:
        return Snapshot(self.layout, self.runs, self.version)

    def replace(self, dead: Located | None, rows: pa.Table, hashes: Hashes) -> None:
        """Take located rows out, if there are any, and put rows in; their identities must not be live."""
        kills: dict[int, Ints] = {}
        for run, at in dead.by_run(self.runs) if dead is not None else ():
            run.kill(at, self.version)
            self._killed.append((run, at))
            kills[run.number] = at
        if not kills and not rows.num_rows:
            return
        if not (hashes[1:] >= hashes[:-1]).all():
            order = sorted_order(hashes, self.layout.extended)
            rows, hashes = rows_taken(rows, order), hashes[order]
        self._push(Run(self._take_number(), rows.combine_chunks(), hashes, kills))

    def _take_number(self) -> int:
        self._next_number += 1
        return self._next_number

    def _push(self, run: Run) -> None:
        runs = [*self.runs, run]
        while (first := _first_to_merge(runs)) < len(runs) - 1:
            runs[first:] = [self._merged(runs[first:])]
        self.runs = tuple(runs)

    def _merged(self, runs: Sequence[Run]) -> Run:
        """One run in place of several neighbours: live rows only, and kills of elder runs only.

        Equal rows of a bag become one.
        """
        live = [run.live_rows(self.version) for run in runs]
        sorted_hashes = [
            run.hashes if rows is None else run.hashes[rows]
            for run, rows in zip(runs, live, strict=True)
        ]
        order = merged_order(sorted_hashes)
        hashes = np.concatenate(sorted_hashes)[order]
        rows = _taken(list(zip((run.rows for run in runs), live, strict=True)), order)
        if self.layout.is_bag:
            rows, hashes = _added_up(self.layout, rows, hashes)
        killed: dict[int, list[Ints]] = {}
        for run in runs:
            for number, at in run.kills.items():
                if number < runs[0].number:
                    killed.setdefault(number, []).append(at)
        kills = {number: np.concatenate(parts) for number, parts in killed.items()}
        return Run(self._take_number(), rows, hashes, kills)

    @staticmethod
    def restore(
        layout: Layout, version: int, stored: Sequence[tuple[int, pa.Table, Hashes, Kills]]
    ) -> Arrangement:
        """An arrangement from its runs: number, rows, hashes, kills."""
        result = Arrangement(layout, version)
        runs: list[Run] = []
        for number, rows, hashes, kills in stored:
            for elder in runs:
                if elder.number in kills:
                    elder.kill(kills[elder.number], version)
            runs.append(Run(number, rows, hashes, kills))
        result.runs = result._published = tuple(runs)
        result._next_number = max((r.number for r in runs), default=0)
        return result


def _added_up(layout: Layout, rows: pa.Table, hashes: Hashes) -> tuple[pa.Table, Hashes]:
    """Rows of a bag in the order of their hashes, of which equal neighbours become one.

    Where others of the same hash stand between two equal rows, both stay, whose weights add up too.
    """
    again = 1 + np.flatnonzero(hashes[1:] == hashes[:-1])
    if not len(again):
        return rows, hashes
    columns = arrays(rows, layout.identity)
    here, before = ([taken(c, at) for c in columns] for at in (again, again - 1))
    same = equal_columns(here, before, len(again))
    if not same.any():
        return rows, hashes
    first = np.delete(np.arange(len(hashes)), again[same])
    total = np.add.reduceat(weights(rows), first)
    return reweighted(rows_taken(rows, first), total), hashes[first]


def _taken(parts: Sequence[tuple[pa.Table, Ints | None]], order: Ints) -> pa.Table:
    """Some rows of each table, or all, in an order; column by column: the long part of a merge."""
    columns = []
    schema = parts[0][0].schema
    with step("merging", len(order), "rows") as tell:
        for number, name in enumerate(schema.names):
            tell(len(order) * number // len(schema.names))
            whole = taken_of_each([(single(table.column(name)), rows) for table, rows in parts])
            columns.append(taken(whole, order))
    return pa.table(columns, schema=schema)
