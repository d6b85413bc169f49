"""The time of every batch as a picture: one panel per benchmark, one line per contestant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.measure import Measurement

# Told apart also without colours: by their markers and by the labels at the lines.
_STYLES = (
    ("ours", "#0b6e4f", "o"),
    ("Spark", "#e4572e", "s"),
    ("DuckDB", "#3b6fb6", "^"),
)
_PANELS_PER_ROW = 4


def write_plot(path: Path, measurements: Sequence[Measurement], machine: str) -> None:
    """Milliseconds per batch on a logarithmic scale that all panels share."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    columns = min(_PANELS_PER_ROW, len(measurements))
    rows = -(-len(measurements) // columns)
    figure, axes = pyplot.subplots(
        rows,
        columns,
        figsize=(3.4 * columns, 3.1 * rows + 0.8),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    panels = axes.flatten()
    for panel, found in zip(panels, measurements, strict=False):
        lines = (found.ours_ms, found.spark_ms, found.duckdb_ms)
        for (label, color, marker), times in zip(_STYLES, lines, strict=True):
            numbers = range(1, len(times) + 1)
            middle = median(times)
            panel.plot(
                numbers,
                times,
                color=color,
                marker=marker,
                markersize=4,
                linewidth=1.4,
                label="spark_incr" if label == "ours" else label,
            )
            panel.annotate(
                f"{middle:,.0f}" if middle >= 10 else f"{middle:.1f}",
                (len(times), middle),
                xytext=(7, 0),
                textcoords="offset points",
                color=color,
                fontsize=9,
                fontweight="bold",
                va="center",
                annotation_clip=False,
            )
        panel.set_yscale("log")
        panel.set_title(found.name, fontsize=11, fontweight="bold", loc="left", pad=20)
        panel.text(
            0,
            1.03,
            f"{found.rows:,} rows, {found.changes:,} changed a batch",
            transform=panel.transAxes,
            fontsize=8,
            color="#555555",
        )
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_xmargin(0.06)
        panel.grid(axis="y", color="#dddddd", linewidth=0.7)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[len(measurements) :]:
        panel.set_visible(False)
    for panel in axes[:, 0]:
        panel.set_ylabel("milliseconds")
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    for panel in panels[max(0, len(measurements) - columns) : len(measurements)]:
        panel.set_xlabel("batch")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=11)
    figure.supxlabel(f"medians in bold; {machine}", fontsize=8, color="#555555")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
