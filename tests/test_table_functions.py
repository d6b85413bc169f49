"""Functions of users in FROM: of Python and of SQL, over literals, columns, subqueries and tables.

Functions of SQL that hold a query are part of a plan in the same way where they are called for a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import udtf

import spark_incr
from spark_incr.errors import IncrementalError
from spark_incr.serve.analysis import SparkAnalysis
from tests.fuzz import interpreted
from tests.oracle import check, delete, insert
from tests.table_functions import OF_TABLES, Repeated, Wider
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
VALUE_FUNCTIONS = {
    "greatest_b(x INT) RETURNS INT": "(SELECT max(b) FROM u WHERE k = x)",
    "rows_with(x BIGINT, least INT DEFAULT 1) RETURNS INT": (
        "(SELECT count(*) FROM u WHERE u.k = rows_with.x AND b >= least)"
    ),
    "above(x INT) RETURNS DOUBLE": "x - (SELECT avg(b) FROM u)",
    "is_there(x INT) RETURNS BOOLEAN": "EXISTS (SELECT 1 FROM u WHERE k = x OR b = x AND b IN (SELECT id FROM t))",
    "without_rows() RETURNS BIGINT": "(SELECT count(*) FROM t)",
    "through(x INT) RETURNS INT": "coalesce(greatest_b(x), -1) + rows_with(x)",
    "of_one(x INT) RETURNS STRING": "(SELECT s FROM t WHERE id = x)",
}
OF_VALUES = [
    "SELECT id, greatest_b(k) AS g, rows_with(k) AS n, rows_with(x => k, least => 0) AS m FROM t",
    "SELECT id, above(id) AS a, is_there(k) AS i, without_rows() AS n FROM t",
    "SELECT id FROM t WHERE greatest_b(k) > 1 OR NOT is_there(id)",
    "SELECT rows_with(k) AS n, count(*) AS m, sum(greatest_b(k)) AS s FROM t GROUP BY rows_with(k)",
    "SELECT k, greatest_b(max(k)) AS g, sum(id) AS s FROM t GROUP BY k HAVING rows_with(k) > 0 OR above(sum(id)) > 1",
    "SELECT greatest_b(max(k)) AS g FROM t",
    "SELECT sum(id) IN (SELECT b FROM u) AS i, max(k) NOT IN (SELECT k FROM u WHERE k IS NOT NULL) AS n FROM t",
    "SELECT k, greatest_b(sum(k) OVER ()) AS g, max(k) OVER () IN (SELECT k FROM u) AS i FROM t",
    "SELECT k, greatest_b(sum(max(k)) OVER ()) AS g, sum(max(id)) OVER () IN (SELECT b FROM u) AS i FROM t GROUP BY k",
    "SELECT k, sum(max(id) + (SELECT max(b) FROM u)) OVER () AS w FROM t GROUP BY k",
    "SELECT id, through(k) AS a, through(greatest_b(k)) AS b, greatest_b((SELECT max(k) FROM t)) AS c FROM t",
    "SELECT t.id, u.b FROM t LEFT JOIN u ON t.k = u.k AND above(t.id) > 0",
    "SELECT id, CASE WHEN k > 10 THEN greatest_b(k) ELSE id END AS c FROM t",
    "SELECT id, (SELECT sum(greatest_b(u.k)) FROM u WHERE u.k = t.k) AS s FROM t",
    "SELECT id, (SELECT max(b) FROM u WHERE b < greatest_b(t.k)) AS s FROM t",
    "SELECT id, greatest_b(k) AS g FROM t ORDER BY g DESC NULLS LAST, id LIMIT 2",
    "SELECT id, greatest_b(k) AS g, row_number() OVER (PARTITION BY greatest_b(k) ORDER BY id, s) AS r FROM t",
    "SELECT greatest_b(2147483648 - 2147483638) AS c, rows_with('10') AS d",
    "WITH u AS (SELECT 1 AS k) SELECT greatest_b(k * 10) AS g FROM u",
]
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
OF_PARTITIONS = [
    "SELECT * FROM summed(TABLE(t) PARTITION BY k ORDER BY id DESC)",
    "SELECT g.n, t.id FROM t JOIN summed(TABLE(t) PARTITION BY (struct(k % 20, x), s)) AS g(n, ids) ON g.n = t.id",
    "SELECT * FROM t LEFT JOIN LATERAL summed(TABLE(SELECT b, k FROM u WHERE b > 1) PARTITION BY b) AS g ON g.n = t.id",
    "SELECT * FROM summed(TABLE(SELECT DISTINCT id, x FROM t) PARTITION BY x ORDER BY id)",
    "SELECT id, (SELECT max(n) FROM summed(TABLE(u) PARTITION BY u.k)) AS m FROM t",
    "WITH w AS (SELECT id, k FROM t) SELECT * FROM running(TABLE(w) DISTRIBUTE BY k SORT BY id)",
    "SELECT * FROM running(least => 2, row => TABLE(SELECT DISTINCT id, r.k FROM t AS r) PARTITION BY r.k ORDER BY r.id)",
    "SELECT * FROM wider(TABLE(t) PARTITION BY k ORDER BY id)",
    "SELECT * FROM summed(TABLE(SELECT n, ids FROM summed(TABLE(t) PARTITION BY k ORDER BY id)) PARTITION BY n ORDER BY ids)",
    "FROM firsts(TABLE(t) PARTITION BY k ORDER BY (id, x)) |> WHERE id > 1",
]
OF_ALL_ROWS = [
    "SELECT * FROM summed(TABLE(t) WITH SINGLE PARTITION ORDER BY (id, x))",
    "SELECT * FROM wider(TABLE(SELECT id, s FROM t UNION ALL SELECT b, 'u' FROM u)) WHERE number = 0",
    "SELECT * FROM running(TABLE(t) PARTITION BY (k) ORDER BY (id), (SELECT count(*) FROM u))",
    "SELECT * FROM summed(TABLE(SELECT id, timestamp_seconds(k) AS at FROM t) PARTITION BY at ORDER BY id)",
    "SELECT * FROM summed(TABLE(SELECT id, map(1, k) AS m FROM t) PARTITION BY m[1] ORDER BY id)",
    "SELECT * FROM summed(TABLE(t) PARTITION BY dense_rank() OVER (ORDER BY k) ORDER BY id)",
    "SELECT * FROM in_batches(TABLE(SELECT id, s FROM t) PARTITION BY s)",
    "SELECT * FROM by_itself(TABLE(t))",
    "SELECT t.id, g.n FROM t LEFT JOIN LATERAL at_once(TABLE(u)) AS g",
]
GENERATORS = [
    "SELECT k, b, e FROM u LEFT JOIN LATERAL explode(xs) AS g(e)",
    "SELECT k, b, e FROM u LEFT JOIN LATERAL (SELECT explode(xs) AS e) AS g",
    "SELECT k, b, e FROM u LEFT JOIN LATERAL (SELECT e FROM explode(xs) AS h(e) WHERE e > 1) AS g",
    "SELECT k, (SELECT max(e) FROM explode(xs) AS h(e)) AS m FROM u",
]


@pytest.fixture
def functions(spark: SparkSession) -> Iterator[None]:
    made = udtf(Repeated, returnType="a INT, b STRING")
    spark.udtf.register("repeated", made.asDeterministic())
    spark.udtf.register("undeclared", udtf(Repeated, returnType="a INT, b STRING"))
    for name, function in OF_TABLES.items():
        spark.udtf.register(name, function.asDeterministic())
    spark.udtf.register("undeclared_wider", udtf(Wider))
    for name, columns in TABLES.items():
        spark.createDataFrame([], columns).createOrReplaceTempView(name)
    for head, query in (SQL_FUNCTIONS | VALUE_FUNCTIONS).items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {head} RETURN {query}")
    yield
    for name in TABLES:
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize(
    "queries", [OF_PYTHON, OF_SQL, OF_VALUES, GENERATORS, OF_PARTITIONS, OF_ALL_ROWS]
)
def test_table_functions(spark: SparkSession, functions: None, queries: list[str]) -> None:
    with interpreted(spark):
        # Each call of a function of Python waits for a worker. All rows are kept as those of a
        # recursion are, whose SQL texts are run elsewhere.
        batches = BATCHES if queries in (OF_SQL, OF_VALUES, GENERATORS) else BATCHES[:3]
        check(spark, TABLES, queries, batches, reference=0 if queries is OF_ALL_ROWS else 3)


def test_a_function_that_finds_more_than_one_row_fails(
    spark: SparkSession, functions: None
) -> None:
    batches = [
        insert("t", (1, 1, "a", 1.0), (2, 1, "b", 1.0)),
        insert("t", (2, 2, "c", 1.0)),
        insert("t", (3, 2, "c", 1.0)),
        delete("t", (2, 1, "b", 1.0)),
    ]
    check(spark, TABLES, "SELECT id, of_one(k) AS s FROM t", batches)


def test_a_function_that_has_changed_is_told(
    spark: SparkSession, functions: None, tmp_path: Path
) -> None:
    made = "CREATE OR REPLACE TEMPORARY FUNCTION of_rows(x INT) RETURNS BIGINT RETURN"
    spark_incr.enable(spark, state=str(tmp_path))
    try:
        spark.sql("CREATE INCREMENTAL TABLE rows (id INT)")
        spark.sql(f"{made} (SELECT count(*) FROM rows WHERE id > x)")
        spark.sql("CREATE INCREMENTAL VIEW v AS SELECT id, of_rows(id) AS n FROM rows")
        spark.sql("INSERT INTO rows VALUES (1), (2), (3)")
        assert sorted(map(tuple, spark.table("v").collect())) == [(1, 2), (2, 1), (3, 0)]
        spark.sql(f"{made} (SELECT count(*) FROM rows WHERE id < x)")
        with pytest.warns(RuntimeWarning, match="INCR_FUNCTION_CHANGED"):
            spark.sql("INSERT INTO rows VALUES (4)")
        spark.sql("CREATE OR REPLACE INCREMENTAL VIEW v AS SELECT id, of_rows(id) AS n FROM rows")
        assert sorted(map(tuple, spark.table("v").collect())) == [
            (1, 0),
            (2, 1),
            (3, 2),
            (4, 3),
        ]
    finally:
        spark_incr.disable(spark)


def test_an_answer_of_another_release_is_asked_for_again(
    spark: SparkSession, functions: None
) -> None:
    older = '{"aggregates": false, "deterministic": true, "reads": true, "body": "SELECT 1"}'
    found = SparkAnalysis(spark, memory={"FUNCTION greatest_b OF 1": older}).session_function(
        "greatest_b", 1
    )
    assert found is not None
    assert found.returns


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("SELECT * FROM undeclared(2)", "INCR_NONDETERMINISTIC"),
        ("SELECT id, a FROM rows, LATERAL undeclared(id)", "INCR_NONDETERMINISTIC"),
        ("SELECT * FROM clock()", "INCR_NONDETERMINISTIC"),
        ("SELECT clock_value() AS d FROM rows", "INCR_NONDETERMINISTIC"),
        ("SELECT days_since(DATE'2024-01-01') AS d FROM rows", "INCR_NONDETERMINISTIC"),
        ("SELECT rows_by() AS n FROM rows", "INCR_NONDETERMINISTIC"),
        ("SELECT n FROM rows, LATERAL days_by(id)", "INCR_NONDETERMINISTIC"),
        ("SELECT older_value(id) AS n FROM rows", "INCR_UNSUPPORTED"),
        ("SELECT first_value_of(id) AS n FROM rows", "INCR_UNSUPPORTED"),
        ("SELECT id FROM rows WHERE NOT is_among(id)", "INCR_UNSUPPORTED"),
        ("SELECT * FROM undeclared(TABLE(rows) PARTITION BY id)", "INCR_NONDETERMINISTIC"),
        ("SELECT * FROM undeclared_wider(TABLE(rows))", "INCR_NONDETERMINISTIC"),
        ("SELECT * FROM wider(TABLE(rows) PARTITION BY rand())", "INCR_NONDETERMINISTIC"),
        ("SELECT * FROM summed(TABLE(SELECT id, id FROM rows))", "INCR_UNSUPPORTED"),
        ("SELECT * FROM wider(TABLE(rows) PARTITION BY (SELECT 1))", "INCR_UNSUPPORTED"),
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
    today = "d DATE DEFAULT current_date()"
    spark.sql(f"{temporary} days_since(e DATE, {today}) RETURNS INT RETURN d - e")
    spark.sql(f"{temporary} rows_by({today}) RETURNS INT RETURN SELECT count(*) WHERE d > '2024'")
    spark.sql(f"{temporary} days_by(x INT, {today}) RETURNS TABLE (n INT) RETURN SELECT d - '2024'")
    spark_incr.enable(spark, state=str(tmp_path))
    try:
        spark.sql("CREATE INCREMENTAL TABLE rows (id INT)")
        spark.conf.set("spark.sql.ansi.enabled", "false")
        spark.sql(f"{temporary} older(x INT) RETURNS TABLE (y INT) RETURN SELECT x + 1")
        spark.sql(
            f"{temporary} older_value(x INT) RETURNS INT RETURN SELECT max(id) FROM rows WHERE id < x"
        )
        spark.conf.set("spark.sql.ansi.enabled", "true")
        first = "SELECT id FROM rows WHERE id = x ORDER BY id LIMIT 1"
        spark.sql(f"{temporary} first_of(x INT) RETURNS TABLE (n INT) RETURN {first}")
        among = "x > 1 AND x IN (SELECT id FROM rows)"
        spark.sql(f"{temporary} is_among(x INT) RETURNS BOOLEAN RETURN {among}")
        spark.sql(f"{temporary} first_value_of(x INT) RETURNS INT RETURN {first}")
        with pytest.raises(IncrementalError) as failure:
            spark.sql(f"CREATE INCREMENTAL VIEW v AS {query}")
        assert failure.value.condition == condition
    finally:
        spark_incr.disable(spark)


def test_only_the_touched_partitions_are_given_to_a_function(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    path = str(seen)

    class Seen:
        def eval(self, row: Row) -> Iterator[tuple[str]]:
            with open(path, "a") as file:
                file.write(f"{row['id']} ")
            yield (row["s"],)

    spark.udtf.register("seen", udtf(Seen, returnType="s STRING").asDeterministic())
    spark_incr.enable(spark, state=str(tmp_path / "state"))
    try:
        spark.sql("CREATE INCREMENTAL TABLE rows (id INT, s STRING)")
        spark.sql("INSERT INTO rows VALUES (1, 'a'), (2, 'b'), (2, 'c'), (NULL, 'd'), (4, 'e')")
        spark.sql("CREATE INCREMENTAL VIEW v AS SELECT * FROM seen(TABLE(rows) PARTITION BY id)")
        for statement, touched in (
            ("UPDATE rows SET s = 'f' WHERE s = 'b'", ["2"] * 4),
            ("UPDATE rows SET id = 1 WHERE id IS NULL", ["1", "1", "1", "None"]),
            ("DELETE FROM rows WHERE id = 4", ["4"]),
            ("INSERT INTO rows VALUES (5, 'g'), (5, 'g')", ["5", "5"]),
        ):
            seen.unlink()
            spark.sql(statement)
            assert sorted(seen.read_text().split()) == touched
        assert sorted(row.s for row in spark.table("v").collect()) == list("acdfgg")
    finally:
        spark_incr.disable(spark)


@pytest.mark.parametrize(
    ("call", "said", "lineage"),
    [
        ("summed(TABLE(t) PARTITION BY (k, x + 1))", "summed)", "k, partition"),
        ("wider(TABLE(t))", "wider, without PARTITION BY: Spark runs it anew", "none (all rows)"),
        (
            "summed(TABLE(SELECT k, timestamp_seconds(k) AS at FROM t) PARTITION BY (k, at))",
            "summed, partitioned by `at` of type timestamp: Spark runs it anew",
            "none (all rows)",
        ),
        (
            "running(TABLE(t) PARTITION BY (k), struct(1))",
            "running, called with a struct: Spark runs it anew",
            "none (all rows)",
        ),
        (
            "in_batches(TABLE(t) PARTITION BY k)",
            "in_batches, given rows in batches: Spark runs it anew",
            "none (all rows)",
        ),
        (
            "summed(TABLE(SELECT k, s COLLATE UTF8_LCASE AS c FROM t) PARTITION BY c)",
            "summed, partitioned by `c` of type string collate UTF8_LCASE: Spark",
            "none (all rows)",
        ),
        (
            "summed(TABLE(SELECT k, map(k, s) AS m FROM t) PARTITION BY k)",
            "summed, of rows that m of type map<int,string> leaves in no order: Spark",
            "none (all rows)",
        ),
    ],
)
def test_explain_says_why_all_rows_are_read(
    spark: SparkSession, functions: None, tmp_path: Path, call: str, said: str, lineage: str
) -> None:
    spark.catalog.dropTempView("t")
    spark_incr.enable(spark, state=str(tmp_path))
    try:
        spark.sql(f"CREATE INCREMENTAL TABLE t ({TABLES['t']})")
        rows = spark.sql(f"EXPLAIN CREATE INCREMENTAL VIEW v AS SELECT * FROM {call}").collect()
        text = "\n".join(row[0] for row in rows)
        assert f"affected (table function {said}" in text
        assert text.endswith(f"lineage    {lineage}")
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
            "of_tables": "SELECT id_ AS id, number FROM wider(TABLE(rows) PARTITION BY id) WHERE id_ > 0",
        }
        for name, query in queries.items():
            spark.sql(f"CREATE INCREMENTAL VIEW {name} AS {query}")
        spark.sql("INSERT INTO rows VALUES (1)")
        assert [tuple(row) for row in spark.table("of_sql").collect()] == [(1, 2)]
        spark.sql(f"{made} x + 5")
        other = type("Other", (Repeated,), {"eval": lambda self, n, s="": iter([(7, s)])})
        returned = "a INT, b STRING"
        spark.udtf.register("repeated", udtf(other, returnType=returned).asDeterministic())
        wider = type("Wider", (Wider,), {"eval": lambda self, row: iter([(*row, 7)])})
        spark.udtf.register("wider", udtf(wider).asDeterministic())
        with pytest.warns(
            RuntimeWarning, match="the function (made|repeated|wider) is not the one"
        ):
            spark.sql("INSERT INTO rows VALUES (2)")
        for name in queries:
            assert {row.id for row in spark.table(name).collect()} == {1}
        for name, query in queries.items():
            spark.sql(f"CREATE OR REPLACE INCREMENTAL VIEW {name} AS {query}")
            expected = sorted(map(tuple, spark.sql(query).collect()))
            assert sorted(map(tuple, spark.table(name).collect())) == expected
    finally:
        spark_incr.disable(spark)
