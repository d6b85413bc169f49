"""σp(σq(R)) = σq∧p(R): the conditions on one node stand together, in the order of their writing."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spark_incr.plan.context import Context
from spark_incr.plan.nodes import Filter, Node, conjuncts


def merge_filters(node: Node, context: Context) -> Node:
    if not (isinstance(node, Filter) and isinstance(node.input, Filter)):
        return node
    below = node.input
    return filtered(below.input, [*conjuncts(below.condition), *conjuncts(node.condition)])


def filtered(node: Node, conditions: Sequence[exp.Expr]) -> Node:
    """The rows of a node for which all conditions hold."""
    if not conditions:
        return node
    condition = conditions[0]
    for part in conditions[1:]:
        condition = exp.And(this=_operand(condition), expression=_operand(part))
    return Filter(node.schema, node, condition)


def _operand(condition: exp.Expr) -> exp.Expr:
    return exp.Paren(this=condition) if isinstance(condition, exp.Or) else condition
