"""A bag as an arrangement: row → weight.

Law: after merging Δ into B, the weights of a row add up to its weight in B ⊎ Δ, all of them positive.
`merge_bag` keeps one entry per row and tells its weight before and after. `add_to_bag` is for bags
whose weights nobody asks for: entries of one row may stand several times until their runs merge, so
that rows that arrive need no look-up, and only rows that leave are searched.

A batch is brought into the order of the bag once: its look-ups, in this bag and in those that have
the same lineage, and its own place as a run all follow that order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_incr.errors import error
from spark_incr.runtime.arrangement import Arrangement, Layout, Located
from spark_incr.runtime.changes import WEIGHT, add, reweighted, weights
from spark_incr.runtime.columns import Bools, Hashes, Ints, arrays, rows_taken, values
from spark_incr.runtime.keys import group_rows, sorted_order


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
        bag.replace(located, rows_taken(reweighted(changes, after), kept), hashes[kept])
    return Weights(before, after)


@dataclass(frozen=True)
class Arranged:
    """A change batch in the order of a layout: by hash, and each row once if some leave."""

    rows: pa.Table
    hashes: Hashes

    def where(self, chosen: Bools) -> Arranged:
        """The rows that are chosen."""
        if chosen.all():
            return self
        at = np.flatnonzero(chosen)
        return Arranged(rows_taken(self.rows, at), self.hashes[at])


def arrange(layout: Layout, changes: pa.Table) -> Arranged:
    """A batch of changes in the order of a layout."""
    changes = changes.select(layout.schema.names).combine_chunks()
    hashes = layout.hashes(changes)
    weight = weights(changes)
    if (weight >= 0).all():
        order = sorted_order(hashes, layout.extended)
        return Arranged(rows_taken(changes, order), hashes[order])
    groups = group_rows(arrays(changes, layout.identity), changes.num_rows, hashes, layout.extended)
    total = groups.total(weight)
    kept = np.flatnonzero(total)
    rows = reweighted(rows_taken(changes, groups.first[kept]), total[kept])
    return Arranged(rows, groups.hashes[kept])


def check_left(count: Ints) -> None:
    """Raise if a row has left more often than it was there: the state is not that of its inputs."""
    lacking = int((count < 0).sum())
    if lacking:
        raise error("INCR_STATE_DISAGREES", detail=f"This holds for {lacking} of its entries.")


@dataclass(frozen=True)
class Departure:
    """Rows that leave a bag: where they are in it, and how often each is left; below 0, it was not
    there often enough."""

    leaving: Arranged
    located: Located
    left: Ints


def find_departing(bag: Arrangement, leaving: Arranged) -> Departure:
    """Look up a batch of negative weights."""
    snapshot = bag.snapshot()
    located = snapshot.find(leaving.rows, leaving.hashes)
    left = weights(leaving.rows).copy()
    np.add.at(left, located.probe, values(snapshot.gather(located, [WEIGHT])[0]))
    return Departure(leaving, located, left)


def exchange(bag: Arrangement, departure: Departure, arriving: Arranged) -> None:
    """Take the departing rows out of the bag and put the arriving ones in."""
    check_left(departure.left)
    rows, hashes = arriving.rows, arriving.hashes
    stays = departure.left > 0
    if stays.any():
        staying = departure.leaving.where(stays)
        order = np.insert(
            np.arange(len(hashes)),
            np.searchsorted(hashes, staying.hashes),
            len(hashes) + np.arange(len(staying.hashes)),
        )
        rows = add([rows, reweighted(staying.rows, departure.left[stays])])
        rows, hashes = rows_taken(rows, order), np.append(hashes, staying.hashes)[order]
    bag.replace(departure.located, rows, hashes)


def add_to_bag(bag: Arrangement, changes: pa.Table) -> None:
    """Add a batch to the bag."""
    add_arranged(bag, arrange(bag.layout, changes))


def add_arranged(bag: Arrangement, changes: Arranged) -> None:
    """Add a batch that is in the order of the bag."""
    leaves = weights(changes.rows) < 0
    if not leaves.any():
        bag.replace(None, changes.rows, changes.hashes)
    else:
        exchange(bag, find_departing(bag, changes.where(leaves)), changes.where(~leaves))
