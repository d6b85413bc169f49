"""Hash and equality of keys: equal keys hash alike, and grouping is equality, also when most
hashes collide."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyspark.sql.types as T
from hypothesis import given
from hypothesis import strategies as st

from spark_incr.plan.types import arrow_type
from spark_incr.runtime import keys
from spark_incr.runtime.keys import canonical, equal_columns, group_rows, hash_columns
from tests.grammar import ATOMIC, MAP, NESTED, columns_of, hidden

DEEP: list[T.DataType] = [
    T.ArrayType(T.DoubleType()),
    T.ArrayType(T.ArrayType(T.StringType())),
    T.ArrayType(T.StructType([T.StructField("f", T.FloatType())])),
    T.StructType([T.StructField("a", T.ArrayType(T.DoubleType()))]),
    T.StructType([T.StructField("s", T.StructType([T.StructField("d", T.DoubleType())]))]),
    T.StructType([T.StructField("b", T.BinaryType()), T.StructField("t", T.BooleanType())]),
]
TYPES = st.sampled_from([*ATOMIC, *NESTED, *DEEP, MAP, T.ArrayType(MAP)])
MASKS = [0xFFFFFFFFFFFFFFFF, 0x3, 0xF, 0x3 << 62, 0x1000000000000001, 0]


def narrowed(mask: int) -> AbstractContextManager[Any]:
    """Hashes of few bits, so that different keys collide."""
    return mock.patch.object(keys, "HASH_MASK", np.uint64(mask))


def identity(value: Any) -> Any:
    """A Python key that is equal exactly for keys that are one key: bits, but one NaN."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1.0, value))
    if isinstance(value, dict):
        return tuple((k, identity(v)) for k, v in value.items())
    if isinstance(value, list):
        return ("list", *map(identity, value))
    return value


def normal(value: Any) -> Any:
    """The identity of the canonical key: -0.0 is 0.0, and a map is in the order of its keys."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value + 0.0, 1.0 if value == 0 else 0)
    if isinstance(value, dict):
        return tuple((k, normal(v)) for k, v in value.items())
    if isinstance(value, list):
        is_map = any(isinstance(entry, tuple) for entry in value)
        return ("list", *(sorted(value) if is_map else map(normal, value)))
    return value


@st.composite
def key_columns(draw: st.DrawFn) -> list[pa.Array]:
    """Several columns of one length; some are slices of longer ones, or hide values under NULL."""
    types = draw(st.lists(TYPES, min_size=1, max_size=3))
    size, before, after = draw(st.integers(0, 10)), draw(st.integers(0, 9)), draw(st.integers(0, 3))
    columns = []
    for type_ in types:
        column = draw(columns_of(type_, size + before + after))
        present = st.lists(st.booleans(), min_size=len(column), max_size=len(column))
        column = hidden(column, pa.array(draw(present), pa.bool_()))
        columns.append(column.slice(before, size))
    return columns


def rows(columns: list[pa.Array]) -> list[tuple[Any, ...]]:
    return list(zip(*(c.to_pylist() for c in columns), strict=True))


@given(key_columns(), st.randoms(), st.sampled_from(MASKS))
def test_equality_is_that_of_the_bits_with_one_nan_and_one_null(
    columns: Any, random: Any, mask: int
) -> None:
    length = len(columns[0])
    shuffled = [random.randrange(length) for _ in range(length)] if length else []
    others = [c.take(pa.array(shuffled, pa.int64())) for c in columns]
    mine = [identity(list(r)) for r in rows(columns)]
    theirs = [mine[i] for i in shuffled]
    equal = equal_columns(columns, others, length)
    assert equal.tolist() == [a == b for a, b in zip(mine, theirs, strict=True)]
    with narrowed(mask):
        here, there = hash_columns(columns, length), hash_columns(others, length)
    assert (here == there)[equal].all()


@given(key_columns(), st.sampled_from(MASKS))
def test_groups_are_the_classes_of_equal_keys(columns: Any, mask: int) -> None:
    length = len(columns[0])
    with narrowed(mask):
        groups = group_rows(columns, length)
        assert (groups.hashes == hash_columns(columns, length)[groups.first]).all()
    number = groups.of_rows().tolist()
    mine = [identity(list(r)) for r in rows(columns)]
    assert groups.count == len(set(mine))
    assert len(set(zip(number, mine, strict=True))) == groups.count
    assert sorted(groups.order.tolist()) == list(range(length))
    assert groups.total(np.ones(length, np.int64)).tolist() == groups.sizes().tolist()


@given(key_columns())
def test_canonical_keys_differ_only_where_spark_sees_a_difference(columns: Any) -> None:
    length = len(columns[0])
    clean = [canonical(c) for c in columns]
    assert [c.type for c in clean] == [c.type for c in columns]
    for column in clean:
        column.validate(full=True)
    expected = [normal(list(r)) for r in rows(columns)]
    groups = group_rows(clean, length)
    assert groups.count == len(set(expected))
    assert [normal(list(r)) for r in rows(clean)] == expected
    again = [canonical(c) for c in clean]
    assert equal_columns(again, clean, length).all()


@given(st.lists(st.text(max_size=3) | st.just("x" * 5000) | st.just("x" * 4999 + "y"), max_size=6))
def test_long_strings_are_keys_too(texts: list[str]) -> None:
    column = pa.array(texts, pa.string())
    assert group_rows([column], len(texts)).count == len(set(texts))


def test_hashes_of_small_integers_spread() -> None:
    for type_ in (T.LongType(), T.IntegerType()):
        hashes = hash_columns([pa.array(range(10_000), arrow_type(type_))], 10_000)
        assert len(np.unique(hashes >> np.uint64(40))) > 9_900
        assert len(np.unique(hashes & np.uint64(0xFFFFFF))) > 9_900
