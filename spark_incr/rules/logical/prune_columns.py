"""Below a node, only the columns that it reads are kept.

    πa(R) = πa(πb(R))     where b holds every column that a reads

State holds what its stage reads and nothing else.
"""

from __future__ import annotations

from dataclasses import replace

from spark_incr.plan.context import Context
from spark_incr.plan.nodes import (
    Aggregate,
    AtMostOne,
    Filter,
    Generate,
    Join,
    Limit,
    Node,
    Project,
    Repeat,
    Scan,
    UnionAll,
    Window,
    column,
    columns_in,
)


def prune_columns(node: Node, context: Context) -> Node:
    """Started at each projection and aggregate: those say what they read."""
    if isinstance(node, Project):
        needed = {name for e in node.expressions for name in columns_in(e)}
        return replace(node, input=_pruned(node.input, needed))
    if isinstance(node, Aggregate):
        return replace(node, input=_pruned(node.input, _read_by(node)))
    return node


def _read_by(node: Aggregate) -> set[str]:
    conditions = {c.condition for c in node.calls if c.condition}
    return set(node.keys) | {a for c in node.calls for a in c.arguments} | conditions


def _pruned(node: Node, needed: set[str]) -> Node:
    """The node with the needed columns at least."""
    if set(node.names) <= needed:
        return node
    if isinstance(node, Scan):
        kept = [(f, c) for f, c in zip(node.schema, node.columns, strict=True) if f.name in needed]
        return replace(node, schema=tuple(f for f, _ in kept), columns=tuple(c for _, c in kept))
    if isinstance(node, Project):
        pairs = zip(node.schema, node.expressions, strict=True)
        chosen = [(f, e) for f, e in pairs if f.name in needed]
        below = {name for _, e in chosen for name in columns_in(e)}
        return Project(
            tuple(f for f, _ in chosen), _pruned(node.input, below), tuple(e for _, e in chosen)
        )
    if isinstance(node, Filter):
        below_filter = _pruned(node.input, needed | columns_in(node.condition))
        return Filter(below_filter.schema, below_filter, node.condition)
    if isinstance(node, Join):
        left = _exactly(node.left, needed | {a for a, _ in node.keys})
        right = _exactly(node.right, needed | {b for _, b in node.keys})
        schema = left.schema if node.kind.left_only else left.schema + right.schema
        return replace(node, schema=schema, left=left, right=right)
    if isinstance(node, AtMostOne):
        below_check = _pruned(node.input, needed | {node.count})
        return replace(node, schema=below_check.schema, input=below_check)
    if isinstance(node, Limit):
        read = {*node.keys, *(key.column for key in node.order)}
        below_limit = _exactly(node.input, needed | read)
        return replace(node, schema=below_limit.schema, input=below_limit)
    if isinstance(node, Generate):
        below_generator = _pruned(node.input, needed | columns_in(node.generator))
        kept_fields = tuple(f for f in node.schema if f.name in needed or f.name in node.made)
        return replace(node, schema=kept_fields, input=below_generator)
    if isinstance(node, Window):
        functions = tuple((n, w) for n, w in node.functions if n in needed)
        if not functions:
            return _pruned(node.input, needed)
        reads = {name for _, w in functions for name in columns_in(w)} | set(node.keys)
        below_window = _exactly(node.input, needed | reads)
        made = tuple(f for f in node.schema if f.name in {n for n, _ in functions})
        return Window((*below_window.schema, *made), below_window, node.keys, functions)
    if isinstance(node, Repeat):
        below_repeat = _exactly(node.input, needed | {node.times})
        schema = tuple(f for f in below_repeat.schema if f.name != node.times)
        return replace(node, schema=schema, input=below_repeat)
    if isinstance(node, UnionAll):
        kept_at = [i for i, name in enumerate(node.names) if name in needed]
        relations = tuple(_exactly(r, {r.names[i] for i in kept_at}) for r in node.relations)
        return UnionAll(tuple(node.schema[i] for i in kept_at), relations)
    if isinstance(node, Aggregate):
        calls = tuple(c for c in node.calls if c.name in needed)
        schema = tuple(f for f in node.schema if f.name in needed or f.name in node.keys)
        return replace(node, schema=schema, calls=calls)
    return node


def _exactly(node: Node, needed: set[str]) -> Node:
    """The node with the needed columns and no other, for inputs that are kept or paired."""
    node = _pruned(node, needed)
    if set(node.names) <= needed:
        return node
    kept = tuple(f for f in node.schema if f.name in needed)
    return Project(kept, node, tuple(column(f.name) for f in kept))
