"""Rules: what each pack makes of a query, that it means the same, and that nothing slips through.

`tests/fixtures/rules/<rule>.sql` alternates a query and the plan after the rule's pack; each query
is also maintained over random data and compared with Spark.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from spark_incr import rules
from spark_incr.plan.build import build_plan
from spark_incr.plan.context import Context
from spark_incr.plan.environment import Known
from spark_incr.plan.explain import explain_plan
from spark_incr.plan.nodes import Aggregate, Filter, Node, Project, Scan, column, walk
from spark_incr.plan.scope import Names, folded
from spark_incr.plan.types import Field, Schema
from spark_incr.rules.executor import Pack, Rule, run_packs
from spark_incr.serve.analysis import SparkAnalysis
from spark_incr.sql.dialect import parse_query
from tests.fuzz import run
from tests.grammar import Example, history

FIXTURES = Path(__file__).parent.parent / "fixtures" / "rules"
RULES = [rule.__name__ for pack in rules.PACKS for rule in pack.rules]

TABLES: dict[str, Schema] = {
    "t": (
        Field("k", T.StringType()),
        Field("a", T.IntegerType()),
        Field("b", T.LongType()),
        Field("x", T.DoubleType()),
        Field("d", T.DecimalType(10, 2)),
    ),
    "u": (
        Field("k", T.StringType()),
        Field("c", T.ShortType()),
        Field("y", T.DoubleType()),
        Field("e", T.DecimalType(18, 6)),
    ),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A query of a fixture file and the plan that is expected."""

    comment: str
    query: str
    expected: str


def read_cases(rule: str) -> list[Case]:
    """The cases of a rule: comment lines, a query that ends with `;`, and the plan up to a rule."""
    text = (FIXTURES / f"{rule}.sql").read_text()
    result = []
    for block in re.split(r"^-{10,}\n", text, flags=re.MULTILINE):
        if block.strip():
            head, expected = block.strip().split(";\n", 1)
            lines = head.splitlines()
            comment = [line for line in lines if line.startswith("--")]
            query = "\n".join(line for line in lines if not line.startswith("--"))
            result.append(Case("\n".join(comment), query, expected.strip()))
    return result


def write_cases(rule: str, cases: list[Case]) -> None:
    blocks = [f"{c.comment}\n{c.query};\n\n{c.expected}\n" for c in cases]
    (FIXTURES / f"{rule}.sql").write_text(f"\n{'-' * 80}\n".join(blocks))


class Relations:
    """A catalog of the tables alone."""

    def relation(self, parts: tuple[str, ...]) -> Known | None:
        name = parts[-1]
        return Known(name, TABLES[name]) if name in TABLES else None


@pytest.fixture(scope="module")
def analysis(spark: SparkSession) -> Iterator[SparkAnalysis]:
    for name, schema in TABLES.items():
        struct = T.StructType([T.StructField(f.name, f.type) for f in schema])
        spark.createDataFrame([], struct).createOrReplaceTempView(name)
    yield SparkAnalysis(spark)
    for name in TABLES:
        spark.catalog.dropTempView(name)


def built(query: str, analysis: SparkAnalysis) -> tuple[Node, Context]:
    plan = build_plan(parse_query(query), Relations(), analysis)
    names = Names({folded(name) for node in walk(plan) for name in node.names})
    return plan, Context(analysis, names)


def packs_up_to(rule: str) -> tuple[Pack, ...]:
    """The packs until the one that holds the rule."""
    last = next(i for i, p in enumerate(rules.PACKS) if rule in [r.__name__ for r in p.rules])
    return rules.PACKS[: last + 1]


@pytest.mark.parametrize("rule", RULES)
def test_plans_are_those_of_the_fixture(
    rule: str, analysis: SparkAnalysis, update_golden: bool
) -> None:
    cases = read_cases(rule)
    assert cases
    actual = []
    for case in cases:
        plan, context = built(case.query, analysis)
        actual.append(explain_plan(run_packs(plan, packs_up_to(rule), context)))
    if update_golden:
        pairs = zip(cases, actual, strict=True)
        write_cases(rule, [dataclasses.replace(c, expected=a) for c, a in pairs])
    for case, plan_text in zip(read_cases(rule), actual, strict=True):
        assert plan_text == case.expected, case.query


@pytest.mark.parametrize("rule", RULES)
def test_a_pack_run_twice_changes_nothing(rule: str, analysis: SparkAnalysis) -> None:
    for case in read_cases(rule):
        plan, context = built(case.query, analysis)
        plan = run_packs(plan, packs_up_to(rule), context)
        assert run_packs(plan, (packs_up_to(rule)[-1],), context) == plan, case.query


@pytest.mark.parametrize("rule", RULES)
def test_rewritten_queries_mean_the_same(rule: str, spark: SparkSession) -> None:
    for number, case in enumerate(read_cases(rule)):
        batches = history(Random(number), TABLES)
        run(spark, Example(TABLES, case.query, batches, ()))


def test_every_rule_has_an_effect_in_its_fixture(analysis: SparkAnalysis) -> None:
    for rule in RULES:
        effective = 0
        for case in read_cases(rule):
            plan, context = built(case.query, analysis)
            packs = packs_up_to(rule)
            without = tuple(r for r in packs[-1].rules if r.__name__ != rule)
            other, other_context = built(case.query, analysis)
            all_rules = run_packs(plan, packs, context)
            some = (*packs[:-1], dataclasses.replace(packs[-1], rules=without))
            effective += run_packs(other, some, other_context) != all_rules
        assert effective, rule


# What a broken rule would do


def drop_a_column(node: Node, context: Context) -> Node:
    """Takes away a column that is read above."""
    if isinstance(node, Scan) and len(node.schema) > 1:
        return Scan(node.schema[:1], node.relation, node.columns[:1])
    return node


def read_what_is_not_there(node: Node, context: Context) -> Node:
    if isinstance(node, Filter):
        return dataclasses.replace(node, condition=column("nowhere"))
    return node


def rename_the_result(node: Node, context: Context) -> Node:
    if isinstance(node, Project):
        schema = tuple(Field(f"{f.name}_other", f.type) for f in node.schema)
        return dataclasses.replace(node, schema=schema)
    return node


def name_twice(node: Node, context: Context) -> Node:
    if isinstance(node, Project):
        first = node.schema[0]
        schema = tuple(Field(first.name, f.type) for f in node.schema)
        return dataclasses.replace(node, schema=schema)
    return node


def lose_a_key(node: Node, context: Context) -> Node:
    if isinstance(node, Aggregate):
        return dataclasses.replace(node, keys=("nowhere",))
    return node


@pytest.mark.parametrize(
    "broken", [drop_a_column, read_what_is_not_there, rename_the_result, name_twice, lose_a_key]
)
def test_a_broken_rule_is_caught_and_named(broken: Rule, analysis: SparkAnalysis) -> None:
    query = "SELECT a, n + 1 AS m FROM (SELECT a, count(b) AS n FROM t WHERE x > 1 GROUP BY a)"
    plan, context = built(query, analysis)
    with pytest.raises(AssertionError, match=broken.__name__):
        run_packs(plan, (Pack("broken", (broken,), once=True),), context)
