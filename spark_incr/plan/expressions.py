"""Expressions over a FROM clause: names become columns, subqueries and windows become joins and
stages below, and what is left is an expression over the columns of a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from spark_incr.plan.environment import Environment
from spark_incr.plan.generators import is_generator, last_moment, time_window, window_time
from spark_incr.plan.joins import cast_to, only
from spark_incr.plan.nodes import Filter, Node, column, conjuncts
from spark_incr.plan.padding import padded
from spark_incr.plan.scope import Bound, Scope, resolve_column
from spark_incr.plan.sql_functions import (
    expression_of_function,
    returned_type,
    sql_function,
    with_arguments,
)
from spark_incr.plan.subqueries import (
    existence,
    keep_where_exists,
    keep_where_in,
    membership,
    scalar_value,
)
from spark_incr.plan.syntax import (
    WRAPPERS,
    expression_of,
    is_subquery,
    lambda_columns,
    membership_of,
    negation_inwards,
    negations_inwards,
    outermost_subqueries,
    outermost_windows,
    transformed,
    unsupported,
    values_for,
)
from spark_incr.plan.windows import with_windows
from spark_incr.sql.dialect import quoted

Aliases = Mapping[str, exp.Expr]


def scalar(
    env: Environment,
    expression: exp.Expr,
    scope: Scope,
    aliases: Aliases | None = None,
    known: Mapping[int, exp.Expr] | None = None,
) -> exp.Expr:
    """An expression over the columns of the plan; `known` are parts that are bound already."""
    found = known or {}
    outer = [scope for scope, _ in env.outer]
    parameters = {
        id(parameter)
        for lambda_ in expression.find_all(exp.Lambda)
        for parameter in lambda_columns(lambda_)
    }

    def length(side: exp.Expr) -> int | None:
        side = side.unnest()
        if not isinstance(side, (exp.Column, Bound)) or id(side) in parameters:
            return None
        named = change(side).unnest()
        if not isinstance(named, exp.Column):
            return None
        lengths = (s.length(named.name) for s in (scope, *outer))
        return next((n for n in lengths if n is not None), None)

    def change(node: exp.Expr) -> exp.Expr:
        if id(node) in found:
            return found[id(node)].copy()
        if isinstance(node, Bound):
            return column(node.this.name)
        if isinstance(node, exp.Column) and id(node) not in parameters:
            if isinstance(node.this, exp.Star):
                raise unsupported(node, "* inside an expression")
            return resolve_column(node, scope, aliases or {}, outer)
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            raise unsupported(node, "* inside an expression")
        if is_subquery(node):
            raise unsupported(node, "a subquery here")
        if isinstance(node, exp.Window):
            raise unsupported(node, "a window function")
        if is_generator(node):
            raise unsupported(node, "a generator function")
        if time_window(node):
            raise unsupported(node, f"{node.name.lower()}() here")
        if (window := window_time(node)) is not None:
            return last_moment(scalar(env, window, scope, aliases, known))
        if (compared := padded(node, length, lambda e: transformed(e, change))) is not None:
            return compared
        if isinstance(node, exp.Anonymous) and node.name.lower() == "arrays_zip":
            read = [scalar(env, e, scope, aliases, known) for e in node.expressions]
            return _zipped(node.expressions, read)
        return node

    return transformed(expression, change)


def _zipped(written: list[exp.Expr], arrays: list[exp.Expr]) -> exp.Expr:
    """arrays_zip(): Spark takes the names of its fields from columns, which have others in a plan."""
    names = [
        quoted(e.name) if isinstance(e, (exp.Column, exp.Dot)) else quoted(str(place))
        for place, e in enumerate(written)
    ]
    result = expression_of(f"transform($, e -> struct(e AS {names[0]}))", arrays[0])
    for count, array in enumerate(arrays[1:], start=1):
        kept = ", ".join(f"s.{name}" for name in names[:count])
        fields = f"struct({kept}, e AS {names[count]})"
        result = expression_of(f"zip_with($, $, (s, e) -> {fields})", result, array)
    return result


def bound(
    env: Environment,
    node: Node,
    expression: exp.Expr,
    scope: Scope,
    aliases: Aliases | None = None,
) -> tuple[Node, exp.Expr]:
    """An expression over the columns of a node, which gains the columns its subqueries need."""
    known: dict[int, exp.Expr] = {}
    if outermost_subqueries(expression):
        expression = negations_inwards(expression)
    for subquery in outermost_subqueries(expression):
        node, known[id(subquery)] = subquery_value(env, node, subquery, scope, aliases)
    windows = outermost_windows(expression)
    resolved = [read_window(w, lambda e: scalar(env, e, scope, aliases, known)) for w in windows]
    node, values = with_windows(node, resolved, env.context)
    known |= {id(w): value for w, value in zip(windows, values, strict=True)}
    return node, scalar(env, expression, scope, aliases, known)


def read_window(written: exp.Expr, read: Callable[[exp.Expr], exp.Expr]) -> exp.Window:
    """A window function whose operands are read."""
    function = _read_function(written.this, read)
    window = exp.Window(**written.copy().args)
    window.set("this", function)
    window.set("partition_by", [read(e) for e in written.args.get("partition_by") or []])
    order = written.args.get("order")
    if order is not None:
        window.set("order", _read_order(order, read))
    return window


def _read_function(function: exp.Expr, read: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    if not isinstance(function, WRAPPERS):
        return with_parts(function, read)
    copy: exp.Expr = function.copy()
    copy.set("this", _read_function(function.this, read))
    clause = function.args.get("expression")
    if isinstance(clause, exp.Where):
        copy.set("expression", exp.Where(this=read(clause.this)))
    elif isinstance(clause, exp.Order):
        copy.set("expression", _read_order(clause, read))
    return copy


def _read_order(order: exp.Order, read: Callable[[exp.Expr], exp.Expr]) -> exp.Order:
    keys = [exp.Ordered(**{**by.args, "this": read(by.this)}) for by in order.expressions]
    return exp.Order(expressions=keys)


def with_parts(function: exp.Expr, read: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A function call with its operands read."""
    copy = function.copy()
    for key, value in list(copy.args.items()):
        if isinstance(value, exp.Expr):
            copy.set(key, read(function.args[key]))
        elif isinstance(value, list):
            written = function.args[key]
            copy.set(key, [read(v) if isinstance(v, exp.Expr) else v for v in written])
    return copy


def subquery_value(
    env: Environment,
    node: Node,
    written: exp.Expr,
    scope: Scope,
    aliases: Aliases | None = None,
) -> tuple[Node, exp.Expr]:
    """The value of a subquery as an expression over the node and what is joined to it."""
    node, values = all_bound(env, node, values_for(written), scope, aliases)
    return value_for(env, node, values, written, scope)


def value_for(
    env: Environment, node: Node, values: list[exp.Expr], written: exp.Expr, scope: Scope
) -> tuple[Node, exp.Expr]:
    """The value of a subquery that is given values, expressions over the node."""
    if isinstance(written, exp.Exists):
        return existence(node, _inner(env, node, scope, written.this), env.context)
    test = membership_of(written)
    if test is not None:
        inner = _inner(env, node, scope, test[0].args["query"])
        return membership(node, values, inner, test[1], env.context)
    function = sql_function(written, env)
    if function is not None:
        node, inside, own = with_arguments(written, function, node, values, env)
        node, value = bound(own, node, expression_of_function(written, function, own), inside)
        (type_,) = own.types(node.schema, [value])
        return node, cast_to(value, type_, returned_type(function))
    return scalar_value(node, _inner(env, node, scope, written), env.context)


def all_bound(
    env: Environment,
    node: Node,
    expressions: list[exp.Expr],
    scope: Scope,
    aliases: Aliases | None = None,
) -> tuple[Node, list[exp.Expr]]:
    """Expressions over the columns of a node, which gains the columns their subqueries need."""
    values = []
    for expression in expressions:
        node, value = bound(env, node, expression, scope, aliases)
        values.append(value)
    return node, values


def _inner(env: Environment, node: Node, scope: Scope, query: exp.Expr) -> Node:
    """The plan of a subquery, which may read columns of the node."""
    return env.inside(scope, node.schema).query(query).node


def keep_where(env: Environment, node: Node, condition: exp.Expr, scope: Scope) -> Node:
    """The rows for which a condition is true."""
    names = node.names
    # What reads the rows alone leaves fewer of them to compare with subqueries.
    for part in sorted(conjuncts(condition), key=lambda part: bool(outermost_subqueries(part))):
        negated = isinstance(part, exp.Not)
        inner = part.this.unnest() if negated else part
        if outermost_subqueries(part):
            part = negation_inwards(part)
        if isinstance(inner, exp.Exists):
            subplan = _inner(env, node, scope, inner.this)
            node = keep_where_exists(node, subplan, not negated, env.context)
        elif (test := membership_of(part)) is not None:
            node, values = all_bound(env, node, values_for(part), scope)
            subplan = _inner(env, node, scope, test[0].args["query"])
            node = keep_where_in(node, values, subplan, test[1], env.context)
        else:
            node, resolved = bound(env, node, part, scope)
            node = Filter(node.schema, node, resolved)
    return only(node, names)
