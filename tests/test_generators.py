"""Generators in SELECT: what stands beside them, over groups, and what reads their columns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.grammar import hidden
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


def test_what_null_hides_is_not_generated(spark: SparkSession) -> None:
    lists = pa.array([[1, None], [2, 3], [], [4]], pa.list_(pa.int32()))
    maps = pa.array([[("b", 1), ("a", 2)], [("z", 3)], [], [("c", 4)]], pa.map_(pa.string(), pa.int32()))  # fmt: skip
    inner = pa.StructArray.from_arrays([lists, maps], ["xs", "m"])
    structs = hidden(inner, pa.array([True, False, True, False]))
    rows = pa.table({"id": pa.array([1, 2, 3, 4], pa.int32()), "s": structs})
    queries = [
        "SELECT id, explode(s.xs) AS e FROM t",
        "SELECT id, posexplode_outer(s.xs) AS (p, e) FROM t",
        "SELECT id, explode(s.m) FROM t",
        "SELECT id, s.xs[0] AS x, size(s.xs) AS n, s.m['z'] AS z FROM t WHERE id <> 3",
        "SELECT s.xs AS xs, count(*) AS n, min(s) AS least FROM (SELECT id, struct(s.xs) AS s FROM t) GROUP BY s.xs",
        "SELECT s.m AS m, count(*) AS n FROM t GROUP BY s.m",
    ]
    batches = [{"t": {"insert": rows}}, {"t": {"delete": rows[1:3]}}]
    check(spark, {"t": "id INT, s STRUCT<xs: ARRAY<INT>, m: MAP<STRING, INT>>"}, queries, batches)
