"""Values of a group derived from its multiset: the answer of aggregates that have no inverse.

The input is a multiset per group: group numbers in ascending order, value columns, and positive
weights. Each function gives one value per group; a group without rows gets NULL (or an empty
list). Where Spark's own choice depends on the order of rows, the choice here depends on nothing but
the rows: any_value is the least value, and of the rows that tie, max_by and min_by take the one of
the greatest value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_incr.runtime.arrangement import scatter
from spark_incr.runtime.columns import Ints, from_values, validity, values
from spark_incr.runtime.expressions.casts import decimal_to_double
from spark_incr.runtime.order import dense_ranks


@dataclass(frozen=True)
class Values:
    """The multisets of `count` groups; `group` is ascending."""

    group: Ints
    columns: Sequence[pa.Array]
    weight: Ints
    count: int

    def where(self, keep: Any) -> Values:
        at = np.flatnonzero(keep)
        return Values(
            self.group[at], [c.take(at) for c in self.columns], self.weight[at], self.count
        )

    def present(self) -> Values:
        valid = validity(self.columns[0])
        return self if valid is None else self.where(valid)


def _chosen(data: Values, ranks: Ints, column: pa.Array) -> pa.Array:
    """Per group the value of `column` in the row of the greatest rank."""
    if not len(data.group):
        return pa.nulls(data.count, column.type)
    order = np.lexsort((ranks, data.group))
    last = np.flatnonzero(np.append(np.diff(data.group[order]) != 0, True))
    rows = order[last]
    return scatter(column.take(rows), data.group[rows], data.count)


def _maximum(data: Values, type_: pa.DataType, parameters: tuple[Any, ...]) -> pa.Array:
    data = data.present()
    return _chosen(data, dense_ranks(data.columns[0]), data.columns[0])


def _minimum(data: Values, type_: pa.DataType, parameters: tuple[Any, ...]) -> pa.Array:
    data = data.present()
    return _chosen(data, -dense_ranks(data.columns[0]), data.columns[0])


def _any(data: Values, type_: pa.DataType, parameters: tuple[Any, ...]) -> pa.Array:
    return _minimum(data, type_, parameters)


def _by(sign: int) -> Callable[[Values, pa.DataType, tuple[Any, ...]], pa.Array]:
    def choose(data: Values, type_: pa.DataType, parameters: tuple[Any, ...]) -> pa.Array:
        data = data.present()
        order, value = data.columns
        ranks = dense_ranks(value)
        primary = dense_ranks(order) * sign
        return _chosen(data, primary * (int(ranks.max(initial=0)) + 2) + ranks, value)

    return choose


def _list(data: Values, type_: pa.DataType, rows: Ints) -> pa.Array:
    """Lists of the value at the given rows, which are ordered by group."""
    counts = np.bincount(data.group[rows], minlength=data.count)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    items = data.columns[0].take(rows).cast(type_.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets), items, type=type_)


def _collect_list(data: Values, type_: pa.DataType, parameters: tuple[Any, ...]) -> pa.Array:
    data = data.present()
    order = np.lexsort((dense_ranks(data.columns[0]), data.group))
    return _list(data, type_, np.repeat(order, data.weight[order]))


def _collect_set(data: Values, type_: pa.DataType, parameters: tuple[Any, ...]) -> pa.Array:
    data = data.present()
    ranks = dense_ranks(data.columns[0])
    order = np.lexsort((ranks, data.group))
    if len(order):
        distinct = np.append(True, (np.diff(ranks[order]) != 0) | (np.diff(data.group[order]) != 0))
        order = order[distinct]
    result = _list(data, type_, order)
    if not pa.types.is_floating(type_.value_type):
        return result
    # In a set -0.0 is 0.0, as among the keys of groups.
    items = pc.add(result.values, pa.scalar(0, type_.value_type))
    return pa.ListArray.from_arrays(result.offsets, items, type=type_)


def _percentile(data: Values, type_: pa.DataType, parameters: tuple[Any, ...]) -> pa.Array:
    data = data.present()
    numbers = _as_double(data.columns[0])
    order = np.lexsort((dense_ranks(data.columns[0]), data.group))
    numbers, weight, group = numbers[order], data.weight[order], data.group[order]
    totals = np.bincount(group, weights=weight, minlength=data.count).astype(np.int64)
    ends = np.cumsum(weight)
    before = np.cumsum(totals) - totals
    fractions = parameters[0] if isinstance(parameters[0], tuple) else (parameters[0],)
    results = []
    for fraction in fractions:
        position = (totals - 1) * fraction
        low, high = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
        present = totals > 0
        result = np.zeros(data.count)
        at = np.flatnonzero(present)
        a = numbers[np.searchsorted(ends, before[at] + low[at], "right")]
        b = numbers[np.searchsorted(ends, before[at] + high[at], "right")]
        with np.errstate(all="ignore"):
            between = a + (position[at] - low[at]) * (b - a)
        result[at] = np.where((low[at] == high[at]) | (a == b), a, between)
        results.append(result)
    valid = totals > 0
    if not isinstance(parameters[0], tuple):
        return from_values(results[0], valid, pa.float64())
    flat = np.stack(results, axis=1).reshape(-1)
    offsets = np.arange(data.count + 1, dtype=np.int32) * len(fractions)
    mask = from_values(~valid, None, pa.bool_())
    return pa.ListArray.from_arrays(
        pa.array(offsets), from_values(flat, None, pa.float64()), type=type_, mask=mask
    )


def _as_double(array: pa.Array) -> Any:
    if pa.types.is_decimal(array.type):
        return values(decimal_to_double(array, array.type.scale))
    return values(array).astype(np.float64)


def _bits(operation: np.ufunc) -> Callable[[Values, pa.DataType, tuple[Any, ...]], pa.Array]:
    def fold(data: Values, type_: pa.DataType, parameters: tuple[Any, ...]) -> pa.Array:
        data = data.present()
        starts = (
            np.flatnonzero(np.append(True, np.diff(data.group) != 0))
            if len(data.group)
            else data.group
        )
        folded = values(data.columns[0])
        if len(starts):
            folded = operation.reduceat(folded, starts)
        result = from_values(folded, None, data.columns[0].type)
        return scatter(result, data.group[starts], data.count)

    return fold


DERIVED: dict[str, Callable[[Values, pa.DataType, tuple[Any, ...]], pa.Array]] = {
    "max": _maximum,
    "min": _minimum,
    "max_by": _by(1),
    "min_by": _by(-1),
    "any_value": _any,
    "collect_list": _collect_list,
    "collect_set": _collect_set,
    "percentile": _percentile,
    "bit_and": _bits(np.bitwise_and),
    "bit_or": _bits(np.bitwise_or),
}
