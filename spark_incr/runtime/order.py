"""The order of values as Spark sorts them: NaN after every number, -0.0 as 0.0, NULL apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_incr.runtime.columns import Ints, is_fixed, validity, values

NULL_RANK = -1


def dense_ranks(array: pa.Array) -> Ints:
    """A number per value: equal for equal values, larger for larger ones, -1 for NULL."""
    kind = array.type
    valid = validity(array)
    if pa.types.is_null(kind):
        return np.full(len(array), NULL_RANK, dtype=np.int64)
    if is_fixed(kind) and not pa.types.is_decimal(kind):
        _, ranks = np.unique(
            values(array) + 0 if pa.types.is_floating(kind) else values(array), return_inverse=True
        )
        ranks = ranks.astype(np.int64)
    elif pa.types.is_nested(kind):
        ranks = _python_ranks(array)
    else:
        ranks = values(pc.rank(array, tiebreaker="dense").cast(pa.int64()))
    return ranks if valid is None else np.where(valid, ranks, NULL_RANK)


def _python_ranks(array: pa.Array) -> Ints:
    keys = [_sort_key(value) for value in array.to_pylist()]
    ranks = {key: i for i, key in enumerate(sorted(set(keys)))}
    return np.array([ranks[key] for key in keys], dtype=np.int64)


def _sort_key(value: Any) -> Any:
    """NULL first inside a struct or an array; a shorter array before its extension."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, tuple(_sort_key(v) for v in value.values()))
    if isinstance(value, (list, tuple)):
        return (1, tuple(_sort_key(v) for v in value))
    if isinstance(value, float):
        return (2, 0.0) if value != value else (1, value + 0.0)
    return (1, value)
