"""Readers beside commits: each sees one version, whole, in which all views agree."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from spark_incr.engine import Engine
from tests.sources.streams import run

COMMITS = 60
READERS = 4


def total(rows: pa.Table, name: str) -> int:
    return sum(rows[name].to_pylist())


def test_views_agree_at_every_moment(engine: Engine) -> None:
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT, g BIGINT, x BIGINT)")
    run(engine, "CREATE INCREMENTAL VIEW by_key AS SELECT k, sum(x) AS s FROM t GROUP BY k")
    run(
        engine,
        "CREATE INCREMENTAL VIEW by_group AS SELECT g, sum(x) AS s, max(x) AS m FROM t GROUP BY g",
    )
    run(engine, "CREATE INCREMENTAL VIEW over_key AS SELECT sum(s) AS s FROM by_key")
    done = threading.Event()
    problems: list[str] = []
    reads = [0] * READERS

    def read(number: int) -> None:
        while not done.is_set() or not reads[number]:
            snapshot = engine.snapshot()
            whole = total(snapshot.to_arrow("t"), "x")
            found = [total(snapshot.to_arrow(v), "s") for v in ("by_group", "by_key")]
            top = snapshot.to_arrow("over_key")["s"].to_pylist()[0] or 0
            if {whole, *found, top} != {whole}:
                problems.append(f"version {snapshot.version}: {whole}, {found}, {top}")
            if number == 0:
                problems.extend(_older(engine, snapshot.version))
            reads[number] += 1

    threads = [threading.Thread(target=guarded(read, problems), args=(n,)) for n in range(READERS)]
    for thread in threads:
        thread.start()
    chance = np.random.default_rng(1)
    kept = pa.table({c: pa.array([], pa.int64()) for c in "kgx"})
    for _ in range(COMMITS):
        arriving = pa.table({c: chance.integers(0, 20, 30) for c in "kgx"})
        leaving = chance.random(kept.num_rows) < 0.4
        engine.commit({"t": {"insert": arriving, "delete": kept.filter(pa.array(leaving))}})
        kept = pa.concat_tables([kept.filter(pa.array(~leaving)), arriving])
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert min(reads) > 0
    assert total(engine.view("over_key").to_arrow(), "s") == total(kept, "x")


def _older(engine: Engine, version: int) -> list[str]:
    """Older versions agree with the changes since them."""
    first = max(version - 5, 5)
    if first >= version:
        return []
    rows = engine.view("by_key").to_arrow(first)
    changes = engine.view("by_key").changes(first, version)
    sign = {"insert": 1, "delete": -1}
    moved = sum(sign[row["_change_type"]] * row["s"] for row in changes.to_pylist())
    now = total(engine.view("by_key").to_arrow(version), "s")
    return [] if total(rows, "s") + moved == now else [f"versions {first} to {version}"]


def guarded(work: Callable[[int], None], problems: list[str]) -> Callable[[int], None]:
    def run_guarded(number: int) -> None:
        try:
            work(number)
        except Exception as failure:
            problems.append(repr(failure))

    return run_guarded


def test_a_query_sees_one_version(engine: Engine) -> None:
    """Also where threads share the session: what one reads is not moved by another."""
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT, g BIGINT, x BIGINT)")
    for key, view in (("k", "by_key"), ("g", "by_group")):
        run(
            engine,
            f"CREATE INCREMENTAL VIEW {view} AS SELECT {key}, sum(x) AS s FROM t GROUP BY {key}",
        )
    done = threading.Event()
    problems: list[str] = []

    def write(number: int) -> None:
        chance = np.random.default_rng(number)
        while not done.is_set():
            rows = pa.table({c: chance.integers(0, 20, 30) for c in "kgx"})
            engine.commit({"t": {"insert": rows}})

    writer = threading.Thread(target=guarded(write, problems), args=(2,))
    writer.start()
    query = (
        "SELECT (SELECT sum(s) FROM by_key), (SELECT sum(s) FROM by_group), (SELECT sum(x) FROM t)"
    )
    seen: list[int] = []

    def read(number: int) -> None:
        for _ in range(6):
            ((key, group, table),) = run(engine, query)
            if not key == group == table:
                problems.append(f"reader {number}: {key}, {group}, {table}")
            seen.append(key)

    readers = [threading.Thread(target=guarded(read, problems), args=(n,)) for n in range(2)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    done.set()
    writer.join()
    assert problems == []
    assert len(seen) == 12
    assert len(set(seen)) > 1
