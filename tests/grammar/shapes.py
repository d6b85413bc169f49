"""Queries that reshape others: set operations, first rows, PIVOT, UNPIVOT, recursion."""

from __future__ import annotations

from collections.abc import Sequence

from tests.grammar.drawing import Column, Draw, Scope, Select, comparable
from tests.grammar.relations import joined, relation
from tests.grammar.words import LITERALS, SET_OPERATIONS


def union(draw: Draw, depth: int) -> Select:
    """Set operations, which bind by their precedence."""
    left = draw.query(depth - 1)
    columns = [c for c in left.columns if c.kind in LITERALS]
    word = draw.choose(SET_OPERATIONS)
    if word != "UNION ALL":
        columns = comparable(columns)
    if not columns:
        return left
    alias = draw.name("u")
    names = ", ".join(f"{alias}.{c.text}" for c in columns)
    text = f"SELECT {names} FROM ({left.text}) AS {alias}"
    for _ in range(draw.choose([1, 1, 1, 2])):
        source, scope = joined(draw, depth - 1)
        other = [Column(draw.expression(scope, c.kind, 1), c.kind) for c in columns]
        right = draw.select(other, source).text
        text += f" {word} {f'({right})' if draw.chance(4) else right}"
        word = draw.choose(
            [w for w in SET_OPERATIONS if w == "UNION ALL" or comparable(columns) == columns]
        )
    return Select(text, tuple(columns))


def first(draw: Draw, depth: int) -> Select:
    """The first rows of a query, in an order of all its columns that stands beside or below."""
    inner = draw.query(depth - 1)
    columns = comparable(inner.columns)
    if not columns:
        return inner
    alias = draw.name("f")
    own = [Column(f"{alias}.{c.text}", c.kind) for c in columns]
    names = ", ".join(c.text for c in own)
    count = f"LIMIT {draw.choose([0, 1, 2, 5])}"
    cut = draw.choose([count, count, count, f"{count} OFFSET {draw.choose([1, 2])}", "OFFSET 2"])
    text = f"SELECT {names} FROM ({inner.text}) AS {alias} ORDER BY {draw.ordered(own)}"
    if not draw.chance(3):
        return Select(f"{text} {cut}", tuple(columns))
    above = draw.name("f")
    where = f" WHERE {draw.expression(columns, 'bool', 1)}" if draw.chance(3) else ""
    listed = ", ".join(f"{above}.{c.text}" for c in columns)
    return Select(f"SELECT {listed} FROM ({text}) AS {above}{where} {cut}", tuple(columns))


def pivot(draw: Draw, depth: int) -> Select:
    """Values of a column as columns."""
    text, scope = relation(draw, depth)
    keys = comparable(scope)
    by = pivoted_by(keys)
    if not by:
        return draw.select([draw.value(scope, 0)], text)
    subject, key, value = draw.choose(by), draw.choose(keys), draw.choose(keys)
    source = f"SELECT {key.text} AS g, {subject.text} AS p, {value.text} AS v FROM {text}"
    clause, made = pivoting(draw, Column("p", subject.kind), Column("v", value.kind))
    return draw.select([Column("g", key.kind), *made], f"({source}) {clause}")


def pivoted_by(scope: Scope) -> list[Column]:
    """The columns of which values may become columns."""
    return [c for c in scope if c.kind in ("int", "str", "bool", "date")]


def pivoting(draw: Draw, subject: Column, value: Column) -> tuple[str, list[Column]]:
    """PIVOT of aggregates of one column for values of another, and the columns it makes."""
    numbers = [("sum", value.kind), ("avg", "dec" if value.kind == "dec" else "approx")]
    options = [("count", "int"), ("max", value.kind), ("min", value.kind)]
    options += numbers if value.kind in ("int", "dec") else []
    calls = [draw.choose(options) for _ in range(draw.choose([1, 1, 2]))]
    literals = LITERALS[subject.kind][:2]
    names = [draw.name("a") for _ in literals]
    chosen = ", ".join(f"{v} AS {n}" for v, n in zip(literals, names, strict=True))
    listed = ", ".join(f"{f}({value.text}) AS c{i}" for i, (f, _) in enumerate(calls))
    made = [
        Column(n if len(calls) == 1 else f"{n}_c{i}", kind)
        for n in names
        for i, (_, kind) in enumerate(calls)
    ]
    return f"PIVOT ({listed} FOR {subject.text} IN ({chosen}))", made


def unpivot(draw: Draw, depth: int) -> Select:
    """Columns of one kind as rows."""
    text, scope = relation(draw, depth)
    keys = comparable(scope)
    if not keys:
        return draw.select([draw.value(scope, 0)], text)
    key, kind = draw.choose(keys), draw.choose(keys).kind
    names = [draw.name("u") for _ in range(draw.choose([2, 3]))]
    listed = ", ".join(f"{draw.expression(scope, kind, 1)} AS {n}" for n in names)
    source = f"(SELECT {key.text} AS g, {listed} FROM {text})"
    shown = [Column("g", key.kind), Column("n", "str"), Column("v", kind)]
    return draw.select(shown, f"{source} {unpivoting(draw, names, 'n', 'v')}")


def unpivoting(draw: Draw, columns: Sequence[str], name: str, value: str) -> str:
    """UNPIVOT of columns of one kind."""
    nulls = draw.choose(["", " INCLUDE NULLS", " EXCLUDE NULLS"])
    return f"UNPIVOT{nulls} ({value} FOR {name} IN ({', '.join(columns)}))"


def recursive(draw: Draw, depth: int) -> Select:
    """A few rounds from the rows of a relation, at times along those of another."""
    text, scope = relation(draw, depth - 1)
    name = draw.name("w")
    start = f"SELECT CAST({draw.expression(scope, 'int', 1)} AS BIGINT), 0 FROM {text}"
    step, more = f"({name}.n + 1) % 5", ""
    if draw.chance(2):
        other, columns = relation(draw, 0)
        numbers = [c for c in columns if c.kind == "int"]
        if numbers:
            here, there = draw.choose(numbers), draw.choose(numbers)
            step, more = f"{there.text}", f" JOIN {other} ON {here.text} = {name}.n"
    rounds = draw.choose([1, 2, 3])
    turn = (
        f"SELECT CAST({step} AS BIGINT), {name}.d + 1 FROM {name}{more} WHERE {name}.d < {rounds}"
    )
    made = [Column("n", "int"), Column("d", "int")]
    found = draw.select(made, name)
    return Select(
        f"WITH RECURSIVE {name}(n, d) AS ({start} UNION ALL {turn}) {found.text}", found.columns
    )
