"""γ over change batches: Δγ(R) = a(h(R) ⊗ h(Δ)) - a(h(R)), for the keys that Δ touches.

State: `groups` maps a key to its number of rows, its accumulators and its derived values; each
multiset maps (key, value) to a weight. A key whose number of rows reaches 0 leaves. A derived
value is computed anew only for groups whose multiset changed; a maximum only where it died.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_incr.plan.stages import ROWS, Accumulator, AggregateStage, Derived, Multiset
from spark_incr.plan.types import arrow_schema, arrow_type
from spark_incr.runtime.answers import ANSWERS
from spark_incr.runtime.arrangement import Arrangement, Layout, Located, Snapshot
from spark_incr.runtime.bag import Weights, bag_layout, check_left, merge_bag
from spark_incr.runtime.changes import (
    WEIGHT,
    add,
    empty,
    inserted,
    reweighted,
    weights,
    with_weights,
)
from spark_incr.runtime.columns import (
    Bools,
    Hashes,
    Ints,
    arrays,
    from_values,
    int64_column,
    rows_taken,
    single,
    taken,
    validity,
    values,
)
from spark_incr.runtime.contents import Output
from spark_incr.runtime.derive import DERIVED, Values
from spark_incr.runtime.keys import Groups, canonical, equal_columns, group_rows
from spark_incr.runtime.operators.accumulate import (
    counts_rows,
    grouped_by_number,
    homomorphism,
    spread,
)
from spark_incr.runtime.operators.extreme import follow_extreme
from spark_incr.runtime.sums import MONOIDS, Vector

_EXTREMES = {"max": 1, "min": -1}
_States = Mapping[str, Sequence[Vector]]


@dataclass(frozen=True)
class _Batch:
    """A change of the input: its rows, their groups, and the groups' rows in the state."""

    rows: pa.Table
    groups: Groups
    keys: pa.Table
    hashes: Hashes
    located: Located

    @property
    def count(self) -> int:
        return len(self.hashes)

    def existed(self) -> Bools:
        result = np.zeros(self.count, dtype=np.bool_)
        result[self.located.probe] = True
        return result


@dataclass(frozen=True)
class _MultisetChange:
    """The distinct values of a batch: the group of each, and its weights before and after."""

    rows: pa.Table
    group: Ints
    weights: Weights


class AggregateOperator:
    """Maintains one `AggregateStage`."""

    def __init__(self, stage: AggregateStage, ansi: bool) -> None:
        self.stage = stage
        self.schema = arrow_schema(stage.schema)
        self._ansi = ansi
        self.accumulators = (Accumulator(ROWS, "integer"), *stage.accumulators)
        self.physical = {a.name: _physical_names(a) for a in self.accumulators}
        self._key_schema = pa.schema([self.schema.field(name) for name in stage.keys])
        self.state_schema = pa.schema(
            [
                *self._key_schema,
                *(
                    pa.field(name, pa.from_numpy_dtype(np.dtype(dtype)))
                    for a in self.accumulators
                    for name, dtype in zip(
                        self.physical[a.name], MONOIDS[a.monoid].dtypes, strict=True
                    )
                ),
                *(pa.field(d.name, arrow_type(d.type)) for d in stage.derived),
            ]
        )
        self._groups = Arrangement(Layout(self.state_schema, stage.keys, stage.keys))
        self._multisets = {m.name: Arrangement(self._layout(m)) for m in stage.multisets if m.kept}
        self.arrangements = {"groups": self._groups, **self._multisets}

    @property
    def names(self) -> list[str]:
        """The columns of all accumulators."""
        return [name for a in self.accumulators for name in self.physical[a.name]]

    def by_accumulator(self, vectors: Iterable[Vector]) -> dict[str, list[Vector]]:
        """The values of these columns, accumulator by accumulator."""
        each = iter(vectors)
        return {a.name: [next(each) for _ in self.physical[a.name]] for a in self.accumulators}

    def _layout(self, multiset: Multiset) -> Layout:
        fields = [
            pa.field(name, arrow_type(self.stage.input.type_of(name)))
            for name in self._columns(multiset)
        ]
        return bag_layout(pa.schema(fields), self.stage.keys)

    def _columns(self, multiset: Multiset) -> list[str]:
        """The columns of a multiset: the lineage, then the values that are not part of it."""
        return list(dict.fromkeys([*self.stage.keys, *multiset.values]))

    def apply(self, changes: pa.Table) -> pa.Table:
        """The change of the aggregate for a change of its input."""
        snapshot = self._groups.snapshot()
        starting = self.stage.scalar and not snapshot.runs
        if changes.num_rows == 0 and not starting:
            return empty(self.schema)
        batch = self._batch(changes, snapshot)
        multisets = {m.name: self._merge_multiset(m, batch) for m in self.stage.multisets}
        return self._follow(batch, snapshot, self._deltas(batch, multisets), multisets)

    def apply_partial(self, parts: Sequence[pa.Table]) -> pa.Table:
        """The change of the aggregate for partial states of its groups, each with a weight."""
        snapshot = self._groups.snapshot()
        starting = self.stage.scalar and not snapshot.runs
        if not any(part.num_rows for part in parts) and not starting:
            return empty(self.schema)
        states = self._summed(parts) if self._sums_in_arrow else add(parts)
        batch = self._batch(states, snapshot)
        deltas: dict[str, list[Vector]] = {}
        for accumulator in self.accumulators:
            vectors = [values(c) for c in arrays(states, self.physical[accumulator.name])]
            total = MONOIDS[accumulator.monoid].weighted_total
            assert total is not None
            deltas[accumulator.name] = _padded(total(vectors, weights(states), batch.groups), batch)
        return self._follow(batch, snapshot, deltas, {})

    @property
    def _sums_in_arrow(self) -> bool:
        """Whether Arrow's own grouping is ours: keys of one bit pattern each, sums of 64 bits."""
        kinds = [field.type for field in self._key_schema]
        plain = not any(pa.types.is_floating(k) or pa.types.is_nested(k) for k in kinds)
        return bool(kinds) and plain and all(a.monoid == "integer" for a in self.accumulators)

    def _summed(self, parts: Sequence[pa.Table]) -> pa.Table:
        """One state per group, of weight 1: the sum of its states times their weights."""
        keys = self.stage.keys
        names = [self.physical[a.name][0] for a in self.accumulators]
        tables = []
        for part in parts:
            weight = weights(part)
            states = arrays(part, names)
            if not (weight == 1).all():
                states = [int64_column(values(c) * weight) for c in states]
            columns = [*arrays(part, keys), *states]
            tables.append(pa.Table.from_arrays(columns, names=[*keys, *names]))
        summed = _dense_sums(tables) if len(keys) == 1 else None
        if summed is None:
            grouped = pa.concat_tables(tables).group_by(list(keys), use_threads=False)
            total = grouped.aggregate([(name, "sum") for name in names])
            summed = arrays(total, [*keys, *(f"{name}_sum" for name in names)])
        return inserted(pa.Table.from_arrays(summed, names=[*keys, *names]))

    def _follow(
        self,
        batch: _Batch,
        snapshot: Snapshot,
        deltas: _States,
        multisets: Mapping[str, _MultisetChange],
    ) -> pa.Table:
        """The change of the answers once the state has taken the change of the groups."""
        before = self._stored(batch, snapshot)
        after = {
            a.name: MONOIDS[a.monoid].merge(before[a.name], deltas[a.name])
            for a in self.accumulators
        }
        old_derived = dict(zip(self._derived, self._old_derived(batch, snapshot), strict=True))
        new_derived = {
            d.name: self._derive(d, old_derived[d.name], multisets[d.multiset], batch)
            for d in self.stage.derived
        }
        existed, exists = batch.existed(), self._exist(after)
        self._store(batch, after, new_derived, exists)
        keys = arrays(batch.keys, self.stage.keys)
        old = self._answers(keys, before, old_derived)
        new = self._answers(keys, after, new_derived)
        same = existed & exists & equal_columns(old, new, batch.count)
        return add(
            [
                _weighted(old, self.schema, existed & ~same, -1),
                _weighted(new, self.schema, exists & ~same, 1),
            ]
        )

    def _batch(self, changes: pa.Table, snapshot: Snapshot) -> _Batch:
        changes = changes if self.stage.exact else _as_grouped(changes, self.stage.keys)
        columns = arrays(changes, self.stage.keys)
        groups = group_rows(columns, changes.num_rows)
        keys = pa.Table.from_arrays(
            [taken(c, groups.first) for c in columns], schema=self._key_schema
        )
        hashes = np.zeros(1, dtype=np.uint64) if self.stage.scalar else groups.hashes
        return _Batch(changes, groups, keys, hashes, snapshot.find(keys, hashes))

    def _exist(self, after: _States) -> Bools:
        count = after[ROWS][0]
        check_left(count)
        return np.ones(len(count), np.bool_) if self.stage.scalar else count > 0

    # Accumulators

    def _stored(self, batch: _Batch, snapshot: Snapshot) -> dict[str, list[Vector]]:
        gathered = snapshot.gather(batch.located, self.names)
        vectors = spread([values(c) for c in gathered], batch.located.probe, batch.count)
        return self.by_accumulator(vectors)

    def _deltas(
        self, batch: _Batch, multisets: Mapping[str, _MultisetChange]
    ) -> dict[str, list[Vector]]:
        """h(Δ)."""
        weight = weights(batch.rows)
        result: dict[str, list[Vector]] = {}
        for accumulator in self.accumulators:
            if result and counts_rows(accumulator, batch.rows):
                delta = result[ROWS]
            elif accumulator.multiset is not None:
                change = multisets[accumulator.multiset]
                turned = np.sign(change.weights.after) - np.sign(change.weights.before)
                numbers, groups = grouped_by_number(change.group)
                partial = homomorphism(accumulator, change.rows, turned, groups)
                delta = spread(partial, numbers, batch.count)
            else:
                delta = _padded(homomorphism(accumulator, batch.rows, weight, batch.groups), batch)
            result[accumulator.name] = delta
        return result

    # Multisets

    def _merge_multiset(self, multiset: Multiset, batch: _Batch) -> _MultisetChange:
        names = self._columns(multiset)
        row = np.arange(batch.rows.num_rows)
        if multiset.condition is not None:
            condition = single(batch.rows.column(multiset.condition))
            valid = validity(condition)
            row = np.flatnonzero(values(condition) if valid is None else values(condition) & valid)
        rows = rows_taken(batch.rows.select([*names, WEIGHT]), row)
        if multiset.grouped:
            rows = _as_grouped(rows, multiset.values)
        distinct = group_rows(arrays(rows, names), rows.num_rows)
        total = distinct.total(weights(rows))
        kept = np.flatnonzero(total)
        first = distinct.first[kept]
        rows = reweighted(rows_taken(rows, first), total[kept])
        group = batch.groups.of_rows()[row[first]]
        if not multiset.kept:
            return _MultisetChange(rows, group, Weights(np.zeros_like(total[kept]), total[kept]))
        merged = merge_bag(self._multisets[multiset.name], rows)
        check_left(merged.after)
        return _MultisetChange(rows, group, merged)

    @property
    def _derived(self) -> list[str]:
        return [d.name for d in self.stage.derived]

    def _old_derived(self, batch: _Batch, snapshot: Snapshot) -> list[pa.Array]:
        return snapshot.aligned(batch.located, self._derived, batch.count)

    def _derive(
        self, derived: Derived, old: pa.Array, change: _MultisetChange, batch: _Batch
    ) -> pa.Array:
        multiset = next(m for m in self.stage.multisets if m.name == derived.multiset)
        if derived.function in _EXTREMES:
            value = single(change.rows.column(multiset.values[0]))
            sign = _EXTREMES[derived.function]
            old, touched = follow_extreme(sign, old, value, change.group, change.weights)
        else:
            # A group that comes into being has a value even where none of its rows count.
            touched = np.union1d(change.group, np.flatnonzero(~batch.existed()))
        if not len(touched):
            return old
        anew = self._derive_anew(derived, multiset, batch.keys, touched)
        index = np.arange(batch.count)
        index[touched] = batch.count + np.arange(len(touched))
        return pa.concat_arrays([old, anew]).take(index)

    def _derive_anew(
        self, derived: Derived, multiset: Multiset, keys: pa.Table, touched: Ints
    ) -> pa.Array:
        snapshot = self._multisets[multiset.name].snapshot()
        lineage = [taken(k, touched) for k in arrays(keys, self.stage.keys)]
        located = snapshot.find_lineage(lineage, len(touched))
        columns = snapshot.gather(located, [*multiset.values, WEIGHT])
        order = np.argsort(located.probe, kind="stable")
        data = Values(
            located.probe[order],
            [taken(c, order) for c in columns[:-1]],
            values(columns[-1])[order],
            len(touched),
        )
        return DERIVED[derived.function](
            data, self.state_schema.field(derived.name).type, derived.parameters
        )

    # State and answers

    def _store(
        self, batch: _Batch, after: _States, derived: Mapping[str, pa.Array], exists: Bools
    ) -> None:
        columns = [
            *batch.keys.columns,
            *(
                from_values(vector, None, pa.from_numpy_dtype(vector.dtype))
                for a in self.accumulators
                for vector in after[a.name]
            ),
            *(derived[name] for name in self._derived),
        ]
        rows = pa.Table.from_arrays(columns, schema=self.state_schema)
        hashes = batch.hashes
        if not exists.all():
            kept = np.flatnonzero(exists)
            rows, hashes = rows_taken(rows, kept), hashes[kept]
        self._groups.replace(batch.located, rows, hashes)

    @property
    def output(self) -> Output:
        """The groups, read as the rows that they answer with."""
        used = {name for answer in self.stage.answers for name in answer.inputs}
        columns = [
            name for a in self.accumulators if a.name in used for name in self.physical[a.name]
        ]
        derived = [name for name in self._derived if name in used]
        return Output(self._groups, (*self.stage.keys, *columns, *derived), self._answer)

    def _answer(self, groups: pa.Table) -> pa.Table:
        state = {
            a.name: [values(c) for c in arrays(groups, self.physical[a.name])]
            for a in self.accumulators
            if self.physical[a.name][0] in groups.column_names
        }
        derived = {
            name: single(groups.column(name))
            for name in self._derived
            if name in groups.column_names
        }
        answers = self._answers(arrays(groups, self.stage.keys), state, derived)
        return pa.Table.from_arrays(answers, schema=self.schema)

    def _answers(
        self, keys: list[pa.Array], state: _States, derived: Mapping[str, pa.Array]
    ) -> list[pa.Array]:
        """The output columns: keys, then answers."""
        result = list(keys)
        for answer in self.stage.answers:
            if answer.function == "derived":
                result.append(derived[answer.inputs[0]])
            else:
                inputs = [state[name] for name in answer.inputs]
                result.append(ANSWERS[answer.function](answer, inputs, self._ansi))
        return result


def _dense_sums(parts: Sequence[pa.Table]) -> list[pa.Array] | None:
    """The first columns of tables, each value once, and the sums of the others for each.

    None, if the values are no whole numbers that lie close together.

    >>> part = pa.table({"key": [7, 5, 7], "state": [1, 2, 3]})
    >>> [c.to_pylist() for c in _dense_sums([part, part.slice(1, 1)])]
    [[5, 7], [4, 4]]
    """
    parts = [part for part in parts if part.num_rows]
    keys = [single(part.column(0)) for part in parts]
    if not keys or not pa.types.is_integer(keys[0].type) or any(key.null_count for key in keys):
        return None
    numbers = [values(key).astype(np.int64) for key in keys]
    low, high = min(int(n.min()) for n in numbers), max(int(n.max()) for n in numbers)
    if high - low > 2 * sum(len(n) for n in numbers):
        return None
    seen = np.zeros(high - low + 1, dtype=np.bool_)
    totals = [np.zeros(len(seen), dtype=np.int64) for _ in parts[0].column_names[1:]]
    for number, part in zip(numbers, parts, strict=True):
        place = number - low
        seen[place] = True
        for total, state in zip(totals, part.columns[1:], strict=True):
            np.add.at(total, place, values(single(state)))
    kept = np.flatnonzero(seen)
    sums = [int64_column(total[kept]) for total in totals]
    return [from_values(kept + low, None, keys[0].type), *sums]


def _padded(vectors: list[Vector], batch: _Batch) -> list[Vector]:
    """One value per group of the batch; the group of a scalar aggregate is there without rows."""
    if batch.groups.count == batch.count:
        return vectors
    return spread(vectors, np.arange(batch.groups.count), batch.count)


def _as_grouped(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows with the named columns as GROUP BY sees them."""
    for name in names:
        column = single(rows.column(name))
        clean = canonical(column)
        if clean is not column:
            rows = rows.set_column(rows.schema.get_field_index(name), name, clean)
    return rows


def _physical_names(accumulator: Accumulator) -> list[str]:
    width = len(MONOIDS[accumulator.monoid].dtypes)
    if width == 1:
        return [accumulator.name]
    return [f"{accumulator.name}.{i}" for i in range(width)]


def _weighted(columns: Sequence[pa.Array], schema: pa.Schema, keep: Bools, weight: int) -> pa.Table:
    """The rows to keep, each with the weight; there may be rows where there are no columns."""
    at = np.flatnonzero(keep)
    kept = list(columns) if len(at) == len(keep) else [taken(c, at) for c in columns]
    rows = pa.Table.from_arrays(kept, schema=schema)
    return with_weights(rows, np.full(len(at), weight, dtype=np.int64))
