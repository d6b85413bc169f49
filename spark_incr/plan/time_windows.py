"""window() and session_window(): rows in the windows of time that they fall into.

A row is in no window of time, in one or in several, so `window` generates rows as explode does; what
has no time is in none. Windows that are not said by literals are left to Spark.

A clause puts the rows that it reads into windows for itself: WHERE and SELECT that both ask for a
window make rows of rows. What a clause has made can be named `window` or `session_window` in it,
where no column has the name, and is the first column of what the clauses above it read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.environment import Environment
from spark_incr.plan.expressions import scalar
from spark_incr.plan.generators import (
    WINDOW,
    generate,
    last_moment,
    time_window,
)
from spark_incr.plan.nodes import Node, column
from spark_incr.plan.scope import Bound, Scope, Visible
from spark_incr.plan.syntax import expression_of, transformed

_TIMES = (T.TimestampType, T.TimestampNTZType)
_START = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"

Replace = Callable[[exp.Expr], exp.Expr]


def below_time_window(
    clause: exp.Expr, node: Node, scope: Scope, env: Environment
) -> tuple[Node, Scope, exp.Expr]:
    """The rows that a clause below SELECT reads, in the window of time that it asks for."""
    node, scope, replaced = with_time_window([clause], node, scope, env, shown=True)
    return node, scope, replaced(clause)


def with_time_window(
    clauses: Sequence[exp.Expr],
    node: Node,
    scope: Scope,
    env: Environment,
    shown: bool = False,
) -> tuple[Node, Scope, Replace]:
    """The rows in the window of time that clauses ask for, and what stands for it in them.

    `shown` is what clauses above read, too. Spark takes one window of time at once, and windows of
    windows: the innermost comes first.
    """
    calls = [c for clause in clauses for c in time_windows_in(clause) if _is_innermost(c)]
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
    if shown or not scope.find((), name):
        scope = Scope((Visible((), name, made, starred=shown), *scope.columns))

    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query):
            return node.copy()
        found = time_window(node) and _is_innermost(node)
        return Bound(this=column(made)) if found else node

    def replaced(expression: exp.Expr) -> exp.Expr:
        return transformed(expression, change)

    clauses = [replaced(clause) for clause in clauses]
    node, scope, around = with_time_window(clauses, node, scope, env, shown)
    return node, scope, lambda expression: around(replaced(expression))


def time_windows_in(clause: exp.Expr) -> list[exp.Expr]:
    """The windows of time that a clause asks for itself."""
    return [n for n in clause.walk(prune=lambda n: isinstance(n, exp.Query)) if time_window(n)]


def _is_innermost(call: exp.Expr) -> bool:
    return len(time_windows_in(call)) == 1


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
