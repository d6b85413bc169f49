"""Streams of files: ours against Structured Streaming's own aggregations, in one run.

`python -m benchmarks.streaming`. Both read the same Parquet files, one a micro-batch, in the same
process and the same Spark, in turns. Structured Streaming aggregates in update mode into the `noop`
sink, as one query per view; ours keeps the views in one commit per file, durable when it is
done, and could also retract. A time is from the moment the file is there until all views have
followed it. At the end our views are compared with Spark's batch queries over all files.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import spark_incr
from benchmarks.group_by import QUERY
from benchmarks.machine import this_machine
from benchmarks.measure import check_equal
from benchmarks.report import write_between
from benchmarks.run import DIVISORS, spark_session
from spark_incr.text_table import text_table

COLUMNS = "x INT, y INT"
SEED = 4
BEGIN = "<!-- streams: written by python -m benchmarks.streaming -->"
END = "<!-- end of streams -->"
TEN = (
    QUERY,
    "SELECT x, count(*) AS n FROM s GROUP BY x",
    "SELECT x, sum(y) AS total FROM s GROUP BY x",
    "SELECT x, min(y) AS lo, max(y) AS hi FROM s GROUP BY x",
    "SELECT x, count(*) AS n, avg(y) AS mean FROM s WHERE y > 5000 GROUP BY x",
    "SELECT x % 100 AS g, sum(y) AS total FROM s GROUP BY x % 100",
    "SELECT x % 10 AS g, y % 10 AS h, count(*) AS n FROM s GROUP BY x % 10, y % 10",
    "SELECT y, count(*) AS n FROM s GROUP BY y",
    "SELECT y, max(x) AS hi, sum(x) AS total FROM s GROUP BY y",
    "SELECT count(*) AS n, sum(y) AS total, avg(x) AS mean FROM s",
)


class Native:
    """One streaming query per view."""

    def __init__(
        self, spark: SparkSession, inbox: Path, work: Path, queries: Sequence[str]
    ) -> None:
        session = spark.newSession()
        session.conf.set("spark.sql.shuffle.partitions", str(os.cpu_count() or 1))
        self._queries = []
        for number, query in enumerate(queries):
            stream = session.readStream.schema(COLUMNS).parquet(str(inbox))
            stream.createOrReplaceTempView("s")
            frame: DataFrame = session.sql(query)
            writer = frame.writeStream.outputMode("update").format("noop")
            writer = writer.option("checkpointLocation", str(work / f"native-{number}"))
            self._queries.append(writer.start())

    def follow(self) -> float:
        began = time.perf_counter()
        for query in self._queries:
            query.processAllAvailable()
        return (time.perf_counter() - began) * 1e3

    def trigger_ms(self) -> float:
        """The last micro-batch with rows as Spark itself measured it, the longest of all queries."""
        return max(
            next(
                float(p.durationMs["triggerExecution"])
                for p in reversed(query.recentProgress)
                if p.numInputRows
            )
            for query in self._queries
        )

    def close(self) -> None:
        for query in self._queries:
            query.stop()


class Ours:
    """One source and the views over it."""

    def __init__(
        self, spark: SparkSession, inbox: Path, work: Path, queries: Sequence[str]
    ) -> None:
        self._spark = spark_incr.enable(spark, work / "state")
        self.engine = spark_incr.engine(spark)
        columns = f"({COLUMNS}) USING parquet OPTIONS (path '{inbox}')"
        spark.sql(f"CREATE INCREMENTAL SOURCE s {columns}")
        for number, query in enumerate(queries):
            spark.sql(f"CREATE INCREMENTAL VIEW v{number} AS {query}")
        self._last: dict[str, Any] = {}
        self.engine.on_progress(lambda text: self._last.update(json.loads(text)))

    def follow(self) -> float:
        began = time.perf_counter()
        self.engine.process_available()
        return (time.perf_counter() - began) * 1e3

    def trigger_ms(self) -> float:
        return float(self._last["durationMs"]["triggerExecution"])

    def close(self) -> None:
        spark_incr.disable(self._spark)


def measure(
    spark: SparkSession,
    queries: Sequence[str],
    rows: int,
    batch: int,
    batches: int,
    warmups: int = 3,
) -> dict[str, list[float]]:
    """The milliseconds of each micro-batch, ours and Spark's, in turns."""
    random = np.random.default_rng(SEED)
    found: dict[str, list[float]] = {
        "ours": [],
        "native": [],
        "ours trigger": [],
        "native trigger": [],
    }
    with tempfile.TemporaryDirectory(prefix="spark_incr_streams_") as directory:
        work, inbox = Path(directory), Path(directory) / "in"
        inbox.mkdir()
        ours, native = Ours(spark, inbox, work, queries), Native(spark, inbox, work, queries)
        try:
            for number in range(1 + warmups + batches):
                put(inbox, number, random, batch if number else rows)
                sides: list[tuple[str, Ours | Native]] = [("ours", ours), ("native", native)]
                for name, side in sides if number % 2 else reversed(sides):
                    took = side.follow()
                    if number > warmups:
                        found[name].append(took)
                        found[f"{name} trigger"].append(side.trigger_ms())
            native.close()
            check(spark, ours, inbox, queries)
        finally:
            native.close()
            ours.close()
    return found


def put(inbox: Path, number: int, random: np.random.Generator, count: int) -> None:
    columns = {name: random.integers(0, 10_000, count, dtype=np.int32) for name in ("x", "y")}
    hidden = inbox / f".{number:06d}.parquet"
    pq.write_table(pa.table(columns), hidden)
    hidden.rename(inbox / f"{number:06d}.parquet")


def check(spark: SparkSession, ours: Ours, inbox: Path, queries: Sequence[str]) -> None:
    plain = spark.newSession()
    plain.read.schema(COLUMNS).parquet(str(inbox)).createOrReplaceTempView("s")
    for number, query in enumerate(queries):
        actual = ours.engine.view(f"v{number}").to_arrow()
        check_equal(actual, plain.sql(query).toArrow(), query)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streaming", description=__doc__)
    parser.add_argument("--scale", choices=DIVISORS, default="full")
    parser.add_argument("--batches", type=int, default=15)
    parser.add_argument("--figures", type=Path, metavar="MD", help="a document to update")
    options = parser.parse_args(arguments)
    divisor = DIVISORS[options.scale]
    rows, batch = 1_000_000 // divisor, 10_000 // divisor
    lines: list[list[object]] = []
    bars: list[list[object]] = []
    for name, queries, factor in (("group-by", TEN[:1], 1 / 1.5), ("10 views", TEN, 4.0)):
        spark = spark_session()
        found = measure(spark, queries, rows, batch, options.batches)
        spark.stop()
        middle = {key: median(values) for key, values in found.items()}
        ratio = middle["native"] / middle["ours"]
        rate = round(batch / middle["ours"] * 1e3)
        lines.append(
            [name, rows, batch, *(round(value, 1) for value in middle.values()), f"{rate:,}"]
        )
        wanted = (
            f"at most {1 / factor:g} times" if factor < 1 else f"at least {factor:g} times less"
        )
        bars.append(
            [name, wanted, f"Spark/ours {ratio:.1f}", "met" if ratio >= factor else "NOT MET"]
        )
    columns = [
        "stream",
        "rows",
        "a file",
        "ours ms",
        "Spark ms",
        "ours trigger",
        "Spark trigger",
        "events/s",
    ]
    table = text_table(columns, lines)
    verdicts = text_table(["stream", "bar", "figure", "verdict"], bars)
    print(f"{table}\n\n{verdicts}")
    if options.figures:
        machine = this_machine().text
        text = f"Medians of {options.batches} micro-batches on: {machine}.\n\n```text\n{table}\n\n{verdicts}\n```"
        write_between(options.figures, BEGIN, END, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
