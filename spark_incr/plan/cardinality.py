"""How many rows a plan has, roughly, from what its relations held when the view was made.

    |σp(R)| = |R| · s(p)             |L ⋈k R| = |L| · |R| / max(d(L.k), d(R.k))

with d the number of distinct values. Nothing but the order of joins depends on these numbers, so a
wrong guess costs time and memory, never rows. 0 stands for what is not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spark_incr.plan.context import Analyzer
from spark_incr.plan.nodes import (
    Aggregate,
    Constant,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    Single,
    UnionAll,
    columns_in,
    conjuncts,
)

_SELECTED = 0.3
"""The share of the rows that a condition keeps of which nothing is known."""
_FEW = 100.0


def rows_of(node: Node, analyzer: Analyzer) -> float:
    """The number of rows of a node."""
    match node:
        case Scan():
            return float(analyzer.rows(node.relation))
        case Single():
            return 1.0
        case Constant():
            return _FEW
        case Filter():
            share = 1.0
            for part in conjuncts(node.condition):
                share *= _kept(part, node.input, analyzer)
            return rows_of(node.input, analyzer) * share
        case Aggregate():
            rows = rows_of(node.input, analyzer)
            return min(rows, _product([distinct(node.input, k, analyzer) for k in node.keys]))
        case Join():
            sides = (node.left, node.right)
            left, right = (rows_of(side, analyzer) for side in sides)
            pairs = [
                (distinct(node.left, a, analyzer), distinct(node.right, b, analyzer))
                for a, b in node.keys
            ]
            return joined_rows(left, right, pairs)
        case UnionAll():
            return sum(rows_of(side, analyzer) for side in node.relations)
    inputs = [rows_of(child, analyzer) for child in node.inputs]
    return max(inputs, default=0.0)


def joined_rows(left: float, right: float, pairs: Sequence[tuple[float, float]]) -> float:
    """The number of pairs of rows that agree on keys with so many distinct values on each side."""
    values = _product([max(a, b, 1.0) for a, b in pairs])
    return left * right / min(values, max(left, right, 1.0))


def distinct(node: Node, name: str, analyzer: Analyzer) -> float:
    """The number of distinct values of a column."""
    rows = rows_of(node, analyzer)
    below = node
    while True:
        if isinstance(below, Project):
            value = below.expressions[below.names.index(name)]
            if not isinstance(value, exp.Column):
                return rows
            name, below = value.name, below.input
        elif isinstance(below, Scan):
            column = dict(zip(below.names, below.columns, strict=True))[name]
            return min(rows, float(analyzer.distinct(below.relation, column)))
        else:
            sides = [child for child in below.inputs if name in child.names]
            if len(sides) != 1:
                return rows
            below = sides[0]


def _kept(condition: exp.Expr, node: Node, analyzer: Analyzer) -> float:
    """The share of the rows that a condition keeps."""
    if isinstance(condition, exp.EQ):
        reads = [c for c in (condition.left, condition.right) if isinstance(c, exp.Column)]
        if len(reads) == 1 and len(columns_in(condition)) == 1:
            return 1.0 / max(distinct(node, reads[0].name, analyzer), 1.0)
    return _SELECTED


def _product(numbers: Sequence[float]) -> float:
    result = 1.0
    for number in numbers:
        result *= number
    return result
