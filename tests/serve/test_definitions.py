"""Definitions by SQL: names in any case, types that are refused, kinds that are confused."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp

import spark_incr
from spark_incr import definitions
from spark_incr.errors import IncrementalError, Position, error
from spark_incr.plan import relations


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    enabled = spark_incr.enable(spark.newSession(), tmp_path / "state")
    yield enabled
    spark_incr.disable(enabled)


def rows(session: SparkSession, query: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in session.sql(query).collect())


def refused(session: SparkSession, statement: str) -> IncrementalError:
    with pytest.raises(IncrementalError) as raised:
        session.sql(statement)
    return raised.value


def test_a_view_that_is_replaced_keeps_its_name_and_its_readers(
    session: SparkSession, spark: SparkSession, tmp_path: Path
) -> None:
    session.sql("CREATE INCREMENTAL TABLE t (k INT)")
    session.sql("CREATE INCREMENTAL VIEW A AS SELECT k FROM t")
    session.sql("CREATE INCREMENTAL VIEW b AS SELECT sum(k) AS s FROM a")
    session.sql("INSERT INTO t VALUES (1)")
    session.sql("CREATE OR REPLACE INCREMENTAL VIEW a AS SELECT k * 10 AS k FROM t")
    session.sql("INSERT INTO t VALUES (2)")
    assert rows(session, "SELECT * FROM b") == [(30,)]
    assert refused(session, "DROP INCREMENTAL VIEW a").condition == "INCR_RELATION_IN_USE"
    spark_incr.disable(session)
    again = spark_incr.enable(spark.newSession(), tmp_path / "state")
    try:
        again.sql("INSERT INTO t VALUES (3)")
        assert rows(again, "SELECT * FROM b") == [(60,)]
    finally:
        spark_incr.disable(again)


@pytest.mark.parametrize(
    ("type_", "instead"),
    [
        ("ARRAY<VARCHAR(2)>", "Use STRING"),
        ("STRUCT<s: STRING, c: CHAR(4)>", "Use STRING"),
    ],
)
def test_a_type_that_cannot_be_kept_is_refused(
    session: SparkSession, type_: str, instead: str
) -> None:
    raised = refused(session, f"CREATE INCREMENTAL TABLE t (id INT, v {type_})")
    assert raised.condition == "INCR_TYPE_UNSUPPORTED"
    assert instead in (raised.hint or "")
    assert spark_incr.engine(session).relations == []


def test_a_varchar_has_at_most_its_length(spark: SparkSession, tmp_path: Path) -> None:
    session = spark_incr.enable(spark.newSession(), tmp_path / "state")
    session.sql("CREATE INCREMENTAL TABLE t (id INT, v VARCHAR(3), PRIMARY KEY (id))")
    session.sql("CREATE INCREMENTAL VIEW n AS SELECT v, count(*) AS n FROM t GROUP BY v")
    session.sql("INSERT INTO t VALUES (1, 'abc'), (2, 'äöü'), (3, NULL), (4, 'abc   '), (5, '')")
    spark_incr.disable(session)

    session = spark_incr.enable(spark.newSession(), tmp_path / "state")
    try:
        for statement in (
            "INSERT INTO t VALUES (6, 'x'), (7, 'abcd')",
            "UPDATE t SET v = v || 'd' WHERE id = 1",
            "MERGE INTO t USING (SELECT 1 AS id) AS s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = 'abcd'",
        ):
            raised = refused(session, statement)
            assert raised.condition == "INCR_TOO_LONG"
            assert "'abcd'" in raised.message
        found = rows(session, "SELECT coalesce(v, '-'), n FROM n")
        assert found == [("", 1), ("-", 1), ("abc", 2), ("äöü", 1)]
        session.sql("DELETE FROM t WHERE v = 'abc'")
        assert rows(session, "SELECT id FROM t") == [(2,), (3,), (5,)]
    finally:
        spark_incr.disable(session)


def test_defaults_are_kept_and_shown(spark: SparkSession, tmp_path: Path) -> None:
    session = spark_incr.enable(spark.newSession(), tmp_path / "state")
    session.sql(
        "CREATE INCREMENTAL TABLE d (id INT, s VARCHAR(5) DEFAULT 'a' || ',b' COMMENT 'c',"
        " c CHAR(3) DEFAULT 'x', made DATE NOT NULL DEFAULT current_date(), n DECIMAL(5,2) DEFAULT 1.005,"
        " PRIMARY KEY (id))"
    )
    session.sql(
        "CREATE INCREMENTAL VIEW v AS SELECT s, c, n, count(made) AS m FROM d GROUP BY s, c, n"
    )
    session.sql("INSERT INTO d (id) VALUES (1), (2)")
    (shown,) = session.sql("SHOW CREATE INCREMENTAL TABLE d").collect()
    spark_incr.disable(session)
    again = spark_incr.enable(spark.newSession(), tmp_path / "state")
    try:
        again.sql("INSERT INTO d VALUES (3, DEFAULT, 'y', DATE'2020-01-01', DEFAULT)")
        again.sql("UPDATE d SET s = 'q' WHERE id = 1")
        again.sql("UPDATE d SET s = DEFAULT, c = DEFAULT WHERE id <> 2")
        given = {
            row.id: row.made == row.today
            for row in again.sql("SELECT *, current_date() AS today FROM d").collect()
        }
        assert given == {1: True, 2: True, 3: False}
        assert rows(again, "SELECT * FROM v") == [("a,b", "x  ", Decimal("1.01"), 3)]
        version = spark_incr.engine(again).version
        assert refused(again, "UPDATE d SET id = DEFAULT").condition == "INCR_NULL_KEY"
        assert (
            refused(
                again, "INSERT INTO d VALUES (9, 'much too long', 'x', current_date(), 1)"
            ).condition
            == "INCR_TOO_LONG"
        )
        assert spark_incr.engine(again).version == version
        described = [
            tuple(row) for row in again.sql("DESCRIBE EXTENDED INCREMENTAL TABLE d").collect()
        ]
        assert ("s", "string", "'a' || ',b'") in described
        assert ("made", "date", "current_date()") in described
        assert ("Not null", "made", None) in described
        again.sql(shown[0].replace("TABLE d", "TABLE e"))
        again.sql("INSERT INTO e (id) VALUES (1)")
        assert again.sql("SELECT s, c FROM e").collect() == [("a,b", "x  ")]
    finally:
        spark_incr.disable(again)


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        ("c INT DEFAULT 'x'", "INVALID_DEFAULT_VALUE.DATA_TYPE"),
        ("c INT DEFAULT id + 1", "INVALID_DEFAULT_VALUE.UNRESOLVED_EXPRESSION"),
        ("c INT DEFAULT (SELECT 1)", "INVALID_DEFAULT_VALUE.SUBQUERY_EXPRESSION"),
        ("c DOUBLE DEFAULT rand()", "INVALID_DEFAULT_VALUE.NOT_CONSTANT"),
        ("c VARCHAR(2) DEFAULT 'abc'", "EXCEED_LIMIT_LENGTH"),
        ("c BIGINT DEFAULT count(*)", "INCR_SYNTAX"),
    ],
)
def test_a_default_is_what_spark_admits(session: SparkSession, column: str, condition: str) -> None:
    with pytest.raises((IncrementalError, PySparkException)) as raised:
        session.sql(f"CREATE INCREMENTAL TABLE d (id INT, {column})")
    assert raised.value.getCondition() == condition
    assert spark_incr.engine(session).find("d") is None


def test_a_relation_of_another_kind_is_named(session: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL TABLE t (k INT)")
    with pytest.raises(IncrementalError, match="t is a table") as raised:
        spark_incr.engine(session).view("t")
    assert "SHOW INCREMENTAL VIEWS" in raised.value.hint


def test_what_is_said_and_listed(session: SparkSession) -> None:
    for create, done in (("CREATE", "created"), ("CREATE OR REPLACE", "replaced")):
        table = session.sql(f"{create} INCREMENTAL TABLE u (k INT)").collect()
        view = session.sql(f"{create} INCREMENTAL VIEW {done} AS SELECT 1 AS one").collect()
        assert (table, view[0][0].split(";")[0]) == ([(f"{done} table u",)], f"created view {done}")
    for pattern, names in {
        "c*|other": ["created"],
        "CREAT%|replac__": ["created", "replaced"],
    }.items():
        found = session.sql(f"SHOW INCREMENTAL VIEWS LIKE '{pattern}'").collect()
        assert [row[0] for row in found] == names
    again = session.sql("CREATE OR REPLACE INCREMENTAL VIEW created AS SELECT 2 AS two").collect()
    assert again[0][0].startswith("replaced view created")


def test_what_is_advised_can_be_done(session: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL TABLE t (k INT)")
    session.sql("CREATE INCREMENTAL VIEW v AS SELECT k FROM t")
    for statement, condition, hint in (
        (
            "CREATE INCREMENTAL VIEW t AS SELECT 1 AS one",
            "INCR_RELATION_EXISTS",
            "Use another name, or DROP INCREMENTAL TABLE first.",
        ),
        (
            "CREATE OR REPLACE INCREMENTAL VIEW t AS SELECT 1 AS one",
            "INCR_RELATION_EXISTS",
            "Use another name, or DROP INCREMENTAL TABLE first.",
        ),
        (
            "CREATE OR REPLACE INCREMENTAL TABLE v (k INT)",
            "INCR_RELATION_EXISTS",
            "Use another name, or DROP INCREMENTAL VIEW first.",
        ),
        (
            "CREATE INCREMENTAL TABLE t (k INT)",
            "INCR_RELATION_EXISTS",
            "Use IF NOT EXISTS, OR REPLACE, or another name.",
        ),
        (
            "CREATE OR REPLACE INCREMENTAL TABLE t (k BIGINT)",
            "INCR_RELATION_IN_USE",
            "Drop those views first, or DROP INCREMENTAL TABLE with CASCADE.",
        ),
        (
            "CREATE INCREMENTAL TABLE u (k INT, K INT)",
            "INCR_DUPLICATE_COLUMN",
            "Give each column a name of its own.",
        ),
    ):
        found = refused(session, statement)
        assert (found.condition, found.hint) == (condition, hint)


def test_a_session_of_the_same_process_is_named(session: SparkSession, spark: SparkSession) -> None:
    with pytest.raises(IncrementalError, match="INCR_STATE_LOCKED") as raised:
        spark_incr.enable(spark.newSession(), spark_incr.engine(session).path)
    assert "this process" in raised.value.detail
    assert "spark_incr.disable" in raised.value.hint


def test_a_commit_takes_arrow_tables_of_different_tables(session: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL TABLE t (k INT)")
    engine = spark_incr.engine(session)
    one = pa.table({"k": pa.array([1], pa.int32())})
    with pytest.raises(IncrementalError, match=r"a list is no pyarrow\.Table"):
        engine.commit({"t": {"insert": [{"k": 1}]}})  # type: ignore[dict-item]
    with pytest.raises(IncrementalError, match="INCR_SCHEMA_MISMATCH") as raised:
        engine.commit({"t": one})  # type: ignore[dict-item]
    assert "{'t': {'insert': rows}}" in raised.value.hint
    with pytest.raises(IncrementalError, match="named twice"):
        engine.commit({"t": {"insert": one}, "T": {"insert": one}})
    assert engine.table("t").to_arrow().num_rows == 0


def test_a_key_is_in_the_table_or_given_twice(session: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL TABLE t (k INT PRIMARY KEY, x INT)")
    session.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    twice = "primary key of t given more than once: (k=3)"
    for statement, message, hint in (
        ("INSERT INTO t VALUES (3, 1), (3, 2)", twice, "Give one row for each key."),
        (
            "MERGE INTO t USING (SELECT 3 AS k UNION ALL SELECT 3) AS s ON t.k = s.k"
            " WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)",
            twice,
            "Match rows by the key, let WHEN MATCHED change those whose key is there, and give each"
            " key once.",
        ),
        (
            "INSERT INTO t VALUES (1, 1), (3, 1), (3, 2)",
            "primary key of t already present: (k=1)",
            "Use MERGE or UPDATE to change a row that is there.",
        ),
        (
            "UPDATE t SET k = 1 WHERE k = 2",
            "primary key of t already present: (k=1)",
            "Leave the key as it is, or give each row a key that no other row has.",
        ),
    ):
        found = refused(session, statement)
        assert (found.condition, found.message, found.hint) == (
            "INCR_DUPLICATE_KEY",
            message,
            hint,
        )


def test_an_error_of_spark_points_into_the_statement(session: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL TABLE t (k INT)")
    with pytest.raises(AnalysisException, match="line 3 pos 3"):
        session.sql("CREATE INCREMENTAL VIEW v AS\n  SELECT k,\n   nothing AS r FROM t")
    with pytest.raises(PySparkException, match=r"INTT.*line 2 pos 2"):
        session.sql("CREATE INCREMENTAL TABLE u (a INT,\nb INTT)")
    with pytest.raises(PySparkException, match=r"INTT.*line 1 pos 41"):
        session.sql("CREATE INCREMENTAL SOURCE u (a STRUCT<b: INTT>) USING json")


def test_readers_of_a_view_that_stays_behind_show_its_version(session: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL TABLE t (k INT)")
    session.sql("CREATE INCREMENTAL VIEW low AS SELECT k FROM t")
    session.sql("CREATE INCREMENTAL VIEW high AS SELECT sum(k) AS s FROM low")
    session.sql("ALTER INCREMENTAL VIEW low SUSPEND")
    version = spark_incr.engine(session).version
    session.sql("INSERT INTO t VALUES (1)")
    shown = {row["view"]: row for row in session.sql("SHOW INCREMENTAL VIEWS").collect()}
    assert {row["shows_version"] for row in shown.values()} == {version}


@pytest.mark.parametrize(
    ("conf", "value"),
    [("spark.sql.legacy.statisticalAggregate", "true"), ("spark.sql.orderByOrdinal", "false")],
)
def test_settings_that_are_not_followed_are_refused(
    session: SparkSession, conf: str, value: str
) -> None:
    session.sql("CREATE INCREMENTAL TABLE t (k INT)")
    session.conf.set(conf, value)
    raised = refused(session, "CREATE INCREMENTAL VIEW v AS SELECT stddev(k) AS d FROM t")
    assert conf in raised.message
    assert conf in (raised.hint or "")


def test_a_view_keeps_the_older_ways_of_its_creation(session: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL TABLE t (k STRING)")
    session.conf.set("spark.sql.legacy.negativeIndexInArrayInsert", "true")
    query = "SELECT array_insert(array(k, 'b'), -1, 'z') AS a FROM t"
    session.sql(f"CREATE INCREMENTAL VIEW v AS {query}")
    session.conf.unset("spark.sql.legacy.negativeIndexInArrayInsert")
    session.sql("INSERT INTO t VALUES ('a')")
    assert rows(session, "SELECT * FROM v") == [(["a", "z", "b"],)]
    assert rows(session, query) == [(["a", "b", "z"],)]


def test_literals_of_another_reading_are_refused(session: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL TABLE t (k STRING)")
    session.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    raised = refused(session, r"CREATE INCREMENTAL VIEW v AS SELECT k = '\t' AS b FROM t")
    assert "escapedStringLiterals" in raised.message
    session.sql("CREATE INCREMENTAL VIEW v AS SELECT k = 't' AS b FROM t")


@pytest.mark.parametrize(
    "definition",
    [
        "SELECT k FROM t",
        "SELECT 1 AS k WHERE EXISTS (SELECT 1 FROM t)",
        "SELECT a.k FROM static AS a JOIN over AS b ON a.k = b.k",
    ],
)
def test_a_view_of_spark_over_a_relation_is_not_read_once(
    session: SparkSession, definition: str
) -> None:
    session.sql("CREATE INCREMENTAL TABLE t (k INT)")
    session.range(3).selectExpr("CAST(id AS INT) AS k").createOrReplaceTempView("static")
    session.table("t").filter("k > 0").createOrReplaceTempView("over")
    session.sql(f"CREATE TEMPORARY VIEW w AS {definition}")
    raised = refused(session, "CREATE INCREMENTAL VIEW v AS\nSELECT count(*) AS n FROM w")
    assert raised.condition == "INCR_NOT_FOLLOWED"
    assert "incremental table t" in raised.message
    assert raised.position == Position(2, 27)
    session.sql("CREATE TEMPORARY VIEW own AS SELECT t.k FROM static AS t")
    session.sql("CREATE INCREMENTAL VIEW v AS SELECT count(*) AS n FROM own")


def test_a_function_that_changes_is_noticed(session: SparkSession) -> None:
    def plus(value: int) -> int:
        return value + 1

    session.udf.register("moved", plus, "int")
    session.sql("CREATE TEMPORARY FUNCTION twice(k INT) RETURNS INT RETURN k * 2")
    session.sql("CREATE INCREMENTAL TABLE t (k INT)")
    session.sql("CREATE INCREMENTAL VIEW by_python AS SELECT moved(k) AS m FROM t")
    session.sql("CREATE INCREMENTAL VIEW by_sql AS SELECT twice(k) AS m FROM t")
    session.sql("INSERT INTO t VALUES (1)")
    session.udf.register("moved", plus, "int")
    session.sql("INSERT INTO t VALUES (2)")
    assert rows(session, "SELECT * FROM by_python") == [(2,), (3,)]
    session.udf.register("moved", lambda value: value - 1, "int")
    session.sql("CREATE OR REPLACE TEMPORARY FUNCTION twice(k INT) RETURNS INT RETURN k * 3")
    with pytest.warns(RuntimeWarning, match="the function (moved|twice) is not the one"):
        session.sql("INSERT INTO t VALUES (3)")
    assert rows(session, "SELECT * FROM by_python") == [(2,), (3,)]
    assert rows(session, "SELECT * FROM by_sql") == [(2,), (4,)]
    session.sql("REFRESH INCREMENTAL VIEW by_python FULL")
    session.sql("REFRESH INCREMENTAL VIEW by_sql FULL")
    session.sql("INSERT INTO t VALUES (4)")
    assert rows(session, "SELECT * FROM by_python") == [(0,), (1,), (2,), (3,)]
    assert rows(session, "SELECT * FROM by_sql") == [(3,), (6,), (9,), (12,)]


@pytest.mark.parametrize(
    "command",
    [
        "DELETE FROM t",
        "WITH w AS (SELECT 5 AS k) INSERT INTO t SELECT * FROM w",
        "DROP INCREMENTAL TABLE t",
        "DROP VIEW mine",
        "SET spark.sql.ansi.enabled=false",
        "EXECUTE IMMEDIATE 'DROP VIEW mine'",
        "SHOW TABLES",
    ],
)
def test_a_command_is_no_query_and_is_not_carried_out(session: SparkSession, command: str) -> None:
    session.sql("CREATE INCREMENTAL TABLE t (k INT)")
    session.sql("INSERT INTO t VALUES (1)")
    session.sql("CREATE TEMPORARY VIEW mine AS SELECT 1 AS a")
    for head in ("CREATE", "EXPLAIN CREATE"):
        for policy in ("", "REFRESH POLICY AUTO"):
            with pytest.raises((IncrementalError, PySparkException)):
                session.sql(f"{head} INCREMENTAL VIEW v {policy} AS {command}")
    assert rows(session, "SELECT k, a FROM t, mine") == [(1, 1)]
    assert session.conf.get("spark.sql.ansi.enabled") == "true"


@pytest.mark.parametrize("made", ["TABLE mine (b INT)", "VIEW Mine AS SELECT 2 AS b"])
def test_views_of_users_are_not_replaced(session: SparkSession, made: str) -> None:
    session.sql("CREATE TEMPORARY VIEW mine AS SELECT 1 AS a")
    assert refused(session, f"CREATE INCREMENTAL {made}").condition == "INCR_RELATION_EXISTS"
    assert rows(session, "SELECT a FROM mine") == [(1,)]
    session.sql("DROP VIEW mine")
    session.sql(f"CREATE INCREMENTAL {made}")
    session.sql(f"CREATE OR REPLACE INCREMENTAL {made}")


def test_a_map_is_no_key(session: SparkSession) -> None:
    statement = "CREATE INCREMENTAL TABLE t (m MAP<STRING, INT>, PRIMARY KEY (m))"
    assert refused(session, statement).condition == "INCR_KEY_TYPE"


@pytest.mark.parametrize(
    ("column", "given", "kept"),
    [
        ("DECIMAL(10,2)", pa.array([1.005]), None),
        ("DECIMAL(10,2)", pa.array([0.25, 0.1]), [Decimal("0.25"), Decimal("0.10")]),
        ("DECIMAL(10,2)", pa.array([Decimal("1.005")]), None),
        ("BIGINT", pa.array(["7"]), None),
        ("DATE", pa.array(["2024-01-01"]).dictionary_encode(), None),
        ("STRING", pa.array(["a", "a"]).dictionary_encode(), ["a", "a"]),
        ("INT", pa.array([7], pa.int64()), [7]),
        ("INT", pa.array([2**40]), None),
    ],
)
def test_values_of_commits_stay_what_they_are(
    session: SparkSession, column: str, given: pa.Array, kept: list[Any] | None
) -> None:
    session.sql(f"CREATE INCREMENTAL TABLE t (x {column})")
    engine = spark_incr.engine(session)
    rows_ = pa.table({"x": given})
    if kept is None:
        with pytest.raises(IncrementalError) as refusal:
            engine.commit({"t": {"insert": rows_}})
        assert refusal.value.condition == "INCR_SCHEMA_MISMATCH"
    else:
        engine.commit({"t": {"insert": rows_}})
    assert sorted(row[0] for row in session.sql("SELECT x FROM t").collect()) == sorted(kept or [])


@pytest.mark.parametrize(
    ("subquery", "what"),
    [
        ("SELECT 1 FROM s WHERE s.k = r.k AND EXISTS (FROM s TABLESAMPLE (9 ROWS))", "TABLESAMPLE"),
        ("SELECT 1 FROM s WHERE s.k = l.k AND EXISTS (FROM s TABLESAMPLE (9 ROWS))", "TABLESAMPLE"),
        ("SELECT 1 FROM s WHERE s.k = r.k AND s.x = l.x", "both sides of an outer join"),
    ],
)
def test_a_subquery_of_an_outer_join_is_refused_for_what_it_is(
    session: SparkSession, subquery: str, what: str
) -> None:
    """And not because it cannot stand beside the other side."""
    for name in "lrs":
        session.sql(f"CREATE INCREMENTAL TABLE {name} (k INT, x INT)")
    query = f"SELECT l.k FROM l LEFT JOIN r ON l.k = r.k AND EXISTS ({subquery})"
    assert what in refused(session, f"CREATE INCREMENTAL VIEW v AS {query}").message


def test_what_a_side_of_an_outer_join_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal on the right, where all names are known, is not hidden by one of the left."""

    def refuse(env: Any, node: str, *_: Any) -> None:
        raise error("INCR_UNSUPPORTED", what=f"something on the {node}")

    monkeypatch.setattr(relations, "subquery_value", refuse)
    sides: Any = ("left", None), ("right", None)
    with pytest.raises(IncrementalError, match="something on the right"):
        relations._beside(exp.Exists(), *sides, cast(Any, None))


def test_a_view_that_another_version_kept_is_computed_anew_and_it_is_told(
    session: SparkSession, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("CREATE INCREMENTAL TABLE t (k INT)")
    session.sql("CREATE INCREMENTAL VIEW a AS SELECT k FROM t")
    session.sql("CREATE INCREMENTAL VIEW b AS SELECT sum(k) AS s FROM a")
    session.sql("CREATE INCREMENTAL VIEW c AS SELECT 10 DIV k AS q FROM t")
    session.sql("INSERT INTO t VALUES (1), (2)")
    with pytest.warns(RuntimeWarning, match="INCR_VIEW_FAILED"):
        session.sql("INSERT INTO t VALUES (0)")
    spark_incr.disable(session)
    shown: list[tuple[str, int, int]] = []
    monkeypatch.setattr(
        sys.modules["spark_incr.engine"], "show_progress", lambda *told: shown.append(told)
    )
    monkeypatch.setattr(definitions, "plan_fingerprint", lambda plan: "of another version")
    with pytest.warns(RuntimeWarning) as warned:
        again = spark_incr.enable(spark.newSession(), tmp_path / "state")
    told = [str(w.message).split(":")[0] for w in warned if w.category is RuntimeWarning]
    assert told == [
        "[INCR_VIEW_OUTDATED] view a is computed anew",
        "[INCR_VIEW_OUTDATED] view b is computed anew",
        "[INCR_VIEW_OUTDATED] view c is computed anew",
        "[INCR_VIEW_DAMAGED] the stored state of c is damaged",
    ]
    assert ("a", 3, 3) in shown
    try:
        assert rows(again, "SELECT * FROM b") == [(3,)]
        for name in "ab":
            history = again.sql(f"DESCRIBE HISTORY INCREMENTAL VIEW {name}").collect()
            assert history[0]["operation"] == "open"
        again.sql("DELETE FROM t WHERE k = 0")
        again.sql("REFRESH INCREMENTAL VIEW c FULL")
    finally:
        spark_incr.disable(again)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        last = spark_incr.enable(spark.newSession(), tmp_path / "state")
    try:
        assert rows(last, "SELECT * FROM c") == [(5,), (10,)]
    finally:
        spark_incr.disable(last)
