"""Removing correlation: plans that read columns of an outer query become plans that do not.

A subquery's plan may name columns that none of its inputs has: they are the outer query's. Two laws
take them out.

*Pull up.* Conditions that read outer columns move to the top, where they are the condition of the
join with the outer query. Through an aggregate only equalities move, each as one more key:

    L × γ(σ a=b (R))  =  L ⟕a=b γb(R)        a over L, b over R

*Push down* (Neumann and Kemper). Where conditions cannot move, the outer values move instead:
with D the distinct outer values that the subquery reads, D × Q is pushed to the leaves,

    D ⋈ σp(R) = σp(D ⋈ R)     D ⋈ γk(R) = γk,d(D ⋈ R)     D ⋈ (R ⊎ S) = (D ⋈ R) ⊎ (D ⋈ S)

and the outer query is joined with the result on the values of D, NULL with NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyspark.sql.types as T
from sqlglot import exp, parse_one

from spark_incr.errors import error
from spark_incr.plan.aggregates import AFFECTED
from spark_incr.plan.collations import in_collation
from spark_incr.plan.context import Context
from spark_incr.plan.joins import equality, keyed_join, only
from spark_incr.plan.limited_equalities import refuse_limited_equalities
from spark_incr.plan.nodes import (
    Aggregate,
    AtMostOne,
    Constant,
    Filter,
    Generate,
    Join,
    JoinKind,
    Limit,
    Node,
    Project,
    Repeat,
    Single,
    UnionAll,
    Window,
    column,
    columns_in,
    conjuncts,
    substitute,
    walk,
)
from spark_incr.plan.types import Field, is_collated, type_sql
from spark_incr.sql.dialect import print_sql, quoted

Defaults = dict[str, exp.Expr]


def free_columns(node: Node) -> set[str]:
    """The columns that a plan reads and that are not its own."""
    result: set[str] = set()
    for part in walk(node):
        available = {name for child in part.inputs for name in child.names}
        for expression in _expressions(part):
            result |= columns_in(expression) - available
    return result


def _expressions(node: Node) -> tuple[exp.Expr, ...]:
    if isinstance(node, Project):
        return node.expressions
    if isinstance(node, Filter):
        return (node.condition,)
    if isinstance(node, Generate):
        return (node.generator,)
    if isinstance(node, Join):
        return () if node.where is None else (node.where,)
    return tuple(w for _, w in node.functions) if isinstance(node, Window) else ()


def always_one_row(node: Node) -> bool:
    """Whether a plan has exactly one row, whatever the tables hold."""
    if isinstance(node, Project):
        return always_one_row(node.input)
    return isinstance(node, Single) or (isinstance(node, Aggregate) and node.scalar)


@dataclass(frozen=True)
class Pulled:
    """A plan without outer columns, and the conditions that join it with the outer query.

    `defaults` are the values of its columns for an outer row that matches nothing, where an
    aggregate without keys would have given a row all the same.
    """

    node: Node
    conditions: tuple[exp.Expr, ...] = ()
    defaults: Defaults | None = None


def pull_up(node: Node, context: Context) -> Pulled | None:
    """The plan with its correlated conditions on top, or None where these laws do not reach."""
    if not free_columns(node):
        return Pulled(node)
    if isinstance(node, Filter):
        return _pull_filter(node, context)
    if isinstance(node, Project):
        return _pull_project(node, context)
    if isinstance(node, Aggregate):
        return _pull_aggregate(node, context)
    if isinstance(node, Join):
        return _pull_join(node, context)
    return None


def _pull_filter(node: Filter, context: Context) -> Pulled | None:
    below = pull_up(node.input, context)
    if below is None or below.defaults is not None:
        return None
    own = set(node.input.names)
    parts = conjuncts(node.condition)
    kept = [p for p in parts if columns_in(p) <= own]
    moved = [p for p in parts if not columns_in(p) <= own]
    result = below.node
    for part in kept:
        result = Filter(result.schema, result, part)
    return Pulled(result, (*below.conditions, *moved))


def _pull_project(node: Project, context: Context) -> Pulled | None:
    below = pull_up(node.input, context)
    inside = set(node.input.names)
    if below is None or any(not columns_in(e) <= inside for e in node.expressions):
        return None
    needed = {name for c in below.conditions for name in columns_in(c)} & set(below.node.names)
    extra = [f for f in below.node.schema if f.name in needed and f.name not in node.names]
    defaults = None
    if below.defaults is not None:
        values = {**{n: exp.null() for n in below.node.names}, **below.defaults}
        defaults = {
            name: substitute(e, values)
            for name, e in zip(node.names, node.expressions, strict=True)
        }
    clash = needed & {
        name
        for name, e in zip(node.names, node.expressions, strict=True)
        if not (isinstance(e, exp.Column) and e.name == name)
    }
    if clash:
        return None
    projected = Project(
        (*node.schema, *extra), below.node, (*node.expressions, *(column(f.name) for f in extra))
    )
    return Pulled(projected, below.conditions, defaults)


def _pull_aggregate(node: Aggregate, context: Context) -> Pulled | None:
    below = pull_up(node.input, context)
    if below is None or below.defaults is not None or _unknown_over_nothing(node):
        return None
    own = set(below.node.names)
    rows, keys, conditions = below.node, list(node.keys), []
    for condition in below.conditions:
        outer = columns_in(condition) - own
        pair = equality(condition, outer, own)
        if pair is None or pair[2]:
            return None
        there, here, _ = pair
        if isinstance(here, exp.Column):
            key = here.name
        else:
            (type_,) = context.analyzer.types(rows.schema, [here])
            key = context.names.fresh("key")
            columns = (*(column(n) for n in rows.names), here)
            rows = Project((*rows.schema, Field(key, type_)), rows, columns)
        if key not in keys:
            keys.append(key)
        conditions.append(exp.EQ(this=there.copy(), expression=column(key)))
    added = [Field(k, rows.type_of(k)) for k in keys if k not in node.keys]
    grouped = Aggregate((*node.schema, *added), rows, tuple(keys), node.calls)
    grouped = replace(grouped, schema=_aggregate_schema(grouped))
    defaults = {c.name: _over_nothing(c.function) for c in node.calls} if node.scalar else None
    return Pulled(grouped, tuple(conditions), defaults)


def _aggregate_schema(node: Aggregate) -> tuple[Field, ...]:
    keys = tuple(Field(k, node.input.type_of(k)) for k in node.keys)
    return keys + tuple(Field(c.name, c.type) for c in node.calls)


def _unknown_over_nothing(node: Aggregate) -> bool:
    return node.scalar and any(call.function == AFFECTED for call in node.calls)


def _over_nothing(function: str) -> exp.Expr:
    """The value of an aggregate over no rows."""
    if function in ("count", "count_if"):
        return parse_one("0L", read="spark")
    if function in ("collect_list", "collect_set"):
        return exp.Array(expressions=[])
    return exp.null()


def _pull_join(node: Join, context: Context) -> Pulled | None:
    if node.kind is JoinKind.FULL or (node.kind is not JoinKind.INNER and free_columns(node.right)):
        return None
    if node.where is not None and not columns_in(node.where) <= {
        *node.left.names,
        *node.right.names,
    }:
        return None
    left, right = pull_up(node.left, context), pull_up(node.right, context)
    if left is None or right is None or left.defaults is not None or right.defaults is not None:
        return None
    left = _apart(left, node.left, right.node.names, context)
    right = _apart(right, node.right, left.node.names, context)
    schema = left.node.schema
    if not node.kind.left_only:
        schema += right.node.schema
    joined = replace(node, schema=schema, left=left.node, right=right.node)
    return Pulled(joined, (*left.conditions, *right.conditions))


def _apart(pulled: Pulled, node: Node, taken: tuple[str, ...], context: Context) -> Pulled:
    """The plan with fresh names for the columns that were added to a node for its conditions: both
    sides of a join may read one relation, and then both add the same."""
    renamed = {
        name: context.names.fresh(name)
        for name in pulled.node.names
        if name in taken and name not in node.names
    }
    if not renamed:
        return pulled
    fields = tuple(Field(renamed.get(f.name, f.name), f.type) for f in pulled.node.schema)
    rows = Project(fields, pulled.node, tuple(column(n) for n in pulled.node.names))
    values: dict[str, exp.Expr] = {name: column(fresh) for name, fresh in renamed.items()}
    return Pulled(rows, tuple(substitute(c, values) for c in pulled.conditions))


@dataclass(frozen=True)
class Outer:
    """D, the distinct values of some columns of the outer query, under names of their own.

    `read` are those columns in terms of D, and `pairs` join the outer query with D. Strings with a
    collation are without it in D: what it takes for equal, the subquery may tell apart.
    """

    values: Node
    read: dict[str, exp.Expr]
    pairs: list[tuple[exp.Expr, exp.Expr, bool]]


def outer_values(node: Node, names: list[str], context: Context) -> Outer:
    schema: list[Field] = []
    read: dict[str, exp.Expr] = {}
    pairs: list[tuple[exp.Expr, exp.Expr, bool]] = []
    for name in names:
        kind, there = node.type_of(name), column(context.names.fresh(name))
        here: exp.Expr = column(name)
        read[name] = there
        if isinstance(kind, T.StringType) and is_collated(kind):
            here, read[name] = in_collation(here, T.StringType()), in_collation(there, kind)
            kind = T.StringType()
        schema.append(Field(there.name, kind))
        pairs.append((here, there, True))
    fields = tuple(schema)
    values = Project(fields, node, tuple(here for here, _, _ in pairs))
    return Outer(Aggregate(fields, values, tuple(f.name for f in fields), ()), read, pairs)


def in_each_row(node: Node, inner: Node) -> Node | None:
    """A ⋈ π(1) = π(A): a subquery that reads the outer row and nothing else, as a part of that row.

    Its columns stand behind those of the outer query.
    """
    if isinstance(inner, Single):
        return node
    if not isinstance(inner, (Project, Filter)):
        return None
    below = in_each_row(node, inner.input)
    if below is None:
        return None
    if isinstance(inner, Filter):
        return Filter(below.schema, below, inner.condition)
    columns = tuple(column(n) for n in node.names)
    return Project(node.schema + inner.schema, below, (*columns, *inner.expressions))


def values_in_each_row(inner: Node) -> dict[str, exp.Expr] | None:
    """The columns of such a subquery as expressions over the outer row, if it has no condition."""
    if isinstance(inner, Single):
        return {}
    below = values_in_each_row(inner.input) if isinstance(inner, Project) else None
    if below is None or not isinstance(inner, Project):
        return None
    pairs = zip(inner.names, inner.expressions, strict=True)
    return {name: exp.Paren(this=substitute(e, below)) for name, e in pairs}


def push_down(values: Node, outer: dict[str, exp.Expr], node: Node, context: Context) -> Node:
    """D ⋈ Q: the plan's rows for each row of D, with the columns of D first."""
    if not free_columns(node) & outer.keys():
        return Join(values.schema + node.schema, values, node, ())

    def own(expression: exp.Expr) -> exp.Expr:
        return substitute(expression, dict(outer))

    if isinstance(node, Filter):
        below = push_down(values, outer, node.input, context)
        return Filter(below.schema, below, own(node.condition))
    if isinstance(node, Project):
        below = push_down(values, outer, node.input, context)
        columns = tuple(column(n) for n in values.names)
        expressions = (*columns, *(own(e) for e in node.expressions))
        return Project(values.schema + node.schema, below, expressions)
    if isinstance(node, Aggregate):
        return _push_aggregate(values, outer, node, context)
    if isinstance(node, Repeat):
        below = push_down(values, outer, node.input, context)
        return Repeat(values.schema + node.schema, below, node.times)
    if isinstance(node, AtMostOne):
        below = push_down(values, outer, node.input, context)
        return AtMostOne(values.schema + node.schema, below, node.count)
    if isinstance(node, Generate):
        below = push_down(values, outer, node.input, context)
        return replace(
            node,
            schema=values.schema + node.schema,
            input=below,
            generator=own(node.generator),
        )
    if isinstance(node, Limit):
        types = context.analyzer.types(values.schema, list(outer.values()))
        refuse_limited_equalities(node, dict(zip(outer, types, strict=True)))
        below = push_down(values, outer, node.input, context)
        keys = (*values.names, *node.keys)
        return replace(node, schema=values.schema + node.schema, input=below, keys=keys)
    if isinstance(node, Window):
        below = push_down(values, outer, node.input, context)
        return _push_window(values, node, below, own)
    if isinstance(node, UnionAll):
        inputs = []
        for relation in node.relations:
            pushed = push_down(values, outer, relation, context)
            fresh = tuple(Field(context.names.fresh(f.name), f.type) for f in pushed.schema)
            inputs.append(Project(fresh, pushed, tuple(column(n) for n in pushed.names)))
        return UnionAll(values.schema + node.schema, tuple(inputs))
    if isinstance(node, Join):
        return _push_join(values, outer, node, context)
    raise error("INCR_UNSUPPORTED", what=f"correlation through {type(node).__name__}")


def _push_window(
    values: Node, node: Window, below: Node, own: Callable[[exp.Expr], exp.Expr]
) -> Node:
    keys = (*values.names, *node.keys)
    functions = []
    for name, window in node.functions:
        pushed = own(window)
        assert isinstance(pushed, exp.Window)
        pushed.set("partition_by", [column(k) for k in keys])
        functions.append((name, pushed))
    return Window(values.schema + node.schema, below, keys, tuple(functions))


def _push_aggregate(
    values: Node, outer: dict[str, exp.Expr], node: Aggregate, context: Context
) -> Node:
    below = push_down(values, outer, node.input, context)
    grouped = Aggregate(values.schema + node.schema, below, (*values.names, *node.keys), node.calls)
    if not node.scalar:
        return grouped
    # A row for every value of D, also where nothing was aggregated.
    if _unknown_over_nothing(node):
        return _with_nothing(values, node, grouped, context)
    copies = {f.name: Field(context.names.fresh(f.name), f.type) for f in grouped.schema}
    copied = Project(tuple(copies.values()), grouped, tuple(column(n) for n in grouped.names))
    pairs = [(column(n), column(copies[n].name), True) for n in values.names]
    joined = keyed_join(values, copied, list(pairs), JoinKind.LEFT, context)
    expressions: list[exp.Expr] = [column(n) for n in values.names]
    for call in node.calls:
        found, nothing = column(copies[call.name].name), _over_nothing(call.function)
        expressions.append(
            found
            if isinstance(nothing, exp.Null)
            else exp.Coalesce(this=found, expressions=[nothing])
        )
    return Project(values.schema + node.schema, joined, tuple(expressions))


def _with_nothing(values: Node, node: Aggregate, grouped: Aggregate, context: Context) -> Node:
    """γd(D ⋈ R) ⊎ (D ▷ γd(D ⋈ R)) × γ(∅): what functions give for nothing, Spark says once."""
    calls = ", ".join(print_sql(c.expression) for c in node.calls if c.expression is not None)
    nulls = ", ".join(
        f"CAST(NULL AS {type_sql(f.type)}) AS {quoted(f.name)}" for f in node.input.schema
    )
    fresh = {f.name: Field(context.names.fresh(f.name), f.type) for f in grouped.schema}
    nothing = Constant(
        tuple(fresh[c.name] for c in node.calls),
        f"SELECT {calls} FROM (SELECT {nulls or '1'} WHERE false)",
    )
    pairs = [(column(n), column(fresh[n].name), True) for n in values.names]
    keys = Project(
        tuple(fresh[n] for n in values.names), grouped, tuple(column(n) for n in values.names)
    )
    alone = only(keyed_join(values, keys, list(pairs), JoinKind.ANTI, context), values.names)
    missing = Join(alone.schema + nothing.schema, alone, nothing, ())
    schema = values.schema + node.schema
    inputs = []
    for side in (grouped, missing):
        own = tuple(Field(context.names.fresh(f.name), f.type) for f in schema)
        inputs.append(Project(own, side, tuple(column(n) for n in side.names)))
    union = tuple(Field(context.names.fresh(f.name), f.type) for f in schema)
    both = UnionAll(union, tuple(inputs))
    return Project(schema, both, tuple(column(f.name) for f in union))


def _push_join(values: Node, outer: dict[str, exp.Expr], node: Join, context: Context) -> Node:
    if node.where is not None:
        node = replace(node, where=substitute(node.where, dict(outer)))
    left_free = bool(free_columns(node.left) & outer.keys())
    right_free = bool(free_columns(node.right) & outer.keys())
    if not right_free:
        left = push_down(values, outer, node.left, context)
        schema = left.schema if node.kind.left_only else left.schema + node.right.schema
        return replace(node, schema=schema, left=left)
    if not left_free and node.kind is JoinKind.INNER:
        right = push_down(values, outer, node.right, context)
        joined = replace(node, schema=node.left.schema + right.schema, right=right)
        return only(joined, (*values.names, *node.names))
    if node.kind is JoinKind.FULL:
        raise error("INCR_UNSUPPORTED", what="correlation through a full join")
    left = push_down(values, outer, node.left, context)
    again = {f.name: Field(context.names.fresh(f.name), f.type) for f in values.schema}
    pushed = push_down(values, outer, node.right, context)
    schema = (*again.values(), *node.right.schema)
    right = Project(schema, pushed, tuple(column(n) for n in pushed.names))
    pairs = [
        *((column(n), column(again[n].name), True) for n in values.names),
        *(
            (column(a), column(b), safe)
            for (a, b), safe in zip(node.keys, node.null_safe, strict=True)
        ),
    ]
    joined = keyed_join(left, right, list(pairs), node.kind, context, node.exact)
    return only(replace(joined, where=node.where), (*values.names, *node.names))
