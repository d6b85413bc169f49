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

_FLOATS = (pa.float16(), pa.float32(), pa.float64())
_WHOLE = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us")),
    *(pa.timestamp("us"), pa.duration("us")),
)
_STORAGE: dict[int, np.dtype[Any]] = {
    pa.decimal128(38).id: np.dtype([("low", np.uint64), ("high", np.int64)]),
    **{kind.id: np.dtype(f"f{kind.byte_width}") for kind in _FLOATS},
    **{kind.id: np.dtype(f"i{kind.byte_width}") for kind in _WHOLE},
}
"""How numpy sees the values of a type, by the number that Arrow gives the type."""


def single(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one array."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def arrays(table: pa.Table, names: Sequence[str]) -> list[pa.Array]:
    """The named columns, each as one array."""
    return [single(table.column(name)) for name in names]


def is_fixed(arrow_type: pa.DataType) -> bool:
    """Whether `values` can view a column of the type."""
    return arrow_type.id in _STORAGE or pa.types.is_boolean(arrow_type)


def validity(array: pa.Array) -> Bools | None:
    """True where a value is present, or None where all are."""
    if array.null_count == 0:
        return None
    return _bits(array, 0)


def _bits(array: pa.Array, place: int) -> Bools:
    """One bit per value of an array, in the buffer at a place."""
    bitmap = np.frombuffer(array.buffers()[place], dtype=np.uint8)
    start = array.offset
    first, last = start // 8, (start + len(array) + 7) // 8
    bits = np.unpackbits(bitmap[first:last], bitorder="little")
    return bits[start - first * 8 :][: len(array)].view(np.bool_)


def values(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a fixed-width column; whatever the buffer holds where one is absent."""
    length = len(array)
    storage = _STORAGE.get(array.type.id)
    if storage is None:
        assert pa.types.is_boolean(array.type), array.type
        return _bits(array, 1) if length else np.zeros(0, dtype=np.bool_)
    buffer = array.buffers()[1]
    if buffer is None or length == 0:
        return np.zeros(length, dtype=storage)
    return np.frombuffer(buffer, storage, length, array.offset * storage.itemsize)


def from_values(data: npt.NDArray[Any], valid: Bools | None, arrow_type: pa.DataType) -> pa.Array:
    """A fixed-width column over numpy data; `valid` None means that all are present."""
    bitmap = None
    if valid is not None and not valid.all():
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    storage = _STORAGE.get(arrow_type.id)
    if storage is None:
        assert pa.types.is_boolean(arrow_type), arrow_type
        body = np.packbits(data.astype(np.bool_), bitorder="little")
    else:
        body = np.ascontiguousarray(data, dtype=storage)
    return pa.Array.from_buffers(arrow_type, len(data), [bitmap, pa.py_buffer(body)])


def taken(array: pa.Array, rows: Ints) -> pa.Array:
    """The values of some rows; numpy is faster where their width is fixed and none is absent."""
    if array.null_count or array.type.id not in _STORAGE:
        return array.take(rows)
    return from_values(values(array).take(rows), None, array.type)


def taken_of_each(parts: Sequence[tuple[pa.Array, Ints | None]]) -> pa.Array:
    """The values of some rows of each array, or of all, one after the other; they are of one type."""
    kind = parts[0][0].type
    if kind.id not in _STORAGE or any(array.null_count for array, _ in parts):
        return pa.concat_arrays([a if rows is None else taken(a, rows) for a, rows in parts])
    data = [values(a) if rows is None else values(a).take(rows) for a, rows in parts]
    return from_values(np.concatenate(data), None, kind)


def rows_taken(table: pa.Table, rows: Ints) -> pa.Table:
    """Some rows of a table."""
    if not table.num_columns:
        return table.take(rows)
    columns = [taken(single(column), rows) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def int64_column(data: npt.NDArray[Any]) -> pa.Array:
    """A column of 64-bit integers, none absent."""
    return from_values(data, None, pa.int64())


def filled(arrow_type: pa.DataType, length: int) -> pa.Array:
    """A column of NULLs."""
    return pa.nulls(length, arrow_type)


def select(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The named columns in the named order, also when there are none (rows are kept)."""
    return table.select(list(names))
