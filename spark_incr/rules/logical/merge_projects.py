"""πa(πb(R)) = πa∘b(R), and a projection onto all columns as they are is none.

An inner expression is moved only where it is read once or is a plain column or constant, so that
nothing is computed twice.
"""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from spark_incr.plan.context import Context
from spark_incr.plan.nodes import Node, Project, substitute


def merge_projects(node: Node, context: Context) -> Node:
    if not isinstance(node, Project):
        return node
    below = node.input
    if isinstance(below, Project):
        reads = Counter(c.name for e in node.expressions for c in e.find_all(exp.Column))
        values = dict(zip(below.names, below.expressions, strict=True))
        if all(
            reads[name] < 2 or isinstance(e, (exp.Column, exp.Literal))
            for name, e in values.items()
        ):
            merged = tuple(substitute(e, values) for e in node.expressions)
            node = Project(node.schema, below.input, merged)
    if node.schema == node.input.schema and all(
        isinstance(e, exp.Column) and e.name == name
        for e, name in zip(node.expressions, node.names, strict=True)
    ):
        return node.input
    return node
