"""Streams of files: every form in which changes arrive, bad rows, and more columns."""

from __future__ import annotations

import datetime
import gzip
import json
import time
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_incr.engine import Engine
from spark_incr.errors import IncrementalError
from spark_incr.sources.files import MicroBatch
from tests.sources.streams import bag, bag_of, column, put, reopened, run


def source(engine: Engine, inbox: Path, columns: str, clauses: str = "", name: str = "s") -> None:
    run(
        engine,
        f"CREATE INCREMENTAL SOURCE {name} ({columns}) USING json OPTIONS (path '{inbox}') {clauses}",
    )


def totals(engine: Engine) -> None:
    run(
        engine,
        "CREATE INCREMENTAL VIEW v AS SELECT k, count(*) AS n, sum(x) AS t, max(x) AS m"
        " FROM s GROUP BY k",
    )


def test_rows_are_appended_once_over_restarts(engine: Engine, inbox: Path) -> None:
    source(engine, inbox, "k STRING, x BIGINT")
    put(inbox, [{"k": "a", "x": 1}, {"k": "b", "x": 2}])
    assert engine.process_available() == 2
    totals(engine)
    put(inbox, [{"k": "a", "x": 5, "unknown": True}, {"k": None}])
    put(inbox, [])
    engine.process_available()
    expected = bag_of(("a", 2, 6, 5), ("b", 1, 2, 2), (None, 1, None, None))
    assert bag(engine.view("v").to_arrow()) == expected
    engine = reopened(engine)
    version = engine.version
    assert engine.process_available() == version
    put(inbox, [{"k": "b", "x": 3}])
    engine.process_available()
    assert bag(engine.view("v").to_arrow())["b", 2, 5, 3] == 1
    assert column(engine, "SHOW INCREMENTAL SOURCES", "rows_read") == [5]


FORMS: dict[str, tuple[str, str, list[list[dict[str, Any]]], list[tuple[Any, ...]]]] = {
    "operation": (
        "k STRING, x BIGINT, op STRING",
        "CHANGES (OP op, DELETE WHEN 'd' OR 'x')",
        [
            [{"k": "a", "x": 1, "op": "i"}, {"k": "a", "x": 1, "op": "i"}, {"k": "b", "x": 2, "op": "c"}],
            [{"k": "a", "x": 1, "op": "d"}, {"k": "b", "x": 2, "op": "x"}, {"k": "b", "x": 3, "op": "i"}],
        ],
        [("a", 1), ("b", 3)],
    ),
    "weight": (
        "k STRING, x BIGINT",
        "CHANGES (WEIGHT w)",
        [
            [{"k": "a", "x": 1, "w": 3}, {"k": "b", "x": 2, "w": 0}, {"k": "c", "x": 1, "w": 1}],
            [{"k": "a", "x": 1, "w": -1}, {"k": "c", "x": 1, "w": -1}, {"k": "d", "x": 4, "w": -2}, {"k": "d", "x": 4, "w": 3}],
        ],
        [("a", 1), ("a", 1), ("d", 4)],
    ),
    "change feed": (
        "k STRING, x BIGINT",
        "CHANGES (CHANGE FEED)",
        [
            [{"k": "a", "x": 1, "_change_type": "insert"}, {"k": "b", "x": 2, "_change_type": "insert"}],
            [{"k": "a", "x": 1, "_change_type": "update_preimage", "_commit_version": 7}, {"k": "a", "x": 9, "_change_type": "update_postimage"},
             {"k": "b", "x": 2, "_change_type": "delete"}],
        ],
        [("a", 9)],
    ),
    "change feed by key": (
        "k STRING, x BIGINT",
        "CHANGES (CHANGE FEED) KEY (k)",
        [
            [{"k": "a", "x": 1, "_change_type": "insert", "_commit_version": 1}, {"k": "b", "x": 2, "_change_type": "insert", "_commit_version": 1}],
            # The images of one commit in the wrong order, and a commit that was overtaken.
            [{"k": "a", "x": 9, "_change_type": "update_postimage", "_commit_version": 3}, {"k": "a", "x": 5, "_change_type": "update_preimage", "_commit_version": 3},
             {"k": "a", "x": 5, "_change_type": "update_postimage", "_commit_version": 2}, {"k": "b", "x": 2, "_change_type": "delete", "_commit_version": 4}],
            [{"k": "b", "x": 2, "_change_type": "insert", "_commit_version": 1}],
        ],
        [("a", 9)],
    ),
    "upserts in order of arrival": (
        "k STRING, x BIGINT, op STRING",
        "CHANGES (OP op, DELETE WHEN 'd') KEY (k)",
        [
            [{"k": "a", "x": 1, "op": "u"}, {"k": "a", "x": 2, "op": "u"}, {"k": "b", "x": 1, "op": "u"}],
            [{"k": "b", "op": "d"}, {"k": "c", "x": 3, "op": "d"}, {"k": "d", "x": 4, "op": "d"}, {"k": "d", "x": 5, "op": "u"}],
        ],
        [("a", 2), ("d", 5)],
    ),
    "upserts by sequence": (
        "k STRING, x BIGINT, at BIGINT",
        "CHANGES (OP op, DELETE WHEN 'd') KEY (k) SEQUENCE BY at",
        [
            [{"k": "a", "x": 1, "at": 5, "op": "u"}, {"k": "a", "x": 0, "at": 4, "op": "u"}, {"k": "b", "at": 9, "op": "d"}, {"k": "c", "x": 1, "at": 1, "op": "u"}],
            # All of it again, late events for a deleted key, and one that is new.
            [{"k": "a", "x": 0, "at": 4, "op": "u"}, {"k": "a", "x": 1, "at": 5, "op": "u"}, {"k": "b", "x": 7, "at": 8, "op": "u"}, {"k": "c", "x": 2, "at": 3, "op": "u"}, {"k": "c", "at": 2, "op": "d"}],
        ],
        [("a", 1, 5), ("c", 2, 3)],
    ),
    "debezium": (
        "k STRING, x BIGINT",
        "CHANGES (DEBEZIUM)",
        [
            [{"op": "r", "after": {"k": "a", "x": 1}}, {"payload": {"op": "c", "before": None, "after": {"k": "b", "x": 2}}}],
            [{"op": "u", "before": {"k": "a", "x": 1}, "after": {"k": "a", "x": 3}, "source": {"lsn": 5}}, {"op": "d", "before": {"k": "b", "x": 2}, "after": None}, {}],
        ],
        [("a", 3)],
    ),
    "debezium by key": (
        "k STRING, x BIGINT",
        "CHANGES (DEBEZIUM) KEY (k) SEQUENCE BY ts_ms",
        [
            [{"op": "c", "after": {"k": "a", "x": 1}, "ts_ms": 1}, {"op": "c", "after": {"k": "b", "x": 2}, "ts_ms": 1}, {"op": "c", "after": {"k": "c", "x": 2}, "ts_ms": 1}],
            # No image before; only the key of it; a key that changes; a repetition.
            [{"op": "u", "after": {"k": "a", "x": 3}, "ts_ms": 2}, {"op": "d", "before": {"k": "b"}, "ts_ms": 2}, {"op": "u", "before": {"k": "c"}, "after": {"k": "d", "x": 8}, "ts_ms": 2},
             {"op": "c", "after": {"k": "b", "x": 2}, "ts_ms": 1}],
        ],
        [("a", 3), ("d", 8)],
    ),
    "debezium flattened": (
        "k STRING, x BIGINT",
        "CHANGES (DEBEZIUM FLATTENED) KEY (k) SEQUENCE BY __lsn",
        [
            [{"k": "a", "x": 1, "__op": "r", "__lsn": 1}, {"k": "b", "x": 1, "__deleted": "false", "__lsn": 1}],
            [{"k": "a", "x": 2, "__op": "u", "__lsn": 3}, {"k": "b", "__deleted": "true", "__lsn": 4}, {"k": "b", "x": 7, "__op": "u", "__lsn": 2}, {"k": "c", "__op": "d", "__lsn": 9}],
        ],
        [("a", 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_changes(engine: Engine, inbox: Path, form: str) -> None:
    """The view over the source is right when all arrives at once, and batch by batch."""
    columns, clauses, batches, expected = FORMS[form]
    for name, at_once in (("once", True), ("stepwise", False)):
        directory = inbox / name
        directory.mkdir()
        source(engine, directory, columns, clauses, name)
        view = f"CREATE INCREMENTAL VIEW v_{name} AS SELECT k, count(*) AS n, sum(x) AS t, max(x) AS m FROM {name} GROUP BY k"
        run(engine, view)
        for batch in batches:
            put(directory, batch)
            if not at_once:
                engine.process_available()
        engine.process_available()
        assert bag(engine.source(name).to_arrow()) == bag_of(*expected), name
        engine.refresh_view(f"v_{name}")
    assert bag(engine.view("v_once").to_arrow()) == bag(engine.view("v_stepwise").to_arrow())
    engine = reopened(engine)
    assert bag(engine.source("stepwise").to_arrow()) == bag_of(*expected)


def test_two_directories(engine: Engine, inbox: Path, tmp_path: Path) -> None:
    gone = tmp_path / "out"
    gone.mkdir()
    source(engine, inbox, "k STRING, x BIGINT", f"CHANGES (DELETES FROM '{gone}')")
    totals(engine)
    put(inbox, [{"k": "a", "x": 1}, {"k": "a", "x": 2}])
    engine.process_available()
    put(gone, [{"k": "a", "x": 2}, {"k": "b", "x": 3}])
    with pytest.raises(IncrementalError, match="the row to delete is not there") as caught:
        engine.process_available()
    assert '{"k": "b", "x": 3}' in caught.value.detail
    assert bag(engine.view("v").to_arrow()) == bag_of(("a", 2, 3, 2))
    put(inbox, [{"k": "b", "x": 3}])
    engine.process_available()
    assert bag(engine.view("v").to_arrow()) == bag_of(("a", 1, 1, 1))


BAD = [
    ('{"k": "a", "x": "text"}', "the row cannot be parsed"),
    ('{"k": "a", "x": 1', "the row cannot be parsed"),
    ('{"x": 1, "at": 2, "op": "i"}', "key column k is NULL"),
    ('{"k": "a", "at": 1, "op": "i"}', "column x is NOT NULL"),
    ('{"k": "a", "x": 1, "op": "i"}', "the sequence is NULL"),
    ('{"k": "a", "x": 1, "at": 2}', "the operation is NULL"),
]


def test_a_bad_row_holds_its_source_up_and_nothing_else(
    engine: Engine, inbox: Path, tmp_path: Path
) -> None:
    clauses = "CHANGES (OP op, DELETE WHEN 'd') KEY (k) SEQUENCE BY at"
    source(engine, inbox, "k STRING, x BIGINT NOT NULL, at BIGINT", clauses)
    other = tmp_path / "other"
    other.mkdir()
    source(engine, other, "x BIGINT", name="o")
    for row, reason in BAD:
        good = '{"k": "good", "x": 1, "at": 2, "op": "i"}\n'
        bad = put(inbox, good + row + "\n")
        put(other, [{"x": 1}])
        version = engine.version
        with pytest.raises(IncrementalError, match=reason) as caught:
            engine.process_available()
        assert caught.value.condition == "INCR_SOURCE_ROW"
        assert str(bad) in caught.value.detail
        assert engine.version == version + 1
        assert engine.source("s").to_arrow().num_rows == 0
        assert column(engine, "SHOW INCREMENTAL SOURCES", "status") == ["FAILED", "ACTIVE"]
        bad.unlink()
    engine.process_available()
    assert engine.source("o").to_arrow().num_rows == len(BAD)
    assert column(engine, "SHOW INCREMENTAL SOURCES", "status") == ["ACTIVE", "ACTIVE"]


def test_bad_rows_are_set_aside_with_their_reason(engine: Engine, inbox: Path) -> None:
    clauses = "CHANGES (OP op, DELETE WHEN 'd') KEY (k) SEQUENCE BY at ON ERROR QUARANTINE"
    source(engine, inbox, "k STRING, x BIGINT NOT NULL, at BIGINT", clauses)
    records: list[str] = []
    engine.on_progress(records.append)
    good = '{"k": "good", "x": 1, "at": 2, "op": "i"}\n'
    path = put(inbox, good + "".join(row + "\n" for row, _ in BAD))
    engine.process_available()
    assert bag(engine.source("s").to_arrow()) == bag_of(("good", 1, 2))
    rejected = engine.table("s__rejected").to_arrow().to_pylist()
    for row, reason in BAD:
        (found,) = [r for r in rejected if r["row"].replace(" ", "") == row.replace(" ", "")]
        assert found["reason"].startswith(reason)
        assert found["origin"] == str(path)
    metrics = json.loads(records[-1])["sources"][0]
    assert metrics["metrics"]["rejectedRows"] == len(BAD)
    assert metrics["numInputRows"] == len(BAD) + 1
    assert column(engine, "SHOW INCREMENTAL SOURCES", "rows_rejected") == [len(BAD)]
    run(
        engine,
        "CREATE INCREMENTAL VIEW bad AS SELECT reason, count(*) AS n FROM s__rejected GROUP BY reason",
    )
    assert sum(engine.view("bad").to_arrow()["n"].to_pylist()) == len(BAD)


def test_the_table_of_bad_rows_belongs_to_its_source(engine: Engine, inbox: Path) -> None:
    source(engine, inbox, "x BIGINT", "ON ERROR QUARANTINE")
    put(inbox, '{"x": "text"}\n')
    engine.process_available()
    for statement in (
        "DROP INCREMENTAL TABLE s__rejected",
        "DROP INCREMENTAL TABLE S__REJECTED CASCADE",
        "CREATE OR REPLACE INCREMENTAL TABLE s__rejected (x BIGINT)",
    ):
        with pytest.raises(IncrementalError) as caught:
            run(engine, statement)
        assert caught.value.condition == "INCR_RELATION_OWNED"
    run(engine, "DELETE FROM s__rejected")
    run(engine, "CREATE INCREMENTAL VIEW bad AS SELECT count(*) AS n FROM s__rejected")
    with pytest.raises(IncrementalError, match="INCR_RELATION_IN_USE"):
        run(engine, "DROP INCREMENTAL SOURCE s")
    run(engine, "DROP INCREMENTAL SOURCE s CASCADE")
    assert engine.relations == []
    run(engine, "CREATE INCREMENTAL TABLE s__rejected (x BIGINT)")
    with pytest.raises(IncrementalError, match="INCR_RELATION_EXISTS"):
        source(engine, inbox, "x BIGINT", "ON ERROR QUARANTINE")
    assert [relation.name for relation in engine.relations] == ["s__rejected"]
    run(engine, "DROP INCREMENTAL TABLE s__rejected")


def test_a_delete_of_nothing_is_set_aside(engine: Engine, inbox: Path) -> None:
    source(engine, inbox, "k STRING", "CHANGES (WEIGHT w) ON ERROR QUARANTINE")
    put(inbox, [{"k": "a", "w": 1}, {"k": "a", "w": -3}, {"k": "b", "w": 1}])
    engine.process_available()
    assert bag(engine.source("s").to_arrow()) == bag_of(("b",))
    assert engine.table("s__rejected").to_arrow()["row"].to_pylist() == ['{"k": "a"}']


def test_a_source_grows_a_column(engine: Engine, inbox: Path) -> None:
    source(engine, inbox, "k STRING, x BIGINT")
    run(engine, "CREATE INCREMENTAL VIEW all_of_it AS SELECT * FROM s")
    run(engine, "CREATE INCREMENTAL VIEW later MANUAL AS SELECT * FROM s")
    put(inbox, [{"k": "a", "x": 1, "y": 1.5}])
    engine.process_available()
    run(
        engine,
        f"CREATE OR REPLACE INCREMENTAL SOURCE s (k STRING, x BIGINT, y DOUBLE) USING json OPTIONS (path '{inbox}')",
    )
    put(inbox, [{"k": "b", "x": 2, "y": 2.5}])
    engine.process_available()
    for _ in range(2):
        assert bag(engine.source("s").to_arrow()) == bag_of(("a", 1, None), ("b", 2, 2.5))
        assert bag(engine.view("all_of_it").to_arrow()) == bag_of(("a", 1), ("b", 2))
        engine = reopened(engine)
    engine.refresh("later")
    assert bag(engine.view("later").to_arrow()) == bag_of(("a", 1), ("b", 2))
    run(engine, "CREATE INCREMENTAL VIEW new AS SELECT k, y FROM s")
    assert bag(engine.view("new").to_arrow()) == bag_of(("a", None), ("b", 2.5))
    for columns, clause in (
        ("k STRING, x BIGINT", ""),
        ("k STRING, x INT, y DOUBLE", ""),
        ("k STRING, x BIGINT, y DOUBLE, z INT NOT NULL", ""),
        ("k STRING, x BIGINT, y DOUBLE", "KEY (k)"),
    ):
        with pytest.raises(IncrementalError) as caught:
            run(
                engine,
                f"CREATE OR REPLACE INCREMENTAL SOURCE s ({columns}) USING json OPTIONS (path '{inbox}') {clause}",
            )
        assert caught.value.condition == "INCR_SOURCE_CHANGED"


def test_what_is_refused(engine: Engine, inbox: Path) -> None:
    for clauses in (
        "USING kafka OPTIONS (topic 't')",
        "USING json",
        "USING json OPTIONS (path '/no/such/directory')",
        f"USING json OPTIONS (path '{inbox}', mode 'DROPMALFORMED')",
        f"USING json OPTIONS (path '{inbox}') SEQUENCE BY x",
        f"USING json OPTIONS (path '{inbox}') KEY (x) SEQUENCE BY y",
        f"USING json OPTIONS (path '{inbox}') CHANGES (WEIGHT w) KEY (x)",
        f"USING json OPTIONS (path '{inbox}') CHANGES (OP x, DELETE WHEN 'd')",
    ):
        with pytest.raises(IncrementalError) as caught:
            run(engine, f"CREATE INCREMENTAL SOURCE s (x BIGINT) {clauses}")
        assert caught.value.condition == "INCR_SOURCE_UNSUPPORTED", clauses
        assert engine.relations == []
    source(engine, inbox, "x BIGINT")
    (inbox / "part=1").mkdir()
    with pytest.raises(IncrementalError, match="recursiveFileLookup"):
        engine.process_available()


def test_a_file_that_changed_is_noticed_and_a_source_can_be_read_anew(
    engine: Engine, inbox: Path
) -> None:
    source(engine, inbox, "k STRING, x BIGINT")
    totals(engine)
    path = put(inbox, [{"k": "a", "x": 1}])
    put(inbox, [{"k": "b", "x": 1}])
    engine.process_available()
    put(inbox, [{"k": "a", "x": 1}, {"k": "a", "x": 2}]).rename(path)
    engine = reopened(engine)
    with pytest.raises(IncrementalError) as caught:
        engine.process_available()
    assert caught.value.condition == "INCR_SOURCE_FILE_CHANGED"
    run(engine, "REFRESH INCREMENTAL SOURCE s FULL")
    assert bag(engine.view("v").to_arrow()) == bag_of(("a", 2, 3, 2), ("b", 1, 1, 1))


@pytest.mark.parametrize("clauses", ["", "KEY (x)", "ON ERROR QUARANTINE"])
def test_reading_anew_is_one_version_or_nothing(
    engine: Engine, inbox: Path, tmp_path: Path, clauses: str
) -> None:
    source(engine, inbox, "k STRING, x BIGINT", clauses)
    totals(engine)
    run(engine, "CREATE INCREMENTAL VIEW over AS SELECT sum(n) AS n FROM v")
    run(engine, "CREATE INCREMENTAL VIEW later MANUAL AS SELECT count(*) AS n FROM s")
    first = put(inbox, [{"k": "a", "x": 1}, {"k": "b", "x": 9}])
    engine.process_available()
    before, version = bag(engine.view("v").to_arrow()), engine.version
    inbox.rename(tmp_path / "away")
    with pytest.raises(IncrementalError, match="INCR_SOURCE_UNSUPPORTED"):
        run(engine, "REFRESH INCREMENTAL SOURCE s FULL")
    (tmp_path / "away").rename(inbox)
    if not clauses.startswith("ON ERROR"):
        bad = put(inbox, '{"k": "a", "x": "text"}\n')
        with pytest.raises(IncrementalError, match="INCR_SOURCE_ROW"):
            run(engine, "REFRESH INCREMENTAL SOURCE s FULL")
        bad.unlink()
    for _ in range(2):
        assert (bag(engine.view("v").to_arrow()), engine.version) == (before, version)
        engine = reopened(engine)
    put(inbox, [{"k": "a", "x": 1}, {"k": "b", "x": 2}]).rename(first)
    put(inbox, [{"k": "c", "x": 3}])
    run(engine, "REFRESH INCREMENTAL SOURCE s FULL")
    assert engine.version == version + 1
    assert bag(engine.view("v").to_arrow()) == bag_of(
        ("a", 1, 1, 1), ("b", 1, 2, 2), ("c", 1, 3, 3)
    )
    assert bag(engine.view("over").to_arrow()) == bag_of((3,))
    changes = engine.view("v").changes(since=version).to_pylist()
    assert sorted((row["_change_type"], row["k"], row["t"]) for row in changes) == [
        ("delete", "b", 9),
        ("insert", "b", 2),
        ("insert", "c", 3),
    ]
    last = engine.spark.sql("DESCRIBE HISTORY INCREMENTAL VIEW v").collect()[0]
    assert (last["rows_inserted"], last["rows_deleted"]) == (2, 1)
    engine.refresh("later")
    assert bag(engine.view("later").to_arrow()) == bag_of((3,))
    assert column(engine, "SHOW INCREMENTAL SOURCES", "rows_read") == [3]
    assert engine.process_available() == engine.version


def test_extremes_of_rows_that_never_leave_need_no_multiset(engine: Engine, inbox: Path) -> None:
    source(engine, inbox, "k STRING, x BIGINT")
    extremes = "max(x) AS hi, min(x) FILTER (WHERE x > 2) AS lo"
    run(engine, f"CREATE INCREMENTAL VIEW v AS SELECT k, {extremes} FROM s GROUP BY k")
    run(engine, f"CREATE INCREMENTAL VIEW w AS SELECT {extremes}, count(DISTINCT x) AS d FROM s")
    plans = ["\n".join(p for (p,) in run(engine, f"EXPLAIN INCREMENTAL VIEW {v}")) for v in "vw"]
    assert "homomorphic (rows never leave)" in plans[0]
    assert "multiset (" in plans[1]
    for batch in (
        [("a", 3), ("a", None), ("b", 1)],
        [("a", 9), ("b", 1), (None, 7)],
        [("b", 5), ("a", 4)],
    ):
        put(inbox, [{"k": k, "x": x} for k, x in batch])
        engine.process_available()
    for _ in range(2):
        assert bag(engine.view("v").to_arrow()) == bag_of(("a", 9, 3), ("b", 5, 5), (None, 7, 7))
        assert bag(engine.view("w").to_arrow()) == bag_of((9, 3, 6))
        engine = reopened(engine)
    arrangements = engine.relation_named("v", "view").arrangements
    assert [name.split(".")[-1] for name in arrangements] == ["groups"]


def test_files_that_only_spark_reads(engine: Engine, inbox: Path) -> None:
    """Nested and temporal types, compressed files, options and ORC, in the order of the files."""
    columns = "k BIGINT, at TIMESTAMP, tags ARRAY<STRING>, p STRUCT<a: INT, b: DECIMAL(5,2)>"
    source(engine, inbox, columns, "KEY (k)")
    row = {"k": 1, "at": "2024-01-02T03:04:05Z", "tags": ["x", None], "p": {"a": 1, "b": 2.5}}
    put(inbox, [{**row, "k": 2}, row])
    packed = gzip.compress((json.dumps({**row, "tags": []}) + "\n").encode())
    put(inbox, packed, "json.gz")
    engine.process_available()
    at = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    image = {"a": 1, "b": Decimal("2.50")}
    found = sorted(engine.source("s").to_arrow().to_pylist(), key=lambda r: r["k"])
    assert found == [
        {"k": 1, "at": at, "tags": [], "p": image},
        {"k": 2, "at": at, "tags": ["x", None], "p": image},
    ]
    orc, lines = inbox / "orc", inbox / "csv"
    frame = engine.spark.createDataFrame([(1, "a"), (2, None)], "x BIGINT, s STRING").coalesce(1)
    frame.write.orc(str(orc))
    lines.mkdir()
    put(lines, "s;x\n'a;b';1\nc;2\n", "csv")
    run(engine, f"CREATE INCREMENTAL SOURCE o USING orc OPTIONS (path '{orc}')")
    options = f"path '{lines}', header true, sep ';', quote '\\''"
    run(engine, f"CREATE INCREMENTAL SOURCE c (s STRING, x BIGINT) USING csv OPTIONS ({options})")
    for name in "oc":
        engine.refresh_source(name)
    assert bag(engine.source("o").to_arrow()) == bag_of((1, "a"), (2, None))
    assert bag(engine.source("c").to_arrow()) == bag_of(("a;b", 1), ("c", 2))


def waiting(engine: Engine, *batches: MicroBatch) -> list[Future[None]]:
    """Threads that submit batches of `s`, one after the other, while another leads."""
    pool = ThreadPoolExecutor(len(batches))
    futures = []
    for number, batch in enumerate(batches, 1):
        futures.append(pool.submit(engine.runner.submit, "s", batch))
        while len(engine.runner._queue) < number:
            time.sleep(0.001)
    pool.shutdown(wait=False)
    return futures


def batch_of(key: str) -> MicroBatch:
    return MicroBatch(pa.table({"k": [key], "x": pa.array([1], pa.int64())}))


def test_each_submission_of_a_source_is_committed(engine: Engine, inbox: Path) -> None:
    source(engine, inbox, "k STRING, x BIGINT")
    before = engine.version
    with engine.runner._leader:
        futures = waiting(engine, *map(batch_of, "abc"))
    for future in futures:
        future.result()
    assert bag(engine.source("s").to_arrow()) == bag_of(("a", 1), ("b", 1), ("c", 1))
    assert engine.version == before + 3


def test_a_submission_that_was_interrupted_is_not_done(
    engine: Engine, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the thread that leads: the one that waits for it hears that nothing was committed."""
    source(engine, inbox, "k STRING, x BIGINT")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with engine.runner._leader:
        [future] = waiting(engine, batch_of("a"))
        monkeypatch.setattr(engine, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.process_available()
        monkeypatch.undo()
    with pytest.raises(RuntimeError, match="interrupted"):
        future.result()
    engine.process_available()
    assert engine.source("s").to_arrow().num_rows == 0
