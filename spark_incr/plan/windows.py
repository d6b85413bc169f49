"""Window functions: each is evaluated for the partitions that a batch touches.

Functions over one partitioning are one node. Where a function looks at the place of a row and the
sort keys tie, Spark's result depends on the order in which rows come; there the columns of the row
complete the sort keys, so that the result depends on nothing but the rows. Keys of a RANGE frame
say which rows are in it and stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spark_incr.plan.collations import collation_key, has_key, key_type
from spark_incr.plan.context import Context
from spark_incr.plan.nodes import RELATION, Node, Project, Rederive, Window, column
from spark_incr.plan.syntax import WRAPPERS
from spark_incr.plan.types import Field, is_ordered

_BY_PLACE = (exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead)


def with_windows(
    node: Node, windows: Sequence[exp.Window], context: Context
) -> tuple[Node, list[exp.Expr]]:
    """The node with a column per window function; their operands are columns of the node."""
    values: list[exp.Expr] = [exp.null()] * len(windows)
    by_partition: dict[tuple[exp.Expr, ...], list[int]] = {}
    for i, window in enumerate(windows):
        by_partition.setdefault(tuple(window.args.get("partition_by") or ()), []).append(i)
    for partition, members in by_partition.items():
        node, keys = _with_columns(node, partition, context)
        functions = {i: _partitioned(windows[i], keys) for i in members}
        known = _computed(node)
        wanted = list(dict.fromkeys(f for f in functions.values() if f not in known))
        if wanted:
            types = context.analyzer.types(node.schema, wanted)
            names = [context.names.fresh("window") for _ in wanted]
            fields = tuple(Field(n, t) for n, t in zip(names, types, strict=True))
            pairs = tuple(zip(names, wanted, strict=True))
            node = Window((*node.schema, *fields), node, tuple(keys), pairs)
            known |= dict(zip(wanted, names, strict=True))
        for i, function in functions.items():
            values[i] = column(known[function])
    return node, values


def _computed(node: Node) -> dict[exp.Expr, str]:
    """The window functions whose values the node has already, and their columns."""
    found: dict[exp.Expr, str] = {}
    while isinstance(node, Window):
        found |= {function: name for name, function in node.functions}
        node = node.input
    return found


def rederived_window(node: Window) -> Rederive:
    """The node as Spark evaluates it, for the partitions that a batch touches."""
    return Rederive(node.schema, node.input, node.keys, window_query(node), "window function")


def window_query(node: Window) -> exp.Select:
    """The functions of a node as a query over `RELATION`, with orders that leave no choice."""
    return exp.select(
        *(column(n) for n in node.names[: len(node.names) - len(node.functions)]),
        *(exp.alias_(_completed(w, node.input), n, quoted=True) for n, w in node.functions),
    ).from_(exp.to_table(RELATION))


def _with_columns(
    node: Node, expressions: Sequence[exp.Expr], context: Context
) -> tuple[Node, list[str]]:
    """The node with each expression as a column."""
    types = context.analyzer.types(node.schema, list(expressions))
    keyed = [
        (collation_key(e, t), key_type(t)) if has_key(t) else (e, t)
        for e, t in zip(expressions, types, strict=True)
    ]
    added: list[tuple[Field, exp.Expr]] = []
    keys: list[str] = []
    for expression, type_ in keyed:
        if isinstance(expression, exp.Column):
            keys.append(expression.name)
            continue
        added.append((Field(context.names.fresh("partition"), type_), expression))
        keys.append(added[-1][0].name)
    if added:
        schema = (*node.schema, *(f for f, _ in added))
        node = Project(schema, node, (*(column(n) for n in node.names), *(e for _, e in added)))
    return node, keys


def _partitioned(window: exp.Window, keys: Sequence[str]) -> exp.Window:
    window = window.copy()
    window.set("partition_by", [column(k) for k in keys])
    return window


def _completed(window: exp.Window, node: Node) -> exp.Window:
    window = window.copy()
    order = window.args.get("order")
    if order is None or not depends_on_place(window):
        return window
    ties = [
        exp.Ordered(this=column(f.name), desc=False, nulls_first=True)
        for f in node.schema
        if is_ordered(f.type)
    ]
    window.set("order", exp.Order(expressions=[*order.expressions, *ties]))
    return window


def depends_on_place(window: exp.Window) -> bool:
    """Whether a function tells rows apart that its order does not."""
    function = window.this
    while isinstance(function, WRAPPERS):
        function = function.this
    spec = window.args.get("spec")
    by_rows = spec is not None and str(spec.args.get("kind", "")).upper() == "ROWS"
    return isinstance(function, _BY_PLACE) or by_rows
