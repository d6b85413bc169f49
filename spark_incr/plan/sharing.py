"""Sharing: a join looks rows up in a table itself, where the table is arranged by the join key.

    Δ(L ⋈ R) = ΔL ⋈ R + L' ⋈ ΔR        with L' = L + ΔL, the table as it is now

Only L' is read, never L, so the law holds as well for a view that lags behind its tables and follows
several of their versions at once. A side is shared if it is a table as it stands, no other operator
in between, and if its key has one form per value. A table without a primary key may be arranged by
any of its columns: the first join that asks for it decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_incr.plan.folding import folds_in
from spark_incr.plan.nodes import Join, JoinKind, Node, Scan, walk
from spark_incr.plan.types import has_several_forms


@dataclass(frozen=True)
class Lookup:
    """The table, and its columns, by which the rows of a join side are found."""

    relation: str
    columns: tuple[str, ...]

    def fits(self, lineage: tuple[str, ...]) -> bool:
        """Whether a table of that lineage finds the rows."""
        return set(self.columns) == set(lineage)


def lookup_of(side: Node, keys: Sequence[str]) -> Lookup | None:
    """How a side of a join could be found in its table, if it is one."""
    if not isinstance(side, Scan) or not keys:
        return None
    if len(set(keys)) < len(keys) or any(has_several_forms(side.type_of(key)) for key in keys):
        return None
    columns = dict(zip(side.names, side.columns, strict=True))
    return Lookup(side.relation, tuple(columns[key] for key in keys))


def lookups(plan: Node) -> list[list[Lookup]]:
    """The look-ups of a plan that tables could serve; of each join one of those given."""
    nodes = list(dict.fromkeys(walk(plan)))
    folds = folds_in(nodes)
    folded = {fold.join for fold in folds.values()}
    result = [[lookup_of(fold.rows, fold.row_keys)] for fold in folds.values()]
    for join in nodes:
        if isinstance(join, Join) and join.kind is JoinKind.INNER and join not in folded:
            left, right = [a for a, _ in join.keys], [b for _, b in join.keys]
            result.append([lookup_of(join.left, left), lookup_of(join.right, right)])
    return [[lookup for lookup in sides if lookup is not None] for sides in result]
