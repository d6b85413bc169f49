"""Nested columns and their parts: the fields of structs, the elements of lists, the keys and items of maps.

Law: `made_of(a, parts_of(a)) = a`, NULL where `a` is; what has no parts is flat.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_incr.runtime.columns import Ints


def list_offsets(array: pa.Array) -> Ints:
    """Where the elements of each list or map begin among its parts, and where the last ones end."""
    if not len(array):
        return np.zeros(1, dtype=np.int64)
    return np.frombuffer(
        array.buffers()[1], dtype=np.int32, count=len(array) + 1, offset=array.offset * 4
    ).astype(np.int64)


def parts_of(array: pa.Array) -> list[pa.Array]:
    """The parts of a column, each as long as all that it holds."""
    kind = array.type
    if pa.types.is_struct(kind):
        return [array.field(place) for place in range(kind.num_fields)]
    if pa.types.is_list(kind):
        return [array.values]
    return [array.keys, array.items] if pa.types.is_map(kind) else []


def made_of(array: pa.Array, parts: Sequence[pa.Array]) -> pa.Array:
    """The column with other parts of the same types."""
    kind = array.type
    absent = pc.is_null(array) if array.null_count else None
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=absent)
    offsets = pa.array(list_offsets(array), pa.int32())
    whole = pa.ListArray if pa.types.is_list(kind) else pa.MapArray
    return whole.from_arrays(offsets, *parts, type=kind, mask=absent)
