"""Runs as they are written.

Law: `loaded_rows(stored_rows(r))` are the rows and hashes of `r`, and `loaded_kills(stored_kills(k)) = k`.
What follows from the rows is not written with a short run, since it is quickly made again: their
hashes, and weights that are all 1. A long run is read as it lies in its file, and has them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_incr.runtime.arrangement import Layout
from spark_incr.runtime.changes import WEIGHT, inserted, weights
from spark_incr.runtime.columns import Hashes, Ints, from_values, single, values
from spark_incr.runtime.nested import list_offsets
from spark_incr.runtime.run import Kills, Run

HASH = "__incr_h"
KILLED_RUN = "__incr_run"
KILLED_ROW = "__incr_row"
KILLED_ROWS = "__incr_rows"
_SHORT = 1 << 20


def stored_rows(run: Run) -> pa.Table:
    """The rows of a run as a table that is written."""
    rows = run.rows
    if rows.num_rows > _SHORT or rows.column_names in ([], [WEIGHT]):
        hashes = from_values(run.hashes.view(np.int64), None, pa.int64())
        return rows.add_column(0, HASH, hashes)
    if WEIGHT in rows.column_names and (weights(rows) == 1).all():
        return rows.drop_columns([WEIGHT])
    return rows


def loaded_rows(stored: pa.Table, layout: Layout) -> tuple[pa.Table, Hashes]:
    """The rows of a run, and their hashes, from the table that was written."""
    rows = inserted(stored) if WEIGHT not in stored.column_names else stored
    rows = rows.select(layout.schema.names)
    if HASH in stored.column_names:
        return rows, values(single(stored.column(HASH))).view(np.uint64)
    return rows, layout.hashes(rows)


def stored_kills(kills: Kills) -> pa.Table:
    """What a run kills as a table that is written: the rows of each run in a list."""
    ends = np.cumsum([0, *map(len, kills.values())])
    rows = np.concatenate(list(kills.values()))
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(rows, pa.int32()))
    return pa.table({KILLED_RUN: pa.array(list(kills), pa.int64()), KILLED_ROWS: lists})


def loaded_kills(stored: pa.Table) -> dict[int, Ints]:
    """What a run kills, from the table that was written; format 1 has a line for each row."""
    runs = values(single(stored.column(KILLED_RUN)))
    if KILLED_ROW in stored.column_names:
        each = values(single(stored.column(KILLED_ROW)))
        return {int(number): each[runs == number] for number in np.unique(runs)}
    lists = single(stored.column(KILLED_ROWS))
    rows, ends = values(lists.values).astype(np.int64), list_offsets(lists)
    parts = zip(runs, ends[:-1], ends[1:], strict=True)
    return {int(number): rows[low:high] for number, low, high in parts}
