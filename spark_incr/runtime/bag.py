"""A bag as an arrangement: row → weight.

Law: merge(B, Δ) = B ⊎ Δ, one row per distinct row, and rows whose weight reaches 0 leave.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_incr.runtime.arrangement import Arrangement, Layout
from spark_incr.runtime.changes import WEIGHT, reweighted, weights
from spark_incr.runtime.columns import Ints, values


@dataclass(frozen=True)
class Weights:
    """The weight of each row of a batch in the bag, before and after."""

    before: Ints
    after: Ints


def bag_layout(columns: pa.Schema, lineage: tuple[str, ...]) -> Layout:
    """The layout of a bag of rows that are looked up by lineage."""
    rest = tuple(name for name in columns.names if name not in lineage)
    return Layout(columns.append(pa.field(WEIGHT, pa.int64())), lineage, lineage + rest)


def merge_bag(bag: Arrangement, changes: pa.Table) -> Weights:
    """Add a consolidated batch to the bag."""
    if changes.num_rows == 0:
        nothing = np.zeros(0, dtype=np.int64)
        return Weights(nothing, nothing)
    changes = changes.select(bag.layout.schema.names)
    snapshot = bag.snapshot()
    hashes = bag.layout.hashes(changes)
    located = snapshot.find(changes, hashes)
    before = np.zeros(changes.num_rows, dtype=np.int64)
    if len(located.probe):
        before[located.probe] = values(snapshot.gather(located, [WEIGHT])[0])
    after = before + weights(changes)
    kept = np.flatnonzero(after)
    if len(kept) == changes.num_rows:
        rows = changes if not len(located.probe) else reweighted(changes, after)
        bag.replace(located, rows, hashes)
    else:
        bag.replace(located, reweighted(changes, after).take(kept), hashes[kept])
    return Weights(before, after)
