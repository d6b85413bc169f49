"""Twenty kills; `make crash` does two hundred."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytest.importorskip("duckdb")

from tests.reliability.crash import killing

KILLS = 20


def test_kill_at_random_moments(spark: SparkSession, tmp_path: Path) -> None:
    with killing(tmp_path, spark, seed=4) as killer:
        for _ in range(KILLS):
            killer.round()
        killer.last()
    assert killer.versions[-1] > KILLS
