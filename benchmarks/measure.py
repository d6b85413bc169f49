"""One benchmark: a batch for each in turn, three answers, and they have to be the same.

Law: a time counts only if the answers of that batch are equal, as bags: exactly between ours and
Spark's, up to DuckDB's wider types between ours and DuckDB's, floats within 1e-9. The check is not
timed. Maintaining views whose expressions have kernels gives Spark no job; that is checked too.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.contestants import DuckDB, Ours, Spark
from benchmarks.machine import peak_memory, reset_peak_memory
from benchmarks.workload import Benchmark, Workload

WARMUPS = 2
RELATIVE = 1e-9
# Seconds before each is timed, in which the compiler and the collector of the JVM come to rest.
REST = 0.5


@dataclass(frozen=True)
class Measurement:
    """The milliseconds of each batch, and what the engine needed."""

    name: str
    rows: int
    changes: int
    views: int
    commit_ms: list[float]
    answer_ms: list[float]
    spark_ms: list[float]
    duckdb_ms: list[float]
    load_seconds: float
    state_bytes: int
    peak_bytes: int
    load_peak_bytes: int
    spark_jobs: int

    @property
    def ours_ms(self) -> list[float]:
        return [c + a for c, a in zip(self.commit_ms, self.answer_ms, strict=True)]

    @property
    def ours(self) -> float:
        return median(self.ours_ms)

    @property
    def spark(self) -> float:
        return median(self.spark_ms)

    @property
    def duckdb(self) -> float:
        return median(self.duckdb_ms)


def measure(
    benchmark: Benchmark, spark: SparkSession, duckdb: DuckDB, batches: int, warmups: int = WARMUPS
) -> Measurement:
    """Maintain and recompute the views of a benchmark, batch by batch."""
    queries = list(benchmark.views.values())
    workload = Workload(benchmark)
    commit_ms, answer_ms, spark_ms, duckdb_ms = [], [], [], []
    with tempfile.TemporaryDirectory(prefix="spark_incr_bench_") as directory:
        plain = Spark(spark)
        ours = Ours(spark, Path(directory) / "state", benchmark)
        try:
            reset_peak_memory()
            began = time.perf_counter()
            ours.load(workload.tables)
            load_seconds = time.perf_counter() - began
            load_peak, peak, jobs = peak_memory(), 0, 0
            for number, changes in enumerate(workload.batches(warmups + batches)):
                os.sync()  # what others have written shall not wait for our fsync
                time.sleep(REST)
                reset_peak_memory()
                jobs_before = plain.jobs()
                maintained = ours.maintain(changes)
                jobs += plain.jobs() - jobs_before
                peak = max(peak, peak_memory())

                files = write_tables(workload.tables, Path(directory) / "tables")
                plain.load(files)
                time.sleep(REST)
                by_spark = plain.recompute(queries)
                duckdb.load(files)
                time.sleep(REST)
                by_duckdb, others = duckdb.recompute(queries)

                for name, answer, spark_answer, duckdb_answer in zip(
                    benchmark.views, maintained.answers, plain.answers(queries), others, strict=True
                ):
                    where = f"{benchmark.name}, batch {number}, view {name}"
                    check_equal(answer, spark_answer, f"{where}, against Spark")
                    check_equal(answer, duckdb_answer, f"{where}, against DuckDB")
                if number >= warmups:
                    commit_ms.append(maintained.commit_ms)
                    answer_ms.append(maintained.answer_ms)
                    spark_ms.append(by_spark)
                    duckdb_ms.append(by_duckdb)
            state_bytes = ours.state_bytes()
        finally:
            plain.close()
            ours.close()
    return Measurement(
        benchmark.name,
        benchmark.rows,
        benchmark.changes,
        len(benchmark.views),
        commit_ms,
        answer_ms,
        spark_ms,
        duckdb_ms,
        load_seconds,
        state_bytes,
        peak,
        load_peak,
        jobs,
    )


def profile(
    benchmark: Benchmark, spark: SparkSession, batches: int, warmups: int = WARMUPS
) -> pstats.Stats:
    """Where the time of our commits and answers goes."""
    workload = Workload(benchmark)
    profiler = cProfile.Profile()
    with tempfile.TemporaryDirectory(prefix="spark_incr_bench_") as directory:
        ours = Ours(spark, Path(directory) / "state", benchmark)
        try:
            ours.load(workload.tables)
            for number, changes in enumerate(workload.batches(warmups + batches)):
                if number >= warmups:
                    profiler.runcall(ours.maintain, changes)
                else:
                    ours.maintain(changes)
        finally:
            ours.close()
    return pstats.Stats(profiler)


def write_tables(tables: Mapping[str, pa.Table], directory: Path) -> dict[str, Path]:
    """The tables as files, in place of those of the batch before."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    files = {name: directory / f"{name}.parquet" for name in tables}
    for name, rows in tables.items():
        pq.write_table(rows, files[name], compression="none")
    return files


def check_equal(ours: pa.Table, other: pa.Table, where: str) -> None:
    """Fail unless two tables have the same rows, in any order."""
    if (ours.num_rows, ours.num_columns) != (other.num_rows, other.num_columns):
        raise AssertionError(f"{where}: {ours.shape} rows and columns, expected {other.shape}")
    pairs = [_comparable(a, b) for a, b in zip(ours.columns, other.columns, strict=True)]
    # Floats come last in the order: they may differ a little, the others identify the row.
    exact = [p for p in pairs if not pa.types.is_floating(p[0].type)]
    floats = [p for p in pairs if pa.types.is_floating(p[0].type)]
    left, right = (_sorted([p[side] for p in exact + floats]) for side in (0, 1))
    for place, (a, b) in enumerate(zip(left, right, strict=True)):
        same = a.equals(b) if place < len(exact) else _close(a, b)
        if not same:
            raise AssertionError(f"{where}: the answers differ")


def _comparable(ours: pa.ChunkedArray, other: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    """Two columns in one type: ours, or float if one of them is."""
    kind = ours.type
    if kind != other.type and pa.types.is_floating(other.type):
        kind = other.type
    return tuple(column.cast(kind).combine_chunks() for column in (ours, other))


def _sorted(columns: list[pa.Array]) -> list[pa.Array]:
    table = pa.table({str(place): column for place, column in enumerate(columns)})
    order = pc.sort_indices(table, [(name, "ascending") for name in table.column_names])
    return [column.combine_chunks() for column in table.take(order).columns]


def _close(ours: pa.Array, other: pa.Array) -> bool:
    left, right = (np.asarray(c.to_numpy(zero_copy_only=False)) for c in (ours, other))
    same_nulls: bool = ours.is_null().equals(other.is_null())
    return same_nulls and np.allclose(left, right, rtol=RELATIVE, atol=0.0, equal_nan=True)
