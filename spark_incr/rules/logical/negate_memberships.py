"""¬i is NOT IN where i is IN: a filter that negates i moves to where i is computed.

    σ¬i(π i:=(x∈Q)(R)) = π i:=(x∈Q)(σ x∉Q(R))

Spark pushes filters as `push_filters` does, and takes `NOT (x IN Q)` for NOT IN, which keeps no row where
IN is unknown; so does this, before anything else is moved. A negation that stays from afar is refused.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_incr.plan.context import Context
from spark_incr.plan.nodes import Filter, Join, Node, Project, conjuncts, rewrite
from spark_incr.plan.unknown_memberships import (
    decided,
    has_negation,
    meanings_of,
    negated,
    negates,
    negates_memberships,
    read_by,
    unknown_negation,
)
from spark_incr.rules.logical.merge_filters import filtered, merge_filters
from spark_incr.rules.logical.push_filters import push_filters


def negate_memberships(plan: Node, context: Context) -> Node:
    """The whole plan, without values of IN that know their negation."""
    if not any(has_negation(case) for e in read_by(plan) for case in e.find_all(exp.Case)):
        return plan
    before = None
    while plan != before:
        before, plan = plan, rewrite(plan, lambda node: _nearer(node, context))
    if negates_memberships(plan, has_negation):
        raise unknown_negation()
    return rewrite(plan, _decided)


def _nearer(node: Node, context: Context) -> Node:
    """A filter whose negations of IN are a step nearer to it."""
    node = merge_filters(node, context)
    if not isinstance(node, Filter):
        return node
    meanings = meanings_of(node.input)
    parts = [negated(part) for part in conjuncts(node.condition)]
    far = [part for part in parts if negates(part, meanings, has_negation)]
    rest = [part for part in parts if part not in far]
    if not far:
        return filtered(node.input, parts)
    return filtered(push_filters(filtered(node.input, far), context), rest)


def _decided(node: Node) -> Node:
    if isinstance(node, Filter):
        return replace(node, condition=decided(node.condition))
    if isinstance(node, Project):
        return replace(node, expressions=tuple(map(decided, node.expressions)))
    if isinstance(node, Join) and node.where is not None:
        return replace(node, where=decided(node.where))
    return node
