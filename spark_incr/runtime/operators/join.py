"""Joins over change batches.

    Δ(L ⋈ R) = ΔL ⋈ R + (L + ΔL) ⋈ ΔR

Which rows of one side are alone depends on whether their key occurs on the other. With n(k) the
number of rows of R with key k, before and after the batch,

    Δ(L ▷ R) = ΔL where n'(k) = 0  +  L where n(k) > 0 = n'(k)  -  L where n(k) = 0 < n'(k)

and ⋉ is the same with the conditions turned round; an outer join is ⋈ plus ▷ with NULLs. Both
sides are kept as bags indexed by the key, so a batch costs what it matches. A row with a NULL in
its key matches nothing, unless the key is null-safe, and is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_incr.plan.nodes import Join, JoinKind, Node, Scan
from spark_incr.plan.sharing import lookup_of
from spark_incr.plan.types import arrow_schema
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.bag import Arranged, add_arranged, arrange, bag_layout
from spark_incr.runtime.changes import (
    WEIGHT,
    add,
    empty,
    reweighted,
    weights,
    with_weights,
)
from spark_incr.runtime.columns import (
    Bools,
    Ints,
    arrays,
    from_values,
    single,
    taken,
    validity,
    values,
)
from spark_incr.runtime.keys import Groups, group_rows
from spark_incr.runtime.lineage import Lineage


class JoinOperator:
    """Maintains one `Join`."""

    def __init__(self, join: Join, tables: Mapping[str, Arrangement]) -> None:
        assert join.where is None, "a condition is taken apart by a rule"
        self.schema = arrow_schema(join.schema)
        self._kind = join.kind
        inner = join.kind is JoinKind.INNER
        left, right = [a for a, _ in join.keys], [b for _, b in join.keys]
        safe, exact = join.null_safe, join.exact
        self._left = Side(join.left, left, safe, exact, tables if inner else {})
        one_sided = inner and not self._left.shared
        self._right = Side(join.right, right, safe, exact, tables if one_sided else {})
        sides = {"left": self._left, "right": self._right}
        self.arrangements = {name: side.bag for name, side in sides.items() if not side.shared}
        self.shared = {name: side.shared for name, side in sides.items() if side.shared}

    def without_shared(self, left: pa.Table, right: pa.Table) -> list[pa.Table]:
        """The changes without those of a side that is shared."""
        sides = zip((self._left, self._right), (left, right), strict=True)
        return [changes.slice(0, 0) if side.shared else changes for side, changes in sides]

    def apply(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """The change of the join for changes of its sides."""
        left_changes, right_changes = self._left.prepare(left), self._right.prepare(right)
        left, right = left_changes.rows, right_changes.rows
        if self._right.shared:
            pairs = [self._pairs(right, self._right, self._left)]
            self._left.add(left_changes)
            return add([*pairs, self._pairs(left, self._left, self._right)])
        results: list[pa.Table] = []
        if self._kind is not JoinKind.INNER:
            keys = _touched_keys(self._left, left, self._right, right)
            semi = self._kind is JoinKind.SEMI
            alone = _alone(self._left, left, keys.left, keys.right_counts, keys.keys, semi)
            results.append(self._extended(alone))
            if not semi:
                results.append(self._extended(left_changes.unmatched))
            if self._kind is JoinKind.FULL:
                alone = _alone(self._right, right, keys.right, keys.left_counts, keys.keys, False)
                results += [self._extended(alone), self._extended(right_changes.unmatched)]
        if not self._kind.left_only:
            results.append(self._pairs(left, self._left, self._right))
        self._left.add(left_changes)
        if not self._kind.left_only:
            results.append(self._pairs(right, self._right, self._left))
        self._right.add(right_changes)
        return add(results)

    def _pairs(self, changes: pa.Table, own: Side, other: Side) -> pa.Table:
        """The change of one side with what it matches on the other."""
        if changes.num_rows == 0 or not other.bag.runs:
            return empty(self.schema)
        keys = arrays(changes, own.lineage)
        matches = other.matching(keys, changes.num_rows, other.columns)
        columns = dict(zip(other.columns, matches.columns, strict=True))
        for name in own.columns:
            columns[name] = taken(single(changes.column(name)), matches.probe)
        rows = pa.Table.from_arrays([columns[n] for n in self.schema.names], schema=self.schema)
        return with_weights(rows, weights(changes)[matches.probe] * matches.weights)

    def _extended(self, changes: pa.Table) -> pa.Table:
        """Rows of one side in the columns of the join."""
        columns = [
            changes.column(field.name)
            if field.name in changes.column_names
            else pa.nulls(changes.num_rows, field.type)
            for field in self.schema
        ]
        rows = pa.Table.from_arrays(columns, schema=self.schema)
        return with_weights(rows, weights(changes))


@dataclass(frozen=True)
class _Counts:
    """The number of rows per key, before and after a batch."""

    before: Ints
    after: Ints


@dataclass(frozen=True)
class _Keys:
    """The keys of a batch: for each row of either side its key, and each key's counts."""

    keys: list[pa.Array]
    left: Ints
    right: Ints
    left_counts: _Counts
    right_counts: _Counts


@dataclass(frozen=True)
class Arriving:
    """The changes of a side that can match and those that cannot; in the order of its bag, if it
    has one of its own."""

    rows: pa.Table
    unmatched: pa.Table
    arranged: Arranged | None


@dataclass(frozen=True)
class Matches:
    """Rows of a side that match: which key they match, their columns and their weights."""

    probe: Ints
    columns: list[pa.Array]
    weights: Ints


class Side:
    """One input of a join: its bag, and the columns by which it is looked up.

    The bag is its own, or the rows of a table that are arranged by the same columns: then it holds
    the changes before the join is told of them (see `plan.sharing`).
    """

    def __init__(
        self,
        node: Node,
        keys: Sequence[str],
        null_safe: Sequence[bool],
        exact: bool,
        tables: Mapping[str, Arrangement],
    ) -> None:
        self.columns = list(node.names)
        self._keys = [key for key, safe in zip(keys, null_safe, strict=True) if not safe]
        self._lineage = Lineage(node, keys, exact)
        self.lineage = self._lineage.names
        schema = self._lineage.extended(arrow_schema(node.schema))
        self._stored = {name: name for name in schema.names}
        self._order = list(range(len(keys)))
        lookup = lookup_of(node, keys)
        table = tables.get(lookup.relation) if lookup is not None else None
        self.shared: str | None = None
        if lookup is None or table is None or not lookup.fits(table.layout.lineage):
            self.bag = Arrangement(bag_layout(schema, self.lineage))
            return
        assert isinstance(node, Scan)
        self.shared = lookup.relation
        self.bag = table
        self._stored = dict(zip(node.names, node.columns, strict=True))
        self._order = [lookup.columns.index(name) for name in table.layout.lineage]

    def prepare(self, changes: pa.Table) -> Arriving:
        """Changes, ready to be looked up and added."""
        keep = _present(changes, self._keys)
        unmatched = changes.slice(0, 0)
        if not keep.all():
            unmatched = changes.filter(_mask(~keep))
            changes = changes.filter(_mask(keep))
        if self.shared:
            return Arriving(changes, unmatched, None)
        arranged = arrange(self.bag.layout, self._lineage.with_lineage(changes))
        return Arriving(arranged.rows, unmatched, arranged)

    def add(self, changes: Arriving) -> None:
        """Add changes to the bag, unless the table has done so."""
        if changes.arranged is not None:
            add_arranged(self.bag, changes.arranged)

    def matching(self, keys: Sequence[pa.Array], length: int, names: Sequence[str]) -> Matches:
        """The rows of some keys, with the named columns."""
        snapshot = self.bag.snapshot()
        located = snapshot.find_lineage([keys[place] for place in self._order], length)
        stored = [self._stored[name] for name in names]
        *columns, weight = snapshot.gather(located, [*stored, WEIGHT])
        return Matches(located.probe, columns, values(weight))

    def counts(self, keys: list[pa.Array], groups: Groups, changed: Ints) -> _Counts:
        matches = self.matching(keys, groups.count, ())
        before = np.zeros(groups.count, dtype=np.int64)
        np.add.at(before, matches.probe, matches.weights)
        return _Counts(before, before + changed)


def _present(changes: pa.Table, names: Sequence[str]) -> Bools:
    """The rows where none of the columns is NULL."""
    result = np.ones(changes.num_rows, dtype=np.bool_)
    for name in names:
        valid = validity(single(changes.column(name)))
        if valid is not None:
            result &= valid
    return result


def with_present(changes: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows where none of the columns is NULL."""
    keep = _present(changes, names)
    return changes if keep.all() else changes.filter(_mask(keep))


def _mask(keep: Bools) -> pa.Array:
    return from_values(keep, None, pa.bool_())


def _touched_keys(left: Side, left_rows: pa.Table, right: Side, right_rows: pa.Table) -> _Keys:
    columns = [
        pa.concat_arrays([a, b])
        for a, b in zip(
            arrays(left_rows, left.lineage), arrays(right_rows, right.lineage), strict=True
        )
    ]
    split = left_rows.num_rows
    groups = group_rows(columns, split + right_rows.num_rows)
    group = groups.of_rows()
    keys = [taken(c, groups.first) for c in columns]
    changed = []
    for rows, own in ((left_rows, group[:split]), (right_rows, group[split:])):
        total = np.zeros(groups.count, dtype=np.int64)
        np.add.at(total, own, weights(rows))
        changed.append(total)
    return _Keys(
        keys,
        group[:split],
        group[split:],
        left.counts(keys, groups, changed[0]),
        right.counts(keys, groups, changed[1]),
    )


def _alone(
    side: Side,
    changes: pa.Table,
    key_of: Ints,
    other: _Counts,
    keys: list[pa.Array],
    semi: bool,
) -> pa.Table:
    """The change of the rows of one side whose key does not occur on the other (or does: `semi`)."""
    wanted_before, wanted_after = (other.before > 0) == semi, (other.after > 0) == semi
    arriving = changes.filter(_mask(wanted_after[key_of]))
    turned = np.flatnonzero(wanted_before != wanted_after)
    snapshot = side.bag.snapshot()
    located = snapshot.find_lineage([taken(k, turned) for k in keys], len(turned))
    columns = snapshot.gather(located, side.bag.layout.schema.names)
    rows = pa.Table.from_arrays(columns, schema=side.bag.layout.schema)
    sign = np.where(wanted_after[turned], 1, -1)[located.probe]
    standing = reweighted(rows, weights(rows) * sign)
    return add([arriving.select(standing.column_names), standing])
