"""Joins of every kind from a condition: keys to look up by, and laws for what is no key.

Let p be the part of the condition that no key expresses, and M = σp(L ⋈ R).

    L ⟕ R = M ⊎ (L ▷ M) × NULLs         L ⋉ R = L ⋉ M         L ▷ R = L ▷ M

where ⋉ and ▷ on the right compare whole rows of L, NULL with NULL. A condition that reads one side
needs no p: of the side that may be dropped it is a filter, of the side that is kept it is a key
that is NULL, and so matches nothing, where the condition does not hold.
"""

from __future__ import annotations

from dataclasses import replace

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.context import Context
from spark_incr.plan.nodes import (
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    UnionAll,
    column,
    columns_in,
    conjuncts,
)
from spark_incr.plan.types import Field, type_text


def join_on(
    left: Node, right: Node, condition: exp.Expr | None, kind: JoinKind, context: Context
) -> Node:
    """The join of two nodes on any condition; columns are those of the left, then of the right."""
    if kind is JoinKind.RIGHT:
        swapped = join_on(right, left, condition, JoinKind.LEFT, context)
        return only(swapped, (*left.names, *right.names))
    names = left.names if kind.left_only else (*left.names, *right.names)
    left_names, right_names = set(left.names), set(right.names)
    pairs: list[tuple[exp.Expr, exp.Expr, bool]] = []
    rest: list[exp.Expr] = []
    for part in conjuncts(condition) if condition is not None else []:
        pair = equality(part, left_names, right_names)
        if pair is not None:
            pairs.append(pair)
        elif columns_in(part) <= right_names and kind is not JoinKind.FULL:
            right = Filter(right.schema, right, part)
        elif columns_in(part) <= left_names:
            pairs.append((_true_or_null(part), exp.true(), False))
        elif columns_in(part) <= right_names:
            pairs.append((exp.true(), _true_or_null(part), False))
        else:
            rest.append(part)
    if not rest:
        return only(keyed_join(left, right, pairs, kind, context), names)
    matched: Node = keyed_join(left, right, pairs, JoinKind.INNER, context)
    for part in rest:
        matched = Filter(matched.schema, matched, part)
    if kind.left_only:
        return _whole_row_join(left, matched, kind, context)
    inputs = [only(matched, names), _dangling(left, matched, names, right.schema, context)]
    if kind is JoinKind.FULL:
        inputs.append(_dangling(right, matched, names, left.schema, context))
    fields = {f.name: f for f in (*left.schema, *right.schema)}
    schema = tuple(Field(context.names.fresh(name), fields[name].type) for name in names)
    union = UnionAll(schema, tuple(inputs))
    return Project(
        tuple(fields[name] for name in names), union, tuple(column(f.name) for f in schema)
    )


def keyed_join(
    left: Node,
    right: Node,
    pairs: list[tuple[exp.Expr, exp.Expr, bool]],
    kind: JoinKind,
    context: Context,
) -> Join:
    """A join on pairs of expressions (and whether NULL equals NULL), computed below it."""
    keys: list[tuple[str, str]] = []
    for here, there, _ in pairs:
        (left_type,) = context.analyzer.types(left.schema, [here])
        (right_type,) = context.analyzer.types(right.schema, [there])
        compared = left_type
        if left_type != right_type:
            compared = context.analyzer.comparison_type(left_type, right_type)
        left, left_key = _with_key(left, cast_to(here, left_type, compared), compared, context)
        right, right_key = _with_key(right, cast_to(there, right_type, compared), compared, context)
        keys.append((left_key, right_key))
    schema = left.schema if kind.left_only else left.schema + right.schema
    return Join(schema, left, right, tuple(keys), kind, tuple(safe for _, _, safe in pairs))


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


def only(node: Node, names: tuple[str, ...]) -> Node:
    """Exactly the named columns, in this order."""
    if node.names == names:
        return node
    fields = {f.name: f for f in node.schema}
    return Project(tuple(fields[n] for n in names), node, tuple(column(n) for n in names))


def cast_to(expression: exp.Expr, source: T.DataType, target: T.DataType) -> exp.Expr:
    """The expression in the target type."""
    if source == target:
        return expression
    return exp.Cast(this=expression, to=exp.DataType.build(type_text(target), dialect="spark"))


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


def _whole_row_join(left: Node, matched: Node, kind: JoinKind, context: Context) -> Node:
    """L ⋉ M or L ▷ M, comparing whole rows of L."""
    fresh = {name: context.names.fresh(name) for name in left.names}
    schema = tuple(replace(f, name=fresh[f.name]) for f in left.schema)
    rows = Project(schema, matched, tuple(column(name) for name in left.names))
    pairs = [(column(name), column(fresh[name]), True) for name in left.names]
    return keyed_join(left, rows, list(pairs), kind, context)


def _dangling(
    side: Node, matched: Node, names: tuple[str, ...], other: tuple[Field, ...], context: Context
) -> Node:
    """The rows of one side that matched nothing, with NULLs for the other."""
    rows = _whole_row_join(side, matched, JoinKind.ANTI, context)
    return with_nulls(rows, names, other)


def with_nulls(rows: Node, names: tuple[str, ...], other: tuple[Field, ...]) -> Node:
    """The rows extended by NULLs in the columns that only the other side has."""
    types = {f.name: f.type for f in (*rows.schema, *other)}
    own = set(rows.names)
    expressions = tuple(
        column(n) if n in own else cast_to(exp.null(), T.NullType(), types[n]) for n in names
    )
    return Project(tuple(Field(n, types[n]) for n in names), rows, expressions)
