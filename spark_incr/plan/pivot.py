"""PIVOT and UNPIVOT.

PIVOT aggregates per group and pivot value, and then spreads the values into columns:

    pivot p in v1..vn, a (R) = γ g; a1..an (γ g,p; a (R))     ai = the a of the row where p <=> vi

so a value that does not occur is NULL, of a count too. That is what Spark does where every
aggregate is a number or a boolean; for other types it aggregates once, with rows of other values
left out, and there a count is 0:

    γ g; a filter (p <=> v1) .. (R)

UNPIVOT is a union of projections, one per column, of one type each.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.environment import Environment
from spark_incr.plan.grouping import AggregateReader
from spark_incr.plan.joins import cast_to
from spark_incr.plan.nodes import (
    Aggregate,
    Call,
    Filter,
    Node,
    Project,
    UnionAll,
    column,
    columns_in,
)
from spark_incr.plan.scope import Bound, Scope, Visible, resolve_column
from spark_incr.plan.sessions import refuse_sessions
from spark_incr.plan.syntax import aggregate_call, transformed, unsupported
from spark_incr.plan.types import INTEGERS, Field, Schema, char_length, type_sql
from spark_incr.sql.dialect import print_sql, quoted

_SPREAD = (*INTEGERS, T.FloatType, T.DoubleType, T.BooleanType, T.DecimalType)


def pivoted(node: Node, scope: Scope, pivot: exp.Pivot, env: Environment) -> tuple[Node, Scope]:
    """A relation after PIVOT or UNPIVOT, and the names of its columns."""
    schema = _spark_schema(node, scope, pivot, env)
    make = _unpivoted if pivot.args.get("unpivot") else _spread
    result = make(node, scope, pivot, schema, env)
    qualifier = (pivot.alias,) if pivot.alias else ()
    pairs = zip(schema, result.schema, strict=True)
    return result, Scope(
        tuple(Visible(qualifier, f.name, made.name, char_length(made.type)) for f, made in pairs)
    )


def _spark_schema(node: Node, scope: Scope, pivot: exp.Pivot, env: Environment) -> Schema:
    """The columns that Spark gives for the pivot over an empty relation of the same columns."""
    columns = ", ".join(
        f"CAST(NULL AS {type_sql(node.type_of(v.column))}) AS {quoted(v.name)}"
        for v in scope.star(None)
    )
    qualifiers = {v.qualifier[-1] for v in scope.columns if v.qualifier}
    alias = f" AS {quoted(qualifiers.pop())}" if len(qualifiers) == 1 else ""
    written = pivot.copy()
    written.set("alias", None)
    return env.analyzer.query_schema(
        f"SELECT * FROM (SELECT {columns}){alias} {print_sql(written)}"
    )


def _choices(pivot: exp.Pivot) -> tuple[exp.Expr, list[exp.Expr]]:
    (field,) = pivot.args["fields"]
    return field.this, [_unaliased(e) for e in field.expressions]


def _unaliased(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, (exp.PivotAlias, exp.Alias)) else node


def _parts(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest()
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _values(choice: exp.Expr, count: int) -> list[exp.Expr]:
    """What each column of a pivot is compared with; one column alone may be a struct."""
    return [choice.unnest()] if count == 1 else _parts(choice)


def _spread(node: Node, scope: Scope, pivot: exp.Pivot, schema: Schema, env: Environment) -> Node:
    subject, values = _choices(pivot)
    by = [resolve_column(_as_column(e), scope, {}) for e in _parts(subject)]
    written = [_unaliased(e) for e in pivot.expressions]
    read = {
        name
        for e in written
        for c in e.find_all(exp.Column)
        if not isinstance(c.this, exp.Star)
        for name in columns_in(resolve_column(c, scope, {}))
    } | {name for e in by for name in columns_in(e)}
    kept = [v for v in scope.star(None) if v.column not in read]
    refuse_sessions(node, [v.column for v in kept], pivot, "PIVOT")
    groups = [column(v.column) for v in kept]
    results = schema[len(kept) :]
    tests: list[list[exp.Expr]] = [
        [
            exp.NullSafeEQ(this=_as_pivot(key, node), expression=value)
            for key, value in zip(by, _values(choice, len(by)), strict=True)
        ]
        for choice in values
    ]
    if all(isinstance(f.type, _SPREAD) for f in results):
        return _by_value(node, scope, written, (groups, by), tests, results, env)
    return _at_once(node, scope, written, groups, tests, env)


def _as_column(node: exp.Expr) -> exp.Column:
    return node if isinstance(node, exp.Column) else exp.Column(this=node.copy())


def _as_pivot(key: exp.Expr, node: Node) -> exp.Expr:
    """What is compared with the values of a pivot; CHAR is not padded there."""
    if not isinstance(key, exp.Column):
        return key
    bound = Bound(this=key)
    return bound if char_length(node.type_of(key.name)) is None else exp.cast(bound, "string")


def _by_value(
    node: Node,
    scope: Scope,
    written: Sequence[exp.Expr],
    keys: tuple[list[exp.Column], list[exp.Expr]],
    tests: list[list[exp.Expr]],
    results: Schema,
    env: Environment,
) -> Node:
    groups, by = keys
    reader = AggregateReader(env, scope, node, [*groups, *by])
    values = [reader.read(e) for e in written]
    inner = reader.aggregate(scalar=False)
    named = dict(zip(by, reader.key_names[len(groups) :], strict=True))
    conditions = []
    for test in tests:
        over_keys = [
            transformed(t, lambda n: column(named[n.this]) if isinstance(n, Bound) else n)
            for t in test
        ]
        conditions.append(exp.and_(*over_keys))
    columns: list[tuple[str, exp.Expr]] = [(g.name, column(g.name)) for g in groups]
    condition_names = [env.names.fresh("is_value") for _ in conditions]
    value_names = [env.names.fresh("value") for _ in values]
    below = env.project(
        inner,
        [
            *columns,
            *zip(condition_names, conditions, strict=True),
            *zip(value_names, values, strict=True),
        ],
    )
    calls = tuple(
        Call(
            env.names.fresh(field.name),
            "any_value",
            (value_names[i % len(values)],),
            field.type,
            condition=condition_names[i // len(values)],
            parameters=(False,),
        )
        for i, field in enumerate(results)
    )
    names = tuple(g.name for g in groups)
    fields = tuple(Field(n, below.type_of(n)) for n in names)
    schema = (*fields, *(Field(c.name, c.type) for c in calls))
    return Aggregate(schema, below, names, calls, scalar=not names)


def _at_once(
    node: Node,
    scope: Scope,
    written: Sequence[exp.Expr],
    groups: list[exp.Column],
    tests: list[list[exp.Expr]],
    env: Environment,
) -> Node:
    reader = AggregateReader(env, scope, node, list(groups))
    columns: list[tuple[str, exp.Expr]] = [(g.name, column(g.name)) for g in groups]
    for test in tests:
        condition = exp.Where(this=exp.and_(*test))
        for expression in written:
            filtered = _filtered(expression, condition)
            columns.append((env.names.fresh("value"), reader.read(filtered)))
    below = reader.aggregate(scalar=not groups)
    return env.project(below, columns)


def _filtered(expression: exp.Expr, condition: exp.Where) -> exp.Expr:
    """An expression whose aggregates see only the rows of a condition."""

    def change(node: exp.Expr) -> exp.Expr:
        if aggregate_call(node) is None:
            return node
        return exp.Filter(this=node.copy(), expression=condition.copy())

    return transformed(expression, change)


def _unpivoted(
    node: Node, scope: Scope, pivot: exp.Pivot, schema: Schema, env: Environment
) -> Node:
    _, choices = _choices(pivot)
    (field,) = pivot.args["fields"]
    labels = [
        e.alias if isinstance(e, (exp.PivotAlias, exp.Alias)) else "" for e in field.expressions
    ]
    taken = [
        [resolve_column(_as_column(e), scope, {}) for e in _parts(choice)] for choice in choices
    ]
    if any(not isinstance(c, exp.Column) for columns in taken for c in columns):
        raise unsupported(pivot, "UNPIVOT of fields of a struct")
    used = {c.name for columns in taken for c in columns}
    kept = [v for v in scope.star(None) if v.column not in used]
    values = schema[len(kept) + 1 :]
    types = [*(node.type_of(v.column) for v in kept), *(f.type for f in schema[len(kept) :])]
    inputs = []
    for label, choice, columns in zip(labels, choices, taken, strict=True):
        name = label or "_".join(e.name for e in _parts(choice))
        expressions = (
            *(column(v.column) for v in kept),
            exp.Literal.string(name),
            *(
                cast_to(c.copy(), node.type_of(c.name), f.type)
                for c, f in zip(columns, values, strict=True)
            ),
        )
        fields = _fresh(schema, types, env)
        side: Node = Project(fields, node, expressions)
        if not pivot.args.get("include_nulls"):
            present = [
                exp.Not(this=exp.Is(this=column(f.name), expression=exp.null()))
                for f in fields[len(kept) + 1 :]
            ]
            side = Filter(side.schema, side, exp.or_(*present))
        inputs.append(side)
    return UnionAll(_fresh(schema, types, env), tuple(inputs))


def _fresh(schema: Schema, types: Sequence[T.DataType], env: Environment) -> Schema:
    """Columns of these types, under names that are close to those of a schema."""
    pairs = zip(schema, types, strict=True)
    return tuple(Field(env.names.fresh(f.name), t) for f, t in pairs)
