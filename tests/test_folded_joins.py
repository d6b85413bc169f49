"""Aggregates over a join that is kept folded: partial states times weights, to the last digit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from spark_incr.compile import compile_plan
from spark_incr.plan.environment import Known
from spark_incr.plan.explain import explain_plan
from spark_incr.plan.nodes import Node
from spark_incr.serve.analysis import SparkAnalysis
from tests.oracle import check, delete, insert, parse_schema, update

TABLES = {"l": "a INT, b INT, k INT", "r": "k INT, c STRING, d INT, e BIGINT, p DECIMAL(38,2)"}
HUGE = Decimal("9999999999999999999999999999.99")
LARGE = 2**44

BATCHES = [
    insert("l", (1, 1, 10), (1, 2, 10), (2, 1, 10), (2, 1, 10), (3, 3, None), (None, 4, 20)),
    insert("r", (10, "x", 1, LARGE, HUGE), (10, "x", 1, -LARGE, HUGE), (10, "y", None, None, None)),
    {
        "l": {"insert": [(4, 1, 20), (1, 1, 10)], "delete": [(2, 1, 10)]},
        "r": {"insert": [(20, "x", 7, 5, Decimal("0.01")), (None, "z", 1, 1, HUGE)]},
    },
    update("r", ((10, "x", 1, LARGE, HUGE), (10, "x", 2, LARGE - 1, -HUGE))),
    update("r", ((20, "x", 7, 5, Decimal("0.01")), (10, "x", 7, 5, Decimal("0.01")))),
    delete("r", (10, "y", None, None, None), (10, "x", 1, -LARGE, HUGE)),
    {"l": {"delete": [(1, 1, 10), (1, 1, 10), (1, 2, 10), (2, 1, 10)]}},
    {"l": {"insert": [(1, 9, 10)]}, "r": {"delete": [(10, "x", 2, LARGE - 1, -HUGE)]}},
]

QUERIES = [
    "SELECT l.a, count(*) AS n, count(r.d) AS m, sum(r.d) AS s, avg(r.d) AS v FROM l JOIN r ON l.k = r.k GROUP BY l.a",
    "SELECT l.a, r.c, avg(r.e) AS v, sum(r.p) AS s FROM l JOIN r ON l.k = r.k GROUP BY l.a, r.c",
    "SELECT r.c, sum(l.b) AS s, count(*) AS n FROM l JOIN r ON l.k <=> r.k GROUP BY r.c",
    "SELECT count(*) AS n, sum(r.d) AS s, avg(r.p) AS v FROM l JOIN r ON l.k = r.k",
    "SELECT x.a, count(*) AS n, sum(y.b) AS s FROM l AS x JOIN l AS y ON x.k = y.k GROUP BY x.a",
    "SELECT r.k, count(*) AS n, sum(r.d) AS s FROM l JOIN r ON l.k = r.k AND l.b = r.d GROUP BY r.k",
]


@pytest.mark.parametrize("query", QUERIES)
def test_folded_join_follows_its_sides(spark: SparkSession, query: str) -> None:
    check(spark, TABLES, query, BATCHES, reopen=True)


@pytest.mark.parametrize(
    ("query", "folds"),
    [
        (QUERIES[0], "the right side of the join by k_2"),
        (QUERIES[2], "the left side of the join by k"),
        (QUERIES[0].replace("sum(r.d)", "max(r.d)"), None),
        (QUERIES[0].replace("sum(r.d)", "sum(CAST(r.d AS DOUBLE))"), None),
        (QUERIES[0].replace("sum(r.d)", "sum(l.b)"), None),
    ],
)
def test_a_side_is_folded_where_only_its_exact_sums_count(
    spark: SparkSession, query: str, folds: str | None
) -> None:
    explained = explain_plan(_plan(spark, query))
    assert re.findall(r"folds +(.*)", explained) == ([] if folds is None else [folds])


def _plan(spark: SparkSession, query: str) -> Node:
    schemas = {name: parse_schema(spark, ddl) for name, ddl in TABLES.items()}
    catalog = Relations({name: Known(name, schema) for name, schema in schemas.items()})
    return compile_plan(query, catalog, SparkAnalysis(spark))


@dataclass(frozen=True)
class Relations:
    known: Mapping[str, Known]

    def relation(self, parts: tuple[str, ...]) -> Known | None:
        return self.known.get(".".join(parts))
