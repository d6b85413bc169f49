"""`spark-incr serve` as its clients meet it: PyHive, SQLAlchemy, beeline and Spark Connect.

One server process for all tests; they come in the order of the file, since they share its tables.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyhive import exc, hive
from pyspark.sql import SparkSession
from sqlalchemy import create_engine, inspect, text

import spark_incr
from spark_incr.cli import main
from spark_incr.errors import IncrementalError
from tests.serving import Server, start, stop

INIT = """
-- tables that are there before the doors open
CREATE INCREMENTAL TABLE IF NOT EXISTS orders (
    id BIGINT, customer STRING, amount DECIMAL(10,2), PRIMARY KEY (id));
CREATE INCREMENTAL VIEW IF NOT EXISTS revenue COMMENT 'by customer' TBLPROPERTIES ('owner' = 'shop') AS
SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer;
"""
CONNECT = """
import json, sys, warnings
warnings.simplefilter("ignore")
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
def rows(frame):
    return [[str(value) for value in row] for row in frame.collect()]
def failure(text, **named):
    try:
        spark.sql(text, **named).collect()
    except PySparkException as found:
        return [found.getSqlState(), found.getCondition(), str(found)]
def written(write):
    try:
        write()
    except PySparkException as found:
        return str(found)
found = {}
found["create"] = rows(spark.sql("CREATE INCREMENTAL VIEW big AS SELECT * FROM revenue WHERE total > 20"))
found["named"] = rows(spark.sql("INSERT INTO orders VALUES (:id, :who, 25)", args={"id": 20, "who": "it's"}))
found["listed"] = rows(spark.sql("INSERT INTO orders VALUES (?, ?, 30)", args=[21, "cyd"]))
frame = spark.table("big").orderBy("total")
found["frame"] = rows(frame)
found["delete"] = rows(spark.sql("DELETE FROM orders WHERE id = 21"))
found["same frame"] = rows(frame)
found["filtered"] = rows(spark.read.table("default.big").where("n = 1").select("customer"))
found["show"] = rows(spark.sql("SHOW INCREMENTAL VIEWS").select("view", "reads"))
found["tables"] = sorted(table.name for table in spark.catalog.listTables())
found["columns"] = [column.name for column in spark.catalog.listColumns("big")]
spark.createDataFrame([(22, "tmp")], "id long, customer string").createOrReplaceTempView("mine")
found["temp view"] = rows(spark.sql("INSERT INTO orders SELECT id, customer, 1 FROM mine"))
found["key"] = failure("INSERT INTO orders VALUES (20, 'x', 1)")
found["syntax"] = failure("CREATE INCREMENTAL VIEW v AS")
found["column"] = failure("CREATE INCREMENTAL VIEW v AS SELECT nope FROM orders")
found["nowhere"] = failure("SELECT * FROM nowhere")
frame = spark.createDataFrame([(90, "lost", 1)], "id long, customer string, amount int")
before = rows(spark.table("orders")), rows(spark.table("big"))
found["writes"] = [
    written(write)
    for name in ("orders", "default.`big`", "spark_catalog.default.orders")
    for write in (
        *(lambda m=m: frame.write.mode(m).saveAsTable(name) for m in ("append", "overwrite", "ignore")),
        lambda: frame.write.insertInto(name, overwrite=True),
        lambda: frame.writeTo(name).append(),
        lambda: frame.writeTo(name).createOrReplace(),
        lambda: frame.mergeInto(name, frame.id == 1).whenNotMatched().insertAll().merge(),
    )
]
found["registered"] = written(lambda: frame.createOrReplaceTempView("orders"))
found["same rows"] = before == (rows(spark.table("orders")), rows(spark.table("big")))
frame.createOrReplaceTempView("rows")
found["inserted"] = rows(spark.sql("INSERT INTO orders SELECT * FROM rows"))
frame.write.saveAsTable("plain_of_spark")
found["spark's own"] = rows(spark.table("plain_of_spark"))
spark.sql("DROP TABLE plain_of_spark")
spark.sql("DELETE FROM orders WHERE id = 90")
found["drop"] = rows(spark.sql("DROP INCREMENTAL VIEW big"))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "init.sql").write_text(INIT, encoding="utf-8")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    started = start(folder / "state", "--init", str(folder / "init.sql"), cwd=elsewhere)
    yield started
    stop(started)


def run(cursor: hive.Cursor, statement: str) -> list[Any]:
    cursor.execute(statement)
    return [tuple(row) for row in cursor.fetchall()]


def refused(cursor: hive.Cursor, statement: str) -> str:
    with pytest.raises(exc.OperationalError) as found:
        cursor.execute(statement)
    status = found.value.args[0].status
    assert status.sqlState is not None
    message = str(status.errorMessage)
    assert "Traceback" not in message
    assert "\tat " not in message
    assert ".py" not in message
    return message


def test_statements_over_thrift(server: Server) -> None:
    cursor = server.cursor()
    assert run(
        cursor, "INSERT INTO orders VALUES (1, 'ada', 10), (2, 'bob', 5.5), (3, 'ada', 2.25)"
    ) == [
        ("num_affected_rows: 3",),
        ("num_inserted_rows: 3",),
    ]
    revenue = "SELECT * FROM revenue ORDER BY customer"
    assert run(cursor, revenue) == [("ada", 2, Decimal("12.25")), ("bob", 1, Decimal("5.50"))]
    run(cursor, "UPDATE orders SET amount = 7 WHERE id = 2")
    run(cursor, "/* a tool's own comment */ DELETE FROM default.orders WHERE id = 3")
    run(
        cursor,
        "MERGE INTO orders USING (SELECT 4 AS id, 'cyd' AS customer, 1.00 AS amount) AS new"
        " ON orders.id = new.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    )
    after = [("ada", 1, Decimal("10.00")), ("bob", 1, Decimal("7.00")), ("cyd", 1, Decimal("1.00"))]
    assert run(cursor, revenue) == after
    assert run(cursor, revenue.replace("revenue", "spark_catalog.default.revenue")) == after
    assert ("    tier       homomorphic",) in run(cursor, "EXPLAIN INCREMENTAL VIEW revenue")
    assert run(cursor, "SHOW INCREMENTAL VIEWS")[0][:2] == ("revenue", "orders")
    assert run(cursor, "SHOW CREATE TABLE revenue")[0][0].startswith(
        "CREATE INCREMENTAL VIEW revenue"
    )
    assert "up to date" in run(cursor, "REFRESH INCREMENTAL VIEW revenue")[0][0]
    # A view of Spark's over ours is as fresh as ours.
    run(cursor, "CREATE VIEW above AS SELECT count(*) AS n FROM revenue")
    assert run(cursor, "SELECT * FROM above") == [(3,)]
    run(cursor, "DELETE FROM orders WHERE id = 4")
    assert run(cursor, "SELECT * FROM above") == [(2,)]
    run(cursor, "DROP VIEW above")


def test_schemas(server: Server) -> None:
    cursor = server.cursor()
    run(cursor, "CREATE SCHEMA mart")
    run(
        cursor, "CREATE INCREMENTAL VIEW mart.top AS SELECT max(total) AS most FROM default.revenue"
    )
    other = server.cursor("mart")
    assert run(other, "SELECT * FROM top") == [(Decimal("10.00"),)]
    run(other, "INSERT INTO default.orders VALUES (9, 'zed', 99)")
    assert run(other, "SELECT * FROM top") == [(Decimal("99.00"),)]
    assert "INCR_NAME_UNUSABLE" in refused(other, "CREATE INCREMENTAL VIEW v AS SELECT * FROM top")
    assert run(cursor, "SHOW TABLES IN mart") == [("mart", "top", False)]
    for statement in ("DROP SCHEMA mart CASCADE", "DROP DATABASE IF EXISTS mart"):
        assert "DROP SCHEMA of its schema" in refused(cursor, statement)
    run(other, "DROP INCREMENTAL VIEW top")
    run(cursor, "DELETE FROM orders WHERE id = 9")
    assert run(cursor, "SHOW TABLES IN mart") == []
    assert "no schema nowhere" in refused(cursor, "CREATE INCREMENTAL TABLE nowhere.t (id BIGINT)")
    assert "INCR_NAME_UNUSABLE" in refused(cursor, "CREATE INCREMENTAL TABLE `a b` (id BIGINT)")


def test_types_that_no_table_of_spark_may_have(server: Server) -> None:
    cursor = server.cursor()
    run(
        cursor,
        "CREATE INCREMENTAL VIEW odd AS SELECT id, NULL AS nothing, struct() AS s FROM orders",
    )
    assert [row[0] for row in run(cursor, "DESCRIBE odd")] == ["id", "nothing", "s"]
    assert run(cursor, "SELECT id, nothing IS NULL, typeof(s) FROM odd WHERE id = 1") == [
        (1, True, "struct<>")
    ]
    run(cursor, "DROP INCREMENTAL VIEW odd")


def test_a_view_means_what_its_session_says(server: Server) -> None:
    cursor, other = server.cursor(), server.cursor()
    run(cursor, "SET spark.sql.orderByOrdinal = false")
    create = "CREATE INCREMENTAL VIEW first AS SELECT id FROM orders ORDER BY 1 LIMIT 1"
    assert "INCR_UNSUPPORTED" in refused(cursor, create)
    run(other, create)
    run(other, "CREATE VIEW of_spark AS SELECT * FROM orders")
    over = "CREATE INCREMENTAL VIEW over AS SELECT count(*) AS n FROM of_spark"
    assert "INCR_NOT_FOLLOWED" in refused(other, over)
    run(other, "DROP VIEW of_spark")
    run(other, "DROP INCREMENTAL VIEW first")


def test_variables_are_those_of_the_session(server: Server) -> None:
    cursor = server.cursor()
    run(cursor, "SET my.name = ada")
    run(
        cursor,
        "CREATE INCREMENTAL VIEW named AS SELECT '${my.name}' AS name, count(*) AS n FROM orders",
    )
    run(cursor, "SET my.name = bob")
    assert run(cursor, "SELECT name FROM named") == [("ada",)]
    run(cursor, "DROP INCREMENTAL VIEW named")


def test_who_keeps_a_schedule(server: Server) -> None:
    cursor = server.cursor()
    [[said]] = run(
        cursor,
        "CREATE INCREMENTAL VIEW paced SCHEDULE EVERY 1 DAY AS SELECT count(*) AS n FROM orders",
    )
    assert said == "created view paced; its schedule runs while the server does"
    run(cursor, "DROP INCREMENTAL VIEW paced")


def test_streams_and_versions(server: Server, tmp_path: Path) -> None:
    cursor = server.cursor()
    run(
        cursor,
        "CREATE INCREMENTAL SOURCE clicks (who STRING, n BIGINT)"
        f" USING json OPTIONS (path '{tmp_path}')",
    )
    run(
        cursor,
        "CREATE INCREMENTAL VIEW clicked AS SELECT who, sum(n) AS n FROM clicks GROUP BY who",
    )
    first = next(row[4] for row in run(cursor, "SHOW INCREMENTAL VIEWS") if row[0] == "clicked")
    (tmp_path / "one.json").write_text('{"who": "ada", "n": 2}\n', encoding="utf-8")
    for _ in range(120):
        if found := run(cursor, "SELECT * FROM clicked"):
            break
        time.sleep(0.5)
    assert found == [("ada", 2)]
    assert run(cursor, f"SELECT count(*) FROM clicked VERSION AS OF {first}") == [(0,)]
    feed = f"SELECT who, _change_type FROM incremental_changes('clicked', {first + 1})"
    assert run(cursor, feed) == [("ada", "insert")]
    for listed in ("SHOW TABLES", "SHOW VIEWS"):
        assert not any("__incr" in row[1] for row in run(cursor, listed))
    run(cursor, "DROP INCREMENTAL VIEW clicked")
    run(cursor, "DROP INCREMENTAL SOURCE clicks")


def test_connections_see_the_last_version_and_wait_their_turn(server: Server) -> None:
    failures: list[BaseException] = []

    def write(first: int) -> None:
        try:
            cursor = server.cursor()
            for number in range(5):
                run(cursor, f"INSERT INTO orders VALUES ({first + number}, 'many', 1)")
                found = run(cursor, "SELECT n FROM revenue WHERE customer = 'many'")
                alike = run(
                    cursor,
                    "SELECT (SELECT count(*) FROM orders) = (SELECT sum(n) FROM revenue)",
                )
                assert found[0][0] > number
                assert alike == [(True,)]
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=write, args=(first,)) for first in (1000, 2000, 3000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
    cursor = server.cursor()
    assert run(cursor, "SELECT n FROM revenue WHERE customer = 'many'") == [(15,)]
    run(cursor, "DELETE FROM orders WHERE id >= 1000")


def test_errors_are_named_conditions(server: Server) -> None:
    cursor = server.cursor()
    version = run(cursor, "SHOW INCREMENTAL TABLES")
    for statement, expected in {
        "INSERT INTO orders VALUES (1, 'x', 1)": "[INCR_DUPLICATE_KEY] primary key of orders",
        "UPDATE orders SET id = 1": "HINT: Leave the key as it is",
        "CREATE INCREMENTAL VEW x": "found VEW (line 1, column 20)",
        "CREATE INCREMENTAL VIEW x AS SELECT nope FROM orders": "[UNRESOLVED_COLUMN",
        "CREATE INCREMENTAL VIEW revenue AS SELECT 1 AS one": "[INCR_RELATION_EXISTS]",
        "DELETE FROM revenue": "revenue is an incremental view",
        "DROP TABLE orders": "[INCR_NOT_APPLICABLE]",
        "CREATE OR REPLACE TEMP VIEW revenue AS SELECT 1": "[INCR_NOT_APPLICABLE]",
        "DROP INCREMENTAL TABLE orders": "[INCR_RELATION_IN_USE]",
        "SELECT 1 / 0": "[DIVIDE_BY_ZERO]",
        "SELEC 1": "[PARSE_SYNTAX_ERROR]",
        "SELECT * FROM nowhere": "[TABLE_OR_VIEW_NOT_FOUND]",
    }.items():
        assert expected in refused(cursor, statement)
    assert run(cursor, "SHOW INCREMENTAL TABLES") == version


def test_metadata_calls(server: Server) -> None:
    connection = hive.connect("127.0.0.1", server.thrift)
    cursor = connection.cursor()
    assert tuple(row[1] for row in run(cursor, "SHOW TABLES")) == ("orders", "revenue")
    assert run(cursor, "DESCRIBE revenue") == [
        ("customer", "string", None),
        ("n", "bigint", None),
        ("total", "decimal(20,2)", None),
    ]
    run(cursor, "CREATE VIEW above AS SELECT * FROM revenue")
    above, ours = ("default", "above", False), ("default", "revenue", False)
    assert run(cursor, "SHOW VIEWS") == [above, ours]
    assert run(cursor, "SHOW VIEWS IN default LIKE 'rev*'") == [ours]
    run(cursor, "DROP VIEW above")
    assert run(cursor, "SHOW TBLPROPERTIES revenue") == [("owner", "shop")]
    assert run(cursor, "SHOW TBLPROPERTIES default.revenue (owner)") == [("owner", "shop")]
    assert "does not have property: x" in run(cursor, "SHOW TBLPROPERTIES orders ('x')")[0][1]
    assert run(cursor, "SHOW COLUMNS IN orders") == [("id",), ("customer",), ("amount",)]
    engine = create_engine(
        f"hive://127.0.0.1:{server.thrift}/default",
        connect_args={"configuration": {"set:hiveconf:spark.incr.hiveShowTables": "true"}},
    )
    inspector = inspect(engine)
    assert "default" in inspector.get_schema_names()
    assert {"orders", "revenue"} <= set(inspector.get_table_names())
    assert inspector.has_table("revenue")
    assert not inspector.has_table("missing")
    columns = inspector.get_columns("revenue")
    assert [(c["name"], str(c["type"])) for c in columns] == [
        ("customer", "VARCHAR"),
        ("n", "BIGINT"),
        ("total", "DECIMAL"),
    ]
    with engine.connect() as opened:
        assert opened.execute(text("SELECT count(*) FROM revenue")).scalar() == 2


def test_beeline(server: Server) -> None:
    jars = Path(pyspark.__file__).parent / "jars"
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
    statements = [
        "INSERT INTO orders VALUES (70, 'bee', 3);",
        "SELECT * FROM revenue ORDER BY customer;",
        "!tables",
        "!columns revenue",
        "DELETE FROM orders WHERE id = 70;",
        "DROP TABLE orders;",
    ]
    command = [str(java), "-cp", f"{jars}/*", "org.apache.hive.beeline.BeeLine", "-n", "ada"]
    command += ["-u", f"jdbc:hive2://127.0.0.1:{server.thrift}/default"]
    command += ["--silent=true", "--outputformat=csv2"]
    for statement in statements:
        command += ["-e", statement]
    found = subprocess.run(
        command, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL
    )
    assert "customer,n,total\nada,1,10.00\nbee,1,3.00\nbob,1,7.00\n" in found.stdout
    assert ",default,revenue,TABLE,by customer," in found.stdout
    assert ",default,revenue,total,3," in found.stdout
    assert "DECIMAL(20,2)" in found.stdout
    assert "[INCR_NOT_APPLICABLE] orders is an incremental table" in found.stderr


def test_spark_connect(server: Server) -> None:
    client = subprocess.run(
        [sys.executable, "-c", CONNECT, f"sc://127.0.0.1:{server.connect}"],
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )
    assert client.returncode == 0, client.stderr
    found = json.loads(client.stdout.splitlines()[-1])
    assert found["create"] == [["created view big"]]
    assert found["named"] == found["listed"] == [["num_affected_rows: 1"], ["num_inserted_rows: 1"]]
    assert found["frame"] == [["it's", "1", "25.00"], ["cyd", "1", "30.00"]]
    assert found["same frame"] == [["it's", "1", "25.00"]]
    assert found["filtered"] == [["it's"]]
    assert found["show"] == [["revenue", "orders"], ["big", "revenue"]]
    assert found["tables"] == ["big", "orders", "revenue"]
    assert found["columns"] == ["customer", "n", "total"]
    assert found["temp view"][0] == ["num_affected_rows: 1"]
    for refusal in found["writes"]:
        assert refusal is not None
        assert "[INCR_NOT_APPLICABLE]" in refusal
        assert "INSERT INTO orders SELECT * FROM rows" in refusal or "Change the tables" in refusal
    assert "Give the view another name." in found["registered"]
    assert found["same rows"] is True
    assert found["inserted"][0] == ["num_affected_rows: 1"]
    assert found["spark's own"] == [["90", "lost", "1"]]
    for name, state, condition in (
        ("key", "23505", "INCR_DUPLICATE_KEY"),
        ("syntax", "42601", "INCR_SYNTAX"),
        ("column", "42703", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ("nowhere", "42P01", "TABLE_OR_VIEW_NOT_FOUND"),
    ):
        found_state, found_condition, message = found[name]
        assert (found_state, found_condition) == (state, condition)
        assert message.strip().startswith(f"[{condition}]")
        assert "stacktrace" not in message
        assert "Traceback" not in message


def listening(pid: int) -> set[str]:
    """The addresses that a process and its children listen on, as the kernel writes them."""
    processes, sockets, addresses = [pid], set(), set()
    for each in processes:
        # Processes and what they have open come and go.
        for tasks in Path(f"/proc/{each}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                processes += [int(child) for child in tasks.read_text().split()]
        for link in Path(f"/proc/{each}/fd").glob("*"):
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(link))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                addresses.add(fields[1].partition(":")[0])
    return addresses


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="asks the kernel of Linux")
def test_nothing_listens_beyond_the_loopback_address(server: Server) -> None:
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    found = listening(server.process.pid)
    assert found
    assert found <= loopback


def test_stopping_leaves_the_last_version(server: Server, spark: SparkSession) -> None:
    cursor = server.cursor()
    run(cursor, "INSERT INTO orders VALUES (100, 'last', 1)")
    endless = "SELECT count(*) FROM range(0, 500000000000, 1, 1) WHERE id % 7 = hash(id) % 7"
    cancelled: list[str] = []
    query = threading.Thread(target=lambda: cancelled.append(refused(server.cursor(), endless)))
    query.start()
    time.sleep(2)
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    time.sleep(2)
    assert "[INCR_SERVER_STOPPING]" in refused(cursor, "SHOW SCHEMAS")
    query.join(30)
    assert "[SPARK_JOB_CANCELLED]" in cancelled[0]
    server.process.wait(60)
    assert server.process.returncode == 0, server.output
    assert time.monotonic() - began < 60
    assert server.output[-1].startswith("stopped at version ")
    assert list((server.state.parent / "elsewhere").iterdir()) == []
    log = (server.state / "serve.log").read_text(encoding="utf-8")
    assert "INCR_DUPLICATE_KEY" in log
    session = spark_incr.enable(spark.newSession(), server.state)
    try:
        assert spark_incr.engine(session).version == int(server.output[-1].split()[-1])
        assert ("last", 1, Decimal("1.00")) in [
            tuple(row) for row in session.table("revenue").collect()
        ]
    finally:
        spark_incr.disable(session)


def test_stopping_the_whole_group_leaves_the_last_version(
    tmp_path: Path, spark: SparkSession
) -> None:
    """As a supervisor does it: Spark hears the signal as soon as we do."""
    conf = "spark.hadoop.hive.server2."
    checked = "org.apache.hive.service.auth.AnonymousAuthenticationProviderImpl"
    server = start(
        tmp_path / "my state",
        *("--conf", f"{conf}authentication=CUSTOM"),
        *("--conf", f"{conf}custom.authentication.class={checked}"),
    )
    try:
        cursor = hive.connect(
            "127.0.0.1", server.thrift, username="ada", password="pw", auth="CUSTOM"
        ).cursor()
        run(cursor, "CREATE SCHEMA mart")
        run(cursor, "CREATE INCREMENTAL TABLE t (id BIGINT)")
        run(cursor, "CREATE INCREMENTAL VIEW mart.counted AS SELECT count(*) AS n FROM t")
        run(cursor, "INSERT INTO t VALUES (1), (2)")
        os.killpg(server.process.pid, signal.SIGTERM)
        assert server.process.wait(60) == 0, server.output
    finally:
        stop(server)
    assert not any("Traceback" in line for line in server.output)
    session = spark_incr.enable(spark.newSession(), server.state)
    try:
        assert session.table("t").count() == 2
        assert session.table("`mart.counted`").collect() == [(2,)]
        for read in (session.table, session.read.table, lambda name: session.sql(f"TABLE {name}")):
            with pytest.raises(IncrementalError, match="INCR_NAME_UNUSABLE") as found:
                read("mart.counted")
            assert "Read `mart.counted`, quoted as one name" in str(found.value)
    finally:
        spark_incr.disable(session)
    server = start(server.state, cwd=tmp_path)
    try:
        cursor = server.cursor("mart")
        run(cursor, "INSERT INTO default.t VALUES (3)")
        assert run(cursor, "SELECT * FROM counted") == [(3,)]
    finally:
        stop(server)
    assert [path.name for path in tmp_path.iterdir()] == ["my state"]


def test_a_port_in_use_and_an_open_door(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        options = ["serve", "--state", str(tmp_path / "state"), "--host", "0.0.0.0"]
        assert main([*options, "--thrift-port", port, "--connect-port", "none"]) == 1
    shown = capsys.readouterr().err
    assert "warning: the Thrift door is open to everyone who reaches 0.0.0.0" in shown
    assert f"[INCR_SERVER] the server cannot start: 0.0.0.0:{port} cannot be listened on" in shown
