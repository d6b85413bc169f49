"""DML as row changes. INSERT is held against the same INSERT into a real parquet table; UPDATE,
DELETE and MERGE, which parquet tables do not know, against cases by hand and a small model."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from spark_incr.errors import IncrementalError
from spark_incr.plan.types import Field, Schema, arrow_schema
from spark_incr.sources.assignment import assigned
from spark_incr.sources.dml import RowChange, Target, change_of, target_of

Row = tuple[Any, ...]


def schema_of(spark: SparkSession, ddl: str) -> Schema:
    fields = spark.createDataFrame([], ddl).schema.fields
    return tuple(Field(field.name, field.dataType) for field in fields)


def bag(rows: pa.Table) -> Counter[str]:
    """Rows as a bag; their texts, since NaN is not equal to itself."""
    return Counter(repr(tuple(row.values())) for row in rows.to_pylist())


def bag_of(*rows: Row) -> Counter[str]:
    return Counter(map(repr, rows))


def condition_of(failure: Exception) -> str:
    """Spark's name of a failure, also where it is the reason of one of ours."""
    if isinstance(failure, PySparkException):
        return failure.getCondition() or ""
    assert isinstance(failure, IncrementalError)
    if failure.condition == "INCR_SCHEMA_MISMATCH":
        return failure.message.split("[")[1].split("]")[0]
    return failure.condition


@dataclass(frozen=True)
class Table:
    """A table in a session, and what DML does to it."""

    spark: SparkSession
    target: Target

    def change(self, text: str, args: Any = None) -> RowChange:
        change = change_of(self.spark, text, self.target, args)
        for side in (change.insert, change.delete):
            assert side.schema == arrow_schema(self.target.schema)
        return change

    def fails(self, text: str, args: Any = None) -> str:
        with pytest.raises((IncrementalError, PySparkException)) as caught:
            self.change(text, args)
        return condition_of(caught.value)


Given = Callable[..., Table]


@pytest.fixture
def given_table(spark: SparkSession) -> Iterator[Given]:
    """Makes `t` a table with these columns and rows."""

    def make(ddl: str, *rows: Row, not_null: Sequence[str] = (), key: Sequence[str] = ()) -> Table:
        spark.createDataFrame(list(rows), ddl).createOrReplaceTempView("t")
        target = Target("t", schema_of(spark, ddl), tuple(key), frozenset(not_null))
        return Table(spark, target)

    yield make
    spark.catalog.dropTempView("t")


@pytest.fixture
def orders(given_table: Given) -> Table:
    return given_table(
        "id INT, name STRING, x DOUBLE",
        (1, "a", 1.5),
        (2, "b", None),
        (2, "b", None),
        (3, None, float("nan")),
    )


# Which table


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("INSERT INTO t VALUES (1)", "t"),
        ("insert into table Shop.Orders select 1", "Shop.Orders"),
        ("-- dbt\n/* a /* nested */ one */ INSERT OVERWRITE `my table` SELECT 1", "my table"),
        ("INSERT INTO IDENTIFIER('a.b') SELECT 1", "a.b"),
        ("INSERT INTO t BY NAME SELECT 1 AS a", "t"),
        ("WITH q AS (SELECT ')' AS a), r (b) AS (SELECT 2) INSERT INTO t SELECT * FROM q", "t"),
        ("FROM u INSERT INTO t SELECT *", "t"),
        ("UPDATE t AS a SET x = 1", "t"),
        ("DELETE FROM db.t", "db.t"),
        ("MERGE INTO t USING s ON TRUE WHEN MATCHED THEN DELETE", "t"),
        ("MERGE WITH SCHEMA EVOLUTION INTO t USING s ON TRUE WHEN MATCHED THEN DELETE", "t"),
        ("TRUNCATE TABLE t;", "t"),
        ("LOAD DATA LOCAL INPATH 'x' OVERWRITE INTO TABLE t", "t"),
        ("INSERT INTO t VALUES ('" + "it''s " * 1000 + "')", "t"),
        (
            "INSERT INTO long.name VALUES " + ", ".join("('--', 1)" for _ in range(2000)),
            "long.name",
        ),
        ("SELECT 'INSERT INTO t'", None),
        ("WITH q AS (SELECT 1) SELECT * FROM q", None),
        ("FROM u SELECT *", None),
        ("EXPLAIN INSERT INTO t VALUES (1)", None),
        ("INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT 1", None),
        ("INSERT INTO", None),
        ("INSERT INTO `t", None),
        ("", None),
    ],
)
def test_target_of_names_the_table_of_a_change(text: str, name: str | None) -> None:
    assert target_of(text) == name


WORDS = [
    "INSERT",
    "INTO",
    "WITH",
    "FROM",
    "UPDATE",
    "DELETE",
    "MERGE",
    "TRUNCATE",
    "TABLE",
    "LOAD",
    "IDENTIFIER",
    "AS",
    "t",
    "(",
    ")",
    "'",
    "`",
    ".",
    ",",
    ";",
    "*",
    "/*",
    "*/",
    "--",
]


@given(st.text() | st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_target_of_never_fails(text: str) -> None:
    name = target_of(text)
    assert name is None or name


# INSERT, with parquet as the oracle

INSERT_DDL = "a INT, b STRING, d DECIMAL(5,2), s STRUCT<x: INT, y: STRING>, `odd name` BIGINT"


@pytest.fixture(scope="module")
def parquet_insert(spark: SparkSession) -> Iterator[Callable[[str], list[Row] | str]]:
    """The rows of a parquet table after an INSERT into it, or the name of the failure."""
    spark.sql("CREATE DATABASE IF NOT EXISTS dml_oracle")

    def run(text: str) -> list[Row] | str:
        spark.sql("DROP TABLE IF EXISTS dml_oracle.t")
        spark.sql(f"CREATE TABLE dml_oracle.t ({INSERT_DDL}) USING parquet")
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
    table = given_table(INSERT_DDL)
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
    accepted = []
    for target, target_type in targets.items():
        spark.sql("DROP TABLE IF EXISTS dml_pair")
        spark.sql(f"CREATE TABLE dml_pair (c {target}) USING parquet")
        for source, source_type in sources.items():
            if not telling(source, target):
                continue
            query = f"INSERT INTO dml_pair SELECT {values[source]} AS c"
            plan = state.sqlParser().parsePlan(query)
            try:
                state.executePlan(plan, getattr(modes, "MODULE$").SKIP()).assertAnalyzed()
                spark_takes = True
            except AnalysisException:
                spark_takes = False
            try:
                assigned("c", source_type, Field("c", target_type), "t", by_name=False)
                taken = True
            except IncrementalError:
                taken = False
            assert taken == spark_takes, (source, target)
            if taken and source != "TIME":  # a time gets the current date
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


# UPDATE, DELETE, TRUNCATE


def test_update_moves_rows_and_leaves_out_what_stays(orders: Table) -> None:
    change = orders.change("UPDATE t AS o SET o.NAME = 'b', x = o.x WHERE o.id <= 2 -- all b")
    assert bag(change.delete) == bag_of((1, "a", 1.5))
    assert bag(change.insert) == bag_of((1, "b", 1.5))
    assert change.counts == {"num_affected_rows": 3}


def test_update_sees_old_values_on_every_right_side(given_table: Given) -> None:
    table = given_table("a INT, b INT", (1, 2))
    assert bag(table.change("UPDATE t SET a = b, b = a").insert) == bag_of((2, 1))
    assert bag(table.change("UPDATE t SET t.a = DEFAULT").insert) == bag_of((None, 2))
    text = "UPDATE t SET a = CASE WHEN a = 1 THEN CASE b WHEN 2 THEN 7 END END, b = (b, 3).col2"
    assert bag(table.change(text).insert) == bag_of((7, 3))


@pytest.mark.parametrize("where", ["NULL", "FALSE", "(1 = 2)", "name > NULL", "id IN (SELECT 5)"])
def test_rows_whose_condition_is_not_true_are_untouched(orders: Table, where: str) -> None:
    for text in (f"UPDATE t SET x = 0 WHERE {where}", f"DELETE FROM t WHERE {where}"):
        change = orders.change(text)
        assert (change.insert.num_rows, change.delete.num_rows) == (0, 0)
        assert change.counts == {"num_affected_rows": 0}


def test_delete_and_truncate(orders: Table) -> None:
    every = bag_of((1, "a", 1.5), (2, "b", None), (2, "b", None), (3, None, float("nan")))
    twos = bag_of((2, "b", None), (2, "b", None))
    assert bag(orders.change("DELETE FROM t").delete) == every
    assert bag(orders.change("TRUNCATE TABLE t").delete) == every
    assert bag(orders.change("DELETE FROM t WHERE id = 2").delete) == twos
    correlated = "DELETE FROM t o WHERE 1 < (SELECT count(*) FROM t WHERE t.id = o.id)"
    assert bag(orders.change(correlated).delete) == twos
    context = (
        "WITH q AS (SELECT max(id) - 1 AS k FROM t) DELETE FROM t WHERE id IN (SELECT k FROM q)"
    )
    change = orders.change(context)
    assert bag(change.delete) == twos
    assert change.insert.num_rows == 0
    assert change.counts == {"num_affected_rows": 2}


def test_a_value_is_the_same_only_if_a_reader_cannot_tell(given_table: Given) -> None:
    ddl = "f DOUBLE, m MAP<STRING, FLOAT>, a ARRAY<STRUCT<m: MAP<INT, INT>>>"
    zero = (0.0, {"k": 0.0}, [({1: 1},), None])
    nan = (float("nan"), None, None)
    table = given_table(ddl, zero, nan)
    assert table.change("UPDATE t SET f = f, m = m, a = a").insert.num_rows == 0
    assert table.change("UPDATE t SET f = CAST('NaN' AS DOUBLE) WHERE f > 1").insert.num_rows == 0
    assert table.change("UPDATE t SET f = -0.0D").insert.num_rows == 2
    assert table.change("UPDATE t SET m = map('k', -0.0F) WHERE f = 0").insert.num_rows == 1
    changed = table.change("UPDATE t SET a = array(named_struct('m', map(1, 2)), NULL) WHERE f = 0")
    assert changed.insert.num_rows == 1


def test_volatile_values_are_evaluated_once(given_table: Given) -> None:
    table = given_table("id BIGINT, a DOUBLE, b INT", *((i, 0.0, 0) for i in range(50)))
    merge = (
        "MERGE INTO t USING (SELECT id AS i, rand() AS r FROM range(100)) AS s ON id = i"
        " WHEN MATCHED THEN UPDATE SET a = r, b = r * 1000000"
        " WHEN NOT MATCHED THEN INSERT (id, a, b) VALUES (i, r, r * 1000000)"
    )
    for row in table.change(merge).insert.to_pylist():
        assert int(row["a"] * 1000000) == row["b"]
    update = table.change("UPDATE t SET b = rand() * 1000000000, a = rand()")
    assert len(set(update.insert.column("b").to_pylist())) == update.insert.num_rows == 50


def test_structs_are_updated_by_name(given_table: Given) -> None:
    table = given_table("s STRUCT<x: INT, y: STRING>", ((1, "a"),))
    change = table.change("UPDATE t SET s = named_struct('Y', 'b', 'x', 2L)")
    assert change.insert.to_pylist() == [{"s": {"x": 2, "y": "b"}}]
    missing = "UPDATE t SET s = named_struct('x', 2)"
    assert table.fails(missing) == "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA"


# MERGE


def test_merge_acts_by_the_first_clause_that_holds(orders: Table) -> None:
    text = """
        MERGE INTO t AS o
        USING (SELECT * FROM VALUES (1, 'one'), (2, 'two'), (7, 'seven'), (8, NULL) AS v(id, name)) s
        ON o.id = s.id
        WHEN MATCHED AND CASE WHEN s.name = 'one' THEN TRUE END THEN UPDATE SET name = s.name, x = o.x + 1
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED BY TARGET AND name IS NULL THEN INSERT (x, id) VALUES (DEFAULT, id)
        WHEN NOT MATCHED AND id = 8 THEN INSERT (id) VALUES (1 / 0)
        WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id * 10, name)
        WHEN NOT MATCHED BY SOURCE AND id = 4 THEN DELETE
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET o.name = 'left'
    """
    change = orders.change(text)
    assert bag(change.delete) == bag_of(
        (1, "a", 1.5), (2, "b", None), (2, "b", None), (3, None, float("nan"))
    )
    assert bag(change.insert) == bag_of(
        (1, "one", 2.5), (8, None, None), (70, "seven", None), (3, "left", float("nan"))
    )
    assert change.counts == {
        "num_affected_rows": 6,
        "num_updated_rows": 2,
        "num_deleted_rows": 2,
        "num_inserted_rows": 2,
    }


def test_merge_with_stars_takes_columns_by_name(orders: Table, spark: SparkSession) -> None:
    spark.sql("SELECT 5 AS extra, 9L AS X, 'n' AS name, 1 AS id").createOrReplaceTempView("src")
    text = (
        "MERGE INTO t USING src ON t.id = src.id + {} WHEN MATCHED THEN UPDATE SET *"
        " WHEN NOT MATCHED THEN INSERT *"
    )
    matched, unmatched = orders.change(text.format(0)), orders.change(text.format(9))
    assert bag(matched.insert) == bag(unmatched.insert) == bag_of((1, "n", 9.0))
    assert bag(matched.delete) == bag_of((1, "a", 1.5))
    assert unmatched.delete.num_rows == 0
    spark.sql("SELECT 1 AS id").createOrReplaceTempView("src")
    assert orders.fails(text.format(0)).startswith("UNRESOLVED_COLUMN")


def test_merge_names_mean_what_their_clause_sees(orders: Table) -> None:
    both = "MERGE INTO t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN "
    assert orders.fails(both + "MATCHED THEN UPDATE SET x = id") == "AMBIGUOUS_REFERENCE"
    assert orders.change(both + "NOT MATCHED THEN INSERT (id) VALUES (id)").insert.num_rows == 0
    other = both + "NOT MATCHED THEN INSERT (id) VALUES (t.id)"
    assert orders.fails(other).startswith("UNRESOLVED_COLUMN")
    by_source = orders.change(both + "NOT MATCHED BY SOURCE AND id = 3 THEN DELETE")
    assert bag(by_source.delete) == bag_of((3, None, float("nan")))
    assert orders.fails(both + "NOT MATCHED BY SOURCE AND s.id = 3 THEN DELETE").startswith(
        "UNRESOLVED_COLUMN"
    )


def test_merge_refuses_several_actions_on_one_row(orders: Table) -> None:
    source = "MERGE INTO t USING (SELECT explode(array(2, 2)) AS i) ON id = i "
    refused = [
        "WHEN MATCHED THEN UPDATE SET x = 1",
        "WHEN MATCHED AND i = 2 THEN DELETE",
        "WHEN MATCHED AND name = 'c' THEN UPDATE SET x = 1 WHEN MATCHED THEN DELETE",
    ]
    for clauses in refused:
        assert orders.fails(source + clauses) == "INCR_MERGE_CARDINALITY"
    change = orders.change(
        source + "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert change.counts["num_deleted_rows"] == change.delete.num_rows == 4
    assert orders.change(source + "WHEN MATCHED AND i = 3 THEN DELETE").delete.num_rows == 0
    assert orders.change(source + "WHEN NOT MATCHED BY SOURCE THEN DELETE").delete.num_rows == 2


def test_merge_may_read_its_own_target(orders: Table) -> None:
    text = "MERGE INTO t USING t AS s ON t.id = s.id + 1 AND s.id = {} WHEN MATCHED THEN UPDATE SET x = s.id"
    change = orders.change(text.format(1))
    assert bag(change.insert) == bag_of((2, "b", 1.0), (2, "b", 1.0))
    assert orders.fails(text.format(2)) == "INCR_MERGE_CARDINALITY"


def test_merge_leaves_out_rows_that_stay(orders: Table) -> None:
    change = orders.change(
        "MERGE INTO t USING (SELECT 2 AS i) ON id >= i WHEN MATCHED THEN UPDATE SET name = 'b'"
    )
    assert bag(change.delete) == bag_of((3, None, float("nan")))
    assert bag(change.insert) == bag_of((3, "b", float("nan")))
    assert change.counts["num_updated_rows"] == 3


# A model of UPDATE, DELETE and MERGE on t (k INT, v INT) with a source s (k INT, v INT)

Value = int | None
Pair = tuple[Value, Value]
NOTHING: Pair = (None, None)


@dataclass(frozen=True)
class Term:
    """SQL over `t` and `s`, and what it means."""

    sql: str
    of: Callable[[Pair, Pair], Any]


def lifted(function: Callable[[int, int], Any]) -> Callable[[Value, Value], Any]:
    return lambda a, b: None if a is None or b is None else function(a, b)


less, equal, plus = (lifted(f) for f in (operator.lt, operator.eq, operator.add))
ALWAYS = Term("TRUE", lambda t, s: True)
OF_TARGET = [
    ALWAYS,
    Term("t.v > 1", lambda t, s: less(1, t[1])),
    Term("t.v IS NULL", lambda t, s: t[1] is None),
    Term("NOT t.k < 2", lambda t, s: lifted(operator.ge)(t[0], 2)),
]
OF_SOURCE = [
    ALWAYS,
    Term("s.v > 1", lambda t, s: less(1, s[1])),
    Term("s.k IS NOT NULL", lambda t, s: s[0] is not None),
]
OF_BOTH = [*OF_TARGET, *OF_SOURCE, Term("t.v < s.v", lambda t, s: less(t[1], s[1]))]
JOINS = [
    Term("t.k = s.k", lambda t, s: equal(t[0], s[0])),
    Term("t.k <=> s.k", lambda t, s: t[0] == s[0]),
    Term("t.k < s.k", lambda t, s: less(t[0], s[0])),
]
CONSTANTS = [Term("NULL", lambda t, s: None), Term("7", lambda t, s: 7)]
TARGET_VALUES = [
    *CONSTANTS,
    Term("t.v", lambda t, s: t[1]),
    Term("t.k + 1", lambda t, s: plus(t[0], 1)),
]
SOURCE_VALUES = [
    *CONSTANTS,
    Term("s.v", lambda t, s: s[1]),
    Term("s.k + 1", lambda t, s: plus(s[0], 1)),
]
BOTH_VALUES = [*TARGET_VALUES, *SOURCE_VALUES, Term("t.v + s.v", lambda t, s: plus(t[1], s[1]))]

ROWS = st.lists(st.tuples(*[st.sampled_from([None, 1, 2, 3])] * 2), max_size=5)


@dataclass(frozen=True)
class When:
    """A clause of MERGE; `values` are those of k and v, None for DELETE."""

    condition: Term
    values: tuple[Term, Term] | None


def whens(conditions: list[Term], values: list[Term], *, deletes: bool) -> st.SearchStrategy[Any]:
    pair = st.tuples(st.sampled_from(values), st.sampled_from(values))
    action = st.none() | pair if deletes else pair
    return st.lists(st.builds(When, st.sampled_from(conditions), action), max_size=2)


def changed(pairs: list[tuple[Pair | None, Pair | None]]) -> tuple[Counter[str], Counter[str]]:
    """The rows to insert and to delete for pairs of an old and a new row."""
    moved = [(old, new) for old, new in pairs if old != new]
    return (
        bag_of(*(new for _, new in moved if new is not None)),
        bag_of(*(old for old, _ in moved if old is not None)),
    )


def expected_merge(
    target: list[Pair], source: list[Pair], on: Term, matched: list[When], missing: list[When],
    orphaned: list[When],
) -> list[tuple[Pair | None, Pair | None]] | None:  # fmt: skip
    """Old and new rows of all actions, None for a row with several of them."""

    def acted(clauses: list[When], t: Pair, s: Pair) -> tuple[bool, Pair | None]:
        for clause in clauses:
            if clause.condition.of(t, s) is True:
                made = clause.values and tuple(value.of(t, s) for value in clause.values)
                return True, made
        return False, None

    pairs: list[tuple[Pair | None, Pair | None]] = []
    single = len(matched) == 1 and matched[0] == When(ALWAYS, None)
    for t in target:
        partners = [s for s in source if on.of(t, s) is True]
        clauses = matched if partners else orphaned
        actions = [acted(clauses, t, s) for s in partners or [NOTHING]]
        made = [row for acts, row in actions if acts]
        if len(made) > 1 and not single:
            return None
        pairs += [(t, row) for row in made[:1]]
    for s in source:
        if not any(on.of(t, s) is True for t in target):
            acts, row = acted(missing, NOTHING, s)
            pairs += [(None, row)] if acts else []
    return pairs


def clause_sql(head: str, clause: When, *, insert: bool) -> str:
    condition = "" if clause.condition is ALWAYS else f" AND {clause.condition.sql}"
    if clause.values is None:
        action = "DELETE"
    else:
        k, v = (value.sql for value in clause.values)
        action = f"INSERT (k, v) VALUES ({k}, {v})" if insert else f"UPDATE SET k = {k}, t.v = {v}"
    return f" WHEN {head}{condition} THEN {action}"


@settings(max_examples=25)
@given(
    target=ROWS,
    source=ROWS,
    on=st.sampled_from(JOINS),
    matched=whens(OF_BOTH, BOTH_VALUES, deletes=True),
    missing=whens(OF_SOURCE, SOURCE_VALUES, deletes=False),
    orphaned=whens(OF_TARGET, TARGET_VALUES, deletes=True),
)
def test_merge_equals_the_model(
    spark: SparkSession,
    target: list[Pair],
    source: list[Pair],
    on: Term,
    matched: list[When],
    missing: list[When],
    orphaned: list[When],
) -> None:
    # Only the last clause of a kind may go without a condition.
    groups = [("MATCHED", matched), ("NOT MATCHED", missing), ("NOT MATCHED BY SOURCE", orphaned)]
    assume(matched or missing or orphaned)
    assume(all(clause.condition is not ALWAYS for _, group in groups for clause in group[:-1]))
    table = pairs_table(spark, target)
    spark.createDataFrame(source, "k INT, v INT").createOrReplaceTempView("s")
    text = f"MERGE INTO t USING s ON {on.sql}" + "".join(
        clause_sql(head, clause, insert=head == "NOT MATCHED")
        for head, group in groups
        for clause in group
    )
    pairs = expected_merge(target, source, on, matched, missing, orphaned)
    if pairs is None:
        assert table.fails(text) == "INCR_MERGE_CARDINALITY"
        return
    change = table.change(text)
    assert (bag(change.insert), bag(change.delete)) == changed(pairs)
    assert change.counts == {
        "num_affected_rows": len(pairs),
        "num_updated_rows": sum(old is not None and new is not None for old, new in pairs),
        "num_deleted_rows": sum(new is None for _, new in pairs),
        "num_inserted_rows": sum(old is None for old, _ in pairs),
    }


def pairs_table(spark: SparkSession, rows: list[Pair]) -> Table:
    spark.createDataFrame(rows, "k INT, v INT").createOrReplaceTempView("t")
    return Table(spark, Target("t", schema_of(spark, "k INT, v INT"), (), frozenset()))


@settings(max_examples=15)
@given(
    target=ROWS,
    where=st.sampled_from(OF_TARGET),
    k=st.sampled_from(TARGET_VALUES),
    v=st.sampled_from(TARGET_VALUES),
)
def test_update_and_delete_equal_the_model(
    spark: SparkSession, target: list[Pair], where: Term, k: Term, v: Term
) -> None:
    table = pairs_table(spark, target)
    hit = [t for t in target if where.of(t, NOTHING) is True]
    update = table.change(f"UPDATE t SET v = {v.sql}, k = {k.sql} WHERE {where.sql}")
    new = [(k.of(t, NOTHING), v.of(t, NOTHING)) for t in hit]
    assert (bag(update.insert), bag(update.delete)) == changed(list(zip(hit, new, strict=True)))
    delete = table.change(f"DELETE FROM t WHERE {where.sql}")
    assert (bag(delete.insert), bag(delete.delete)) == (bag_of(), bag_of(*hit))
    assert update.counts == delete.counts == {"num_affected_rows": len(hit)}


# Names, parameters, refusals


def test_names_may_hold_anything(given_table: Given, spark: SparkSession) -> None:
    table = given_table("`größe m.` INT, `a``b` INT, `select` INT", (1, 2, 3))
    spark.table("t").createOrReplaceTempView("`my 😀 table`")
    table = replace(table, target=replace(table.target, name="my 😀 table"))
    change = table.change(
        "UPDATE `my 😀 table` SET `A``B` = `größe m.` + 1, `my 😀 table`.`select` = `a``b` /* 😀 */ * 10"
    )
    assert bag(change.insert) == bag_of((1, 2, 20))
    merge = (
        "MERGE INTO `MY 😀 table` AS `t 1` USING (SELECT 1 AS `ü ü`) AS `s.1` ON `größe m.` = `ü ü`"
        " WHEN MATCHED THEN UPDATE SET `t 1`.`a``b` = `s.1`.`ü ü` WHEN NOT MATCHED THEN"
        " INSERT (`select`) VALUES (`ü ü`)"
    )
    assert bag(table.change(merge).insert) == bag_of((1, 1, 3))
    assert bag(table.change("DELETE FROM `my 😀 table` WHERE `select` = 3").delete) == bag_of(
        (1, 2, 3)
    )


def test_a_qualified_name_reads_the_view_of_the_target(orders: Table) -> None:
    change = orders.change("UPDATE cat.db.t SET db.t.x = t.id WHERE t.id = 1")
    assert bag(change.insert) == bag_of((1, "a", 1.0))
    merge = (
        "MERGE INTO db.t USING (SELECT 1 AS i) ON t.id = i WHEN MATCHED THEN UPDATE SET db.t.x = 7"
    )
    assert bag(orders.change(merge).insert) == bag_of((1, "a", 7.0))


def test_parameters_reach_every_part(orders: Table) -> None:
    named = orders.change("UPDATE t SET name = :n WHERE id = :i", {"n": "z", "i": 1, "unused": 0})
    assert bag(named.insert) == bag_of((1, "z", 1.5))
    assert bag(orders.change("UPDATE t SET name = ? WHERE id = ?", ["z", 1]).insert) == bag_of(
        (1, "z", 1.5)
    )
    merge = (
        "MERGE INTO t USING (SELECT ? AS i) ON id = i AND id <> ?"
        " WHEN MATCHED THEN UPDATE SET name = ?"
        " WHEN NOT MATCHED BY SOURCE AND id = ? THEN DELETE"
        " WHEN NOT MATCHED BY SOURCE AND id = ? THEN UPDATE SET x = ?"
    )
    change = orders.change(merge, [2, 99, "q?", 3, 1, 0.5])
    assert bag(change.insert) == bag_of((2, "q?", None), (2, "q?", None), (1, "a", 0.5))
    assert bag(orders.change("INSERT INTO t VALUES (?, '?', ?)", [5, 1]).insert) == bag_of(
        (5, "?", 1.0)
    )
    assert orders.fails("DELETE FROM t WHERE id = :i", {"j": 1}) == "UNBOUND_SQL_PARAMETER"


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("INSERT INTO t PARTITION (id = 1) SELECT 'a', 2", 1, 15),
        ("INSERT INTO t\n REPLACE WHERE id = 1 SELECT 1, 'a', 2", 2, 2),
        ("INSERT INTO t REPLACE USING (id) SELECT 1, 'a', 2", 1, 15),
        ("INSERT INTO t AS q REPLACE ON q.id = 1 SELECT 1, 'a', 2", 1, 15),
        ("INSERT INTO t WITH ('a' = 'b') SELECT 1, 'a', 2", 1, 15),
        ("INSERT WITH SCHEMA EVOLUTION INTO t SELECT 1", 1, 1),
        ("FROM t INSERT INTO t SELECT * INSERT INTO t SELECT *", 1, 31),
        ("TRUNCATE TABLE t PARTITION (id = 1)", 1, 18),
        ("LOAD DATA INPATH 'x' INTO TABLE t", 1, 1),
        ("MERGE WITH SCHEMA EVOLUTION INTO t USING t AS s ON TRUE WHEN MATCHED THEN DELETE", 1, 1),
        (
            "MERGE INTO t USING t s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = hash(s.*)",
            1,
            82,
        ),
    ],
)
def test_other_forms_are_refused_by_name_and_place(
    orders: Table, text: str, line: int, column: int
) -> None:
    with pytest.raises(IncrementalError) as caught:
        orders.change(text)
    assert caught.value.condition == "INCR_UNSUPPORTED"
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column) == (line, column)


def test_wrong_assignments_are_refused(given_table: Given) -> None:
    table = given_table("id INT, s STRUCT<f: INT>", (1, (2,)))
    assert table.fails("UPDATE t SET id = 1, ID = 2") == "INCR_DUPLICATE_COLUMN"
    assert table.fails("INSERT INTO t (id, Id) VALUES (1, 2)") == "INCR_DUPLICATE_COLUMN"
    assert table.fails("UPDATE t SET s.f = 1") == "INCR_UNSUPPORTED"
    assert table.fails("UPDATE t AS a SET t.id = 1") == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert table.fails("UPDATE t SET nothing = 1") == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert table.fails("UPDATE t SET id = '1'").endswith("CANNOT_SAFELY_CAST")
    assert table.fails("UPDATE t SET id = explode(array(1, 2))").startswith("UNSUPPORTED_GENERATOR")
    assert table.fails("UPDATE t SET id = 1 / 0") == "DIVIDE_BY_ZERO"
    merge = "MERGE INTO t USING (SELECT 1 AS i) ON id = i WHEN NOT MATCHED THEN INSERT (id) VALUES "
    assert table.fails(merge + "(1, 2)") == "MERGE_INSERT_VALUE_COUNT_MISMATCH"


def test_syntax_errors_are_those_of_spark(orders: Table) -> None:
    for text in ("UPDATE t SET x = 1 garbage", "DELETE t", "MERGE INTO t USING t ON TRUE"):
        with pytest.raises(ParseException):
            orders.change(text)
