"""An expression that fails for some rows is evaluated for no more rows than Spark evaluates it for."""

from __future__ import annotations

import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession
from sqlglot import parse_one

from spark_incr.plan.context import Context
from spark_incr.plan.scope import Names
from spark_incr.plan.totality import is_total
from spark_incr.plan.types import Field
from spark_incr.serve.analysis import SparkAnalysis
from tests.oracle import check, delete, insert, together

TABLES = {"t": "k int, x int, s string", "u": "k int, y int"}
BATCHES = [
    together(insert("t", (1, 0, "a"), (9, 2, "no")), insert("u", (8, 1))),
    together(insert("t", (2, 2, "7"), (None, 0, "b"), (3, None, None)), insert("u", (2, 0))),
    insert("u", (2, 3), (7, 0)),
    together(delete("t", (1, 0, "a")), insert("t", (5, 0, "x"), (2, 5, "3"))),
    delete("u", (2, 0)),
]
AGGREGATES = """
    sum(10 / x)
    sum(10 div x)
    avg(10 div x)
    max_by(10 div x, x)
    percentile(10 div x, 0.5)
    collect_list(10 div x)
    skewness(10 div x)
    stddev(10 div x)
    sum(CAST(s AS INT))
""".strip().splitlines()
QUERIES = """
    SELECT t.k, y FROM t LEFT JOIN u ON t.k = u.k AND t.x <> 0 AND 10 / t.x > 1
    SELECT t.k, y FROM t LEFT JOIN u ON t.k = u.k AND 10 / t.x > 1
    SELECT t.k, y FROM t LEFT JOIN u ON t.k = u.k AND t.s > 5
    SELECT t.k, y FROM t LEFT JOIN u ON t.k = u.k AND s RLIKE '^[0-9]+$' AND CAST(s AS INT) > 5
    SELECT t.k, y FROM t LEFT JOIN u ON t.x <> 0 AND u.y / t.x > 1
    SELECT t.k, y FROM t RIGHT JOIN u ON t.k = u.k AND u.y <> 0 AND 10 / u.y > 1
    SELECT t.k, y FROM t FULL JOIN u ON t.k = u.k AND t.x <> 0 AND 10 / t.x > 1
    SELECT t.k, y FROM t FULL JOIN u ON t.k = u.k AND u.y <> 0 AND 10 / u.y > 1
    SELECT t.k FROM t LEFT ANTI JOIN u ON t.k = u.k AND t.x <> 0 AND 10 / t.x > 1
    SELECT t.k FROM t LEFT SEMI JOIN u ON t.k = u.k AND t.x <> 0 AND 10 / t.x > 1
    SELECT k FROM t WHERE x = 0 OR EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND 10 / t.x > 1)
    SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND 10 / t.x > 1) OR x = 5
""".strip().splitlines()


@pytest.mark.parametrize("query", [query.strip() for query in QUERIES])
def test_of_pairs_alone(spark: SparkSession, query: str) -> None:
    check(spark, TABLES, query, BATCHES)
    check(spark, TABLES, query, BATCHES, created_after=3)


@pytest.mark.parametrize("call", [call.strip() for call in AGGREGATES])
def test_of_the_rows_that_count_alone(spark: SparkSession, call: str) -> None:
    guard = "s RLIKE '^[0-9]+$'" if "CAST" in call else "x <> 0"
    grouped = f"SELECT k, {call} FILTER (WHERE {guard}) AS a FROM t GROUP BY"
    check(
        spark,
        TABLES,
        [f"{grouped} k", f"{grouped} ROLLUP (k)"],
        BATCHES,
        unordered=["a"] if "list" in call else [],
    )


SCHEMA = (
    Field("i", T.IntegerType()),
    Field("j", T.LongType()),
    Field("r", T.DoubleType()),
    Field("d", T.DecimalType(10, 2)),
    Field("w", T.DecimalType(38, 10)),
    Field("v", T.DecimalType(38, 0)),
    Field("s", T.StringType()),
    Field("day", T.DateType()),
    Field("at", T.TimestampType()),
    Field("b", T.BooleanType()),
)
TOTAL = """
    b
    NOT b
    i = j AND r < i
    d > 5
    d <= j
    w = w
    w > j
    w < r
    s = 'a' OR s IS NULL
    day > '2024-01-01'
    day <= at
    i BETWEEN 1 AND j
    i IN (1, -2, NULL)
    (b) IS TRUE
    i <=> NULL
""".strip().splitlines()
PARTIAL = """
    10 / i > 1
    i + j > 0
    s > 5
    s IN (1)
    s = day
    w > v
    CAST(s AS INT) IS NULL
    abs(i) = 1
""".strip().splitlines()


@pytest.mark.parametrize(
    ("text", "total"), [*((t.strip(), True) for t in TOTAL), *((t.strip(), False) for t in PARTIAL)]
)
def test_totality(spark: SparkSession, text: str, total: bool) -> None:
    context = Context(SparkAnalysis(spark), Names())
    assert is_total(parse_one(text, read="spark"), SCHEMA, context) is total
