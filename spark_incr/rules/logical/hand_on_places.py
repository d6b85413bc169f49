"""ωg(π(ωf(R))): rows that the order of g does not tell apart come in the order in which f saw them.

Precondition: f and g look at the place of a row, and either have the same keys and the same order, or
R may hold a row several times. What a running sum says of rows that tie then goes together with what
lag() said of them, as it does where one sort serves both; and copies of a row stay in one order
whatever the sorts, as they do where sorts are stable. The place among peers, `row_number() - rank()`,
completes the order of g: it changes for the peers of a changed row alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.context import Context
from spark_incr.plan.facts import unique_keys
from spark_incr.plan.joins import only
from spark_incr.plan.nodes import Filter, Node, Project, Window, column, columns_in, substitute
from spark_incr.plan.types import Field
from spark_incr.plan.windows import depends_on_place

_Placed = tuple[Node, str]
_Sort = tuple[Sequence[exp.Expr], Sequence[exp.Expr]]
"""The keys and the order of a window."""


def hand_on_places(node: Node, context: Context) -> Node:
    if not isinstance(node, Window):
        return node
    below = node.input
    keys = [column(key) for key in node.keys]
    places: dict[exp.Expr, str] = {}
    for order in _orders(node):
        found = _with_place(below, (keys, order.expressions), context)
        found = found or _with_place(below, None, context)
        if found is not None and column(found[1]) not in [by.this for by in order.expressions]:
            below, places[order] = found
    if not places:
        return node
    functions = tuple((name, _completed(window, places)) for name, window in node.functions)
    return only(_over(below, node, functions), node.names)


def _orders(node: Window) -> list[exp.Order]:
    """The orders of those functions that look at the place of a row."""
    found = (w.args.get("order") for _, w in node.functions if depends_on_place(w))
    return list(dict.fromkeys(order for order in found if order is not None))


def _completed(window: exp.Window, places: Mapping[exp.Expr, str]) -> exp.Window:
    order = window.args.get("order")
    if order is None or order not in places or not depends_on_place(window):
        return window
    window = window.copy()
    place = exp.Ordered(this=column(places[order]), desc=False, nulls_first=True)
    window.set("order", exp.Order(expressions=[*order.copy().expressions, place]))
    return window


def _over(below: Node, node: Window, functions: tuple[tuple[str, exp.Window], ...]) -> Window:
    """A window over other rows than its own."""
    made = {name for name, _ in functions}
    fields = tuple(f for f in node.schema if f.name in made)
    return Window((*below.schema, *fields), below, node.keys, functions)


def _with_place(node: Node, sort: _Sort | None, context: Context) -> _Placed | None:
    """The node with a column for the place among peers, if a window below tells it: one of this
    sort, or if there is none, the lowest of those that may see copies of a row."""
    if isinstance(node, Project):
        values = dict(zip(node.names, node.expressions, strict=True))
        place = next((name for name in values if _is_place(values[name], node.input)), None)
        if sort is None and place is not None:
            return node, place
        found = _with_place(node.input, _inside(sort, values), context)
        if found is None:
            return None
        below, place = found
        if place in node.names:
            return Project(node.schema, below, node.expressions), place
        schema = (*node.schema, Field(place, T.IntegerType()))
        return Project(schema, below, (*node.expressions, column(place))), place
    if isinstance(node, Filter):
        found = _with_place(node.input, sort, context)
        return (
            None if found is None else (Filter(found[0].schema, found[0], node.condition), found[1])
        )
    if not isinstance(node, Window):
        return None
    if _read(sort) <= set(node.input.names):
        deeper = _with_place(node.input, sort, context)
        if deeper is not None:
            return _over(deeper[0], node, node.functions), deeper[1]
    order = _told(node, sort)
    return None if order is None else _placed(node, order, context)


def _told(node: Window, sort: _Sort | None) -> exp.Order | None:
    """The order of a window in which it tells the place."""
    orders = _orders(node)
    if sort is None:
        return orders[0] if orders and not unique_keys(node.input) else None
    values: dict[str, exp.Expr] = {}
    if isinstance(node.input, Project):
        values = dict(zip(node.input.names, node.input.expressions, strict=True))
    for own in orders:
        keys = [column(key) for key in node.keys]
        if _compared(_inside((keys, own.expressions), values)) == _compared(_inside(sort, values)):
            return own
    return None


def _placed(node: Window, order: exp.Order, context: Context) -> _Placed:
    """The window with the place among peers in an order of its own."""
    window = next(w for _, w in node.functions if w.args.get("order") == order).copy()
    window.set("spec", None)
    ranks = []
    for function in (exp.RowNumber(), exp.Rank()):
        ranked = window.copy()
        ranked.set("this", function)
        ranks.append((context.names.fresh("place"), ranked))
    fields = [Field(name, T.IntegerType()) for name, _ in ranks]
    functions = (*node.functions, *ranks)
    below = Window((*node.schema, *fields), node.input, node.keys, functions)
    place = context.names.fresh("place")
    among = exp.Sub(this=column(ranks[0][0]), expression=column(ranks[1][0]))
    expressions = (*(column(name) for name in node.names), among)
    return Project((*node.schema, Field(place, T.IntegerType())), below, expressions), place


def _is_place(expression: exp.Expr, below: Node) -> bool:
    """Whether an expression over a window is the place among peers."""
    if not isinstance(expression, exp.Sub) or not isinstance(below, Window):
        return False
    functions = dict(below.functions)
    number, rank = (functions.get(e.name) for e in (expression.this, expression.expression))
    if number is None or rank is None or number.args.get("order") != rank.args.get("order"):
        return False
    return isinstance(number.this, exp.RowNumber) and isinstance(rank.this, exp.Rank)


def _read(sort: _Sort | None) -> set[str]:
    """The columns that a sort reads."""
    if sort is None:
        return set()
    return set(columns_in(exp.Tuple(expressions=[e.copy() for part in sort for e in part])))


def _inside(sort: _Sort | None, values: dict[str, exp.Expr]) -> _Sort | None:
    """A sort of the rows of a projection as one of the rows below it."""
    if sort is None:
        return None
    keys, order = ([substitute(e, values) for e in part] for part in sort)
    return keys, order


def _compared(sort: _Sort | None) -> object:
    """What two sorts have in common where they are the same."""
    if sort is None:
        return None
    keys, order = sort
    return keys, [
        (by.this, bool(by.args.get("desc")), bool(by.args.get("nulls_first"))) for by in order
    ]
