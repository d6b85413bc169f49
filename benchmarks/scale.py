"""scale: the group-by over 10 M rows and 1 M keys against 1 M rows and 100,000 keys.

A batch of 10,000 inserts should cost what the batch costs, and not what the data would.
"""

from __future__ import annotations

from benchmarks.group_by import QUERY
from benchmarks.workload import Bar, Benchmark, Input, pairs

VALUES = 10_000


def benchmarks(divisor: int = 1) -> tuple[Benchmark, ...]:
    def grouped(name: str, rows: int, keys: int, *bars: Bar) -> Benchmark:
        draw = pairs("x", "y", keys // divisor, VALUES)
        table = Input("x INT, y INT", draw, rows // divisor, 10_000 // divisor)
        return Benchmark(name, {"s": table}, {"v": QUERY}, bars)

    return (
        grouped("scale-1m", 1_000_000, 100_000),
        grouped(
            "scale-10m",
            10_000_000,
            1_000_000,
            Bar("scale-1m", 0.5),
            Bar("Spark", 100),
            Bar("DuckDB", 10),
        ),
    )
