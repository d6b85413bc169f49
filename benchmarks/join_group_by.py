"""join-group-by: two tables of 100,000 pairs, 10,000 inserts in each, an average over the join.

Keys are below 10,000, so a row meets ten rows of the other table: many to many.
"""

from __future__ import annotations

from benchmarks.workload import Bar, Benchmark, Input, pairs

QUERY = "SELECT s1.a, avg(s2.d) AS mean FROM s1 JOIN s2 ON s1.b = s2.c GROUP BY s1.a"
BARS = (Bar("Spark", 10), Bar("DuckDB", 1))


def tables(divisor: int, inserts: int, deletes: int = 0) -> dict[str, Input]:
    """The two tables of the joins."""
    keys, rows = 10_000 // divisor, 100_000 // divisor
    batch = (inserts // divisor, deletes // divisor)
    return {
        "s1": Input("a INT, b INT", pairs("a", "b", keys, keys), rows, *batch),
        "s2": Input("c INT, d INT", pairs("c", "d", keys, keys), rows, *batch),
    }


def benchmarks(divisor: int = 1) -> tuple[Benchmark, ...]:
    return (Benchmark("join-group-by", tables(divisor, 10_000), {"v": QUERY}, BARS),)
