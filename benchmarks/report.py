"""Measurements as text: the table, the bars, and the figures in the documentation."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.machine import Machine
from benchmarks.measure import Measurement
from benchmarks.workload import Bar, Benchmark
from spark_incr.text_table import text_table

BEGIN = "<!-- figures: written by python -m benchmarks.run -->"
END = "<!-- end of figures -->"
_COLUMNS = [
    "benchmark",
    "rows",
    "changes",
    "ours ms",
    "commit",
    "answer",
    "Spark ms",
    "DuckDB ms",
    "Spark/ours",
    "DuckDB/ours",
    "state MB",
    "peak MB",
    "load MB",
    "load s",
    "jobs",
]


def table_of(measurements: Sequence[Measurement]) -> str:
    """Medians per batch. Peaks are of the resident set: in a batch, and while loading."""
    return text_table(_COLUMNS, [_line(found) for found in measurements])


def _line(found: Measurement) -> list[object]:
    return [
        found.name,
        f"{found.rows:,}",
        f"{found.changes:,}",
        _short(found.ours),
        _short(median(found.commit_ms)),
        _short(median(found.answer_ms)),
        _short(found.spark),
        _short(found.duckdb),
        _short(found.spark / found.ours),
        _short(found.duckdb / found.ours),
        round(found.state_bytes / 1e6),
        round(found.peak_bytes / 1e6),
        round(found.load_peak_bytes / 1e6),
        round(found.load_seconds, 1),
        found.spark_jobs,
    ]


def _short(value: float) -> float:
    return round(value) if value >= 100 else round(value, 1 if value >= 10 else 2)


def bars_of(benchmarks: Sequence[Benchmark], measurements: Sequence[Measurement]) -> str:
    """Every bar of the benchmarks that were measured, with the figure, and whether it is met."""
    found = {measurement.name: measurement for measurement in measurements}
    rows: list[list[object]] = []
    for benchmark in benchmarks:
        for bar in benchmark.bars:
            ratio = ratio_of(bar, benchmark.name, found)
            if ratio is None:
                continue
            verdict = "met" if ratio >= bar.factor else "NOT MET"
            actual = ratio if bar.factor >= 1 else 1 / ratio
            rows.append([benchmark.name, bar.text, f"{_short(actual)} times", verdict])
        if benchmark.name in found:
            jobs = found[benchmark.name].spark_jobs
            rows.append([benchmark.name, "no Spark job", jobs, "NOT MET" if jobs else "met"])
    return text_table(["benchmark", "bar", "figure", "verdict"], rows)


def ratio_of(bar: Bar, name: str, found: Mapping[str, Measurement]) -> float | None:
    """How many times faster than the other of the bar; None if one of them was not measured."""
    if name not in found:
        return None
    ours = found[name]
    if bar.other in found:
        return found[bar.other].ours / ours.ours
    others = {"Spark": ours.spark, "DuckDB": ours.duckdb}
    return others[bar.other] / ours.ours if bar.other in others else None


def figures_of(table: str, bars: str, machine: Machine, run: str, plot: str | None) -> str:
    """What the documentation shows, in Markdown."""
    day = datetime.date.today().isoformat()
    image = [f"![Time per batch]({plot})", ""] if plot else []
    return "\n".join(
        [
            f"Measured on {day}, {run}, on: {machine.text}.",
            "",
            *image,
            "```text",
            table,
            "",
            bars,
            "```",
        ]
    )


def with_figures(document: str, figures: str, first: str = BEGIN, last: str = END) -> str:
    """A document with these figures between its marks."""
    before, begin, rest = document.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"the document has no lines {first} and {last}")
    return f"{before}{first}\n{figures}\n{last}{after}"


def write_between(path: Path, first: str, last: str, figures: str) -> None:
    """Replace what stands between two marks of a document."""
    text = with_figures(path.read_text(encoding="utf-8"), figures, first, last)
    path.write_text(text, encoding="utf-8")


def write_figures(path: Path, figures: str) -> None:
    write_between(path, BEGIN, END, figures)
