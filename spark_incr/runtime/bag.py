"""A bag as an arrangement: row → weight.

Law: after merging Δ into B, the weights of a row add up to its weight in B ⊎ Δ, all of them positive.
`merge_bag` keeps one entry per row and tells its weight before and after. `add_to_bag` is for bags
whose weights nobody asks for: entries of one row may stand in several runs, so that rows that arrive
need no look-up, and only rows that leave are searched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_incr.runtime.arrangement import NOWHERE, Arrangement, Layout, Located
from spark_incr.runtime.changes import WEIGHT, add, reweighted, weights
from spark_incr.runtime.columns import Hashes, Ints, values


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


@dataclass(frozen=True)
class Departure:
    """Rows that leave a bag: where they are in it, and how often each is left; below 0, it was not
    there often enough."""

    rows: pa.Table
    hashes: Hashes
    located: Located
    left: Ints


def find_departing(bag: Arrangement, leaving: pa.Table) -> Departure:
    """Look up a consolidated batch of negative weights."""
    leaving = leaving.select(bag.layout.schema.names)
    hashes = bag.layout.hashes(leaving)
    snapshot = bag.snapshot()
    located = snapshot.find(leaving, hashes)
    left = weights(leaving).copy()
    np.add.at(left, located.probe, values(snapshot.gather(located, [WEIGHT])[0]))
    return Departure(leaving, hashes, located, left)


def exchange(bag: Arrangement, departure: Departure, arriving: pa.Table) -> None:
    """Take the departing rows out of the bag and put the arriving ones in."""
    assert (departure.left >= 0).all(), "a row was taken out that was not there"
    arriving = arriving.select(bag.layout.schema.names)
    hashes = bag.layout.hashes(arriving)
    stays = np.flatnonzero(departure.left)
    if len(stays):
        staying = reweighted(departure.rows.take(stays), departure.left[stays])
        arriving = add([arriving, staying])
        hashes = np.concatenate([hashes, departure.hashes[stays]])
    bag.replace(departure.located, arriving.combine_chunks(), hashes)


def add_to_bag(bag: Arrangement, changes: pa.Table) -> None:
    """Add a batch to the bag; it must be consolidated if rows leave."""
    if changes.num_rows == 0:
        return
    changes = changes.select(bag.layout.schema.names).combine_chunks()
    weight = weights(changes)
    leaving = np.flatnonzero(weight < 0)
    if not len(leaving):
        bag.replace(NOWHERE, changes, bag.layout.hashes(changes))
        return
    departure = find_departing(bag, changes.take(leaving))
    exchange(bag, departure, changes.take(np.flatnonzero(weight > 0)))
