"""Subqueries anywhere, correlated or not, and set operations, under changes of every table."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_incr.errors import IncrementalError
from tests.oracle import check, delete, insert, update

TABLES = {"t": "a INT, k INT", "u": "k INT, b INT", "v": "b INT, c INT"}

BATCHES = [
    insert("t", (1, 10), (2, 20), (2, 20), (3, None), (None, 10), (4, 30)),
    insert("u", (10, 1), (20, 2), (None, 4)),
    insert("v", (1, 100), (2, 200), (None, 300)),
    {"u": {"insert": [(30, None), (10, 3)], "delete": [(None, 4)]}},
    update("t", ((1, 10), (1, 20)), ((3, None), (3, 30))),
    delete("u", (30, None), (20, 2)),
    {"v": {"delete": [(None, 300), (1, 100)]}, "u": {"insert": [(20, 9)]}},
    {"u": {"delete": [(10, 1), (10, 3), (20, 9)]}},
    insert("u", (10, 2), (20, 1)),
]

QUERIES = [
    # Existence and membership as conditions
    "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "SELECT * FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE u.k = t.k AND u.b > t.a)",
    "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u)",
    "SELECT * FROM t WHERE k IN (SELECT k FROM u)",
    "SELECT * FROM t WHERE a NOT IN (SELECT b FROM u)",
    "SELECT * FROM t WHERE a NOT IN (SELECT b FROM u WHERE u.k = t.k)",
    "SELECT * FROM t WHERE a NOT IN (SELECT b FROM u WHERE b IS NOT NULL)",
    "SELECT * FROM t WHERE (k, a) IN (SELECT k, b FROM u)",
    "SELECT * FROM t WHERE (k, a) NOT IN (SELECT k, b FROM u)",
    "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u GROUP BY k HAVING count(*) > 1)",
    "SELECT * FROM t WHERE EXISTS"
    " (SELECT 1 FROM u WHERE u.k = t.k AND EXISTS (SELECT 1 FROM v WHERE v.b = u.b))",
    # Scalar subqueries
    "SELECT a, (SELECT max(b) FROM u) AS m FROM t",
    "SELECT a, (SELECT max(b) FROM u WHERE u.k = t.k) AS m FROM t",
    "SELECT a, (SELECT count(*) FROM u WHERE u.k = t.k) AS n FROM t",
    "SELECT a, (SELECT count(*) + 1 FROM u WHERE u.k = t.k) AS n FROM t",
    "SELECT a, (SELECT sum(b) FROM u WHERE u.k = t.k AND u.b > 1) AS s FROM t WHERE a > 1",
    "SELECT * FROM t WHERE a > (SELECT avg(b) FROM u WHERE u.k = t.k)",
    "SELECT * FROM t WHERE a >= (SELECT count(b) FROM u WHERE u.k = t.k)",
    "SELECT a, (SELECT count(*) FROM u WHERE u.b < t.a) AS n FROM t",
    "SELECT k, sum(a) AS s FROM t GROUP BY k HAVING sum(a) > (SELECT min(b) FROM u)",
    # As values
    "SELECT a, EXISTS (SELECT 1 FROM u WHERE u.k = t.k) AS e FROM t",
    "SELECT a, CASE WHEN EXISTS (SELECT 1 FROM u) THEN 1 ELSE 0 END AS e FROM t",
    "SELECT a, k IN (SELECT k FROM u) AS e FROM t",
    "SELECT a, a NOT IN (SELECT b FROM u) AS e FROM t",
    "SELECT a, a IN (SELECT b FROM u WHERE u.k = t.k) AS e FROM t",
    "SELECT * FROM t WHERE a = 1 OR k IN (SELECT k FROM u WHERE b > 1)",
    "SELECT a FROM t WHERE NOT (k IN (SELECT k FROM u) AND a > 1)",
    "SELECT a, NOT (k > 20 OR a IN (SELECT b FROM u)) AS e, NOT (NOT (a IN (SELECT b FROM u))) AS f FROM t",
    "SELECT a, CASE WHEN NOT (k > 20 OR a IN (SELECT b FROM u)) THEN 1 END AS e FROM t",
    "SELECT k, NOT (max(a) > 4 OR max(a) IN (SELECT b FROM u)) AS e FROM t GROUP BY k",
    "SELECT k FROM t GROUP BY k HAVING NOT (max(a) > 4 OR max(a) IN (SELECT b FROM u))",
    "SELECT a FROM (SELECT a, a IN (SELECT b FROM u) AS i, a NOT IN (SELECT b FROM u) AS n FROM t) WHERE i OR n AND a > 1",
    "SELECT sum(a) IN (SELECT b FROM u) AS i, max(a) NOT IN (SELECT b FROM u) AS n FROM t",
    # Lateral
    "SELECT t.a, q.b FROM t, LATERAL (SELECT b FROM u WHERE u.k = t.k) AS q",
    "SELECT t.a, q.m FROM t, LATERAL (SELECT max(b) AS m FROM u WHERE u.k = t.k) AS q",
    "SELECT t.a, q.b FROM t LEFT JOIN LATERAL (SELECT b FROM u WHERE u.k = t.k) AS q",
    # Set operations
    "SELECT k FROM t UNION SELECT k FROM u",
    "SELECT k FROM t INTERSECT SELECT k FROM u",
    "SELECT k FROM t INTERSECT ALL SELECT k FROM u",
    "SELECT k FROM t EXCEPT SELECT k FROM u",
    "SELECT a FROM t EXCEPT ALL SELECT b FROM u",
    "SELECT a FROM t MINUS SELECT b FROM u UNION ALL SELECT c FROM v",
    # Constants and shapes
    "SELECT t.a, x.y FROM t JOIN (VALUES (10, 'ten'), (20, NULL)) AS x(k, y) ON t.k = x.k",
    "SELECT id, count(a) AS n FROM range(5) LEFT JOIN t ON t.a = id GROUP BY id",
    "SELECT * EXCEPT (a) FROM t",
    "SELECT 1 AS one, 'x' AS two",
]


@pytest.mark.parametrize("query", QUERIES)
def test_subquery_follows_all_tables(spark: SparkSession, query: str) -> None:
    check(spark, TABLES, query, BATCHES)


def test_scalar_subquery_with_two_rows_fails_as_in_spark(spark: SparkSession) -> None:
    query = "SELECT a, (SELECT b FROM u WHERE u.k = t.k) AS b FROM t"
    check(
        spark,
        TABLES,
        query,
        [
            insert("t", (1, 10), (2, 20)),
            insert("u", (10, 1), (30, 3), (30, 4)),
            insert("u", (10, 2)),
            delete("u", (10, 1)),
            insert("t", (3, 30)),
        ],
    )


NEGATED_FROM_AFAR = [
    "SELECT a FROM (SELECT a, a IN (SELECT b FROM u) AS i FROM t) WHERE NOT i",
    "SELECT a, i FROM (SELECT a, a IN (SELECT b FROM u) AS i FROM t) WHERE NOT i AND a > 1",
    "SELECT a FROM (SELECT a, a NOT IN (SELECT b FROM u) AS i FROM t) WHERE NOT (i AND a > 1)",
    "SELECT a FROM (SELECT a, k, a IN (SELECT b FROM u WHERE u.k = t.k) AS i FROM t) WHERE NOT i OR k > 10",
    "SELECT a FROM (SELECT a, k, (a, k) IN (SELECT b, k FROM u) AS i FROM t) WHERE NOT i",
    "WITH w AS (SELECT a, k > 1 OR a IN (SELECT b FROM u) AS i FROM t) SELECT a FROM w WHERE i = false",
    "WITH w AS (SELECT a, a IN (SELECT b FROM u) AS i FROM t) SELECT a FROM w WHERE NOT i UNION ALL SELECT a FROM w WHERE i",
    "WITH w AS (SELECT k, a IN (SELECT b FROM u) AS i FROM t), v AS (SELECT k, i AS j FROM w) SELECT v.k, u.b FROM v JOIN u ON v.k = u.k WHERE NOT v.j AND u.b > 0",
    "SELECT q.a, u.b FROM (SELECT a, k, a IN (SELECT b FROM u) AS i FROM t) AS q LEFT JOIN u ON q.k = u.k WHERE NOT q.i",
    "SELECT a FROM t WHERE (a IN (SELECT b FROM u)) = false",
    "SELECT a FROM t WHERE true <> (a IN (SELECT b FROM u)) OR (a NOT IN (SELECT b FROM u)) = true",
    "SELECT a FROM t, LATERAL (SELECT a IN (SELECT b FROM u) AS i) WHERE NOT i",
    "SELECT a FROM (SELECT a, a IN (SELECT b FROM u) AS i FROM t UNION ALL SELECT 1, true) WHERE NOT i",
    "SELECT i, count(*) AS n FROM (SELECT a IN (SELECT b FROM u) AS i FROM t) GROUP BY i HAVING NOT i",
    "SELECT DISTINCT a, i FROM (SELECT a, a IN (SELECT b FROM u) AS i FROM t) WHERE CASE WHEN NOT i THEN a > 1 ELSE a = 1 END",
    "SELECT a FROM (SELECT a, k, a IN (SELECT b FROM u) AS i, k IN (SELECT k FROM u) AS j FROM t) WHERE NOT (i OR j)",
    "SELECT a, i FROM (SELECT a, CASE WHEN a IN (SELECT b FROM u) THEN false ELSE true END AS i FROM t) WHERE i",
]


def test_where_negates_in_from_afar(spark: SparkSession) -> None:
    """Spark moves the condition to IN, which makes NOT IN of it: unknown is not kept."""
    rows = (10, None), (20, 2)
    emptied = delete("u", *rows, (10, 1), (10, 3))
    batches = [*BATCHES[:2], *BATCHES[3:6], insert("u", *rows), emptied]
    check(spark, TABLES, NEGATED_FROM_AFAR, batches)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, NOT i AS n FROM (SELECT a, a IN (SELECT b FROM u) AS i FROM t)",
        "SELECT a FROM t WHERE (a IN (SELECT b FROM u)) IS NOT TRUE",
        "SELECT a FROM t WHERE NOT (SELECT a IN (SELECT b FROM u))",
        "SELECT a FROM (SELECT a, a IN (SELECT b FROM u) AS i FROM t ORDER BY a LIMIT 3) WHERE NOT i",
        "SELECT count_if(NOT i) AS n FROM (SELECT a IN (SELECT b FROM u) AS i FROM t)",
    ],
)
def test_the_negation_of_in_from_afar_is_refused(spark: SparkSession, query: str) -> None:
    """Spark moves the negation to IN, which makes NOT IN of it, or does not, as its plan goes."""
    with pytest.raises(IncrementalError) as failure:
        check(spark, TABLES, query, BATCHES)
    assert failure.value.condition == "INCR_UNSUPPORTED"
    assert "NOT IN" in failure.value.hint


def test_correlated_groups_take_for_equal_what_the_comparison_does(spark: SparkSession) -> None:
    queries = [
        "SELECT k, (SELECT sum(x) FROM r WHERE r.s = t.k) AS s FROM t",
        "SELECT k, (SELECT count(*) FROM r WHERE r.d = t.b) AS n, (SELECT max(x) FROM r WHERE t.d = r.x) AS m FROM t",
        "SELECT k FROM t WHERE EXISTS (SELECT s FROM r WHERE r.s = t.k GROUP BY s HAVING sum(x) > 4)",
        "SELECT k, q.n FROM t, LATERAL (SELECT count(*) AS n FROM r WHERE r.s = t.k) AS q",
        "SELECT k FROM t WHERE x > (SELECT avg(x) FROM r WHERE r.b = t.x)",
    ]
    batches = [
        insert("r", ("1", 1, 9007199254740992.0, 2**53), ("01", 4, 1.0, 2**53 + 1)),
        insert("t", (1, 5.0, 2**53, 4.0), (None, 1.0, 2**53 + 1, 1.0)),
        insert("r", (" 1", 2, 9007199254740994.0, 5), ("2", 1, None, None)),
        update("r", (("01", 4, 1.0, 2**53 + 1), ("02", 4, 1.0, 5))),
        insert("t", (2, 9007199254740992.0, 5, None)),
    ]
    tables = {
        "t": "k INT, x DOUBLE, b BIGINT, d DOUBLE",
        "r": "s STRING, x INT, d DOUBLE, b BIGINT",
    }
    check(spark, tables, queries, batches, reference=3)


def test_subqueries_of_the_outer_row_alone(spark: SparkSession) -> None:
    queries = [
        "SELECT k, s FROM t, LATERAL (SELECT CAST(t.d AS STRING) AS s)",
        "SELECT k, q.b + 1 AS c FROM t LEFT JOIN LATERAL (SELECT b * 2 AS b, a FROM (SELECT k + 1 AS b, d AS a)) AS q",
        "SELECT k, q.b FROM t, LATERAL (SELECT k + 1 AS b WHERE t.d >= 0) AS q WHERE q.b < 4",
        "SELECT k, q.b FROM t LEFT JOIN LATERAL (SELECT k + 1 AS b WHERE t.d >= 0) AS q",
        "SELECT k, q.b FROM t LEFT JOIN LATERAL (SELECT k + 1 AS b) AS q ON q.b > 2",
        "SELECT k, (SELECT CAST(t.d AS STRING)) AS s, (SELECT k WHERE d > 0) AS w FROM t",
        "SELECT k, CASE WHEN k > 1 THEN (SELECT 10 DIV (k - 1)) END AS c FROM t",
        "SELECT (SELECT k + (SELECT max(x) FROM r)) AS s, count(*) AS n FROM t GROUP BY 1",
    ]
    batches = [
        insert("t", (1, 0.0), (2, -0.0), (3, float("nan")), (4, None), (4, None)),
        insert("r", (1,), (0,)),
        delete("t", (1, 0.0), (4, None)),
        {"t": {"insert": [(1, 0.1)]}, "r": {"delete": [(1,)]}},
    ]
    check(spark, {"t": "k INT, d DOUBLE", "r": "x INT"}, queries, batches, reference=2)
