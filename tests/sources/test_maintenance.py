"""When views follow: at once, on a schedule, by hand; suspended and failed ones; static inputs."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from spark_incr.engine import Engine
from spark_incr.errors import IncrementalError
from tests.sources.streams import bag, bag_of, column, put, reopened, run

BIG = 2**62


def rows(**columns: list[int]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def status(engine: Engine, view: str) -> tuple[str, int]:
    found = engine.spark.sql(f"SHOW INCREMENTAL VIEWS LIKE '{view}'").collect()[0]
    return found["status"], found["shows_version"]


def test_a_view_by_hand_catches_up_over_restarts(engine: Engine) -> None:
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT, x BIGINT)")
    run(engine, "CREATE INCREMENTAL VIEW late MANUAL AS SELECT k, sum(x) AS s FROM t GROUP BY k")
    run(engine, "CREATE INCREMENTAL VIEW over_late AS SELECT count(*) AS n, sum(s) AS s FROM late")
    run(
        engine,
        "CREATE INCREMENTAL VIEW mixed AS SELECT t.k, late.s FROM t JOIN late ON t.k = late.k",
    )
    engine.commit({"t": {"insert": rows(k=[1, 2], x=[1, 2])}})
    assert engine.view("late").to_arrow().num_rows == 0
    assert bag(engine.view("over_late").to_arrow()) == bag_of((0, None))
    engine = reopened(engine)
    engine.commit({"t": {"insert": rows(k=[1, 3], x=[5, 5]), "delete": rows(k=[2], x=[2])}})
    assert status(engine, "late") == ("ACTIVE", 4)
    assert run(engine, "REFRESH INCREMENTAL VIEW late") == [("late is up to date at version 7",)]
    assert bag(engine.view("late").to_arrow()) == bag_of((1, 6), (3, 5))
    assert bag(engine.view("over_late").to_arrow()) == bag_of((2, 11))
    assert bag(engine.view("mixed").to_arrow()) == bag_of((1, 6), (1, 6), (3, 5))
    engine.commit({"t": {"insert": rows(k=[7], x=[7])}})
    run(engine, "REFRESH INCREMENTAL VIEW late FULL")
    assert bag(engine.view("over_late").to_arrow()) == bag_of((3, 18))
    engine.commit({"t": {"delete": rows(k=[7], x=[7])}})
    run(engine, "ALTER INCREMENTAL VIEW late SET TRIGGER ON UPDATE")
    assert bag(engine.view("over_late").to_arrow()) == bag_of((2, 11))
    engine.commit({"t": {"insert": rows(k=[3], x=[1])}})
    assert bag(engine.view("late").to_arrow()) == bag_of((1, 6), (3, 6))


def test_suspend_and_resume(engine: Engine) -> None:
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT, x BIGINT)")
    run(engine, "CREATE INCREMENTAL VIEW v AS SELECT k, max(x) AS m FROM t GROUP BY k")
    engine.commit({"t": {"insert": rows(k=[1], x=[1])}})
    run(engine, "ALTER INCREMENTAL VIEW v SUSPEND")
    engine.commit({"t": {"insert": rows(k=[1, 2], x=[9, 9])}})
    engine.commit({"t": {"delete": rows(k=[1], x=[9])}})
    engine = reopened(engine)
    assert status(engine, "v") == ("SUSPENDED", 4)
    assert bag(engine.view("v").to_arrow()) == bag_of((1, 1))
    run(engine, "ALTER INCREMENTAL VIEW v RESUME")
    assert bag(engine.view("v").to_arrow()) == bag_of((1, 1), (2, 9))
    assert status(engine, "v") == ("ACTIVE", engine.version)


FAILING = {
    "overflow": ("SELECT sum(x) AS s FROM t", "overflow"),
    "two rows": ("SELECT k, (SELECT x FROM t WHERE x > 100) AS big FROM t WHERE k < 2", "more than one row"),
    "a function that raises": ("SELECT k, picky(x) AS y FROM t", "too large"),
}  # fmt: skip


@pytest.mark.parametrize("why", FAILING)
def test_a_view_that_fails_stands_alone(engine: Engine, why: str) -> None:
    def picky(x: int) -> int:
        if x > 100:
            raise ValueError("too large")
        return x

    engine.spark.udf.register("picky", picky, "bigint")
    query, reason = FAILING[why]
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT, x BIGINT)")
    engine.commit({"t": {"insert": rows(k=[0, 1], x=[1, 2])}})
    run(engine, f"CREATE INCREMENTAL VIEW bad AS {query}")
    run(engine, "CREATE INCREMENTAL VIEW over_bad AS SELECT count(*) AS n FROM bad")
    run(engine, "CREATE INCREMENTAL VIEW good AS SELECT count(*) AS n FROM t")
    before, version = bag(engine.view("bad").to_arrow()), engine.version
    with pytest.warns(RuntimeWarning, match="bad has failed and shows version"):
        commit = engine.commit({"t": {"insert": rows(k=[5, 6], x=[BIG, BIG])}})
    assert list(commit.failed) == ["bad"]
    for _ in range(2):
        assert bag(engine.view("good").to_arrow()) == bag_of((4,))
        assert bag(engine.view("bad").to_arrow()) == before
        assert status(engine, "bad") == ("FAILED", version)
        assert status(engine, "over_bad")[0] == "ACTIVE"
        assert reason in column(engine, "SHOW INCREMENTAL VIEWS LIKE 'bad'", "error")[0]
        engine = reopened(engine)
    engine.commit({"t": {"insert": rows(k=[1], x=[3])}})
    assert bag(engine.view("good").to_arrow()) == bag_of((5,))
    with pytest.raises(Exception, match=reason):
        run(engine, "REFRESH INCREMENTAL VIEW bad")
    with pytest.raises(Exception, match=reason):
        run(engine, "REFRESH INCREMENTAL VIEW bad FULL")
    assert status(engine, "bad") == ("FAILED", version)
    engine.commit({"t": {"delete": rows(k=[5, 6], x=[BIG, BIG])}})
    run(
        engine,
        "ALTER INCREMENTAL VIEW bad RESUME"
        if why != "overflow"
        else "REFRESH INCREMENTAL VIEW bad FULL",
    )
    assert status(engine, "bad") == ("ACTIVE", engine.version)
    expected = bag(engine.view("bad").to_arrow())
    run(engine, "REFRESH INCREMENTAL VIEW bad FULL")
    assert bag(engine.view("bad").to_arrow()) == expected
    assert bag(engine.view("over_bad").to_arrow()) == bag_of((sum(expected.values()),))


KEPT = {
    "rows": "SELECT k, x FROM t WHERE x > 0",
    "groups": "SELECT k, count(*) AS n FROM t GROUP BY k",
    "a multiset": "SELECT k, max(x) AS n FROM t GROUP BY k",
    "a join": "SELECT t.k, u.x FROM t JOIN u ON t.k = u.k",
    "a folded join": "SELECT u.x, sum(t.x) AS n FROM t JOIN u ON t.k = u.k GROUP BY u.x",
}


LOST = {"a multiset": "values", "a join": "output"}  # of the others, all


@pytest.mark.parametrize("what", KEPT)
def test_a_view_whose_state_disagrees_stands_alone(engine: Engine, what: str) -> None:
    """Rows are to leave that the state does not have: it is damaged, or an operator is wrong."""
    for name in ("t", "u"):
        run(engine, f"CREATE INCREMENTAL TABLE {name} (k BIGINT, x BIGINT)")
    run(engine, f"CREATE INCREMENTAL VIEW v AS {KEPT[what]}")
    run(engine, "CREATE INCREMENTAL VIEW other AS SELECT sum(x) AS s FROM t")
    every = rows(k=[1, 1, 2], x=[1, 5, 7])
    engine.commit({name: {"insert": every} for name in ("t", "u")})
    relation = engine.relation_named("v", "view")
    for name, arrangement in relation.arrangements.items():
        if LOST.get(what, "") in name:
            arrangement.runs = ()
    leaving = {"t": {"delete": rows(k=[1], x=[5])}}
    with pytest.raises(IncrementalError, match="INCR_STATE_DISAGREES"):
        engine.commit(leaving, strict=True)
    with pytest.warns(RuntimeWarning, match="view v has failed .*INCR_STATE_DISAGREES"):
        commit = engine.commit(leaving)
    assert list(commit.failed) == ["v"]
    assert status(engine, "v")[0] == "FAILED"
    assert "INCR_STATE_DISAGREES" in relation.failure
    assert bag(engine.table("t").to_arrow()) == bag_of((1, 1), (2, 7))
    assert bag(engine.view("other").to_arrow()) == bag_of((8,))
    run(engine, "REFRESH INCREMENTAL VIEW v FULL")
    assert status(engine, "v")[0] == "ACTIVE"
    expected = {
        "rows": bag_of((1, 1), (2, 7)),
        "groups": bag_of((1, 1), (2, 1)),
        "a multiset": bag_of((1, 1), (2, 7)),
        "a join": bag_of((1, 1), (1, 5), (2, 7)),
        "a folded join": bag_of((1, 1), (5, 1), (7, 7)),
    }
    assert bag(engine.view("v").to_arrow()) == expected[what]
    engine.commit({"t": {"delete": rows(k=[1], x=[1])}})
    assert engine.relation_named("v", "view").maintained == engine.version


def test_a_failure_can_be_the_commits_own(engine: Engine) -> None:
    run(engine, "CREATE INCREMENTAL TABLE t (x BIGINT)")
    run(engine, "CREATE INCREMENTAL VIEW s AS SELECT sum(x) AS s FROM t")
    with pytest.raises(IncrementalError, match="overflow"):
        engine.commit({"t": {"insert": rows(x=[BIG, BIG, BIG])}}, strict=True)
    assert engine.table("t").to_arrow().num_rows == 0
    assert status(engine, "s")[0] == "ACTIVE"


def test_the_runner_reads_refreshes_and_waits(engine: Engine, inbox: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name, path in (("s", inbox), ("o", other)):
        run(
            engine,
            f"CREATE INCREMENTAL SOURCE {name} (x BIGINT) USING json OPTIONS (path '{path}')",
        )
    both = "SELECT (SELECT count(*) FROM s) AS s, (SELECT count(*) FROM o) AS o"
    run(engine, f"CREATE INCREMENTAL VIEW at_once AS {both}")
    run(
        engine,
        "CREATE INCREMENTAL VIEW timed SCHEDULE EVERY 1 SECOND AS SELECT count(*) AS n FROM s",
    )
    seen: list[tuple[int, int]] = []

    def consumer(version: int, changes: pa.Table) -> None:
        kept = [row for row in changes.to_pylist() if row["_change_type"] == "insert"]
        seen.extend((row["s"], row["o"]) for row in kept)

    engine.view("at_once").on_change(consumer)
    version = engine.version
    engine.start(interval=0.02)
    with engine.paused():
        put(inbox, [{"x": 1}])
        put(other, [{"x": 1}])
    assert engine.await_version(version + 1, timeout=60)
    assert not engine.await_version(engine.version + 5, timeout=0.01)
    until = time.monotonic() + 60
    while time.monotonic() < until and bag(engine.view("timed").to_arrow()) != bag_of((1,)):
        time.sleep(0.05)
    assert bag(engine.view("timed").to_arrow()) == bag_of((1,))
    bad = put(inbox, "{nonsense\n")
    put(other, [{"x": 2}])
    while time.monotonic() < until and (seen[-1:] != [(1, 2)] or not engine.runner.troubles):
        time.sleep(0.02)
    assert column(engine, "SHOW INCREMENTAL SOURCES LIKE 's'", "status") == ["FAILED"]
    bad.unlink()
    put(inbox, [{"x": 3}])
    while time.monotonic() < until and seen[-1:] != [(2, 2)]:
        time.sleep(0.05)
    engine.stop()
    assert seen[-1] == (2, 2)
    assert engine.runner.failure is None
    put(inbox, [{"x": 4}])
    version = engine.version
    time.sleep(0.2)
    assert engine.version == version


def test_static_tables_are_read_once_and_watched(engine: Engine, tmp_path: Path) -> None:
    spark = engine.spark
    path = str(tmp_path / "dim")
    spark.createDataFrame([(1, "one")], "k BIGINT, name STRING").write.parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("dim")
    spark.createDataFrame([(1, 7)], "k BIGINT, y BIGINT").createOrReplaceTempView("local")
    try:
        run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT)")
        run(
            engine,
            "CREATE INCREMENTAL VIEW v AS SELECT t.k, name, y FROM t JOIN dim USING (k) JOIN local USING (k)",
        )
        engine.commit({"t": {"insert": rows(k=[1, 2])}})
        assert len(run(engine, "REFRESH INCREMENTAL VIEW v")) == 1
        spark.createDataFrame([(2, "two")], "k BIGINT, name STRING").write.mode("append").parquet(
            path
        )
        spark.read.parquet(path).createOrReplaceTempView("dim")
        spark.createDataFrame([(1, 8), (2, 9)], "k BIGINT, y BIGINT").createOrReplaceTempView(
            "local"
        )
        engine = reopened(engine)
        (_, *notes) = run(engine, "REFRESH INCREMENTAL VIEW v")
        assert [note.split(";")[0] for (note,) in notes] == [
            "static table dim has changed since it was read",
            "static table local has changed since it was read",
        ]
        assert bag(engine.view("v").to_arrow()) == bag_of((1, "one", 7))
        run(engine, "REFRESH INCREMENTAL VIEW v FULL")
        assert len(run(engine, "REFRESH INCREMENTAL VIEW v")) == 1
        assert bag(engine.view("v").to_arrow()) == bag_of((1, "one", 8), (2, "two", 9))
        spark.catalog.dropTempView("local")
        assert "local is no longer there" in run(engine, "REFRESH INCREMENTAL VIEW v")[1][0]
    finally:
        for name in ("dim", "local"):
            spark.catalog.dropTempView(name)


def test_sessions_of_spark_are_joined_where_they_are_grouped(engine: Engine) -> None:
    """Spark marks what session_window() has made, and joins what touches wherever it groups by it."""
    spark = engine.spark
    times = "VALUES (1, TIMESTAMP'2024-01-01 00:00:00'), (2, TIMESTAMP'2024-01-01 00:30:00')"
    spark.sql(
        "CREATE TEMPORARY VIEW sessions AS SELECT k, session_window(ts, '1 hour') AS w "
        f"FROM ({times}, (3, TIMESTAMP'2024-01-01 01:20:00')) AS times(k, ts)"
    )
    queries = {
        "counts": "SELECT w.start, w.end, count(*) AS n FROM sessions JOIN t USING (k) GROUP BY w",
        "distinct": "SELECT DISTINCT w.start FROM sessions JOIN t USING (k) GROUP BY w, k % 2",
    }
    try:
        run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT)")
        for name, query in queries.items():
            run(engine, f"CREATE INCREMENTAL VIEW `{name}` AS {query}")
        changes: list[dict[str, pa.Table]] = [
            {"insert": rows(k=[1, 3])},
            {"insert": rows(k=[2])},
            {"delete": rows(k=[2])},
        ]
        for change in changes:
            engine.commit({"t": change})
            engine = reopened(engine)
            for name, query in queries.items():
                expected = bag(spark.sql(query).toArrow())
                assert bag(engine.view(name).to_arrow()) == expected, query
    finally:
        spark.catalog.dropTempView("sessions")
