"""Random data, as hypothesis strategies, and random queries over it.

Values come from small pools, so that keys repeat, groups vanish and come back, and rows occur
several times; each pool holds what is awkward for its type. Numbers that are summed are small
dyadic fractions where they are floats: Spark's own sum of those is exact, whatever its order.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
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
    T.StringType: ["", "a", "b", "ab", "A", " a ", "ä", "日本", "😀", "1", "a'b"],
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


# Queries. A column has a kind, which says what may be done with it:
#   int float dec str bin bool date ts ntz arr struct   values of these types
#   real     a float whose sum depends on the order of its terms
#   approx   a float that came from such a sum: it may be shown, never compared
#   bag      a collected list, whose order is free
#   shown    anything else that may be shown and nothing more

KINDS: dict[type[T.DataType], str] = {
    T.BooleanType: "bool",
    T.ByteType: "int",
    T.ShortType: "int",
    T.IntegerType: "int",
    T.LongType: "int",
    T.FloatType: "float",
    T.DoubleType: "float",
    T.DecimalType: "dec",
    T.StringType: "str",
    T.BinaryType: "bin",
    T.DateType: "date",
    T.TimestampType: "ts",
    T.TimestampNTZType: "ntz",
    T.ArrayType: "arr",
    T.StructType: "struct",
}
COMPARABLE = [
    "int",
    "float",
    "real",
    "dec",
    "str",
    "bin",
    "bool",
    "date",
    "ts",
    "ntz",
    "arr",
    "struct",
]
JOINS = ["INNER"] * 6 + ["LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"]

# Window functions with the kind of the result. Those of the first list look at the place of a row
# and are drawn over a total order only; the others give the same for rows that tie.
PLACED: list[tuple[str, str]] = [
    ("row_number()", "int"),
    ("ntile(3)", "int"),
    ("lag({k})", "{k}"),
    ("lead({k}, 2)", "{k}"),
    ("lag({int}, 1, 7)", "int"),
    ("first_value({k})", "{k}"),
    ("last_value({k})", "{k}"),
    ("last_value({k}) IGNORE NULLS", "{k}"),
    ("nth_value({k}, 2)", "{k}"),
]
RANKED: list[tuple[str, str]] = [
    ("rank()", "int"),
    ("dense_rank()", "int"),
    ("percent_rank()", "approx"),
    ("cume_dist()", "approx"),
]
FRAMED: list[tuple[str, str]] = [
    ("count(*)", "int"),
    ("count({k})", "int"),
    ("sum({int})", "int"),
    ("sum(6 DIV {0:int}) FILTER (WHERE {0:int} <> 0)", "int"),
    ("sum({dec})", "dec"),
    ("sum({float})", "approx"),
    ("avg({int})", "approx"),
    ("min({k})", "{k}"),
    ("max({k})", "{k}"),
    ("count_if({bool})", "int"),
]
FRAMES = [
    "",
    "",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
]

SET_OPERATIONS = ["UNION ALL"] * 4 + "UNION,INTERSECT,INTERSECT ALL,EXCEPT,EXCEPT ALL".split(",")

LITERALS: dict[str, list[str]] = {
    "int": ["0", "1", "2", "(-1)"],
    "float": ["0.0D", "0.5D", "1.0D"],
    "real": ["0.1D", "1.0D"],
    "dec": ["0.0", "1.50", "(-2.125)"],
    "str": ["''", "'a'", "'ab'", "'日本'"],
    "bin": ["X''", "X'61'"],
    "bool": ["true", "false"],
    "date": ["DATE'1970-01-01'", "DATE'2024-02-29'"],
    "ts": ["TIMESTAMP'1970-01-01 00:00:00'", "TIMESTAMP'2024-02-29 12:30:15'"],
    "ntz": ["TIMESTAMP_NTZ'1970-01-01 00:00:00'", "TIMESTAMP_NTZ'2024-02-29 12:30:15'"],
    "arr": ["array(1, 2)", "array(0)"],
    "struct": ["named_struct('x', 1, 'y', 'a')"],
}

# Templates of expressions: {kind} stands for an operand of that kind.
SCALARS: dict[str, list[str]] = {
    "int": [
        "CAST({int} AS BIGINT) + {int}",
        "{int} - {int}",
        "CAST({int} AS BIGINT) * {int}",
        "-{int}",
        "abs({int})",
        "{int} % NULLIF({int}, 0)",
        "{int} DIV NULLIF({int}, 0)",
        "CASE WHEN {bool} THEN {int} ELSE {int} END",
        "CASE WHEN {bool} THEN {int} WHEN {bool} THEN {int} END",
        "CASE {str} WHEN {str} THEN {int} ELSE {int} END",
        "COALESCE({int}, {int})",
        "NULLIF({int}, {int})",
        "IF({bool}, {int}, {int})",
        "greatest({int}, {int})",
        "CAST({bool} AS INT)",
        "length({str})",
        "locate('a', {str})",
        "year({date})",
        "month({ts})",
        "datediff({date}, {date})",
        "hour({ts})",
        "minute({ntz})",
        "size({arr})",
        "({struct}).x",
        "{int} & {int}",
        "try_element_at({arr}, 1)",
        "octet_length({bin})",
        "nvl2({str}, {int}, {int})",
    ],
    "float": [
        "{float} + {float}",
        "{float} - {float}",
        "-{float}",
        "abs({float})",
        "CAST({int} AS DOUBLE)",
        "CASE WHEN {bool} THEN {float} ELSE {float} END",
        "COALESCE({float}, {float})",
        "nanvl({float}, {float})",
        "least({float}, {float})",
    ],
    "real": [
        "{float} * {float}",
        "{real} / NULLIF({real}, 0D)",
        "{int} / NULLIF({int}, 0)",
        "sqrt(abs({float}))",
        "round({real}, 1)",
        "CASE WHEN {bool} THEN {real} END",
        "{float}",
    ],
    "dec": [
        "{dec} + {dec}",
        "{dec} - {dec}",
        "{dec} * {dec}",
        "{dec} / NULLIF({dec}, 0)",
        "-{dec}",
        "abs({dec})",
        "round({dec}, 1)",
        "CAST({int} AS DECIMAL(20,2))",
        "CASE WHEN {bool} THEN {dec} ELSE {dec} END",
        "COALESCE({dec}, {dec})",
        "{dec} + {int}",
    ],
    "str": [
        "concat({str}, {str})",
        "{str} || '-'",
        "upper({str})",
        "lower({str})",
        "trim({str})",
        "substring({str}, 1, 1)",
        "replace({str}, 'a', 'b')",
        "concat_ws(',', {str}, {str})",
        "CASE WHEN {bool} THEN {str} ELSE {str} END",
        "COALESCE({str}, {str})",
        "NULLIF({str}, {str})",
        "CAST({int} AS STRING)",
        "CAST({date} AS STRING)",
        "CAST({bool} AS STRING)",
        "CAST({dec} AS STRING)",
        "({struct}).y",
        "reverse({str})",
        "lpad({str}, 3, '*')",
        "date_format({ts}, 'yyyy-MM')",
    ],
    "bool": [
        "{int} = {int}",
        "{int} < {int}",
        "{int} <> {int}",
        "{int} <=> {int}",
        "{float} >= {float}",
        "{real} > {real}",
        "{int} < {float}",
        "{dec} <= {dec}",
        "{dec} = {int}",
        "{str} = {str}",
        "{str} < {str}",
        "{date} > {date}",
        "{ts} < {ts}",
        "{ntz} <= {ntz}",
        "{bin} = {bin}",
        "{arr} = {arr}",
        "{struct} = {struct}",
        "{str} IS NULL",
        "{int} IS NOT NULL",
        "{float} IS NOT NULL",
        "isnan({float})",
        "{bool} AND {bool}",
        "{bool} OR {bool}",
        "NOT {bool}",
        "{int} IN (0, 1, {int})",
        "{str} NOT IN ('a', 'b')",
        "{str} IN ('a', NULL)",
        "{int} BETWEEN {int} AND {int}",
        "{str} LIKE 'a%'",
        "{str} RLIKE '^a'",
        "startswith({str}, {str})",
        "array_contains({arr}, 1)",
        "{0:int} <> 0 AND 6 / {0:int} > 1",
    ],
    "date": [
        "date_add({date}, 1)",
        "date_add({date}, CAST({int} % 5 AS INT))",
        "trunc({date}, 'MM')",
        "last_day({date})",
        "COALESCE({date}, {date})",
        "CAST({ts} AS DATE)",
        "CASE WHEN {bool} THEN {date} END",
    ],
    "ts": [
        "date_trunc('HOUR', {ts})",
        "COALESCE({ts}, {ts})",
        "CAST({date} AS TIMESTAMP)",
        "{ts} + INTERVAL 1 HOUR",
    ],
    "ntz": ["COALESCE({ntz}, {ntz})", "CASE WHEN {bool} THEN {ntz} END"],
    "bin": ["COALESCE({bin}, {bin})", "CAST({str} AS BINARY)"],
    "arr": [
        "COALESCE({arr}, {arr})",
        "array({int} % 10, 1)",
        "sort_array({arr})",
        "transform({arr}, e -> e + 1)",
        "filter({arr}, e -> e > 0)",
    ],
    "struct": ["named_struct('x', {int} % 10, 'y', {str})", "COALESCE({struct}, {struct})"],
}  # fmt: skip

# Templates of aggregates with the kind of the result; {k} is an operand of any comparable kind.
AGGREGATES: list[tuple[str, str]] = [
    ("count(*)", "int"),
    ("count({k})", "int"),
    ("count({k}, {k})", "int"),
    ("count_if({bool})", "int"),
    ("sum({int})", "int"),
    ("sum({float})", "float"),
    ("sum({real})", "approx"),
    ("sum({dec})", "dec"),
    ("avg({int})", "approx"),
    ("avg({float})", "approx"),
    ("avg({dec})", "dec"),
    ("min({k})", "{k}"),
    ("max({k})", "{k}"),
    ("count(DISTINCT {k})", "int"),
    ("count(DISTINCT {k}, {k})", "int"),
    ("sum(DISTINCT {int})", "int"),
    ("sum(DISTINCT {float})", "float"),
    ("sum(DISTINCT {dec})", "dec"),
    ("avg(DISTINCT {int})", "approx"),
    ("avg(DISTINCT {dec})", "dec"),
    ("var_pop({int})", "approx"),
    ("var_samp({float})", "approx"),
    ("variance({dec})", "approx"),
    ("stddev({int})", "approx"),
    ("stddev_pop({float})", "approx"),
    ("stddev_samp({dec})", "approx"),
    ("covar_pop({float}, {int})", "approx"),
    ("covar_samp({int}, {int})", "approx"),
    ("corr({float}, {int})", "approx"),
    ("bool_and({bool})", "bool"),
    ("bool_or({bool})", "bool"),
    ("every({bool})", "bool"),
    ("some({bool})", "bool"),
    ("bit_and({int})", "int"),
    ("bit_or({int})", "int"),
    ("bit_xor({int})", "int"),
    ("collect_list({k})", "bag"),
    ("collect_set({k})", "bag"),
    ("collect_list(DISTINCT {k})", "bag"),
    ("array_agg({k})", "bag"),
    ("percentile({int}, 0.5)", "approx"),
    ("percentile({float}, 0.3)", "approx"),
    ("percentile({int}, array(0.25, 1.0))", "shown"),
    ("median({int})", "approx"),
    ("median({dec})", "approx"),
    ("var_pop(DISTINCT {int})", "approx"),
]


@dataclass(frozen=True)
class Column:
    """A column that an expression may read: how it is written, and its kind."""

    text: str
    kind: str


@dataclass(frozen=True)
class Select:
    """A query and the kinds of its columns by name."""

    text: str
    columns: tuple[Column, ...]


Scope = Sequence[Column]
_SLOT = re.compile(r"\{(?:(\d):)?(\w+)\}")


class Queries:
    """Draws queries over tables."""

    def __init__(self, random: Random, tables: Mapping[str, Schema]) -> None:
        self.random = random
        self.tables = tables
        self.ctes: dict[str, Select] = {}
        self._number = 0

    def choose(self, options: Sequence[Any]) -> Any:
        return self.random.choice(options)

    def chance(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    # Expressions

    def filled(self, template: str, scope: Scope, depth: int) -> str:
        """The template with operands; `{0:int}` is one operand wherever it stands."""
        shared: dict[str, str] = {}

        def operand(slot: re.Match[str]) -> str:
            if slot[1] is None:
                return self.expression(scope, slot[2], depth)
            if slot[1] not in shared:
                shared[slot[1]] = self.expression(scope, slot[2], depth)
            return shared[slot[1]]

        return _SLOT.sub(operand, template)

    def expression(self, scope: Scope, kind: str, depth: int) -> str:
        """An expression of a kind, in parentheses where it is compound."""
        columns = [c.text for c in scope if c.kind == kind]
        if columns and (depth <= 0 or self.chance(2)):
            return str(self.choose(columns))
        if depth <= 0 or self.chance(6):
            return str(self.choose([*columns, *LITERALS[kind]]))
        present = {c.kind for c in scope}
        reading = [t for t in SCALARS[kind] if {m[1] for m in _SLOT.findall(t)} <= present]
        templates = reading if reading and not self.chance(4) else SCALARS[kind]
        return f"({self.filled(self.choose(templates), scope, depth - 1)})"

    def value(self, scope: Scope, depth: int) -> Column:
        """Some expression, most often over the kinds that there are."""
        own = [c.kind for c in scope if c.kind in COMPARABLE]
        shown = [c for c in scope if c.kind not in COMPARABLE]
        if shown and self.chance(2):
            chosen: Column = self.choose(shown)
            return chosen
        kind = self.choose(own) if own and not self.chance(4) else self.choose(COMPARABLE)
        return Column(self.expression(scope, kind, depth), kind)

    def aggregate(self, scope: Scope) -> Column:
        noisy = [c for c in scope if c.kind == "approx"]
        if noisy and self.chance(2):
            function = self.choose(["sum", "avg", "min", "max", "count"])
            result = "int" if function == "count" else "approx"
            return Column(f"{function}({self.choose(noisy).text})", result)
        template, result = self.choose(AGGREGATES)
        own = [c.kind for c in scope if c.kind in COMPARABLE]
        kind = self.choose(own or ["int"])
        template = template.replace("{k}", "{" + kind + "}")
        text = self.filled(template, scope, self.choose([0, 0, 1]))
        if own and self.chance(8):
            by, chosen = (self.choose([c for c in scope if c.kind in COMPARABLE]) for _ in "ab")
            # The value is part of the order, so that nothing else ties.
            order = f"named_struct('by', {by.text}, 'chosen', {chosen.text})"
            text = f"{self.choose(['min_by', 'max_by'])}({chosen.text}, {order})"
            result = chosen.kind
        if "FILTER" not in text and self.chance(5):
            text += f" FILTER (WHERE {self.expression(scope, 'bool', 1)})"
        return Column(text, result.replace("{k}", kind))

    # FROM

    def relation(self, depth: int) -> tuple[str, list[Column], str]:
        """Something to select from, its columns and its alias."""
        alias = self.name("r")
        if self.ctes and self.chance(3):
            name = self.choose(sorted(self.ctes))
            text, columns = name, self.ctes[name].columns
        elif depth > 0 and self.chance(2):
            inner = self.query(depth - 1)
            text, columns = f"({inner.text})", inner.columns
        else:
            name = self.choose(sorted(self.tables))
            text = name
            columns = tuple(Column(f.name, KINDS[type(f.type)]) for f in self.tables[name])
        return f"{text} AS {alias}", [Column(f"{alias}.{c.text}", c.kind) for c in columns], alias

    def joined(self, depth: int) -> tuple[str, list[Column]]:
        text, scope, alias = self.relation(depth)
        for _ in range(self.choose([0, 0, 0, 1, 1, 2])):
            other, columns, other_alias = self.relation(depth - 1)
            names = {
                c.text.split(".", 1)[1]: c.kind for c in scope if c.text.startswith(alias + ".")
            }
            shared = [
                n
                for n, kind in ((c.text.split(".", 1)[1], c.kind) for c in columns)
                if names.get(n) == kind and kind in COMPARABLE
            ]
            if shared and self.chance(4) and text.count(" JOIN ") == 0:
                name = self.choose(shared)
                text += f" JOIN {other} USING ({name})"
            else:
                kind = self.choose(JOINS)
                text += f" {kind} JOIN {other} ON {self.condition(scope, columns)}"
                columns = [] if kind in ("LEFT SEMI", "LEFT ANTI") else columns
            scope = scope + columns
            alias = other_alias
        return text, scope

    def condition(self, left: Scope, right: Scope) -> str:
        """A join condition, most often with an equality of columns."""
        parts = []
        kinds = [c.kind for c in left if c.kind in COMPARABLE]
        pairs = [(a, b) for a in left for b in right if a.kind == b.kind and a.kind in COMPARABLE]
        mixed = [
            (a, b)
            for a in left
            for b in right
            if {a.kind, b.kind} <= {"int", "float", "dec"} and a.kind != b.kind
        ]
        for _ in range(self.choose([1, 1, 1, 2])):
            if mixed and self.chance(5):
                a, b = self.choose(mixed)
                parts.append(f"{a.text} = {b.text}")
            elif pairs:
                a, b = self.choose(pairs)
                parts.append(f"{a.text} = {b.text}")
            elif kinds:
                kind = self.choose(kinds)
                here, there = self.expression(left, kind, 1), self.expression(right, kind, 1)
                parts.append(f"{here} = {there}")
        if not parts or self.chance(4):
            parts.append(self.expression([*left, *right], "bool", 1))
        return " AND ".join(parts)

    # SELECT

    def query(self, depth: int) -> Select:
        form = self.choose(
            """plain plain group group group scalar distinct union window window generator
            first pivot""".split()
        )
        if form == "union" and depth > 0:
            return self.union(depth)
        if form == "first" and depth > 0:
            return self.first(depth)
        if form == "pivot":
            return self.pivot(depth)
        text, scope = self.joined(depth)
        where = f" WHERE {self.predicate(scope)}" if self.chance(3) else ""
        if form in ("group", "scalar"):
            return self.grouped(text + where, scope, form == "scalar")
        if form == "window":
            return self.windowed(text + where, scope)
        if form == "generator":
            return self.generated(text, scope)
        if form == "plain" and self.chance(6) and " JOIN " not in text:
            columns = tuple(Column(c.text.split(".", 1)[1], c.kind) for c in scope)
            return Select(f"SELECT * FROM {text}{where}", columns)
        items = [self.value(scope, self.choose([0, 1, 2])) for _ in range(self.choose([1, 2, 3]))]
        if self.chance(6):
            kind = self.choose(["int", "int", "str", "date"])
            items.append(Column(self.subquery(scope, kind), kind))
        if form == "distinct":
            items = [i for i in items if i.kind in COMPARABLE] or [Column("1", "int")]
        return self.select("DISTINCT " if form == "distinct" else "", items, text + where)

    def windowed(self, rest: str, scope: Scope) -> Select:
        """Window functions over a FROM clause, at times qualified."""
        usable = [c for c in scope if c.kind in COMPARABLE]
        if not usable:
            return self.select("", [self.value(scope, 0)], rest)
        total = len(usable) == len(scope)
        partition = [self.choose(usable).text for _ in range(self.choose([0, 1, 1, 2]))]
        items = [self.value(scope, 0)]
        for _ in range(self.choose([1, 1, 2, 3])):
            order, frame = [self.choose(usable).text], self.choose(FRAMES)
            if total and self.chance(2):
                template, kind = self.choose([*PLACED, *FRAMED])
                order = [c.text for c in self.random.sample(usable, len(usable))]
            else:
                template, kind = self.choose([*RANKED, *FRAMED])
                frame = (
                    frame if "ROWS BETWEEN 1" not in frame and "CURRENT ROW" not in frame else ""
                )
            if template.split("(")[0] in ("row_number", "ntile", "lag", "lead", "rank",
                                          "dense_rank", "percent_rank", "cume_dist"):  # fmt: skip
                frame = ""
            own = self.choose(usable).kind
            call = self.filled(template.replace("{k}", "{" + own + "}"), scope, 0)
            ways = self.choose([["", " DESC", " NULLS LAST", " DESC NULLS FIRST"], [""]])
            keys = ", ".join(text + self.choose(ways) for text in order)
            by = f"PARTITION BY {', '.join(partition)} " if partition else ""
            over = f"{call} OVER ({by}ORDER BY {keys}{frame})"
            if template in [t for t, _ in FRAMED] and self.chance(4):
                over = f"{call} OVER ({by.strip()})"
            items.append(Column(over, kind.replace("{k}", own)))
        if total and self.chance(6):
            keys = ", ".join(c.text for c in usable)
            by = f"PARTITION BY {', '.join(partition)} " if partition else ""
            rest += f" QUALIFY row_number() OVER ({by}ORDER BY {keys}) < 3"
        return self.select("", items, rest)

    def generated(self, text: str, scope: Scope) -> Select:
        """The elements of an array beside the row that holds it."""
        array = self.expression(scope, "arr", 1)
        alias, name, place = self.name("g"), self.name("e"), self.name("p")
        form = self.choose(["explode", "posexplode", "lateral", "outer"])
        made = [Column(f"{alias}.{name}", "int")]
        if form == "posexplode":
            text += f" LATERAL VIEW posexplode({array}) {alias} AS {place}, {name}"
            made.append(Column(f"{alias}.{place}", "int"))
        elif form == "lateral" and " JOIN " not in text:
            text += f", LATERAL explode({array}) AS {alias}({name})"
        else:
            outer = "OUTER " if form == "outer" else ""
            text += f" LATERAL VIEW {outer}explode({array}) {alias} AS {name}"
        whole = [*scope, *made]
        if self.chance(2):
            return self.grouped(text, whole, self.chance(4))
        items = [self.value(whole, self.choose([0, 1])) for _ in range(self.choose([1, 2]))]
        return self.select("", [*items, *made], text)

    def first(self, depth: int) -> Select:
        """The first rows of a query, in an order of all its columns."""
        inner = self.query(depth - 1)
        columns = [c for c in inner.columns if c.kind in COMPARABLE]
        if not columns:
            return inner
        alias = self.name("f")
        names = ", ".join(f"{alias}.{c.text}" for c in columns)
        ways = ["", " DESC", " NULLS LAST", " ASC NULLS FIRST"]
        order = [f"{alias}.{c.text}{self.choose(ways)}" for c in columns]
        self.random.shuffle(order)
        offset = f" OFFSET {self.choose([1, 2])}" if self.chance(4) else ""
        text = f"SELECT {names} FROM ({inner.text}) AS {alias} ORDER BY {', '.join(order)}"
        return Select(f"{text} LIMIT {self.choose([0, 1, 2, 5])}{offset}", tuple(columns))

    def pivot(self, depth: int) -> Select:
        """Values of a column as columns."""
        text, scope, _ = self.relation(depth)
        keys = [c for c in scope if c.kind in COMPARABLE]
        by = [c for c in keys if c.kind in ("int", "str", "bool", "date")]
        if not by:
            return self.select("", [self.value(scope, 0)], text)
        subject, key, value = self.choose(by), self.choose(keys), self.choose(keys)
        source = f"SELECT {key.text} AS g, {subject.text} AS p, {value.text} AS v FROM {text}"
        numbers = [("sum", value.kind), ("avg", "dec" if value.kind == "dec" else "approx")]
        options = [("count", "int"), ("max", value.kind), ("min", value.kind)]
        options += numbers if value.kind in ("int", "dec") else []
        calls = [self.choose(options) for _ in range(self.choose([1, 1, 2]))]
        literals = LITERALS[subject.kind][:2]
        names = [self.name("a") for _ in literals]
        chosen = ", ".join(f"{v} AS {n}" for v, n in zip(literals, names, strict=True))
        listed = ", ".join(f"{f}(v) AS c{i}" for i, (f, _) in enumerate(calls))
        made = [
            Column(n if len(calls) == 1 else f"{n}_c{i}", kind)
            for n in names
            for i, (_, kind) in enumerate(calls)
        ]
        shown = [Column("g", key.kind), *made]
        pivoted = f"({source}) PIVOT ({listed} FOR p IN ({chosen}))"
        return self.select("", shown, pivoted)

    def subquery(self, scope: Scope, kind: str) -> str:
        """A scalar subquery that gives one row, correlated or not."""
        text, columns, _ = self.relation(0)
        own = [c.text for c in columns if c.kind == kind]
        if not own:
            return self.expression(scope, kind, 0)
        pairs = [
            (a.text, b.text)
            for a in scope
            for b in columns
            if a.kind == b.kind and a.kind in COMPARABLE
        ]
        where = ""
        if pairs and not self.chance(3):
            mine, theirs = self.choose(pairs)
            where = f" WHERE {theirs} {self.choose(['=', '=', '<=>', '<'])} {mine}"
        value = self.choose(own)
        if kind == "int" and self.chance(4):
            return f"(SELECT count({value}) FROM {text}{where})"
        return f"(SELECT {self.choose(['max', 'min'])}({value}) FROM {text}{where})"

    def predicate(self, scope: Scope) -> str:
        """A condition of WHERE, at times with a subquery."""
        if self.chance(8):
            kind = self.choose([c.kind for c in scope if c.kind in COMPARABLE] or ["int"])
            mine = self.expression(scope, kind, 0)
            return f"{mine} {self.choose(['=', '<', '>='])} {self.subquery(scope, kind)}"
        if self.chance(5):
            text, columns, _ = self.relation(0)
            pairs = [
                (a.text, b.text)
                for a in scope
                for b in columns
                if a.kind == b.kind and a.kind in COMPARABLE
            ]
            if pairs:
                mine, theirs = self.choose(pairs)
                form = self.choose(["IN", "NOT IN", "EXISTS", "NOT EXISTS"])
                if "EXISTS" in form:
                    return f"{form} (SELECT 1 FROM {text} WHERE {theirs} = {mine})"
                return f"{mine} {form} (SELECT {theirs} FROM {text})"
        return self.expression(scope, "bool", 2)

    def select(self, distinct: str, items: Sequence[Column], rest: str) -> Select:
        names = [self.name("a") for _ in items]
        listed = ", ".join(f"{i.text} AS {n}" for i, n in zip(items, names, strict=True))
        columns = tuple(Column(n, i.kind) for i, n in zip(items, names, strict=True))
        return Select(f"SELECT {distinct}{listed} FROM {rest}", columns)

    def grouped(self, rest: str, scope: Scope, scalar: bool) -> Select:
        usable = [c for c in scope if c.kind in COMPARABLE]
        keys: list[Column] = []
        if not scalar:
            for _ in range(self.choose([1, 1, 2, 3])):
                if usable and not self.chance(3):
                    keys.append(self.choose(usable))
                else:
                    kind = self.choose([c.kind for c in usable] or ["int"])
                    keys.append(Column(self.expression(scope, kind, 1), kind))
            keys = list({k.text: k for k in keys}.values())
        calls = [
            self.aggregate(scope)
            for _ in range(self.choose([0, 1, 1, 2, 3] if keys else [1, 2, 3]))
        ]
        if keys and self.chance(6):
            key = self.choose(keys)
            function = self.choose(["any_value", "first", "last", "max", "count", "min"])
            calls.append(
                Column(f"{function}({key.text})", "int" if function == "count" else key.kind)
            )
        if calls and self.chance(6):
            # An expression over aggregates and keys.
            number = self.expression([c for c in [*keys, *calls] if c.kind == "int"], "int", 1)
            calls.append(Column(number, "int"))
        shown = [k for k in keys if not self.chance(5)]
        items = [*shown, *calls] or [Column("count(*)", "int")]
        names = [self.name("a") for _ in items]
        group = ""
        if keys:
            style = self.choose(["text", "text", "position", "alias", "all", "sets"])
            # Over sets a key is not the same in all rows of a group.
            chosen = ("any_value(", "first(", "last(")
            if style == "sets" and any(c.text.startswith(chosen) for c in calls):
                style = "text"
            if style == "sets" and all(_not_a_position(k.text) == k.text for k in keys):
                written = ", ".join(k.text for k in keys)
                parts = [f"({', '.join(k.text for k in keys[:n])})" for n in range(len(keys) + 1)]
                group = self.choose(
                    [
                        f" GROUP BY ROLLUP ({written})",
                        f" GROUP BY CUBE ({written})",
                        f" GROUP BY GROUPING SETS ({', '.join(parts)})",
                    ]
                )
            elif style == "all" and shown == keys and all(k.text not in ("0", "1") for k in keys):
                group = " GROUP BY ALL"
            else:
                written = [
                    (str(shown.index(k) + 1) if style == "position" else names[shown.index(k)])
                    if k in shown and style in ("position", "alias")
                    else _not_a_position(k.text)
                    for k in keys
                ]
                group = f" GROUP BY {', '.join(written)}"
        having = ""
        if self.chance(4):
            over = [c for c in [*keys, *calls] if c.kind in COMPARABLE]
            having = f" HAVING {self.expression(over, 'bool', 1)}"
        listed = ", ".join(f"{i.text} AS {n}" for i, n in zip(items, names, strict=True))
        columns = tuple(Column(n, i.kind) for i, n in zip(items, names, strict=True))
        return Select(f"SELECT {listed} FROM {rest}{group}{having}", columns)

    def union(self, depth: int) -> Select:
        left = self.query(depth - 1)
        columns = [c for c in left.columns if c.kind in LITERALS]
        if not columns:
            return left
        text, scope = self.joined(0)
        other = [Column(self.expression(scope, c.kind, 1), c.kind) for c in columns]
        right = self.select("", other, text)
        alias = self.name("u")
        names = ", ".join(f"{alias}.{c.text}" for c in columns)
        word = self.choose(SET_OPERATIONS)
        return Select(
            f"SELECT {names} FROM ({left.text}) AS {alias} {word} {right.text}", tuple(columns)
        )

    def whole(self) -> Select:
        """A query, with CTEs in front."""
        written = []
        self.ctes = {}
        for _ in range(self.choose([0, 0, 0, 1, 2])):
            inner = self.query(1)
            name = self.name("w")
            written.append(f"{name} AS ({inner.text})")
            self.ctes[name] = inner
        result = self.query(self.choose([0, 1, 1, 2]))
        if written:
            return Select(f"WITH {', '.join(written)} {result.text}", result.columns)
        return result


def _not_a_position(text: str) -> str:
    return f"({text} + 0)" if re.fullmatch(r"\(*-?\d+\)*", text) else text


# Histories

Row = tuple[Any, ...]
Batch = dict[str, dict[str, list[Row]]]


@dataclass(frozen=True)
class Example:
    """Tables, a query over them, and the batches that change them."""

    tables: Mapping[str, Schema]
    query: str
    batches: Sequence[Batch]
    unordered: tuple[str, ...]


def examples(random: Random, count: int) -> list[Example]:
    """Examples over the same tables and batches, which a source of random numbers determines."""
    tables = {f"t{i}": _schema(random) for i in range(random.choice([1, 1, 2, 2, 3]))}
    batches = history(random, tables)
    queries = Queries(random, tables)
    result = []
    for _ in range(count):
        query = queries.whole()
        unordered = tuple(c.text for c in query.columns if c.kind == "bag")
        result.append(Example(tables, query.text, batches, unordered))
    return result


def _schema(random: Random) -> Schema:
    types = random.choices(ATOMIC, k=random.randint(2, 5))
    if random.randrange(3) == 0:
        types[-1] = random.choice(NESTED)
    return tuple(Field(f"c{i}", t) for i, t in enumerate(types))


def _value(random: Random, type_: T.DataType, extreme: bool) -> Any:
    return random.choice([None, *pool(type_, extreme)])


def history(random: Random, tables: Mapping[str, Schema]) -> list[Batch]:
    """Batches that can be applied one after the other."""
    extreme = random.randrange(15) == 0
    rows: dict[str, list[Row]] = {name: [] for name in tables}
    batches: list[Batch] = []
    kinds = ["change", "change", "change", "update", "undo", "empty", "clear"]
    for number in range(random.randint(2, 4)):
        kind = "change" if number == 0 else random.choice(kinds)
        batch: Batch = {}
        if kind == "undo":
            for name, sides in batches[-1].items():
                batch[name] = {"insert": list(sides["delete"]), "delete": list(sides["insert"])}
        elif kind != "empty":
            for name, schema in tables.items():
                if random.randrange(5):
                    size = 0 if kind == "clear" else 12 if number == 0 else 4
                    batch[name] = _change(random, schema, rows[name], kind, size, extreme)
        for name, sides in batch.items():
            for row in sides["delete"]:
                del rows[name][[repr(r) for r in rows[name]].index(repr(row))]
            rows[name] += sides["insert"]
        batches.append(batch)
    return batches


def _change(
    random: Random, schema: Schema, rows: list[Row], kind: str, size: int, extreme: bool
) -> dict[str, list[Row]]:
    count = len(rows) if kind == "clear" else min(len(rows), random.randrange(5))
    delete = random.sample(rows, count)
    if kind == "update":
        # One column of each deleted row changes.
        at = random.randrange(len(schema))
        other = _value(random, schema[at].type, extreme)
        return {"insert": [(*r[:at], other, *r[at + 1 :]) for r in delete], "delete": delete}
    insert = [
        tuple(_value(random, f.type, extreme) for f in schema)
        for _ in range(random.randint(0, size))
    ]
    if insert and random.randrange(2):
        insert += [insert[0]] * random.randint(1, 3)
    return {"insert": insert, "delete": delete}
