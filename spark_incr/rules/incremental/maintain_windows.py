"""ω becomes a stage: operands become columns, and what has no kernel is left to Spark.

    ω f,g (R) = ωg(ωf(R))      where f has a kernel and g has none

unless both tell rows apart that their order, which is one, does not: what they say of such rows has to
go together, so Spark evaluates both.
"""

from __future__ import annotations

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.context import Context
from spark_incr.plan.joins import cast_to, only, with_a_column
from spark_incr.plan.nodes import Node, Project, Window, column, columns_in
from spark_incr.plan.types import Field
from spark_incr.plan.window_functions import read_call
from spark_incr.plan.windows import depends_on_place, rederived_window


def maintain_windows(node: Node, context: Context) -> Node:
    if not isinstance(node, Window):
        return node
    if not node.input.names:
        below = with_a_column(node.input, context)
        wider = Window((*below.schema, *node.schema), below, node.keys, node.functions)
        return only(maintain_windows(wider, context), node.names)
    prepared = _with_operands(node, context)
    with_kernel = _by_kernel(node, prepared)
    if len(with_kernel) == len(node.functions):
        return only(prepared, node.names)
    if not with_kernel:
        return rederived_window(node)
    names = {name for name, _ in with_kernel}
    fields = tuple(f for f in prepared.schema if f.name in {*prepared.input.names, *names})
    first = Window(fields, prepared.input, prepared.keys, tuple(with_kernel))
    below = only(first, (*node.input.names, *(n for n, _ in with_kernel)))
    rest = tuple(f for f in node.functions if f[0] not in names)
    added = tuple(f for f in node.schema if f.name in {n for n, _ in rest})
    second = Window((*below.schema, *added), below, node.keys, rest)
    return only(rederived_window(second), node.names)


def _by_kernel(node: Window, prepared: Window) -> list[tuple[str, exp.Window]]:
    """The functions with a kernel that need not see rows in the order in which Spark sees them."""
    known = [f for f in prepared.functions if read_call(*f, prepared) is not None]
    names = {name for name, _ in known}
    placed = {name: f.args.get("order") for name, f in node.functions if depends_on_place(f)}
    by_spark = [order for name, order in placed.items() if name not in names]
    return [(name, f) for name, f in known if name not in placed or placed[name] not in by_spark]


def _with_operands(node: Window, context: Context) -> Window:
    """The node with every operand of its functions as a column below."""
    computed: dict[exp.Expr, str] = {}
    functions = tuple(
        (name, _over_columns(window, node, node.type_of(name), computed, context))
        for name, window in node.functions
    )
    if not computed:
        return node
    types = context.analyzer.types(node.input.schema, list(computed))
    added = tuple(Field(n, t) for n, t in zip(computed.values(), types, strict=True))
    expressions = (*(column(n) for n in node.input.names), *computed)
    below = Project((*node.input.schema, *added), node.input, expressions)
    made = {name for name, _ in functions}
    fields = tuple(f for f in node.schema if f.name in made)
    return Window((*below.schema, *fields), below, node.keys, functions)


def _over_columns(
    window: exp.Window,
    node: Window,
    type_: T.DataType,
    computed: dict[exp.Expr, str],
    context: Context,
) -> exp.Window:
    window = window.copy()

    def as_column(expression: exp.Expr) -> exp.Expr:
        if isinstance(expression, exp.Column):
            return expression
        if expression not in computed:
            computed[expression.copy()] = context.names.fresh("operand")
        return column(computed[expression])

    function = window.this
    if isinstance(function, (exp.Filter, exp.WithinGroup)):
        return window  # it has no kernel
    while isinstance(function, (exp.IgnoreNulls, exp.RespectNulls)):
        function = function.this
    operand, default = function.args.get("this"), function.args.get("default")
    if isinstance(operand, exp.Expr) and columns_in(operand):
        function.set("this", as_column(operand))
    if isinstance(default, exp.Expr):
        plain = isinstance(default, exp.Column)
        own = node.input.type_of(default.name) if plain else T.NullType()
        function.set("default", as_column(cast_to(default, own, type_)))
    order = window.args.get("order")
    for by in order.expressions if order is not None else []:
        by.set("this", as_column(by.this))
    return window
