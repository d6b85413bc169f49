"""The line that shows how far long work has come, and who tells it."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from spark_incr.progress import show_progress
from spark_incr.runtime import steps
from spark_incr.runtime.arrangement import Arrangement, Layout
from spark_incr.runtime.store import Store


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_is_written_over_and_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    show_progress("revenue", 1_000, 3_000)
    show_progress("revenue", 3_000, 3_000)
    bar = "#" * 10 + " " * 20
    assert terminal.getvalue() == f"\rrevenue [{bar}] 1,000 of 3,000 rows\033[K\r\033[K"


def test_nothing_is_written_into_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    show_progress("revenue", 1_000, 3_000)
    assert file.getvalue() == ""


def test_long_merges_and_compaction_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(steps, "PATIENCE", 0.0)
    told: list[tuple[str, int, int, str]] = []
    monkeypatch.setattr(steps, "_listener", lambda *step: told.append(step))
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    arrangement = Arrangement(Layout(schema, ("k",), ("v",)))
    for version in (1, 2):
        arrangement.begin(version)
        keys = list(range(version * 10, version * 10 + 10))
        rows = pa.table({"k": keys, "v": keys}, schema=schema)
        hashes = arrangement.layout.hashes(rows)
        arrangement.replace(arrangement.snapshot().find(rows, hashes), rows, hashes)
    assert told == [("merging", done, 20, "rows") for done in (0, 10, 20)]

    told.clear()
    with Store.open(tmp_path / "state") as store:
        with store.begin() as transaction:
            segment = transaction.write(pa.table({"a": [1]}))
            transaction.commit({"kept": segment.to_json()})
        with store.begin() as transaction:
            transaction.carry([segment])
    assert told == [("compacting", done, 1, "segments") for done in (0, 1)]


def test_what_takes_a_moment_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(steps, "_listener", lambda *step: told.append(step))
    with steps.step("merging", 10, "rows") as tell:
        tell(5)
    assert told == []
