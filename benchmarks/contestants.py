"""The three who answer: the engine, Spark and DuckDB, each with tables of its own.

Ours is timed for a durable commit and for all answers as Arrow tables. Spark is timed for its
queries over cached tables into its `noop` sink, which computes every row and moves none: cheaper
for it than handing the rows to Python. DuckDB is timed for its queries over tables in memory,
fetched as Arrow tables; it runs in a process of its own, so that the memory of this one is ours.
Spark and DuckDB get the tables as Parquet files; loading them is not timed.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

import spark_incr
from benchmarks.workload import Benchmark, Changes

if TYPE_CHECKING:
    import duckdb

LOAD_ROWS = 1_000_000
Files = Mapping[str, Path]


@dataclass(frozen=True)
class Maintained:
    """What the engine did for a batch."""

    commit_ms: float
    answer_ms: float
    answers: list[pa.Table]


class Ours:
    """The engine over a fresh state directory."""

    def __init__(self, spark: SparkSession, state: Path, benchmark: Benchmark) -> None:
        self._spark = spark_incr.enable(spark.newSession(), state)
        self._engine = spark_incr.engine(self._spark)
        self._benchmark = benchmark

    def load(self, tables: Mapping[str, pa.Table]) -> None:
        """Create the tables, fill them, and create the views over what is there."""
        for name, table in self._benchmark.inputs.items():
            self._spark.sql(f"CREATE INCREMENTAL TABLE {name} ({table.columns})")
            for start in range(0, tables[name].num_rows, LOAD_ROWS):
                rows = tables[name].slice(start, LOAD_ROWS)
                self._engine.commit({name: {"insert": rows}})
        for name, query in self._benchmark.views.items():
            self._spark.sql(f"CREATE INCREMENTAL VIEW {name} AS {query}")

    def maintain(self, changes: Changes) -> Maintained:
        began = time.perf_counter()
        self._engine.commit(changes)
        committed = time.perf_counter()
        answers = [self._engine.view(name).to_arrow() for name in self._benchmark.views]
        answered = time.perf_counter()
        return Maintained((committed - began) * 1e3, (answered - committed) * 1e3, answers)

    def state_bytes(self) -> int:
        """The bytes of all tables and of all that the views keep."""
        return sum(
            arrangement.snapshot().nbytes()
            for relation in self._engine.relations
            for arrangement in relation.arrangements.values()
        )

    def close(self) -> None:
        spark_incr.disable(self._spark)


class Spark:
    """Queries over cached tables in a session that knows nothing of the engine."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark.newSession()
        self._loaded: list[str] = []

    def load(self, files: Files) -> None:
        self.close()
        for name, path in files.items():
            cores = self._spark.sparkContext.defaultParallelism
            frame = self._spark.read.parquet(str(path)).repartition(cores)
            frame.createOrReplaceTempView(name)
            self._spark.catalog.cacheTable(name)
            self._spark.table(name).write.format("noop").mode("overwrite").save()
            self._loaded.append(name)

    def recompute(self, queries: Sequence[str]) -> float:
        """The time that the queries take, in milliseconds."""
        began = time.perf_counter()
        for query in queries:
            self._spark.sql(query).write.format("noop").mode("overwrite").save()
        return (time.perf_counter() - began) * 1e3

    def answers(self, queries: Sequence[str]) -> list[pa.Table]:
        return [self._spark.sql(query).toArrow() for query in queries]

    def jobs(self) -> int:
        """The number of jobs that this Spark has been given by anyone."""
        scheduler: Any = self._spark.sparkContext._jsc.sc().dagScheduler()
        return int(scheduler.numTotalJobs())

    def close(self) -> None:
        for name in self._loaded:
            self._spark.catalog.uncacheTable(name)
            self._spark.catalog.dropTempView(name)
        self._loaded = []


class DuckDB:
    """Queries over tables in memory, in another process."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._process = ProcessPoolExecutor(1, mp_context=context)

    def load(self, files: Files) -> None:
        self._process.submit(_load, {name: str(path) for name, path in files.items()}).result()

    def recompute(self, queries: Sequence[str]) -> tuple[float, list[pa.Table]]:
        """The time that the queries take, in milliseconds, and their answers."""
        return self._process.submit(_recompute, list(queries)).result()

    def close(self) -> None:
        self._process.shutdown()


_connection: duckdb.DuckDBPyConnection | None = None


def _load(files: dict[str, str]) -> None:
    """In DuckDB's process: a fresh database in memory with these tables."""
    import duckdb

    global _connection
    if _connection is not None:
        _connection.close()
    _connection = duckdb.connect(":memory:", config={"threads": os.cpu_count() or 1})
    for name, path in files.items():
        _connection.execute(f'CREATE TABLE "{name}" AS FROM read_parquet($path)', {"path": path})


def _recompute(queries: list[str]) -> tuple[float, list[pa.Table]]:
    """In DuckDB's process: run the queries."""
    assert _connection is not None
    began = time.perf_counter()
    answers = [_connection.sql(query).to_arrow_table() for query in queries]
    return (time.perf_counter() - began) * 1e3, answers
