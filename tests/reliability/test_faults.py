"""Disks that fail, files that are damaged, clocks that jump: nothing is lost, and it is said."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_incr import history, runner, versions
from spark_incr.cli import main
from spark_incr.engine import Engine
from spark_incr.errors import IncrementalError
from spark_incr.inspection import check_views
from spark_incr.runtime import directory, interrupts, store
from spark_incr.runtime.directory import Directory
from spark_incr.serve.session import disable
from tests.interrupting import Lines
from tests.sources.streams import bag, bag_of, column, opened, put, reopened, run


def rows(*pairs: tuple[int, int]) -> pa.Table:
    keys, values = zip(*pairs, strict=True)
    return pa.table({"k": pa.array(keys, pa.int64()), "x": pa.array(values, pa.int64())})


def shop(engine: Engine, inbox: Path) -> None:
    """A table, a source, and views over each, over both, and over a view."""
    inbox.mkdir(exist_ok=True)
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT, x BIGINT)")
    run(
        engine,
        f"CREATE INCREMENTAL SOURCE s (k BIGINT, y BIGINT) USING json OPTIONS (path '{inbox}')",
    )
    run(engine, "CREATE INCREMENTAL VIEW g AS SELECT k, sum(x) AS total FROM t GROUP BY k")
    run(engine, "CREATE INCREMENTAL VIEW j AS SELECT t.k, x, y FROM t JOIN s ON t.k = s.k")
    run(
        engine, "CREATE INCREMENTAL VIEW over_g AS SELECT count(*) AS n, sum(total) AS total FROM g"
    )
    put(inbox, [{"k": 1, "y": 10}, {"k": 2, "y": 20}])
    engine.process_available()
    engine.commit({"t": {"insert": rows((1, 1), (1, 2), (2, 3))}})


VIEWS = ("g", "j", "over_g")


def contents(engine: Engine) -> dict[str, Any]:
    snapshot = engine.snapshot()
    return {name: bag(snapshot.to_arrow(name)) for name in ("t", "s", *VIEWS)}


def test_a_disk_that_fails_at_any_step(engine: Engine, tmp_path: Path) -> None:
    """The commit says so, nothing has changed, and the same batch goes through afterwards."""
    inbox = tmp_path / "in"
    shop(engine, inbox)
    seen: list[str] = []
    failing: list[int] = []

    def fault(step: str) -> None:
        seen.append(step)
        if failing and len(seen) - 1 == failing[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    engine.versions.store._directory = Directory(engine.path, fault)
    steps = 0
    place = -1
    while place < steps or place < 0:
        place += 1
        put(inbox, [{"k": 1, "y": place}])
        before, version = contents(engine), engine.version
        seen.clear()
        failing[:] = [place] if place else []
        try:
            engine.process_available()
        except IncrementalError as failure:
            caught = failure.condition
            failing.clear()
            unchanged = (contents(engine), engine.version) == (before, version)
            engine.process_available()
        else:
            caught, unchanged = "INCR_STATE_WRITE", True
        assert (caught, unchanged) == ("INCR_STATE_WRITE", True), place
        steps = steps or len(seen)
        failing.clear()
        assert engine.version == version + 1
        assert contents(engine)["j"] - before["j"] == bag_of((1, 1, place), (1, 2, place))
    assert steps >= 8
    after = contents(engine)
    engine = reopened(engine)
    assert contents(engine) == after
    for name in VIEWS:
        run(engine, f"REFRESH INCREMENTAL VIEW {name} FULL")
    assert contents(engine) == after


def test_ctrl_c_at_any_moment_of_a_commit(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine and its directory agree on the version, and no row is lost or comes twice."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    inbox = tmp_path / "in"
    shop(engine, inbox)
    lines = Lines(store, directory, versions, interrupts, runner, history, after="persist")
    expected = contents(engine)
    for place in range(10_000):
        put(inbox, [{"k": 1, "y": place}])
        before = engine.version
        interrupted = lines.interrupt(place, engine.process_available)
        assert engine.version == versions_on_disk(engine)[-1], place
        last = engine.history.last
        assert last is not None
        assert last.version == engine.version >= before, place
        engine.process_available()
        assert engine.version == before + 1, place
        expected["s"] += bag_of((1, place))
        expected["j"] += bag_of((1, 1, place), (1, 2, place))
        assert contents(engine) == expected, place
        if not interrupted:
            break
    assert place > 100
    engine = reopened(engine)
    assert contents(engine) == expected


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, MemoryError])
def test_what_is_raised_before_any_step(
    engine: Engine, tmp_path: Path, interrupt: type[BaseException]
) -> None:
    shop(engine, tmp_path / "in")
    seen: list[str] = []
    place = 0

    def fault(step: str) -> None:
        seen.append(step)
        if len(seen) - 1 == place:
            raise interrupt

    while place <= len(seen):
        expected, version = contents(engine), engine.version
        seen.clear()
        engine.versions.store._directory = Directory(engine.path, fault)
        with suppress(interrupt):
            engine.commit({"t": {"insert": rows((1, place))}})
            assert len(seen) <= place, "what was raised is lost"
        engine.versions.store._directory = Directory(engine.path, lambda _: None)
        assert engine.version == versions_on_disk(engine)[-1], seen
        if engine.version == version:
            engine.commit({"t": {"insert": rows((1, place))}})
        expected["t"] += bag_of((1, place))
        assert contents(engine)["t"] == expected["t"], seen
        engine = reopened(engine)
        assert contents(engine)["t"] == expected["t"], seen
        place += 1
    assert place >= 8


def versions_on_disk(engine: Engine) -> list[int]:
    return Directory(engine.path, lambda _: None).versions()


def manifest_of(engine: Engine) -> dict[str, Any]:
    body: dict[str, Any] = engine.versions.store.manifest.body
    return body


def damage(state: Path, segment: list[Any], how: str) -> None:
    file, offset, length, _ = segment
    path = state / file
    data = bytearray(path.read_bytes())
    if how == "a flipped bit":
        data[offset + length // 2] ^= 1
    else:
        del data[offset + length - 8 :]
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["a flipped bit", "the end is missing"])
def test_damaged_state_is_found_and_rebuilt(
    engine: Engine, tmp_path: Path, how: str, capsys: Any
) -> None:
    shop(engine, tmp_path / "in")
    spark = engine.spark
    for name in ("g", "s"):
        before = contents(engine)
        if name == "s":
            run(engine, "REFRESH INCREMENTAL SOURCE s FULL")  # its rows are last in their file
            before = contents(engine)
        else:
            run(engine, "REFRESH INCREMENTAL VIEW g FULL")
        state = manifest_of(engine)["state"][name]
        arrangement = "rows" if name == "s" else list(state)[-1]
        segment = state[arrangement][-1]["rows"]["$segment"]
        disable(spark)
        if name == "g":
            assert main(["check", "--state", str(engine.path)]) == 0
        damage(engine.path, segment, how)
        assert main(["check", "--state", str(engine.path)]) == 1
        assert segment[0] in capsys.readouterr().out
        older = engine.snapshot()
        with pytest.warns(RuntimeWarning, match=f"INCR_VIEW_DAMAGED.*state of {name} is damaged"):
            engine = opened(spark, engine.path)
        with pytest.raises(IncrementalError) as caught:
            engine.snapshot().to_arrow(name)
        assert caught.value.condition == "INCR_VIEW_DAMAGED"
        assert segment[0] in caught.value.message
        with pytest.raises(IncrementalError) as caught:
            older.to_arrow("created_later")
        assert caught.value.condition == "INCR_RELATION_NOT_FOUND"
        # What stands behind the source's rows in their file is the join, and is cut off too.
        lost = {name, "j"} if name == "s" and how != "a flipped bit" else {name}
        others = {n: bag(engine.snapshot().to_arrow(n)) for n in before.keys() - lost}
        assert others == {n: before[n] for n in before.keys() - lost}
        engine.commit({"t": {"insert": rows((2, 5))}})
        engine = reopened(engine)
        if name == "g":
            assert column(engine, "SHOW INCREMENTAL VIEWS LIKE 'g'", "status") == ["FAILED"]
            with pytest.raises(IncrementalError, match="INCR_VIEW_DAMAGED"):
                run(engine, "REFRESH INCREMENTAL VIEW g")
            run(engine, "REFRESH INCREMENTAL VIEW g FULL")
        else:
            run(engine, "REFRESH INCREMENTAL SOURCE s FULL")
        engine.commit({"t": {"delete": rows((2, 5))}})
        assert contents(engine) == before
    disable(spark)
    assert main(["state", "--state", str(engine.path)]) == 0
    assert "over_g" in capsys.readouterr().out


def test_a_damaged_table_and_manifest_are_errors(engine: Engine, tmp_path: Path) -> None:
    shop(engine, tmp_path / "in")
    spark, state = engine.spark, engine.path
    segment = manifest_of(engine)["state"]["t"]["rows"][-1]["rows"]["$segment"]
    disable(spark)
    data = (state / segment[0]).read_bytes()
    damage(state, segment, "a flipped bit")
    with pytest.raises(IncrementalError, match="INCR_STATE_CORRUPT") as caught:
        opened(spark, state)
    assert caught.value.hint == "Restore the directory from a copy."
    (state / segment[0]).write_bytes(data)
    last = max(state.glob("manifest-*.json"))
    text = last.read_bytes()
    newer = text[text.index(b",") + 1 :].replace(b'"format":', b'"format":9', 1)
    last.write_bytes(b'{"crc32":"%08x",' % zlib.crc32(newer) + newer)
    with pytest.raises(IncrementalError, match="INCR_STATE_FORMAT"):
        opened(spark, state)
    last.write_bytes(text.replace(b'"g"', b'"h"', 1))
    with pytest.raises(IncrementalError, match="INCR_STATE_CORRUPT"):
        opened(spark, state)
    last.write_bytes(text)
    assert bag(opened(spark, state).view("over_g").to_arrow()) == bag_of((2, 6))


def test_check_compares_views_with_recompute(engine: Engine, tmp_path: Path) -> None:
    shop(engine, tmp_path / "in")
    assert not [finding.problem for finding in check_views(engine) if finding.problem]
    published = engine.versions.published
    found = published.rows["g"]
    nothing = replace(found, snapshot=replace(found.snapshot, runs=()))
    engine.versions.published = replace(published, rows={**published.rows, "g": nothing})
    problems = {finding.what: finding.problem for finding in check_views(engine)}
    assert "too few" in problems["view g against recompute"]
    disable(engine.spark)
    command = [
        sys.executable,
        "-m",
        "spark_incr",
        "check",
        "--recompute",
        "--state",
        str(engine.path),
    ]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert "view over_g against recompute: ok" in found.stdout
    assert found.stdout.endswith("0 problems found\n")


def test_a_clock_that_jumps(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT, x BIGINT)")
    run(engine, "CREATE INCREMENTAL VIEW v AS SELECT k, x FROM t")
    now, year = time.time_ns(), 365 * 86_400 * 10**9
    for jump in (0, year, -year, -20 * year, 1):
        monkeypatch.setattr(time, "time_ns", lambda jump=jump: now + jump)
        engine.commit({"t": {"insert": rows((1, 1))}})
    stamps = engine.view("v").changes(since=0)["_commit_timestamp"].to_pylist()
    assert stamps == sorted(stamps)
    assert len(stamps) == 5
    monkeypatch.undo()
    assert bag(reopened(engine).view("v").to_arrow()) == bag_of(*[(1, 1)] * 5)


def test_a_state_that_another_process_writes(engine: Engine, spark: SparkSession) -> None:
    with pytest.raises(IncrementalError) as caught:
        Engine(spark, engine.path)
    assert caught.value.condition == "INCR_STATE_LOCKED"
    assert str(os.getpid()) in caught.value.message
    lock = engine.path / "lock"
    assert json.loads(lock.read_text())["pid"] == os.getpid()
