"""FROM: tables, CTEs, subqueries, VALUES and range(), joined in every way, and generators."""

from __future__ import annotations

from collections import Counter

from tests.grammar.drawing import Column, Draw, Relation, Scope, comparable, pairs
from tests.grammar.functions import called, summed
from tests.grammar.words import HALF_JOINS, KINDS, LITERALS, ONE_TYPE, OUTER_JOINS


def relation(draw: Draw, depth: int) -> Relation:
    """Something to select from under an alias of its own, and its columns."""
    if draw.ctes and draw.chance(3):
        name = draw.choose(sorted(draw.ctes))
        return aliased(draw, name, draw.ctes[name].columns)
    if draw.functions and depth > 0 and draw.chance(4):
        return summed(draw, depth)
    if depth > 0 and draw.chance(2):
        inner = draw.query(depth - 1)
        return aliased(draw, f"({inner.text})", inner.columns)
    if draw.chance(12):
        return draw.choose([values, numbers])(draw)
    name = draw.choose(sorted(draw.tables))
    return aliased(draw, name, [Column(f.name, KINDS[type(f.type)]) for f in draw.tables[name]])


def aliased(draw: Draw, text: str, columns: Scope) -> Relation:
    """A relation under a name of its own, at times with its columns."""
    alias = draw.name("r")
    if draw.chance(8):
        names = [draw.name("n") for _ in columns]
        pairs = zip(names, columns, strict=True)
        return f"{text} AS {alias}({', '.join(names)})", [
            Column(f"{alias}.{n}", c.kind) for n, c in pairs
        ]
    return f"{text} AS {alias}", [Column(f"{alias}.{c.text}", c.kind) for c in columns]


def values(draw: Draw) -> Relation:
    """Rows that are written out."""
    kinds = [draw.choose(["int", "str", "dec", "date", "bool"]) for _ in range(draw.choose([1, 2]))]
    rows = [
        f"({', '.join(draw.choose([*LITERALS[k], 'NULL']) for k in kinds)})"
        for _ in range(draw.choose([1, 2, 3]))
    ]
    # The first row says the types.
    first = f"({', '.join(LITERALS[k][0] for k in kinds)})"
    alias, names = draw.name("r"), [draw.name("n") for _ in kinds]
    columns = [Column(f"{alias}.{n}", k) for n, k in zip(names, kinds, strict=True)]
    return f"(VALUES {', '.join([first, *rows])}) AS {alias}({', '.join(names)})", columns


def numbers(draw: Draw) -> Relation:
    """A table function."""
    alias = draw.name("r")
    return f"range({draw.choose(['3', '1, 4', '0, 6, 2'])}) AS {alias}", [
        Column(f"{alias}.id", "int")
    ]


# Joins


def joined(draw: Draw, depth: int) -> Relation:
    """A relation, or several joined."""
    text, scope = relation(draw, depth)
    for _ in range(draw.choose([0, 0, 0, 1, 1, 2])):
        text, scope = draw.choose(_JOINS)(draw, (text, scope), depth)
    return called(draw, (text, scope)) if draw.functions and draw.chance(4) else (text, scope)


def on(draw: Draw, left: Relation, depth: int) -> Relation:
    text, scope = left
    other, columns = relation(draw, depth - 1)
    kind = draw.choose([*OUTER_JOINS, *HALF_JOINS])
    text += f" {kind} JOIN {other} ON {condition(draw, scope, columns, kind)}"
    return text, scope if kind in HALF_JOINS else [*scope, *columns]


def using(draw: Draw, left: Relation, depth: int) -> Relation:
    """USING or NATURAL, over names that both sides have once and for one kind."""
    text, scope = left
    other, columns = relation(draw, depth - 1)
    here, there = Counter(c.name for c in scope), Counter(c.name for c in columns)
    kinds = {c.name: c.kind for c in scope}
    common = [n for n in here if n in there]
    shared = [b.name for b in comparable(columns) if kinds.get(b.name) == b.kind]
    if not shared or any(here[n] > 1 or there[n] > 1 for n in common):
        return f"{text} CROSS JOIN {other}", [*scope, *columns]
    kind = draw.choose([*OUTER_JOINS, *HALF_JOINS])
    if draw.chance(3) and set(common) == set(shared) and kind in OUTER_JOINS:
        text += f" NATURAL {kind} JOIN {other}"
    else:
        shared = draw.random.sample(shared, draw.choose([1, len(shared)]))
        text += f" {kind} JOIN {other} USING ({', '.join(shared)})"
    merged = [Column(n, kinds[n]) for n in shared]
    return text, [*merged, *scope] if kind in HALF_JOINS else [*merged, *scope, *columns]


def crossed(draw: Draw, left: Relation, depth: int) -> Relation:
    text, scope = left
    other, columns = relation(draw, 0)
    return f"{text} CROSS JOIN {other}", [*scope, *columns]


def listed(draw: Draw, left: Relation, depth: int) -> Relation:
    """A comma, behind which the names before it are out of sight of ON."""
    text, scope = relation(draw, 0)
    return f"{text}, {left[0]}", [*scope, *left[1]]


def bracketed(draw: Draw, left: Relation, depth: int) -> Relation:
    """A join that is the right side of another."""
    text, scope = left
    inner, columns = on(draw, relation(draw, depth - 1), depth - 1)
    kind = draw.choose(OUTER_JOINS)
    text += f" {kind} JOIN ({inner}) ON {condition(draw, scope, columns, kind)}"
    return text, [*scope, *columns]


def lateral(draw: Draw, left: Relation, depth: int) -> Relation:
    """A subquery that reads the row beside it."""
    text, scope = left
    inner, columns = relation(draw, depth - 1)
    own = comparable(columns)
    form = draw.choose(["aggregate", "rows", "first", "group"] if own else ["rows"])
    # Columns of one kind may have two types, and a LIMIT wants keys of one.
    both = [p for p in pairs(scope, columns) if form != "first" or p[0].kind in ONE_TYPE]
    where = ""
    if both:
        mine, theirs = draw.choose(both)
        where = f" WHERE {theirs.text} {draw.choose(['=', '=', '<=>', '<'])} {mine.text}"
    if form == "aggregate":
        found = draw.select(
            [draw.aggregate(own) for _ in range(draw.choose([1, 2]))], inner + where
        )
    elif form == "group":
        key = draw.choose(own)
        found = draw.select([key, draw.aggregate(own)], f"{inner}{where} GROUP BY {key.text}")
    elif form == "first":
        items = [draw.choose(own) for _ in range(draw.choose([1, 2]))]
        order = f"ORDER BY {draw.ordered(items)} LIMIT {draw.choose([1, 2])}"
        found = draw.select(items, f"{inner}{where} {order}")
    else:
        items = [draw.choose(columns), Column(draw.expression([*scope, *columns], "int", 1), "int")]
        found = draw.select(items, inner + where)
    alias = draw.name("l")
    columns = [Column(f"{alias}.{c.text}", c.kind) for c in found.columns]
    ways = [
        f" CROSS JOIN LATERAL ({found.text}) AS {alias}",
        f" LEFT JOIN LATERAL ({found.text}) AS {alias} ON true",
        f" JOIN LATERAL ({found.text}) AS {alias} ON {draw.expression(columns, 'bool', 1)}",
    ]
    return text + draw.choose(ways), [*scope, *columns]


_JOINS = [on, on, on, on, using, using, crossed, listed, bracketed, lateral]


def condition(draw: Draw, left: Scope, right: Scope, kind: str) -> str:
    """The condition of a join of a kind."""
    if kind == "INNER":
        return _condition(draw, left, right)
    with draw.without_functions():
        return _condition(draw, left, right)


def _condition(draw: Draw, left: Scope, right: Scope) -> str:
    """A condition, most often with an equality of columns."""
    parts = []
    both = pairs(left, right)
    mixed = [
        (a, b)
        for a in left
        for b in right
        if {a.kind, b.kind} <= {"int", "float", "dec"} and a.kind != b.kind
    ]
    for _ in range(draw.choose([1, 1, 1, 2])):
        if mixed and draw.chance(5):
            a, b = draw.choose(mixed)
            parts.append(f"{a.text} {draw.choose(['=', '=', '<'])} {b.text}")
        elif both:
            a, b = draw.choose(both)
            parts.append(f"{a.text} {draw.choose(['='] * 6 + ['<=>', '<=>', '<', '>='])} {b.text}")
        elif own := comparable(left):
            kind = draw.choose(own).kind
            here, there = draw.expression(left, kind, 1), draw.expression(right, kind, 1)
            parts.append(f"{here} = {there}")
    if both and draw.chance(10):
        (a, b), (c, d) = draw.choose(both), draw.choose(both)
        parts.append(f"({a.text} = {b.text} OR {c.text} = {d.text})")
    if not parts or draw.chance(4):
        parts.append(draw.expression([*left, *right], "bool", 1))
    return " AND ".join(parts)


# Generators: what is called, and the kinds of its columns.

GENERATORS: list[tuple[str, list[str]]] = [
    ("explode({arr})", ["int"]),
    ("explode({arr})", ["int"]),
    ("posexplode({arr})", ["int", "int"]),
    ("explode({map})", ["str", "int"]),
    ("explode(array({str}, {str}, NULL))", ["str"]),
    ("inline(array({struct}, {struct}))", ["int", "str"]),
    ("stack(2, {int} % 9L, {str}, {int} % 9L, {str})", ["int", "str"]),
    ("json_tuple(to_json({struct}), 'x', 'y')", ["str", "str"]),
    ("explode(sequence(1, {int} % 3))", ["int"]),
]


def generated(draw: Draw, source: Relation) -> Relation:
    """What a generator makes of a row, beside the row."""
    text, scope = source
    template, kinds = draw.choose(GENERATORS)
    call = draw.filled(template, scope, 1)
    alias, names = draw.name("g"), [draw.name("e") for _ in kinds]
    made = [Column(f"{alias}.{n}", k) for n, k in zip(names, kinds, strict=True)]
    if "(SELECT" in call:
        return source
    if draw.chance(4) and "JOIN" not in text and "LATERAL" not in text:
        return f"{text}, LATERAL {call} AS {alias}({', '.join(names)})", [*made, *scope]
    outer = "OUTER " if draw.chance(3) else ""
    return f"{text} LATERAL VIEW {outer}{call} {alias} AS {', '.join(names)}", [*made, *scope]
