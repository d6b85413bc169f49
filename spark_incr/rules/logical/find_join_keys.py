"""σ(a = b ∧ p)(L × R) = σp(L ⋈a=b R), where a reads only L and b only R.

The two sides of an equality become columns of one type, the one in which Spark compares them.
"""

from __future__ import annotations

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.build import cast_to, split_join_condition
from spark_incr.plan.nodes import Filter, Join, Node, Project, column
from spark_incr.plan.types import Field
from spark_incr.rules.executor import Context
from spark_incr.rules.logical.push_filters import filtered


def find_join_keys(node: Node, context: Context) -> Node:
    if not (isinstance(node, Filter) and isinstance(node.input, Join)):
        return node
    join = node.input
    left, right = join.left, join.right
    keys, rest = split_join_condition(node.condition, set(left.names), set(right.names))
    if not keys:
        return node
    pairs = list(join.keys)
    for here, there in keys:
        (left_type,) = context.analyzer.types(left.schema, [here])
        (right_type,) = context.analyzer.types(right.schema, [there])
        compared = left_type
        if left_type != right_type:
            compared = context.analyzer.comparison_type(left_type, right_type)
        left, left_key = _with_key(left, cast_to(here, left_type, compared), compared, context)
        right, right_key = _with_key(right, cast_to(there, right_type, compared), compared, context)
        pairs.append((left_key, right_key))
    joined: Node = Join(left.schema + right.schema, left, right, tuple(pairs))
    if joined.names != node.names:
        joined = Project(node.schema, joined, tuple(column(name) for name in node.names))
    return filtered(joined, rest)


def _with_key(
    node: Node, key: exp.Expr, key_type: T.DataType, context: Context
) -> tuple[Node, str]:
    """The node with the key among its columns."""
    if isinstance(key, exp.Column):
        return node, key.name
    name = context.names.fresh("join_key")
    expressions = (*(column(n) for n in node.names), key)
    return Project((*node.schema, Field(name, key_type)), node, expressions), name
