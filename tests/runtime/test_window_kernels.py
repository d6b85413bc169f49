"""Window functions by kernels are Spark's: every function, frame and type, over random partitions."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from spark_incr.plan.types import Field, Schema
from tests.fuzz import interpreted
from tests.grammar import history
from tests.oracle import check

NUMBERS = (T.ByteType, T.LongType, T.FloatType, T.DoubleType, T.DecimalType)
VALUES = [
    T.ByteType(),
    T.LongType(),
    T.FloatType(),
    T.DoubleType(),
    T.DecimalType(10, 2),
    T.DecimalType(38, 6),
    T.StringType(),
    T.DateType(),
    T.ArrayType(T.IntegerType()),
]
TABLE: Schema = (
    Field("k", T.DoubleType()),
    Field("o", T.DoubleType()),
    Field("p", T.StringType()),
    *(Field(f"v{i}", t) for i, t in enumerate(VALUES)),
)
COLUMNS = [f.name for f in TABLE]
TOTAL = ", ".join(COLUMNS)
PARTITIONS = ["PARTITION BY k", "PARTITION BY k, p", ""]
TIES = ["ORDER BY o", "ORDER BY o DESC NULLS LAST, p", "ORDER BY p NULLS LAST"]
RUNNING = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def placed(partition: str) -> list[str]:
    """Functions that look at the place of a row, over a total order."""
    over = f"OVER ({partition} ORDER BY o DESC, {TOTAL})"
    calls = ["row_number()", "ntile(2)", "ntile(7)"]
    for i in range(len(VALUES)):
        calls += [f"lag(v{i})", f"lead(v{i}, 2, v{i})"]
    calls += ["lag(v0, 0)", "lead(v1, -1)", "lag(v1, 1, 7)"]
    texts = [f"{call} {over}" for call in calls]
    for frame in ("", RUNNING, WHOLE):
        framed = f"OVER ({partition} ORDER BY o, {TOTAL} {frame})"
        for i in (0, 6):
            for call in (f"first_value(v{i})", f"last_value(v{i})"):
                texts += [f"{call} {framed}", f"{call} IGNORE NULLS {framed}"]
    return texts


def ranked(partition: str, order: str) -> list[str]:
    """Functions that are the same for rows that tie."""
    over = f"OVER ({partition} {order})"
    calls = ["rank()", "dense_rank()", "percent_rank()", "cume_dist()"]
    return [f"{call} {over}" for call in calls]


def framed(partition: str, order: str) -> list[str]:
    """Aggregates over the whole partition and over the rows so far with their peers."""
    texts = []
    for over in (f"OVER ({partition})", f"OVER ({partition} {order})"):
        texts += [f"count(*) {over}"]
        for i, type_ in enumerate(VALUES):
            calls = [f"count(v{i})", f"min(v{i})", f"max(v{i})"]
            calls += [f"sum(v{i})", f"avg(v{i})"] if isinstance(type_, NUMBERS) else []
            texts += [f"{call} {over}" for call in calls]
    return texts


@pytest.mark.parametrize("number", range(3))
def test_kernels_give_what_spark_gives(spark: SparkSession, number: int) -> None:
    partition, order = PARTITIONS[number], TIES[number]
    lists = [placed(partition), ranked(partition, order), framed(partition, order)]
    queries = [
        f"SELECT {', '.join(f'{text} AS c{i}' for i, text in enumerate(texts))} FROM t"
        for texts in lists
    ]
    with interpreted(spark):
        check(spark, {"t": TABLE}, queries, history(Random(number), {"t": TABLE}), magnitude=1e8)


def test_decimals_that_round(spark: SparkSession) -> None:
    rows = [(1, i, Decimal(n)) for i, n in enumerate(("0.01", "0.02", "-0.05", "99999999.99", "0"))]
    total, mean = (
        "sum(v) OVER (PARTITION BY k ORDER BY i)",
        "avg(v) OVER (PARTITION BY k ORDER BY i)",
    )
    query = f"SELECT k, i, {total} AS s, {mean} AS m, avg(-v) OVER (PARTITION BY k) AS n FROM t"
    batches = [{"t": {"insert": rows}}, {"t": {"insert": [(1, 9, None), (2, 1, None)]}}]
    check(spark, {"t": "k INT, i INT, v DECIMAL(10, 2)"}, query, batches)


def test_sums_that_overflow_fail_as_in_spark(spark: SparkSession) -> None:
    rows = [(1, 2**62), (1, 2**62 - 1), (2, 5)]
    query = "SELECT k, sum(v) OVER (PARTITION BY k) AS s FROM t"
    batches = [{"t": {"insert": rows}}, {"t": {"insert": [(1, 9)]}}, {"t": {"insert": [(2, 9)]}}]
    check(spark, {"t": "k INT, v BIGINT"}, query, batches)
