"""The order of joins, by what the relations hold."""

from __future__ import annotations

from collections.abc import Iterator

import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from spark_incr.compile import compile_plan
from spark_incr.plan.environment import Known
from spark_incr.plan.nodes import Join, Node, Scan, walk
from spark_incr.plan.types import Field
from spark_incr.serve.analysis import SparkAnalysis
from tests.oracle import check, insert

KEY = T.LongType()
TABLES = {
    "facts": (Field("id", KEY), Field("store", KEY), Field("item", KEY)),
    "stores": (Field("store", KEY), Field("region", KEY)),
    "items": (Field("item", KEY), Field("kind", KEY)),
    "regions": (Field("region", KEY), Field("name", T.StringType())),
}
ROWS = {"facts": 1_000_000, "stores": 1_000, "items": 50_000, "regions": 5}
QUERY = """
SELECT r.name, i.kind FROM facts f, items i, regions r, stores s
WHERE f.store = s.store AND f.item = i.item AND s.region = r.region AND r.name = 'north'
"""


class Relations:
    def relation(self, parts: tuple[str, ...]) -> Known | None:
        return Known(parts[-1], TABLES[parts[-1]])


@pytest.fixture
def named(spark: SparkSession) -> Iterator[SparkSession]:
    for name, schema in TABLES.items():
        struct = T.StructType([T.StructField(f.name, f.type) for f in schema])
        spark.createDataFrame([], struct).createOrReplaceTempView(name)
    yield spark
    for name in TABLES:
        spark.catalog.dropTempView(name)


def order(plan: Node) -> list[str]:
    return [node.relation for node in walk(plan) if isinstance(node, Scan)]


def test_small_relations_come_first(named: SparkSession) -> None:
    sizes = {"region": 5, "store": 1_000, "item": 50_000, "name": 5, "kind": 10, "id": 1_000_000}

    def known(relation: str, column: str | None) -> int:
        return ROWS[relation] if column is None else min(sizes[column], ROWS[relation])

    plan = compile_plan(QUERY, Relations(), SparkAnalysis(named, counted=known))
    assert order(plan) == ["regions", "stores", "facts", "items"]
    assert all(node.keys for node in walk(plan) if isinstance(node, Join))


def test_the_order_is_remembered(named: SparkSession) -> None:
    sizes = {"facts": 10, "items": 10, "regions": 10_000, "stores": 10}
    first = SparkAnalysis(named, counted=lambda relation, column: sizes[relation])
    plan = compile_plan(QUERY, Relations(), first)
    again = SparkAnalysis(named, first.memory, counted=lambda relation, column: 1)
    assert compile_plan(QUERY, Relations(), again) == plan


def test_an_unknown_size_leaves_the_written_order(named: SparkSession) -> None:
    plan = compile_plan(QUERY, Relations(), SparkAnalysis(named))
    assert order(plan) == ["facts", "items", "stores", "regions"]


def test_equal_columns_are_compared_with_one_another(named: SparkSession) -> None:
    """regions shares a key with facts although nobody compares the two."""
    query = """SELECT f.id FROM facts f, regions r, stores s
               WHERE f.store = s.store AND s.store = r.region AND s.region > 1"""
    plan = compile_plan(query, Relations(), SparkAnalysis(named))
    assert order(plan) == ["facts", "regions", "stores"]
    assert all(node.keys for node in walk(plan) if isinstance(node, Join))


def test_ordered_joins_equal_recompute(spark: SparkSession) -> None:
    tables = {
        name: ", ".join(f"{f.name} {f.type.simpleString()}" for f in schema)
        for name, schema in TABLES.items()
    }
    filled = {
        "facts": {"insert": [(i, i % 7, i % 11) for i in range(60)] + [(1, None, None)] * 2},
        "stores": {"insert": [(i, i % 3) for i in range(7)] + [(None, 1), (3, None)]},
        "items": {"insert": [(i, i % 2) for i in range(11)] * 2},
        "regions": {"insert": [(0, "north"), (1, "north"), (2, "south"), (None, "north")]},
    }
    later = [
        {"regions": {"delete": [(1, "north")], "insert": [(2, "north")]}},
        insert("facts", (99, 2, 3), (None, 2, None)),
        {"stores": {"delete": [(2, 2)]}, "items": {"delete": [(3, 1)]}},
    ]
    check(spark, tables, QUERY, [filled, *later], created_after=1)
