"""Functions of users, which `tests/session_functions.py` registers: for values, groups and in FROM."""

from __future__ import annotations

from collections.abc import Sequence

from tests.grammar.drawing import Column, Draw, Relation

# What may be ordered and told apart by Python as by Spark.
_EXACT = "int str bool date".split()
_CALLS: list[tuple[str, list[str]]] = [
    ("py_repeated(CAST({int} % 4 AS INT), {str})", ["int", "str"]),
    ("py_repeated(n => CAST({int} % 3 AS INT))", ["int", "str"]),
    ("sql_pairs({int}, {str})", ["int", "str"]),
]


def called(draw: Draw, left: Relation) -> Relation:
    """A table function that reads the row beside it."""
    text, scope = left
    template, kinds = draw.choose(_CALLS)
    call = draw.filled(template, scope, 1)
    if "(SELECT" in call:
        return left
    alias, names = draw.name("g"), [draw.name("e") for _ in kinds]
    made = [Column(f"{alias}.{n}", k) for n, k in zip(names, kinds, strict=True)]
    relation = f"LATERAL {call} AS {alias}({', '.join(names)})"
    ways = [f" CROSS JOIN {relation}", f" LEFT JOIN {relation} ON true", f" LEFT JOIN {relation}"]
    return text + draw.choose(ways), [*scope, *made]


def summed(draw: Draw, depth: int) -> Relation:
    """A table function over the partitions of a query, in an order of all its columns."""
    inner = draw.query(depth - 1)
    columns = [c for c in inner.columns if c.kind in _EXACT]
    by = draw.random.sample(columns, draw.choose([0, *[1] * 3, 2]) if len(columns) > 1 else 0)
    partition = f"PARTITION BY ({_listed(by)})" if by else "WITH SINGLE PARTITION"
    order = f"ORDER BY ({draw.ordered(columns)})" if columns else ""
    rows = f"TABLE(SELECT {_listed(columns) or 1} FROM ({inner.text})) {partition} {order}"
    alias, count, seen = draw.name("g"), draw.name("e"), draw.name("e")
    made = [Column(f"{alias}.{count}", "int"), Column(f"{alias}.{seen}", "str")]
    return f"py_summed({rows}) AS {alias}({count}, {seen})", made


def _listed(columns: Sequence[Column]) -> str:
    return ", ".join(c.text for c in columns)
