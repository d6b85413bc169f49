"""Run benchmarks: `python -m benchmarks.run [names] [--scale small]`.

Each runs in a process of its own with a Spark of its own, so that none inherits the memory or the
warmth of another. Figures of all benchmarks at full scale go into the documentation.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import deletes, fifty_views, group_by, join_group_by, scale
from benchmarks.contestants import DuckDB
from benchmarks.machine import this_machine
from benchmarks.measure import Measurement, measure, profile
from benchmarks.plot import write_plot
from benchmarks.report import bars_of, figures_of, table_of, write_figures
from benchmarks.workload import Benchmark
from spark_incr.java import ensure_java

GROUPS: dict[str, Callable[[int], tuple[Benchmark, ...]]] = {
    "group-by": group_by.benchmarks,
    "join-group-by": join_group_by.benchmarks,
    "deletes": deletes.benchmarks,
    "scale": scale.benchmarks,
    "50-views": fifty_views.benchmarks,
}
DIVISORS = {"full": 1, "small": 20, "tiny": 1000}
DOCUMENT = Path("docs/performance.md")
PLOT = Path("docs/benchmarks.png")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    divisor = DIVISORS[options.scale]
    if options.profile:
        for benchmark in chosen([options.profile], divisor):
            print(benchmark.name)
            statistics = profile(benchmark, spark_session(), options.batches)
            statistics.sort_stats("tottime").print_stats(40)
            statistics.sort_stats("cumtime").print_stats(40)
        return 0

    benchmarks = chosen(options.names, divisor)
    measurements = []
    for benchmark in benchmarks:
        measurements.append(_measured_apart(benchmark.name, divisor, options.batches))
        print(f"{table_of(measurements[-1:])}\n", flush=True)

    machine = this_machine()
    table, bars = table_of(measurements), bars_of(benchmarks, measurements)
    run = f"medians of {options.batches} batches, {options.scale} scale"
    print(f"{machine.text}\n{run}\n")
    print(f"{table}\n\n{bars}")
    if divisor > 1:
        print("\nThe bars are meant for the full scale.")

    complete = not options.names and divisor == 1
    plot = options.plot or (PLOT if complete else None)
    document = options.figures or (DOCUMENT if complete else None)
    if options.json:
        content = {"machine": asdict(machine), "measurements": [asdict(m) for m in measurements]}
        options.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
    if plot:
        write_plot(plot, measurements, machine.text)
    if document:
        image = os.path.relpath(plot, document.parent) if plot else None
        write_figures(document, figures_of(table, bars, machine, run, image))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    known = [*GROUPS, *(b.name for group in GROUPS.values() for b in group(1))]
    names = list(dict.fromkeys(known))
    parser.add_argument("names", nargs="*", metavar="name", help=f"of: {', '.join(names)} (all)")
    parser.add_argument("--batches", type=int, default=9, help="batches that count (%(default)s)")
    parser.add_argument("--scale", choices=DIVISORS, default="full", help="size (%(default)s)")
    parser.add_argument("--plot", type=Path, metavar="PNG", help=f"a picture ({PLOT} if complete)")
    parser.add_argument(
        "--figures", type=Path, metavar="MD", help=f"a document to update ({DOCUMENT} if complete)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="every time that was measured")
    parser.add_argument("--profile", metavar="name", help="profile our side alone")
    return parser


def chosen(names: Sequence[str], divisor: int) -> list[Benchmark]:
    """The benchmarks of these names, or of the groups of these names; all if there are none."""
    groups = {name: group(divisor) for name, group in GROUPS.items()}
    every = {b.name for group in groups.values() for b in group}
    unknown = [name for name in names if name not in groups.keys() | every]
    if unknown:
        raise SystemExit(f"there is no benchmark {unknown[0]}")
    return [
        benchmark
        for group, members in groups.items()
        for benchmark in members
        if not names or group in names or benchmark.name in names
    ]


def _measured_apart(name: str, divisor: int, batches: int) -> Measurement:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(_measured, name, divisor, batches).result()


def _measured(name: str, divisor: int, batches: int) -> Measurement:
    benchmark = next(b for b in chosen([name], divisor) if b.name == name)
    spark, duckdb = spark_session(), DuckDB()
    try:
        return measure(benchmark, spark, duckdb, batches)
    finally:
        duckdb.close()
        spark.stop()


def spark_session() -> SparkSession:
    """Spark as it is quickest here: all cores, as many shuffle partitions, enough memory, and room
    for the compiled code of all queries, which else is compiled anew."""
    ensure_java()
    cores = os.cpu_count() or 1
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("spark_incr benchmarks")
        .config("spark.driver.memory", "6g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.codegen.cache.maxEntries", "2000")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    raise SystemExit(main())
