"""Hash and equality of keys.

Laws: equal keys have equal hashes, and equality on the real key is checked after every match of
hashes, so a collision costs time and never a row. NULL equals NULL and NaN equals NaN, as in
Spark's grouping. Otherwise equality is that of the bits: -0.0 and 0.0 are two values of a row;
where Spark treats them as one (grouping, joining), the key is passed through `canonical` first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_incr.runtime.columns import (
    Bools,
    Hashes,
    Ints,
    from_values,
    is_fixed,
    taken,
    validity,
    values,
)
from spark_incr.runtime.nested import list_offsets, made_of, parts_of
from spark_incr.runtime.order import dense_ranks

_NULL = np.uint64(0x9E3779B97F4A7C15)
_NAN = np.uint64(0x7FF8000000000000)
_BYTE_BASE = np.uint64(0x100000001B3 | 1)
_LONG_STRING = 4096

# Tests narrow the hash through this mask to make collisions common.
HASH_MASK = np.uint64(0xFFFFFFFFFFFFFFFF)


def _mix(x: Hashes) -> Hashes:
    x = x ^ (x >> np.uint64(30))
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def _hash_bytes(array: pa.Array) -> Hashes:
    offsets = np.frombuffer(
        array.buffers()[1], dtype=np.int32, count=len(array) + 1, offset=array.offset * 4
    ).astype(np.int64)
    buffer = array.buffers()[2]
    data = np.frombuffer(buffer, dtype=np.uint8) if buffer is not None else np.zeros(0, np.uint8)
    lengths = np.diff(offsets)
    short = np.minimum(lengths, _LONG_STRING)
    total = int(short.sum())
    ends = np.cumsum(short)
    within = np.arange(total) - np.repeat(ends - short, short)
    at = np.repeat(offsets[:-1], short) + within
    powers = np.cumprod(
        np.full(int(short.max(initial=0)) + 1, _BYTE_BASE, dtype=np.uint64), dtype=np.uint64
    )
    running = np.zeros(total + 1, dtype=np.uint64)
    np.cumsum((data[at].astype(np.uint64) + np.uint64(1)) * powers[within], out=running[1:])
    result = running[ends] - running[ends - short]
    for i in np.flatnonzero(lengths > _LONG_STRING):
        digest = hashlib.blake2b(
            data[offsets[i] : offsets[i + 1]].tobytes(), digest_size=8
        ).digest()
        result[i] = np.frombuffer(digest, dtype=np.uint64)[0]
    return _mix(result + lengths.astype(np.uint64))


def _list_child(array: pa.Array) -> pa.Array:
    if pa.types.is_map(array.type):
        return pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    return array.values


def _hash_list(array: pa.Array) -> Hashes:
    offsets = list_offsets(array)
    child = _list_child(array)
    starts, lengths = offsets[:-1], np.diff(offsets)
    ends = np.cumsum(lengths)
    total = int(lengths.sum())
    within = np.arange(total) - np.repeat(ends - lengths, lengths)
    at = np.repeat(starts, lengths) + within
    elements = _hash_array(child)[at] if total else np.zeros(0, dtype=np.uint64)
    running = np.zeros(total + 1, dtype=np.uint64)
    np.cumsum(_mix(elements + within.astype(np.uint64)), out=running[1:])
    return _mix(running[ends] - running[ends - lengths] + lengths.astype(np.uint64))


def _hash_array(array: pa.Array) -> Hashes:
    kind = array.type
    if pa.types.is_floating(kind):
        data = values(array)
        bits = data.view(np.uint32 if data.itemsize == 4 else np.uint64).astype(np.uint64)
        result = _mix(np.where(np.isnan(data), _NAN, bits))
    elif pa.types.is_decimal128(kind):
        data = values(array)
        result = _mix(_mix(data["low"].copy()) + data["high"].astype(np.uint64))
    elif is_fixed(kind):
        result = _mix(values(array).astype(np.int64).view(np.uint64))
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        result = _hash_bytes(array) if len(array) else np.zeros(0, dtype=np.uint64)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        result = _hash_list(array) if len(array) else np.zeros(0, dtype=np.uint64)
    elif pa.types.is_struct(kind):
        result = _combine([_hash_array(array.field(i)) for i in range(kind.num_fields)], len(array))
    else:
        raise AssertionError(f"no hash for {kind}")
    valid = validity(array)
    return result if valid is None else np.where(valid, result, _NULL)


def _combine(parts: Sequence[Hashes], length: int) -> Hashes:
    if len(parts) == 1:
        return parts[0]
    result = np.full(length, np.uint64(len(parts)), dtype=np.uint64)
    for part in parts:
        result = _mix(result * np.uint64(31) + part)
    return result


def hash_columns(columns: Sequence[pa.Array], length: int) -> Hashes:
    """A 64-bit hash per row; rows without columns all hash alike."""
    return _combine([_hash_array(c) for c in columns], length) & HASH_MASK


def _equal_lists(left: pa.Array, right: pa.Array) -> Bools:
    left_offsets, right_offsets = list_offsets(left), list_offsets(right)
    lengths = np.diff(left_offsets)
    result: Bools = lengths == np.diff(right_offsets)
    rows = np.flatnonzero(result)
    counts = lengths[rows]
    total = int(counts.sum())
    if total:
        ends = np.cumsum(counts)
        within = np.arange(total) - np.repeat(ends - counts, counts)
        at_left = np.repeat(left_offsets[rows], counts) + within
        at_right = np.repeat(right_offsets[rows], counts) + within
        differs = ~_equal_arrays(_list_child(left).take(at_left), _list_child(right).take(at_right))
        running = np.concatenate([[0], np.cumsum(differs)])
        result[rows] = running[ends] == running[ends - counts]
    return result


def _equal_arrays(left: pa.Array, right: pa.Array) -> Bools:
    same = _equal_values(left, right)
    here, there = validity(left), validity(right)
    if here is None:
        return same if there is None else same & there
    return same & here if there is None else np.where(here & there, same, here == there)


def _equal_values(left: pa.Array, right: pa.Array) -> Bools:
    """Row by row, whether two values are the same where both are present."""
    kind = left.type
    same: Bools
    if not len(left):
        same = np.ones(len(left), dtype=np.bool_)
    elif pa.types.is_floating(kind):
        a, b = values(left), values(right)
        bits = np.uint32 if a.itemsize == 4 else np.uint64
        same = (a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))
    elif is_fixed(kind):
        same = values(left) == values(right)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        same = _equal_lists(left, right)
    elif pa.types.is_struct(kind):
        fields = range(kind.num_fields)
        same = equal_columns(
            [left.field(i) for i in fields], [right.field(i) for i in fields], len(left)
        )
    else:
        same = values(pc.fill_null(pc.equal(left, right), False))
    return same


def equal_columns(left: Sequence[pa.Array], right: Sequence[pa.Array], length: int) -> Bools:
    """Row by row, whether two keys are the same key."""
    same = [_equal_arrays(a, b) for a, b in zip(left, right, strict=True)]
    return reduce(np.logical_and, same) if same else np.ones(length, dtype=np.bool_)


def canonical(array: pa.Array) -> pa.Array:
    """The key with -0.0 turned to 0.0, every NaN to one NaN and maps sorted by key, at any depth."""
    kind = array.type
    if pa.types.is_floating(kind):
        data = values(array)
        clean = np.where(np.isnan(data), np.array(np.nan, data.dtype), data + data.dtype.type(0))
        return from_values(clean, validity(array), kind)
    if pa.types.is_map(kind) and len(array):
        return _sorted_map(array)
    parts = parts_of(array)
    return made_of(array, [canonical(part) for part in parts]) if parts else array


def _sorted_map(array: pa.MapArray) -> pa.Array:
    offsets = list_offsets(array)
    keys, items = canonical(array.keys), canonical(array.items)
    lengths = np.diff(offsets)
    at = np.arange(offsets[0], offsets[-1])
    row = np.repeat(np.arange(len(array)), lengths)
    order = np.lexsort((dense_ranks(keys.take(at)), row))
    places = pa.array(offsets - offsets[0], pa.int32())
    chosen = at[order]
    parts = keys.take(chosen), items.take(chosen)
    return pa.MapArray.from_arrays(places, *parts, type=array.type, mask=pc.is_null(array))


def sorted_order(hashes: Hashes, alike: bool = False) -> Ints:
    """The rows in order of their hash; rows of one hash in their own order.

    numpy sorts 16 bits at a time without comparing them. The upper half of a hash tells rows apart,
    but for a few; unless rows are `alike`, many of one lineage, whose hashes differ in the lower one.
    """
    if alike:
        return _ordered_by(hashes, range(4))
    order = _ordered_by(hashes, range(2, 4))
    in_order = hashes.take(order)
    if (in_order[1:] < in_order[:-1]).any():
        upper = in_order >> np.uint64(32)
        tied = np.zeros(len(hashes), dtype=np.bool_)
        np.equal(upper[1:], upper[:-1], out=tied[1:])
        tied[:-1] |= tied[1:]
        at = np.flatnonzero(tied)
        order[at] = order[at][np.lexsort((order[at], in_order[at]))]
    return order


def _ordered_by(hashes: Hashes, digits: Sequence[int]) -> Ints:
    """The stable order of hashes by some of their digits of 16 bits, the least one first."""
    parts = np.ascontiguousarray(hashes, dtype="<u8").view("<u2").reshape(-1, 4)
    order: Ints = parts[:, digits[0]].argsort(kind="stable")
    for digit in digits[1:]:
        order = order.take(parts[:, digit].take(order).argsort(kind="stable"))
    return order


def merged_order(sorted_hashes: Sequence[Hashes]) -> Ints:
    """The order that merges the concatenation of sorted arrays; the stable sort finds their ends."""
    return np.argsort(np.concatenate(sorted_hashes), kind="stable")


@dataclass(frozen=True)
class Groups:
    """Rows brought together by key: `order` lists the rows, group i is order[starts[i]:ends[i]]."""

    order: Ints
    starts: Ints
    hashes: Hashes

    @property
    def count(self) -> int:
        return len(self.starts)

    @property
    def first(self) -> Ints:
        """One row of each group."""
        return self.order[self.starts]

    def sizes(self) -> Ints:
        return np.diff(np.append(self.starts, len(self.order)))

    def of_rows(self) -> Ints:
        """For each row in the order of the rows, the number of its group."""
        result = np.empty(len(self.order), dtype=np.int64)
        result[self.order] = np.repeat(np.arange(self.count), self.sizes())
        return result

    def total(self, data: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum per group of a value per row; integers wrap."""
        if self.count == len(self.order):
            return data.take(self.order)
        return np.add.reduceat(data.take(self.order), self.starts)


def group_rows(
    columns: Sequence[pa.Array], length: int, hashes: Hashes | None = None, alike: bool = False
) -> Groups:
    """Group rows by key, in order of the key's hash (see `sorted_order`)."""
    if hashes is None:
        hashes = hash_columns(columns, length)
    order = sorted_order(hashes, alike)
    in_order = hashes.take(order)
    begins = np.ones(length, dtype=np.bool_)
    np.not_equal(in_order[1:], in_order[:-1], out=begins[1:])
    again = np.flatnonzero(~begins)
    if len(again) and columns:
        if len(again) * 2 > length:
            ordered = [taken(c, order) for c in columns]
            same = equal_columns(
                [c.slice(1) for c in ordered], [c.slice(0, length - 1) for c in ordered], length - 1
            )[again - 1]
        else:
            here, before = order.take(again), order.take(again - 1)
            same = equal_columns(
                [taken(c, here) for c in columns], [taken(c, before) for c in columns], len(again)
            )
        if not same.all():
            order, begins = _split_collisions(columns, order, in_order, in_order[again[~same]])
    starts = np.flatnonzero(begins)
    return Groups(order, starts, in_order[starts])


def _split_collisions(
    columns: Sequence[pa.Array], order: Ints, in_order: Hashes, collided: Hashes
) -> tuple[Ints, Bools]:
    """Tell apart different keys of one hash, row by row: collisions are rare."""
    order = order.copy()
    begins = np.ones(len(order), dtype=np.bool_)
    np.not_equal(in_order[1:], in_order[:-1], out=begins[1:])
    for hashed in np.unique(collided):
        low, high = (
            np.searchsorted(in_order, hashed, "left"),
            np.searchsorted(in_order, hashed, "right"),
        )
        rows = order[low:high]
        distinct: list[int] = []
        members: list[list[int]] = []
        for row in rows:
            for known, group in zip(distinct, members, strict=True):
                if equal_columns(
                    [c.slice(row, 1) for c in columns], [c.slice(known, 1) for c in columns], 1
                )[0]:
                    group.append(row)
                    break
            else:
                distinct.append(row)
                members.append([row])
        order[low:high] = np.concatenate(members)
        begins[low:high] = False
        begins[low + np.cumsum([0] + [len(m) for m in members[:-1]])] = True
    return order, begins
