"""Kill the engine at random moments while events flow, and hold every restart to recompute.

Law: whatever moment a process is killed at, the next one finds a version whose views are what their
queries give for exactly the events that the version has read; and when it has read what was
delivered meanwhile, for exactly the events delivered so far. Nothing is lost, nothing counts twice.

A nursery has everything imported and forks the processes that are killed. They use the JVM of the
parent: all state is in Python, and a JVM takes seconds to start. Expected rows are DuckDB's, from
the events alone; `make crash` runs this module for long.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

Row = tuple[Any, ...]
REGIONS = ("north", "south", "east", "west", None)
SOURCES = {
    "orders": "(id BIGINT, region STRING, amount BIGINT) USING json OPTIONS (path '{path}')"
    " CHANGES (OP op, DELETE WHEN 'd') KEY (id)",
    "items": "(order_id BIGINT, qty BIGINT) USING json OPTIONS (path '{path}') CHANGES (WEIGHT w)",
}
VIEWS = {
    "joined": "SELECT o.region, count(*) AS n, sum(i.qty) AS q"
    " FROM orders o JOIN items i ON o.id = i.order_id GROUP BY o.region",
    "outer_joined": "SELECT o.id, o.region, i.qty"
    " FROM orders o LEFT JOIN items i ON o.id = i.order_id",
    "extremes": "SELECT region, min(amount) AS lo, max(amount) AS hi, count(*) AS n"
    " FROM orders GROUP BY region",
    "kinds": "SELECT DISTINCT region, amount % 7 AS r FROM orders",
    "ranked": "SELECT id, region, amount,"
    " row_number() OVER (PARTITION BY region ORDER BY amount, id) AS rn FROM orders",
    "over_extremes": "SELECT count(*) AS groups, sum(n) AS n, max(hi) AS hi FROM extremes",
}


# The events, and what they mean


@dataclass
class Events:
    """Writes files of random events; remembers which file holds which events."""

    root: Path
    chance: random.Random
    files: dict[str, tuple[str, list[dict[str, Any]]]] = field(default_factory=dict)
    items: Counter[Row] = field(default_factory=Counter)
    ids: list[int] = field(default_factory=list)

    def write(self) -> None:
        self._put("orders", [self._order() for _ in range(self.chance.randint(1, 6))])
        self._put("items", [self._item() for _ in range(self.chance.randint(1, 6))])

    def _order(self) -> dict[str, Any]:
        if self.ids and self.chance.random() < 0.5:
            order = self.chance.choice(self.ids)
        else:
            order = len(self.ids) + 1
            self.ids.append(order)
        if self.chance.random() < 0.3:
            return {"id": order, "op": "d"}
        region, amount = self.chance.choice(REGIONS), self.chance.randint(1, 1_000)
        return {"id": order, "region": region, "amount": amount, "op": "u"}

    def _item(self) -> dict[str, Any]:
        if self.items and self.chance.random() < 0.4:
            row = self.chance.choice(list(self.items))
            self.items[row] -= 1
            self.items += Counter()
            return {"order_id": row[0], "qty": row[1], "w": -1}
        row = (self.chance.randint(1, len(self.ids) + 2), self.chance.randint(1, 9))
        self.items[row] += 1
        return {"order_id": row[0], "qty": row[1], "w": 1}

    def _put(self, source: str, events: list[dict[str, Any]]) -> None:
        number = len(self.files)
        path = self.root / source / f"{number:08d}.json"
        hidden = path.with_name("." + path.name)
        hidden.write_text("".join(json.dumps(event) + "\n" for event in events))
        os.utime(hidden, ns=(10**18 + number,) * 2)
        self.files[str(path)] = (source, events)
        hidden.rename(path)

    def expected(self, read: list[str]) -> dict[str, Counter[Row]]:
        """The rows of every view when exactly these files have been read, by DuckDB."""
        orders: dict[int, Row] = {}
        items: Counter[Row] = Counter()
        for path in sorted(read):
            source, events = self.files[path]
            for event in events:
                if source == "items":
                    items[event["order_id"], event["qty"]] += event["w"]
                elif event["op"] == "d":
                    orders.pop(event["id"], None)
                else:
                    orders[event["id"]] = (event["id"], event["region"], event["amount"])
        assert all(weight >= 0 for weight in items.values())
        tables = {
            "orders": _table([*orders.values()], ["id", "region", "amount"]),
            "items": _table([*items.elements()], ["order_id", "qty"]),
        }
        with duckdb.connect() as connection:
            for name, rows in tables.items():
                connection.register(name, rows)
            result = {}
            for name, query in VIEWS.items():
                found = connection.sql(query).fetchall()
                result[name] = Counter(found)
                connection.execute(f"CREATE VIEW {name} AS {query}")
        return result


def _table(rows: list[Row], names: list[str]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    kinds = [pa.string() if name == "region" else pa.int64() for name in names]
    return pa.table([pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], names=names)


# The process that is killed


def connect(port: int, secret: str) -> SparkSession:
    """A session of its own in the JVM of another process."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    gateway: Any = launch_gateway()
    jvm = gateway.jvm
    shared = jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
    context = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(shared.sparkContext())
    SparkContext._ensure_initialized(gateway=gateway)
    conf = SparkConf(_jvm=jvm, _jconf=context.sc().conf())
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf), shared.newSession())


def live(root: Path, port: int, secret: str) -> None:
    """Open the state, tell what is found, read what is there, tell again, and stream on."""
    import spark_incr
    from spark_incr.serve.session import enable

    spark = enable(connect(port, secret), root / "state")
    engine = spark_incr.engine(spark)
    for name, columns in SOURCES.items():
        path = root / name
        spark.sql(f"CREATE INCREMENTAL SOURCE IF NOT EXISTS {name} {columns.format(path=path)}")
    for name, query in VIEWS.items():
        spark.sql(f"CREATE INCREMENTAL VIEW IF NOT EXISTS {name} AS {query}")
    tell(root / "found", engine)
    engine.process_available()
    tell(root / "ready", engine)
    engine.start(interval=0.01)
    while True:
        time.sleep(60)


def tell(directory: Path, engine: Any) -> None:
    """Write what the views hold, and which files the version has read."""
    from spark_incr.sources.source import Source

    snapshot = engine.snapshot()
    read = [
        path
        for relation in engine.relations
        if isinstance(relation.state, Source)
        for path in relation.state.known_files()
    ]
    rows = {name: snapshot.to_arrow(name).to_pylist() for name in VIEWS}
    hidden = directory.with_suffix(".tmp")
    hidden.write_text(json.dumps({"version": snapshot.version, "read": read, "rows": rows}))
    hidden.rename(directory)


def nursery(root: Path, port: int, secret: str) -> None:
    """Fork a process per line of input, and say its number and then that it is gone."""
    import spark_incr
    import spark_incr.demo  # the engine with all that it imports

    assert spark_incr
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            try:
                live(root, port, secret)
            finally:
                os._exit(1)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


# The one that kills


@dataclass
class Killer:
    """Starts processes, kills them, and checks what they tell."""

    root: Path
    events: Events
    chance: random.Random
    nursery: subprocess.Popen[str]
    versions: list[int] = field(default_factory=list)
    early: int = 0

    def round(self) -> None:
        """Start a process, let it be killed at some moment, and check what it told before."""
        child = self.start()
        if self.chance.random() < 0.25:
            self.early += 1
            time.sleep(self.chance.uniform(0, 1.5))
        else:
            self.check("found", delivered=False)
            self.check("ready", delivered=True)
            self.flow(self.chance.uniform(0, 0.8))
        self.kill(child)

    def last(self) -> None:
        """After the last kill: one more process has to find everything in order."""
        child = self.start()
        self.check("found", delivered=False)
        self.check("ready", delivered=True)
        self.kill(child)

    def start(self) -> int:
        for name in ("found", "ready"):
            (self.root / name).unlink(missing_ok=True)
        assert self.nursery.stdin is not None
        assert self.nursery.stdout is not None
        self.nursery.stdin.write("\n")
        self.nursery.stdin.flush()
        return int(self.nursery.stdout.readline())

    def kill(self, child: int) -> None:
        assert self.nursery.stdout is not None
        os.kill(child, signal.SIGKILL)
        status = int(self.nursery.stdout.readline())
        assert os.WIFSIGNALED(status), f"the process ended by itself: {status}"

    def check(self, name: str, delivered: bool) -> None:
        told = self.told(name)
        if delivered:
            assert sorted(told["read"]) == sorted(self.events.files), "not all files were read"
        expected = self.events.expected(told["read"])
        for view, rows in told["rows"].items():
            actual = Counter(tuple(row.values()) for row in rows)
            assert actual == expected[view], f"{view}, version {told['version']}, {name}"
        if self.versions:
            assert told["version"] >= self.versions[-1], "a version was lost"
        self.versions.append(told["version"])

    def told(self, name: str) -> Any:
        path = self.root / name
        until = time.monotonic() + 120
        while not path.exists():
            assert time.monotonic() < until, f"{name} was not told in time"
            time.sleep(0.005)
        return json.loads(path.read_text())

    def flow(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.events.write()
            time.sleep(self.chance.uniform(0, 0.02))


@contextlib.contextmanager
def killing(root: Path, spark: SparkSession, seed: int) -> Iterator[Killer]:
    """A nursery beside the JVM of a session, and a killer of what it brings up."""
    for name in SOURCES:
        (root / name).mkdir()
    gateway: Any = spark.sparkContext._gateway
    parameters = (
        gateway.java_parameters
        if hasattr(gateway, "java_parameters")
        else gateway.gateway_parameters
    )
    command = [sys.executable, "-m", "tests.reliability.crash", "--nursery", str(root)]
    command += ["--port", str(gateway.gateway_parameters.port)]
    environment = {**os.environ, "SPARK_INCR_CRASH_SECRET": parameters.auth_token}
    chance = random.Random(seed)
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env=environment,
    ) as process:
        try:
            yield Killer(root, Events(root, random.Random(seed + 1)), chance, process)
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nursery", type=Path)
    parser.add_argument("--port", type=int)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    if options.nursery:
        nursery(options.nursery, options.port, os.environ["SPARK_INCR_CRASH_SECRET"])
        return
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = session.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")  # the JVM complains of every client that is killed
    print(f"seed {options.seed}, {options.kills} kills", flush=True)
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as directory,
        killing(Path(directory), spark, options.seed) as killer,
    ):
        for number in range(1, options.kills + 1):
            killer.round()
            if number % 10 == 0:
                seconds = time.monotonic() - began
                print(
                    f"{number} kills, {killer.early} of them while opening, {len(killer.events.files)} files,"
                    f" version {killer.versions[-1]}, {seconds:.0f} s",
                    flush=True,
                )
        killer.last()
    spark.stop()


if __name__ == "__main__":
    main()
