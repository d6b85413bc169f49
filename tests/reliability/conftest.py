"""Engines to be hard on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_incr.engine import Engine
from spark_incr.serve.session import disable
from tests.sources.streams import opened


@pytest.fixture
def engine(spark: SparkSession, tmp_path: Path) -> Iterator[Engine]:
    yield opened(spark, tmp_path / "state")
    disable(spark)
