"""Random data, as hypothesis strategies.

Values come from small pools, so that keys repeat, groups vanish and come back, and rows occur
several times; each pool holds what is awkward for its type. Numbers that are summed are small
dyadic fractions where they are floats: Spark's own sum of those is exact, whatever its order.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from spark_incr.plan.types import Field, Schema, arrow_schema, arrow_type

UTC = dt.timezone.utc
STRUCT = T.StructType([T.StructField("x", T.IntegerType()), T.StructField("y", T.StringType())])

POOLS: dict[type[T.DataType], list[Any]] = {
    T.BooleanType: [True, False],
    T.ByteType: [0, 1, -1, 2, 7],
    T.ShortType: [0, 1, -1, 2, 300],
    T.IntegerType: [0, 1, 2, 3, -1, 70_000],
    T.LongType: [0, 1, 2, 3, -5, 3_000_000_000],
    T.FloatType: [0.0, -0.0, 0.5, 1.0, -1.5, 2.25, math.nan, math.inf, -math.inf],
    T.DoubleType: [0.0, -0.0, 0.5, 1.0, -1.5, 2.25, 1024.125, math.nan, math.inf, -math.inf],
    T.StringType: ["", "a", "b", "ab", "A", " a ", "ä", "Ä", "ß", "SS", "日本", "😀", "1", "a'b"],
    T.BinaryType: [b"", b"\x00", b"a", b"ab", b"\xff\x00"],
    T.DateType: [
        dt.date(1970, 1, 1),
        dt.date(1969, 12, 31),
        dt.date(2024, 2, 29),
        dt.date(2024, 3, 1),
        dt.date(1600, 1, 1),
    ],
    T.TimestampType: [
        dt.datetime(1970, 1, 1, tzinfo=UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        dt.datetime(2024, 2, 29, 12, 30, 15, 1, tzinfo=UTC),
        dt.datetime(2024, 2, 29, 12, 30, 15, tzinfo=UTC),
    ],
    T.TimestampNTZType: [
        dt.datetime(1970, 1, 1),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        dt.datetime(2024, 2, 29, 12, 30, 15, 1),
        dt.datetime(2024, 2, 29, 12, 30, 15),
    ],
    T.DayTimeIntervalType: [
        dt.timedelta(0),
        dt.timedelta(days=1),
        dt.timedelta(hours=24, microseconds=1),
        dt.timedelta(seconds=-1),
    ],
}

EXTREMES: dict[type[T.DataType], list[Any]] = {
    T.ByteType: [127, -128],
    T.ShortType: [2**15 - 1, -(2**15)],
    T.IntegerType: [2**31 - 1, -(2**31)],
    T.LongType: [2**63 - 1, -(2**63)],
}

DECIMALS = [
    T.DecimalType(1, 0),
    T.DecimalType(4, 2),
    T.DecimalType(10, 2),
    T.DecimalType(18, 6),
    T.DecimalType(20, 0),
    T.DecimalType(38, 10),
    T.DecimalType(38, 0),
]

MAP = T.MapType(T.StringType(), T.IntegerType())
ATOMIC: list[T.DataType] = [kind() for kind in POOLS] + list(DECIMALS)
NESTED: list[T.DataType] = [T.ArrayType(T.IntegerType()), STRUCT]


def pool(type_: T.DataType, extreme: bool = False) -> list[Any]:
    """The values of a type, without NULL."""
    if isinstance(type_, T.DecimalType):
        unit = Decimal(1).scaleb(-type_.scale)
        numbers = [Decimal(0) * unit, unit, -unit, 3 * unit, 7 * unit]
        if type_.precision - type_.scale > 1:
            numbers += [Decimal(12) + unit, Decimal(-12) - unit]
        if extreme:
            digits = tuple([9] * type_.precision)
            numbers += [Decimal((sign, digits, -type_.scale)) for sign in (0, 1)]
        return numbers
    if isinstance(type_, T.ArrayType):
        inner = pool(type_.elementType, extreme)
        return [[], inner[:1], [*inner[:1], None], inner[1:3], inner[2:0:-1], [None]]
    if isinstance(type_, T.MapType):
        return [[], [("a", 1)], [("x", 2), ("y", None)], [("y", None), ("x", 2)], [("x", 0)]]
    if isinstance(type_, T.StructType):
        first, *rest = [[None, *pool(f.dataType, extreme)[:3]] for f in type_.fields]
        names = [f.name for f in type_.fields]
        return [
            dict(zip(names, (a, *(r[i % len(r)] for r in rest)), strict=True))
            for i in range(3)
            for a in first
        ]
    return POOLS[type(type_)] + (EXTREMES.get(type(type_), []) if extreme else [])


def values_of(type_: T.DataType, extreme: bool = False) -> SearchStrategy[Any]:
    """A value of the type, or NULL."""
    return st.sampled_from([None, *pool(type_, extreme)])


def columns_of(
    type_: T.DataType, size: int | None = None, extreme: bool = False
) -> SearchStrategy[pa.Array]:
    """An Arrow column of the type."""
    least, most = (0, 12) if size is None else (size, size)
    return st.lists(values_of(type_, extreme), min_size=least, max_size=most).map(
        lambda v: pa.array(v, arrow_type(type_))
    )


def hidden(column: pa.Array, present: pa.Array) -> pa.Array:
    """The column, NULL where it is not present, with what it holds there still in its buffers."""
    absent = pc.invert(present)
    (masked,) = pa.StructArray.from_arrays([column], ["x"], mask=absent).flatten()
    return masked


@st.composite
def rows_of(draw: st.DrawFn, schema: Schema, max_size: int = 12, extreme: bool = False) -> pa.Table:
    """Rows of a schema, often the same row several times."""
    one = st.tuples(*(values_of(f.type, extreme) for f in schema))
    some = draw(st.lists(one, max_size=max_size))
    again = draw(st.lists(st.sampled_from(some), max_size=3)) if some else []
    return table_of(schema, [*some, *again])


def table_of(schema: Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    """Python rows as an Arrow table."""
    target = arrow_schema(schema)
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(target)]
    return pa.Table.from_arrays(columns, schema=target)


@st.composite
def schemas(
    draw: st.DrawFn, min_columns: int = 1, max_columns: int = 4, nested: bool = True
) -> Schema:
    """Columns c0, c1, ... of random types."""
    kinds = ATOMIC + (NESTED if nested else [])
    types = draw(st.lists(st.sampled_from(kinds), min_size=min_columns, max_size=max_columns))
    return tuple(Field(f"c{i}", t) for i, t in enumerate(types))
