"""σ(a = b ∧ p)(L × R) = σp(L ⋈a=b R), where a reads only L and b only R.

The two sides of an equality become columns of one type, the one in which Spark compares them.
"""

from __future__ import annotations

from spark_incr.plan.context import Context
from spark_incr.plan.joins import equality, keyed_join, only
from spark_incr.plan.nodes import Filter, Join, JoinKind, Node, column, conjuncts
from spark_incr.rules.logical.merge_filters import filtered


def find_join_keys(node: Node, context: Context) -> Node:
    if not (isinstance(node, Filter) and isinstance(node.input, Join)):
        return node
    join = node.input
    if join.kind is not JoinKind.INNER:
        return node
    left, right = set(join.left.names), set(join.right.names)
    pairs = [
        (column(a), column(b), safe) for (a, b), safe in zip(join.keys, join.null_safe, strict=True)
    ]
    found, rest = [], []
    for part in conjuncts(node.condition):
        pair = equality(part, left, right)
        if pair is None:
            rest.append(part)
        else:
            found.append(pair)
    if not found:
        return node
    joined = keyed_join(join.left, join.right, [*pairs, *found], JoinKind.INNER, context)
    return filtered(only(joined, node.names), rest)
