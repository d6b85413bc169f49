"""REFRESH POLICY AUTO and FULL: what cannot be taken apart is computed anew, and is said to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from sqlglot import exp

import spark_incr
from spark_incr.errors import IncrementalError, error
from spark_incr.plan.nodes import Node
from tests.oracle import Batch, check, delete, insert, together, update

TABLES = {
    "t": "id INT, k STRING, c CHAR(3), s STRING COLLATE UTF8_LCASE, at TIMESTAMP_NTZ",
    "u": "k STRING, v DECIMAL(8,2)",
    "n": "i INT",
}
BATCHES: Sequence[Batch] = [
    {
        "t": {
            "insert": [
                (1, "a", "ab ", "x", None),
                (1, "a", "ab ", "x", None),
                (2, "b", "a  ", "X", None),
                (None, None, None, None, None),
            ]
        },
        "u": {"insert": [("a", 1), ("a", 1), (None, 2)]},
    },
    together(
        update("t", ((2, "b", "a  ", "X", None), (2, "a", "ab ", "y", None))),
        insert("u", ("b", None), ("a", 3)),
    ),
    {"t": {"delete": [(1, "a", "ab ", "x", None)]}, "u": {"delete": [("a", 1)]}},
    {},
    delete("t", (1, "a", "ab ", "x", None), (2, "a", "ab ", "y", None), (None,) * 5),
    insert("t", (7, "b", "abc", "x", None)),
]
NOT_TAKEN_APART = [
    "SELECT k FROM t ORDER BY window(coalesce(at, TIMESTAMP_NTZ'2024-01-01 00:00:00'), '1 hour')",
    "SELECT id, (SELECT v FROM u WHERE u.k = upper(t.k) ORDER BY v LIMIT 1) AS m FROM t",
    "SELECT * FROM repeated(TABLE(u) PARTITION BY (SELECT 1) ORDER BY (v, k))",
]
# No text of SQL can make a column CHAR again, so the texts of these do not pad.
PADDED = [
    "SELECT id FROM t WHERE c = concat('a', 'b')",
    "SELECT id, c FROM t WHERE equal_null(c, 'ab')",
    "SELECT c, count(*) AS n FROM t WHERE c IN ('ab', lower('A')) GROUP BY c",
    "SELECT id, decode(c, 'ab', 1, 'a', 2) AS d FROM t",
    """WITH RECURSIVE r(c, n) AS (SELECT c, 1 FROM t UNION ALL
       SELECT c, n + 1 FROM r WHERE n < 3 AND c = 'ab') SELECT * FROM r""",
]
ORDINARY = [
    "SELECT k, count(*) AS n, sum(v) AS s FROM u GROUP BY k",
    "SELECT t.id, u.v FROM t LEFT JOIN u ON t.k = u.k AND t.s = 'X'",
    "SELECT id, (SELECT max(v) FROM u WHERE u.k = t.k) AS m FROM t WHERE EXISTS (SELECT 1 FROM u)",
    "SELECT id FROM t WHERE s = 'x' UNION ALL (TABLE n)",
    "WITH RECURSIVE r(n) AS (SELECT min(id) FROM t UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT n FROM r",
    "FROM t |> WHERE id > 1 |> SELECT id, s |> ORDER BY id |> LIMIT 2",
    "SELECT 1 AS one",
    "SELECT id FROM IDENTIFIER('t' || '')",
    """WITH t AS (SELECT id, k FROM IDENTIFIER(lower('T')) -- hides it
       ) SELECT count(*) AS n FROM t, u WHERE t.k = u.k""",
]


@udtf(returnType="k STRING, n INT")
class Repeated:
    """The key of the last row of each partition, and how many rows it has."""

    def __init__(self) -> None:
        self.key, self.count = None, 0

    def eval(self, row) -> None:  # type: ignore[no-untyped-def]
        self.key, self.count = row["k"], self.count + 1

    def terminate(self):  # type: ignore[no-untyped-def]
        yield self.key, self.count


@pytest.fixture(scope="module", autouse=True)
def functions(spark: SparkSession) -> None:
    spark.udtf.register("repeated", Repeated.asDeterministic())


@pytest.mark.parametrize("query", NOT_TAKEN_APART)
def test_what_cannot_be_taken_apart(spark: SparkSession, query: str) -> None:
    check(spark, TABLES, query, BATCHES, policy="AUTO", reopen=True, reference=True)


def test_recursions_pad(spark: SparkSession) -> None:
    check(spark, TABLES, PADDED[-1], BATCHES)


@pytest.mark.parametrize("policy", ["AUTO", "FULL"])
def test_padded_columns(spark: SparkSession, policy: str) -> None:
    check(spark, TABLES, PADDED, BATCHES, policy=policy, created_after=2)


def test_any_query_can_be_computed_anew(spark: SparkSession) -> None:
    check(spark, TABLES, ORDINARY, BATCHES, policy="FULL", created_after=1, reference=True)


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    own = spark.newSession()
    spark_incr.enable(own, state=tmp_path / "state")
    own.sql("CREATE INCREMENTAL TABLE t (id INT, k STRING COLLATE UTF8_LCASE)")
    own.sql("INSERT INTO t VALUES (1, 'a'), (2, 'A')")
    yield own
    spark_incr.disable(own)


SORTED = "SELECT DISTINCT lower(k) AS k FROM t SORT BY window(TIMESTAMP_NTZ'2024-01-01 00:00:00', '1 hour')"


def _said(session: SparkSession, statement: str) -> str:
    return "\n".join(str(row[0]) for row in session.sql(statement).collect())


def _recomputed(session: SparkSession) -> list[str]:
    rows = session.sql("DESCRIBE EXTENDED INCREMENTAL VIEW v").collect()
    return [row.data_type for row in rows if row.col_name == "Computed anew"]


def test_it_is_never_silent(session: SparkSession) -> None:
    create = f"CREATE INCREMENTAL VIEW v AS {SORTED}"
    with pytest.raises(IncrementalError) as raised:
        session.sql(create)
    assert raised.value.condition == "INCR_UNSUPPORTED"
    assert "REFRESH POLICY AUTO" in raised.value.hint
    create = create.replace(" AS ", " REFRESH POLICY AUTO AS ", 1)
    reason = "window() in SORT BY cannot be maintained incrementally"
    anew = f"full ({reason}: Spark runs it anew over all rows that it reads)"
    assert anew in _said(session, f"EXPLAIN {create}")
    said = f"created view v; each batch computes all of it anew ({reason})"
    assert _said(session, create).startswith(said)
    assert anew in _said(session, "EXPLAIN INCREMENTAL VIEW v")
    assert _recomputed(session) == [reason]
    session.sql("INSERT INTO t VALUES (3, 'b')")
    outcomes = session.sql("DESCRIBE HISTORY INCREMENTAL VIEW v").select("outcome").collect()
    assert {row.outcome for row in outcomes} == {"recomputed"}
    assert {row.k for row in session.sql("SELECT * FROM v").collect()} == {"a", "b"}


def test_the_policy_can_be_altered(session: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL VIEW v AS SELECT k, count(*) AS n FROM t GROUP BY k")
    session.sql("CREATE INCREMENTAL VIEW above AS SELECT sum(n) AS s FROM v")
    assert _recomputed(session) == []
    session.sql("ALTER INCREMENTAL VIEW v SET REFRESH POLICY AUTO")
    assert _recomputed(session) == []
    said = _said(session, "ALTER INCREMENTAL VIEW v SET REFRESH POLICY FULL")
    assert said == "altered view v; each batch computes all of it anew (REFRESH POLICY FULL)"
    assert _recomputed(session) == ["REFRESH POLICY FULL"]
    session.sql("INSERT INTO t VALUES (3, 'b')")
    assert session.sql("SELECT s FROM above").collect() == [(3,)]
    session.sql("ALTER INCREMENTAL VIEW v SET REFRESH POLICY INCREMENTAL")
    assert _recomputed(session) == []
    session.sql("DELETE FROM t WHERE id = 1")
    assert session.sql("SELECT s FROM above").collect() == [(2,)]


def test_a_policy_that_does_not_fit_changes_nothing(session: SparkSession) -> None:
    session.sql(f"CREATE INCREMENTAL VIEW v REFRESH POLICY AUTO AS {SORTED}")
    with pytest.raises(IncrementalError, match="INCR_UNSUPPORTED"):
        session.sql("ALTER INCREMENTAL VIEW v SET REFRESH POLICY INCREMENTAL STRICT")
    assert len(_recomputed(session)) == 1
    session.sql("INSERT INTO t VALUES (3, 'b')")
    assert session.sql("SELECT * FROM v").count() == 2


def test_a_suspended_view_stays_suspended(session: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL VIEW v AS SELECT id FROM t")
    session.sql("ALTER INCREMENTAL VIEW v SUSPEND")
    session.sql("ALTER INCREMENTAL VIEW v SET REFRESH POLICY FULL")
    (row,) = session.sql("SHOW INCREMENTAL VIEWS").collect()
    assert (row.status, row.refresh_policy) == ("SUSPENDED", "FULL")


def test_a_view_that_is_refused_when_the_state_is_opened(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails alone, and is there again once its policy allows it."""
    own = spark.newSession()
    spark_incr.enable(own, state=tmp_path / "state")
    own.sql("CREATE INCREMENTAL TABLE t (id INT)")
    own.sql("INSERT INTO t VALUES (1), (2)")
    own.sql("CREATE INCREMENTAL VIEW v AS SELECT id, id + 1 AS n FROM t")
    own.sql("CREATE INCREMENTAL VIEW w AS SELECT max(id) AS m FROM t")
    spark_incr.disable(own)

    def refuse(query: exp.Query, *rest: object) -> Node:
        if "id + 1" in query.sql():
            raise error("INCR_UNSUPPORTED", what="adding one")
        return build_plan(query, *rest)

    compiled = import_module("spark_incr.compile")
    build_plan = compiled.build_plan
    monkeypatch.setattr(compiled, "build_plan", refuse)
    spark_incr.enable(own, state=tmp_path / "state")
    try:
        shown = {row.view: row.status for row in own.sql("SHOW INCREMENTAL VIEWS").collect()}
        assert shown == {"v": "FAILED", "w": "ACTIVE"}
        own.sql("INSERT INTO t VALUES (3)")
        assert own.sql("SELECT * FROM w").collect() == [(3,)]
        own.sql("ALTER INCREMENTAL VIEW v SET REFRESH POLICY AUTO")
        assert sorted(own.sql("SELECT n FROM v").collect()) == [(2,), (3,), (4,)]
    finally:
        spark_incr.disable(own)


@pytest.mark.parametrize("policy", ["AUTO", "FULL"])
@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("SELECT rand() AS r FROM t", "INCR_NONDETERMINISTIC"),
        ("SELECT current_date() AS r FROM t", "INCR_NONDETERMINISTIC"),
        ("SELECT id FROM t TABLESAMPLE (50 PERCENT)", "INCR_NONDETERMINISTIC"),
        ("SELECT k, first(id) AS f FROM t GROUP BY k", "INCR_NONDETERMINISTIC"),
        ("SELECT id FROM IDENTIFIER('t' || '') WHERE uuid() = k", "INCR_NONDETERMINISTIC"),
        ("SELECT is_among(id) AS n FROM t", "INCR_UNSUPPORTED"),
        ("SELECT id FROM t VERSION AS OF 1", "INCR_UNSUPPORTED"),
        ("SELECT id FROM over_t", "INCR_NOT_FOLLOWED"),
        ("SELECT id AS __incr_id FROM t", "INCR_RESERVED_NAME"),
        ("SELECT nothing FROM t", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    ],
)
def test_what_is_refused_all_the_same(
    session: SparkSession, query: str, condition: str, policy: str
) -> None:
    session.sql("CREATE OR REPLACE TEMP VIEW over_t AS SELECT * FROM t")
    session.sql(
        "CREATE OR REPLACE TEMP FUNCTION is_among(x INT) RETURNS BOOLEAN RETURN x IN (SELECT k FROM t)"
    )
    with pytest.raises((IncrementalError, PySparkException)) as raised:
        session.sql(f"CREATE INCREMENTAL VIEW v REFRESH POLICY {policy} AS {query}")
    assert raised.value.getCondition() == condition
    assert session.sql("SHOW INCREMENTAL VIEWS").count() == 0
