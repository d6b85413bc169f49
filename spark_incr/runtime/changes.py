"""Change batches: bags with integer weights.

A change batch is an Arrow table with a relation's columns and the column `__incr_w`. Batches form
a commutative group: `add` concatenates, `negate` changes signs, and `consolidate` cancels, so
`consolidate(add(a, negate(a)))` is empty. A relation is the sum of its change batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from spark_incr.errors import error
from spark_incr.runtime.columns import Ints, int64_column, rows_taken, single, values
from spark_incr.runtime.keys import group_rows

WEIGHT = "__incr_w"
_MOST_ROWS = 2**30


def weights(changes: pa.Table) -> Ints:
    """The weight of each row."""
    return values(single(changes.column(WEIGHT)))


def with_weights(rows: pa.Table, weight: Ints) -> pa.Table:
    """The rows as a change batch of the given weights."""
    columns = [*rows.columns, int64_column(weight)]
    return pa.Table.from_arrays(columns, schema=rows.schema.append(pa.field(WEIGHT, pa.int64())))


def inserted(rows: pa.Table) -> pa.Table:
    """Each row once."""
    return with_weights(rows, np.ones(rows.num_rows, dtype=np.int64))


def deleted(rows: pa.Table) -> pa.Table:
    """Each row removed once."""
    return with_weights(rows, np.full(rows.num_rows, -1, dtype=np.int64))


def rows_of(changes: pa.Table) -> pa.Table:
    """The rows without their weights."""
    return changes.drop_columns([WEIGHT])


def reweighted(changes: pa.Table, weight: Ints) -> pa.Table:
    """The same rows with other weights."""
    index = changes.schema.get_field_index(WEIGHT)
    return changes.set_column(index, WEIGHT, int64_column(weight))


def negate(changes: pa.Table) -> pa.Table:
    """The inverse batch."""
    return reweighted(changes, -weights(changes))


def add(batches: Sequence[pa.Table]) -> pa.Table:
    """The sum of batches of one schema, with one chunk per column."""
    if len(batches) == 1:
        return batches[0]
    return pa.concat_tables(batches).combine_chunks()


def empty(schema: pa.Schema) -> pa.Table:
    """The neutral batch of a relation with these columns."""
    return schema.append(pa.field(WEIGHT, pa.int64())).empty_table()


def consolidate(changes: pa.Table) -> pa.Table:
    """One row per distinct row, its weights summed; what cancels is gone."""
    if changes.num_rows == 0:
        return changes
    columns = [
        single(c) for n, c in zip(changes.column_names, changes.columns, strict=True) if n != WEIGHT
    ]
    groups = group_rows(columns, changes.num_rows)
    total = groups.total(weights(changes))
    keep = np.flatnonzero(total)
    return reweighted(rows_taken(changes, groups.first[keep]), total[keep])


def repeated(changes: pa.Table) -> pa.Table:
    """The rows of a relation, each as often as its weight says."""
    weight = weights(changes)
    rows = rows_of(changes)
    if (weight == 1).all():
        return rows
    if weight.sum() > _MOST_ROWS:
        raise error("INCR_TOO_MANY_ROWS", rows=int(weight.sum()))
    return rows.take(np.repeat(np.arange(len(weight)), weight))
