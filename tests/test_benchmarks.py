"""The benchmarks measure what they say: right answers at a tiny scale, and honest reports.

Nothing here depends on a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from benchmarks.contestants import DuckDB, Ours, Spark
from benchmarks.machine import this_machine
from benchmarks.measure import Measurement, check_equal, measure, write_tables
from benchmarks.plot import write_plot
from benchmarks.report import BEGIN, END, bars_of, figures_of, table_of, with_figures
from benchmarks.run import DIVISORS, chosen
from benchmarks.workload import Bar, Benchmark, Workload
from spark_incr.text_table import arrow_rows

pytest.importorskip("duckdb")

TINY = DIVISORS["tiny"]
EVERY = chosen([], TINY)
MEASURED = Measurement(
    "group-by", 1_000, 10, 1, [1.0, 3.0, 2.0], [1.0] * 3, [60.0] * 3, [2.0] * 3, 1.0, 10, 20, 30, 0
)


@pytest.fixture(scope="module")
def duckdb() -> Iterator[DuckDB]:
    found = DuckDB()
    yield found
    found.close()


@pytest.mark.parametrize("benchmark", EVERY, ids=lambda benchmark: benchmark.name)
def test_views_follow_without_a_spark_job_and_as_duckdb_says(
    benchmark: Benchmark, spark: SparkSession, duckdb: DuckDB, tmp_path: Path
) -> None:
    queries = list(benchmark.views.values())
    workload, plain = Workload(benchmark), Spark(spark)
    ours = Ours(spark, tmp_path / "state", benchmark)
    try:
        ours.load(workload.tables)
        jobs = plain.jobs()
        for changes in workload.batches(3):
            answers = ours.maintain(changes).answers
            duckdb.load(write_tables(workload.tables, tmp_path / "tables"))
            _, expected = duckdb.recompute(queries)
            for query, actual, other in zip(queries, answers, expected, strict=True):
                check_equal(actual, other, query)
        assert plain.jobs() == jobs
    finally:
        ours.close()


def test_the_three_are_measured(spark: SparkSession, duckdb: DuckDB) -> None:
    (benchmark,) = chosen(["max-distinct-deletes"], TINY)
    found = measure(benchmark, spark, duckdb, batches=1, warmups=1)
    assert found.spark_jobs == 0
    assert len(found.ours_ms) == len(found.spark_ms) == len(found.duckdb_ms) == 1
    assert 0 < found.state_bytes < found.peak_bytes


@pytest.mark.parametrize("benchmark", EVERY, ids=lambda benchmark: benchmark.name)
def test_batches_are_the_same_for_everybody_and_delete_what_is_there(benchmark: Benchmark) -> None:
    workload, again = Workload(benchmark), Workload(benchmark)
    bags = {name: Counter(arrow_rows(rows)) for name, rows in workload.tables.items()}
    for changes, same in zip(workload.batches(3), again.batches(3), strict=True):
        assert changes == same
        for name, sides in changes.items():
            leaving = Counter(arrow_rows(sides["delete"])) if "delete" in sides else Counter()
            assert leaving <= bags[name]
            bags[name] = bags[name] - leaving + Counter(arrow_rows(sides["insert"]))
        assert bags == {n: Counter(arrow_rows(rows)) for n, rows in workload.tables.items()}


def test_a_wrong_answer_is_noticed() -> None:
    right = pa.table({"k": [2, 1, None], "mean": [0.5, None, 1e9]})
    check_equal(right, right.take([1, 2, 0]), "the same rows in another order")
    check_equal(right, pa.table({"k": [1, 2, None], "mean": [None, 0.5, 1e9 + 0.5]}), "noise")
    for wrong in (
        right.slice(1),
        pa.table({"k": [2, 1, 3], "mean": [0.5, None, 1e9]}),
        pa.table({"k": [2, 1, None], "mean": [0.5, None, 1e9 + 2]}),
        pa.table({"k": [2, 1, None], "mean": [None, 0.5, 1e9]}),
        pa.table({"k": [2, 1, None], "mean": [0.5, 0.0, 1e9]}),
    ):
        with pytest.raises(AssertionError, match="here:"):
            check_equal(right, wrong, "here")


def test_bars_are_judged_by_medians() -> None:
    slower = replace(MEASURED, name="scale-10m", commit_ms=[9.0] * 3, spark_jobs=4)
    benchmarks = [
        Benchmark("group-by", {}, {}, (Bar("Spark", 20), Bar("DuckDB", 1), Bar("absent", 1))),
        Benchmark("scale-10m", {}, {}, (Bar("group-by", 0.5), Bar("group-by", 0.25))),
        Benchmark("not measured", {}, {}, (Bar("Spark", 1),)),
    ]
    lines = [line.split("  ") for line in bars_of(benchmarks, [MEASURED, slower]).split("\n")[2:]]
    assert [[part.strip() for part in line if part] for line in lines] == [
        ["group-by", "at least 20 times faster than Spark", "20.0 times", "met"],
        ["group-by", "not slower than DuckDB", "0.67 times", "NOT MET"],
        ["group-by", "no Spark job", "0", "met"],
        ["scale-10m", "at most 2 times the time of group-by", "3.33 times", "NOT MET"],
        ["scale-10m", "at most 4 times the time of group-by", "3.33 times", "met"],
        ["scale-10m", "no Spark job", "4", "NOT MET"],
    ]


def test_figures_replace_those_in_the_document(tmp_path: Path) -> None:
    table = table_of([MEASURED])
    assert "group-by   1,000  10" in table
    figures = figures_of(table, "bars", this_machine(), "medians", "benchmarks.png")
    document = with_figures(f"before\n{BEGIN}\nold\n{END}\nafter\n", figures)
    assert document.startswith(f"before\n{BEGIN}\nMeasured on ")
    assert document.endswith(f"```\n{END}\nafter\n")
    assert with_figures(document, figures) == document
    with pytest.raises(ValueError, match="no lines"):
        with_figures("nothing to replace", figures)


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "picture.png"
    write_plot(path, [replace(MEASURED, name=str(number)) for number in range(5)], "a machine")
    assert path.read_bytes().startswith(b"\x89PNG")
