"""What a syntax tree holds: subqueries, aggregates, windows, and how it is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from spark_incr.errors import IncrementalError, error
from spark_incr.plan.aggregates import is_aggregate
from spark_incr.plan.functions import QUERY
from spark_incr.plan.scope import spelled
from spark_incr.sql.dialect import SparkText, position_of, print_sql


def unsupported(node: exp.Expr, what: str, hint: str | None = None) -> IncrementalError:
    """The refusal of a construct, with its place."""
    return error("INCR_UNSUPPORTED", what=what, hint=hint, position=position_of(node))


def words(node: exp.Expr) -> str:
    """What a node is called in a message."""
    return type(node).__name__.upper()


def refuse_clauses(node: exp.Expr, known: set[str]) -> None:
    """Raise if a node has a clause that is not known."""
    for key, value in node.args.items():
        if key not in known and value not in (None, False, [], ""):
            place = value[0] if isinstance(value, list) else value
            where = place if isinstance(place, exp.Expr) else node
            raise unsupported(where, f"the clause {key.strip('_').upper().replace('_', ' ')}")


def is_subquery(node: exp.Expr) -> bool:
    """Whether a node is a subquery in an expression; IN counts with its negation."""
    if membership_of(node) is not None or holds_query(node):
        return True
    return isinstance(node, (exp.Exists, exp.Subquery, exp.Query))


def holds_query(node: exp.Expr) -> bool:
    """Whether a node calls a function of SQL that holds a query."""
    return isinstance(node, exp.Anonymous) and QUERY in node.meta


def membership_of(node: exp.Expr) -> tuple[exp.In, bool] | None:
    """`x IN (subquery)` or `x NOT IN (subquery)`, and whether it is negated."""
    test = node.this.unnest() if isinstance(node, exp.Not) else node
    if isinstance(test, exp.In) and test.args.get("query") is not None:
        return test, test is not node
    return None


def values_for(subquery: exp.Expr) -> list[exp.Expr]:
    """What a subquery is given by the query around it: the values before IN, one per column, or the
    arguments of a function."""
    test = membership_of(subquery)
    if test is None:
        return arguments_of(subquery) if holds_query(subquery) else []
    before = test[0].this.unnest()
    return list(before.expressions) if isinstance(before, exp.Tuple) else [before]


def arguments_of(call: exp.Expr) -> list[exp.Expr]:
    """The arguments of a function as they are written, without their names."""
    return [e.expression if isinstance(e, exp.Kwarg) else e for e in call.expressions]


def outermost_subqueries(expression: exp.Expr) -> list[exp.Expr]:
    """The subqueries of an expression that are not inside another."""
    return [n for n in expression.walk(prune=is_subquery) if is_subquery(n)]


def outermost_windows(expression: exp.Expr) -> list[exp.Expr]:
    """The window functions of an expression, outside its subqueries."""

    def stop(node: exp.Expr) -> bool:
        return is_subquery(node) or isinstance(node, exp.Window)

    return [n for n in expression.walk(prune=stop) if isinstance(n, exp.Window)]


WRAPPERS = (exp.IgnoreNulls, exp.RespectNulls, exp.Filter, exp.WithinGroup)
"""What may stand around the function of a window."""


def _called_with(function: exp.Expr) -> list[exp.Expr]:
    """The operands of a window's function, and what stands around it."""
    if isinstance(function, WRAPPERS):
        return [*_called_with(function.this), *_children(function)[1:]]
    return _children(function)


def has_aggregate(expression: exp.Expr) -> bool:
    """Whether an expression aggregates; a function over a window does not, its operands may."""
    if is_subquery(expression):
        return any(has_aggregate(value) for value in values_for(expression))
    if isinstance(expression, exp.Window):
        parts = [*_called_with(expression.this), *_children(expression)[1:]]
        return any(has_aggregate(part) for part in parts)
    return is_aggregate(expression) or any(has_aggregate(c) for c in _children(expression))


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate as written, without its FILTER; IGNORE NULLS stays with it."""

    node: exp.Expr
    condition: exp.Expr | None


def aggregate_call(expression: exp.Expr) -> AggregateCall | None:
    """The aggregate that an expression is, if it is one."""
    condition: exp.Expr | None = None
    node = expression
    if isinstance(node, exp.Filter):
        condition, node = node.expression.this, node.this
    inner = node.this if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)) else node
    return AggregateCall(node, condition) if is_aggregate(inner) else None


_COMMUTATIVE = (exp.Add, exp.Mul, exp.And, exp.Or, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_SYMMETRIC = (exp.EQ, exp.NullSafeEQ)
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE}


def canonical(expression: exp.Expr) -> exp.Expr:
    """One form for expressions that Spark takes for the same key: a + b and b + a, a > b and b < a."""
    node = expression.unnest()
    node = transformed_children(node, canonical)
    if isinstance(node, _COMMUTATIVE):
        operands = sorted(_flattened(node, type(node)), key=print_sql)
        result = operands[0]
        for operand in operands[1:]:
            result = type(node)(this=result, expression=operand)
        return result
    if isinstance(node, _SYMMETRIC):
        left, right = sorted((node.left, node.right), key=print_sql)
        return type(node)(this=left, expression=right)
    if isinstance(node, exp.Binary) and type(node) in _MIRRORED:
        return _MIRRORED[type(node)](this=node.right, expression=node.left)
    return node


def _flattened(node: exp.Expr, kind: type[exp.Binary]) -> list[exp.Expr]:
    if isinstance(node, kind):
        return [*_flattened(node.left, kind), *_flattened(node.right, kind)]
    return [node]


def _children(node: exp.Expr) -> list[exp.Expr]:
    return [
        child
        for value in node.args.values()
        for child in (value if isinstance(value, list) else [value])
        if isinstance(child, exp.Expr)
    ]


def lambda_columns(lambda_: exp.Lambda) -> list[exp.Column]:
    parameters = {spelled(p.name) for p in lambda_.expressions}
    return [c for c in lambda_.this.find_all(exp.Column) if spelled(c.parts[0].name) in parameters]


def transformed(expression: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A changed copy; what has been put in is not looked into again."""
    changed = change(expression)
    if changed is not expression:
        return changed
    copy = type(expression)()
    copy.args = {}
    copy.meta.update(expression.meta)
    for key, value in expression.args.items():
        if isinstance(value, exp.Expr):
            copy.set(key, transformed(value, change))
        elif isinstance(value, list):
            copy.set(
                key,
                [transformed(v, change) if isinstance(v, exp.Expr) else v for v in value],
            )
        else:
            copy.set(key, value)
    return copy


def negation_inwards(condition: exp.Expr) -> exp.Expr:
    """NOT moved into AND and OR, so that it stands before what it negates: ¬(a ∧ b) = ¬a ∨ ¬b."""
    if isinstance(condition, (exp.Paren, exp.And, exp.Or)):
        return transformed_children(condition, negation_inwards)
    inner = condition.this.unnest() if isinstance(condition, exp.Not) else condition
    if inner is condition or not isinstance(inner, (exp.And, exp.Or, exp.Not)):
        return condition
    if isinstance(inner, exp.Not):
        return exp.Paren(this=negation_inwards(inner.this))
    dual = exp.Or if isinstance(inner, exp.And) else exp.And
    sides = [exp.Not(this=exp.Paren(this=side)) for side in (inner.left, inner.right)]
    here, there = (exp.Paren(this=negation_inwards(side)) for side in sides)
    return exp.Paren(this=dual(this=here, expression=there))


def negations_inwards(expression: exp.Expr) -> exp.Expr:
    """An expression in which each NOT stands before what it negates; subqueries stay as they are."""

    def change(node: exp.Expr) -> exp.Expr:
        if is_subquery(node):
            return node.copy()
        return negation_inwards(node) if isinstance(node, exp.Not) else node

    return transformed(expression, change)


def transformed_children(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A copy of a node with its children changed."""
    return transformed(node, lambda n: n if n is node else change(n))


def expression_of(text: str, *values: exp.Expr) -> exp.Expr:
    """An expression as written, with values in the places of $."""
    for number in range(len(values)):
        text = text.replace("$", f"__incr_{number}", 1)
    named = {f"__incr_{i}": value for i, value in enumerate(values)}

    def change(node: exp.Expr) -> exp.Expr:
        value = named.get(node.name) if isinstance(node, exp.Column) else None
        return node if value is None else value.copy()

    return transformed(sqlglot.parse_one(text, read=SparkText), change)
