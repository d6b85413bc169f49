"""The negation of `x IN (subquery)` from afar.

Where IN is unknown, its value is FALSE to Spark, and so is that of NOT IN:

    x IN (1, NULL)    x NOT IN (1, NULL)    both keep no row with x = 2

So NOT (x IN ...) is either NOT FALSE or NOT IN, by what Spark's optimizer has moved where. NOT is moved
to IN within an expression, as Spark does. A condition of WHERE that negates a column of a subquery is
moved there as a whole, so there IN is planned with its negation at hand:

    CASE WHEN x IN Q THEN TRUE WHEN x NOT IN Q THEN FALSE ELSE FALSE END

`rules/logical/negate_memberships.py` takes the one or the other. What is left depends on what else
reads the column: it is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlglot import exp

from spark_incr.errors import IncrementalError, error
from spark_incr.plan.nodes import Aggregate, Filter, Join, Node, Project, UnionAll, column, walk
from spark_incr.plan.syntax import negations_inwards, transformed

Meanings = Mapping[str, Sequence[exp.Expr]]

_MEMBERSHIP = "membership"
_HINT = (
    "Write NOT IN, or NOT EXISTS with the comparison in WHERE, where the value is computed;"
    " or CASE WHEN without NOT, which takes unknown for false."
)
_COMPARED = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is)


def with_negation(value: exp.Expr, negation: exp.Expr) -> exp.Expr:
    """The value of IN, or of NOT IN, which tells what it is when it is negated."""
    outcomes = ((value, exp.true()), (negation, exp.false()))
    ifs = [exp.If(this=test, true=outcome) for test, outcome in outcomes]
    case = exp.Case(ifs=ifs, default=exp.false())
    case.meta[_MEMBERSHIP] = True
    return exp.Paren(this=case)


def has_negation(expression: exp.Expr) -> bool:
    """Whether an expression is such a value."""
    return isinstance(expression, exp.Case) and _MEMBERSHIP in expression.meta


def negated(condition: exp.Expr) -> exp.Expr:
    """A condition in which such values are not negated any more, if they can be told from here."""

    def change(node: exp.Expr) -> exp.Expr:
        value = node.this.unnest() if isinstance(node, exp.Not) else None
        if value is not None and has_negation(value):
            return exp.Paren(this=value.args["ifs"][1].this.copy())
        return node

    return transformed(negations_inwards(transformed(condition, _uncompared)), change)


def _uncompared(node: exp.Expr) -> exp.Expr:
    """`x = FALSE` as NOT x, and the like, of what is a value of IN or holds one."""
    if not isinstance(node, (exp.EQ, exp.NEQ)):
        return node
    sides = [node.left.unnest(), node.right.unnest()]
    for value, other in (sides, sides[::-1]):
        if isinstance(other, exp.Boolean) and any(map(has_negation, value.find_all(exp.Case))):
            value = exp.Paren(this=transformed(value, _uncompared))
            positive = bool(other.this) is isinstance(node, exp.EQ)
            return value if positive else exp.Not(this=value)
    return node


def decided(expression: exp.Expr) -> exp.Expr:
    """An expression in which such values are values and nothing else."""

    def change(node: exp.Expr) -> exp.Expr:
        return decided(node.args["ifs"][0].this) if has_negation(node) else node

    return transformed(expression, change)


def meanings_of(plan: Node) -> Meanings:
    """What the columns of a plan stand for."""
    meanings: dict[str, list[exp.Expr]] = defaultdict(list)
    for node in walk(plan):
        for name, meaning in _meanings(node):
            if meaning != column(name):
                meanings[name].append(meaning)
    return meanings


def negates(
    expression: exp.Expr, meanings: Meanings, is_membership: Callable[[exp.Expr], bool]
) -> bool:
    """Whether an expression negates a value of IN, or compares it with a truth value."""

    def visit(expression: exp.Expr, positive: bool, within: frozenset[str]) -> bool:
        if is_membership(expression):
            return not positive
        parts = list(expression.iter_expressions())
        if isinstance(expression, exp.Column):
            if expression.name in within:
                return False
            parts, within = list(meanings.get(expression.name, ())), within | {expression.name}
        elif isinstance(expression, exp.Not):
            positive = not positive
        elif not isinstance(expression, (exp.Paren, exp.And, exp.Or)):
            positive = not isinstance(expression, _COMPARED)
        return any(visit(part, positive, within) for part in parts)

    return visit(expression, True, frozenset())


def negates_memberships(plan: Node, is_membership: Callable[[exp.Expr], bool]) -> bool:
    """Whether an expression of a plan negates a value of IN."""
    meanings = meanings_of(plan)
    return any(negates(expression, meanings, is_membership) for expression in read_by(plan))


def unknown_negation() -> IncrementalError:
    return error("INCR_UNSUPPORTED", what="the negation of IN (subquery)", hint=_HINT)


def _meanings(node: Node) -> list[tuple[str, exp.Expr]]:
    """What the columns that a node makes stand for."""
    if isinstance(node, Project):
        return list(zip(node.names, node.expressions, strict=True))
    if isinstance(node, Aggregate):
        return [(c.name, column(c.arguments[0])) for c in node.calls if c.function == "any_value"]
    if isinstance(node, UnionAll):
        return [
            (name, column(other))
            for relation in node.relations
            for name, other in zip(node.names, relation.names, strict=True)
        ]
    return []


def read_by(plan: Node) -> Iterator[exp.Expr]:
    """The conditions and expressions of a plan in which such values may stand."""
    for node in walk(plan):
        if isinstance(node, Filter):
            yield node.condition
        elif isinstance(node, Join) and node.where is not None:
            yield node.where
        elif isinstance(node, Project):
            yield from node.expressions
