"""What is known of a plan's rows: a rule asks for the facts that its law needs."""

from __future__ import annotations

from sqlglot import exp

from spark_incr.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    UnionAll,
)
from spark_incr.plan.stages import AggregateStage


def unique_keys(node: Node) -> frozenset[frozenset[str]]:
    """Sets of columns that no two rows of the node agree on."""
    if isinstance(node, (Aggregate, AggregateStage)):
        return frozenset([frozenset(node.keys)])
    if isinstance(node, Scan):
        named = dict(zip(node.columns, node.names, strict=True))
        if node.unique and all(c in named for c in node.unique):
            return frozenset([frozenset(named[c] for c in node.unique)])
    if isinstance(node, Filter):
        return unique_keys(node.input)
    if isinstance(node, Project):
        renamed = {
            e.name: name
            for e, name in zip(node.expressions, node.names, strict=True)
            if isinstance(e, exp.Column)
        }
        return frozenset(
            frozenset(renamed[c] for c in key)
            for key in unique_keys(node.input)
            if all(c in renamed for c in key)
        )
    if isinstance(node, Join):
        if node.kind.left_only:
            return unique_keys(node.left)
        if node.kind is JoinKind.INNER:
            return frozenset(a | b for a in unique_keys(node.left) for b in unique_keys(node.right))
    return frozenset()


def append_only(node: Node) -> bool:
    """Whether no row of the node ever leaves, whatever happens to the relations."""
    if isinstance(node, Scan):
        return node.append_only
    if isinstance(node, (Filter, Project, Generate)):
        return append_only(node.input)
    if isinstance(node, UnionAll):
        return all(append_only(child) for child in node.inputs)
    if isinstance(node, Join):
        inner = node.kind is JoinKind.INNER
        return inner and append_only(node.left) and append_only(node.right)
    return False


def determines(node: Node, keys: tuple[str, ...], name: str) -> bool:
    """Whether rows that agree on the keys agree on the column."""
    known = set(keys)
    if name in known or any(key <= known for key in unique_keys(node)):
        return True
    if isinstance(node, Project):
        value = dict(zip(node.names, node.expressions, strict=True))
        given = {value[k].name for k in keys if isinstance(value[k], exp.Column)}
        return {c.name for c in value[name].find_all(exp.Column)} <= given
    return False
