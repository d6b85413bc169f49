"""Functions of users in FROM: of Python and of SQL, over literals, columns and subqueries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf

import spark_incr
from spark_incr.errors import IncrementalError
from tests.fuzz import interpreted
from tests.oracle import check
from tests.test_constructs import BATCHES, TABLES

SQL_FUNCTIONS = {
    "sums(x INT, y INT DEFAULT 2) RETURNS TABLE (v INT, w INT)": "SELECT x + y, x * y",
    "twice(x INT) RETURNS TABLE (v INT)": "SELECT explode(array_repeat(x, x))",
    "of_key(x BIGINT) RETURNS TABLE (id BIGINT, n BIGINT)": (
        "SELECT id, count(*) OVER () FROM t WHERE k = x"
    ),
    "greatest_of(x INT, least INT DEFAULT 1) RETURNS TABLE (b INT, total BIGINT)": (
        "SELECT max(b), sum(b) FROM u WHERE u.k = greatest_of.x AND b > least"
    ),
    "rows_of_t() RETURNS TABLE (n BIGINT)": "SELECT count(*) FROM t WHERE k = 10 OR id % 2 = 0 AND k > 1",
}
OF_PYTHON = [
    "SELECT * FROM repeated(n => 2)",
    "SELECT r.*, t.id FROM t JOIN repeated(4, 'a') AS r ON t.id = r.a",
    "SELECT id, q.x FROM t, LATERAL repeated(s => t.s, n => t.id) AS q(x, y) WHERE q.x > 0",
    "SELECT id, r.* FROM t LEFT JOIN LATERAL repeated(k - 10, s) AS r ON true",
    "SELECT id, r.* FROM t LEFT JOIN LATERAL repeated(k - 10, s) AS r",
    "SELECT id, r.* FROM t LEFT JOIN LATERAL repeated(id, s) AS r ON r.a > 1",
    "SELECT k, count(*) AS n, max(a) AS m FROM t, LATERAL repeated(id, s) AS r GROUP BY k",
    "SELECT id, r.a FROM t, LATERAL repeated(id + (SELECT max(b) FROM u), s) AS r",
    "SELECT id, (SELECT max(a) FROM repeated(t.id, 'a')) AS m FROM t",
]
OF_SQL = [
    "SELECT sums.v, q.w FROM sums(1), sums(y => 1, x => 3) AS q",
    "SELECT id, q.* FROM t LEFT JOIN LATERAL sums(id, k) AS q ON q.v > 14",
    "SELECT id, q.* FROM t LEFT JOIN LATERAL twice(k - 19) AS q",
    "SELECT id, q.* FROM t LEFT JOIN LATERAL twice(k - 19) AS q ON true",
    "SELECT b, q.* FROM of_key(10) AS q, u",
    "SELECT b, q.id FROM u LEFT JOIN LATERAL of_key(u.k) AS q",
    "SELECT id, q.total FROM t LEFT JOIN LATERAL greatest_of(x => t.k, least => 0) AS q ON q.total > 2",
    "SELECT id, (SELECT total FROM greatest_of(t.k)) AS s FROM t",
    "SELECT * FROM greatest_of((SELECT max(k) FROM t), 0)",
    "SELECT id FROM t WHERE id IN (SELECT b FROM greatest_of(t.k, 0))",
    "WITH u AS (SELECT 10 AS k, 99 AS b) SELECT q.*, u.k FROM u, LATERAL greatest_of(u.k, 0) AS q",
    "SELECT id, q.n FROM t, LATERAL rows_of_t() AS q",
]
GENERATORS = [
    "SELECT k, b, e FROM u LEFT JOIN LATERAL explode(xs) AS g(e)",
    "SELECT k, b, e FROM u LEFT JOIN LATERAL (SELECT explode(xs) AS e) AS g",
    "SELECT k, b, e FROM u LEFT JOIN LATERAL (SELECT e FROM explode(xs) AS h(e) WHERE e > 1) AS g",
    "SELECT k, (SELECT max(e) FROM explode(xs) AS h(e)) AS m FROM u",
]


class Repeated:
    """n rows of a text."""

    def eval(self, n: int | None, s: str | None = "x") -> Iterator[tuple[int, str | None]]:
        for i in range(n or 0):
            yield i, s


@pytest.fixture
def functions(spark: SparkSession) -> Iterator[None]:
    made = udtf(Repeated, returnType="a INT, b STRING")
    spark.udtf.register("repeated", made.asDeterministic())
    spark.udtf.register("undeclared", udtf(Repeated, returnType="a INT, b STRING"))
    for name, columns in TABLES.items():
        spark.createDataFrame([], columns).createOrReplaceTempView(name)
    for head, query in SQL_FUNCTIONS.items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {head} RETURN {query}")
    yield
    for name in TABLES:
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize("queries", [OF_PYTHON, OF_SQL, GENERATORS])
def test_table_functions(spark: SparkSession, functions: None, queries: list[str]) -> None:
    with interpreted(spark):
        # Each call of a function of Python starts a worker.
        batches = BATCHES[:3] if queries is OF_PYTHON else BATCHES
        check(spark, TABLES, queries, batches, reference=3)


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("SELECT * FROM undeclared(2)", "INCR_NONDETERMINISTIC"),
        ("SELECT id, a FROM rows, LATERAL undeclared(id)", "INCR_NONDETERMINISTIC"),
        ("SELECT * FROM clock()", "INCR_NONDETERMINISTIC"),
        ("SELECT clock_value() AS d FROM rows", "INCR_NONDETERMINISTIC"),
        ("SELECT * FROM repeated(TABLE(rows) PARTITION BY id)", "INCR_UNSUPPORTED"),
        ("SELECT * FROM older(1)", "INCR_UNSUPPORTED"),
        ("SELECT rows.id, q.n FROM rows, LATERAL first_of(id) AS q", "INCR_UNSUPPORTED"),
    ],
)
def test_table_functions_that_are_refused(
    spark: SparkSession, functions: None, tmp_path: Path, query: str, condition: str
) -> None:
    temporary = "CREATE OR REPLACE TEMPORARY FUNCTION"
    spark.sql(f"{temporary} clock() RETURNS TABLE (d DATE) RETURN SELECT current_date()")
    spark.sql(f"{temporary} clock_value() RETURNS DATE RETURN current_date()")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.sql(f"{temporary} older(x INT) RETURNS TABLE (y INT) RETURN SELECT x + 1")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    spark_incr.enable(spark, state=str(tmp_path))
    try:
        spark.sql("CREATE INCREMENTAL TABLE rows (id INT)")
        first = "SELECT id FROM rows WHERE id = x ORDER BY id LIMIT 1"
        spark.sql(f"{temporary} first_of(x INT) RETURNS TABLE (n INT) RETURN {first}")
        with pytest.raises(IncrementalError) as failure:
            spark.sql(f"CREATE INCREMENTAL VIEW v AS {query}")
        assert failure.value.condition == condition
    finally:
        spark_incr.disable(spark)


def test_a_table_function_that_becomes_another_one(
    spark: SparkSession, functions: None, tmp_path: Path
) -> None:
    spark_incr.enable(spark, state=str(tmp_path))
    made = "CREATE OR REPLACE TEMPORARY FUNCTION made(x INT) RETURNS TABLE (y INT) RETURN SELECT"
    spark.sql(f"{made} x + 1")
    try:
        spark.sql("CREATE INCREMENTAL TABLE rows (id INT)")
        queries = {
            "of_sql": "SELECT id, y FROM rows, LATERAL made(id)",
            "of_python": "SELECT id, a FROM rows, LATERAL repeated(id)",
            "constant": "SELECT id, a FROM rows, repeated(2)",
        }
        for name, query in queries.items():
            spark.sql(f"CREATE INCREMENTAL VIEW {name} AS {query}")
        spark.sql("INSERT INTO rows VALUES (1)")
        assert [tuple(row) for row in spark.table("of_sql").collect()] == [(1, 2)]
        spark.sql(f"{made} x + 5")
        other = type("Other", (Repeated,), {"eval": lambda self, n, s="": iter([(7, s)])})
        returned = "a INT, b STRING"
        spark.udtf.register("repeated", udtf(other, returnType=returned).asDeterministic())
        with pytest.warns(RuntimeWarning, match="the function (made|repeated) is not the one"):
            spark.sql("INSERT INTO rows VALUES (2)")
        for name in queries:
            assert {row.id for row in spark.table(name).collect()} == {1}
        for name, query in queries.items():
            spark.sql(f"CREATE OR REPLACE INCREMENTAL VIEW {name} AS {query}")
            expected = sorted(map(tuple, spark.sql(query).collect()))
            assert sorted(map(tuple, spark.table(name).collect())) == expected
    finally:
        spark_incr.disable(spark)
