"""What views tell of their changes: feeds, older versions, history and progress."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from spark_incr.engine import Engine
from spark_incr.errors import IncrementalError
from tests.sources.streams import bag, reopened, run
from tests.sources.test_maintenance import rows

BATCHES: list[dict[str, pa.Table]] = [
    {"insert": rows(k=[1, 1, 2], x=[1, 2, 3])},
    {"insert": rows(k=[3, 3], x=[4, 4]), "delete": rows(k=[2], x=[3])},
    {"insert": rows(k=[5], x=[0])},
    {"delete": rows(k=[1, 1, 3, 3, 5], x=[1, 2, 4, 4, 0])},
    {"insert": rows(k=[9, 9], x=[9, 9])},
]


def applied(start: Counter[Any], changes: pa.Table) -> Counter[Any]:
    result = Counter(start)
    for row in changes.to_pylist():
        kind, *_ = (row.pop(n) for n in ("_change_type", "_commit_version", "_commit_timestamp"))
        result[tuple(row.values())] += {"insert": 1, "delete": -1}[kind]
    assert all(count >= 0 for count in result.values())
    return +result


def test_versions_and_the_changes_between_add_up(engine: Engine) -> None:
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT, x BIGINT)")
    run(engine, "CREATE INCREMENTAL VIEW g AS SELECT k, sum(x) AS s FROM t WHERE x > 0 GROUP BY k")
    run(engine, "CREATE INCREMENTAL VIEW p AS SELECT k, x FROM t")
    snapshots = {engine.version: {v: bag(engine.view(v).to_arrow()) for v in "gp"}}
    told: list[tuple[int, int]] = []
    end = engine.view("g").on_change(
        lambda version, changes: told.append((version, changes.num_rows)), since=0
    )
    for batch in BATCHES:
        engine.commit({"t": batch})
        snapshots[engine.version] = {v: bag(engine.view(v).to_arrow()) for v in "gp"}
    assert [version for version, _ in told] == [4, 5, 7, 8]
    end()
    run(engine, "REFRESH INCREMENTAL VIEW p FULL")
    snapshots[engine.version] = {v: bag(engine.view(v).to_arrow()) for v in "gp"}
    for _ in range(2):
        for name in "gp":
            view = engine.view(name)
            for first, before in snapshots.items():
                assert bag(view.to_arrow(first)) == before[name]
                for last, after in snapshots.items():
                    if last >= first:
                        assert applied(before[name], view.changes(first, last)) == after[name]
            assert applied(Counter(), view.changes(since=0)) == bag(view.to_arrow())
            feed = view.changes(since=0)
            assert feed["_commit_version"].to_pylist() == sorted(
                feed["_commit_version"].to_pylist()
            )
        engine = reopened(engine)
    again: list[int] = []
    engine.view("g").on_change(lambda version, changes: again.append(version), since=5)
    assert again == [7, 8]


def test_sql_reads_feeds_and_versions(engine: Engine) -> None:
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT, x BIGINT)")
    run(engine, "CREATE INCREMENTAL VIEW `odd name` AS SELECT k, sum(x) AS s FROM t GROUP BY k")
    engine.commit({"t": BATCHES[0]})
    engine.commit({"t": BATCHES[1]})
    changes = "SELECT k, s, _change_type, _commit_version FROM incremental_changes('odd name', 4) ORDER BY k"
    assert run(engine, changes) == [(2, 3, "delete", 4), (3, 8, "insert", 4)]
    bounded = "SELECT count(*) FROM INCREMENTAL_CHANGES('odd name', 3, 3) c WHERE c.k > 0 -- VERSION AS OF 9"
    assert run(engine, bounded) == [(2,)]
    assert run(engine, "SELECT s FROM `odd name` VERSION AS OF 3 ORDER BY `odd name`.s") == [
        (3,),
        (3,),
    ]
    joined = """SELECT a.k, a.s, b.s, 'x VERSION AS OF 3' AS text
                FROM `odd name` FOR VERSION AS OF 3 a FULL JOIN `odd name` b ON a.k = b.k ORDER BY 1, 3"""
    assert [row[:3] for row in run(engine, joined)] == [(None, None, 8), (1, 3, 3), (2, 3, None)]
    assert run(engine, "SELECT count(*) FROM t VERSION AS OF '3'") == [(3,)]
    with pytest.raises(IncrementalError, match="versions 1 to 4 are"):
        run(engine, "SELECT * FROM t VERSION AS OF 99")
    with pytest.raises(IncrementalError, match="INCR_RELATION_NOT_FOUND"):
        run(engine, "SELECT * FROM `odd name` VERSION AS OF 1")


def test_versions_that_are_not_there_have_no_feed(engine: Engine) -> None:
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT, x BIGINT)")
    run(engine, "CREATE INCREMENTAL VIEW v AS SELECT k FROM t")
    for _ in range(3):
        engine.commit({"t": BATCHES[0]})
    view = engine.view("v")

    def refused(call: Callable[[], object]) -> str:
        with pytest.raises(IncrementalError) as caught:
            call()
        return caught.value.condition

    for since, until in ((10**6, None), (6, None), (2, 6)):
        assert refused(lambda s=since, u=until: view.changes(s, u)) == "INCR_VERSION_GONE"
    assert refused(lambda: view.on_change(lambda *_: None, since=6)) == "INCR_VERSION_GONE"
    assert refused(lambda: view.changes(4, 2)) == "INCR_VERSIONS_REVERSED"
    for arguments, condition in {
        "99999": "INCR_VERSION_GONE",
        "3, 99999": "INCR_VERSION_GONE",
        "5, 3": "INCR_VERSIONS_REVERSED",
    }.items():
        query = f"SELECT * FROM incremental_changes('v', {arguments})"
        assert refused(lambda q=query: run(engine, q)) == condition
    assert view.changes(since=engine.version).num_rows == 0
    assert view.changes(4, 4).num_rows == 0
    assert run(engine, "SELECT * FROM incremental_changes('v', 6)") == []


def test_retention_bounds_the_feed(engine: Engine) -> None:
    engine.versions.store._retain_versions = 3
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT, x BIGINT)")
    run(engine, "CREATE INCREMENTAL VIEW v AS SELECT k, x FROM t")
    for _ in range(5):
        engine.commit({"t": {"insert": rows(k=[1], x=[1])}})
    assert engine.view("v").changes(since=5).num_rows == 2
    with pytest.raises(IncrementalError) as caught:
        engine.view("v").changes(since=4)
    assert caught.value.condition == "INCR_VERSION_GONE"
    assert "versions 5 to 7 are" in str(caught.value)


def test_history_and_progress(engine: Engine) -> None:
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT, x BIGINT)")
    run(engine, "CREATE INCREMENTAL VIEW g AS SELECT k, sum(x * 2) AS s FROM t GROUP BY k")
    records: list[dict[str, Any]] = []
    end = engine.on_progress(lambda text: records.append(json.loads(text)))
    for batch in BATCHES[:2]:
        engine.commit({"t": batch})
    end()
    engine.commit({"t": BATCHES[2]})
    assert [record["batchId"] for record in records] == [3, 4]
    (operator,) = records[1]["stateOperators"]
    assert operator["operatorName"] == "g"
    assert (operator["numRowsUpdated"], operator["numRowsRemoved"]) == (1, 1)
    assert operator["memoryUsedBytes"] > 0
    durations = records[1]["durationMs"]
    assert {
        "getBatch",
        "addBatch",
        "expressions",
        "operators",
        "walCommit",
        "triggerExecution",
    } <= set(durations)
    assert durations["walCommit"] > 0
    history = [
        row.asDict() for row in engine.spark.sql("DESCRIBE HISTORY INCREMENTAL VIEW g").collect()
    ]
    assert [
        (h["version"], h["rows_in"], h["rows_inserted"], h["rows_deleted"]) for h in history
    ] == [
        (5, 1, 1, 0),
        (4, 3, 1, 1),
        (3, 3, 2, 0),
        (2, 0, 0, 0),
    ]
    assert all(h["state_rows"] > 0 and h["state_bytes"] > 0 for h in history[:-1])
    engine = reopened(engine)
    again = [
        row.asDict() for row in engine.spark.sql("DESCRIBE HISTORY INCREMENTAL VIEW g").collect()
    ]
    assert [{**h, "commit_ms": 0} for h in again] == [{**h, "commit_ms": 0} for h in history]


def test_a_column_that_the_feed_needs_for_itself(engine: Engine) -> None:
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT)")
    run(engine, "CREATE INCREMENTAL VIEW v AS SELECT k AS _Change_Type FROM t")
    with pytest.raises(IncrementalError, match="_change_type appears more than once"):
        engine.view("v").changes(since=0)


def test_a_version_beside_a_star(engine: Engine) -> None:
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT)")
    run(engine, "CREATE INCREMENTAL VIEW v AS SELECT count(*) AS n FROM t")
    engine.commit({"t": {"insert": rows(k=[1])}})
    query = "SELECT (SELECT n FROM v VERSION AS OF 2) AS before, t.* FROM t"
    assert run(engine, query) == [(0, 1)]
