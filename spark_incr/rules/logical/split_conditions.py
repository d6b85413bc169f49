"""Joins with a condition that is no key.

Let k be the keys and p the condition; a are the columns that k and p read of L, b those of R. Whether
a row matches depends on a alone, or on b. So with ⋉a and ▷a joins that look a up, NULL being equal
to NULL, and

    M = σp(πa(L) ⋈k πb(R))     L ⋉ R = L ⋉a M                   L ▷ R = L ▷a M
    P = σp(L ⋈k R)             L ⋈ R = P
                               L ⟕ R = P ⊎ (L ▷a P) × NULLs     L ⟗ R = L ⟕ R ⊎ NULLs × (R ▷b P)

L and R are computed once: each is read by several joins.
"""

from __future__ import annotations

from dataclasses import replace

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.context import Context
from spark_incr.plan.joins import cast_to, keyed_join, only
from spark_incr.plan.nodes import (
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    UnionAll,
    column,
    columns_in,
)
from spark_incr.plan.types import Field, Schema


def split_conditions(node: Node, context: Context) -> Node:
    if not isinstance(node, Join) or node.where is None:
        return node
    left, right = node.left, node.right
    read = columns_in(node.where).union(*node.keys)
    here, there = (tuple(n for n in side.names if n in read) for side in (left, right))
    if node.kind.left_only:
        matched = _pairs(node, only(left, here), only(right, there))
        return _looked_up(left, matched, here, node.kind, context)
    pairs = _pairs(node, left, right)
    if node.kind is JoinKind.INNER:
        return only(pairs, node.names)
    names = (*left.names, *right.names)
    alone = _looked_up(left, pairs, here, JoinKind.ANTI, context)
    results = [pairs, _with_nulls(alone, names, right.schema)]
    if node.kind is JoinKind.FULL:
        alone = _looked_up(right, pairs, there, JoinKind.ANTI, context)
        results.append(_with_nulls(alone, names, left.schema))
    return _union(results, node.schema, context)


def _pairs(node: Join, left: Node, right: Node) -> Node:
    assert node.where is not None
    schema = left.schema + right.schema
    inner = replace(node, schema=schema, left=left, right=right, kind=JoinKind.INNER, where=None)
    return Filter(schema, inner, node.where)


def _looked_up(
    side: Node, matched: Node, names: tuple[str, ...], kind: JoinKind, context: Context
) -> Node:
    """The rows of a side that are, or are not, among those that matched, by the named columns."""
    fresh = tuple(Field(context.names.fresh(n), side.type_of(n)) for n in names)
    found = Project(fresh, matched, tuple(column(n) for n in names))
    pairs = [(column(n), column(f.name), True) for n, f in zip(names, fresh, strict=True)]
    # A condition may tell -0.0 from 0.0.
    return only(keyed_join(side, found, list(pairs), kind, context, exact=True), side.names)


def _union(nodes: list[Node], schema: Schema, context: Context) -> Node:
    """The sum of nodes of one schema, under the same names."""
    fresh = tuple(Field(context.names.fresh(f.name), f.type) for f in schema)
    inputs = []
    for node in nodes:
        own = tuple(Field(context.names.fresh(f.name), f.type) for f in schema)
        inputs.append(Project(own, node, tuple(column(f.name) for f in schema)))
    union = UnionAll(fresh, tuple(inputs))
    return Project(schema, union, tuple(column(f.name) for f in fresh))


def _with_nulls(rows: Node, names: tuple[str, ...], other: tuple[Field, ...]) -> Node:
    """The rows extended by NULLs in the columns that only the other side has."""
    types = {f.name: f.type for f in (*rows.schema, *other)}
    own = set(rows.names)
    expressions = tuple(
        column(n) if n in own else cast_to(exp.null(), T.NullType(), types[n]) for n in names
    )
    return Project(tuple(Field(n, types[n]) for n in names), rows, expressions)
