"""The places of whole numbers that lie close together: found without hash, sort or comparison.

Here, and wherever rows are looked up, numpy's `take` gathers: it is faster than an index in brackets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_incr.runtime.columns import Ints, values

# Numbers lie close together where at most so many are in the range of each.
_CLOSE = 4


@dataclass(frozen=True)
class Places:
    """The first row of each whole number from `least` on, and how many it has; none, where it is
    not there. One row is all where there are no `counts` but of 0 and 1."""

    least: int
    first: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    several: bool

    @staticmethod
    def of(column: pa.Array) -> Places | None:
        """Those of a column in which equal numbers are neighbours, and all lie close together."""
        if not pa.types.is_integer(column.type) or column.null_count or not len(column):
            return None
        numbers = _wide(values(column))
        least, greatest = int(numbers.min()), int(numbers.max())
        if greatest - least >= _CLOSE * len(numbers):
            return None
        first = np.zeros(greatest - least + 1, dtype=np.int32)
        counts = np.zeros(len(first), dtype=np.int32)
        differs = numbers[1:] != numbers[:-1]
        several = not differs.all()
        begins = np.arange(len(numbers))
        if several:
            begins = np.append(0, np.flatnonzero(differs) + 1)
        at = numbers[begins] - least if several else numbers - least
        first[at] = begins
        counts[at] = np.diff(begins, append=len(numbers)) if several else 1
        neighbours = np.count_nonzero(counts) == len(begins)
        return Places(least, first, counts, several) if neighbours else None

    def find(self, numbers: Ints) -> tuple[Ints, Ints]:
        """The rows that have one of the numbers: which one of them, and the row."""
        place = _wide(numbers) - self.least
        inside = (place >= 0) & (place < len(self.first))
        probes = None if inside.all() else np.flatnonzero(inside)
        if probes is not None:
            place = place.take(probes)
        counts, first = self.counts.take(place), self.first.take(place)
        if self.several:
            found, rows = spread(first, counts)
        else:
            found = np.flatnonzero(counts)
            rows = first.take(found).astype(np.int64)
        return found if probes is None else probes.take(found), rows


def _wide(numbers: Ints) -> Ints:
    """Numbers whose differences fit their type as far as places go: bytes may be 255 apart."""
    return numbers if numbers.itemsize >= 4 else numbers.astype(np.int64)


def spread(
    first: npt.NDArray[np.signedinteger], counts: npt.NDArray[np.signedinteger]
) -> tuple[Ints, Ints]:
    """Ranges, each by its first number and its length, as the number of the range and the numbers."""
    ranges = np.repeat(np.arange(len(first)), counts)
    begins = np.cumsum(counts, dtype=np.int64) - counts
    numbers = (first - begins).take(ranges)
    numbers += np.arange(len(ranges))
    return ranges, numbers
