"""The first rows in an order, under changes.

All rows are kept as a bag, and the first of them, a few more than are asked for, as the `head`: no
row outside the head comes before one inside it, nor is it a copy of one. A batch changes the head alone, unless so many of
its rows have left that it is shorter than the result; then it is filled again from the bag. The
head holds twice what is needed, so at least that many rows leave between two fillings.

With keys there is a result per key: Δf(R) = f(R' of the touched keys) - f(R of the touched keys).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_incr.plan.nodes import Limit
from spark_incr.plan.types import arrow_schema
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.bag import add_arranged, add_to_bag, arrange, bag_layout
from spark_incr.runtime.changes import (
    WEIGHT,
    add,
    consolidate,
    empty,
    negate,
    reweighted,
    weights,
)
from spark_incr.runtime.columns import Ints
from spark_incr.runtime.lineage import touched_keys
from spark_incr.runtime.order import row_order

_SPARE = 1_000


class KeyedLimitOperator:
    """Maintains one `Limit` that has keys."""

    def __init__(self, node: Limit) -> None:
        self.schema = arrow_schema(node.schema)
        self._node = node
        self._rows = Arrangement(bag_layout(self.schema, node.keys))
        self.arrangements = {"rows": self._rows}

    def apply(self, changes: pa.Table) -> pa.Table:
        """The change of the first rows of each key for a change of all rows."""
        arranged = arrange(self._rows.layout, changes)
        if arranged.rows.num_rows == 0:
            return empty(self.schema)
        touched, count = touched_keys(arranged.rows, self._node.keys)
        before = self._result(touched, count)
        add_arranged(self._rows, arranged)
        return consolidate(add([negate(before), self._result(touched, count)]))

    def _result(self, keys: list[pa.Array], count: int) -> pa.Table:
        snapshot = self._rows.snapshot()
        located = snapshot.find_lineage(keys, count)
        schema = self._rows.layout.schema
        rows = pa.Table.from_arrays(snapshot.gather(located, schema.names), schema=schema)
        return first_rows(rows, self._node, located.probe)


class LimitOperator:
    """Maintains one `Limit`."""

    def __init__(self, node: Limit) -> None:
        self.schema = arrow_schema(node.schema)
        self._node = node
        names = tuple(self.schema.names)
        self._rows = Arrangement(bag_layout(self.schema, names))
        self._head = Arrangement(bag_layout(self.schema, names))
        self._total = Arrangement(bag_layout(pa.schema([]), ()))
        self.arrangements = {"rows": self._rows, "head": self._head, "total": self._total}

    @property
    def _needed(self) -> int | None:
        limit = self._node.limit
        return None if limit is None else limit + self._node.offset

    def apply(self, changes: pa.Table) -> pa.Table:
        """The change of the first rows for a change of all rows."""
        arranged = arrange(self._rows.layout, changes)
        changes = arranged.rows
        if changes.num_rows == 0:
            return empty(self.schema)
        head = self._content(self._head)
        before = first_rows(head, self._node)
        complete = _size(head) == _size(self._content(self._total))
        add_arranged(self._rows, arranged)
        self._count(_size(changes))
        entering = self._entering(head, changes, complete)
        followed = consolidate(add([head, entering]))
        settled = self._settled(followed, complete)
        add_to_bag(self._head, entering if settled is followed else add([negate(head), settled]))
        return consolidate(add([negate(before), first_rows(settled, self._node)]))

    def _entering(self, head: pa.Table, changes: pa.Table, complete: bool) -> pa.Table:
        """The part of a batch that belongs before the last row of the head."""
        if complete:
            return changes
        if not head.num_rows:
            return changes.slice(0, 0)
        both = add([changes, head])
        order = row_order(both, self._node.order, self._node.names)
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        last = place[changes.num_rows :].max()
        return changes.take(np.flatnonzero(place[: changes.num_rows] <= last))

    def _settled(self, head: pa.Table, complete: bool) -> pa.Table:
        """The head itself, all rows where it has become too short, or a part where it is too long."""
        needed = self._needed
        if needed is None:
            return head
        if _size(head) < needed and not complete:
            head = self._content(self._rows)
        if _size(head) > 2 * needed + 2 * _SPARE:
            head = head.take(row_order(head, self._node.order, self._node.names))
            before = np.cumsum(weights(head)) - weights(head)
            head = head.slice(0, int(np.searchsorted(before, 2 * needed + _SPARE)))
        return head

    def _count(self, change: int) -> None:
        """Keep the number of all rows, so that nobody counts them."""
        if change:
            add_to_bag(self._total, pa.table({WEIGHT: pa.array([change], pa.int64())}))

    def _content(self, bag: Arrangement) -> pa.Table:
        return bag.snapshot().rows().combine_chunks()


def first_rows(rows: pa.Table, node: Limit, key: Ints | None = None) -> pa.Table:
    """The rows at the places that a limit asks for, of each number in `key` if it is given."""
    end = None if node.limit is None else node.offset + node.limit
    return _slice(rows, row_order(rows, node.order, node.names, key), node.offset, end, key)


def _slice(
    rows: pa.Table, order: Ints, start: int, end: int | None, key: Ints | None = None
) -> pa.Table:
    """The rows at places start to end in the order, counted with their weights."""
    rows = rows.take(order)
    weight = weights(rows)
    ends = np.cumsum(weight)
    begins = ends - weight
    if key is not None and len(order):
        sorted_key = key[order]
        first = np.append(True, sorted_key[1:] != sorted_key[:-1])
        base = np.repeat(begins[first], np.diff(np.append(np.flatnonzero(first), len(order))))
        begins, ends = begins - base, ends - base
    stop = ends if end is None else np.minimum(ends, end)
    kept = stop - np.maximum(begins, start)
    inside = np.flatnonzero(kept > 0)
    return reweighted(rows.take(inside), kept[inside])


def _size(rows: pa.Table) -> int:
    return int(weights(rows).sum())
