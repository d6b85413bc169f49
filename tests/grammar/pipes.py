"""Queries as pipes: a relation under bare names, and steps of every kind."""

from __future__ import annotations

from tests.grammar.drawing import Column, Draw, Select, comparable
from tests.grammar.relations import condition, relation
from tests.grammar.shapes import pivoted_by, pivoting, unpivoting
from tests.grammar.words import LITERALS, OUTER_JOINS


def piped(draw: Draw, depth: int) -> Select:
    """A relation and some steps; each column has a name that no other has."""
    text, scope = relation(draw, depth)
    listed, columns = draw.named(scope)
    query = Select(f"FROM {text} |> SELECT {listed}", columns)
    for _ in range(draw.choose([1, 2, 2, 3, 4])):
        query = draw.choose(_STEPS)(draw, query)
    return query


def _where(draw: Draw, query: Select) -> Select:
    return Select(f"{query.text} |> WHERE {draw.condition(query.columns)}", query.columns)


def _extend(draw: Draw, query: Select) -> Select:
    made, name = draw.value(query.columns, 1), draw.name("a")
    columns = (*query.columns, Column(name, made.kind))
    return Select(f"{query.text} |> EXTEND {made.text} AS {name}", columns)


def _set(draw: Draw, query: Select) -> Select:
    chosen = draw.choose(query.columns)
    if chosen.kind not in LITERALS:
        return query
    other = draw.expression(query.columns, chosen.kind, 1)
    return Select(f"{query.text} |> SET {chosen.text} = {other}", query.columns)


def _drop(draw: Draw, query: Select) -> Select:
    if len(query.columns) < 2:
        return query
    chosen = draw.choose(query.columns)
    rest = tuple(c for c in query.columns if c != chosen)
    return Select(f"{query.text} |> DROP {chosen.text}", rest)


def _select(draw: Draw, query: Select) -> Select:
    items = [draw.value(query.columns, 1) for _ in range(draw.choose([1, 2, 3]))]
    distinct = "DISTINCT " if draw.chance(4) and comparable(items) == items else ""
    listed, columns = draw.named(items)
    return Select(f"{query.text} |> SELECT {distinct}{listed}", columns)


def _aggregate(draw: Draw, query: Select) -> Select:
    own = comparable(query.columns)
    listed, calls = draw.named([draw.aggregate(query.columns) for _ in range(draw.choose([1, 2]))])
    group, keys = draw.named(draw.random.sample(own, min(len(own), draw.choose([0, 1, 2]))))
    by = f" GROUP BY {group}" if keys else ""
    return Select(f"{query.text} |> AGGREGATE {listed}{by}", (*keys, *calls))


def _first(draw: Draw, query: Select) -> Select:
    if comparable(query.columns) != list(query.columns):
        return query
    order = draw.ordered(query.columns)
    between = f" |> WHERE {draw.expression(query.columns, 'bool', 1)}" if draw.chance(4) else ""
    cut = draw.choose(["LIMIT 1", "LIMIT 3", "LIMIT 2 OFFSET 1"])
    return Select(f"{query.text} |> ORDER BY {order}{between} |> {cut}", query.columns)


def _join(draw: Draw, query: Select) -> Select:
    alias = draw.name("p")
    other, columns = relation(draw, 0)
    scope = [Column(f"{alias}.{c.text}", c.kind) for c in query.columns]
    kind = draw.choose(OUTER_JOINS)
    join = f"{kind} JOIN {other} ON {condition(draw, scope, columns, kind)}"
    listed, shown = draw.named([*scope, *columns])
    return Select(f"{query.text} |> AS {alias} |> {join} |> SELECT {listed}", shown)


def _union(draw: Draw, query: Select) -> Select:
    if any(c.kind not in LITERALS for c in query.columns):
        return query
    other, scope = relation(draw, 0)
    items = [Column(draw.expression(scope, c.kind, 1), c.kind) for c in query.columns]
    word = draw.choose(["UNION ALL", "UNION ALL", "EXCEPT ALL", "INTERSECT", "UNION"])
    if comparable(items) != items:
        word = "UNION ALL"
    return Select(f"{query.text} |> {word} {draw.select(items, other).text}", query.columns)


def _pivot(draw: Draw, query: Select) -> Select:
    """All columns but two are what PIVOT groups by."""
    by = pivoted_by(query.columns)
    if len(query.columns) < 2 or not by or comparable(query.columns) != list(query.columns):
        return query
    subject = draw.choose(by)
    value = draw.choose([c for c in query.columns if c != subject])
    clause, made = pivoting(draw, subject, value)
    rest = [c for c in query.columns if c not in (subject, value)]
    return Select(f"{query.text} |> {clause}", (*rest, *made))


def _unpivot(draw: Draw, query: Select) -> Select:
    """Columns of one kind as rows, beside all others."""
    kind = draw.choose(query.columns).kind
    chosen = [c for c in query.columns if c.kind == kind][: draw.choose([1, 2, 3])]
    name, value = draw.name("n"), draw.name("v")
    rest = [c for c in query.columns if c not in chosen]
    clause = unpivoting(draw, [c.text for c in chosen], name, value)
    return Select(f"{query.text} |> {clause}", (*rest, Column(name, "str"), Column(value, kind)))


_STEPS = [
    _where,
    _where,
    _extend,
    _set,
    _drop,
    _select,
    _aggregate,
    _aggregate,
    _first,
    _join,
    _union,
    _pivot,
    _unpivot,
]
