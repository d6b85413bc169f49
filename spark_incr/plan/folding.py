"""Folding: an aggregate over a join needs only the sums of one side, not its rows.

    h(L ⋈ R) = Σ over l in L of w(l) · h(the rows of R that match l)

Where every accumulator reads R alone, the rows of R that agree on the join key and on the group's
columns count only by their sum, so R can be kept as one partial state per such key. It pays where
keys have several rows, and holds where a state times a weight is exact: for sums of integers and
decimals, not of floats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from spark_incr.plan.facts import unique_keys
from spark_incr.plan.nodes import Join, JoinKind, Node, Project
from spark_incr.plan.stages import AggregateStage
from spark_incr.plan.types import has_several_forms

_EXACT = {"integer", "wide"}


@dataclass(frozen=True)
class Fold:
    """The join below an aggregate, the side that is folded, and the columns that tell its rows
    apart: those of the join first."""

    join: Join
    right: bool
    keys: tuple[str, ...]

    @property
    def folded(self) -> Node:
        return self.join.right if self.right else self.join.left

    @property
    def rows(self) -> Node:
        """The side that is kept as rows."""
        return self.join.left if self.right else self.join.right

    @property
    def lineage(self) -> tuple[str, ...]:
        """The join key of the folded side."""
        return tuple(pair[self.right] for pair in self.join.keys)

    @property
    def row_keys(self) -> tuple[str, ...]:
        """The join key of the other side."""
        return tuple(pair[not self.right] for pair in self.join.keys)


def fold_of(stage: AggregateStage) -> Fold | None:
    """How the join below an aggregate is folded, if it can be."""
    join = _join_below(stage)
    if join is None or join.kind is not JoinKind.INNER or not join.keys or stage.multisets:
        return None
    if any(a.monoid not in _EXACT for a in stage.accumulators):
        return None
    for right in (True, False):
        fold = _fold(stage, join, right)
        if fold is not None:
            return fold
    return None


def folds_in(nodes: Sequence[Node]) -> dict[Node, Fold]:
    """The aggregates of a plan that fold a join which nothing else reads."""
    readers = Counter(child for node in nodes for child in node.inputs)
    stages = {node: fold_of(node) for node in nodes if isinstance(node, AggregateStage)}
    return {
        stage: fold
        for stage, fold in stages.items()
        if fold is not None and readers[stage.input] == readers[fold.join] == 1
    }


def _join_below(stage: AggregateStage) -> Join | None:
    below = stage.input
    if isinstance(below, Project) and all(
        isinstance(e, exp.Column) and e.name == name
        for e, name in zip(below.expressions, below.names, strict=True)
    ):
        below = below.input
    return below if isinstance(below, Join) else None


def _fold(stage: AggregateStage, join: Join, right: bool) -> Fold | None:
    side = join.right if right else join.left
    joined = [pair[right] for pair in join.keys]
    keys = tuple(dict.fromkeys([*joined, *(k for k in stage.keys if k in side.names)]))
    read = {name for a in stage.accumulators for name in (*a.terms, *a.present)}
    if not read <= set(side.names) or len(set(joined)) < len(joined):
        return None
    if any(has_several_forms(side.type_of(key)) for key in keys):
        return None
    if any(unique <= set(keys) for unique in unique_keys(side)):
        return None
    return Fold(join, right, keys)
