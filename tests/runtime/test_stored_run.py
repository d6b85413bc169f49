"""A run comes back as it was written, whatever is left out of its file, and from older formats."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from spark_incr.runtime import stored_run
from spark_incr.runtime.bag import arrange, bag_layout
from spark_incr.runtime.changes import WEIGHT, inserted, with_weights
from spark_incr.runtime.run import Kills, Run
from spark_incr.runtime.stored_run import loaded_kills, loaded_rows, stored_kills, stored_rows

ROWS = pa.table({"k": [3, 1, 1], "s": ["a", None, "b"]})
LAYOUT = bag_layout(ROWS.schema, ("k",))


def run_of(changes: pa.Table) -> Run:
    arranged = arrange(LAYOUT, changes)
    return Run(1, arranged.rows, arranged.hashes, {})


@pytest.mark.parametrize("short", [0, 10], ids=["long", "short"])
@pytest.mark.parametrize("weight", [[1, 1, 1], [1, 2, 1]], ids=str)
def test_rows_and_hashes_come_back(short: int, weight: list[int]) -> None:
    run = run_of(with_weights(ROWS, np.array(weight)))
    with mock.patch.object(stored_run, "_SHORT", short):
        stored = stored_rows(run)
    rows, hashes = loaded_rows(stored, LAYOUT)
    assert rows.equals(run.rows)
    assert np.array_equal(hashes, run.hashes)


def test_a_short_run_has_nothing_that_follows_from_its_rows() -> None:
    assert stored_rows(run_of(inserted(ROWS))).column_names == ["k", "s"]


def test_rows_without_columns_are_counted() -> None:
    layout = bag_layout(pa.schema([]), ())
    bag = pa.table({WEIGHT: pa.array([1], pa.int64())})
    rows, hashes = loaded_rows(stored_rows(Run(1, bag, layout.hashes(bag), {})), layout)
    assert rows.equals(bag)
    assert len(hashes) == 1


def test_kills_come_back() -> None:
    kills: Kills = {4: np.array([2, 0]), 7: np.array([5])}
    loaded = loaded_kills(stored_kills(kills))
    assert {number: rows.tolist() for number, rows in loaded.items()} == {4: [2, 0], 7: [5]}


def test_format_1_is_read() -> None:
    run = run_of(inserted(ROWS))
    stored = run.rows.add_column(0, "__incr_h", pa.array(run.hashes.view(np.int64)))
    rows, hashes = loaded_rows(stored, LAYOUT)
    assert rows.equals(run.rows)
    assert np.array_equal(hashes, run.hashes)
    kills = loaded_kills(pa.table({"__incr_run": [4, 7, 4], "__incr_row": [2, 5, 0]}))
    assert {number: rows.tolist() for number, rows in kills.items()} == {4: [2, 0], 7: [5]}
