"""Sessions: what grouping makes of rows whose own windows of time touch.

A column that session_window() has made stays one wherever it goes: under an alias, through joins,
through the groups of an inner query, out of a view or a table. Each grouping by it joins the windows that touch, in order of
their start and per value of the other keys; GROUPING SETS do so in each set. With [s, e) the window of a row, it is an island:

    first   = s > max(e) of the rows before, or there are none
    session = [min(s), max(e)) of the rows with the same number of firsts up to their start
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spark_incr.plan.environment import Environment
from spark_incr.plan.generators import SESSION_WINDOW, time_window
from spark_incr.plan.nodes import Aggregate, Generate, Node, Project, Scan, UnionAll, column
from spark_incr.plan.syntax import expression_of, unsupported
from spark_incr.plan.windows import with_windows


def session_columns(node: Node) -> frozenset[str]:
    """The columns of a plan that hold windows of session_window()."""
    if isinstance(node, Scan):
        return frozenset(f.name for f in node.schema if f.session)
    below = [session_columns(child) for child in node.inputs]
    if isinstance(node, UnionAll):
        first = zip(node.relations[0].names, node.names, strict=True)
        return frozenset(name for source, name in first if source in below[0])
    passed = frozenset[str]().union(*below)
    if isinstance(node, Project):
        pairs = zip(node.names, node.expressions, strict=True)
        return frozenset(
            name
            for name, e in pairs
            if SESSION_WINDOW in e.meta or (isinstance(e, exp.Column) and e.name in passed)
        )
    if isinstance(node, Aggregate):
        return passed & set(node.keys)
    if isinstance(node, Generate) and time_window(node.generator) == SESSION_WINDOW:
        passed |= set(node.made)
    return passed & set(node.names)


def in_sessions(node: Node, keys: Sequence[exp.Expr], env: Environment) -> Node:
    """The rows before they are grouped by keys: each has the session that its window is part of."""
    sessions = session_columns(node)
    own = [key for key in keys if isinstance(key, exp.Column) and key.name in sessions]
    if not own:
        return node
    if len(own) > 1:
        raise unsupported(own[1], "GROUP BY of several sessions")
    return _islands(node, own[0].name, [key for key in keys if key is not own[0]], env)


def refuse_left_out(
    node: Node, keys: Sequence[exp.Expr], sets: Sequence[Sequence[bool]], written: exp.Expr
) -> None:
    """Raise where a set of GROUPING SETS has no session though the others have: Spark breaks down."""
    sessions = session_columns(node)
    for i, key in enumerate(keys):
        own = isinstance(key, exp.Column) and key.name in sessions
        if own and not all(inside[i] for inside in sets):
            raise unsupported(
                written,
                "GROUPING SETS that leave out a session",
                "Group by the session in each set.",
            )


def refuse_sessions(node: Node, names: Sequence[str], written: exp.Expr, what: str) -> None:
    """Raise where Spark groups by columns in steps of its own, and would join windows in each."""
    if session_columns(node) & set(names):
        raise unsupported(written, f"{what} of sessions")


def _islands(node: Node, own: str, keys: Sequence[exp.Expr], env: Environment) -> Node:
    start, end = (expression_of(f"($).`{part}`", column(own)) for part in ("start", "end"))
    frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    names = node.names
    node, latest = _over(node, f"max($) OVER (ORDER BY $ {frame})", (end, start), keys, env)
    first = expression_of("CASE WHEN $ <= $ THEN 0 ELSE 1 END", start, latest)
    node, number = _over(node, "sum($) OVER (ORDER BY $)", (first, start), keys, env)
    island = [*keys, number]
    node, begin = _over(node, "min($) OVER ()", (start,), island, env)
    node, finish = _over(node, "max($) OVER ()", (end,), island, env)
    session = expression_of("named_struct('start', $, 'end', $)", begin, finish)
    session.meta[SESSION_WINDOW] = True
    return env.project(node, [(n, session if n == own else column(n)) for n in names])


def _over(
    node: Node, text: str, values: Sequence[exp.Expr], keys: Sequence[exp.Expr], env: Environment
) -> tuple[Node, exp.Expr]:
    """The node with a window function over the partitions of keys."""
    window = expression_of(text, *values)
    assert isinstance(window, exp.Window)
    window.set("partition_by", [key.copy() for key in keys])
    node, (value,) = with_windows(node, [window], env.context)
    return node, value
