"""The order of values as Spark sorts them: NaN after every number, -0.0 as 0.0, NULL apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_incr.plan.nodes import SortKey
from spark_incr.runtime.columns import Ints, is_fixed, single, validity, values

NULL_RANK = -1


def row_order(
    rows: pa.Table, keys: Sequence[SortKey], ties: Sequence[str] = (), groups: Ints | None = None
) -> Ints:
    """The positions of rows in an order: by group, by the keys, and where those tie by `ties`, which
    tell all rows apart that are not copies: -0.0 comes before 0.0 there."""
    columns: list[Ints] = [] if groups is None else [groups]
    for key in keys:
        ranks = dense_ranks(single(rows.column(key.column)))
        null = ranks == NULL_RANK
        ranks = -ranks if key.descending else ranks
        extreme = ranks.min(initial=0) - 1 if key.nulls_first else ranks.max(initial=0) + 1
        columns.append(np.where(null, extreme, ranks))
    order = np.lexsort(tuple(reversed(columns))) if columns else np.arange(rows.num_rows)
    begins = np.zeros(rows.num_rows, dtype=np.bool_)
    begins[:1] = True
    for column in columns:
        begins[1:] |= np.diff(column[order]) != 0
    if begins.all() or not ties:
        return order
    # Few rows tie, as a rule: only those are compared as a whole.
    tied = ~begins
    tied[:-1] |= tied[1:]
    at = np.flatnonzero(tied)
    whole = rows.take(order[at])
    told_apart = [dense_ranks(single(whole.column(name)), exact=True) for name in ties]
    compared = [np.cumsum(begins)[at], *told_apart]
    order[at] = order[at][np.lexsort(tuple(reversed(compared)))]
    return order


def dense_ranks(array: pa.Array, exact: bool = False) -> Ints:
    """A number per value: equal for equal values, larger for larger ones, -1 for NULL.

    With `exact` -0.0 is less than 0.0.
    """
    kind = array.type
    valid = validity(array)
    if pa.types.is_floating(kind):
        numbers = values(array)
        _, ranks = np.unique(numbers + 0, return_inverse=True)
        ranks = ranks.astype(np.int64)
        if exact:
            ranks = 2 * ranks + 1 - ((numbers == 0) & np.signbit(numbers))
    elif is_fixed(kind) and not pa.types.is_decimal(kind):
        _, ranks = np.unique(values(array), return_inverse=True)
        ranks = ranks.astype(np.int64)
    elif pa.types.is_nested(kind):
        ranks = _python_ranks(array, exact)
    else:
        ranks = values(pc.rank(array, tiebreaker="dense").cast(pa.int64()))
    return ranks if valid is None else np.where(valid, ranks, NULL_RANK)


def _python_ranks(array: pa.Array, exact: bool) -> Ints:
    keys = [_sort_key(value, exact) for value in array.cast(_as_numbers(array.type)).to_pylist()]
    ranks = {key: i for i, key in enumerate(sorted(set(keys)))}
    return np.array([ranks[key] for key in keys], dtype=np.int64)


def _as_numbers(kind: pa.DataType) -> pa.DataType:
    """A type with numbers in the place of times: Python's reach from the year 1 to 9999 alone."""
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_as_numbers(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_numbers(kind.value_type)))
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        return pa.int64()
    return kind


def _sort_key(value: Any, exact: bool) -> Any:
    """NULL first inside a struct or an array; a shorter array before its extension."""
    if value is None:
        return (0,)
    if isinstance(value, (dict, list, tuple)):
        parts = value.values() if isinstance(value, dict) else value
        return (1, tuple(_sort_key(v, exact) for v in parts))
    if isinstance(value, float):
        negative = exact and math.copysign(1.0, value) < 0
        return (2, 0.0) if value != value else (1, value + 0.0, not negative)
    return (1, value)
