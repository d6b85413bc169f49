"""group-by: 1 M pairs of ints below 10,000, batches of 10,000 inserts, an average per key."""

from __future__ import annotations

from benchmarks.workload import Bar, Benchmark, Input, pairs

QUERY = "SELECT x, avg(y) AS mean FROM s GROUP BY x"
BARS = (Bar("Spark", 10), Bar("DuckDB", 1))


def numbers(divisor: int, inserts: int, deletes: int = 0) -> Input:
    """The table of the group-bys."""
    keys = 10_000 // divisor
    draw = pairs("x", "y", keys, keys)
    return Input("x INT, y INT", draw, 1_000_000 // divisor, inserts // divisor, deletes // divisor)


def benchmarks(divisor: int = 1) -> tuple[Benchmark, ...]:
    return (Benchmark("group-by", {"s": numbers(divisor, 10_000)}, {"v": QUERY}, BARS),)
