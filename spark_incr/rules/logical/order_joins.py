"""⋈ is associative and commutative: the inner joins of a query in an order that keeps little.

Every join keeps both of its sides, so the order decides how much state there is and how many joins
the change of a relation passes. Next comes a relation that shares a key with those before it, if
there is one. If it is known what the relations hold, such orders are compared by the rows of all
their joins; else the order is the written one. Equality is transitive,

    a = b ∧ b = c  ⟹  a = c          for columns of one type

so the columns of a class share a key with each other, whichever pairs were written; each relation
is compared with one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from spark_incr.plan.cardinality import distinct, joined_rows, rows_of
from spark_incr.plan.context import Analyzer, Context
from spark_incr.plan.joins import equality, only
from spark_incr.plan.nodes import (
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    column,
    columns_in,
    conjuncts,
)
from spark_incr.rules.logical.merge_filters import filtered
from spark_incr.rules.logical.push_filters import reading

Choice = Callable[[list[int], list[int]], int]


def order_joins(node: Node, context: Context) -> Node:
    if not isinstance(node, (Filter, Join)):
        return node
    leaves: list[Node] = []
    conditions: list[exp.Expr] = []
    _flatten(node, leaves, conditions)
    if len(leaves) < 3:
        return node
    graph = _Graph.of(leaves, conditions, context.analyzer)
    order = graph.order()
    if order == list(range(len(leaves))) and graph.shares_as_written(conditions):
        return node
    result = leaves[order[0]]
    for number in order[1:]:
        result = Join(result.schema + leaves[number].schema, result, leaves[number], ())
    return only(filtered(result, graph.conditions(order)), node.names)


def _flatten(node: Node, leaves: list[Node], conditions: list[exp.Expr]) -> None:
    """The relations that inner joins put together, and the conditions on them."""
    if isinstance(node, Filter):
        _flatten(node.input, leaves, conditions)
        conditions += conjuncts(node.condition)
    elif isinstance(node, Join) and node.kind is JoinKind.INNER and not node.keys:
        _flatten(node.left, leaves, conditions)
        _flatten(node.right, leaves, conditions)
    elif isinstance(node, Project) and _selects(node) and _joins(node.input):
        _flatten(node.input, leaves, conditions)
    else:
        leaves.append(node)


def _joins(node: Node) -> bool:
    return _joins(node.input) if isinstance(node, Filter) else isinstance(node, Join)


def _selects(node: Project) -> bool:
    return all(
        isinstance(e, exp.Column) and e.name == name
        for e, name in zip(node.expressions, node.names, strict=True)
    )


@dataclass(frozen=True)
class _Graph:
    """Relations, the classes of columns that are equal, and all other conditions.

    `filtered` are the relations with the conditions that read them alone, `rows` how many they have.
    """

    filtered: Sequence[Node]
    rows: Sequence[float]
    classes: Sequence[set[str]]
    others: Sequence[exp.Expr]
    analyzer: Analyzer

    @staticmethod
    def of(leaves: Sequence[Node], conditions: Sequence[exp.Expr], analyzer: Analyzer) -> _Graph:
        types = {f.name: f.type for leaf in leaves for f in leaf.schema}
        classes: list[set[str]] = []
        others: list[exp.Expr] = []
        for condition in conditions:
            names = columns_in(condition)
            alike = len(names) > 1 and len({types.get(n) for n in names}) == 1
            if alike and _compares_columns(condition):
                joined = names.union(*(c for c in classes if c & names))
                classes = [*(c for c in classes if not c & names), joined]
            else:
                others.append(condition)
        own = [filtered(leaf, reading(others, leaf)) for leaf in leaves]
        return _Graph(own, [rows_of(leaf, analyzer) for leaf in own], classes, others, analyzer)

    def conditions(self, order: Sequence[int]) -> list[exp.Expr]:
        """All conditions, with an equality for each column that joins others of its class."""
        result = list(self.others)
        for members in self.classes:
            ordered = [n for i in order for n in self.filtered[i].names if n in members]
            pairs = zip([ordered[0]] * len(ordered[1:]), ordered[1:], strict=True)
            result += [exp.EQ(this=column(a), expression=column(b)) for a, b in pairs]
        return result

    def shares_as_written(self, conditions: Sequence[exp.Expr]) -> bool:
        """Whether each relation that shares a key with those before it does so in writing."""
        for number, leaf in enumerate(self.filtered):
            before = {name for other in self.filtered[:number] for name in other.names}
            written = any(equality(c, before, set(leaf.names)) for c in conditions)
            if self._pairs(range(number), number) and not written:
                return False
        return True

    def order(self) -> list[int]:
        """The relations in the order in which they are joined; as written, if none is better."""
        written = self._connected(0, lambda order, possible: possible[0])
        if not all(self.rows):
            return written
        starts = range(len(self.filtered))
        orders = [list(starts), *(self._connected(i, self._next_smallest) for i in starts)]
        return min(orders, key=lambda order: sum(self._sizes(order)))

    def _connected(self, first: int, choose: Choice) -> list[int]:
        """The order from a relation on, in which `choose` says which of the possible ones is next."""
        order = [first]
        while len(order) < len(self.filtered):
            waiting = [i for i in range(len(self.filtered)) if i not in order]
            sharing = [i for i in waiting if self._pairs(order, i)]
            order.append(choose(order, sharing or waiting))
        return order

    def _next_smallest(self, order: list[int], possible: list[int]) -> int:
        return min(possible, key=lambda i: self._sizes([*order, i])[-1])

    def _sizes(self, order: list[int]) -> list[float]:
        """The rows of the first relation and of every join."""
        sizes = [self.rows[order[0]]]
        for place, number in enumerate(order[1:], start=1):
            pairs = [
                (min(sizes[-1], self._distinct(here)), self._distinct(there))
                for here, there in self._pairs(order[:place], number)
            ]
            sizes.append(joined_rows(sizes[-1], self.rows[number], pairs))
        return sizes

    def _pairs(self, order: Sequence[int], number: int) -> list[tuple[set[str], set[str]]]:
        """The columns by which a relation is equal to others, class by class."""
        left = {name for i in order for name in self.filtered[i].names}
        right = set(self.filtered[number].names)
        pairs = [(c & left, c & right) for c in self.classes if c & left and c & right]
        for condition in self.others:
            pair = equality(condition, left, right)
            if pair is not None:
                pairs.append((columns_in(pair[0]), columns_in(pair[1])))
        return pairs

    def _distinct(self, names: set[str]) -> float:
        """The number of values that columns of one class, or under one expression, may have."""
        counts = [
            distinct(leaf, name, self.analyzer)
            for name in names
            for leaf in self.filtered
            if name in leaf.names
        ]
        return min(counts, default=1.0)


def _compares_columns(condition: exp.Expr) -> bool:
    return isinstance(condition, exp.EQ) and all(
        isinstance(side, exp.Column) for side in (condition.left, condition.right)
    )
