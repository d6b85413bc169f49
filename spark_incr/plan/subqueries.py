"""Subqueries in expressions, as joins of the outer query with what they need.

A predicate that decides which rows stay (EXISTS, IN, and their negations among the conditions of a
WHERE) is a ⋉ or a ▷. Anywhere else a subquery becomes a column of the outer query: the value of a
scalar subquery, or whether a row exists. There IN is two-valued in Spark:

    x IN Q      =  some q = x
    x NOT IN Q  =  no q = x, no q is NULL, and x is not NULL unless Q is empty
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.collations import uncompared
from spark_incr.plan.context import Context
from spark_incr.plan.decorrelate import (
    Pulled,
    always_one_row,
    free_columns,
    in_each_row,
    outer_values,
    pull_up,
    push_down,
    values_in_each_row,
)
from spark_incr.plan.joins import join_on, keyed_join, only
from spark_incr.plan.nodes import (
    Aggregate,
    AtMostOne,
    Call,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    column,
    columns_in,
    conjuncts,
    walk,
)
from spark_incr.plan.types import Field, as_string, char_length, is_collated, is_widened
from spark_incr.plan.unknown_memberships import with_negation
from spark_incr.sql.dialect import print_sql


def keep_where_exists(node: Node, inner: Node, exists: bool, context: Context) -> Node:
    """The outer rows for which the subquery has a row, or has none."""
    kind = JoinKind.SEMI if exists else JoinKind.ANTI
    names = node.names
    pulled = _pulled(node, inner, context)
    if pulled is not None and pulled.defaults is None:
        condition = exp.and_(*pulled.conditions) if pulled.conditions else None
        return only(join_on(node, pulled.node, condition, kind, context), names)
    matched, pairs = _pushed(node, inner, context)
    return only(keyed_join(node, matched, pairs, kind, context), names)


def keep_where_in(
    node: Node, values: Sequence[exp.Expr], inner: Node, negated: bool, context: Context
) -> Node:
    """The outer rows for which `values [NOT] IN (subquery)` is true."""
    pairs = list(zip(values, inner.names, strict=True))
    equal = [exp.EQ(this=v.copy(), expression=column(n)) for v, n in pairs]
    if not negated:
        return keep_where_exists(node, _where(inner, equal), True, context)
    if len(pairs) > 1:
        return keep_where_exists(node, _where(inner, _maybe_equal(pairs)), False, context)
    (value, name) = pairs[0]
    node = keep_where_exists(node, _where(inner, equal), False, context)
    node = keep_where_exists(node, _where(inner, [_is_null(column(name))]), False, context)
    return keep_where_exists(node, _where(inner, [_is_null(value)]), False, context)


def existence(node: Node, inner: Node, context: Context) -> tuple[Node, exp.Expr]:
    """The outer query with a column that tells whether the subquery has a row."""
    inner, tests = _outer_tests(inner, set(node.names))
    if tests:
        # Looked at only where there is a row, for they need not be total.
        node, found = existence(node, inner, context)
        held = [exp.Is(this=exp.Paren(this=test), expression=exp.true()) for test in tests]
        return node, exp.Paren(this=exp.and_(found, *held))
    mark = Field(context.names.fresh("exists"), T.BooleanType())
    if not free_columns(inner):
        bare = Project((), inner, ())
        count = Call(context.names.fresh("count"), "count", (), T.LongType())
        counted = Aggregate((Field(count.name, count.type),), bare, (), (count,), True)
        joined = Join(node.schema + counted.schema, node, counted, ())
        return joined, exp.GT(this=column(count.name), expression=exp.Literal.number(0))
    matched, pairs = _pushed(node, inner, context)
    keys = tuple(there.name for _, there, _ in pairs)
    distinct = Aggregate(
        tuple(Field(k, matched.type_of(k)) for k in keys), only(matched, keys), keys, ()
    )
    columns = (*(column(k) for k in keys), exp.true())
    marked = Project((*distinct.schema, mark), distinct, columns)
    joined = keyed_join(node, marked, pairs, JoinKind.LEFT, context)
    kept = only(joined, (*node.names, mark.name))
    return kept, exp.Not(this=_is_null(column(mark.name)))


def _outer_tests(inner: Node, outer: set[str]) -> tuple[Node, list[exp.Expr]]:
    """The subquery without those of its topmost conditions that read the outer query alone."""
    if not isinstance(inner, (Filter, Project)):
        return inner, []
    below, tests = _outer_tests(inner.input, outer)
    if isinstance(inner, Project):
        return replace(inner, input=below), tests
    parts = conjuncts(inner.condition)
    found = [p for p in parts if columns_in(p) and columns_in(p) <= outer]
    return _where(below, [p for p in parts if p not in found]), [*tests, *found]


def membership(
    node: Node, values: Sequence[exp.Expr], inner: Node, negated: bool, context: Context
) -> tuple[Node, exp.Expr]:
    """The outer query with what tells the value of `values [NOT] IN (subquery)`."""
    if context.negations:
        node, found = _found(node, values, inner, context)
        node, missing = _missing(node, values, inner, context, found)
        return node, with_negation(missing, found) if negated else with_negation(found, missing)
    node, value = (_missing if negated else _found)(node, values, inner, context)
    context.memberships.add(value)
    return node, value


def _found(
    node: Node, values: Sequence[exp.Expr], inner: Node, context: Context
) -> tuple[Node, exp.Expr]:
    pairs = zip(values, inner.names, strict=True)
    equal = [exp.EQ(this=v.copy(), expression=column(n)) for v, n in pairs]
    return existence(node, _where(inner, equal), context)


def _missing(
    node: Node,
    values: Sequence[exp.Expr],
    inner: Node,
    context: Context,
    found: exp.Expr | None = None,
) -> tuple[Node, exp.Expr]:
    pairs = list(zip(values, inner.names, strict=True))
    if len(pairs) > 1:
        node, maybe = existence(node, _where(inner, _maybe_equal(pairs)), context)
        return node, exp.Not(this=exp.Paren(this=maybe))
    if found is None:
        node, found = _found(node, values, inner, context)
    node, has_null = existence(node, _where(inner, [_is_null(column(inner.names[0]))]), context)
    node, not_empty = existence(node, inner, context)
    unknown = exp.and_(_is_null(values[0]), not_empty)
    return node, exp.Not(this=exp.Paren(this=exp.or_(found, has_null, unknown)))


def _maybe_equal(pairs: Sequence[tuple[exp.Expr, str]]) -> list[exp.Expr]:
    """The conditions under which rows are equal or may be, NULL being unknown."""
    return [
        exp.Paren(
            this=exp.or_(
                exp.EQ(this=v.copy(), expression=column(n)), _is_null(v), _is_null(column(n))
            )
        )
        for v, n in pairs
    ]


def scalar_value(node: Node, inner: Node, context: Context) -> tuple[Node, exp.Expr]:
    """The outer query with the value of a scalar subquery as a column."""
    values = values_in_each_row(inner)
    if values is not None and char_length(inner.schema[0].type) is None:
        return node, values[inner.names[0]]
    inner = _as_value(inner)
    value = inner.names[0]
    pulled = _pulled(node, inner, context)
    if pulled is not None and not pulled.conditions and always_one_row(inner):
        return Join(node.schema + inner.schema, node, inner, ()), column(value)
    if pulled is not None and pulled.defaults is not None:
        mark = Field(context.names.fresh("found"), T.BooleanType())
        marked = Project(
            (*pulled.node.schema, mark),
            pulled.node,
            (*(column(n) for n in pulled.node.names), exp.true()),
        )
        joined = join_on(node, marked, exp.and_(*pulled.conditions), JoinKind.LEFT, context)
        default = pulled.defaults[value]
        if isinstance(default, exp.Null):
            return joined, column(value)
        found = exp.Not(this=_is_null(column(mark.name)))
        chosen = exp.Case(ifs=[exp.If(this=found, true=column(value))], default=default)
        return joined, exp.Paren(this=chosen)
    matched, pairs = _pushed(node, inner, context)
    keys = tuple(there.name for _, there, _ in pairs)
    type_ = inner.type_of(value)
    count = Call(context.names.fresh("count"), "count", (), T.LongType())
    single = Call(context.names.fresh("value"), "any_value", (value,), type_, parameters=(False,))
    schema = tuple(Field(k, matched.type_of(k)) for k in keys)
    grouped = Aggregate(
        (*schema, Field(count.name, count.type), Field(single.name, type_)),
        only(matched, (*keys, value)),
        keys,
        (count, single),
    )
    joined = keyed_join(node, grouped, pairs, JoinKind.LEFT, context)
    checked = AtMostOne(joined.schema, joined, count.name)
    return checked, column(single.name)


def _pulled(node: Node, inner: Node, context: Context) -> Pulled | None:
    """The subquery with the conditions that tie it to the outer query pulled out of it.

    An aggregate in it groups by the columns of those that are equalities, so it has to take for
    equal what they do: values of the type in which they compare, strings of one collation.
    """
    pulled = pull_up(inner, context)
    if pulled is None or not any(isinstance(n, Aggregate) for n in walk(inner)):
        return pulled
    schema = (*node.schema, *pulled.node.schema)
    for condition in pulled.conditions:
        if not isinstance(condition, exp.EQ):
            continue
        outer, grouped = context.analyzer.types(schema, [condition.left, condition.right])
        if outer == grouped:
            continue
        if is_collated(outer) or is_collated(grouped):
            raise uncompared(print_sql(condition.right), grouped)
        compared = context.analyzer.comparison_type(as_string(outer), as_string(grouped))
        if not is_widened(as_string(grouped), compared):
            return None
    return pulled


def _as_value(inner: Node) -> Node:
    """The subquery whose value is no column of CHAR any more, so that it is not padded."""
    (field,) = inner.schema
    if char_length(field.type) is None:
        return inner
    return Project((Field(field.name, T.StringType()),), inner, (column(field.name),))


def lateral(node: Node, inner: Node, kind: JoinKind, context: Context) -> Node:
    """The outer query with the rows that a subquery has for each of its rows."""
    names = (*node.names, *inner.names)
    row = in_each_row(node, inner)
    if row is not None and (kind is JoinKind.INNER or always_one_row(inner)):
        return row
    pulled = _pulled(node, inner, context)
    if pulled is not None and pulled.defaults is None:
        condition = exp.and_(*pulled.conditions) if pulled.conditions else None
        return only(join_on(node, pulled.node, condition, kind, context), names)
    matched, pairs = _pushed(node, inner, context)
    return only(keyed_join(node, matched, pairs, kind, context), names)


def _pushed(
    node: Node, inner: Node, context: Context
) -> tuple[Node, list[tuple[exp.Expr, exp.Expr, bool]]]:
    """The subquery's rows per outer value, and the keys that join them with the outer query."""
    names = sorted(free_columns(inner) & set(node.names))
    if not names:
        return inner, []
    for name in names:
        kind = node.type_of(name)
        if is_collated(kind) and not isinstance(kind, T.StringType):
            raise uncompared(name, kind)
    outer = outer_values(node, names, context)
    return push_down(outer.values, outer.read, inner, context), outer.pairs


def _where(node: Node, conditions: Sequence[exp.Expr]) -> Node:
    for condition in conditions:
        node = Filter(node.schema, node, condition)
    return node


def _is_null(expression: exp.Expr) -> exp.Expr:
    return exp.Is(this=exp.Paren(this=expression.copy()), expression=exp.null())
