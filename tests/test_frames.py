"""Rows on their way to Spark and back are the rows that they were, with a job or without."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_incr.frames import FEW_ROWS, computed
from tests.bags import compare_bags

ITEMS = [
    "id AS i",
    "CAST(id AS STRING) AS s",
    "CAST(id AS DECIMAL(38,2)) AS d",
    "id / 3 AS x",
    "CAST(CAST(id AS STRING) AS BINARY) AS b",
    "DATE'2024-02-29' AS day",
    "timestamp_seconds(id) AS ts",
    "TIMESTAMP_NTZ'1969-12-31 23:59:59.999999' AS ntz",
    "INTERVAL '1' DAY * id AS days",
    "INTERVAL '13' MONTH * id AS months",
    "make_interval(0, 1, 0, id) AS units",
    "array(id, NULL) AS xs",
    "map(id, 'é') AS m",
    "IF(id > 0, named_struct('a', id, 'b', array(named_struct('c', 1.5F))), NULL) AS z",
    "parse_json('{\"a\": [1, null]}') AS v",
    "NULL AS void",
]


@pytest.mark.parametrize(("count", "jobs"), [(0, 0), (1, 0), (FEW_ROWS, 0), (FEW_ROWS + 1, 1)])
def test_a_few_rows_need_no_job(spark: SparkSession, count: int, jobs: int) -> None:
    rows = pa.table({"id": range(FEW_ROWS + 1)})
    query = spark.createDataFrame(rows).where(f"id < {count}").selectExpr(*ITEMS)
    group = f"a few rows {count}"
    spark.sparkContext.setJobGroup(group, group)
    try:
        found = computed(query)
        assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) == jobs
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    by_a_job = computed(query.repartition(2))
    assert found.num_rows == count
    assert found.schema.types == by_a_job.schema.types
    assert compare_bags(by_a_job, found, frozenset(), 0.0) == ""
