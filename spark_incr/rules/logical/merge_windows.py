"""ωk,g(ωk,f(R)) = ωk,f,g(R), where g reads nothing that f makes.

Functions over one partitioning are one stage, which keeps the rows once.
"""

from __future__ import annotations

from spark_incr.plan.context import Context
from spark_incr.plan.nodes import Node, Window, columns_in


def merge_windows(node: Node, context: Context) -> Node:
    if not (isinstance(node, Window) and isinstance(node.input, Window)):
        return node
    below = node.input
    made = {name for name, _ in below.functions}
    read = {name for _, window in node.functions for name in columns_in(window)}
    if node.keys != below.keys or made & read or not made <= set(node.names):
        return node
    return Window(node.schema, below.input, node.keys, (*below.functions, *node.functions))
