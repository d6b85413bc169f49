"""Golden plans: what EXPLAIN and EXPLAIN SQL say of queries over a small shop.

Each file of fixtures/plans holds a query, its plan and its texts. `--update-golden` writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_incr.compile import Compiled, compile_query
from spark_incr.plan.environment import Known
from spark_incr.plan.explain import explain_plan
from spark_incr.plan.nodes import walk
from spark_incr.plan.scope import folded
from spark_incr.plan.texts import FIRST_BATCH, batch_of, stage_texts, texts_of
from spark_incr.serve.analysis import SparkAnalysis
from tests.oracle import parse_schema

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures" / "plans").glob("*.txt"))
PLAN, TEXTS = "\n\n-- EXPLAIN\n", "\n\n-- EXPLAIN SQL\n"

SHOP = {
    "customers": "id BIGINT, name STRING, country STRING",
    "orders": "id BIGINT, customer BIGINT, amount DECIMAL(10,2), weight DOUBLE, placed DATE",
}


class Shop:
    """The relations of the shop, as plans see them."""

    def __init__(self, spark: SparkSession) -> None:
        self._schemas = {name: parse_schema(spark, ddl) for name, ddl in SHOP.items()}

    def relation(self, parts: tuple[str, ...]) -> Known | None:
        name = folded(parts[-1])
        return Known(name, self._schemas[name], ("id",)) if name in self._schemas else None


@pytest.fixture(scope="module")
def shop(spark: SparkSession) -> Iterator[Shop]:
    for name, ddl in SHOP.items():
        spark.createDataFrame([], ddl).createOrReplaceTempView(name)
    yield Shop(spark)
    for name in SHOP:
        spark.catalog.dropTempView(name)


def compiled(spark: SparkSession, shop: Shop, query: str) -> Compiled:
    return compile_query(query, (), shop, SparkAnalysis(spark))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_plans_and_texts_are_as_recorded(
    spark: SparkSession, shop: Shop, path: Path, update_golden: bool
) -> None:
    recorded = path.read_text()
    query = recorded.split(PLAN)[0].strip()
    plan = compiled(spark, shop, query).plan
    written = f"{query}{PLAN}{explain_plan(plan)}{TEXTS}{stage_texts(plan)}\n"
    if update_golden:
        path.write_text(written)
    assert written == recorded or update_golden


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_a_plan_is_the_same_however_often_it_is_compiled(
    spark: SparkSession, shop: Shop, path: Path
) -> None:
    query = path.read_text().split(PLAN)[0]
    first, second = (compiled(spark, shop, query).plan for _ in range(2))
    assert explain_plan(first) == explain_plan(second)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_texts_read_only_what_is_there(spark: SparkSession, shop: Shop, path: Path) -> None:
    plan = compiled(spark, shop, path.read_text().split(PLAN)[0]).plan
    stages = texts_of(plan)
    there = {FIRST_BATCH, *map(batch_of, SHOP)}
    there |= {state.name for stage in stages for state in stage.states}
    assert len(stages) == len(set(walk(plan))) + 1
    for stage in stages:
        for text in stage.texts:
            assert set(text.reads) <= there, f"{text.name} reads what is not there"
            there.add(text.name)
