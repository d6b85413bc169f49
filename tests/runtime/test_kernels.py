"""Every kernel equals Spark, row by row: the same value, or the same error condition.

A group of expressions is compiled with the types that one Spark analysis tells, and evaluated on
the corners of its columns' types and on random rows. Rows on which we raise are kept from Spark
when values are compared; one of them is then shown to Spark alone, which must raise the same.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark.sql.types as T
import pytest
import sqlglot
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp

from spark_incr.errors import IncrementalError
from spark_incr.plan.types import arrow_type
from spark_incr.runtime.expressions import (
    KERNELS,
    Evaluate,
    Settings,
    compile_expression,
    subexpressions,
)
from spark_incr.runtime.expressions.quotients import quotient_array
from tests.grammar import hidden
from tests.runtime.kernel_cases import DOMAINS, GROUPS, OUTSIDE, domain_of

EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
LOCAL_EVALUATION = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
CORNER_ROWS = 150
WIDE = Context(prec=50)
ANSI = Settings()


@pytest.fixture(scope="module")
def cases(oracle: SparkSession) -> Callable[[str], list[Case]]:
    """The expressions of a group, compiled once."""
    return cache(lambda group: compiled(oracle, expressions_of(group)))


@pytest.fixture(scope="module")
def oracle(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark with its code generation, also for small local tables."""
    spark.conf.set(EXCLUDED_RULES, LOCAL_EVALUATION)
    yield spark
    spark.conf.unset(EXCLUDED_RULES)


@dataclass(frozen=True)
class Case:
    """An expression, its evaluator, and its place in the queries."""

    text: str
    evaluate: Evaluate
    type: T.DataType


def expressions_of(group: str) -> list[str]:
    lines = GROUPS[group].strip().splitlines()
    return [text.strip() for line in lines for text in line.split(" | ")]


def columns_of(texts: Sequence[str]) -> list[str]:
    trees = [sqlglot.parse_one(text, read="spark") for text in texts]
    return sorted({column.name for tree in trees for column in tree.find_all(exp.Column)}) or ["i1"]


def types_of(
    spark: SparkSession, columns: Sequence[str], texts: Sequence[str]
) -> dict[str, T.DataType]:
    """Spark's types of expressions, by one analysis."""
    fields = [T.StructField(name, domain_of(name).type) for name in columns]
    spark.createDataFrame([], T.StructType(fields)).createOrReplaceTempView("kernel_types")
    if not texts:
        return {}
    schema = spark.sql(f"SELECT {', '.join(texts)} FROM kernel_types").schema
    return dict(zip(texts, (field.dataType for field in schema), strict=True))


def compiled(spark: SparkSession, texts: Sequence[str], session: Settings = ANSI) -> list[Case]:
    """The expressions that have a kernel; with ANSI, every one must have."""
    trees = {text: sqlglot.parse_one(text, read="spark") for text in texts}
    asked = {part.sql("spark") for tree in trees.values() for part in subexpressions(tree)}
    names = columns_of(texts)
    known = types_of(spark, names, sorted(asked))
    whole = types_of(spark, names, list(texts))
    cases = []
    for text, tree in trees.items():
        evaluate = compile_expression(tree, lambda node: known[node.sql("spark")], session)
        assert evaluate is not None or not session.ansi, f"no kernel for {text}"
        if evaluate is not None:
            cases.append(Case(text, evaluate, whole[text]))
    return cases


def corner_table(names: Sequence[str]) -> pa.Table:
    """Corners of every column against each other, in an order that is always the same.

    The arrays begin at an offset, and where they are NULL a corner stands in the buffer.
    """
    shuffle = random.Random(7)
    columns = {}
    for name in names:
        pool = domain_of(name).corners
        values = [pool[k % len(pool)] for k in range(CORNER_ROWS)]
        shuffle.shuffle(values)
        full = pa.array(values, arrow_type(domain_of(name).type))
        present = pa.array([shuffle.random() > 0.15 for _ in values])
        columns[name] = hidden(full, present).slice(3)
    return pa.table(columns)


def random_tables(names: Sequence[str]) -> st.SearchStrategy[pa.Table]:
    row = st.tuples(*(st.none() | domain_of(name).random for name in names))

    def table(rows: list[tuple[Any, ...]]) -> pa.Table:
        return pa.table(
            {
                name: pa.array([r[k] for r in rows], arrow_type(domain_of(name).type))
                for k, name in enumerate(names)
            }
        )

    return st.lists(row, min_size=1, max_size=12).map(table)


def outcome(case: Case, columns: Mapping[str, pa.Array], n: int) -> pa.Array | str:
    """What we answer: an array, or the name of a condition."""
    try:
        found = case.evaluate(columns, n)
    except IncrementalError as raised:
        return raised.condition
    assert isinstance(found, pa.Array), case.text
    assert found.type == arrow_type(case.type), (case.text, found.type)
    assert len(found) == n, case.text
    found.validate(full=True)
    return found


def plain(array: pa.Array) -> list[Any]:
    """The values as Python has them; dates and times as numbers, since Python's end in 9999."""
    if pa.types.is_date(array.type):
        return array.view(pa.int32()).to_pylist()
    return (
        array.view(pa.int64()).to_pylist()
        if pa.types.is_timestamp(array.type)
        else array.to_pylist()
    )


def bits(value: Any) -> Any:
    """A value that is equal to another only if both are the same, with one NaN."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack("d", value)
    return value


def check(
    spark: SparkSession, cases: Sequence[Case], table: pa.Table, errors: int | None = None
) -> None:
    """Our outcomes equal Spark's on every row; of the errors, `errors` are tried if that is given."""
    columns = {name: table[name].chunk(0) for name in table.column_names}
    n = table.num_rows
    shown, raised, ours = {"__row": pa.array(range(n), pa.int32()), **columns}, [], []
    for k, case in enumerate(cases):
        found = outcome(case, columns, n)
        rows: list[pa.Array | str] = [found] * n
        if isinstance(found, str):
            rows = [
                outcome(case, {name: a.slice(r, 1) for name, a in columns.items()}, 1)
                for r in range(n)
            ]
            assert any(isinstance(row, str) for row in rows), f"{case.text} raises on no row alone"
            raised.append((k, rows))
            kept = pa.array([not isinstance(row, str) for row in rows])
            some = {name: array.filter(kept) for name, array in columns.items()}
            alone = outcome(case, some, kept.true_count)
            assert isinstance(alone, pa.Array), case.text
            found = alone.take(pa.array([v if b else None for v, b in zip(_ranks(kept), kept.to_pylist(), strict=True)], pa.int64()))  # fmt: skip
            shown[f"__kept{k}"] = kept
        ours.append(found)
    spark.createDataFrame(pa.table(shown)).createOrReplaceTempView("kernel_rows")
    texts = [
        f"IF(__kept{k}, {case.text}, NULL) AS r{k}"
        if f"__kept{k}" in shown
        else f"{case.text} AS r{k}"
        for k, case in enumerate(cases)
    ]
    theirs = spark.sql(f"SELECT {', '.join(texts)} FROM kernel_rows").toArrow()
    wrong = []
    for k, case in enumerate(cases):
        pairs = zip(plain(theirs[f"r{k}"].combine_chunks()), plain(ours[k]), strict=True)
        for r, (expected, actual) in enumerate(pairs):
            if bits(expected) != bits(actual):
                row = {name: plain(columns[name][r : r + 1]) for name in columns_of([case.text])}
                wrong.append(f"{case.text}: Spark {expected!r}, here {actual!r}, row {row}")
                break
    first = n % len(raised) if raised else 0
    for k, rows in [*raised[first:], *raised[:first]][:errors]:
        place = next(r for r in range(n) if isinstance(rows[r], str))
        condition = spark_condition(spark, cases[k].text, place)
        if condition != rows[place]:
            wrong.append(f"{cases[k].text}: Spark {condition}, here {rows[place]}, row {place}")
    assert not wrong, "\n".join(wrong)


def spark_condition(spark: SparkSession, text: str, place: int) -> str | None:
    """The condition that Spark raises for a row; the optimiser evaluates it, which is quick."""
    spark.conf.set(EXCLUDED_RULES, "")
    try:
        spark.sql(f"SELECT {text} FROM kernel_rows WHERE __row = {place}").collect()
    except PySparkException as raised:
        return (raised.getCondition() or "").partition(".")[0]
    finally:
        spark.conf.set(EXCLUDED_RULES, LOCAL_EVALUATION)
    return None


def _ranks(kept: pa.Array) -> list[int]:
    rank, found = -1, []
    for keep in kept.to_pylist():
        rank += keep
        found.append(rank)
    return found


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_equal_spark_on_corners(
    oracle: SparkSession, cases: Callable[[str], list[Case]], group: str
) -> None:
    check(oracle, cases(group), corner_table(columns_of(expressions_of(group))))


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_equal_spark_on_random_rows(
    oracle: SparkSession, cases: Callable[[str], list[Case]], group: str
) -> None:
    @settings(max_examples=3, database=None, suppress_health_check=list(HealthCheck))
    @given(random_tables(columns_of(expressions_of(group))))
    def law(table: pa.Table) -> None:
        check(oracle, cases(group), table, errors=4)

    law()


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_that_stay_without_ansi_equal_spark(oracle: SparkSession, group: str) -> None:
    oracle.conf.set("spark.sql.ansi.enabled", "false")
    try:
        texts = expressions_of(group)
        cases = compiled(oracle, texts, Settings(ansi=False))
        if cases:
            check(oracle, cases, corner_table(columns_of(texts)))
    finally:
        oracle.conf.unset("spark.sql.ansi.enabled")


def test_what_is_not_certain_has_no_kernel(oracle: SparkSession) -> None:
    for text in (text.strip() for text in OUTSIDE.replace("\n", " | ").split(" | ")):
        if text:
            tree = sqlglot.parse_one(text, read="spark")
            asked = [part.sql("spark") for part in subexpressions(tree)]
            known = types_of(oracle, [f"{letter}{k}" for letter in DOMAINS for k in (1, 2)], asked)
            found = compile_expression(
                tree, lambda node, known=known: known[node.sql("spark")], Settings()
            )  # type: ignore[misc]
            assert found is None, text


def test_the_time_zone_matters() -> None:
    tree = sqlglot.parse_one("hour(z1)", read="spark")
    elsewhere = Settings(time_zone="Europe/Paris")

    def types(node: exp.Expression) -> T.DataType:
        return T.TimestampType() if isinstance(node, exp.Column) else T.IntegerType()

    assert compile_expression(tree, types, Settings()) is not None
    assert compile_expression(tree, types, elsewhere) is None


def test_no_rows(cases: Callable[[str], list[Case]]) -> None:
    for group in GROUPS:
        none = corner_table(columns_of(expressions_of(group))).slice(0, 0)
        empty = {name: none[name].combine_chunks() for name in none.column_names}
        for case in cases(group):
            assert isinstance(outcome(case, empty, 0), pa.Array), case.text


@given(
    st.lists(st.tuples(st.integers(-(10**18), 10**18), st.integers(1, 10**17)), max_size=4),
    st.integers(6, 20),
    st.integers(-6, 6),
)
def test_quotients_are_rounded_at_39_digits_and_at_the_scale(
    pairs: list[tuple[int, int]], scale: int, shift: int
) -> None:
    def half_up(value: Fraction) -> int:
        return math.floor(abs(value) + Fraction(1, 2)) * (1 if value >= 0 else -1)

    steps = [half_up(Fraction(a, b) * Fraction(10) ** (39 + shift)) for a, b in pairs]
    expected = [half_up(Fraction(step, 10 ** (39 - scale))) for step in steps]
    left, right = (np.array([pair[k] for pair in pairs], np.int64) for k in (0, 1))
    assume(all(abs(value) < 10**38 for value in expected))
    found = quotient_array(left, right, shift, T.DecimalType(38, scale), None)
    assert [int(value.scaleb(scale, WIDE)) for value in found.to_pylist()] == expected


def test_every_kernel_is_described() -> None:
    assert all(words for words in KERNELS.values())
