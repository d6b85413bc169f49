"""Strings with a collation: kept as written, equal and in order as the collation says.

Of the strings that make one group Spark shows the one that it meets first, so where there are
several the tests look at them in lower case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import spark_incr
from spark_incr.errors import IncrementalError
from spark_incr.serve import snapshots
from tests.fuzz import compiled
from tests.oracle import check, delete, insert, together, update

TABLES = {
    "t": "id INT, s STRING, x STRING COLLATE UTF8_LCASE, u STRING COLLATE UNICODE_CI",
    "o": "id INT, y STRING COLLATE UTF8_LCASE, s STRING",
}
ROWS = (
    (1, "a", "a", "é"),
    (2, "A", "A", "É"),
    (3, "A", "A", "e"),
    (3, "A", "A", "e"),
    (4, None, None, None),
    (5, "B", "b", "Z"),
    (6, "", "", ""),
    (7, "Ä ", "Ä", "ß"),
)
BATCHES = (
    together(
        insert("t", *ROWS),
        insert("o", (1, "A", "b"), (2, "B", "B"), (3, None, None), (4, "a", "A")),
    ),
    together(
        update("t", (ROWS[0], (1, "a", "B", "E")), (ROWS[7], (7, "x", "ä", "SS"))),
        delete("o", (1, "A", "b")),
    ),
    delete("t", ROWS[1], ROWS[2], ROWS[3], ROWS[4]),
    insert("t", ROWS[1], ROWS[4]),
)
LOW = "lower({} COLLATE UTF8_BINARY)"
X, U, Y = (LOW.format(name) for name in "xuy")
QUERIES = (
    "SELECT * FROM t",
    "SELECT id, x = 'A' AS a, x < 'b' AS b, x IN ('A', 'z') AS c, x LIKE 'A%' AS d, u = 'E' AS e, x <=> s COLLATE UTF8_LCASE AS f FROM t",
    "SELECT id, upper(x) AS a, concat(x, 'Q') AS b, replace(x, 'A', 'z') AS c, contains(x, 'A') AS d, length(x) AS e FROM t",
    "SELECT id, CASE x WHEN 'A' THEN 1 ELSE 0 END AS a, nullif(x, 'A') AS b, coalesce(x, 'N') AS c, instr(x, 'A') AS d FROM t",
    "SELECT id FROM t WHERE x = 'A' AND s COLLATE UNICODE_CI <> 'B'",
    "SELECT id, s COLLATE UTF8_LCASE AS k, collation(x) AS c FROM t",
    "SELECT id, array(x) AS a, struct(x AS p, id AS i) AS b FROM t",
    f"SELECT {X} AS k, n, m FROM (SELECT x, count(*) AS n, max(id) AS m FROM t GROUP BY x)",
    f"SELECT {U} AS k, n, z FROM (SELECT u, count(DISTINCT x) AS n, sum(id) AS z FROM t GROUP BY u)",
    "SELECT count(*) AS n FROM t GROUP BY s COLLATE UTF8_LCASE, id % 2",
    f"SELECT {X} AS k, {U} AS l FROM (SELECT DISTINCT x, u FROM t)",
    f"SELECT {X} AS k, n FROM (SELECT x, count(*) AS n FROM t GROUP BY x HAVING x > 'A')",
    f"SELECT {X} AS k, n FROM (SELECT x, id % 2 AS p, count(*) AS n FROM t GROUP BY ROLLUP (x, id % 2))",
    "SELECT t.id, o.id AS other, t.x, o.y FROM t JOIN o ON t.x = o.y",
    "SELECT t.id, o.id AS other FROM t JOIN o ON t.s COLLATE UTF8_LCASE = o.s",
    "SELECT t.id, o.id AS other FROM t JOIN o ON t.x COLLATE UTF8_BINARY = o.y",
    "SELECT t.id, o.y FROM t LEFT JOIN o ON t.x = o.y AND o.id > 1",
    "SELECT t.id, o.id AS other, t.x, o.y FROM t FULL JOIN o ON t.x <=> o.y AND t.id < 6",
    "SELECT t.id, o.id AS other FROM t LEFT JOIN o ON t.x < o.y",
    "SELECT id, x FROM t WHERE x IN (SELECT y FROM o)",
    "SELECT id, x FROM t WHERE x NOT IN (SELECT y FROM o WHERE y IS NOT NULL)",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM o WHERE o.y = t.x)",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM o WHERE o.y = t.x COLLATE UTF8_BINARY)",
    "SELECT id FROM t WHERE EXISTS (SELECT id % 2 FROM o WHERE o.y = t.x GROUP BY id % 2 HAVING count(*) > 1)",
    "SELECT t.id, o.id AS other FROM t LEFT JOIN o ON length(t.x) < o.id AND t.x COLLATE UTF8_BINARY < o.y",
    "SELECT id, (SELECT count(*) FROM o WHERE o.y = t.x) AS n FROM t",
    "SELECT id, EXISTS (SELECT 1 FROM o WHERE o.y = t.x) AS e, x IN (SELECT y FROM o) AS i FROM t",
    "SELECT id, x NOT IN (SELECT y FROM o WHERE y IS NOT NULL) AS i FROM t",
    "SELECT id, EXISTS (SELECT 1 FROM o WHERE o.y < t.x OR o.s = t.x COLLATE UTF8_BINARY) AS e FROM t",
    "SELECT t.id, w.s FROM t, LATERAL (SELECT o.s FROM o WHERE o.y = t.x ORDER BY o.id LIMIT 1) AS w",
    "SELECT x FROM t UNION ALL SELECT y FROM o",
    f"SELECT {X} AS k FROM (SELECT x FROM t UNION SELECT y FROM o)",
    f"SELECT {X} AS k FROM (SELECT x FROM t EXCEPT SELECT y FROM o)",
    f"SELECT {X} AS k FROM (SELECT x FROM t INTERSECT SELECT y FROM o)",
    f"SELECT {X} AS k FROM (SELECT x FROM t INTERSECT ALL SELECT y FROM o)",
    f"SELECT {X} AS k FROM (SELECT x FROM t EXCEPT ALL SELECT y FROM o)",
    "SELECT upper(x) AS x FROM t INTERSECT SELECT y FROM o",
    "SELECT id, x, rank() OVER (PARTITION BY x ORDER BY id) AS r, count(*) OVER (PARTITION BY u) AS n FROM t",
    "SELECT id, dense_rank() OVER (ORDER BY x) AS r, rank() OVER (PARTITION BY s ORDER BY u DESC) AS q FROM t",
    f"SELECT id, {LOW.format('max(x) OVER (PARTITION BY id % 2)')} AS m, lag(x) OVER (ORDER BY id, s) AS l FROM t WHERE id <> 3",
    "SELECT id, x FROM t ORDER BY x DESC, id LIMIT 3",
    "SELECT id FROM t ORDER BY u NULLS LAST, id LIMIT 4",
    "SELECT id, e FROM t LATERAL VIEW explode(array(x, 'q')) AS e WHERE e = 'A'",
    "WITH c AS (SELECT x, count(*) AS n FROM t GROUP BY x) SELECT l.n, r.id FROM c AS l JOIN o AS r ON l.x = r.y",
    "WITH RECURSIVE r(k, n) AS (SELECT x, 1 FROM t WHERE x = 'B' UNION ALL SELECT k, n + 1 FROM r WHERE n < 3 AND k = 'B') SELECT k, n FROM r",
)
EXTREMES = (
    f"SELECT s, {LOW.format('min(x)')} AS a, {LOW.format('max(x)')} AS b, count(x) AS n, count(DISTINCT x) AS d FROM t GROUP BY s",
    f"SELECT {LOW.format('max(u)')} AS b, count(DISTINCT u) AS n FROM t",
    f"SELECT id, {LOW.format('(SELECT max(y) FROM o)')} AS m FROM t",
)
INSIDE = (
    f"SELECT {LOW.format('CAST(s AS STRING)')} AS k, n FROM (SELECT struct(x, id % 2 AS i) AS s, count(*) AS n FROM t GROUP BY struct(x, id % 2 AS i))",
    f"SELECT {LOW.format('CAST(s AS STRING)')} AS k FROM (SELECT DISTINCT CASE WHEN id < 5 THEN array(struct(array(x) AS y, s)) END AS s FROM t)",
    "SELECT t.id, o.id AS other FROM t JOIN o ON array(t.x) = array(o.y)",
    "SELECT id, row_number() OVER (PARTITION BY struct(x) ORDER BY id, s) AS r, rank() OVER (PARTITION BY array(u) ORDER BY id) AS q FROM t",
    "SELECT id FROM t ORDER BY array(x) DESC, id LIMIT 3",
    "SELECT id FROM t ORDER BY struct(u, x) DESC, id LIMIT 3",
    "SELECT count(DISTINCT struct(x, u)) AS d, count(DISTINCT array(x)) AS e FROM t GROUP BY id % 2",
    "SELECT id, x FROM t WHERE array(x) IN (SELECT array(y) FROM o)",
)
MAPS = (
    "SELECT count(*) AS n, max(id) AS m FROM t WHERE x IS NOT NULL GROUP BY map(x, id % 2)",
    "SELECT count(DISTINCT map(id, x)) AS a, count(DISTINCT map(x, array(u), 'q', NULL)) AS b FROM t WHERE x <> 'q'",
)
"""Strings inside of arrays, structs and maps by which rows meet."""


def test_collations_inside_of_other_types_equal_recompute(spark: SparkSession) -> None:
    check(spark, TABLES, INSIDE, BATCHES, reference=3)
    check(spark, TABLES, MAPS, BATCHES)


def test_extremes_equal_recompute(spark: SparkSession) -> None:
    with compiled(spark):
        check(spark, TABLES, EXTREMES, BATCHES, reference=3)


@pytest.mark.parametrize("part", range(4))
def test_collations_equal_recompute(spark: SparkSession, part: int) -> None:
    check(spark, TABLES, QUERIES[part::4], BATCHES, reference=3)


def test_collations_survive_a_restart(spark: SparkSession) -> None:
    queries = [QUERIES[n] for n in (0, 1, 7, 15, 32)]
    check(spark, TABLES, queries, BATCHES, created_after=1, reopen=True)


def test_the_least_of_equal_strings_is_shown(spark: SparkSession) -> None:
    """With one string a group there is nothing to choose, and the result is Spark's to the byte."""
    rows = [insert("o", (1, "b", "1"), (2, "A", "1"), (3, "b", "2")), delete("o", (2, "A", "1"))]
    check(spark, TABLES, "SELECT y, count(*) AS n, max(s) AS m FROM o GROUP BY y", rows)
    check(spark, TABLES, "SELECT y, median(id) AS n, listagg(s) AS m FROM o GROUP BY y", rows)


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    enabled = spark_incr.enable(spark.newSession(), tmp_path / "state")
    enabled.sql(f"CREATE INCREMENTAL TABLE t ({TABLES['t']})")
    static = "SELECT 'A' COLLATE UTF8_LCASE AS k, 1 AS n UNION ALL SELECT 'b' COLLATE UTF8_LCASE, 2"
    enabled.sql(static).createOrReplaceTempView("static")
    yield enabled
    spark_incr.disable(enabled)


def bag(session: SparkSession, query: str) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in session.sql(query).collect())


@pytest.mark.parametrize("rows_kept_local", [0, snapshots.LOCAL_ROWS])
def test_a_session_reads_and_writes_collations(
    session: SparkSession, rows_kept_local: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LOCAL_ROWS", rows_kept_local)
    queries = (
        "SELECT * FROM t",
        "SELECT t.id, n FROM t JOIN static ON x = k",
        "SELECT min(id) AS n FROM t GROUP BY x",
    )
    for n, query in enumerate(queries):
        session.sql(f"CREATE INCREMENTAL VIEW v{n} AS {query}")
    for statement in (
        "INSERT INTO t VALUES (1, 'a', 'a', 'b'), (2, 'A', 'A', 'B'), (3, NULL, NULL, NULL)",
        "UPDATE t SET x = 'A' WHERE id = 1",
        "UPDATE t SET u = upper(u), s = x WHERE x = 'a'",
        "MERGE INTO t USING static ON t.x = static.k WHEN MATCHED AND n = 1 THEN UPDATE SET x = k"
        " WHEN NOT MATCHED THEN INSERT (id, x) VALUES (n, k)",
        "DELETE FROM t WHERE u = 'b'",
    ):
        session.sql(statement)
        for n, query in enumerate(queries):
            view = session.table(f"v{n}")
            kinds = [f.dataType for f in session.sql(query).schema]
            assert [f.dataType for f in view.schema] == kinds
            assert bag(session, f"SELECT * FROM v{n}") == bag(session, query), (statement, query)
        if "SET x" in statement:
            assert bag(session, "SELECT x FROM t WHERE id = 1") == Counter([repr(("A",))])
    assert bag(session, "SELECT id FROM v0 WHERE x = 'B'") == Counter([repr((2,))])


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INCREMENTAL VIEW v AS SELECT count(*) AS n FROM t GROUP BY named_struct('a', x, 'a', id)",
        "CREATE INCREMENTAL VIEW v AS SELECT id, (SELECT count(*) FROM t AS o WHERE o.x = t.x COLLATE UTF8_BINARY)"
        " AS n FROM t",
        "CREATE INCREMENTAL VIEW v AS SELECT id FROM t WHERE EXISTS (SELECT id FROM t AS o "
        "WHERE o.s = t.s COLLATE UTF8_LCASE GROUP BY id HAVING count(*) > 1)",
        "CREATE INCREMENTAL SOURCE w (k STRING COLLATE UTF8_LCASE) USING json OPTIONS (path '/nowhere') KEY (k)",
    ],
)
def test_where_a_collation_cannot_be_followed_it_is_refused(
    session: SparkSession, statement: str
) -> None:
    with pytest.raises(IncrementalError) as raised:
        session.sql(statement)
    assert raised.value.condition in ("INCR_UNSUPPORTED", "INCR_KEY_TYPE")


def test_a_primary_key_follows_its_collation(spark: SparkSession, tmp_path: Path) -> None:
    session = spark_incr.enable(spark.newSession(), tmp_path / "state")
    session.sql(
        "CREATE INCREMENTAL TABLE p (n INT, k STRING COLLATE UTF8_LCASE, a ARRAY<STRING COLLATE UNICODE_CI>,"
        " PRIMARY KEY (k, a))"
    )
    queries = (
        "SELECT * FROM p",
        "SELECT k, sum(n) AS s FROM p GROUP BY k",
        "SELECT l.n, r.n AS m, r.k FROM p AS l JOIN p AS r ON l.k = r.k AND l.a = r.a",
    )
    for number, query in enumerate(queries):
        session.sql(f"CREATE INCREMENTAL VIEW v{number} AS {query}")

    def rejected(insert: str) -> bool:
        before = bag(session, "SELECT * FROM p")
        with pytest.raises(IncrementalError) as raised:
            session.sql(insert)
        assert bag(session, "SELECT * FROM p") == before
        return raised.value.condition == "INCR_DUPLICATE_KEY"

    session.sql(
        "INSERT INTO p VALUES (1, 'a', array('x')), (2, 'b', array('x')), (3, 'a', array())"
    )
    assert rejected("INSERT INTO p VALUES (4, 'A', array('X'))")
    assert rejected("INSERT INTO p VALUES (4, 'q', array('é')), (5, 'Q', array('É'))")
    engine = spark_incr.engine(session)
    for statement in (
        "UPDATE p SET k = 'A', n = 7 WHERE n = 1",
        "MERGE INTO p USING (SELECT 'B' COLLATE UTF8_LCASE AS k, array('X' COLLATE UNICODE_CI) AS a) AS s ON p.k = s.k AND p.a = s.a"
        " WHEN MATCHED THEN UPDATE SET n = 9",
        "DELETE FROM p WHERE k = 'B'",
    ):
        session.sql(statement)
        for number, query in enumerate(queries):
            assert bag(session, f"SELECT * FROM v{number}") == bag(session, query), query
    keys = pa.table({"k": ["a"], "a": pa.array([["X"]], pa.list_(pa.string()))})
    engine.commit({"p": {"delete": keys}})
    assert bag(session, "SELECT k, n FROM p") == Counter([repr(("a", 3))])
    spark_incr.disable(session)
    session = spark_incr.enable(spark.newSession(), tmp_path / "state")
    try:
        assert rejected("INSERT INTO p VALUES (8, 'A', array())")
        session.sql("INSERT INTO p VALUES (8, 'A', array('Z'))")
        for number, query in enumerate(queries):
            assert bag(session, f"SELECT * FROM v{number}") == bag(session, query), query
    finally:
        spark_incr.disable(session)
