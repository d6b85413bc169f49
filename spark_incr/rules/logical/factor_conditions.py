"""(a ∧ x) ∨ (a ∧ y) = a ∧ (x ∨ y).

A condition that every alternative has can be pushed down, or can be the key of a join.
"""

from __future__ import annotations

from sqlglot import exp

from spark_incr.plan.context import Context
from spark_incr.plan.nodes import Filter, Node, conjuncts
from spark_incr.rules.logical.merge_filters import filtered


def factor_conditions(node: Node, context: Context) -> Node:
    if not isinstance(node, Filter):
        return node
    parts = [factored for part in conjuncts(node.condition) for factored in _factored(part)]
    changed = filtered(node.input, parts)
    return changed if changed != node else node


def _factored(condition: exp.Expr) -> list[exp.Expr]:
    choices = [conjuncts(choice) for choice in _alternatives(condition)]
    common = [part for part in choices[0] if all(part in other for other in choices[1:])]
    if len(choices) == 1 or not common:
        return [condition]
    rest = [[part for part in choice if part not in common] for choice in choices]
    if not all(rest):
        return common
    either = exp.or_(*(exp.and_(*choice) for choice in rest))
    return [*common, exp.Paren(this=either)]


def _alternatives(condition: exp.Expr) -> list[exp.Expr]:
    condition = condition.unnest()
    if isinstance(condition, exp.Or):
        return [*_alternatives(condition.left), *_alternatives(condition.right)]
    return [condition]
