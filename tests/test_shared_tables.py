"""Joins that look rows up in their tables: the same rows as with a copy, whatever lags or fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import spark_incr
from spark_incr.engine import Engine
from tests.bags import compare_bags
from tests.oracle import Batch, check, delete, insert, update

TABLES = {"l": "a INT, b INT, k INT", "r": "k INT, c STRING, d INT"}
BATCHES: Sequence[Batch] = [
    insert("l", (1, 1, 10), (1, 1, 10), (2, 1, 10), (3, 3, None), (None, 4, 20), (5, None, 30)),
    insert("r", (10, "x", 1), (10, "x", 1), (10, "y", None), (20, "z", 5), (None, "n", 9)),
    {
        "l": {"insert": [(4, 1, 20), (1, 1, 10)], "delete": [(2, 1, 10)]},
        "r": {"insert": [(30, "w", 7)], "delete": [(10, "x", 1)]},
    },
    update("l", ((1, 1, 10), (1, 1, 20)), ((3, 3, None), (3, 3, 10))),
    update("r", ((20, "z", 5), (10, "z", 5))),
    delete("l", (1, 1, 10), (1, 1, 10), (4, 1, 20), (None, 4, 20)),
    insert("l", (9, 9, 10), (9, 9, 30)),
    delete("r", (10, "x", 1), (10, "y", None), (10, "z", 5), (30, "w", 7), (None, "n", 9)),
]
QUERIES = [
    "SELECT l.a, r.c, r.d FROM l JOIN r ON l.k = r.k",
    "SELECT l.a, r.c FROM l JOIN r ON l.k <=> r.k",
    "SELECT l.a, sum(r.d) AS s, count(*) AS n FROM l JOIN r ON l.k = r.k GROUP BY l.a",
    "SELECT r.c, sum(l.b) AS s FROM l JOIN r ON r.k = l.k GROUP BY r.c",
    "SELECT x.a, y.b FROM l x JOIN l y ON x.k = y.k",
    "SELECT x.a, y.a AS z, sum(y.b) AS s FROM l x JOIN l y ON x.k = y.b GROUP BY x.a, y.a",
    "SELECT l.a, r.c, m.b FROM l JOIN r ON l.k = r.k JOIN l m ON m.a = r.d AND m.k = l.k",
    "SELECT l.a, max(r.d) AS m FROM l JOIN r ON l.k = r.k AND l.b = r.d GROUP BY l.a",
    "SELECT a, count(*) AS n FROM (SELECT DISTINCT a, k FROM l) JOIN r USING (k) GROUP BY a",
]


@pytest.mark.parametrize("created_after", [0, 3])
@pytest.mark.parametrize("query", QUERIES)
def test_tables_are_looked_up(spark: SparkSession, query: str, created_after: int) -> None:
    check(spark, TABLES, query, BATCHES, created_after=created_after, reopen=created_after == 3)


def test_views_that_want_different_orders(spark: SparkSession) -> None:
    check(spark, TABLES, QUERIES, BATCHES, created_after=2)
    check(spark, TABLES, QUERIES[::-1], BATCHES, created_after=2, reopen=True)


KEYED = {"o": "id INT, c INT, v INT", "c": "area INT, id INT, name STRING"}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT o.id, c.name FROM o JOIN c ON o.c = c.id AND o.v = c.area",
        "SELECT c.name, sum(o.v) AS s FROM o JOIN c ON o.c = c.id AND o.v = c.area GROUP BY c.name",
        "SELECT o.id, p.v FROM o JOIN o p ON o.c = p.id",
        "SELECT p.c, count(*) AS n, sum(o.v) AS s FROM o JOIN o p ON o.c = p.id GROUP BY p.c",
    ],
)
def test_primary_keys_are_looked_up_in_any_order(spark: SparkSession, query: str) -> None:
    batches = [
        insert("o", (1, 1, 7), (2, 1, 8), (3, None, 7), (4, 3, None)),
        insert("c", (7, 1, "a"), (8, 1, "b"), (7, 2, None)),
        update("c", ((7, 1, "a"), (7, 1, "aa"))),
        {"o": {"insert": [(5, 2, 7), (1, 2, 7)], "delete": [(1, 1, 7)]}},
        delete("c", (8, 1, "b")),
        {"c": {"insert": [(8, 1, "c")]}, "o": {"delete": [(2, 1, 8)]}},
    ]
    keys = {"o": ("id",), "c": ("area", "id")}
    check(spark, KEYED, query, batches, keys=keys, created_after=1)
    check(spark, KEYED, query, batches, keys=keys, reopen=True)


# Views that lag behind the tables that they share


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    enabled = spark_incr.enable(spark, state=str(tmp_path / "state"))
    enabled.sql("CREATE INCREMENTAL TABLE l (a INT, k INT)")
    enabled.sql("CREATE INCREMENTAL TABLE r (k INT, d INT)")
    enabled.sql("INSERT INTO l VALUES (1, 10), (2, 10), (3, 20)")
    enabled.sql("INSERT INTO r VALUES (10, 1), (20, 2), (20, 3)")
    yield enabled
    spark_incr.disable(enabled)


JOIN = "SELECT l.a, r.d FROM l JOIN r ON l.k = r.k"
SUMS = "SELECT l.a, sum(r.d) AS s FROM l JOIN r ON l.k = r.k GROUP BY l.a"


def move(session: SparkSession) -> None:
    session.sql("INSERT INTO l VALUES (4, 20), (5, 10), (5, 10)")
    session.sql("DELETE FROM r WHERE d = 3")
    session.sql("UPDATE l SET k = 20 WHERE a = 1")
    session.sql("INSERT INTO r VALUES (20, 7), (10, 7)")
    session.sql("DELETE FROM l WHERE a = 5")


def same(session: SparkSession, view: str, query: str) -> None:
    engine = spark_incr.engine(session)
    for name in ("l", "r"):
        session.createDataFrame(engine.table(name).to_arrow()).createOrReplaceTempView(
            f"now_{name}"
        )
    text = query.replace("l JOIN r", "now_l AS l JOIN now_r AS r")
    actual, expected = engine.view(view).to_arrow(), session.sql(text).toArrow()
    assert not compare_bags(expected, actual, frozenset(), 0.0)


@pytest.mark.parametrize("query", [JOIN, SUMS])
def test_a_view_by_hand_follows_several_versions(session: SparkSession, query: str) -> None:
    session.sql(f"CREATE INCREMENTAL VIEW v TRIGGER MANUAL AS {query}")
    before = spark_incr.engine(session).view("v").to_arrow()
    move(session)
    assert spark_incr.engine(session).view("v").to_arrow().equals(before)
    session.sql("REFRESH INCREMENTAL VIEW v")
    same(session, "v", query)
    move(session)
    session.sql("REFRESH INCREMENTAL VIEW v FULL")
    same(session, "v", query)


def test_a_view_that_failed_catches_up(session: SparkSession) -> None:
    query = JOIN.replace("r.d", "10 div (r.d - 9) AS d")
    session.sql(f"CREATE INCREMENTAL VIEW v AS {query}")
    session.sql("INSERT INTO r VALUES (20, 9)")
    move(session)
    session.sql("DELETE FROM r WHERE d = 9")
    session.sql("REFRESH INCREMENTAL VIEW v")
    same(session, "v", query)


def arranged(session: SparkSession, table: str) -> tuple[str, ...]:
    state = spark_incr.engine(session).relation_named(table, "table").state
    return state.definition.lineage  # type: ignore[union-attr]


def test_the_first_join_arranges_the_table_and_its_history_stays(session: SparkSession) -> None:
    engine = spark_incr.engine(session)
    before = engine.version
    session.sql(f"CREATE INCREMENTAL VIEW v AS {SUMS}")
    assert arranged(session, "l") == ("k",)
    session.sql("CREATE INCREMENTAL VIEW w AS SELECT l.k, r.d FROM l JOIN r ON l.a = r.d")
    assert (arranged(session, "l"), arranged(session, "r")) == (("k",), ("d",))
    plan = "\n".join(row[0] for row in session.sql("EXPLAIN INCREMENTAL VIEW v").collect())
    assert "state      left in table l; folded right 2 rows" in plan
    then = session.sql(f"SELECT * FROM l VERSION AS OF {before}")
    assert sorted(then.collect()) == sorted(session.sql("SELECT * FROM l").collect())
    session.sql("DROP INCREMENTAL VIEW v")
    session.sql("CREATE INCREMENTAL VIEW x AS SELECT l.k FROM l JOIN l m ON l.a = m.a")
    assert arranged(session, "l") == ("k",), "w would look up its other side"
    path = engine.path
    spark_incr.disable(session)
    spark_incr.enable(session, path)
    move(session)
    same(session, "w", "SELECT l.k, r.d FROM l JOIN r ON l.a = r.d")
    session.sql("DROP INCREMENTAL VIEW w")
    session.sql("DROP INCREMENTAL VIEW x")
    session.sql("CREATE INCREMENTAL VIEW x AS SELECT l.k FROM l JOIN l m ON l.a = m.a")
    assert arranged(session, "l") == ("a",)


def test_a_view_that_cannot_be_filled_leaves_the_table_as_it_was(session: SparkSession) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        session.sql("CREATE INCREMENTAL VIEW v AS " + JOIN.replace("r.d", "1 div (r.d - 2) AS d"))
    assert arranged(session, "l") == ("a", "k")
    move(session)
    session.sql(f"CREATE INCREMENTAL VIEW v AS {JOIN}")
    same(session, "v", JOIN)


def test_a_batch_that_is_refused_is_not_in_the_shared_rows(session: SparkSession) -> None:
    session.sql(f"CREATE INCREMENTAL VIEW v AS {SUMS}")
    engine: Engine = spark_incr.engine(session)
    ints = pa.schema([("a", pa.int32()), ("k", pa.int32())])
    there = pa.Table.from_pylist([{"a": 8, "k": 10}], ints)
    absent = pa.Table.from_pylist([{"a": 77, "k": 10}], ints)
    with pytest.raises(spark_incr.IncrementalError, match="INCR_ROW_NOT_FOUND"):
        engine.commit({"l": {"insert": there, "delete": absent}})
    move(session)
    same(session, "v", SUMS)
