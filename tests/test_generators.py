"""Generators in SELECT: what stands beside them, over groups, and what reads their columns."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.oracle import check, delete, insert, together, update

TABLES = {"t": "id INT, k INT, xs ARRAY<INT>, m MAP<STRING, INT>", "u": "b INT"}
ROWS = [
    (1, 1, [5, 1], [("a", 1), ("b", None)]),
    (2, 1, [5, None], []),
    (2, 1, [5, None], []),
    (3, None, [], None),
    (None, 2, None, [("a", 7)]),
]
BATCHES = [
    together(insert("t", *ROWS[:3]), insert("u", (4,))),
    insert("t", *ROWS[3:]),
    together(update("t", (ROWS[0], (1, 2, [0, 9], None))), delete("u", (4,))),
    together(delete("t", ROWS[1]), insert("u", (8,))),
]
QUERIES = """
    SELECT explode(xs) AS e FROM t ORDER BY e LIMIT 3
    SELECT id, explode(xs) AS e FROM t ORDER BY 2 DESC, 1 LIMIT 3
    SELECT explode(xs) FROM t ORDER BY col LIMIT 2 OFFSET 1
    SELECT DISTINCT explode(xs) AS e FROM t ORDER BY e LIMIT 2
    SELECT id, posexplode(xs) AS (p, e) FROM t ORDER BY p + e, id LIMIT 3
    SELECT explode(m), id FROM t ORDER BY key, value, id LIMIT 3
    SELECT id, explode(xs) AS e FROM t QUALIFY e > 1 AND rank() OVER (ORDER BY id, e) < 4
    SELECT rank() OVER (ORDER BY id) AS r, explode(xs) AS e, sum(id) OVER () AS s FROM t
    SELECT id, explode(xs) AS e, e + 1 AS f FROM t
    SELECT id, explode(array(id, (SELECT max(b) FROM u))) AS e FROM t
    SELECT id, explode(collection => xs) AS e FROM t
    SELECT id, e FROM t LATERAL VIEW explode(xs) AS e
    SELECT id, e.* FROM t, LATERAL posexplode(collection => t.xs) AS e
    SELECT k, explode(array_sort(collect_set(id))) AS e FROM t GROUP BY k
    SELECT k, explode(array(max(id), min(id))) AS e, count(*) AS n FROM t GROUP BY k
    SELECT explode(array(max(id), min(id))) AS e FROM t
    SELECT k, explode(array(k, 1)) AS e FROM t GROUP BY k
    SELECT k + 1 AS j, posexplode(array(count(*), k)) AS (p, e) FROM t GROUP BY k
    SELECT k, stack(2, 'n', count(*), 'top', max(id + 0L)) AS (what, value) FROM t GROUP BY k
    SELECT inline(array(struct(k, count(*) AS n))) FROM t GROUP BY k
    SELECT k, explode(map('n', count(*), 'top', max(id))) FROM t GROUP BY k ORDER BY value, key, k LIMIT 3
    SELECT k, explode(array(max(id), 3)) AS e FROM t GROUP BY k ORDER BY e DESC, k LIMIT 2
    SELECT DISTINCT explode(array(k, count(*))) AS e FROM t GROUP BY k
""".strip().splitlines()


@pytest.mark.parametrize("query", [query.strip() for query in QUERIES])
def test_generators(spark: SparkSession, query: str) -> None:
    check(spark, TABLES, query, BATCHES)
    check(spark, TABLES, query, BATCHES, created_after=2)
