"""The order in which a view is read: ORDER BY of the whole query, where the view has its keys.

Rows of a view are a bag; an order matters only to who reads them. A key counts if it is a column
of the view: by name or position, or as an item of the SELECT list is written. The first key that is
none, and those after it, would be columns that nobody sees; they do not count, and `unread_keys`
says which they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spark_incr.plan.nodes import SortKey
from spark_incr.plan.scope import folded
from spark_incr.plan.syntax import canonical
from spark_incr.sql.dialect import print_sql
from spark_incr.sql.pipes import Piped


def output_order(query: exp.Expr, names: Sequence[str]) -> tuple[SortKey, ...]:
    """The sort keys over the output columns of a query, as far as it has them."""
    keys: list[SortKey] = []
    for by in _keys(query):
        name = _output(by.this, query, names)
        if name is None:
            break
        keys.append(SortKey(name, bool(by.args.get("desc")), bool(by.args.get("nulls_first"))))
    return tuple(keys)


def unread_keys(query: exp.Expr, names: Sequence[str]) -> list[str]:
    """The keys of ORDER BY, as they are written, by which a reader does not get the rows sorted."""
    return [print_sql(by) for by in _keys(query)[len(output_order(query, names)) :]]


def _keys(query: exp.Expr) -> list[exp.Expr]:
    order = query.args.get("order")
    if order is None and isinstance(query, Piped):
        order = _last_order(query)
    return [] if order is None else list(order.expressions)


def _last_order(piped: Piped) -> exp.Order | None:
    """The order that the last steps of a pipe leave; LIMIT and OFFSET keep one."""
    for step in reversed(piped.expressions):
        order: exp.Order | None = step.this.args.get("order") if step.this else None
        if order is not None or step.args["kind"] != "RESULT":
            return order
    return None


def _output(key: exp.Expr, query: exp.Expr, names: Sequence[str]) -> str | None:
    if isinstance(key, exp.Literal) and key.is_int:
        return names[int(key.this) - 1]
    items = _items(query, names)
    if isinstance(key, exp.Column) and len(key.parts) == 1:
        written = [alias for alias in items or [] if folded(alias) == folded(key.name)]
        if items is not None and written:
            return names[list(items).index(written[0])]
        if items is None:
            return next((n for n in names if folded(n) == folded(key.name)), None)
    for position, item in enumerate((items or {}).values()):
        if item is not None and canonical(item) == canonical(key):
            return names[position]
    return None


def _items(query: exp.Expr, names: Sequence[str]) -> dict[str, exp.Expr | None] | None:
    """What the query itself calls its columns, and their expressions; None if it does not say."""
    while isinstance(query, (exp.SetOperation, exp.Subquery)):
        query = query.this
    if not isinstance(query, exp.Select) or len(query.expressions) != len(names):
        return None
    if any(item.is_star for item in query.expressions):
        return None
    result = {item.alias_or_name: item.unalias() for item in query.expressions}
    return dict(result) if len(result) == len(names) else None
