"""Twenty kills; `make crash` does two hundred."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.reliability.crash import killing

KILLS = 20


def test_kill_at_random_moments(spark: SparkSession, tmp_path: Path) -> None:
    with killing(tmp_path, spark, seed=4) as killer:
        for _ in range(KILLS):
            killer.round()
        killer.round()
    assert killer.versions[-1] > KILLS
