"""Tables that the tests of DML change, and engines with a directory to stream from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_incr.engine import Engine
from spark_incr.serve.session import disable
from spark_incr.sources.dml import Target
from tests.sources.streams import opened
from tests.sources.tables import Given, Row, Table, schema_of


@pytest.fixture(autouse=True)
def _no_views_left(spark: SparkSession) -> Iterator[None]:
    yield
    session: Any = spark._jsparkSession
    session.sessionState().catalog().clearTempTables()


@pytest.fixture
def given_table(spark: SparkSession) -> Given:
    """Makes `t` a table with these columns and rows."""

    def make(
        ddl: str,
        *rows: Row,
        not_null: Sequence[str] = (),
        key: Sequence[str] = (),
        defaults: Mapping[str, str] | None = None,
    ) -> Table:
        spark.createDataFrame(list(rows), ddl).createOrReplaceTempView("t")
        schema = schema_of(spark, ddl)
        return Table(spark, Target("t", schema, tuple(key), frozenset(not_null), defaults or {}))

    return make


@pytest.fixture
def orders(given_table: Given) -> Table:
    return given_table(
        "id INT, name STRING, x DOUBLE",
        (1, "a", 1.5),
        (2, "b", None),
        (2, "b", None),
        (3, None, float("nan")),
    )


@pytest.fixture
def engine(spark: SparkSession, tmp_path: Path) -> Iterator[Engine]:
    yield opened(spark, tmp_path / "state")
    disable(spark)


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    directory = tmp_path / "in"
    directory.mkdir()
    return directory
