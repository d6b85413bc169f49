"""deletes: 5,000 inserts and 5,000 deletes of existing rows a batch.

The two averages again, and max with count(DISTINCT), which have no inverse: what a deleted maximum
leaves behind has to be known.
"""

from __future__ import annotations

from benchmarks import group_by, join_group_by
from benchmarks.workload import Bar, Benchmark

MAX_DISTINCT = "SELECT x, max(y) AS top, count(DISTINCT y) AS n FROM s GROUP BY x"


def benchmarks(divisor: int = 1) -> tuple[Benchmark, ...]:
    numbers = {"s": group_by.numbers(divisor, 5_000, 5_000)}
    joined = join_group_by.tables(divisor, 5_000, 5_000)
    return (
        Benchmark("group-by-deletes", numbers, {"v": group_by.QUERY}, group_by.BARS),
        Benchmark("join-group-by-deletes", joined, {"v": join_group_by.QUERY}, join_group_by.BARS),
        Benchmark(
            "max-distinct-deletes",
            numbers,
            {"v": MAX_DISTINCT},
            (Bar("Spark", 20), Bar("DuckDB", 2)),
        ),
    )
