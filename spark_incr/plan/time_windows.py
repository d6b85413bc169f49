"""window() and session_window(): rows in the windows of time that they fall into.

A row is in no window of time, in one or in several, so `window` generates rows as explode does; what
has no time is in none. Windows that are not said by literals are left to Spark.

A session is what GROUP BY makes of rows whose own windows touch, in order of their start and per
value of the other keys. With [s, e) the window of a row, it is an island:

    first   = s > max(e) of the rows before, or there are none
    session = [min(s), max(e)) of the rows with the same number of firsts up to their start

Both can be named `window` and `session_window` beside the columns of FROM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.environment import Environment
from spark_incr.plan.expressions import bound, scalar
from spark_incr.plan.generators import (
    SESSION_WINDOW,
    WINDOW,
    generate,
    last_moment,
    time_window,
)
from spark_incr.plan.nodes import Node, column
from spark_incr.plan.scope import Bound, Scope, Visible
from spark_incr.plan.syntax import expression_of, is_subquery, transformed
from spark_incr.plan.windows import with_windows

_TIMES = (T.TimestampType, T.TimestampNTZType)
_START = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"

Replace = Callable[[exp.Expr], exp.Expr]


def with_time_window(
    clauses: Sequence[exp.Expr],
    keys: Sequence[exp.Expr],
    node: Node,
    scope: Scope,
    env: Environment,
) -> tuple[Node, Scope, Replace]:
    """The rows in the window of time that clauses ask for, and what stands for it in them.

    `keys` are the expressions of GROUP BY. Spark takes one window of time in a query.
    """
    calls = [call for clause in clauses for call in _calls(clause)]
    if not calls:
        return node, scope, lambda expression: expression
    name = time_window(calls[0])
    assert name is not None
    read = [scalar(env, operand, scope) for operand in calls[0].expressions]
    node, read[0] = _time(read[0], node, env)
    if name == WINDOW:
        read = _in_microseconds(read, env)
    before = node.names
    node, _ = generate(node, exp.Anonymous(this=name, expressions=read), (), False, env)
    (made,) = (n for n in node.names if n not in before)
    if name == SESSION_WINDOW and any(_calls(key) for key in keys):
        others = [key for key in keys if not _calls(key)]
        node, made = _session(node, made, others, scope, env)

    def replaced(node: exp.Expr) -> exp.Expr:
        if is_subquery(node):
            return node.copy()
        return Bound(this=column(made)) if time_window(node) else node

    named = Visible((), name, made, starred=False)
    return node, Scope((*scope.columns, named)), lambda e: transformed(e, replaced)


def _calls(clause: exp.Expr) -> list[exp.Expr]:
    return [n for n in clause.walk(prune=is_subquery) if time_window(n)]


def _time(read: exp.Expr, node: Node, env: Environment) -> tuple[Node, exp.Expr]:
    """The time of a row as a column; a window of time stands for the last moment in it."""
    (type_,) = env.types(node.schema, [read])
    if isinstance(type_, T.StructType):
        read = last_moment(read)
    elif not isinstance(type_, _TIMES):
        read = exp.cast(read, "timestamp", dialect="spark")
    if isinstance(read, exp.Column) and read.name in node.names:
        return node, read
    columns: list[tuple[str, exp.Expr]] = [(n, column(n)) for n in node.names]
    name = env.names.fresh("time")
    return env.project(node, [*columns, (name, read)]), column(name)


def _in_microseconds(read: list[exp.Expr], env: Environment) -> list[exp.Expr]:
    """The operands of window() with its duration, slide and start in numbers, if they are literals."""
    if not all(isinstance(operand, exp.Literal) for operand in read[1:]):
        return read
    numbers = []
    for operand in read[1:]:
        text = f"timestampdiff(MICROSECOND, {_START}, {_START} + CAST($ AS INTERVAL))"
        number = expression_of(text, operand) if operand.is_string else operand
        numbers.append(env.analyzer.integer(number))
    numbers += [numbers[0], 0][len(numbers) - 1 :]
    return [read[0], *(exp.Literal.string(f"{n} microseconds") for n in numbers)]


def _session(
    node: Node, own: str, others: Sequence[exp.Expr], scope: Scope, env: Environment
) -> tuple[Node, str]:
    """The rows with the session that each is in."""
    keys: list[exp.Expr] = []
    for other in others:
        node, key = bound(env, node, other, scope)
        keys.append(key)
    start, end = (expression_of(f"($).`{part}`", column(own)) for part in ("start", "end"))
    frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    node, latest = _over(node, f"max($) OVER (ORDER BY $ {frame})", (end, start), keys, env)
    first = expression_of("CASE WHEN $ <= $ THEN 0 ELSE 1 END", start, latest)
    node, number = _over(node, "sum($) OVER (ORDER BY $)", (first, start), keys, env)
    island = [*keys, number]
    node, begin = _over(node, "min($) OVER ()", (start,), island, env)
    node, finish = _over(node, "max($) OVER ()", (end,), island, env)
    name = env.names.fresh(SESSION_WINDOW)
    session = expression_of("named_struct('start', $, 'end', $)", begin, finish)
    columns: list[tuple[str, exp.Expr]] = [(n, column(n)) for n in node.names]
    return env.project(node, [*columns, (name, session)]), name


def _over(
    node: Node, text: str, values: Sequence[exp.Expr], keys: Sequence[exp.Expr], env: Environment
) -> tuple[Node, exp.Expr]:
    """The node with a window function over the partitions of keys."""
    window = expression_of(text, *values)
    assert isinstance(window, exp.Window)
    window.set("partition_by", [key.copy() for key in keys])
    node, (value,) = with_windows(node, [window], env.context)
    return node, value
