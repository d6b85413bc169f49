"""L ⋈x=y R = L ⋈key(x)=key(y) R, where x and y have a collation."""

from __future__ import annotations

from dataclasses import replace

from spark_incr.plan.collations import with_keys
from spark_incr.plan.context import Context
from spark_incr.plan.joins import only
from spark_incr.plan.nodes import Join, Node


def join_by_collation(node: Node, context: Context) -> Node:
    if not isinstance(node, Join) or node.exact:
        return node
    left, left_keys = with_keys(node.left, [a for a, _ in node.keys], context)
    right, right_keys = with_keys(node.right, [b for _, b in node.keys], context)
    if not left_keys:
        return node
    keys = tuple((left_keys.get(a, a), right_keys.get(b, b)) for a, b in node.keys)
    schema = left.schema if node.kind.left_only else left.schema + right.schema
    return only(replace(node, schema=schema, left=left, right=right, keys=keys), node.names)
