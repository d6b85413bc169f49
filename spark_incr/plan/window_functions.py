"""Window functions that have a kernel, read from the calls.

A kernel gives what Spark gives for all rows of a partition at once. What is not read here, a
function or a frame, is Spark's to evaluate.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.nodes import SortKey, Window
from spark_incr.plan.types import FLOATS, INTEGERS, is_collated

PARTITION = "partition"
ROWS = "rows"
RANGE = "range"

_RANKS: dict[type[exp.Expr], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
}
_VALUES: dict[type[exp.Expr], str] = {
    exp.FirstValue: "first",
    exp.First: "first",
    exp.LastValue: "last",
    exp.Last: "last",
}
_SHIFTS: dict[type[exp.Expr], int] = {exp.Lag: -1, exp.Lead: 1}
_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
FUNCTIONS: dict[str, str] = {
    "row_number": "any order",
    "rank": "any order",
    "dense_rank": "any order",
    "percent_rank": "any order",
    "cume_dist": "any order",
    "ntile": "a number of buckets that is a literal",
    "lag": "an offset that is a literal, without IGNORE NULLS",
    "lead": "an offset that is a literal, without IGNORE NULLS",
    "first_value": "frames that begin with the partition",
    "last_value": "frames that begin with the partition",
    "count": "frames that begin with the partition",
    "sum": "frames that begin with the partition; numbers",
    "avg": "frames that begin with the partition; numbers",
    "min": "frames that begin with the partition",
    "max": "frames that begin with the partition",
}
"""The window functions with a kernel, and for what they have it."""


@dataclass(frozen=True)
class WindowCall:
    """A window function over columns.

    `frame` is the whole partition, the rows up to the current one, or those and its peers.
    """

    name: str
    function: str
    order: tuple[SortKey, ...]
    frame: str = PARTITION
    argument: str | None = None
    number: int = 0
    default: str | None = None
    ignore_nulls: bool = False


def read_calls(node: Window) -> tuple[WindowCall, ...] | None:
    """The functions of a node if all of them have kernels."""
    calls = [read_call(name, window, node) for name, window in node.functions]
    return tuple(c for c in calls if c is not None) if None not in calls else None


def read_call(name: str, window: exp.Window, node: Window) -> WindowCall | None:
    """A window function as its kernel takes it, or None if it has none."""
    order = _order(window, node)
    frame = _frame(window)
    function, ignore_nulls = window.this, False
    if isinstance(function, (exp.IgnoreNulls, exp.RespectNulls)):
        ignore_nulls = isinstance(function, exp.IgnoreNulls)
        function = function.this
    if order is None:
        return None
    kind = type(function)
    if kind in _RANKS and not _operands(function):
        return WindowCall(name, _RANKS[kind], order)
    if kind is exp.Ntile:
        buckets = _number(function.this)
        return WindowCall(name, "ntile", order, number=buckets) if buckets else None
    if kind in _SHIFTS:
        return None if ignore_nulls else _shift(name, function, order)
    if frame is None:
        return None
    if kind in _VALUES:
        flag = function.args.get("expression")
        if isinstance(function.this, exp.Column) and flag is None:
            return WindowCall(
                name,
                _VALUES[kind],
                order,
                frame,
                function.this.name,
                ignore_nulls=ignore_nulls,
            )
    if kind in _AGGREGATES and not ignore_nulls:
        return _aggregate(name, function, order, frame, node)
    return None


def _operands(function: exp.Expr) -> list[exp.Expr]:
    return [v for v in function.args.values() if v]


def _number(node: exp.Expr | None) -> int | None:
    negative = isinstance(node, exp.Neg)
    literal = node.this if negative and node is not None else node
    if isinstance(literal, exp.Literal) and literal.is_int:
        return -int(literal.this) if negative else int(literal.this)
    return None


def _order(window: exp.Window, node: Window) -> tuple[SortKey, ...] | None:
    order = window.args.get("order")
    keys = []
    for by in order.expressions if order is not None else []:
        if not isinstance(by.this, exp.Column):
            return None
        kind = node.input.type_of(by.this.name)
        if isinstance(kind, T.MapType) or is_collated(kind):
            return None
        keys.append(
            SortKey(by.this.name, bool(by.args.get("desc")), bool(by.args.get("nulls_first")))
        )
    return tuple(keys)


def _frame(window: exp.Window) -> str | None:
    spec = window.args.get("spec")
    if spec is None:
        return RANGE if window.args.get("order") is not None else PARTITION
    start = (str(spec.args.get("start", "")), str(spec.args.get("start_side", "")))
    if start != ("UNBOUNDED", "PRECEDING"):
        return None
    end = (str(spec.args.get("end") or "CURRENT ROW"), str(spec.args.get("end_side") or ""))
    if end == ("UNBOUNDED", "FOLLOWING"):
        return PARTITION
    kind = str(spec.args.get("kind", "")).lower()
    return kind if end[0] == "CURRENT ROW" and kind in (ROWS, RANGE) else None


def _shift(name: str, function: exp.Expr, order: tuple[SortKey, ...]) -> WindowCall | None:
    offset = 1 if function.args.get("offset") is None else _number(function.args["offset"])
    default = function.args.get("default")
    if not isinstance(function.this, exp.Column) or offset is None:
        return None
    if default is not None and not isinstance(default, exp.Column):
        return None
    return WindowCall(
        name,
        "shift",
        order,
        argument=function.this.name,
        number=_SHIFTS[type(function)] * offset,
        default=None if default is None else default.name,
    )


def _aggregate(
    name: str, function: exp.Expr, order: tuple[SortKey, ...], frame: str, node: Window
) -> WindowCall | None:
    kind = _AGGREGATES[type(function)]
    operands = [function.this, *function.expressions]
    if kind == "count" and isinstance(function.this, (exp.Star, exp.Literal)):
        return WindowCall(name, kind, order, frame) if len(operands) == 1 else None
    if len(operands) != 1 or not isinstance(function.this, exp.Column):
        return None
    column = function.this.name
    type_ = node.input.type_of(column)
    if kind in ("sum", "avg") and not isinstance(type_, (*INTEGERS, *FLOATS, T.DecimalType)):
        return None
    if kind in ("min", "max") and (isinstance(type_, T.MapType) or is_collated(type_)):
        return None
    return WindowCall(name, kind, order, frame, column)
