"""The SQL texts, run literally by Spark, give what the Arrow operators and recompute give.

The tests of views run the texts of projections, joins and aggregates too; here are the operators
that they do not reach, and the reference runtime itself.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyspark.sql.types as T
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from spark_incr.frames import computed
from spark_incr.plan.nodes import Project, Scan, column
from spark_incr.plan.types import Field
from spark_incr.reference import Reference
from spark_incr.runtime.changes import WEIGHT
from tests.bags import compare_bags
from tests.oracle import check, delete, insert, together, undo, update

T_ROWS = [(1, "p"), (1, "q"), (2, "p"), (None, "r"), (3, None)]
U_ROWS = [(1, "x"), (2, "y"), (2, "y"), (None, "z")]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT t.k, u.c FROM t JOIN u ON t.k = u.k AND t.c < u.c WHERE t.c <> 'q'",
        "SELECT x.c, y.c AS yc FROM t AS x CROSS JOIN t AS y WHERE x.k < y.k",
        "SELECT u.c, count(*) AS n, max(t.c) AS m FROM t JOIN u USING (k) GROUP BY u.c HAVING count(*) > 1",
        "SELECT n, count(*) AS groups FROM (SELECT k, count(*) AS n FROM t GROUP BY k) GROUP BY n",
        "WITH g AS (SELECT k, count(*) AS n FROM t GROUP BY k) SELECT a.k, b.k AS k2 FROM g AS a JOIN g AS b ON a.n = b.n",
        "SELECT k, c FROM t UNION ALL SELECT k * 2L, upper(c) FROM u",
        "SELECT DISTINCT k IS NULL AS without, length(c) AS l FROM t",
        "SELECT 1 AS one, 'x' AS x",
        "SELECT count(*) AS n, max(c) AS m, count(DISTINCT k) AS d, collect_list(k) AS ks FROM t",
        "SELECT t.k, t.c, u.c AS uc FROM t LEFT JOIN u ON t.k = u.k",
        "SELECT t.c, u.k, u.c AS uc FROM t FULL JOIN u ON t.k <=> u.k",
        "SELECT k, c FROM t WHERE k IN (SELECT k FROM u)",
        "SELECT k, c FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
        "SELECT k, (SELECT max(u.c) FROM u WHERE u.k = t.k) AS m FROM t",
        "SELECT count(*) OVER () AS n FROM (SELECT sum(k) AS s FROM t)",
        "SELECT k, c, row_number() OVER (PARTITION BY k ORDER BY c) AS n FROM t",
        "SELECT k, skewness(length(c)) AS s, approx_count_distinct(c) AS a FROM t GROUP BY k",
        "SELECT k, c FROM t ORDER BY c DESC NULLS LAST, k LIMIT 2",
        "SELECT k, x FROM t LATERAL VIEW explode(array(k, k + 1)) AS x",
        "SELECT k FROM t EXCEPT ALL SELECT k FROM u",
        "SELECT t.c, v.a FROM t JOIN (VALUES (1, 'one'), (2, 'two')) AS v(k, a) ON t.k = v.k",
        "SELECT NULL AS x, count(*) AS n, max(c) AS m FROM t GROUP BY 1",
        "SELECT t.c, q.x, row_number() OVER (PARTITION BY NULL ORDER BY t.c, q.k) AS r FROM t LEFT JOIN (SELECT k, NULL AS x FROM u) AS q ON t.k = q.k",
    ],
)  # fmt: skip
def test_every_operator(spark: SparkSession, query: str) -> None:
    vanish = delete("u", (2, "y"), (2, "y"))
    check(
        spark,
        {"t": "k INT, c STRING", "u": "k INT, c STRING"},
        query,
        [
            together(insert("t", *T_ROWS), insert("u", *U_ROWS)),
            together(update("t", ((1, "p"), (4, "p")), ((2, "p"), (2, "s"))), vanish),
            together(insert("t", (2, "t"), (1, "q")), undo(vanish)),
        ],
        created_after=1,
        unordered=["ks"],
        reference=True,
    )


def test_a_batch_that_fails_leaves_the_states_as_they_were(spark: SparkSession) -> None:
    scan = Scan((Field("a", T.IntegerType()),), "t", ("a",))
    inverse = exp.Div(this=exp.Literal.number(1), expression=column("a"))
    reference = Reference(spark, Project((Field("b", T.DoubleType()),), scan, (inverse,)))
    reference.apply({"t": _changes(spark, [2], [1])})
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        reference.apply({"t": _changes(spark, [4, 0], [1, 1])})
    assert reference.rows().to_pylist() == [{"b": 0.5, WEIGHT: 1}]
    change = computed(reference.apply({"t": _changes(spark, [2, 4], [-1, 3])}))
    assert sorted(map(str, change.to_pylist())) == sorted(
        map(str, [{"b": 0.5, WEIGHT: -1}, {"b": 0.25, WEIGHT: 3}])
    )
    assert reference.rows().to_pylist() == [{"b": 0.25, WEIGHT: 3}]


def _changes(spark: SparkSession, values: list[int], weights: list[int]) -> DataFrame:
    return spark.createDataFrame(pa.table({"a": pa.array(values, pa.int32()), WEIGHT: weights}))


NAN = float("nan")


@pytest.mark.parametrize(
    ("expected", "actual", "equal"),
    [
        ([1.0, NAN, -0.0, None], [None, 0.0, NAN, 1.0], True),
        ([1.0], [1.0 + 1e-12], True),
        ([1.0], [1.0 + 1e-6], False),
        ([0.0], [1e-12], False),
        ([1.0, 1.0], [1.0], False),
        ([1.0, 2.0], [1.0, 1.0], False),
        ([NAN], [None], False),
        ([float("inf")], [1e308], False),
        ([[1.0, 2.0]], [[2.0, 1.0]], False),
        ([Decimal("1.0")], [Decimal("1.1")], False),
        ([{"a": 1, "b": NAN}], [{"a": 1, "b": NAN}], True),
    ],
)
def test_bags_are_told_apart(expected: list[object], actual: list[object], equal: bool) -> None:
    kind = pa.array(expected).type
    left, right = (pa.table({"x": pa.array(rows, kind)}) for rows in (expected, actual))
    assert (compare_bags(left, right, frozenset(), 0.0) == "") is equal


def test_lists_are_told_apart_by_their_elements_where_their_order_is_free() -> None:
    left, right, other = (pa.table({"x": [values]}) for values in ([1, 2, 2], [2, 1, 2], [1, 1, 2]))
    assert compare_bags(left, right, frozenset({"x"}), 0.0) == ""
    assert compare_bags(left, right, frozenset(), 0.0) != ""
    assert compare_bags(left, other, frozenset({"x"}), 0.0) != ""
