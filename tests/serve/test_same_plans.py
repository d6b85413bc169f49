"""Two texts are one query, or they are told apart, also where Spark cannot compare their plans."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_incr.serve.analysis import SparkAnalysis

RECURSION = "WITH RECURSIVE r(n, m) AS (SELECT 1, 2 UNION ALL SELECT n + 1, m FROM r WHERE n < 3) "
SAME = [
    ("SELECT id FROM t WHERE k = 1 AND id = 2", "SELECT `id` FROM `t` WHERE (k = 1) AND id = 2"),
    (RECURSION + "SELECT n, m FROM r", RECURSION + "SELECT `r`.`n`, `m` FROM `r`"),
    (
        RECURSION + "SELECT id + 1 = (SELECT max(n) FROM r) AS a FROM t",
        RECURSION + "SELECT `id` + 1 = (SELECT MAX(`n`) FROM `r`) AS a FROM `t`",
    ),
    (
        RECURSION
        + "SELECT array_sort(array(n, m)) AS a, transform(array(n), e -> e + m) AS b FROM r",
        RECURSION
        + "SELECT ARRAY_SORT(ARRAY(`n`, m)) AS a, transform(array(n), e -> e + `m`) AS b FROM r",
    ),
    (
        RECURSION
        + "SELECT nullif(n, 2) AS a, nullif(m, 2) AS b, m BETWEEN n + 1 AND 3 AS c FROM r",
        RECURSION
        + "SELECT NULLIF(`n`, 2) AS a, nullif(m, 2) AS b, (m BETWEEN n + 1 AND 3) AS c FROM r",
    ),
    (
        "SELECT * FROM t WHERE k IN (SELECT m['a'] FROM VALUES (map('a', 1)) AS q(m))",
        "SELECT * FROM t WHERE `k` IN (SELECT m['a'] FROM VALUES (MAP('a', 1)) AS `q`(`m`))",
    ),
]
OTHER = [
    ("SELECT a.id FROM t a JOIN t b ON a.k = b.k", "SELECT b.id FROM t a JOIN t b ON a.k = b.k"),
    (RECURSION + "SELECT n AS x FROM r", RECURSION + "SELECT m AS x FROM r"),
    (RECURSION + "SELECT n, m FROM r", RECURSION + "SELECT m AS n, n AS m FROM r"),
    (
        RECURSION + "SELECT a.n FROM r a JOIN r b ON a.m = b.m",
        RECURSION + "SELECT b.n FROM r a JOIN r b ON a.m = b.m",
    ),
    (
        RECURSION + "SELECT zip_with(array(n), array(m), (x, y) -> x - y) AS a FROM r",
        RECURSION + "SELECT zip_with(array(n), array(m), (x, y) -> y - x) AS a FROM r",
    ),
    (RECURSION + "SELECT nullif(n, 2) AS a FROM r", RECURSION + "SELECT nullif(m, 2) AS a FROM r"),
    (
        RECURSION + "SELECT id = (SELECT max(n) FROM r) AS a FROM t",
        RECURSION + "SELECT id = (SELECT max(m) FROM r) AS a FROM t",
    ),
    (
        RECURSION + "SELECT u.id FROM t JOIN t u ON t.id = u.k JOIN r ON r.n = t.id",
        RECURSION + "SELECT t.id FROM t JOIN t u ON t.id = u.k JOIN r ON r.n = t.id",
    ),
    (
        "SELECT * FROM t WHERE k IN (SELECT m['a'] FROM VALUES (map('a', 1)) AS q(m))",
        "SELECT * FROM t WHERE k IN (SELECT m['a'] FROM VALUES (map('a', 2)) AS q(m))",
    ),
    (
        "SELECT * FROM t WHERE k IN (SELECT m[1] + a FROM VALUES (map(1, 1), 2, 3) AS q(m, a, b))",
        "SELECT * FROM t WHERE k IN (SELECT m[1] + b FROM VALUES (map(1, 1), 2, 3) AS q(m, a, b))",
    ),
    ("SELECT id FROM t ORDER BY k", "SELECT id FROM t ORDER BY id"),
]


@pytest.fixture
def analysis(spark: SparkSession) -> Iterator[SparkAnalysis]:
    spark.createDataFrame([], "id INT, k INT").createOrReplaceTempView("t")
    yield SparkAnalysis(spark)
    spark.catalog.dropTempView("t")


def test_the_same(analysis: SparkAnalysis) -> None:
    assert [pair for pair in SAME if not analysis.same_query(*pair)] == []


def test_others(analysis: SparkAnalysis) -> None:
    assert [pair for pair in OTHER if analysis.same_query(*pair)] == []
