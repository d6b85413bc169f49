"""Subqueries in expressions: scalar, EXISTS, IN and NOT IN, correlated or not, over CTEs of their own."""

from __future__ import annotations

from tests.grammar.drawing import Column, Draw, Scope, comparable, pairs
from tests.grammar.relations import aliased, joined
from tests.grammar.words import ONE_TYPE

_COMPARISONS = ["=", "=", "=", "<=>", "<", ">="]


def scalar(draw: Draw, scope: Scope, kind: str) -> str:
    """A subquery that gives one row at most."""
    common, text, columns = _source(draw, scope)
    own = [c for c in columns if c.kind == kind]
    if not own:
        return draw.expression(scope, kind, 0)
    value = draw.choose(own).text
    if draw.chance(4):
        # Columns of one kind may have two types, and a LIMIT wants keys of one.
        where = correlated(draw, [c for c in scope if c.kind in ONE_TYPE], columns)
        order = draw.ordered([Column(value, kind)])
        return f"({common}SELECT {value} FROM {text}{where} ORDER BY {order} LIMIT 1)"
    where = correlated(draw, scope, columns)
    if kind == "int" and draw.chance(3):
        count = draw.choose(["count(*)", f"count({value})"])
        return f"({common}SELECT {count} FROM {text}{where})"
    return f"({common}SELECT {draw.choose(['max', 'min'])}({value}) FROM {text}{where})"


def _source(draw: Draw, scope: Scope) -> tuple[str, str, list[Column]]:
    """A CTE in front of the subquery or nothing, what it selects from, and the columns of that."""
    text, columns = joined(draw, draw.choose([0, 0, 1]))
    if not draw.chance(5):
        return "", text, columns
    where = correlated(draw, scope, columns) if draw.chance(3) else ""
    inner, name = draw.select(columns, text + where), draw.name("w")
    return f"WITH {name} AS ({inner.text}) ", *aliased(draw, name, inner.columns)


def test(draw: Draw, scope: Scope) -> str:
    """A condition that is a subquery, or compares with one."""
    common, text, columns = _source(draw, scope)
    both = pairs(scope, columns)
    if not both:
        return f"{draw.choose(['EXISTS', 'NOT EXISTS'])} ({common}SELECT 1 FROM {text})"
    form = draw.choose(["IN", "NOT IN", "EXISTS", "NOT EXISTS", "compared"])
    if form == "compared":
        mine, _ = draw.choose(both)
        return f"{mine.text} {draw.choose(_COMPARISONS)} {scalar(draw, scope, mine.kind)}"
    if "EXISTS" in form:
        return f"{form} ({common}SELECT 1 FROM {text}{correlated(draw, scope, columns)})"
    return member(draw, scope, (common, text, columns), form)


def member(draw: Draw, scope: Scope, source: tuple[str, str, Scope], form: str) -> str:
    """IN or NOT IN over one column or more, of rows or of groups."""
    common, text, columns = source
    both = pairs(scope, columns)
    chosen = [draw.choose(both) for _ in range(draw.choose([1, 1, 1, 2]))]
    mine = ", ".join(a.text for a, _ in chosen)
    theirs = ", ".join(b.text for _, b in chosen)
    where = correlated(draw, scope, columns) if draw.chance(3) else ""
    group = f" GROUP BY {theirs} HAVING count(*) > 1" if draw.chance(6) else ""
    written = f"({mine})" if len(chosen) > 1 else mine
    return f"{written} {form} ({common}SELECT {theirs} FROM {text}{where}{group})"


def correlated(draw: Draw, scope: Scope, columns: Scope) -> str:
    """A WHERE clause, most often one that compares with a column of outside."""
    both = pairs(scope, columns)
    parts = []
    if both and not draw.chance(4):
        mine, theirs = draw.choose(both)
        parts.append(f"{theirs.text} {draw.choose(_COMPARISONS)} {mine.text}")
    if draw.chance(4) and comparable(columns):
        parts.append(draw.condition(columns))
    return f" WHERE {' AND '.join(parts)}" if parts else ""
