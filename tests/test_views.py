"""What is maintained equals Spark's answer: every construct, with awkward rows."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.oracle import NOTHING, check, delete, insert, undo, update

NAN, INF = float("nan"), float("inf")


def test_group_by_with_awkward_rows(spark: SparkSession) -> None:
    first = insert("t", (1, 1.5), (None, 2.0), (1, None), (2, NAN), (2, -0.0), (None, INF))
    check(
        spark,
        {"t": "k INT, v DOUBLE"},
        "SELECT k, count(*) AS n, count(v) AS c, sum(v) AS s, avg(v) AS a, max(v) AS m FROM t GROUP BY k",
        [
            first,
            update("t", ((1, 1.5), (3, 1.5)), ((2, NAN), (2, 1.0))),
            NOTHING,
            delete("t", (1, None), (None, INF)),
            insert("t", (1, 7.0)),
            undo(insert("t", (1, 7.0))),
        ],
        reopen=True,
    )
