"""CHAR columns: padded when they are written, and where Spark pads them when they are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_incr
from spark_incr.errors import IncrementalError
from spark_incr.serve import snapshots
from tests.oracle import check, delete, insert, together, update

TABLES = {
    "t": "id INT, c CHAR(5), d CHAR(3), s STRING",
    "u": "id INT, c CHAR(3), st STRING",
}
ROWS = (
    (1, "ab   ", "ab ", "ab"),
    (2, "     ", "   ", ""),
    (3, None, None, None),
    (4, "abcde", "a  ", "abcde"),
    (4, "abcde", "a  ", "abcde"),
    (5, "é    ", "é  ", "é    "),
)
BATCHES = (
    together(
        insert("t", *ROWS),
        insert("u", (1, "ab ", "ab"), (2, "x  ", "ab   "), (3, "ab ", "ab "), (4, None, None)),
    ),
    together(
        update("t", (ROWS[0], (1, "x    ", "x  ", "ab   ")), (ROWS[3], (4, "ab   ", "é  ", "ab"))),
        delete("u", (4, None, None), (1, "ab ", "ab")),
    ),
    delete("t", ROWS[1], ROWS[2], ROWS[4]),
    insert("t", ROWS[0], ROWS[4]),
)
CONDITIONS = (
    *(
        "c = 'ab'",
        "c = 'ab      '",
        "'ab' = c",
        "c <> 'ab'",
        "c < 'ab '",
        "c >= 'ab'",
        "(c) = (('ab'))",
    ),
    *("c <=> 'ab'", "c IS DISTINCT FROM 'ab'", "NOT (c = 'ab')", "c = 'abcdefg'", "c > 'abcdefg'"),
    *(
        "c IN ('ab', 'abcde')",
        "c IN ('ab', 'abcdefg')",
        "c NOT IN ('ab', 'q       ')",
        "c IN ('ab', NULL)",
    ),
    *(
        "c IN (d, 'ab')",
        "c IN (s)",
        "'ab' IN (c, 'x')",
        "c BETWEEN 'a' AND 'ab'",
        "c = s",
        "c = d",
        "d < c",
    ),
    *(
        "d <=> c",
        "c = NULL",
        "upper(c) = 'AB'",
        "c LIKE 'ab'",
        "c = concat(d, '')",
        "CAST(c AS STRING) = 'ab'",
    ),
    *(
        "nullif(c, 'ab') IS NULL",
        "c = 'é'",
        "d = 'é'",
        "array(c) = array('ab')",
        "(c, id) = ('ab', 1)",
    ),
    *(
        "CASE c WHEN 'ab' THEN true WHEN d THEN false WHEN 'abcdefg' THEN false END",
        "if(c = 'ab', true, id > 3)",
    ),
    "exists(array('ab', 'x    '), e -> e = c)",
    "exists(array(1), e -> c = 'ab')",
)
QUERIES = (
    "SELECT * FROM t",
    "SELECT id, " + ", ".join(f"({e}) AS x{n}" for n, e in enumerate(CONDITIONS)) + " FROM t",
    "SELECT id FROM t WHERE c = 'ab' OR d = 'a'",
    "SELECT t.id, u.id AS other FROM t JOIN u ON t.c = u.c",
    "SELECT t.id, u.id AS other FROM t LEFT JOIN u ON t.c = u.c AND t.d = 'ab'",
    "SELECT t.id, u.id AS other FROM t FULL JOIN u ON t.c <=> u.c",
    "SELECT t.id, u.id AS other FROM t JOIN u ON t.c = u.st",
    "SELECT t.id, u.id AS other FROM t JOIN u ON t.c < u.c",
    "SELECT c, t.id, u.id AS other FROM t JOIN u USING (c)",
    "SELECT c, t.id, u.id AS other FROM t RIGHT JOIN u USING (c)",
    "SELECT c, t.id, u.id AS other FROM t FULL JOIN u USING (c)",
    "SELECT id FROM t WHERE c IN (SELECT c FROM u)",
    "SELECT id FROM t WHERE c NOT IN (SELECT c FROM u WHERE c IS NOT NULL)",
    "SELECT id FROM t WHERE c IN (SELECT st FROM u)",
    "SELECT id FROM t WHERE c IN (SELECT 'ab' FROM u)",
    "SELECT id, c IN (SELECT c FROM u) AS i, 'ab' IN (SELECT c FROM u) AS j FROM t",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.c = t.c)",
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.st = t.c)",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM (SELECT 'ab' AS z FROM u) AS w WHERE w.z = t.c)",
    "SELECT id, (SELECT max(u.id) FROM u WHERE u.c = t.c) AS m FROM t",
    "SELECT id FROM t WHERE c = (SELECT max(c) FROM u)",
    "SELECT id, x = 'ab' AS e FROM (SELECT id, (SELECT max_by(c, id) FROM u) AS x FROM t)",
    "SELECT id, x = 'ab' AS e FROM (SELECT id, (SELECT u.c FROM u WHERE u.id = t.id AND u.id = 2) AS x FROM t)",
    "SELECT id FROM (SELECT id, c AS e FROM t) WHERE e = 'ab'",
    "WITH w AS (SELECT id, c AS e, concat(c, '') AS f FROM t) SELECT id, e = 'ab' AS g, f = 'ab' AS h FROM w",
    "SELECT id FROM t, (SELECT 'ab' AS z) AS w WHERE c = z",
    "SELECT id, 'ab' AS z, c = z AS e, c AS y, y = 'ab' AS f FROM t",
    "SELECT c, count(*) AS n FROM t GROUP BY c HAVING c = 'ab'",
    "SELECT c AS e, count(*) AS n FROM t GROUP BY c HAVING e = 'ab' OR max(id) > 3",
    "SELECT c = 'ab' AS k, count(*) AS n, max(d) AS m FROM t GROUP BY c = 'ab'",
    "SELECT max(c) AS m, min(d) AS n FROM t HAVING max(c) <> 'ab'",
    "SELECT m FROM (SELECT d, max(c) AS m FROM t GROUP BY d) WHERE m = 'ab'",
    "SELECT count_if(c = 'ab') AS n, count(*) FILTER (WHERE c = 'ab') AS f, count(DISTINCT c) AS d FROM t",
    "SELECT c, n FROM (SELECT c, count(*) AS n FROM t GROUP BY ROLLUP (c)) WHERE c = 'ab'",
    "SELECT DISTINCT c, d FROM t",
    "SELECT c FROM t UNION ALL SELECT c FROM u",
    "SELECT c FROM (SELECT c FROM t UNION ALL SELECT c FROM u) WHERE c = 'ab'",
    "SELECT c FROM (SELECT c FROM u UNION ALL SELECT st FROM u) WHERE c = 'ab'",
    "SELECT c FROM (SELECT st AS c FROM u UNION ALL SELECT c FROM t) WHERE c = 'ab'",
    "SELECT c FROM (SELECT c FROM t UNION SELECT c FROM u) WHERE c = 'ab'",
    "SELECT d FROM (SELECT d FROM t INTERSECT SELECT c FROM u) WHERE d = 'ab'",
    "SELECT c FROM t EXCEPT SELECT c FROM u",
    "SELECT id, row_number() OVER (PARTITION BY c = 'ab' ORDER BY id, d) AS r, lag(c) OVER (ORDER BY id, s, d) = 'ab' AS l FROM t",
    "SELECT id, p = 'ab' AS e FROM (SELECT id, lag(c) OVER (ORDER BY id, d, s) AS p FROM t)",
    "SELECT id, c FROM t WHERE c > 'ab' ORDER BY c, id LIMIT 1",
    "SELECT * FROM t ORDER BY c = 'ab' DESC, id, d LIMIT 1",
    "SELECT id, c AS e FROM t ORDER BY e = 'ab' DESC, id, d LIMIT 1",
    "(SELECT id, c FROM t) ORDER BY c = 'ab' DESC, id LIMIT 1",
    "SELECT c, count(*) AS n FROM t GROUP BY c ORDER BY c = 'ab' DESC, c LIMIT 1",
    "SELECT e FROM (SELECT explode(array(c, d)) AS e FROM t) WHERE e = 'ab'",
    "SELECT x, x.c = 'ab' AS e FROM (SELECT struct(c, id) AS x FROM t)",
    "SELECT y FROM (SELECT x.c AS y FROM (SELECT struct(c, id) AS x FROM t)) WHERE y = 'ab'",
    "SELECT id FROM t, LATERAL (SELECT 1 WHERE t.c = 'ab')",
    "SELECT * FROM t PIVOT (sum(id) FOR c IN ('ab', 'abcde', 'ab   ' AS padded))",
    "SELECT * FROM (SELECT * FROM (SELECT id, c, d FROM t) PIVOT (sum(id) FOR c IN ('ab   ' AS p))) WHERE d = 'ab'",
    "SELECT id, k, v, c = 'ab' AS e FROM t UNPIVOT (v FOR k IN (d, s))",
    "SELECT l.id, r.c FROM t AS l LEFT JOIN t AS r ON l.id = r.id + 1 WHERE r.c = 'ab' OR r.c IS NULL",
    "SELECT id, coalesce(c, 'ab') = 'ab' AS e, c || '|' AS f, length(c) AS g, trim(c) = 'ab' AS h FROM t",
)


@pytest.mark.parametrize("part", range(6))
def test_char_equals_recompute(spark: SparkSession, part: int) -> None:
    check(spark, TABLES, QUERIES[part::6], BATCHES, reference=3)


def test_char_survives_a_restart(spark: SparkSession) -> None:
    queries = [QUERIES[1], QUERIES[3], QUERIES[27]]
    check(spark, TABLES, queries, BATCHES, created_after=1, reopen=True)


def test_a_view_of_a_view_is_padded(spark: SparkSession) -> None:
    views = {"w": "SELECT id, c AS e, upper(c) AS f FROM t"}
    check(spark, TABLES, "SELECT id, f = 'AB' AS g FROM w WHERE e = 'ab'", BATCHES, views=views)


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    enabled = spark_incr.enable(spark.newSession(), tmp_path / "state")
    enabled.sql("CREATE INCREMENTAL TABLE t (id INT, c CHAR(5), v VARCHAR(3))")
    enabled.sql(
        "CREATE TABLE plain (id INT, c CHAR(5), v VARCHAR(3), s STRUCT<c: CHAR(3)>, a ARRAY<CHAR(3)>) "
        f"USING parquet LOCATION '{tmp_path / 'plain'}'"
    )
    yield enabled
    enabled.sql("DROP TABLE plain")
    spark_incr.disable(enabled)


def bag(session: SparkSession, query: str) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in session.sql(query).collect())


@pytest.mark.parametrize("rows_kept_local", [0, snapshots.LOCAL_ROWS])
def test_a_session_writes_and_compares_as_spark_does(
    session: SparkSession, rows_kept_local: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LOCAL_ROWS", rows_kept_local)
    values = (
        "(1, 'ab', 'ab'), (2, 'ab       ', 'abc  '), (3, '', ''), (4, NULL, NULL), (5, '12', '7')"
    )
    session.sql(f"INSERT INTO t VALUES {values}")
    session.sql(f"INSERT INTO plain (id, c, v) VALUES {values}")
    session.sql(
        "CREATE INCREMENTAL VIEW v AS SELECT id, c, concat(c, '|') AS d FROM t WHERE c <> '12'"
    )
    for table in ("t", "plain"):
        assert "'ab   '" in repr(bag(session, f"SELECT c FROM {table}"))
    for columns in ("*", "id, c, v, c = 'ab' AS e"):
        query = f"SELECT {columns} FROM (SELECT id, c, v FROM {{}}) WHERE c IN ('ab', '', '12') OR c IS NULL"
        assert bag(session, query.format("t")) == bag(session, query.format("plain"))
    wanted = "SELECT id, c, concat(c, '|') AS d FROM plain WHERE c <> '12'"
    assert bag(session, "SELECT * FROM v WHERE c = 'ab'") == bag(
        session, f"SELECT * FROM ({wanted}) WHERE c = 'ab'"
    )
    session.sql("UPDATE t SET c = 'x' WHERE c = 'ab' AND id = 1")
    session.sql("DELETE FROM t WHERE c = ''")
    assert bag(session, "SELECT id, c FROM t WHERE c IN ('x', '')") == Counter([repr((1, "x    "))])
    assert bag(session, "SELECT * FROM v") == bag(
        session, "SELECT id, c, concat(c, '|') AS d FROM t WHERE c <> '12'"
    )


def test_what_is_too_long_is_refused(session: SparkSession) -> None:
    with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
        session.sql("INSERT INTO plain (id, c) VALUES (1, 'abcdef')")
    with pytest.raises(IncrementalError) as raised:
        session.sql("INSERT INTO t VALUES (1, 'abcdef', 'a')")
    assert raised.value.condition == "INCR_TOO_LONG"
    assert session.table("t").count() == 0


def test_arrow_rows_are_padded(session: SparkSession) -> None:
    engine = spark_incr.engine(session)
    session.sql("CREATE INCREMENTAL TABLE k (c CHAR(3), n INT, PRIMARY KEY (c))")
    engine.commit({"k": {"insert": pa.table({"c": ["a", "b  "], "n": [1, 2]})}})
    assert engine.table("k").to_arrow().column("c").to_pylist() == ["a  ", "b  "]
    with pytest.raises(IncrementalError) as raised:
        engine.commit({"k": {"insert": pa.table({"c": ["b"], "n": [3]})}})
    assert raised.value.condition == "INCR_DUPLICATE_KEY"
    engine.commit({"k": {"delete": pa.table({"c": ["b"]})}})
    engine.commit({"k": {"delete": pa.table({"c": ["a"], "n": [1]})}})
    assert engine.table("k").to_arrow().num_rows == 0


def test_tables_of_spark_are_read_as_spark_reads_them(session: SparkSession) -> None:
    session.sql("INSERT INTO t VALUES (1, 'ab', 'ab'), (2, 'abcde', 'x')")
    session.sql(
        "INSERT INTO plain VALUES (1, 'ab', 'ab', named_struct('c', 'ab'), array('x')), (2, NULL, NULL, NULL, NULL)"
    )
    queries = (
        "SELECT t.id, p.c, p.v, p.s, p.a, p.c = 'ab' AS e, p.s.c = 'ab' AS f, p.a[0] = 'x' AS g "
        "FROM t LEFT JOIN plain AS p ON t.c = p.c",
        "SELECT t.id, e.c = 'ab' AS f FROM t JOIN (SELECT id, s.c FROM plain) AS e ON t.id = e.id",
        "SELECT t.id FROM t JOIN plain AS p ON t.id = p.id WHERE p.c IN ('ab', 'x') AND p.v = 'ab'",
    )
    for n, query in enumerate(queries):
        session.sql(f"CREATE INCREMENTAL VIEW v{n} AS {query}")
        assert bag(session, f"SELECT * FROM v{n}") == bag(session, query), query


@pytest.mark.parametrize(
    "condition",
    [
        "c = concat('a', 'b')",
        "c IN ('ab', lower('X'))",
        "decode(c, 'ab', true)",
        "equal_null(c, 'ab')",
        "c IN (c)",
        "true ORDER BY c = z LIMIT 1",
    ],
)
def test_a_comparison_that_cannot_be_read_is_refused(session: SparkSession, condition: str) -> None:
    with pytest.raises(IncrementalError) as raised:
        session.sql(f"CREATE INCREMENTAL VIEW v AS SELECT id, 'ab' AS z FROM t WHERE {condition}")
    assert raised.value.condition == "INCR_UNSUPPORTED"
    assert raised.value.hint


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("CREATE INCREMENTAL TABLE u (a ARRAY<CHAR(3)>)", "INCR_TYPE_UNSUPPORTED"),
        (
            "CREATE INCREMENTAL SOURCE u (c CHAR(3)) USING json OPTIONS (path '/nowhere')",
            "INCR_TYPE_UNSUPPORTED",
        ),
    ],
)
def test_where_char_cannot_be_kept_it_is_refused(
    session: SparkSession, statement: str, condition: str
) -> None:
    with pytest.raises(IncrementalError) as raised:
        session.sql(statement)
    assert raised.value.condition == condition
    assert raised.value.hint
