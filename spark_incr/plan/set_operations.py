"""UNION, INTERSECT and EXCEPT, with and without ALL: columns meet by position, in one type.

The rows of UNION ALL come side by side, those of the left first, and each side in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.bags import compare_bags
from spark_incr.plan.environment import Built, Environment
from spark_incr.plan.joins import cast_to, keyed_join, only
from spark_incr.plan.nodes import Aggregate, JoinKind, Node, Project, SortKey, UnionAll, column
from spark_incr.plan.ordering import inherits_order, limited_result
from spark_incr.plan.sessions import in_sessions, refuse_sessions
from spark_incr.plan.syntax import refuse_clauses, unsupported, words
from spark_incr.plan.types import Field, Schema, is_collated

_CLAUSES = {"this", "expression", "distinct", "with_", "order", "limit", "offset"}


def build_set_operation(operation: exp.SetOperation, env: Environment) -> Built:
    """The plan of a set operation."""
    refuse_clauses(operation, _CLAUSES)
    distinct = bool(operation.args.get("distinct"))
    appends = isinstance(operation, exp.Union) and not distinct
    if appends and inherits_order(operation, env):
        return limited_result(operation, _in_order(operation, env), env)
    left, right = env.query(operation.left), env.query(operation.right)
    types = _types(left, right, env)
    schema = tuple(
        Field(env.names.fresh(name), t) for name, t in zip(left.names, types, strict=True)
    )
    sides = _of_types(left.node, types, env), _of_types(right.node, types, env)
    if isinstance(operation, exp.Union):
        node: Node = UnionAll(schema, sides)
        if distinct:
            node = in_sessions(node, [column(n) for n in node.names], env)
            node = Aggregate(node.schema, node, node.names, ())
    else:
        if distinct and any(isinstance(t, T.NullType) for t in types):
            hint = "Cast them to a type: Spark finds no two of them equal here."
            raise unsupported(operation, f"{words(operation)} of NULLs without a type", hint)
        refuse_sessions(left.node, left.node.names, operation, words(operation))
        intersect = isinstance(operation, exp.Intersect)
        if intersect and distinct and any(map(is_collated, types)):
            node = _found(sides, schema, env)
        else:
            node = compare_bags(sides, schema, intersect, distinct, env.context)
    return limited_result(operation, Built(node, left.names), env)


def _types(left: Built, right: Built, env: Environment) -> list[T.DataType]:
    shown = len(left.names)
    return [
        a.type if a.type == b.type else env.analyzer.union_type(a.type, b.type)
        for a, b in zip(left.node.schema[:shown], right.node.schema[:shown], strict=True)
    ]


def _in_order(operation: exp.SetOperation, env: Environment) -> Built:
    """UNION ALL with the order of its rows: by the number of the side, then by the keys of each side,
    which the other has as NULL."""
    sides = env.sorted_query(operation.left), env.sorted_query(operation.right)
    types = _types(*sides, env)
    keys = [(side, key, side.node.type_of(key.column)) for side in sides for key in side.order]
    nodes = []
    for number, side in enumerate(sides):
        columns = [*_cast(side.node, types), ("side", exp.Literal.number(number))]
        columns += [
            ("key", column(key.column) if own is side else cast_to(exp.null(), T.NullType(), t))
            for own, key, t in keys
        ]
        kinds = [*types, T.IntegerType(), *(t for *_, t in keys)]
        nodes.append(_projected(side.node, columns, kinds, env))
    names = (*sides[0].names, "side", *("key" for _ in keys))
    schema = tuple(
        Field(env.names.fresh(name), f.type) for name, f in zip(names, nodes[0].schema, strict=True)
    )
    added = [f.name for f in schema[len(types) :]]
    first = SortKey(added[0], descending=False, nulls_first=True)
    own = [replace(key, column=name) for name, (_, key, _) in zip(added[1:], keys, strict=True)]
    return Built(UnionAll(schema, (nodes[0], nodes[1])), sides[0].names, (first, *own))


def _found(sides: tuple[Node, Node], schema: Schema, env: Environment) -> Node:
    """INTERSECT of rows that may be equal and differ: those of the left are shown."""
    here, there = sides
    pairs: list[tuple[exp.Expr, exp.Expr, bool]] = [
        (column(a), column(b), True) for a, b in zip(here.names, there.names, strict=True)
    ]
    found = only(keyed_join(here, there, pairs, JoinKind.SEMI, env.context), here.names)
    renamed = Project(schema, found, tuple(column(name) for name in here.names))
    return Aggregate(schema, renamed, tuple(f.name for f in schema), ())


def _of_types(node: Node, types: Sequence[T.DataType], env: Environment) -> Node:
    if [f.type for f in node.schema] == list(types):
        return node
    return _projected(node, _cast(node, types), types, env)


def _cast(node: Node, types: Sequence[T.DataType]) -> list[tuple[str, exp.Expr]]:
    """The first columns of a node in these types."""
    pairs = zip(node.schema[: len(types)], types, strict=True)
    return [(f.name, cast_to(column(f.name), f.type, t)) for f, t in pairs]


def _projected(
    node: Node,
    columns: Sequence[tuple[str, exp.Expr]],
    types: Sequence[T.DataType],
    env: Environment,
) -> Node:
    named = env.named(node, columns)
    schema = tuple(Field(name, t) for (name, _), t in zip(named, types, strict=True))
    return Project(schema, node, tuple(e for _, e in named))
