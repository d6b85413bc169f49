"""A Python session that knows incremental relations: what is listed, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import spark_incr
from spark_incr.errors import IncrementalError


@pytest.fixture(scope="module")
def session(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    enabled = spark_incr.enable(spark.newSession(), tmp_path_factory.mktemp("session") / "state")
    # Spark decodes the tables that it lists by generated code alone.
    enabled.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    enabled.sql("CREATE INCREMENTAL TABLE t (id BIGINT, name STRING, PRIMARY KEY (id))")
    enabled.sql("CREATE INCREMENTAL VIEW v AS SELECT count(*) AS n FROM t")
    yield enabled
    spark_incr.disable(enabled)


def test_relations_that_nobody_has_read_are_listed(session: SparkSession) -> None:
    assert [row.tableName for row in session.sql("SHOW TABLES").collect()] == ["t", "v"]
    assert [table.name for table in session.catalog.listTables()] == ["t", "v"]
    assert session.catalog.tableExists("v")
    assert [row.col_name for row in session.sql("DESCRIBE t").collect()] == ["id", "name"]
    assert [column.name for column in session.catalog.listColumns("v")] == ["n"]
    session.sql("INSERT INTO t VALUES (1, 'a')")
    session.catalog.cacheTable("v")
    assert session.table("v").collect() == [(1,)]
    session.sql("DELETE FROM t")
    assert session.table("v").collect() == [(0,)]
    session.catalog.uncacheTable("v")


def test_what_was_listed_and_not_read_fails_when_it_is_read_past_the_session(
    session: SparkSession,
) -> None:
    session.sql("CREATE INCREMENTAL TABLE unread (x BIGINT, s STRUCT<`a b`: INT>)")
    session.sql("SHOW TABLES")
    for query in ("SELECT count(*) FROM unread", "SELECT 1 FROM unread WHERE x IS NOT NULL"):
        with pytest.raises(Exception, match="unread was read past the session"):
            session._jsparkSession.sql(query).collectToPython()
    assert session.sql("SELECT x FROM unread").collect() == []
    session.sql("DROP INCREMENTAL TABLE unread")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("CREATE INCREMENTAL TABLE shop.t (id BIGINT)", "shop.t cannot be used here"),
        ("CREATE INCREMENTAL VIEW default.w AS SELECT 1 AS a", "default.w cannot be used here"),
        ("DROP TABLE IF EXISTS t", "DROP INCREMENTAL TABLE is the statement for it"),
        ("DROP VIEW v", "DROP INCREMENTAL VIEW is the statement for it"),
        ("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1", "v is an incremental view"),
        ("ALTER VIEW v AS SELECT 1", "v is an incremental view"),
        ("DELETE FROM v", "v is an incremental view, a statement that changes rows does not apply"),
        (
            "ALTER INCREMENTAL VIEW v RENAME TO w",
            "v is an incremental view, RENAME TO does not apply",
        ),
    ],
)
def test_what_is_refused(session: SparkSession, statement: str, expected: str) -> None:
    version = spark_incr.engine(session).version
    with pytest.raises(IncrementalError, match="INCR_") as found:
        session.sql(statement)
    assert expected in str(found.value)
    assert spark_incr.engine(session).version == version


def test_frames_are_not_written_under_the_name_of_a_relation(session: SparkSession) -> None:
    frame = session.createDataFrame([(9, "lost")], "id long, name string")
    before = session.table("t").collect()
    for name in ("t", "`v`"):
        for write in (
            lambda name: frame.write.mode("overwrite").saveAsTable(name),
            lambda name: frame.write.insertInto(name),
            lambda name: frame.writeTo(name).createOrReplace(),
            lambda name: frame.mergeInto(name, frame.id == 1),
            lambda name: frame.createOrReplaceTempView(name),
            lambda name: session.catalog.dropTempView(name),
        ):
            with pytest.raises(IncrementalError, match="INCR_NOT_APPLICABLE") as found:
                write(name)
            assert found.value.getSqlState() == "42809"
    assert session.table("t").collect() == before
    frame.createOrReplaceTempView("rows")
    session.sql("INSERT INTO t SELECT * FROM rows")
    assert session.table("t").where("id = 9").collect() == [(9, "lost")]
    session.sql("DELETE FROM t WHERE id = 9")
    session.catalog.dropTempView("rows")


def test_replacing_a_view_that_others_read(session: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL VIEW base AS SELECT id, name FROM t")
    session.sql("CREATE INCREMENTAL VIEW above AS SELECT max(id) AS most FROM base")
    session.sql("CREATE INCREMENTAL VIEW top AS SELECT most + 1 AS more FROM above")
    session.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    session.sql("CREATE INCREMENTAL VIEW later AS SELECT 'b' AS hidden")
    session.sql(
        "CREATE OR REPLACE INCREMENTAL VIEW base AS"
        " SELECT id, name FROM t WHERE name NOT IN (SELECT hidden FROM later)"
    )
    assert session.sql("SELECT * FROM top").collect() == [(2,)]
    session.sql("INSERT INTO t VALUES (3, 'c')")
    assert session.sql("SELECT * FROM top").collect() == [(4,)]
    for query, why in {
        "SELECT id FROM t": "Its columns would change.",
        "SELECT most AS id, 'x' AS name FROM above": "It would read itself.",
    }.items():
        with pytest.raises(IncrementalError, match="INCR_RELATION_IN_USE") as found:
            session.sql(f"CREATE OR REPLACE INCREMENTAL VIEW base AS {query}")
        assert why in str(found.value)
    assert session.sql("SELECT * FROM top").collect() == [(4,)]
    # The state is the same for who opens it anew.
    path, engine = Path(spark_incr.engine(session).path), spark_incr.engine(session)
    version = engine.version
    spark_incr.disable(session)
    spark_incr.enable(session, path)
    assert spark_incr.engine(session).version == version
    session.sql("DELETE FROM t WHERE id = 3")
    assert session.sql("SELECT * FROM top").collect() == [(2,)]


def test_older_versions_are_not_listed(session: SparkSession) -> None:
    version = spark_incr.engine(session).version
    shown = session.sql(f"SELECT n FROM v VERSION AS OF {version}")
    assert not any("__incr" in row.tableName for row in session.sql("SHOW TABLES").collect())
    assert shown.collect() == session.sql("SELECT n FROM v").collect()
    assert session.sql("SHOW TBLPROPERTIES v").collect() == []


def test_values_and_frames_stand_in_statements(session: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL TABLE numbers (n BIGINT)")
    session.sql(
        "INSERT INTO numbers SELECT id FROM {frame} WHERE id < {limit}",
        frame=session.range(9),
        limit=3,
    )
    session.sql("DELETE FROM numbers WHERE n = {least}", least=0)
    found = session.sql("SELECT n FROM numbers WHERE n > {least}", least=1)
    assert found.collect() == [(2,)]
    with pytest.raises(IncrementalError, match="no parameters"):
        session.sql("CREATE INCREMENTAL VIEW v AS SELECT n + :x AS m FROM numbers", args={"x": 1})
    session.sql("DROP INCREMENTAL TABLE numbers")


def test_what_is_defined_over_relations_reads_them_after_enabling_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = spark_incr.enable(spark.newSession(), tmp_path / "state")
    session.sql("CREATE INCREMENTAL TABLE counted (id BIGINT)")
    session.sql("INSERT INTO counted VALUES (1), (2)")
    session.sql(
        "CREATE TEMPORARY FUNCTION how_many() RETURNS BIGINT RETURN (SELECT count(*) FROM counted)"
    )
    session.sql("CREATE TEMPORARY VIEW seen AS SELECT max(id) AS top FROM counted")
    spark_incr.disable(session)
    session = spark_incr.enable(session, tmp_path / "state")
    assert session.sql("SELECT how_many(), top FROM seen").collect() == [(2, 2)]
    spark_incr.engine(session).commit({"counted": {"insert": pa.table({"id": [9]})}})
    assert session.sql("SELECT how_many(), top FROM seen").collect() == [(3, 9)]
    spark_incr.disable(session)


def test_a_closed_state_is_named(spark: SparkSession, tmp_path: Path) -> None:
    enabled = spark_incr.enable(spark.newSession(), tmp_path / "state")
    enabled.sql("CREATE INCREMENTAL TABLE t (k INT)")
    engine = spark_incr.engine(enabled)
    spark_incr.disable(enabled)
    with pytest.raises(IncrementalError, match="INCR_STATE_CLOSED"):
        engine.commit({"t": {"insert": pa.table({"k": pa.array([1], pa.int32())})}})
