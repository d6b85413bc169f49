"""γ over change batches: Δγ(R) = a(h(R) ⊗ h(Δ)) - a(h(R)), for the keys that Δ touches.

State: `groups` maps a key to its number of rows, its accumulators and its derived values; each
multiset maps (key, value) to a weight. A key whose number of rows reaches 0 leaves. A derived
value is computed anew only for groups whose multiset changed; a maximum only where it died.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_incr.plan.stages import ROWS, Accumulator, AggregateStage, Derived, Multiset
from spark_incr.plan.types import arrow_schema, arrow_type
from spark_incr.runtime.answers import ANSWERS
from spark_incr.runtime.arrangement import Arrangement, Layout, Located, scatter
from spark_incr.runtime.bag import Weights, bag_layout, merge_bag
from spark_incr.runtime.changes import WEIGHT, add, deleted, empty, inserted, weights
from spark_incr.runtime.columns import (
    Bools,
    Ints,
    arrays,
    from_values,
    int64_column,
    single,
    validity,
    values,
)
from spark_incr.runtime.derive import DERIVED, Values
from spark_incr.runtime.keys import Groups, canonical, equal_columns, group_rows
from spark_incr.runtime.order import dense_ranks
from spark_incr.runtime.sums import MONOIDS, Vector

_EXTREMES = {"max": 1, "min": -1}


@dataclass(frozen=True)
class _MultisetChange:
    """The distinct values of a batch: the group and row of each, and its weights."""

    table: pa.Table
    group: Ints
    weights: Weights


class AggregateOperator:
    """Maintains one `AggregateStage`."""

    def __init__(self, stage: AggregateStage, ansi: bool) -> None:
        self.stage = stage
        self.ansi = ansi
        self.schema = arrow_schema(stage.schema)
        key_fields = [self.schema.field(name) for name in stage.keys]
        self._plain = {a.name: _physical_names(a) for a in self._accumulators()}
        state_fields = [
            pa.field(name, pa.from_numpy_dtype(np.dtype(dtype)))
            for a in self._accumulators()
            for name, dtype in zip(self._plain[a.name], MONOIDS[a.monoid].dtypes, strict=True)
        ]
        derived_fields = [pa.field(d.name, arrow_type(d.type)) for d in stage.derived]
        self._state_schema = pa.schema(key_fields + state_fields + derived_fields)
        layout = Layout(self._state_schema, stage.keys, stage.keys)
        self.arrangements: dict[str, Arrangement] = {"groups": Arrangement(layout)}
        for multiset in stage.multisets:
            fields = [
                pa.field(n, arrow_type(stage.input.type_of(n))) for n in _columns(stage, multiset)
            ]
            self.arrangements[multiset.name] = Arrangement(
                bag_layout(pa.schema(fields), stage.keys)
            )

    def _accumulators(self) -> tuple[Accumulator, ...]:
        return (Accumulator(ROWS, "integer"), *self.stage.accumulators)

    def apply(self, changes: pa.Table) -> pa.Table:
        """The change of the aggregate for a change of its input."""
        groups_state = self.arrangements["groups"]
        starting = self.stage.scalar and not groups_state.snapshot().count()
        if changes.num_rows == 0 and not starting:
            return empty(self.schema)
        keyed = _with_canonical_keys(changes, self.stage.keys)
        keys = arrays(keyed, self.stage.keys)
        groups = group_rows(keys, changes.num_rows)
        if starting and groups.count == 0:
            groups = Groups(groups.order, np.zeros(0, np.int64), np.zeros(1, np.uint64))
        count = 1 if self.stage.scalar else groups.count

        key_rows = pa.Table.from_arrays(
            [k.take(groups.first) for k in keys] if keys else [],
            schema=pa.schema([self._state_schema.field(n) for n in self.stage.keys]),
        )
        snapshot = groups_state.snapshot()
        hashes = groups.hashes
        located = (
            snapshot.find(key_rows, hashes)
            if keys or groups.count
            else Located(*(np.zeros(0, np.int64),) * 3)
        )
        if self.stage.scalar:
            located = snapshot.find(key_rows, _scalar_hash())
        existed = np.zeros(count, dtype=np.bool_)
        existed[located.probe] = True

        multisets = {m.name: self._merge_multiset(m, keyed, groups) for m in self.stage.multisets}
        before, after = self._merge_accumulators(keyed, groups, count, snapshot, located, multisets)
        rows_after = after[ROWS][0]
        assert (rows_after >= 0).all(), "a row was taken out that was not there"
        exists = np.ones(count, np.bool_) if self.stage.scalar else rows_after > 0

        old_derived = dict(
            zip(
                [d.name for d in self.stage.derived],
                snapshot.aligned(located, [d.name for d in self.stage.derived], count),
                strict=True,
            )
        )
        new_derived = {
            d.name: self._derive(d, old_derived[d.name], multisets[d.multiset], key_rows, existed)
            for d in self.stage.derived
        }
        self._store(located, key_rows, hashes, after, new_derived, exists)
        old = self._answers(key_rows, before, old_derived)
        new = self._answers(key_rows, after, new_derived)
        same = existed & exists & equal_columns(old.columns, new.columns, count)
        return add(
            [
                deleted(_rows(old, self.schema, existed & ~same)),
                inserted(_rows(new, self.schema, exists & ~same)),
            ]
        )

    def _merge_multiset(
        self, multiset: Multiset, keyed: pa.Table, groups: Groups
    ) -> _MultisetChange:
        names = _columns(self.stage, multiset)
        rows = np.arange(keyed.num_rows)
        table = keyed.select([*names, WEIGHT])
        if multiset.condition is not None:
            condition = single(keyed.column(multiset.condition))
            valid = validity(condition)
            keep = values(condition) if valid is None else values(condition) & valid
            rows = np.flatnonzero(keep)
            table = table.take(rows)
        distinct = group_rows(arrays(table, names), table.num_rows)
        total = distinct.total(weights(table))
        keep_groups = np.flatnonzero(total)
        first = distinct.first[keep_groups]
        table = table.take(first)
        table = table.set_column(len(names), WEIGHT, int64_column(total[keep_groups]))
        merged = merge_bag(self.arrangements[multiset.name], table)
        group = np.zeros(0, np.int64)
        if table.num_rows:
            group = (
                np.zeros(table.num_rows, np.int64)
                if self.stage.scalar
                else groups.of_rows()[rows[first]]
            )
        return _MultisetChange(table, group, merged)

    def _merge_accumulators(
        self,
        keyed: pa.Table,
        groups: Groups,
        count: int,
        snapshot: object,
        located: Located,
        multisets: Mapping[str, _MultisetChange],
    ) -> tuple[dict[str, list[Vector]], dict[str, list[Vector]]]:
        before: dict[str, list[Vector]] = {}
        after: dict[str, list[Vector]] = {}
        names = [n for a in self._accumulators() for n in self._plain[a.name]]
        gathered = self.arrangements["groups"].snapshot().gather(located, names)
        stored: dict[str, Vector] = {}
        for name, column in zip(names, gathered, strict=True):
            data = values(column)
            full = np.zeros(count, dtype=data.dtype)
            full[located.probe] = data
            stored[name] = full
        own_weights = weights(keyed)
        for accumulator in self._accumulators():
            monoid = MONOIDS[accumulator.monoid]
            before[accumulator.name] = [stored[n] for n in self._plain[accumulator.name]]
            if accumulator.multiset is None and _counts_rows(accumulator, keyed) and after:
                delta = rows_delta
            elif accumulator.multiset is None:
                delta = _homomorphism(accumulator, keyed, own_weights, groups, count)
            else:
                change = multisets[accumulator.multiset]
                turned = (change.weights.after > 0).astype(np.int64) - (
                    change.weights.before > 0
                ).astype(np.int64)
                ids, sub = _by_number(change.group)
                partial = _homomorphism(accumulator, change.table, turned, sub, len(ids))
                delta = []
                for part in partial:
                    full = np.zeros(count, dtype=part.dtype)
                    full[ids] = part
                    delta.append(full)
            if accumulator.name == ROWS:
                rows_delta = delta
            after[accumulator.name] = monoid.merge(before[accumulator.name], delta)
        return before, after

    def _derive(
        self,
        derived: Derived,
        old: pa.Array,
        change: _MultisetChange,
        keys: pa.Table,
        existed: Bools,
    ) -> pa.Array:
        count = len(existed)
        if derived.function in _EXTREMES:
            value = single(change.table.column(self._multiset(derived).values[0]))
            old, touched = _extreme(_EXTREMES[derived.function], old, value, change, count)
        else:
            # A group that comes into being has a value even where none of its rows count.
            touched = np.union1d(change.group, np.flatnonzero(~existed))
        if not len(touched):
            return old
        derived_now = self._derive_anew(derived, keys, touched)
        if len(touched) == count:
            return derived_now
        index = np.arange(count)
        index[touched] = count + np.arange(len(touched))
        return pa.concat_arrays([old, derived_now]).take(index)

    def _multiset(self, derived: Derived) -> Multiset:
        return next(m for m in self.stage.multisets if m.name == derived.multiset)

    def _derive_anew(self, derived: Derived, keys: pa.Table, touched: Ints) -> pa.Array:
        multiset = self._multiset(derived)
        snapshot = self.arrangements[multiset.name].snapshot()
        lineage = [k.take(touched) for k in arrays(keys, self.stage.keys)]
        located = snapshot.find_lineage(lineage, len(touched))
        columns = snapshot.gather(located, [*multiset.values, WEIGHT])
        order = np.argsort(located.probe, kind="stable")
        data = Values(
            located.probe[order],
            [c.take(order) for c in columns[:-1]],
            values(columns[-1])[order],
            len(touched),
        )
        kind = arrow_type(derived.type)
        assert kind is not None
        return DERIVED[derived.function](data, kind, derived.parameters)

    def _store(
        self,
        located: Located,
        key_rows: pa.Table,
        hashes: Ints,
        after: Mapping[str, Sequence[Vector]],
        derived: Mapping[str, pa.Array],
        exists: Bools,
    ) -> None:
        columns = [
            *key_rows.columns,
            *(
                from_values(v, None, pa.from_numpy_dtype(v.dtype))
                for a in self._accumulators()
                for v in after[a.name]
            ),
            *(derived[d.name] for d in self.stage.derived),
        ]
        rows = pa.Table.from_arrays(columns, schema=self._state_schema)
        hashes = _scalar_hash() if self.stage.scalar else hashes
        if not exists.all():
            kept = np.flatnonzero(exists)
            rows, hashes = rows.take(kept), hashes[kept]
        self.arrangements["groups"].replace(located, rows, hashes)

    def _answers(
        self,
        key_rows: pa.Table,
        state: Mapping[str, Sequence[Vector]],
        derived: Mapping[str, pa.Array],
    ) -> pa.Table:
        columns = []
        for name in self.schema.names:
            if name in self.stage.keys:
                columns.append(single(key_rows.column(name)))
        for answer in self.stage.answers:
            if answer.function == "derived":
                columns.append(derived[answer.inputs[0]])
            else:
                columns.append(
                    ANSWERS[answer.function](answer, [state[i] for i in answer.inputs], self.ansi)
                )
        return _Rows(columns)


@dataclass(frozen=True)
class _Rows:
    """Answer columns, keys first."""

    columns: list[pa.Array]


def _rows(rows: _Rows, schema: pa.Schema, keep: Bools) -> pa.Table:
    at = np.flatnonzero(keep)
    if len(at) == len(keep):
        return pa.Table.from_arrays(rows.columns, schema=schema)
    return pa.Table.from_arrays([c.take(at) for c in rows.columns], schema=schema)


def _scalar_hash() -> Ints:
    return np.zeros(1, dtype=np.uint64)  # type: ignore[return-value]


def _physical_names(accumulator: Accumulator) -> list[str]:
    width = len(MONOIDS[accumulator.monoid].dtypes)
    if width == 1:
        return [accumulator.name]
    return [f"{accumulator.name}.{i}" for i in range(width)]


def _columns(stage: AggregateStage, multiset: Multiset) -> list[str]:
    """The columns of a multiset: the lineage, then the values that are not part of it."""
    return [*stage.keys, *(v for v in dict.fromkeys(multiset.values) if v not in stage.keys)]


def _with_canonical_keys(changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    for name in keys:
        column = single(changes.column(name))
        clean = canonical(column)
        if clean is not column:
            changes = changes.set_column(changes.schema.get_field_index(name), name, clean)
    return changes


def _by_number(numbers: Ints) -> tuple[Ints, Groups]:
    """Group rows by a number; returns the numbers present."""
    order = np.argsort(numbers, kind="stable")
    in_order = numbers[order]
    starts = np.flatnonzero(np.append(True, np.diff(in_order) != 0)) if len(order) else order
    return in_order[starts], Groups(order, starts, np.zeros(0, np.uint64))


def _homomorphism(
    accumulator: Accumulator, rows: pa.Table, weight: Ints, groups: Groups, count: int
) -> list[Vector]:
    """h(Δ) of one accumulator."""
    monoid = MONOIDS[accumulator.monoid]
    if not len(groups.starts):
        return [np.zeros(count, dtype=d) for d in monoid.dtypes]
    columns = {name: single(rows.column(name)) for name in accumulator.present}
    for column in columns.values():
        valid = validity(column)
        if valid is not None:
            weight = np.where(valid, weight, 0)
    terms = [_term(columns[name], accumulator.monoid) for name in accumulator.terms]
    return monoid.homomorphism(terms, weight, groups)


def _counts_rows(accumulator: Accumulator, rows: pa.Table) -> bool:
    """Whether an accumulator counts every row of a batch, as the number of rows does."""
    return not accumulator.terms and all(
        rows.column(name).null_count == 0 for name in accumulator.present
    )


def _term(column: pa.Array, monoid: str) -> Vector:
    if monoid == "float" and pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    data = values(column)
    valid = validity(column)
    return data if valid is None else np.where(valid, data, np.zeros(1, dtype=data.dtype))


def _extreme(
    sign: int, old: pa.Array, value: pa.Array, change: _MultisetChange, count: int
) -> tuple[pa.Array, Ints]:
    """The greatest value per group where the batch alone tells it, and the groups where it does not.

    max(V ⊎ Δ) is the greater of the old maximum and the greatest inserted value, unless the old
    maximum itself left and no inserted value reaches it.
    """
    both = pa.concat_arrays([old, value])
    ranks = dense_ranks(both)
    ranks = np.where(ranks < 0, np.iinfo(np.int64).min, ranks * sign)
    old_rank, rank = ranks[:count], ranks[count:]
    best = old_rank.copy()
    arrived = np.flatnonzero((change.weights.after > 0) & (rank != np.iinfo(np.int64).min))
    np.maximum.at(best, change.group[arrived], rank[arrived])
    left = (change.weights.after <= 0) & (change.weights.before > 0)
    died = np.zeros(count, dtype=np.bool_)
    at_maximum = np.flatnonzero(left & (rank == old_rank[change.group]))
    died[change.group[at_maximum]] = True
    reached = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(reached, change.group[arrived], rank[arrived])
    again = np.flatnonzero(died & (reached < old_rank))
    by_rank = np.argsort(ranks, kind="stable")
    source = by_rank[np.searchsorted(ranks[by_rank], best)]
    # A group that had and gets nothing finds some NULL, itself among them.
    return both.take(source), again
