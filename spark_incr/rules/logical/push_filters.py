"""σ moves towards the scans.

    σp(π(R)) = π(σp'(R))            p' is p over the columns of R
    σp∧q(L ⋈ R) = σp(L) ⋈ σq(R)      where p reads only L and q only R
    σp(L ⋈k R) = σp(L) ⋈k σp(R)      where p reads only k, and is total
    σp(L ⟕ R) = σp(L) ⟕ R            likewise for ⋉ and ▷
    σp(A ⊎ B) = σp(A) ⊎ σp(B)
    σp(ρ(R)) = ρ(σp(R))
    σp(γk(R)) = γk(σp(R))            where p reads only k, and k is not empty
    σp(ωk(R)) = ωk(σp(R))            likewise for windows partitioned by k
    σp(g(R)) = g(σp(R))              where p reads nothing that the generator g makes

A filter below state keeps rows out of the state.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spark_incr.plan.context import Context
from spark_incr.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    JoinKind,
    Node,
    Project,
    Repeat,
    UnionAll,
    Window,
    column,
    columns_in,
    conjuncts,
    substitute,
)
from spark_incr.plan.totality import is_total
from spark_incr.rules.logical.merge_filters import filtered

# Where the rows of the left side decide which rows there are, a filter of them may come first.
_KEEPS_LEFT = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)


def push_filters(node: Node, context: Context) -> Node:
    if not isinstance(node, Filter):
        return node
    below = node.input
    parts = conjuncts(node.condition)
    if isinstance(below, Project):
        values = dict(zip(below.names, below.expressions, strict=True))
        moved = [substitute(part, values) for part in parts]
        return below.with_inputs((filtered(below.input, moved),))
    if isinstance(below, UnionAll):
        inputs = []
        for relation in below.relations:
            renamed = {a: column(b) for a, b in zip(below.names, relation.names, strict=True)}
            inputs.append(filtered(relation, [substitute(part, dict(renamed)) for part in parts]))
        return below.with_inputs(tuple(inputs))
    if isinstance(below, Repeat):
        return below.with_inputs((filtered(below.input, parts),))
    if isinstance(below, Join):
        left = reading(parts, below.left) if below.kind in _KEEPS_LEFT else []
        right = reading(parts, below.right) if below.kind is JoinKind.INNER else []
        rest = [p for p in parts if p not in left and p not in right]
        if left or right:
            if below.kind is JoinKind.INNER:
                right = [*right, *_of_keys(left, below, context)]
            joined = below.with_inputs((filtered(below.left, left), filtered(below.right, right)))
            return filtered(joined, rest)
    if isinstance(below, (Aggregate, Window)) and below.keys:
        keys = [p for p in parts if columns_in(p) and columns_in(p) <= set(below.keys)]
        if keys:
            rest = [p for p in parts if p not in keys]
            return filtered(below.with_inputs((filtered(below.input, keys),)), rest)
    if isinstance(below, Generate):
        early = reading(parts, below.input)
        if early:
            rest = [p for p in parts if p not in early]
            return filtered(below.with_inputs((filtered(below.input, early),)), rest)
    return node


def _of_keys(parts: Sequence[exp.Expr], join: Join, context: Context) -> list[exp.Expr]:
    """The conditions that read keys of the left side alone, over those of the right."""
    other = {here: column(there) for here, there in join.keys}
    return [
        substitute(part, dict(other))
        for part in parts
        if columns_in(part) <= other.keys() and is_total(part, join.left.schema, context)
    ]


def reading(parts: Sequence[exp.Expr], node: Node) -> list[exp.Expr]:
    """The conditions that read columns of a node and nothing else."""
    return [p for p in parts if columns_in(p) and columns_in(p) <= set(node.names)]
