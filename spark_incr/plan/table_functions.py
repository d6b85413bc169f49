"""Functions of users in FROM.

A function of SQL is its query: f(a) stands for LATERAL (query of f), where the arguments are columns
of the row that it is called for, and all that the query sees of it. Any other function makes rows of
its arguments as a generator does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.context import SessionFunction
from spark_incr.plan.environment import Built, Environment
from spark_incr.plan.expressions import bound
from spark_incr.plan.functions import called
from spark_incr.plan.joins import cast_to
from spark_incr.plan.limited_equalities import refuse_limited_equalities
from spark_incr.plan.nodes import Node, column, columns_in
from spark_incr.plan.scope import Scope, Visible, spelled
from spark_incr.plan.syntax import expression_of
from spark_incr.plan.types import read_type
from spark_incr.sql.dialect import parse_query


@dataclass(frozen=True)
class _Parameter:
    name: str
    type: T.DataType
    default: str | None


def sql_function(call: exp.Expr, env: Environment) -> SessionFunction | None:
    """The table function of SQL that is called, if it is one."""
    name = called(call) if isinstance(call, exp.Anonymous) else None
    found = None if name is None else env.analyzer.session_function(name, len(call.expressions))
    return found if found is not None and found.returns else None


def inlined(
    call: exp.Expr, function: SessionFunction, node: Node, scope: Scope, env: Environment
) -> tuple[Node, Built]:
    """The node with the arguments as columns, and the query of the function over them."""
    arguments: list[tuple[str, exp.Expr]] = []
    visible: list[Visible] = []
    for parameter, written in _arguments(call, function):
        node, value = bound(env, node, written, scope)
        (type_,) = env.types(node.schema, [value])
        arguments.append((env.names.fresh(parameter.name), cast_to(value, type_, parameter.type)))
        visible.append(Visible((call.name,), parameter.name, arguments[-1][0]))
    kept: list[tuple[str, exp.Expr]] = [(n, column(n)) for n in node.names]
    node = env.project(node, [*kept, *arguments])
    inside = replace(env, ctes={}, outer=((Scope(tuple(visible)), node.schema),))
    built = inside.query(parse_query(function.body))
    converted = [name for name, value in arguments if columns_in(value)]
    refuse_limited_equalities(built.node, dict.fromkeys(converted))
    returned = _parameters(function.returns)
    columns = [
        (r.name, cast_to(column(f.name), f.type, r.type))
        for r, f in zip(returned, built.node.schema, strict=True)
    ]
    rows = inside.project(built.node, inside.named(built.node, columns))
    return node, Built(rows, tuple(r.name for r in returned))


def _arguments(call: exp.Expr, function: SessionFunction) -> list[tuple[_Parameter, exp.Expr]]:
    """What is given for each parameter: by place, by name, or its default."""
    named = {spelled(e.this.name): e.expression for e in call.expressions if _is_named(e)}
    placed = [e for e in call.expressions if not _is_named(e)]
    result = []
    for place, parameter in enumerate(_parameters(function.inputs)):
        given = placed[place] if place < len(placed) else named.get(spelled(parameter.name))
        result.append((parameter, given or expression_of(parameter.default or "NULL")))
    return result


def _is_named(argument: exp.Expr) -> bool:
    return isinstance(argument, exp.Kwarg)


def _parameters(fields: str) -> list[_Parameter]:
    return [
        _Parameter(
            field["name"],
            read_type(field["type"]),
            field["metadata"].get("default"),
        )
        for field in json.loads(fields)["fields"]
    ]
