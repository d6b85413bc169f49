"""Laws of change batches and of the stateful operators, without Spark.

Batches form a commutative group. An operator that is fed a history batch by batch gives in sum what
it gives for the whole at once, and what a naive model gives; the order of the batches is free.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyspark.sql.types as T
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_incr.plan.context import Context
from spark_incr.plan.nodes import Aggregate, Call, Join, JoinKind, Node, Project, Scan
from spark_incr.plan.scope import Names
from spark_incr.plan.stages import AggregateStage
from spark_incr.plan.types import Field, Schema, arrow_schema
from spark_incr.rules.incremental.maintain_aggregates import maintain_aggregates
from spark_incr.runtime import keys
from spark_incr.runtime.changes import (
    WEIGHT,
    add,
    consolidate,
    empty,
    inserted,
    negate,
    repeated,
    rows_of,
    with_weights,
)
from spark_incr.runtime.operators.aggregate import AggregateOperator
from spark_incr.runtime.operators.join import JoinOperator
from tests.grammar import rows_of as random_rows
from tests.grammar import schemas, table_of

MASKS = [0xFFFFFFFFFFFFFFFF, 0xF, 0x3 << 62]
Bag = Counter[Any]
Change = list[tuple[tuple[Any, ...], int]]


def frozen(value: Any) -> Any:
    """A value as a dict key, NaN equal to itself and -0.0 apart from 0.0."""
    if isinstance(value, float):
        return f"float {value!r}"
    if isinstance(value, dict):
        return tuple((k, frozen(v)) for k, v in value.items())
    if isinstance(value, list):
        return ("list", *map(frozen, value))
    return value


def bag(changes: pa.Table) -> dict[Any, int]:
    """The weight of each distinct row."""
    result: Counter[Any] = Counter()
    columns = [c.to_pylist() for c in changes.columns]
    for row in zip(*columns, strict=True):
        result[tuple(frozen(v) for v in row[:-1])] += row[-1]
    return {row: weight for row, weight in result.items() if weight}


def batch(schema: Schema, rows: Change) -> pa.Table:
    table = table_of(schema, [r for r, _ in rows])
    return with_weights(table, np.array([w for _, w in rows], dtype=np.int64))


@st.composite
def batches(draw: st.DrawFn, count: int = 2) -> list[pa.Table]:
    """Change batches of one random schema."""
    schema = draw(schemas(1, 3))
    result = []
    for _ in range(count):
        rows = draw(random_rows(schema))
        weight = draw(st.lists(st.integers(-3, 3), min_size=rows.num_rows, max_size=rows.num_rows))
        result.append(with_weights(rows, np.array(weight, dtype=np.int64)))
    return result


@given(batches(3), st.sampled_from(MASKS), st.randoms())
def test_change_batches_form_a_commutative_group(
    parts: list[pa.Table], mask: int, random: Any
) -> None:
    a, b, c = parts
    with mock.patch.object(keys, "HASH_MASK", np.uint64(mask)):
        assert bag(consolidate(add([add([a, b]), negate(b)]))) == bag(a)
        assert consolidate(add([a, negate(a)])).num_rows == 0
        assert bag(add([a, b])) == bag(add([b, a]))
        assert bag(add([add([a, b]), c])) == bag(add([a, add([b, c])]))
        once = consolidate(a)
        assert bag(once) == bag(a)
        assert once.num_rows == len(bag(a))
        assert bag(consolidate(once)) == bag(once)
        assert consolidate(once).num_rows == once.num_rows
        order = list(range(a.num_rows))
        random.shuffle(order)
        assert bag(consolidate(a.take(pa.array(order, pa.int64())))) == bag(once)
        assert bag(add([a, empty(rows_of(a).schema)])) == bag(a)


@given(batches(1))
def test_a_relation_is_its_rows_repeated(parts: list[pa.Table]) -> None:
    changes = consolidate(parts[0])
    positive = with_weights(rows_of(changes), np.abs(changes.column(WEIGHT).to_numpy()))
    assert bag(consolidate(inserted(repeated(positive)))) == bag(positive)


# Histories: a bag of rows grows and shrinks, never below nothing.


@st.composite
def histories(draw: st.DrawFn, rows: st.SearchStrategy[tuple[Any, ...]]) -> list[Change]:
    standing: list[tuple[Any, ...]] = []
    result: list[Change] = []
    for _ in range(draw(st.integers(1, 5))):
        arriving = draw(st.lists(rows, max_size=6))
        leaving = (
            draw(st.lists(st.integers(0, len(standing) - 1), unique=True, max_size=5))
            if standing
            else []
        )
        result.append([(r, 1) for r in arriving] + [(standing[i], -1) for i in leaving])
        standing = [r for i, r in enumerate(standing) if i not in set(leaving)] + arriving
    return result


def standing(history: Sequence[Change]) -> list[tuple[Any, ...]]:
    """The rows at the end of a history."""
    total: Counter[Any] = Counter()
    original: dict[Any, tuple[Any, ...]] = {}
    for row, weight in itertools.chain.from_iterable(history):
        key = tuple(frozen(v) for v in row)
        original[key] = row
        total[key] += weight
    return [original[key] for key, weight in total.items() for _ in range(weight)]


class Driver:
    """An operator under test: versions are made around each batch."""

    def __init__(self, operator: Any) -> None:
        self.operator = operator
        self.version = 0
        self.total = empty(operator.schema)

    def apply(self, *changes: pa.Table) -> pa.Table:
        self.version += 1
        for arrangement in self.operator.arrangements.values():
            arrangement.begin(self.version)
        change = self.operator.apply(*changes)
        self.total = consolidate(add([self.total, change]))
        return change


# Joins

KEY = T.IntegerType()
NUMBER = T.DoubleType()
LEFT: Schema = (Field("a", KEY), Field("x", NUMBER), Field("p", T.StringType()))
RIGHT: Schema = (Field("b", KEY), Field("y", NUMBER), Field("c", KEY))
LEFT_ROWS = st.tuples(
    st.sampled_from([None, 0, 1, 2]),
    st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5]),
    st.sampled_from(["", "p"]),
)
RIGHT_ROWS = st.tuples(
    st.sampled_from([None, 0, 1, 2]),
    st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5]),
    st.sampled_from([None, 0, 1]),
)
JOIN_KEYS: list[tuple[tuple[str, str], ...]] = [
    (("a", "b"),),
    (("x", "y"),),
    (("a", "b"), ("x", "y")),
    (("a", "b"), ("a", "c")),
    (),
]


def same_key(a: Any, b: Any, null_safe: bool) -> bool:
    if a is None or b is None:
        return null_safe and a is None and b is None
    return bool(a == b or (a != a and b != b))


def joined(
    left: list[Any], right: list[Any], on: tuple[tuple[str, str], ...], kind: JoinKind, safe: bool
) -> Bag:
    """The join by its definition."""
    places = [([f.name for f in LEFT].index(a), [f.name for f in RIGHT].index(b)) for a, b in on]

    def matches(a: Any, b: Any) -> bool:
        return all(same_key(a[i], b[j], safe) for i, j in places)

    rows: list[Any] = []
    for a in left:
        partners = [b for b in right if matches(a, b)]
        if kind is JoinKind.SEMI:
            rows += [a] if partners else []
        elif kind is JoinKind.ANTI:
            rows += [] if partners else [a]
        else:
            rows += [(*a, *b) for b in partners]
            if not partners and kind in (JoinKind.LEFT, JoinKind.FULL):
                rows.append((*a, None, None, None))
    if kind is JoinKind.FULL:
        rows += [(None, None, None, *b) for b in right if not any(matches(a, b) for a in left)]
    return Counter(tuple(frozen(v) for v in row) for row in rows)


@pytest.mark.parametrize(
    "kind",
    [JoinKind.INNER, JoinKind.LEFT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI],
    ids=lambda k: k.value,
)
@settings(max_examples=60)
@given(
    left=histories(LEFT_ROWS),
    right=histories(RIGHT_ROWS),
    on=st.sampled_from(JOIN_KEYS),
    safe=st.booleans(),
    mask=st.sampled_from(MASKS),
)
def test_joins_follow_their_definition(
    kind: JoinKind,
    left: list[Change],
    right: list[Change],
    on: tuple[tuple[str, str], ...],
    safe: bool,
    mask: int,
) -> None:
    schema = LEFT if kind.left_only else LEFT + RIGHT
    inputs = (Scan(LEFT, "l", ("a", "x", "p")), Scan(RIGHT, "r", ("b", "y", "c")))
    node = Join(schema, *inputs, on, kind, (safe,) * len(on))
    with mock.patch.object(keys, "HASH_MASK", np.uint64(mask)):
        driver = Driver(JoinOperator(node, {}))
        nothing: Change = []
        steps = list(itertools.zip_longest(left, right, fillvalue=nothing))
        for number, (here, there) in enumerate(steps):
            driver.apply(batch(LEFT, here), batch(RIGHT, there))
            a, b = standing(left[: number + 1]), standing(right[: number + 1])
            assert bag(driver.total) == dict(joined(a, b, on, kind, safe))
        whole = Driver(JoinOperator(node, {}))
        whole.apply(*(consolidated(s, h) for s, h in ((LEFT, left), (RIGHT, right))))
        assert bag(whole.total) == bag(driver.total)


def consolidated(schema: Schema, history: Sequence[Change]) -> pa.Table:
    return consolidate(add([empty(arrow_schema(schema)), *(batch(schema, b) for b in history)]))


# Aggregates

INPUT: Schema = (
    Field("k", T.StringType()),
    Field("g", T.DoubleType()),
    Field("i", T.IntegerType()),
    Field("l", T.LongType()),
    Field("d", T.DecimalType(10, 2)),
    Field("f", T.DoubleType()),
    Field("b", T.BooleanType()),
    Field("s", T.StringType()),
)
INPUT_ROWS = st.tuples(
    st.sampled_from([None, "", "a"]),
    st.sampled_from([None, 0.0, -0.0, float("nan")]),
    st.sampled_from([None, 0, 1, 2, -3]),
    st.sampled_from([None, 0, 5, -(2**40)]),
    st.sampled_from([None, Decimal("0.00"), Decimal("1.25"), Decimal("-3.10")]),
    st.sampled_from([None, 0.0, 0.5, -1.25, 2.0]),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, "", "x", "ä"]),
)
PLACE = {f.name: i for i, f in enumerate(INPUT)}


def present(rows: list[Any], *names: str) -> list[Any]:
    """The values of columns in the rows where none is NULL; of one column plainly."""
    values = [tuple(r[PLACE[n]] for n in names) for r in rows]
    kept = [v for v in values if None not in v]
    return [v[0] for v in kept] if len(names) == 1 else kept


def optional(function: Callable[[list[Any]], Any], name: str) -> Callable[[list[Any]], Any]:
    return lambda rows: function(v) if (v := present(rows, name)) else None


def rounded(number: Decimal, scale: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-scale), rounding="ROUND_HALF_UP")


def percentile(values: list[Any], fraction: float) -> float:
    ordered = sorted(map(float, values))
    position = (len(ordered) - 1) * fraction
    low, high = int(position), min(int(position) + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def xor(values: list[int]) -> int:
    result = 0
    for value in values:
        result ^= value
    return result


LONG, DOUBLE, BOOL = T.LongType(), T.DoubleType(), T.BooleanType()
SUM_OF_D, MEAN_OF_D = T.DecimalType(20, 2), T.DecimalType(14, 6)
Model = Callable[[list[Any]], Any]
CALLS: list[tuple[Call, Model]] = [
    (Call("n", "count", (), LONG), len),
    (Call("n_i", "count", ("i",), LONG), lambda r: len(present(r, "i"))),
    (Call("n_is", "count", ("i", "s"), LONG), lambda r: len(present(r, "i", "s"))),
    (
        Call("n_b", "count", (), LONG, condition="b"),
        lambda r: sum(1 for x in r if x[PLACE["b"]]),
    ),
    (Call("n_if", "count_if", ("b",), LONG), lambda r: sum(present(r, "b"))),
    (Call("nd", "count", ("i",), LONG, distinct=True), lambda r: len(set(present(r, "i")))),
    (
        Call("nd2", "count", ("i", "s"), LONG, distinct=True),
        lambda r: len(set(present(r, "i", "s"))),
    ),
    (Call("sum_i", "sum", ("i",), LONG), optional(sum, "i")),
    (Call("sum_l", "sum", ("l",), LONG), optional(sum, "l")),
    (Call("sum_d", "sum", ("d",), SUM_OF_D), optional(sum, "d")),
    (Call("sum_f", "sum", ("f",), DOUBLE), optional(sum, "f")),
    (
        Call("sumd_d", "sum", ("d",), SUM_OF_D, distinct=True),
        optional(lambda v: sum(set(v)), "d"),
    ),
    (Call("avg_i", "avg", ("i",), DOUBLE), optional(lambda v: sum(v) / len(v), "i")),
    (
        Call("avg_d", "avg", ("d",), MEAN_OF_D),
        optional(lambda v: rounded(sum(v, Decimal(0)) / len(v), 6), "d"),
    ),
    (Call("max_f", "max", ("f",), DOUBLE), optional(max, "f")),
    (Call("min_s", "min", ("s",), T.StringType()), optional(min, "s")),
    (Call("max_k", "max", ("k",), T.StringType()), optional(max, "k")),
    (Call("min_d", "min", ("d",), T.DecimalType(10, 2)), optional(min, "d")),
    (
        Call("max_i_b", "max", ("i",), T.IntegerType(), condition="b"),
        lambda r: max(present([x for x in r if x[PLACE["b"]]], "i"), default=None),
    ),
    (Call("every", "bool_and", ("b",), BOOL), optional(all, "b")),
    (Call("some", "bool_or", ("b",), BOOL), optional(any, "b")),
    (Call("xor", "bit_xor", ("i",), T.IntegerType()), optional(xor, "i")),
    (
        Call("list", "collect_list", ("s",), T.ArrayType(T.StringType())),
        lambda r: sorted(present(r, "s")),
    ),
    (
        Call("set_b", "collect_set", ("s",), T.ArrayType(T.StringType()), condition="b"),
        lambda r: sorted(set(present([x for x in r if x[PLACE["b"]]], "s"))),
    ),
    (
        Call("p", "percentile", ("f",), DOUBLE, parameters=(0.25,)),
        optional(lambda v: percentile(v, 0.25), "f"),
    ),
    (Call("med", "median", ("i",), DOUBLE), optional(lambda v: percentile(v, 0.5), "i")),
]
MODELS: Mapping[str, Model] = {call.name: model for call, model in CALLS}


def stage_of(group: tuple[str, ...], calls: Sequence[Call]) -> AggregateStage:
    """The stage that maintains some calls, as the rule makes it."""
    scan = Scan(INPUT, "t", tuple(f.name for f in INPUT))
    schema = (*(f for f in INPUT if f.name in group), *(Field(c.name, c.type) for c in calls))
    node = Aggregate(schema, scan, group, tuple(calls), not group)
    context = Context(None, Names({f.name for f in (*INPUT, *schema)}))  # type: ignore[arg-type]
    stage: Node = maintain_aggregates(node, context)
    assert isinstance(stage, AggregateStage)
    return stage


def masked(stage: AggregateStage, changes: pa.Table) -> pa.Table:
    """The input of a stage: FILTER is a CASE that stands in a projection below it."""
    if stage.input.names == tuple(f.name for f in INPUT):
        return changes
    columns = {n: changes.column(n) for n in changes.column_names}
    condition = columns["b"].to_pylist()
    assert isinstance(stage.input, Project)
    for field, expression in zip(stage.input.schema, stage.input.expressions, strict=True):
        if field.name not in columns:
            source = expression.args["ifs"][0].args["true"]
            of = (
                columns[source.name].to_pylist() if source.name in columns else [1] * len(condition)
            )
            kind = arrow_schema((field,)).field(0).type
            columns[field.name] = pa.chunked_array(
                [pa.array([v if c else None for v, c in zip(of, condition, strict=True)], kind)]
            )
    rows = pa.table({f.name: columns[f.name] for f in stage.input.schema})
    return with_weights(rows, changes.column(WEIGHT).to_numpy())


def aggregated(group: tuple[str, ...], calls: Sequence[Call], rows: list[Any]) -> Bag:
    """The aggregate by its definition."""
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        key = tuple(v + 0.0 if isinstance(v := row[PLACE[name]], float) else v for name in group)
        groups.setdefault(tuple(map(frozen, key)), []).append(row)
    if not group:
        groups.setdefault((), [])
    return Counter(
        (*key, *(frozen(MODELS[c.name](members)) for c in calls)) for key, members in groups.items()
    )


@pytest.mark.parametrize("group", [(), ("k",), ("g",), ("k", "g")], ids=",".join)
@settings(max_examples=60)
@given(
    history=histories(INPUT_ROWS),
    chosen=st.lists(st.sampled_from([c for c, _ in CALLS]), min_size=1, max_size=6, unique=True),
    mask=st.sampled_from(MASKS),
)
def test_aggregates_follow_their_definition(
    group: tuple[str, ...], history: list[Change], chosen: list[Call], mask: int
) -> None:
    calls = sorted(chosen, key=lambda c: [x.name for x, _ in CALLS].index(c.name))
    stage = stage_of(group, calls)
    with mock.patch.object(keys, "HASH_MASK", np.uint64(mask)):
        driver = Driver(AggregateOperator(stage, True))
        driver.apply(masked(stage, batch(INPUT, [])))
        assert bag(driver.total) == dict(aggregated(group, calls, []))
        for number, change in enumerate(history):
            driver.apply(masked(stage, consolidate(batch(INPUT, change))))
            rows = standing(history[: number + 1])
            assert bag(driver.total) == dict(aggregated(group, calls, rows))
        whole = Driver(AggregateOperator(stage, True))
        whole.apply(masked(stage, consolidated(INPUT, history)))
        assert bag(whole.total) == bag(driver.total)


@settings(max_examples=40)
@given(
    parts=st.lists(st.lists(INPUT_ROWS, max_size=5), min_size=2, max_size=4), random=st.randoms()
)
def test_the_order_of_batches_does_not_matter(parts: list[list[Any]], random: Any) -> None:
    calls = [call for call, _ in CALLS]
    stage = stage_of(("k",), calls)
    totals = []
    for _ in range(2):
        driver = Driver(AggregateOperator(stage, True))
        for rows in parts:
            driver.apply(masked(stage, consolidate(batch(INPUT, [(r, 1) for r in rows]))))
        totals.append(bag(driver.total))
        random.shuffle(parts)
        for rows in parts:
            random.shuffle(rows)
    assert totals[0] == totals[1]
