"""Queries: the forms of SELECT, nested, with CTEs in front."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

from spark_incr.plan.types import Schema
from tests.grammar import subqueries
from tests.grammar.drawing import Column, Draw, Production, Scope, Select, comparable
from tests.grammar.groups import grouped, sessions
from tests.grammar.pipes import piped
from tests.grammar.relations import GENERATORS, generated, joined
from tests.grammar.shapes import first, pivot, recursive, union, unpivot
from tests.grammar.windows import windowed


def queries(random: Random, tables: Mapping[str, Schema], functions: bool) -> Draw:
    """A source of queries over tables, with functions of users or without."""
    return Draw(random, tables, query, subqueries.scalar, subqueries.test, functions)


def whole(draw: Draw) -> Select:
    """A query, with CTEs in front."""
    return _with(draw, draw.choose([0, 0, 0, 1, 2]), draw.choose([0, 1, 1, 2]))


def _common(draw: Draw, depth: int) -> Select:
    """A query within another, with a CTE of its own beside those around it."""
    return _with(draw, 1, depth - 1)


def _with(draw: Draw, count: int, depth: int) -> Select:
    """A query behind some CTEs, which are out of sight where it ends."""
    written, around = [], draw.ctes
    for _ in range(count):
        text, name, columns = _cte(draw)
        written.append(text)
        draw.ctes = {**draw.ctes, name: Select(text, columns)}
    result = draw.query(depth)
    draw.ctes = around
    if not written:
        return result
    text = f"SELECT * FROM ({result.text})" if result.text.startswith("WITH ") else result.text
    return Select(f"WITH {', '.join(written)} {text}", result.columns)


def _cte(draw: Draw) -> tuple[str, str, tuple[Column, ...]]:
    """A CTE as it is written, its name and its columns, which may have names of their own."""
    inner, name = draw.query(1), draw.name("w")
    if not draw.chance(4):
        return f"{name} AS ({inner.text})", name, inner.columns
    columns = tuple(Column(draw.name("n"), c.kind) for c in inner.columns)
    return f"{name}({', '.join(c.text for c in columns)}) AS ({inner.text})", name, columns


def query(draw: Draw, depth: int) -> Select:
    """A query of any form; those that hold another only where there is room."""
    return draw.choose([*_FORMS, *_DEEP_FORMS] if depth > 0 else _FORMS)(draw, depth)


def _source(draw: Draw, depth: int) -> tuple[str, list[Column]]:
    """FROM and WHERE, at times with generators between them."""
    source = joined(draw, depth)
    if draw.chance(10):
        source = generated(draw, source)
    text, scope = source
    return text + (f" WHERE {draw.condition(scope)}" if draw.chance(3) else ""), scope


def _plain(draw: Draw, depth: int) -> Select:
    text, scope = _source(draw, depth)
    items = [draw.value(scope, draw.choose([0, 1, 2])) for _ in range(draw.choose([1, 2, 3]))]
    if draw.chance(6):
        kind = draw.choose(["int", "int", "str", "date"])
        items.append(Column(draw.subquery(scope, kind), kind))
    return draw.select(items, text)


def _distinct(draw: Draw, depth: int) -> Select:
    text, scope = _source(draw, depth)
    items = comparable(
        [draw.value(scope, draw.choose([0, 1])) for _ in range(draw.choose([1, 2, 3]))]
    )
    return draw.select(items or [Column("1", "int")], text, "DISTINCT ")


def _star(draw: Draw, depth: int) -> Select:
    """All columns, or all but one; those of several relations where no two have one name."""
    text, scope = _source(draw, depth)
    own = [c for c in scope if "." in c.text]
    if len(own) != len(scope) or max(Counter(c.name for c in own).values()) > 1:
        return draw.select([draw.value(scope, 1)], text)
    # A semi join and USING have columns that are not in scope, or not at their place.
    if " SEMI " in text or " ANTI " in text or "LATERAL" in text:
        return draw.select(own, text)
    columns = tuple(Column(c.name, c.kind) for c in own)
    if len(columns) > 1 and draw.chance(2):
        gone = draw.choose(columns)
        rest = tuple(c for c in columns if c != gone)
        return Select(f"SELECT * EXCEPT ({gone.text}) FROM {text}", rest)
    made, name = draw.value(scope, 1), draw.name("a")
    if draw.chance(2):
        return Select(
            f"SELECT *, {made.text} AS {name} FROM {text}", (*columns, Column(name, made.kind))
        )
    return Select(f"SELECT * FROM {text}", columns)


def _aliases(draw: Draw, depth: int) -> Select:
    """Items that read the items before them."""
    text, scope = _source(draw, depth)
    made: list[Column] = []
    listed = []
    for _ in range(draw.choose([2, 3])):
        item, name = draw.value([*made, *made, *comparable(scope)], 1), draw.name("a")
        listed.append(f"{item.text} AS {name}")
        made.append(Column(name, item.kind))
    return Select(f"SELECT {', '.join(listed)} FROM {text}", tuple(made))


def _grouped(draw: Draw, depth: int) -> Select:
    text, scope = _source(draw, depth)
    return grouped(draw, text, scope)


def _total(draw: Draw, depth: int) -> Select:
    text, scope = _source(draw, depth)
    return grouped(draw, text, scope, scalar=True)


def _sessions(draw: Draw, depth: int) -> Select:
    text, scope = _source(draw, depth)
    return sessions(draw, text, scope)


def _windowed(draw: Draw, depth: int) -> Select:
    text, scope = _source(draw, depth)
    return windowed(draw, text, scope)


def _generated(draw: Draw, depth: int) -> Select:
    """Generators in FROM, one of which may read another, under any SELECT."""
    text, scope = generated(draw, joined(draw, depth))
    if draw.chance(4) and "LATERAL VIEW" in text:
        text, scope = generated(draw, (text, scope))
    if draw.chance(3):
        return grouped(draw, text, scope, draw.chance(4))
    if draw.chance(4):
        return windowed(draw, text, scope)
    return draw.select([*_some(draw, scope), *scope[:2]], text)


def _exploded(draw: Draw, depth: int) -> Select:
    """A generator in the SELECT list."""
    text, scope = _source(draw, depth)
    template, kinds = draw.choose(GENERATORS)
    call = draw.filled(template, scope, 1)
    if call.startswith(("explode(", "posexplode(", "inline(")) and draw.chance(3):
        call = call.replace("(", "_outer(", 1)
    made = tuple(Column(draw.name("a"), k) for k in kinds)
    names = ", ".join(c.text for c in made)
    listed, columns = draw.named(_some(draw, scope))
    return Select(
        f"SELECT {call} AS {f'({names})' if len(made) > 1 else names}, {listed} FROM {text}",
        (*made, *columns),
    )


def _some(draw: Draw, scope: Scope) -> list[Column]:
    return [draw.value(scope, draw.choose([0, 1])) for _ in range(draw.choose([1, 2]))]


_FORMS: list[Production] = [
    *[_plain] * 3, *[_grouped] * 5, _total, _total, _distinct, *[_windowed] * 3,
    _generated, _exploded, _star, _aliases, _sessions, pivot, unpivot, piped,
]  # fmt: skip
_DEEP_FORMS: list[Production] = [*[union] * 3, *[first] * 3, recursive, piped, _common]
