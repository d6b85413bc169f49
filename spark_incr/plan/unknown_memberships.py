"""The negation of `x IN (subquery)` from afar.

Where IN is unknown, its value is FALSE to Spark, and so is that of NOT IN:

    x IN (1, NULL)    x NOT IN (1, NULL)    both keep no row with x = 2

So NOT (x IN ...) is either NOT FALSE or NOT IN, by what Spark's optimizer has moved where. NOT is moved
to IN within an expression, as Spark does. Whether Spark moves it through a column of a subquery, too,
depends on what else reads that column; there it is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sqlglot import exp

from spark_incr.errors import error
from spark_incr.plan.nodes import Aggregate, Filter, Join, Node, Project, UnionAll, column, walk

_HINT = "Write NOT IN, or NOT EXISTS with the comparison in WHERE, where the value is computed."
_COMPARED = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is)


def refuse_negated_memberships(plan: Node, memberships: Collection[exp.Expr]) -> None:
    """Refuse a plan that negates one of these values of IN, or compares it with a truth value."""
    if not memberships:
        return
    meanings: dict[str, list[exp.Expr]] = defaultdict(list)
    for node in walk(plan):
        for name, meaning in _meanings(node):
            if meaning != column(name):
                meanings[name].append(meaning)

    def visit(expression: exp.Expr, positive: bool, within: frozenset[str]) -> None:
        if expression in memberships:
            if not positive:
                raise error("INCR_UNSUPPORTED", what="the negation of IN (subquery)", hint=_HINT)
        elif isinstance(expression, exp.Column):
            if expression.name not in within:
                for meaning in meanings[expression.name]:
                    visit(meaning, positive, within | {expression.name})
        elif isinstance(expression, (exp.Paren, exp.And, exp.Or, exp.Not)):
            negates = isinstance(expression, exp.Not)
            for part in _parts(expression):
                visit(part, positive is not negates, within)
        else:
            for part in _parts(expression):
                visit(part, not isinstance(expression, _COMPARED), within)

    for node in walk(plan):
        for expression in _read_by(node):
            visit(expression, True, frozenset())


def _parts(expression: exp.Expr) -> list[exp.Expr]:
    return list(expression.iter_expressions())


def _meanings(node: Node) -> list[tuple[str, exp.Expr]]:
    """What the columns that a node makes stand for."""
    if isinstance(node, Project):
        return list(zip(node.names, node.expressions, strict=True))
    if isinstance(node, Aggregate):
        return [(c.name, column(c.arguments[0])) for c in node.calls if c.function == "any_value"]
    if isinstance(node, UnionAll):
        return [
            (name, column(other))
            for relation in node.relations
            for name, other in zip(node.names, relation.names, strict=True)
        ]
    return []


def _read_by(node: Node) -> list[exp.Expr]:
    if isinstance(node, Filter):
        return [node.condition]
    if isinstance(node, Join) and node.where is not None:
        return [node.where]
    return list(node.expressions) if isinstance(node, Project) else []
