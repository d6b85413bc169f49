"""Joins of every kind from a condition: keys to look up by, and laws for what is no key.

A condition that reads one side is no key: of the side that may be dropped it is a filter, of the
side that is kept it is a key that is NULL, and so matches nothing, where it does not hold. That key is
computed for rows that match nothing too, so the condition has to be total. What is not, and what reads
both sides and is no equality, is left for a rule to take apart, and is evaluated for pairs alone.
"""

from __future__ import annotations

from dataclasses import replace

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.collations import in_collation, uncompared
from spark_incr.plan.context import Context
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
from spark_incr.plan.totality import is_total
from spark_incr.plan.types import Field, as_string, is_collated, nullable, type_sql
from spark_incr.sql.dialect import SparkText, print_sql


def join_on(
    left: Node, right: Node, condition: exp.Expr | None, kind: JoinKind, context: Context
) -> Node:
    """The join of two nodes on any condition; columns are those of the left, then of the right."""
    if kind is JoinKind.RIGHT:
        swapped = join_on(right, left, condition, JoinKind.LEFT, context)
        return only(swapped, (*left.names, *right.names))
    if kind is JoinKind.INNER:
        joined: Node = Join(left.schema + right.schema, left, right, ())
        return joined if condition is None else Filter(joined.schema, joined, condition)
    names = left.names if kind.left_only else (*left.names, *right.names)
    left_names, right_names = set(left.names), set(right.names)
    pairs: list[tuple[exp.Expr, exp.Expr, bool]] = []
    here: list[exp.Expr] = []
    there: list[exp.Expr] = []
    rest: list[exp.Expr] = []
    for part in conjuncts(condition) if condition is not None else []:
        read = columns_in(part)
        pair = equality(part, left_names, right_names)
        if pair is not None:
            pairs.append(pair)
        elif read <= right_names and kind is not JoinKind.FULL:
            right = Filter(right.schema, right, part)
        elif read <= left_names and kind is JoinKind.SEMI:
            left = Filter(left.schema, left, part)
        elif read <= left_names and is_total(part, left.schema, context):
            here.append(part)
        elif read <= right_names and is_total(part, right.schema, context):
            there.append(part)
        else:
            rest.append(part)
    if here:
        pairs.append((_true_or_null(exp.and_(*here)), exp.true(), False))
    if there:
        pairs.append((exp.true(), _true_or_null(exp.and_(*there)), False))
    keyed = keyed_join(left, right, pairs, kind, context)
    return only(replace(keyed, where=exp.and_(*rest)) if rest else keyed, names)


def keyed_join(
    left: Node,
    right: Node,
    pairs: list[tuple[exp.Expr, exp.Expr, bool]],
    kind: JoinKind,
    context: Context,
    exact: bool = False,
) -> Join:
    """A join on pairs of expressions (and whether NULL equals NULL), computed below it."""
    keys: list[tuple[str, str]] = []
    for here, there, _ in pairs:
        (left_type,) = context.analyzer.types(left.schema, [here])
        (right_type,) = context.analyzer.types(right.schema, [there])
        left_type, right_type = as_string(left_type), as_string(right_type)
        compared = left_type
        if is_collated(left_type) or is_collated(right_type):
            either = exp.Coalesce(this=here.copy(), expressions=[there.copy()])
            (compared,) = context.analyzer.types(left.schema + right.schema, [either])
        elif left_type != right_type:
            compared = context.analyzer.comparison_type(left_type, right_type)
        left, left_key = _with_key(left, cast_to(here, left_type, compared), compared, context)
        right, right_key = _with_key(right, cast_to(there, right_type, compared), compared, context)
        keys.append((left_key, right_key))
    schema = left.schema if kind.left_only else left.schema + right.schema
    null_safe = tuple(safe for _, _, safe in pairs)
    return Join(schema, left, right, tuple(keys), kind, null_safe, exact)


def equality(
    part: exp.Expr, left: set[str], right: set[str]
) -> tuple[exp.Expr, exp.Expr, bool] | None:
    """A condition as a pair of keys, left first, if it equates the two sides."""
    if not isinstance(part, (exp.EQ, exp.NullSafeEQ)):
        return None
    here, there = columns_in(part.left), columns_in(part.right)
    safe = isinstance(part, exp.NullSafeEQ)
    if here and there and here <= left and there <= right:
        return part.left, part.right, safe
    if here and there and here <= right and there <= left:
        return part.right, part.left, safe
    return None


def with_a_column(node: Node, context: Context) -> Node:
    """The rows with one column at least: without any, a table does not say how many rows it has."""
    if node.schema:
        return node
    field = Field(context.names.fresh("row"), T.BooleanType())
    return Project((field,), node, (exp.true(),))


def only(node: Node, names: tuple[str, ...]) -> Node:
    """Exactly the named columns, in this order."""
    if node.names == names:
        return node
    fields = {f.name: f for f in node.schema}
    return Project(tuple(fields[n] for n in names), node, tuple(column(n) for n in names))


def cast_to(expression: exp.Expr, source: T.DataType, target: T.DataType) -> exp.Expr:
    """The expression in the target type."""
    if nullable(as_string(source)) == nullable(as_string(target)):
        return expression
    text = T.StringType()
    if isinstance(target, T.StringType) and target != text:
        return in_collation(cast_to(expression, source, text), target)
    if is_collated(target):
        raise uncompared(print_sql(expression), source)
    return exp.Cast(this=expression, to=exp.DataType.build(type_sql(target), dialect=SparkText))


def _with_key(
    node: Node, key: exp.Expr, key_type: T.DataType, context: Context
) -> tuple[Node, str]:
    """The node with the key among its columns."""
    if isinstance(key, exp.Column):
        return node, key.name
    name = context.names.fresh("join_key")
    expressions = (*(column(n) for n in node.names), key)
    return Project((*node.schema, Field(name, key_type)), node, expressions), name


def _true_or_null(condition: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=exp.true())])
