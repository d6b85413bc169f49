"""What a view means is decided when it is created, whatever its session sets later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_incr
from spark_incr.serve.settings import settings_of, under


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    enabled = spark_incr.enable(spark.newSession(), tmp_path / "state")
    enabled.sql("CREATE INCREMENTAL TABLE t (i INT, s STRING, x BINARY, d DOUBLE)")
    yield enabled
    spark_incr.disable(enabled)


LATER = [
    ("spark.sql.parser.escapedStringLiterals", "true", r"regexp_replace(s, '\\d', '#')"),
    ("spark.sql.legacy.negativeIndexInArrayInsert", "true", "array_insert(array(1, 2), -1, i)"),
    (
        "spark.sql.legacy.followThreeValuedLogicInArrayExists",
        "false",
        "exists(array(i, NULL), e -> e > 1)",
    ),
    ("spark.sql.legacy.exponentLiteralAsDecimal.enabled", "true", "CAST(i * 1e3 AS STRING)"),
    ("spark.sql.legacy.lpadRpadAlwaysReturnString", "true", "hex(lpad(x, 3))"),
    ("spark.sql.ansi.enabled", "false", "try_divide(i, 0)"),
]


@pytest.mark.parametrize(("key", "value", "expression"), LATER)
def test_a_setting_of_later_changes_nothing(
    session: SparkSession, key: str, value: str, expression: str
) -> None:
    session.sql(f"CREATE INCREMENTAL VIEW v AS SELECT {expression} AS r FROM t")
    before = settings_of(session)
    row = "VALUES (1, 'a1', X'6162', 0.5)"
    expected = session.sql(f"SELECT {expression} FROM {row} AS t(i, s, x, d)").collect()
    session.conf.set(key, value)
    session.sql(f"INSERT INTO t {row}")
    assert session.table("v").collect() == expected
    assert session.conf.get(key) == value
    session.conf.unset(key)
    assert settings_of(session) == before


def test_settings_come_back(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.legacy.sizeOfNull", "true")
    kept = {**settings_of(session), "spark.sql.ansi.enabled": "false"}
    session.conf.set("spark.sql.legacy.interval.enabled", "true")
    session.conf.set("spark.sql.legacy.sizeOfNull", "false")
    now = settings_of(session)
    with under(session, kept):
        assert settings_of(session) == kept
    assert settings_of(session) == now


def test_variables_are_put_in_once(session: SparkSession) -> None:
    session.sql("SET my.v = 5")
    session.sql("CREATE INCREMENTAL VIEW v AS SELECT i, '${my.v}' AS r FROM t WHERE s = '${my.v}'")
    session.sql("SET my.v = 6")
    session.sql("INSERT INTO t VALUES (1, '5', NULL, 0), (2, '${my.v}', NULL, 0)")
    assert session.table("v").collect() == [(1, "5")]
    assert session.sql("SELECT s FROM t WHERE i = 2").collect() == [("6",)]
