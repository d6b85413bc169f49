"""γ over a join whose aggregated columns all come from one side: that side is folded first.

    Δh(L ⋈ R) = (L + ΔL) ⋈ h(ΔR)  +  ΔL ⋈ h(R)

The two terms read different states and are computed side by side. R is kept as one partial state per
key (see `plan.folding`), L as rows; a pair brings the state times the weight of the row.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from spark_incr.plan.folding import Fold
from spark_incr.plan.nodes import Node
from spark_incr.plan.stages import ROWS, AggregateStage
from spark_incr.plan.types import arrow_type
from spark_incr.runtime.arrangement import Arrangement, Layout
from spark_incr.runtime.bag import check_left
from spark_incr.runtime.changes import weights, with_weights
from spark_incr.runtime.columns import Ints, arrays, from_values, rows_taken, taken, values
from spark_incr.runtime.keys import group_rows
from spark_incr.runtime.operators.accumulate import homomorphism, spread
from spark_incr.runtime.operators.aggregate import AggregateOperator
from spark_incr.runtime.operators.join import Side, with_present
from spark_incr.runtime.sums import MONOIDS, Vector


class FoldedJoinOperator:
    """Maintains an `AggregateStage` together with the `Join` below it."""

    def __init__(
        self, stage: AggregateStage, fold: Fold, ansi: bool, tables: Mapping[str, Arrangement]
    ) -> None:
        self._aggregate = AggregateOperator(stage, ansi)
        self.schema = self._aggregate.schema
        self.output = self._aggregate.output
        self._accumulators = self._aggregate.accumulators
        self._physical = self._aggregate.names
        self._right = fold.right
        self._rows = Side(fold.rows, fold.row_keys, fold.join.null_safe, False, tables)
        self._lineage, self._keys = list(fold.lineage), list(fold.keys)
        null_safe = zip(self._lineage, fold.join.null_safe, strict=True)
        self._never_null = [key for key, safe in null_safe if not safe]
        self._state = Arrangement(self._layout(fold.folded))
        self._own = [k for k in stage.keys if k in fold.rows.names]
        self._others = [k for k in stage.keys if k not in fold.rows.names]
        names = ("left", "right") if self._right else ("right", "left")
        self.shared = {names[0]: self._rows.shared} if self._rows.shared else {}
        self.arrangements = {
            **({} if self.shared else {names[0]: self._rows.bag}),
            f"folded {names[1]}": self._state,
            **self._aggregate.arrangements,
        }

    def _layout(self, folded: Node) -> Layout:
        state = self._aggregate.state_schema
        fields = [pa.field(key, arrow_type(folded.type_of(key))) for key in self._keys]
        schema = pa.schema([*fields, *(state.field(name) for name in self._physical)])
        return Layout(schema, tuple(self._lineage), tuple(self._keys))

    def apply(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """The change of the aggregate for changes of both sides of the join."""
        rows, folded = (left, right) if self._right else (right, left)
        changes = self._rows.prepare(rows)
        self._rows.add(changes)
        states = self._fold(with_present(folded, self._never_null))
        pairs = [self._states_with_rows(states), self._rows_with_states(changes.rows, states)]
        return self._aggregate.apply_partial(pairs)

    def without_shared(self, left: pa.Table, right: pa.Table) -> list[pa.Table]:
        """The changes without those of a side that is shared."""
        rows, folded = (left, right) if self._right else (right, left)
        rows = rows.slice(0, 0) if self._rows.shared else rows
        return [rows, folded] if self._right else [folded, rows]

    def _fold(self, changes: pa.Table) -> pa.Table:
        """h(ΔR) per key."""
        columns = arrays(changes, self._keys)
        groups = group_rows(columns, changes.num_rows)
        weight = weights(changes)
        vectors = [
            vector
            for accumulator in self._accumulators
            for vector in homomorphism(accumulator, changes, weight, groups)
        ]
        keys = [taken(c, groups.first) for c in columns]
        return self._states(keys, vectors)

    def _states(self, keys: list[pa.Array], vectors: list[Vector]) -> pa.Table:
        columns = [from_values(v, None, pa.from_numpy_dtype(v.dtype)) for v in vectors]
        return pa.Table.from_arrays([*keys, *columns], schema=self._state.layout.schema)

    def _rows_with_states(self, rows: pa.Table, delta: pa.Table) -> pa.Table:
        """ΔL ⋈ h(R); then h(ΔR) is merged."""
        snapshot = self._state.snapshot()
        located = snapshot.find_lineage(arrays(rows, self._rows.lineage), rows.num_rows)
        own = [taken(c, located.probe) for c in arrays(rows, self._own)]
        states = snapshot.gather(located, [*self._others, *self._physical])
        self._merge(delta)
        return self._pairs(own, states, weights(rows)[located.probe])

    def _states_with_rows(self, states: pa.Table) -> pa.Table:
        """(L + ΔL) ⋈ h(ΔR)."""
        keys = arrays(states, self._lineage)
        matches = self._rows.matching(keys, states.num_rows, self._own)
        columns = arrays(states, [*self._others, *self._physical])
        joined = [taken(c, matches.probe) for c in columns]
        return self._pairs(matches.columns, joined, matches.weights)

    def _pairs(self, own: list[pa.Array], states: list[pa.Array], weight: Ints) -> pa.Table:
        names = [*self._own, *self._others, *self._physical]
        return with_weights(pa.Table.from_arrays([*own, *states], names=names), weight)

    def _merge(self, delta: pa.Table) -> None:
        """h(R) ⊗ h(ΔR)."""
        if not delta.num_rows:
            return
        snapshot = self._state.snapshot()
        hashes = self._state.layout.hashes(delta)
        located = snapshot.find(delta, hashes)
        stored = [values(c) for c in snapshot.gather(located, self._physical)]
        before = self._aggregate.by_accumulator(spread(stored, located.probe, delta.num_rows))
        change = self._aggregate.by_accumulator(map(values, arrays(delta, self._physical)))
        after = {
            a.name: MONOIDS[a.monoid].merge(before[a.name], change[a.name])
            for a in self._accumulators
        }
        count = after[ROWS][0]
        check_left(count)
        vectors = [vector for a in self._accumulators for vector in after[a.name]]
        rows, kept = self._states(arrays(delta, self._keys), vectors), np.flatnonzero(count)
        self._state.replace(located, rows_taken(rows, kept), hashes[kept])
