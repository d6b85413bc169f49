"""ORDER BY, LIMIT and OFFSET.

An order decides which rows are the first. Its keys are the columns of the result by name or
position, also inside an expression, and only then columns of FROM. An order without LIMIT changes
no rows; that of the whole query says in which order they are read. That of a subquery decides what a
LIMIT above it takes, as in Spark, where nothing but columns and conditions stand between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from spark_incr.plan.collations import with_keys
from spark_incr.plan.environment import Built, Environment
from spark_incr.plan.expressions import scalar
from spark_incr.plan.nodes import Limit, SortKey, column
from spark_incr.plan.scope import Bound, Scope, Visible, spelled
from spark_incr.plan.syntax import aggregate_call, transformed
from spark_incr.plan.types import char_length

Items = Sequence[tuple[str, exp.Expr]]


def sort_items(
    query: exp.Expr, items: Items, env: Environment, scope: Scope | None = None
) -> list[tuple[exp.Expr, exp.Ordered]]:
    """What a query sorts by, as expressions over FROM, if it matters which rows are first.

    ALL stands for all items, unless a column has that name.
    """
    order = query.args.get("order")
    if order is None or not order_matters(query, env):
        return []
    keys = [(_as_name(by.this, items, scope or Scope()), by) for by in order.expressions]
    if len(keys) == 1 and isinstance(keys[0][0], exp.Var):
        return [(value.copy(), keys[0][1]) for _, value in items]
    return [(sort_key(key, items), by) for key, by in keys]


def _as_name(key: exp.Expr, items: Items, scope: Scope) -> exp.Expr:
    """ALL as the name of a column, where one has it; any other key as it is."""
    if not isinstance(key, exp.Var):
        return key
    named = any(spelled(name) == spelled(key.name) for name, _ in items)
    return exp.column(key.name) if named or scope.find((), key.name) else key


def sort_key(key: exp.Expr, items: Items) -> exp.Expr:
    """A key with the names and positions of the result replaced by what they stand for."""
    if isinstance(key, exp.Literal) and key.is_int:
        return items[int(key.this) - 1][1].copy()

    def change(node: exp.Expr) -> exp.Expr:
        if aggregate_call(node) is not None or isinstance(node, Bound):
            return node.copy()
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            named = [e for name, e in items if spelled(name) == spelled(node.name)]
            return _operand(named[0], node is key) if named else node.copy()
        return node

    return transformed(key, change)


def _operand(expression: exp.Expr, alone: bool) -> exp.Expr:
    """What a name stands for. A text is cast, for where it has a name nothing is padded like it."""
    if isinstance(expression.unnest(), exp.Literal) and expression.unnest().is_string:
        return exp.cast(expression.copy(), "string")
    return expression.copy() if alone else exp.Paren(this=expression.copy())


def _is_limited(query: exp.Expr) -> bool:
    return any(_written(query, name) is not None for name in ("limit", "offset"))


def order_matters(query: exp.Expr, env: Environment) -> bool:
    """Whether it matters in which order the rows of a query come."""
    return env.keeps_order or _is_limited(query)


def inherits_order(query: exp.Expr, env: Environment) -> bool:
    """Whether the order of what a query reads matters, since it has none of its own."""
    return query.args.get("order") is None and order_matters(query, env)


def inherited(order: Sequence[SortKey]) -> list[tuple[exp.Expr, exp.Ordered]]:
    """The order of what a query reads as if it were written in the query."""
    keys = [(Bound(this=column(key.column)), key) for key in order]
    return [
        (value, exp.Ordered(this=value, desc=key.descending, nulls_first=key.nulls_first))
        for value, key in keys
    ]


def limited(query: exp.Expr, built: Built, sort: Sequence[exp.Ordered], env: Environment) -> Built:
    """The first rows of a query, if it asks for those; its sort columns come last, unshown."""
    if not sort and not _is_limited(query):
        return built
    node = built.node
    columns = node.names[len(node.names) - len(sort) :]
    node, collated = with_keys(node, columns, env.context)
    columns = tuple(collated.get(name, name) for name in columns)
    keys = tuple(
        SortKey(name, bool(by.args.get("desc")), bool(by.args.get("nulls_first")))
        for name, by in zip(columns, sort, strict=True)
    )
    names = built.names[: len(built.names) - len(sort)]
    return _first(query, Built(node, names, keys), env)


def _first(query: exp.Expr, built: Built, env: Environment) -> Built:
    """The first of sorted rows, if the query asks for those; with their order where that is kept."""
    if _is_limited(query):
        limit, offset = (written_number(query, name, env) for name in ("limit", "offset"))
        first = Limit(built.node.schema, built.node, built.order, limit, offset or 0)
        built = replace(built, node=first)
    return built if env.keeps_order else built.shown


def limited_result(query: exp.Expr, built: Built, env: Environment) -> Built:
    """ORDER BY and LIMIT of a set operation or of a query in parentheses: they name its columns."""
    if query.args.get("order") is None:
        return _first(query, built, env)
    built = built.shown
    items = list(zip(built.names, (column(n) for n in built.node.names), strict=True))
    sort = sort_items(query, [(name, Bound(this=c)) for name, c in items], env)
    scope = Scope(
        tuple(
            Visible((), name, f.name, char_length(f.type))
            for name, f in zip(built.names, built.node.schema, strict=True)
        )
    )
    columns: list[tuple[str, exp.Expr]] = [*items]
    columns += [(f"order_{i}", scalar(env, key, scope)) for i, (key, _) in enumerate(sort)]
    node = env.project(built.node, env.named(built.node, columns))
    names = (*built.names, *(f"order_{i}" for i in range(len(sort))))
    return limited(query, Built(node, names), [by for _, by in sort], env)


def _written(query: exp.Expr, name: str) -> exp.Expr | None:
    clause = query.args.get(name)
    value: exp.Expr | None = None if clause is None else clause.expression.unnest()
    return None if isinstance(value, exp.Var) and value.name.upper() == "ALL" else value


def written_number(query: exp.Expr, name: str, env: Environment) -> int | None:
    """What a query says behind LIMIT or OFFSET, if it says a number."""
    return _number(_written(query, name), env)


def _number(value: exp.Expr | None, env: Environment) -> int | None:
    if isinstance(value, exp.Literal) and value.is_int:
        return int(value.this)
    return None if value is None else env.analyzer.integer(value)
