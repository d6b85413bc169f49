"""A run: rows sorted by a 64-bit hash, which never change, and when each of them died.

Hashes are spread evenly. So the row of a hash is found by the bucket of its first bits, and where these
buckets hold many rows for each that is wanted, by a binary search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_incr.runtime.columns import Bools, Hashes, Ints, from_values, single
from spark_incr.runtime.places import Places, spread

Kills = Mapping[int, Ints]
"""Rows that are taken out, by the number of their run."""
# The bits of a hash that tell the rows of one lineage apart.
REST_BITS = np.uint64(24)
_FOREVER = np.iinfo(np.int64).max
# Where buckets hold more rows than this for each that is wanted, a binary search is faster.
_CROWDED = 2


@dataclass(eq=False)
class Run:
    """Rows sorted by hash, and the rows of older runs that they replace.

    `died` is the version from which each row is no longer there; it only ever gains stamps.
    """

    number: int
    rows: pa.Table
    hashes: Hashes
    kills: Kills
    dead: int = 0
    died: Ints | None = None
    read: tuple[object, pa.Table] | None = None
    """What a reader has made of the rows, and which one: they never change."""
    _places: dict[str, Places | None] = field(default_factory=dict)

    @property
    def live(self) -> int:
        return len(self.hashes) - self.dead

    def alive(self, version: int) -> Bools | None:
        """True where a row is there at the version; None where all are."""
        return None if self.died is None else self.died > version

    def kill(self, positions: Ints, version: int) -> None:
        if self.died is None:
            self.died = np.full(len(self.hashes), _FOREVER, dtype=np.int64)
        self.died[positions] = version
        self.dead += len(positions)

    def revive(self, positions: Ints) -> None:
        assert self.died is not None
        self.died[positions] = _FOREVER
        self.dead -= len(positions)

    def places(self, name: str) -> Places | None:
        """Where the values of a column are, if they are numbers that lie close together."""
        if name not in self._places:
            self._places[name] = Places.of(single(self.rows.column(name)))
        return self._places[name]

    @cached_property
    def _buckets(self) -> tuple[np.uint64, npt.NDArray[np.int32]]:
        """By how many bits a hash is shifted to its bucket, and the row where each bucket begins.

        Hashes are spread evenly, so that a bucket holds a row or none.
        """
        bits = len(self.hashes).bit_length() + 1
        shift = np.uint64(64 - bits)
        begins = np.zeros((1 << bits) + 1, dtype=np.int32)
        np.cumsum(
            np.bincount((self.hashes >> shift).view(np.int64), minlength=1 << bits), out=begins[1:]
        )
        return shift, begins

    def with_hashes(self, wanted: Hashes) -> tuple[Ints, Ints]:
        """The rows that have a wanted hash: which one of them, and the row."""
        shift, begins = self._buckets
        bucket = (wanted >> shift).view(np.int64)
        first = begins.take(bucket)
        counts = begins.take(bucket + 1) - first
        if counts.sum() > _CROWDED * len(wanted):
            return self._searched(wanted)
        probes, rows = spread(first, counts)
        same = np.flatnonzero(self.hashes.take(rows) == wanted.take(probes))
        return probes.take(same), rows.take(same)

    def within(self, low: Hashes, high: Hashes) -> tuple[Ints, Ints]:
        """The rows whose hash is in a range from `low` to `high`: which range, and the row.

        A range is a lineage, whose rows are in one bucket, mostly alone. So it is known by the ends
        of the bucket whether all of it is in the range, and few ranges have to be searched.
        """
        shift, begins = self._buckets
        assert shift >= REST_BITS, "a run is too long"
        bucket = (low >> shift).view(np.int64)
        first, end = begins.take(bucket), begins.take(bucket + 1)
        there = np.flatnonzero(end > first)
        first, end = first.take(there), end.take(there)
        below = self.hashes.take(first) < low.take(there)
        apart = below | (self.hashes.take(end - 1) > high.take(there))
        mixed = np.flatnonzero(apart)
        if len(mixed):
            first[mixed] = np.searchsorted(self.hashes, low[there[mixed]], "left")
            end[mixed] = np.searchsorted(self.hashes, high[there[mixed]], "right")
        ranges, rows = spread(first, end - first)
        return there.take(ranges), rows

    def _searched(self, wanted: Hashes) -> tuple[Ints, Ints]:
        """What `with_hashes` says, by a binary search; few rows have the hash of the one before."""
        first = np.searchsorted(self.hashes, wanted, "left")
        there = np.flatnonzero(self.hashes.take(first, mode="clip") == wanted)
        first, wanted = first[there], wanted[there]
        end = first + 1
        again = np.flatnonzero(self.hashes.take(end, mode="clip") == wanted)
        if not len(again):
            return there, first
        end[again] = np.searchsorted(self.hashes, wanted[again], "right")
        ranges, rows = spread(first, end - first)
        return there[ranges], rows

    def only_live(self, rows: pa.Table, version: int) -> pa.Table:
        """Of a table that has a row for each of the run, those that are there at the version."""
        mask = self.alive(version)
        return rows if mask is None else rows.filter(from_values(mask, None, pa.bool_()))

    def live_rows(self, version: int) -> Ints | None:
        """The rows that are there at the version; None, where all are."""
        mask = self.alive(version)
        return None if mask is None else np.flatnonzero(mask)
