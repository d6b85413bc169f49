"""The benchmark of streams measures what it says, at a tiny scale: both sides follow, ours is right."""

from __future__ import annotations

from pyspark.sql import SparkSession

from benchmarks.streaming import TEN, measure


def test_both_sides_follow_every_file(spark: SparkSession) -> None:
    found = measure(spark, TEN[:2], rows=100, batch=10, batches=2, warmups=0)
    assert {name: len(times) for name, times in found.items()} == {
        "ours": 2,
        "native": 2,
        "ours trigger": 2,
        "native trigger": 2,
    }
    assert all(time > 0 for times in found.values() for time in times)
