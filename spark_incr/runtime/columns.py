"""Numpy views of Arrow columns, and Arrow columns from numpy.

A column of fixed width is its value buffer and a validity mask. Both are taken without copying,
so that arithmetic on states is numpy's and everything else is Arrow's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]


def single(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one array."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def arrays(table: pa.Table, names: Sequence[str]) -> list[pa.Array]:
    """The named columns, each as one array."""
    return [single(table.column(name)) for name in names]


def _storage(arrow_type: pa.DataType) -> np.dtype[Any] | None:
    if pa.types.is_decimal128(arrow_type):
        return np.dtype([("low", np.uint64), ("high", np.int64)])
    if pa.types.is_floating(arrow_type):
        return np.dtype(f"f{arrow_type.bit_width // 8}")
    if pa.types.is_integer(arrow_type) or (
        pa.types.is_temporal(arrow_type) and not pa.types.is_interval(arrow_type)
    ):
        return np.dtype(f"i{arrow_type.bit_width // 8}")
    return None


def is_fixed(arrow_type: pa.DataType) -> bool:
    """Whether `values` can view a column of the type."""
    return pa.types.is_boolean(arrow_type) or _storage(arrow_type) is not None


def is_number(arrow_type: pa.DataType) -> bool:
    """Whether a value is one number of numpy's."""
    return bool(pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type))


def validity(array: pa.Array) -> Bools | None:
    """True where a value is present, or None where all are."""
    if array.null_count == 0:
        return None
    if pa.types.is_null(array.type):
        return np.zeros(len(array), dtype=np.bool_)
    bitmap = np.frombuffer(array.buffers()[0], dtype=np.uint8)
    start = array.offset
    first, last = start // 8, (start + len(array) + 7) // 8
    bits = np.unpackbits(bitmap[first:last], bitorder="little")
    return bits[start - first * 8 :][: len(array)].view(np.bool_)


def values(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a fixed-width column; whatever the buffer holds where one is absent."""
    if pa.types.is_boolean(array.type):
        if len(array) == 0:
            return np.zeros(0, dtype=np.bool_)
        bitmap = np.frombuffer(array.buffers()[1], dtype=np.uint8)
        start = array.offset
        first, last = start // 8, (start + len(array) + 7) // 8
        return np.unpackbits(bitmap[first:last], bitorder="little")[start - first * 8 :][
            : len(array)
        ].view(np.bool_)
    storage = _storage(array.type)
    assert storage is not None, array.type
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype=storage)
    return np.frombuffer(
        buffer, dtype=storage, count=len(array), offset=array.offset * storage.itemsize
    )


def from_values(data: npt.NDArray[Any], valid: Bools | None, arrow_type: pa.DataType) -> pa.Array:
    """A fixed-width column over numpy data; `valid` None means that all are present."""
    bitmap = None
    if valid is not None and not valid.all():
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    if pa.types.is_boolean(arrow_type):
        body = np.packbits(data.astype(np.bool_), bitorder="little")
    else:
        storage = _storage(arrow_type)
        assert storage is not None, arrow_type
        body = np.ascontiguousarray(data, dtype=storage)
    return pa.Array.from_buffers(arrow_type, len(data), [bitmap, pa.py_buffer(body)])


def taken(array: pa.Array, rows: Ints) -> pa.Array:
    """The values of some rows; numpy is faster where they are numbers and none is absent."""
    if array.null_count or not is_number(array.type):
        return array.take(rows)
    return from_values(np.take(values(array), rows), None, array.type)


def int64_column(data: npt.NDArray[Any]) -> pa.Array:
    """A column of 64-bit integers, none absent."""
    return from_values(data, None, pa.int64())


def filled(arrow_type: pa.DataType, length: int) -> pa.Array:
    """A column of NULLs."""
    return pa.nulls(length, arrow_type)


def select(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The named columns in the named order, also when there are none (rows are kept)."""
    return table.select(list(names))
