"""The first rows in an order, under changes.

All rows are kept as a bag, and the first of them, a few more than are asked for, as the `head`: no
row outside the head comes before one inside it. A batch changes the head alone, unless so many of
its rows have left that it is shorter than the result; then it is filled again from the bag. The
head holds twice what is needed, so at least that many rows leave between two fillings.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_incr.plan.nodes import Limit
from spark_incr.plan.types import arrow_schema
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.bag import add_to_bag, bag_layout
from spark_incr.runtime.changes import (
    add,
    consolidate,
    empty,
    negate,
    reweighted,
    weights,
)
from spark_incr.runtime.columns import Ints, single
from spark_incr.runtime.order import dense_ranks

_SPARE = 1_000


class LimitOperator:
    """Maintains one `Limit`."""

    def __init__(self, node: Limit) -> None:
        self.schema = arrow_schema(node.schema)
        self._node = node
        names = tuple(self.schema.names)
        self._rows = Arrangement(bag_layout(self.schema, names))
        self._head = Arrangement(bag_layout(self.schema, names))
        self.arrangements = {"rows": self._rows, "head": self._head}

    @property
    def _needed(self) -> int | None:
        limit = self._node.limit
        return None if limit is None else limit + self._node.offset

    def apply(self, changes: pa.Table) -> pa.Table:
        """The change of the first rows for a change of all rows."""
        changes = consolidate(changes)
        if changes.num_rows == 0:
            return empty(self.schema)
        before = self._result(self._content(self._head))
        head = self._content(self._head)
        complete = _size(head) == _size(self._content(self._rows))
        add_to_bag(self._rows, changes)
        head = self._follow(head, changes, complete)
        needed = self._needed
        if needed is not None and _size(head) < needed and not complete:
            head = self._content(self._rows)
            complete = True
        if needed is not None and _size(head) > 2 * needed + 2 * _SPARE:
            head = self._slice(head, 0, 2 * needed + _SPARE)
        self._replace_head(head)
        return consolidate(add([negate(before), self._result(head)]))

    def _follow(self, head: pa.Table, changes: pa.Table, complete: bool) -> pa.Table:
        """The head after a batch: what belongs before its last row comes in, the rest stays out."""
        if not complete and head.num_rows:
            both = add([changes, head])
            order = self._order(both)
            place = np.empty(len(order), dtype=np.int64)
            place[order] = np.arange(len(order))
            last = place[changes.num_rows :].max()
            changes = changes.take(np.flatnonzero(place[: changes.num_rows] <= last))
        elif not complete:
            changes = changes.slice(0, 0)
        return consolidate(add([head, changes]))

    def _result(self, head: pa.Table) -> pa.Table:
        limit = self._node.limit
        end = None if limit is None else self._node.offset + limit
        return self._slice(head, self._node.offset, end)

    def _slice(self, rows: pa.Table, start: int, end: int | None) -> pa.Table:
        """The rows at places start to end in the order, counted with their weights."""
        order = self._order(rows)
        rows = rows.take(order)
        ends = np.cumsum(weights(rows))
        begins = ends - weights(rows)
        last = int(ends[-1]) if len(ends) else 0
        stop = last if end is None else min(end, last)
        kept = np.minimum(ends, stop) - np.maximum(begins, start)
        inside = np.flatnonzero(kept > 0)
        return reweighted(rows.take(inside), kept[inside])

    def _order(self, rows: pa.Table) -> Ints:
        keys: list[Ints] = []
        for key in self._node.order:
            ranks = dense_ranks(single(rows.column(key.column)))
            null = ranks < 0
            ranks = -ranks if key.descending else ranks
            extreme = ranks.min(initial=0) - 1 if key.nulls_first else ranks.max(initial=0) + 1
            keys.append(np.where(null, extreme, ranks))
        keys += [dense_ranks(single(rows.column(name))) for name in self.schema.names]
        return np.lexsort(tuple(reversed(keys))) if keys else np.arange(rows.num_rows)

    def _content(self, bag: Arrangement) -> pa.Table:
        return bag.snapshot().rows().combine_chunks()

    def _replace_head(self, head: pa.Table) -> None:
        change = consolidate(add([negate(self._content(self._head)), head]))
        add_to_bag(self._head, change)


def _size(rows: pa.Table) -> int:
    return int(weights(rows).sum())
