"""Window functions over whole partitions, in numpy.

Rows, at least one, come sorted by partition, then by the sort keys, then by all their columns. `Frames` knows where
each row's partition and its peers begin and end; a function is arithmetic on those places. Where the
sort keys tie, Spark's choice depends on the order of rows, and the choice here on the rows alone.
A kernel gives the partitions of which it cannot be sure to give what Spark gives, since a sum may
overflow, instead of values. Whether it is sure of one depends on the rows of that partition alone: what it
gave of them before, it gives again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyspark.sql.types as T

from spark_incr.plan.window_functions import PARTITION, RANGE, WindowCall
from spark_incr.runtime.answers import MEANS_BELOW, narrow_decimals, rounded_means
from spark_incr.runtime.columns import Bools, Ints, from_values, single, validity, values
from spark_incr.runtime.expressions.decimals import unscaled
from spark_incr.runtime.order import NULL_RANK, dense_ranks

_SAFE = float(2**62)


@dataclass(frozen=True)
class Frames:
    """For each row: its partition's number, first and last row, and its first and last peer."""

    partition: Ints
    first: Ints
    last: Ints
    first_peer: Ints
    last_peer: Ints

    @staticmethod
    def of(partition: Ints, keys: list[Ints]) -> Frames:
        count = len(partition)
        starts = np.ones(count, dtype=np.bool_)
        starts[1:] = partition[1:] != partition[:-1]
        peers = starts.copy()
        for key in keys:
            peers[1:] |= key[1:] != key[:-1]
        first, last = _bounds(starts)
        first_peer, last_peer = _bounds(peers)
        return Frames(np.cumsum(starts) - 1, first, last, first_peer, last_peer)

    def end(self, frame: str) -> Ints:
        """The last row of each row's frame."""
        if frame == PARTITION:
            return self.last
        return self.last_peer if frame == RANGE else np.arange(len(self.first))

    @property
    def place(self) -> Ints:
        return np.arange(len(self.first)) - self.first

    @property
    def size(self) -> Ints:
        return self.last - self.first + 1


def _bounds(starts: Bools) -> tuple[Ints, Ints]:
    at = np.flatnonzero(starts)
    lengths = np.diff(np.append(at, len(starts)))
    return np.repeat(at, lengths), np.repeat(at + lengths - 1, lengths)


@dataclass(frozen=True)
class Unsure:
    """The rows whose partitions are not for a kernel."""

    rows: Bools

    @staticmethod
    def where(doubtful: Bools, f: Frames) -> Unsure:
        """The rows of partitions that have a doubtful one."""
        found = np.zeros(int(f.partition[-1]) + 1, dtype=np.bool_)
        found[f.partition[doubtful]] = True
        return Unsure(found[f.partition])


Kernel = Callable[[WindowCall, pa.Table, Frames, pa.DataType], "pa.Array | Unsure"]


def evaluate(
    call: WindowCall, rows: pa.Table, frames: Frames, type_: pa.DataType
) -> pa.Array | Unsure:
    """The values of a window function for sorted rows."""
    return _KERNELS[call.function](call, rows, frames, type_)


def _numbers(values_: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
    return from_values(values_, None, type_)


def _dense_rank(call: WindowCall, rows: pa.Table, f: Frames, type_: pa.DataType) -> pa.Array:
    begins = np.arange(len(f.first)) == f.first_peer
    number = np.cumsum(begins)
    return _numbers(number - number[f.first] + 1, type_)


def _percent_rank(call: WindowCall, rows: pa.Table, f: Frames, type_: pa.DataType) -> pa.Array:
    others = np.maximum(f.size - 1, 1)
    return _numbers((f.first_peer - f.first) / others, type_)


def _ntile(call: WindowCall, rows: pa.Table, f: Frames, type_: pa.DataType) -> pa.Array | Unsure:
    if call.number < 1:
        return Unsure(np.ones(rows.num_rows, dtype=np.bool_))
    small, larger = f.size // call.number, f.size % call.number
    in_larger = larger * (small + 1)
    late = larger + (f.place - in_larger) // np.maximum(small, 1)
    return _numbers(np.where(f.place < in_larger, f.place // (small + 1), late) + 1, type_)


def _taken(column: pa.Array, at: Ints, inside: Bools) -> pa.Array:
    """The values at positions, NULL where a position is not inside."""
    return column.take(pa.array(np.where(inside, at, 0), mask=~inside))


def _shift(call: WindowCall, rows: pa.Table, f: Frames, type_: pa.DataType) -> pa.Array:
    assert call.argument is not None
    column = single(rows.column(call.argument))
    at = np.arange(len(f.first)) + call.number
    inside = (at >= f.first) & (at <= f.last)
    if call.default is None:
        return _taken(column, at, inside)
    both = pa.concat_arrays([column, single(rows.column(call.default)).cast(column.type)])
    own = np.arange(len(f.first)) + len(column)
    return both.take(pa.array(np.where(inside, at, own)))


def _first(call: WindowCall, rows: pa.Table, f: Frames, type_: pa.DataType) -> pa.Array:
    assert call.argument is not None
    column = single(rows.column(call.argument))
    if not call.ignore_nulls or column.null_count == 0:
        return column.take(pa.array(f.first))
    at = np.where(
        column.is_valid().to_numpy(zero_copy_only=False), np.arange(len(column)), len(column)
    )
    # From the right, the nearest present value at or after each row.
    after = np.minimum.accumulate(at[::-1])[::-1]
    found = after[f.first]
    return _taken(column, found, found <= f.end(call.frame))


def _last(call: WindowCall, rows: pa.Table, f: Frames, type_: pa.DataType) -> pa.Array:
    assert call.argument is not None
    column = single(rows.column(call.argument))
    end = f.end(call.frame)
    if not call.ignore_nulls or column.null_count == 0:
        return column.take(pa.array(end))
    at = np.where(column.is_valid().to_numpy(zero_copy_only=False), np.arange(len(column)), -1)
    found = np.maximum.accumulate(at)[end]
    return _taken(column, found, found >= f.first)


def _present(call: WindowCall, rows: pa.Table) -> Bools:
    valid = None if call.argument is None else validity(single(rows.column(call.argument)))
    return np.ones(rows.num_rows, dtype=np.bool_) if valid is None else valid


def _running(numbers: Ints, f: Frames, frame: str) -> Ints:
    """The sum of each row's frame; sums of other partitions wrap around and cancel."""
    total = np.cumsum(numbers)
    return total[f.end(frame)] - total[f.first] + numbers[f.first]


def _count(call: WindowCall, rows: pa.Table, f: Frames, type_: pa.DataType) -> pa.Array:
    return _numbers(_running(_present(call, rows).astype(np.int64), f, call.frame), type_)


def _totals(call: WindowCall, rows: pa.Table, f: Frames) -> tuple[npt.NDArray[Any], Ints] | Unsure:
    assert call.argument is not None
    present = _present(call, rows)
    column = single(rows.column(call.argument))
    counts = _running(present.astype(np.int64), f, call.frame)
    if pa.types.is_floating(column.type):
        numbers = np.where(present, values(column).astype(np.float64), 0.0)
        return _float_sums(numbers, f, call.frame), counts
    numbers = unscaled(column)
    starts = np.flatnonzero(np.arange(len(numbers)) == f.first)
    sizes = np.add.reduceat(np.abs(numbers.astype(np.float64)), starts)
    if (sizes >= _SAFE).any():
        return Unsure((sizes >= _SAFE)[f.partition])
    return _running(numbers, f, call.frame), counts


def _float_sums(numbers: npt.NDArray[np.float64], f: Frames, frame: str) -> npt.NDArray[np.float64]:
    """Sums partition by partition: what is infinite or no number in one must not reach another."""
    starts = np.flatnonzero(np.arange(len(numbers)) == f.first)
    with np.errstate(invalid="ignore", over="ignore"):
        if frame == PARTITION:
            return np.add.reduceat(numbers, starts)[f.partition]
        total = np.empty_like(numbers)
        for begin, end in zip(starts, np.append(starts[1:], len(numbers)), strict=True):
            np.cumsum(numbers[begin:end], out=total[begin:end])
    return total[f.end(frame)]


def _sum(call: WindowCall, rows: pa.Table, f: Frames, type_: pa.DataType) -> pa.Array | Unsure:
    found = _totals(call, rows, f)
    if isinstance(found, Unsure):
        return found
    sums, counts = found
    if pa.types.is_decimal(type_):
        return _decimals(sums, counts, type_)
    return from_values(sums, counts > 0, type_)


def _decimals(unscaled_: Ints, counts: Ints, type_: pa.DataType) -> pa.Array:
    """A decimal for each frame that has values; sums within 64 bits never have too many digits."""
    decimal = T.DecimalType(type_.precision, type_.scale)
    return narrow_decimals(unscaled_, counts > 0, decimal, ansi=True)


def _avg(call: WindowCall, rows: pa.Table, f: Frames, type_: pa.DataType) -> pa.Array | Unsure:
    found = _totals(call, rows, f)
    if isinstance(found, Unsure):
        return found
    sums, counts = found
    if pa.types.is_decimal(type_):
        assert call.argument is not None
        factor = 10 ** (type_.scale - rows.schema.field(call.argument).type.scale)
        if (too_large := np.abs(sums) >= MEANS_BELOW // factor).any():
            return Unsure.where(too_large, f)
        rounded = rounded_means(sums, np.maximum(counts, 1), factor)
        assert rounded is not None
        return _decimals(rounded, counts, type_)
    with np.errstate(invalid="ignore"):
        means = sums.astype(np.float64) / np.maximum(counts, 1)
    return from_values(means, counts > 0, type_)


def _extreme(sign: int) -> Kernel:
    def kernel(call: WindowCall, rows: pa.Table, f: Frames, type_: pa.DataType) -> pa.Array:
        assert call.argument is not None
        column = single(rows.column(call.argument))
        ranks = dense_ranks(column)
        present = ranks != NULL_RANK
        span = int(ranks.max(initial=0)) + 2
        ordered = np.where(present, (ranks if sign > 0 else span - 2 - ranks) + 1, 0)
        # Greater partitions have greater numbers, so the maximum so far is that of the partition.
        numbers = f.partition * span + ordered
        best = np.maximum.accumulate(numbers)[f.end(call.frame)]
        # Of values that are equal, as -0.0 and 0.0 are, it is the first one of the partition.
        known, first = np.unique(numbers, return_index=True)
        at = first[np.searchsorted(known, best)]
        return _taken(column, at, present[at])

    return kernel


_KERNELS: dict[str, Kernel] = {
    "row_number": lambda call, rows, f, type_: _numbers(f.place + 1, type_),
    "rank": lambda call, rows, f, type_: _numbers(f.first_peer - f.first + 1, type_),
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": lambda call, rows, f, type_: _numbers((f.last_peer - f.first + 1) / f.size, type_),
    "ntile": _ntile,
    "shift": _shift,
    "first": _first,
    "last": _last,
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _extreme(-1),
    "max": _extreme(1),
}
