"""Functions of SQL that are part of the plan: those that give rows, and those that hold a query.

f(a) stands for the text of f over the row that it is called for, of which the text sees the arguments
alone. In FROM the text is a query, read as LATERAL (query) is; elsewhere it is an expression.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.context import SessionFunction
from spark_incr.plan.environment import Built, Environment
from spark_incr.plan.functions import called, read_functions
from spark_incr.plan.joins import cast_to
from spark_incr.plan.limited_equalities import refuse_limited_equalities
from spark_incr.plan.nodes import Node, column, columns_in
from spark_incr.plan.scope import Scope, Visible, spelled
from spark_incr.plan.syntax import (
    expression_of,
    membership_of,
    outermost_subqueries,
    unsupported,
)
from spark_incr.plan.types import read_type
from spark_incr.sql.dialect import parse_query


@dataclass(frozen=True)
class _Parameter:
    name: str
    type: T.DataType
    default: str | None


def sql_function(call: exp.Expr, env: Environment) -> SessionFunction | None:
    """The function of SQL that is called, if its query is part of the plan."""
    name = called(call) if isinstance(call, exp.Anonymous) else None
    found = None if name is None else env.analyzer.session_function(name, len(call.expressions))
    return found if found is not None and found.returns else None


def with_arguments(
    call: exp.Expr,
    function: SessionFunction,
    node: Node,
    values: Sequence[exp.Expr],
    env: Environment,
) -> tuple[Node, Scope, Environment]:
    """The node with the arguments as columns, and what the text of the function may refer to.

    `values` are the arguments as they are written, over the columns of the node.
    """
    parameters = _parameters(function.inputs)
    given = [
        (p, value if value is not None else expression_of(p.default or "NULL"))
        for p, value in zip(parameters, _placed(call, values, parameters), strict=True)
    ]
    types = env.types(node.schema, [value for _, value in given])
    arguments: list[tuple[str, exp.Expr]] = [
        (env.names.fresh(p.name), cast_to(value, type_, p.type))
        for (p, value), type_ in zip(given, types, strict=True)
    ]
    visible = tuple(
        Visible((call.name,), p.name, name)
        for p, (name, _) in zip(parameters, arguments, strict=True)
    )
    kept: list[tuple[str, exp.Expr]] = [(n, column(n)) for n in node.names]
    converted = dict.fromkeys(name for name, value in arguments if columns_in(value))

    def build(query: exp.Expr, inside: Environment) -> Built:
        built = env.build(query, inside)
        refuse_limited_equalities(built.node, converted)
        return built

    node = env.project(node, [*kept, *arguments])
    return node, Scope(visible), replace(env, build=build, ctes={}, outer=())


def expression_of_function(call: exp.Expr, function: SessionFunction, env: Environment) -> exp.Expr:
    """What a function that is called for a value stands for, over its parameters."""
    value: exp.Expr = _read(f"SELECT {function.body} AS value", env).expressions[0].this
    if any(membership_of(subquery) for subquery in outermost_subqueries(value)):
        # Spark gives FALSE for an unknown IN, but for NOT IN it does not; and it moves a NOT that stands
        # before a call into the function, or not, as its optimizer goes.
        hint = "Write EXISTS with the comparison in WHERE: it is never unknown."
        raise unsupported(call, f"IN (subquery) as a part of the function {call.name}", hint)
    return value


def returned_type(function: SessionFunction) -> T.DataType:
    """The type of a function that is called for a value."""
    return _parameters(function.returns)[0].type


def rows_of_function(
    function: SessionFunction, node: Node, scope: Scope, env: Environment
) -> Built:
    """The query of a function over a node with its arguments."""
    inside = env.inside(scope, node.schema)
    built = inside.query(_read(function.body, env))
    returned = _parameters(function.returns)
    columns = [
        (r.name, cast_to(column(f.name), f.type, r.type))
        for r, f in zip(returned, built.node.schema, strict=True)
    ]
    rows = inside.project(built.node, inside.named(built.node, columns))
    return Built(rows, tuple(r.name for r in returned))


def _read(text: str, env: Environment) -> exp.Expr:
    query = parse_query(text)
    read_functions(query, env.analyzer)
    return query


def _placed(
    call: exp.Expr, values: Sequence[exp.Expr], parameters: Sequence[_Parameter]
) -> list[exp.Expr | None]:
    """What is given for each parameter, by place or by name."""
    written = zip(call.expressions, values, strict=True)
    named = {
        spelled(e.this.name) if isinstance(e, exp.Kwarg) else spelled(parameters[place].name): value
        for place, (e, value) in enumerate(written)
    }
    return [named.get(spelled(p.name)) for p in parameters]


def _parameters(fields: str) -> list[_Parameter]:
    return [
        _Parameter(
            field["name"],
            read_type(field["type"]),
            field["metadata"].get("default"),
        )
        for field in json.loads(fields)["fields"]
    ]
