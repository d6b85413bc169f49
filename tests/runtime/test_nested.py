"""A nested column is made of its parts, and NULL hides them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from spark_incr.runtime.nested import made_of, parts_of
from spark_incr.runtime.operators.generate import explode
from tests.grammar import hidden

STRUCT = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
COLUMNS = [
    pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}, {"a": 2, "b": []}], STRUCT),
    pa.array([[1, None], None, [], [2]], pa.list_(pa.int64())),
    pa.array([[("k", 1)], None, [], [("l", None), ("m", 2)]], pa.map_(pa.string(), pa.int32())),
    pa.array([[[("k", 1.0)]], None, [None], []], pa.list_(pa.map_(pa.string(), pa.float64()))),
]


@pytest.mark.parametrize("column", COLUMNS, ids=str)
@pytest.mark.parametrize("part", [slice(None), slice(1, 3), slice(2, 4), slice(0, 0)], ids=str)
def test_a_column_is_made_of_its_parts(column: pa.Array, part: slice) -> None:
    array = _deep(column[part])
    array.validate(full=True)
    assert array.equals(column[part])


def test_what_has_no_parts_is_flat() -> None:
    kinds: list[Any] = [pa.int32(), pa.string(), pa.struct([])]
    assert [parts_of(pa.array([], kind)) for kind in kinds] == [[], [], []]


@pytest.mark.parametrize("part", [slice(None), slice(1, 3), slice(2, 6), slice(0, 0)], ids=str)
@pytest.mark.parametrize("outer", [False, True])
def test_lists_are_exploded_without_what_null_hides(part: slice, outer: bool) -> None:
    lists = pa.array([[1, None], [2], [3, 4], [], [5], [6]], pa.list_(pa.int64()))
    seen = hidden(lists, pa.array([True, False, True, False, True, False]))[part]
    kinds = [pa.int32(), pa.int64()]
    found, expected = (
        explode(column, kinds, places=True, outer=outer)
        for column in (seen, pa.array(seen.to_pylist(), lists.type))
    )
    assert found[0].tolist() == expected[0].tolist()
    assert found[1] == expected[1]


def _deep(array: pa.Array) -> pa.Array:
    parts = parts_of(array)
    return made_of(array, [_deep(part) for part in parts]) if parts else array
