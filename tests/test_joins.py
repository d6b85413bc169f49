"""Joins of every kind: the rows that match, the rows that are left alone, and NULL."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.oracle import check, delete, insert, update

TABLES = {"l": "a INT, k INT, x DOUBLE", "r": "k INT, b INT, y DOUBLE"}

BATCHES = [
    insert("l", (1, 10, 1.0), (2, 10, 2.0), (2, 10, 2.0), (3, None, 0.0), (4, 40, float("nan"))),
    insert("r", (10, 1, 1.0), (10, 5, -0.0), (None, 7, None), (50, 9, float("nan"))),
    update("r", ((10, 1, 1.0), (40, 1, 1.0))),
    delete("r", (10, 5, -0.0)),
    {
        "l": {"insert": [(None, 50, 2.0), (5, 10, 0.0)], "delete": [(2, 10, 2.0)]},
        "r": {"insert": [(10, 3, 2.0)], "delete": [(50, 9, float("nan"))]},
    },
    {"l": {"delete": [(1, 10, 1.0), (2, 10, 2.0), (5, 10, 0.0)]}},
    {"r": {"delete": [(10, 3, 2.0), (None, 7, None), (40, 1, 1.0)]}},
]

QUERIES = [
    "SELECT * FROM l LEFT JOIN r ON l.k = r.k",
    "SELECT * FROM l RIGHT JOIN r ON l.k = r.k",
    "SELECT * FROM l FULL JOIN r ON l.k = r.k",
    "SELECT * FROM l LEFT SEMI JOIN r ON l.k = r.k",
    "SELECT * FROM l LEFT ANTI JOIN r ON l.k = r.k",
    "SELECT * FROM l CROSS JOIN r",
    "SELECT * FROM l, r WHERE l.k = r.k AND l.a < r.b",
    "SELECT * FROM l LEFT JOIN r ON l.k <=> r.k",
    "SELECT * FROM l FULL JOIN r ON l.k <=> r.k",
    "SELECT * FROM l LEFT SEMI JOIN r ON l.k <=> r.k",
    "SELECT * FROM l LEFT ANTI JOIN r ON l.k <=> r.k",
    "SELECT * FROM l LEFT JOIN r ON l.k = r.k AND l.a < r.b",
    "SELECT * FROM l FULL JOIN r ON l.k = r.k AND l.a < r.b",
    "SELECT * FROM l LEFT SEMI JOIN r ON l.k = r.k AND l.a < r.b",
    "SELECT * FROM l LEFT ANTI JOIN r ON l.k = r.k AND l.a < r.b",
    "SELECT * FROM l LEFT JOIN r ON l.k = r.k AND l.a > 1",
    "SELECT * FROM l LEFT JOIN r ON l.k = r.k AND r.b > 2",
    "SELECT * FROM l FULL JOIN r ON l.k = r.k AND l.a > 1 AND r.b > 2",
    "SELECT * FROM l LEFT JOIN r ON l.a < r.b",
    "SELECT * FROM l FULL JOIN r ON l.a < r.b",
    "SELECT * FROM l LEFT ANTI JOIN r ON l.a BETWEEN r.b - 1 AND r.b + 1",
    "SELECT * FROM l LEFT JOIN r ON true",
    "SELECT * FROM l LEFT JOIN r ON l.a > 2",
    "SELECT * FROM l LEFT JOIN r ON l.x = r.y",
    "SELECT * FROM l FULL JOIN r ON l.x = r.y AND l.k = r.k",
    "SELECT * FROM l NATURAL JOIN r",
    "SELECT * FROM l NATURAL LEFT JOIN r",
    "SELECT * FROM l JOIN r USING (k)",
    "SELECT * FROM l LEFT JOIN r USING (k)",
    "SELECT * FROM l RIGHT JOIN r USING (k)",
    "SELECT * FROM l FULL JOIN r USING (k)",
    "SELECT k, l.k AS lk, r.k AS rk FROM l FULL JOIN r USING (k)",
    "SELECT l.a, count(r.b) AS n, sum(r.y) AS s FROM l LEFT JOIN r ON l.k = r.k GROUP BY l.a",
    "SELECT l.a FROM l LEFT JOIN r ON l.k = r.k WHERE r.k IS NULL",
    "SELECT l.a, r.b, r2.b AS c FROM l LEFT JOIN r ON l.k = r.k FULL JOIN r AS r2 ON r.b = r2.b",
    "SELECT a.a, b.a AS c FROM l AS a LEFT JOIN l AS b ON a.k = b.k AND a.a < b.a",
]


@pytest.mark.parametrize("query", QUERIES)
def test_join_follows_its_sides(spark: SparkSession, query: str) -> None:
    aliased = query.replace("*", "l.a, l.k, l.x" if "SEMI" in query or "ANTI" in query else "*")
    if aliased.startswith("SELECT * FROM l") and "USING" not in query and "NATURAL" not in query:
        aliased = query.replace("*", "l.a, l.k AS lk, l.x, r.k AS rk, r.b, r.y", 1)
    check(spark, TABLES, aliased, BATCHES)


def test_join_is_filled_from_rows_that_are_there(spark: SparkSession) -> None:
    query = "SELECT l.a, r.b FROM l FULL JOIN r ON l.k = r.k AND l.a < r.b"
    check(spark, TABLES, query, BATCHES, created_after=5, reopen=True)


def test_a_column_that_equals_itself_is_there(spark: SparkSession) -> None:
    query = "SELECT a.id, c.k FROM a, c, b WHERE a.k = a.k AND a.id = b.id AND b.c = c.id"
    columns = {"a": "id INT, k INT", "b": "id INT, c INT", "c": "id INT, k INT"}
    batches = [
        insert("a", (1, None), (2, 2)),
        insert("b", (1, 5), (2, 5)),
        insert("c", (5, 7)),
    ]
    check(spark, columns, query, batches, created_after=2)


@pytest.mark.parametrize("kind", ["TINYINT", "SMALLINT"])
def test_keys_of_narrow_numbers_that_are_far_apart(spark: SparkSession, kind: str) -> None:
    scale = 1 if kind == "TINYINT" else 256
    keys = [*range(-100 * scale, -50 * scale), *range(60 * scale, 100 * scale, scale // 64 or 1)]
    rows = [(k, k % 7) for k in keys]
    batches = [
        insert("t", *rows),
        insert("t", (60 * scale, 1), (4, 1), (127 * scale, 2)),
        {"u": {"insert": [(60 * scale, 7), (4, 8)]}, "t": {"delete": rows[:3]}},
        delete("t", (60 * scale, 1), (4, 1), rows[-1]),
    ]
    queries = [
        "SELECT k, count(*) AS n, max(a) AS m FROM t GROUP BY k",
        "SELECT t.k, a, b FROM t JOIN u ON t.k = u.k",
    ]
    check(spark, {"t": f"k {kind}, a INT", "u": f"k {kind}, b INT"}, queries, batches)
