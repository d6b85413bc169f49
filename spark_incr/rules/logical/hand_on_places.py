"""ωg(π(ωf(R))): rows that the order of g does not tell apart come in the order in which f saw them.

Precondition: f and g have the same keys and the same order, and both look at the place of a row. What
a running sum says of rows that tie then goes together with what lag() said of them, as it does
where one sort serves both. The place among peers, `row_number() - rank()`, completes the order of g:
it changes for the peers of a changed row alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.context import Context
from spark_incr.plan.joins import only
from spark_incr.plan.nodes import Filter, Node, Project, Window, column, columns_in, substitute
from spark_incr.plan.types import Field
from spark_incr.plan.windows import depends_on_place

_Placed = tuple[Node, str]


def hand_on_places(node: Node, context: Context) -> Node:
    if not isinstance(node, Window):
        return node
    below = node.input
    keys = [column(key) for key in node.keys]
    places: dict[exp.Expr, str] = {}
    for order in _orders(node):
        found = _with_place(below, keys, order.expressions, context)
        if found is not None:
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


def _with_place(
    node: Node, keys: Sequence[exp.Expr], order: Sequence[exp.Expr], context: Context
) -> _Placed | None:
    """The node with a column for the place among peers in this order, if a window below tells it."""
    if isinstance(node, Project):
        values = dict(zip(node.names, node.expressions, strict=True))
        found = _with_place(node.input, _inside(keys, values), _inside(order, values), context)
        if found is None:
            return None
        below, place = found
        schema = (*node.schema, Field(place, T.IntegerType()))
        return Project(schema, below, (*node.expressions, column(place))), place
    if isinstance(node, Filter):
        found = _with_place(node.input, keys, order, context)
        return (
            None if found is None else (Filter(found[0].schema, found[0], node.condition), found[1])
        )
    if not isinstance(node, Window):
        return None
    if columns_in(exp.Tuple(expressions=[e.copy() for e in (*keys, *order)])) <= set(
        node.input.names
    ):
        deeper = _with_place(node.input, keys, order, context)
        if deeper is not None:
            return _over(deeper[0], node, node.functions), deeper[1]
    return _told(node, keys, order, context)


def _told(
    node: Window, keys: Sequence[exp.Expr], order: Sequence[exp.Expr], context: Context
) -> _Placed | None:
    """The window with the place among peers, if its functions have these keys and this order."""
    values: dict[str, exp.Expr] = {}
    if isinstance(node.input, Project):
        values = dict(zip(node.input.names, node.input.expressions, strict=True))
    if _inside(keys, values) != _inside([column(key) for key in node.keys], values):
        return None
    for own in _orders(node):
        if _sorted_by(_inside(own.expressions, values)) != _sorted_by(_inside(order, values)):
            continue
        window = next(w for _, w in node.functions if w.args.get("order") == own).copy()
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
    return None


def _inside(expressions: Sequence[exp.Expr], values: dict[str, exp.Expr]) -> list[exp.Expr]:
    return [substitute(e, values) for e in expressions]


def _sorted_by(order: Sequence[exp.Expr]) -> list[tuple[exp.Expr, bool, bool]]:
    return [(by.this, bool(by.args.get("desc")), bool(by.args.get("nulls_first"))) for by in order]
