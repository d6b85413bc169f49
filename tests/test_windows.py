"""Windows, generators, limits, and aggregates that Spark evaluates for the groups touched."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from spark_incr.errors import IncrementalError
from tests.oracle import check, delete, insert, update

TABLES = {"t": "id INT, k INT, x DOUBLE, xs ARRAY<INT>"}

BATCHES = [
    insert("t", (1, 10, 1.0, [1, 2]), (2, 10, 2.0, []), (3, 20, None, None), (4, None, -0.0, [7])),
    insert("t", (5, 20, 4.0, [3, None]), (6, 30, float("nan"), [1]), (7, 10, 1.0, [2])),
    update(
        "t", ((2, 10, 2.0, []), (2, 20, 2.0, [9, 9])), ((1, 10, 1.0, [1, 2]), (1, 10, 9.0, [1]))
    ),
    delete("t", (6, 30, float("nan"), [1]), (4, None, -0.0, [7])),
    {"t": {"delete": [(3, 20, None, None), (5, 20, 4.0, [3, None])]}},
    insert("t", (8, 30, 3.0, [5]), (9, None, 0.0, None)),
]

QUERIES = [
    "SELECT id, row_number() OVER (PARTITION BY k ORDER BY x, id) AS r FROM t",
    "SELECT id, rank() OVER (ORDER BY k) AS r, dense_rank() OVER (ORDER BY k DESC) AS d FROM t",
    "SELECT id, sum(x) OVER (PARTITION BY k ORDER BY id) AS s FROM t",
    "SELECT id, lag(id, 1, 0) OVER (PARTITION BY k ORDER BY id) + 1 AS s FROM t",
    "SELECT id, sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM t",
    "SELECT id, last_value(x) IGNORE NULLS OVER (PARTITION BY k ORDER BY id) AS v FROM t",
    "SELECT k, count(*) AS n, rank() OVER (ORDER BY count(*) DESC, k) AS r FROM t GROUP BY k",
    "SELECT r, count(*) AS n FROM"
    " (SELECT row_number() OVER (PARTITION BY k ORDER BY id) AS r FROM t) GROUP BY r",
    "SELECT id, x FROM (SELECT *, max(id) OVER (PARTITION BY k) AS m FROM t) WHERE id = m",
    # Aggregates without a tier of their own
    "SELECT k, skewness(id) AS s, kurtosis(id) AS q FROM t GROUP BY k",
    "SELECT approx_count_distinct(k) AS n, count(*) AS m FROM t",
    "SELECT k, listagg(id, ',') WITHIN GROUP (ORDER BY id) AS l FROM t GROUP BY k",
    "SELECT k, percentile_cont(0.5) WITHIN GROUP (ORDER BY id) AS p FROM t GROUP BY k",
    # Sets of keys
    "SELECT k, count(*) AS n, sum(id) AS s FROM t GROUP BY ROLLUP (k)",
    "SELECT k, id % 2 AS odd, sum(k) AS s, grouping(k) AS g, grouping_id() AS gid FROM t"
    " GROUP BY CUBE (k, id % 2)",
    "SELECT k, id, count(x) AS n FROM t GROUP BY GROUPING SETS ((k), (k, id), ())",
    # Generators
    "SELECT id, e FROM t LATERAL VIEW explode(xs) AS e",
    "SELECT id, p, e FROM t LATERAL VIEW OUTER posexplode(xs) g AS p, e",
    "SELECT id, explode(xs) AS e FROM t",
    "SELECT e, count(*) AS n FROM t LATERAL VIEW explode(xs) AS e GROUP BY e",
    # The first rows
    "SELECT id, k FROM t ORDER BY id DESC LIMIT 3",
    "SELECT id FROM t ORDER BY x DESC NULLS LAST, id LIMIT 2 OFFSET 1",
    "SELECT k, sum(id) AS s FROM t GROUP BY k ORDER BY sum(id) DESC, k LIMIT 2",
    "SELECT sum(id) AS s FROM (SELECT id FROM t ORDER BY id LIMIT 2)",
    "SELECT id FROM t ORDER BY id",
]


@pytest.mark.parametrize("query", QUERIES)
def test_stage_follows_its_input(spark: SparkSession, query: str) -> None:
    check(spark, TABLES, query, BATCHES)


def test_windows_agree_on_which_copy_of_a_row_is_which(spark: SparkSession) -> None:
    over_all, over_some = "(ORDER BY k, a DESC)", "(PARTITION BY k % 2 ORDER BY a, k)"
    queries = [
        f"SELECT k, a, lead(a, 2) OVER {over_all} AS l, ntile(4) OVER {over_some} AS n FROM t",
        f"SELECT k, a, row_number() OVER {over_some} AS r, lag(k, 2) OVER {over_all} AS l,"
        f" ntile(2) OVER (PARTITION BY a ORDER BY k) AS n FROM t",
        f"SELECT k, r, sum(a) OVER {over_all} AS s, nth_value(r, 2) OVER (ORDER BY a, k) AS v"
        f" FROM (SELECT *, row_number() OVER {over_some} AS r FROM t WHERE a > 0)",
    ]
    rows = [(k, a) for k in range(4) for a in range(3)]
    batches = [
        insert("t", *rows, *rows[::2], *rows[::3]),
        insert("t", *rows[1::2]),
        delete("t", *rows[::3], *rows[:2]),
        update("t", (rows[4], rows[5]), (rows[7], rows[1])),
    ]
    check(spark, {"t": "k INT, a INT"}, queries, batches, reference=2)


def test_sums_that_are_too_large_for_a_kernel(spark: SparkSession) -> None:
    """What a partition was given stays the same while others of its batches are for Spark."""
    queries = [
        "SELECT g, d, sum(b) OVER w AS s, sum(d) OVER w AS t, avg(d) OVER w AS a,"
        " row_number() OVER (PARTITION BY g ORDER BY b) AS r FROM t WINDOW w AS (PARTITION BY g)",
        "SELECT g, avg(e) OVER (PARTITION BY g) AS a, sum(d) OVER (PARTITION BY g ORDER BY b) AS s FROM t",
    ]
    tenths = [(1, 1, 0.1, Decimal(1))] * 10
    large = (2, 5 * 10**18, 1.0, Decimal(10) ** 17)
    batches = [
        insert("t", *tenths[:9]),
        insert("t", *tenths[:1], large),
        insert("t", *tenths[:2]),
        {"t": {"delete": [large, *tenths[:5]], "insert": [(1, 5 * 10**18, 0.7, None)]}},
        delete("t", *tenths[:3]),
    ]
    columns = "g INT, b BIGINT, d DOUBLE, e DECIMAL(18,0)"
    check(spark, {"t": columns}, queries, batches, reopen=True)


def test_both_zeros_in_orders(spark: SparkSession) -> None:
    queries = [
        "SELECT g, max(d) OVER (PARTITION BY g) AS m, min(d) OVER (PARTITION BY g) AS n FROM t",
        "SELECT g, row_number() OVER (PARTITION BY g ORDER BY d) AS r, d FROM t",
        "SELECT g, last_value(d) OVER (PARTITION BY g ORDER BY d ROWS UNBOUNDED PRECEDING) AS l FROM t",
        "SELECT d FROM t ORDER BY d LIMIT 3",
    ]
    batches = [
        insert("t", (1, 0.0), (2, -0.0)),
        insert("t", (1, -5.0), (2, 0.0), (2, -0.0)),
        *(insert("t", (2, -0.0), (3 + i % 2, 0.0)) for i in range(6)),
        insert("t", (1, 5.0)),
        delete("t", (2, -0.0), (2, 0.0), (3, 0.0)),
    ]
    check(spark, {"t": "g INT, d DOUBLE"}, queries, batches)


def test_limit_over_many_copies(spark: SparkSession) -> None:
    batches = [
        insert("t", *[("A",)] * 1000, *[("B",)] * 4000),
        delete("t", *[("B",)] * 100),
        delete("t", *[("A",)] * 1000, *[("B",)] * 3895),
        insert("t", ("C",), ("A",)),
    ]
    queries = [
        "SELECT s FROM t ORDER BY s LIMIT 10",
        "SELECT s FROM t ORDER BY s DESC LIMIT 10 OFFSET 2",
    ]
    check(spark, {"t": "s STRING"}, queries, batches)


HAVINGS = [
    "k IS NOT NULL", "k > 1", "k IN (1, 2)", "s > 6L", "s > 6", "sum(a) > 6", "k > 1 AND max(a) > 6", "k > 1L",
    "grouping_id() = 0", "EXISTS (SELECT 1 FROM t)", "coalesce(k, 0) > 1",
]  # fmt: skip


def test_windows_beside_having_over_sets(spark: SparkSession) -> None:
    """Where HAVING needs no aggregate and no cast, Spark's windows see the groups that it drops, too."""
    head = "SELECT k, sum(a) AS s, count(*) OVER () AS n, lag(sum(a)) OVER (ORDER BY k, sum(a)) AS p FROM t GROUP BY"
    queries = [
        *(f"{head} ROLLUP (k) HAVING {condition}" for condition in HAVINGS),
        f"{head} k HAVING k > 1",
        "SELECT k, j, rank() OVER (ORDER BY sum(a) DESC, k, j) AS r FROM t GROUP BY CUBE (k, j) HAVING j > 1 QUALIFY r <= 2",
        "SELECT k FROM t GROUP BY ROLLUP (k) HAVING k > 1 QUALIFY row_number() OVER (ORDER BY k) = 2",
        "SELECT DISTINCT count(*) OVER () AS n FROM t GROUP BY GROUPING SETS ((k), (j)) HAVING j IS NOT NULL",
        "WITH w AS (SELECT k, count(*) OVER () AS n FROM t GROUP BY ROLLUP (k) HAVING k > 1) SELECT k, w.n, v.n AS m FROM w JOIN w AS v USING (k)",
        "SELECT max(a) AS m, count(*) AS n, grouping_id() AS g FROM t GROUP BY GROUPING SETS (())",
        "SELECT max(a) AS m, count(*) AS n FROM t GROUP BY GROUPING SETS ((), ()) HAVING count(*) > 1",
    ]
    batches = [
        insert("t", (1, 1, 10), (1, 2, 5), (2, 1, 7), (3, 1, 1), (3, 2, 4)),
        update("t", ((2, 1, 7), (2, 2, 9)), ((1, 2, 5), (None, 2, 5))),
        delete("t", (1, 1, 10), (2, 2, 9), (3, 1, 1), (3, 2, 4), (None, 2, 5)),
        insert("t", (4, 4, 4)),
    ]
    check(spark, {"t": "k INT, j INT, a INT"}, queries, batches)


def test_windows_beside_havings_of_both_kinds_are_refused(spark: SparkSession) -> None:
    part = "SELECT k, count(*) OVER () AS n FROM t GROUP BY ROLLUP (k) HAVING"
    with pytest.raises(IncrementalError, match="HAVING beside windows"):
        check(spark, TABLES, f"{part} k > 1 UNION ALL {part} k > 1L", [])
