"""⋈ over change batches: Δ(L ⋈ R) = ΔL ⋈ R + (L + ΔL) ⋈ ΔR.

Both sides are kept as bags indexed by the join key, so a batch costs what it matches. Rows with a
NULL in the key match nothing and are not kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from spark_incr.plan.nodes import Join, Node
from spark_incr.plan.types import arrow_schema, contains_float
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.bag import bag_layout, merge_bag
from spark_incr.runtime.changes import WEIGHT, add, consolidate, empty, weights, with_weights
from spark_incr.runtime.columns import arrays, from_values, single, validity, values
from spark_incr.runtime.keys import canonical

_KEY = "__incr_key_{}"


class JoinOperator:
    """Maintains one `Join`."""

    def __init__(self, join: Join) -> None:
        self.schema = arrow_schema(join.schema)
        self._left = _Side(join.left, [a for a, _ in join.keys])
        self._right = _Side(join.right, [b for _, b in join.keys])
        self.arrangements = {"left": self._left.bag, "right": self._right.bag}

    def apply(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """The change of the join for changes of its sides."""
        left, right = self._left.prepare(left), self._right.prepare(right)
        results = [self._probe(left, self._left, self._right)]
        merge_bag(self._left.bag, left)
        results.append(self._probe(right, self._right, self._left))
        merge_bag(self._right.bag, right)
        return add(results)

    def _probe(self, changes: pa.Table, own: _Side, other: _Side) -> pa.Table:
        if changes.num_rows == 0 or not other.bag.runs:
            return empty(self.schema)
        snapshot = other.bag.snapshot()
        located = snapshot.find_lineage(arrays(changes, own.lineage), changes.num_rows)
        matched = snapshot.gather(located, [*other.columns, WEIGHT])
        columns = dict(zip(other.columns, matched, strict=False))
        for name in own.columns:
            columns[name] = single(changes.column(name)).take(located.probe)
        rows = pa.Table.from_arrays([columns[n] for n in self.schema.names], schema=self.schema)
        return with_weights(rows, weights(changes)[located.probe] * values(matched[-1]))


class _Side:
    """One input of a join: its bag, and the columns by which it is looked up."""

    def __init__(self, node: Node, keys: Sequence[str]) -> None:
        self.columns = list(node.names)
        self._keys = keys
        # A float key is looked up as Spark compares it; the row keeps the value as it is.
        self._clean = {
            k: _KEY.format(i) for i, k in enumerate(keys) if contains_float(node.type_of(k))
        }
        self.lineage = [self._clean.get(k, k) for k in keys]
        schema = arrow_schema(node.schema)
        for key, name in self._clean.items():
            schema = schema.append(pa.field(name, schema.field(key).type))
        lineage = tuple(dict.fromkeys(self.lineage))
        self.bag = Arrangement(bag_layout(schema, lineage))

    def prepare(self, changes: pa.Table) -> pa.Table:
        """The rows that can match, with their keys, consolidated."""
        keep = np.ones(changes.num_rows, dtype=np.bool_)
        for key in self._keys:
            valid = validity(single(changes.column(key)))
            if valid is not None:
                keep &= valid
        if not keep.all():
            changes = changes.filter(from_values(keep, None, pa.bool_()))
        for key, name in self._clean.items():
            changes = changes.append_column(name, canonical(single(changes.column(key))))
        return consolidate(changes)
