"""TPC-H: every query as a view of its own, under refreshes of orders and lineitem.

    python -m benchmarks.tpch --scale 0.1 [q01 q02 ...] [--batches 5] [--plot PNG] [--figures MD]

The eight tables are loaded with nine tenths of the orders. Then each query in turn is a view over
them, alone: it is created, follows the batches, is compared with Spark's answer, and is dropped; the
batches are then taken back, so that every query meets the same tables and the same batches. A
batch replaces a thousandth of the orders, with their items: half of the changed rows arrive, half go.
Ours is the durable commit, the tables included, and the whole answer as Arrow; Spark's is the query
alone over cached tables, the median of five runs after all queries have run three times and this one
twice more, to warm the JVM.
"""

from __future__ import annotations

import argparse
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import spark_incr
from benchmarks.contestants import LOAD_ROWS, Spark
from benchmarks.machine import this_machine
from benchmarks.measure import check_equal, write_tables
from benchmarks.report import write_between
from benchmarks.run import spark_session
from benchmarks.workload import SEED, Changes
from spark_incr.text_table import text_table

QUERIES = Path(__file__).parents[1] / "sql_examples" / "tpch"
WARMUPS = 2
LOADED = 0.9
CHANGED = 0.001
SPARK_WARMUPS, RECOMPUTATIONS = 3, 5
MEAN_BAR = 20
BEGIN, END = "<!-- TPC-H: written by python -m benchmarks.tpch -->", "<!-- end of TPC-H -->"


@dataclass(frozen=True)
class Measured:
    """One query: milliseconds per batch, milliseconds of a recomputation, and its state."""

    name: str
    ours_ms: list[float]
    spark_ms: float
    create_seconds: float
    state_bytes: int
    spark_jobs: int

    @property
    def ours(self) -> float:
        return median(self.ours_ms)

    @property
    def ratio(self) -> float:
        return self.spark_ms / self.ours


def generated(scale: str, directory: Path) -> dict[str, pa.Table]:
    """The eight tables of a scale factor."""
    generator = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent))
    if generator is None:
        raise SystemExit("tpchgen-cli is missing: pip install 'spark_incr[dev]'")
    command = [generator, "parquet", "-s", scale, f"--output-dir={directory}"]
    subprocess.run(command, check=True, capture_output=True)
    return {path.stem: plain(pq.read_table(path)) for path in sorted(directory.glob("*.parquet"))}


def plain(table: pa.Table) -> pa.Table:
    """A table in the types of an incremental table."""
    text = (pa.types.is_string_view, pa.types.is_large_string)
    fields = [
        pa.field(f.name, pa.string()) if any(is_(f.type) for is_ in text) else f.with_nullable(True)
        for f in table.schema
    ]
    return table.cast(pa.schema(fields)).combine_chunks()


def ddl(table: pa.Table) -> str:
    """The columns of a table for CREATE TABLE."""
    names = {"int32": "INT", "int64": "BIGINT", "string": "STRING", "date32[day]": "DATE"}
    return ", ".join(
        f"{f.name} DECIMAL({f.type.precision}, {f.type.scale})"
        if pa.types.is_decimal(f.type)
        else f"{f.name} {names[str(f.type)]}"
        for f in table.schema
    )


class Refresh:
    """The tables as they should be, and batches of whole orders."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._random = np.random.default_rng(SEED)
        orders, items = tables["orders"], tables["lineitem"]
        keys = orders["o_orderkey"].to_numpy()
        self._arriving = np.sort(self._random.choice(keys, int(len(keys) * (1 - LOADED)), False))
        self._size = max(1, int(len(keys) * CHANGED / 2))
        self._waiting = {
            "orders": _chosen(orders, "o_orderkey", self._arriving),
            "lineitem": _chosen(items, "l_orderkey", self._arriving),
        }
        self.tables = dict(tables)
        self.tables["orders"] = _chosen(orders, "o_orderkey", self._arriving, False)
        self.tables["lineitem"] = _chosen(items, "l_orderkey", self._arriving, False)
        self._random.shuffle(self._arriving)

    def batches(self, count: int) -> Iterator[Changes]:
        """Batches one by one; the tables have changed when a batch is handed out."""
        for _ in range(count):
            arriving, self._arriving = np.split(self._arriving, [self._size])
            standing = self.tables["orders"]["o_orderkey"].to_numpy()
            leaving = self._random.choice(standing, self._size, replace=False)
            changes: Changes = {}
            for name, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
                rows = self.tables[name]
                changes[name] = {
                    "insert": _chosen(self._waiting[name], key, arriving),
                    "delete": _chosen(rows, key, leaving),
                }
                kept = _chosen(rows, key, leaving, False)
                self.tables[name] = pa.concat_tables([kept, changes[name]["insert"]])
            yield changes


def _chosen(rows: pa.Table, key: str, keys: np.ndarray, inside: bool = True) -> pa.Table:
    mask = pc.is_in(rows[key], pa.array(keys))
    return rows.filter(mask if inside else pc.invert(mask)).combine_chunks()


def _taken_back(batch: Changes) -> Changes:
    return {
        table: {"insert": change["delete"], "delete": change["insert"]}
        for table, change in batch.items()
    }


def measured(
    tables: Mapping[str, pa.Table], names: Sequence[str], batches: int, spark: SparkSession
) -> Iterator[Measured]:
    """The queries one after the other, over one set of tables."""
    refresh = Refresh(tables)
    loaded = dict(refresh.tables)
    changes = list(refresh.batches(WARMUPS + batches))
    with tempfile.TemporaryDirectory(prefix="spark_incr_tpch_") as directory:
        session = spark_incr.enable(spark.newSession(), Path(directory) / "state")
        plain_spark = Spark(spark)
        engine = spark_incr.engine(session)
        try:
            plain_spark.load(write_tables(refresh.tables, Path(directory) / "tables"))
            queries = {name: (QUERIES / f"{name}.sql").read_text("utf-8") for name in names}
            for _ in range(SPARK_WARMUPS):
                plain_spark.recompute(list(queries.values()))
            for name, table in loaded.items():
                session.sql(f"CREATE INCREMENTAL TABLE {name} ({ddl(table)})")
                for start in range(0, table.num_rows, LOAD_ROWS):
                    engine.commit({name: {"insert": table.slice(start, LOAD_ROWS)}})
            for name, query in queries.items():
                began = time.perf_counter()
                session.sql(f"CREATE INCREMENTAL VIEW {name} AS {query}")
                create_seconds = time.perf_counter() - began
                times, jobs = [], plain_spark.jobs()
                for batch in changes:
                    began = time.perf_counter()
                    engine.commit(batch)
                    answer = engine.view(name).to_arrow()
                    times.append((time.perf_counter() - began) * 1e3)
                jobs = plain_spark.jobs() - jobs
                plain_spark.recompute([query, query])
                spark_ms = [plain_spark.recompute([query]) for _ in range(RECOMPUTATIONS)]
                check_equal(answer, plain_spark.answers([query])[0], name)
                arrangements = engine.relation_named(name, "view").arrangements.values()
                state = sum(a.snapshot().nbytes() for a in arrangements)
                session.sql(f"DROP INCREMENTAL VIEW {name}")
                for batch in reversed(changes):
                    engine.commit(_taken_back(batch))
                yield Measured(name, times[WARMUPS:], median(spark_ms), create_seconds, state, jobs)
        finally:
            plain_spark.close()
            spark_incr.disable(session)


def table_of(found: Sequence[Measured]) -> str:
    """What each query costs per batch, and the bars."""
    columns = ["query", "ours ms", "Spark ms", "Spark/ours", "state MB", "create s", "jobs/batch"]
    rows: list[list[object]] = [
        [
            m.name,
            round(m.ours, 1),
            round(m.spark_ms),
            round(m.ratio, 1),
            round(m.state_bytes / 1e6, 1),
            round(m.create_seconds, 1),
            round(m.spark_jobs / (WARMUPS + len(m.ours_ms)), 1),
        ]
        for m in found
    ]
    mean = math.exp(sum(math.log(m.ratio) for m in found) / len(found))
    slowest = min(found, key=lambda m: m.ratio)
    return "\n".join(
        [
            text_table(columns, rows),
            "",
            f"Geometric mean: {mean:.1f} times faster (bar: {MEAN_BAR}).",
            f"Slowest: {slowest.name}, {slowest.ratio:.1f} times (bar: 1).",
        ]
    )


def write_plot(path: Path, found: Sequence[Measured], title: str) -> None:
    """Both times of every query on a logarithmic scale."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(11, 4.2), layout="constrained")
    places = np.arange(len(found))
    panel.bar(places - 0.2, [m.ours for m in found], 0.4, color="#0b6e4f", label="spark_incr")
    panel.bar(places + 0.2, [m.spark_ms for m in found], 0.4, color="#e4572e", label="Spark")
    for place, m in zip(places, found, strict=True):
        top = max(m.ours, m.spark_ms)
        panel.annotate(
            f"{m.ratio:.0f}×" if m.ratio >= 10 else f"{m.ratio:.1f}×",
            (place, top),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    panel.set_yscale("log")
    panel.set_xticks(places, [m.name for m in found], fontsize=9)
    panel.set_ylabel("milliseconds per batch")
    panel.set_title(title, fontsize=10, loc="left")
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.tpch", description=__doc__.split("\n")[0])
    every = sorted(path.stem for path in QUERIES.glob("q*.sql"))
    parser.add_argument("queries", nargs="*", default=every, help="q01 ... q22; all by default")
    parser.add_argument("--scale", default="0.1", help="TPC-H scale factor")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--plot", type=Path, help="draw a picture")
    parser.add_argument("--figures", type=Path, help="write the table into this document")
    options = parser.parse_args(arguments)
    found: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="spark_incr_tpch_") as directory:
        tables = generated(options.scale, Path(directory))
    for m in measured(tables, options.queries, options.batches, spark_session()):
        found.append(m)
        print(f"{m.name}: {m.ours:.1f} ms, Spark {m.spark_ms:.0f} ms", flush=True)
    machine = this_machine().text
    title = f"TPC-H at scale factor {options.scale}, medians of {options.batches} batches"
    print(f"{title}\n{machine}\n\n{table_of(found)}")
    if options.plot:
        write_plot(options.plot, found, f"{title}, each replacing 0.1% of the orders")
    if options.figures:
        text = f"{title}, on: {machine}.\n\n```text\n{table_of(found)}\n```"
        write_between(options.figures, BEGIN, END, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
