"""INSERT and store assignment, held against the same INSERT into a real parquet table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from spark_incr.errors import IncrementalError
from spark_incr.plan.types import Field
from spark_incr.sources.assignment import assigned
from spark_incr.sources.dml import Target
from tests.sources.tables import Given, Row, Table, bag, bag_of, schema_of

COLUMNS = {
    "a": "INT",
    "b": "STRING",
    "d": "DECIMAL(5,2)",
    "s": "STRUCT<x: INT, y: STRING>",
    "odd name": "BIGINT",
}
DEFAULTS = {"b": "'it''s' || ',' -- )", "d": "1.005", "odd name": "CAST('4' AS BIGINT) + 3"}
INSERT_DDL = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
DEFAULTS_DDL = "\n, ".join(
    f"`{name}` {kind} DEFAULT {DEFAULTS.get(name, 'NULL')}" for name, kind in COLUMNS.items()
)


@pytest.fixture(scope="module")
def parquet_insert(spark: SparkSession) -> Iterator[Callable[[str], list[Row] | str]]:
    """The rows of a parquet table after an INSERT into it, or the name of the failure."""
    spark.sql("CREATE DATABASE IF NOT EXISTS dml_oracle")

    def run(text: str) -> list[Row] | str:
        spark.sql("DROP TABLE IF EXISTS dml_oracle.t")
        spark.sql(f"CREATE TABLE dml_oracle.t ({DEFAULTS_DDL}) USING parquet")
        try:
            spark.sql(text.replace("INTO t", "INTO dml_oracle.t"))
        except PySparkException as failure:
            return failure.getCondition() or ""
        return [tuple(row.values()) for row in spark.table("dml_oracle.t").toArrow().to_pylist()]

    yield run
    spark.sql("DROP DATABASE dml_oracle CASCADE")


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1, 'x', 1.255, NULL, 5), (DEFAULT, DEFAULT, DEFAULT, DEFAULT, 7)",
        "INSERT INTO t (a, b) VALUES (1, '2'), (DEFAULT, DEFAULT);",
        "INSERT INTO t (B, `odd name`) SELECT 'x', a FROM u -- done",
        "INSERT INTO t (a) VALUES 1, DEFAULT",
        "INSERT INTO t (a) SELECT DEFAULT",
        "INSERT INTO t (`odd name`, a, b) VALUES (DEFAULT, 1, DEFAULT), (9, DEFAULT, 'q')",
        "INSERT INTO t (b, d) VALUES (DEFAULT, DEFAULT)",
        "INSERT INTO t SELECT a, DEFAULT, DEFAULT, named_struct('x', 1, 'y', 'z'), DEFAULT FROM u",
        "INSERT INTO t VALUES (abs(-1), concat('a', 'b'), DEFAULT, NULL, (SELECT max(a) FROM u))",
        "INSERT INTO t (b, a) SELECT default, a FROM u",
        "INSERT INTO t (a) (SELECT 1) UNION ALL SELECT 2",
        "INSERT INTO t (a) WITH q AS (SELECT 4 AS a) SELECT a FROM q ORDER BY a LIMIT 1",
        "WITH q AS (SELECT 4 AS a) INSERT INTO t (a) SELECT a FROM q",
        "INSERT INTO t (a) FROM u SELECT a",
        "FROM u INSERT INTO t (a) SELECT a WHERE a > 1",
        "INSERT INTO t (a, b) TABLE v",
        "INSERT INTO t BY NAME SELECT 'x' AS b, 1 AS A",
        "INSERT INTO t BY NAME SELECT named_struct('y', 'q', 'x', 5L) AS s",
        "INSERT INTO t (s) SELECT named_struct('y', 5L, 'x', 'q')",
        "INSERT INTO t (a) SELECT 1.9D",
        "INSERT INTO t (a) SELECT a + 1 FROM (SELECT max(a) AS a FROM u)",
        "INSERT INTO t VALUES (1, 'x')",
        "INSERT INTO t VALUES (1, 'x', 1, NULL, 5, 6)",
        "INSERT INTO t (a, b) VALUES (1)",
        "INSERT INTO t (a, b) VALUES (1, 2, 3)",
        "INSERT INTO t BY NAME SELECT 1 AS a, 2 AS zz",
        "INSERT INTO t BY NAME SELECT 1 AS a, 2 AS a",
        "INSERT INTO t BY NAME SELECT named_struct('x', 5) AS s",
        "INSERT INTO t BY NAME SELECT named_struct('x', 5, 'y', 'a', 'z', 1) AS s",
        "INSERT INTO t (s) SELECT named_struct('x', 5)",
        "INSERT INTO t (s) SELECT named_struct('x', 5, 'y', 'a', 'z', 1)",
        "INSERT INTO t (a, zz) VALUES (1, 2)",
        "INSERT INTO t (a) VALUES ('1')",
        "INSERT INTO t (a) VALUES (30000000000)",
        "INSERT INTO t (a) VALUES (CAST('NaN' AS DOUBLE))",
        "INSERT INTO t (d) VALUES (1000)",
        "INSERT INTO t (s) SELECT named_struct('x', 30000000000, 'y', 'a')",
        "INSERT INTO t (b) SELECT 1 / 0",
        "INSERT INTO t (a) SELECT nothing FROM u",
        "INSERT INTO t (a) SELECT FROM WHERE",
    ],
)
def test_insert_is_what_parquet_takes(
    given_table: Given, parquet_insert: Callable[[str], list[Row] | str], text: str
) -> None:
    table = given_table(INSERT_DDL, defaults=DEFAULTS)
    table.spark.sql(
        "SELECT 1 AS a, 'q' AS `default` UNION ALL SELECT 2, 'r'"
    ).createOrReplaceTempView("u")
    table.spark.sql("SELECT 1 AS a, 'x' AS b").createOrReplaceTempView("v")
    expected = parquet_insert(text)
    if isinstance(expected, str):
        # Which of its names Spark gives to a struct that does not fit depends on the column list.
        assert table.fails(text).split(".")[0] == expected.split(".")[0]
        return
    change = table.change(text)
    assert bag(change.insert) == bag_of(*expected)
    assert change.delete.num_rows == 0
    assert change.counts == {
        "num_affected_rows": len(expected),
        "num_inserted_rows": len(expected),
    }


KEPT_TYPES = {
    "BOOLEAN": "true",
    "TINYINT": "1Y",
    "SMALLINT": "2S",
    "INT": "3",
    "BIGINT": "4L",
    "FLOAT": "1.5F",
    "DOUBLE": "2.5D",
    "DECIMAL(5,2)": "1.25BD",
    "DECIMAL(20,0)": "CAST(7 AS DECIMAL(20,0))",
    "STRING": "'1'",
    "BINARY": "X'31'",
    "DATE": "DATE'2020-01-01'",
    "TIMESTAMP": "TIMESTAMP'2020-01-01 01:02:03.5'",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ'2020-01-01 01:02:03'",
    "INTERVAL DAY TO SECOND": "INTERVAL '1 01:02:03' DAY TO SECOND",
    "INTERVAL HOUR": "INTERVAL '5' HOUR",
    "ARRAY<INT>": "array(1, NULL)",
    "ARRAY<BIGINT>": "array(1L)",
    "ARRAY<STRING>": "array('a')",
    "ARRAY<STRUCT<a: INT>>": "array(named_struct('a', 1), NULL)",
    "ARRAY<STRUCT<b: BIGINT>>": "array(named_struct('b', 2L))",
    "MAP<STRING, INT>": "map('a', 1)",
    "MAP<INT, BIGINT>": "map(1, 1L, 2, NULL)",
    "MAP<STRING, STRUCT<a: BIGINT>>": "map('a', named_struct('a', 1L))",
    "MAP<STRING, STRUCT<z: INT>>": "map('a', named_struct('z', 1))",
    "STRUCT<a: INT, b: STRING>": "named_struct('a', 1, 'b', 'x')",
    "STRUCT<a: BIGINT, b: STRING>": "named_struct('a', 1L, 'b', NULL)",
    "STRUCT<b: STRING, a: INT>": "named_struct('b', 'x', 'a', 1)",
    "STRUCT<A: INT, B: STRING>": "named_struct('A', 1, 'B', 'x')",
    "STRUCT<a: INT>": "named_struct('a', 1)",
    "STRUCT<`a b`: ARRAY<INT>, c: TIMESTAMP>": "named_struct('a b', array(1), 'c', NULL)",
}
OTHER_TYPES = {
    "VOID": "NULL",
    "INTERVAL YEAR": "INTERVAL '1' YEAR",
    "INTERVAL": "make_interval(1)",
    "VARIANT": "parse_json('1')",
    "TIME": "TIME'01:02:03'",
}


def telling(source: str, target: str) -> bool:
    """Whether a pair of types is worth a query: nested and atomic types never mix otherwise."""
    mixed = ("<" in source) != ("<" in target)
    return not mixed or source == "VOID" or "STRING" in (source, target)


def test_store_assignment_takes_what_spark_takes(spark: SparkSession) -> None:
    """Every pair of types is accepted or refused as in an INSERT into parquet, and the accepted
    ones store the same value."""
    values = KEPT_TYPES | OTHER_TYPES
    sources = {name: spark.sql(f"SELECT {v} AS c").schema[0].dataType for name, v in values.items()}
    targets = {name: schema_of(spark, f"c {name}")[0].type for name in KEPT_TYPES}
    state: Any = spark._jsparkSession.sessionState()
    modes: Any = getattr(spark._jvm, "org.apache.spark.sql.execution.CommandExecutionMode$")

    def analyse(value: str) -> None:
        plan = state.sqlParser().parsePlan(f"INSERT INTO dml_pair SELECT {value}")
        state.executePlan(plan, getattr(modes, "MODULE$").SKIP()).assertAnalyzed()

    accepted = []
    for target, target_type in targets.items():
        spark.sql("DROP TABLE IF EXISTS dml_pair")
        spark.sql(f"CREATE TABLE dml_pair (c {target}) USING parquet")
        for source, source_type in sources.items():
            if not telling(source, target):
                continue
            try:
                assigned("c", source_type, Field("c", target_type), "t", by_name=False)
            except IncrementalError:
                with pytest.raises(AnalysisException):
                    analyse(values[source])
                continue
            if source == "TIME":  # it gets the current date
                analyse(values[source])
            else:
                accepted.append((source, target))
    spark.sql("DROP TABLE dml_pair")

    ddl = ", ".join(f"c{i} {target}" for i, (_, target) in enumerate(accepted))
    query = "SELECT " + ", ".join(values[source] for source, _ in accepted)
    spark.sql(f"CREATE TABLE dml_wide ({ddl}) USING parquet")
    spark.sql(f"INSERT INTO dml_wide {query}")
    expected = spark.table("dml_wide").toArrow().to_pylist()
    spark.sql("DROP TABLE dml_wide")
    spark.createDataFrame([], ddl).createOrReplaceTempView("t")
    table = Table(spark, Target("t", schema_of(spark, ddl), (), frozenset()))
    assert table.change(f"INSERT INTO t {query}").insert.to_pylist() == expected
    assert len(accepted) > 150


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("c TINYINT", "200"),
        ("c INT", "30000000000"),
        ("c BIGINT", "1e30D"),
        ("c DECIMAL(3,1)", "99.96"),
        ("c DECIMAL(3,1)", "CAST('Infinity' AS FLOAT)"),
        ("c ARRAY<INT>", "array(1L, 30000000000)"),
        ("c MAP<STRING, TINYINT>", "map('a', 128)"),
        (
            "c STRUCT<f: ARRAY<STRUCT<g: INT>>>",
            "named_struct('f', array(named_struct('g', 1e10D)))",
        ),
    ],
)
def test_a_number_that_does_not_fit_is_refused_whatever_the_session_casts(
    given_table: Given, spark: SparkSession, ddl: str, value: str, ansi: str
) -> None:
    table = given_table(ddl)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        assert table.fails(f"INSERT INTO t SELECT {value}") == "CAST_OVERFLOW_IN_TABLE_INSERT"
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")


def test_insert_overwrite_takes_all_old_rows_away(orders: Table) -> None:
    change = orders.change("INSERT OVERWRITE TABLE t SELECT id + 1, name, x FROM t WHERE id < 3")
    assert bag(change.delete) == bag_of(
        (1, "a", 1.5), (2, "b", None), (2, "b", None), (3, None, float("nan"))
    )
    assert bag(change.insert) == bag_of((2, "a", 1.5), (3, "b", None), (3, "b", None))
    assert change.counts["num_affected_rows"] == 3


def test_arrow_has_the_types_of_the_table_in_any_time_zone(
    given_table: Given, spark: SparkSession
) -> None:
    ddl = (
        "ts TIMESTAMP, n TIMESTAMP_NTZ, s STRUCT<ts: TIMESTAMP>, m MAP<STRING, TIMESTAMP>, b BINARY"
    )
    table = given_table(ddl)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        text = "TIMESTAMP'2020-01-01 00:00:00'"
        change = table.change(
            f"INSERT INTO t SELECT {text}, {text}, named_struct('ts', {text}), map('a', {text}), X'00'"
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    (row,) = change.insert.to_pylist()
    assert (
        str(row["ts"]) == str(row["s"]["ts"]) == str(row["m"][0][1]) == "2020-01-01 05:00:00+00:00"
    )
    assert str(row["n"]) == "2020-01-01 00:00:00"


def test_null_is_refused_where_the_table_forbids_it(given_table: Given) -> None:
    table = given_table("id INT, x INT", (1, 1), not_null=["X"], key=["ID"])
    assert table.fails("INSERT INTO t (x) VALUES (1)") == "INCR_NULL_KEY"
    assert table.fails("INSERT INTO t (id) VALUES (1)") == "INCR_NOT_NULL"
    assert table.fails("UPDATE t SET x = NULL") == "INCR_NOT_NULL"
    assert table.change("UPDATE t SET x = NULL WHERE id = 2").insert.num_rows == 0
    merge = (
        "MERGE INTO t USING (SELECT 2 AS i) ON id = i WHEN NOT MATCHED THEN INSERT (id) VALUES (i)"
    )
    assert table.fails(merge) == "INCR_NOT_NULL"
