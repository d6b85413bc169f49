"""`*` in a SELECT: its columns, in the SELECT list and among operands, less those after EXCEPT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.environment import Environment
from spark_incr.plan.expressions import scalar
from spark_incr.plan.generators import is_generator
from spark_incr.plan.joins import cast_to
from spark_incr.plan.nodes import Node, column
from spark_incr.plan.scope import Bound, Scope, Visible, find_column, resolve_column, spelled
from spark_incr.plan.syntax import is_subquery, refuse_clauses, transformed, unsupported

Items = list[tuple[str, exp.Expr]]


def with_arguments(select: exp.Select, scope: Scope, node: Node, env: Environment) -> exp.Select:
    """The SELECT with each `*` that stands among operands written out; count(*) counts rows."""

    def columns(star: exp.Expr, parent: exp.Expr) -> list[exp.Expr]:
        shown = _starred(star, scope, node, env)
        if isinstance(parent, exp.Struct):
            return [exp.alias_(value, name, quoted=True) for name, value in shown] or [star]
        return [value for _, value in shown] or [star]

    def change(node: exp.Expr) -> exp.Expr:
        if is_subquery(node):
            return node.copy()
        starred = [
            k for k, v in node.args.items() if any(map(_star_of, v if isinstance(v, list) else [v]))
        ]
        if not starred or isinstance(node, (exp.Select, exp.Count)):
            return node
        written = [
            operand
            for value in node.args.values()
            for operand in (value if isinstance(value, list) else [value])
            if isinstance(operand, exp.Expr)
        ]
        operands = [
            o
            for w in written
            for o in (columns(w, node) if _star_of(w) else [transformed(w, change)])
        ]
        copy = type(node)(
            **{k: v for k, v in node.args.items() if not isinstance(v, (exp.Expr, list))}
        )
        copy.meta.update(node.meta)
        if isinstance(node.this, exp.Expr):
            copy.set("this", operands.pop(0))
        copy.set("expressions", operands)
        return copy

    result = exp.Select(**select.args)
    for key in ("where", "group", "having", "order", "qualify"):
        if select.args.get(key):
            result.set(key, transformed(select.args[key], change))
    items = [e if _star_of(e) else transformed(e, change) for e in select.expressions]
    result.set("expressions", items)
    return result


def _star_of(item: object) -> exp.Star | None:
    """The `*` that an expression is, with a qualifier or without."""
    star = item.this if isinstance(item, exp.Column) else item
    return star if isinstance(star, exp.Star) else None


def _visible(item: exp.Expr, scope: Scope) -> list[Visible]:
    """The columns that `*` or `t.*` stands for without EXCEPT."""
    qualifier = None
    if isinstance(item, exp.Column):
        qualifier = tuple(part.name for part in item.parts[:-1])
    return scope.star(qualifier)


def _excepted(item: exp.Expr, scope: Scope) -> list[exp.Expr]:
    """The columns, and the fields of columns, that stand after EXCEPT."""
    visible = Scope(tuple(replace(v, bare=True) for v in _visible(item, scope)))
    return [resolve_column(c, visible, {}) for c in _written_after_except(item)]


def _written_after_except(item: exp.Expr) -> list[exp.Column]:
    star = _star_of(item)
    assert star is not None
    refuse_clauses(star, {"except_"})
    return [c for c in star.args.get("except_") or [] if isinstance(c, exp.Column)]


def expand_stars(items: Sequence[exp.Expr], scope: Scope, node: Node, env: Environment) -> Items:
    result: Items = []
    for item in items:
        if _star_of(item):
            result += _starred(item, scope, node, env)
        elif isinstance(item, exp.Alias):
            result.append((item.alias, item.this))
        elif isinstance(item, exp.Aliases):
            if not is_generator(item.this):
                raise unsupported(item, "several aliases for one expression")
            result.append(("", item))
        else:
            unnamed = "" if is_generator(item) else "col"
            result.append((item.output_name or unnamed, item))
    return result


def _starred(item: exp.Expr, scope: Scope, node: Node, env: Environment) -> Items:
    """What `*`, `t.*` or the `*` of a struct stands for; t may be of the query around this one."""
    qualifier = [part.name for part in item.parts[:-1]] if isinstance(item, exp.Column) else []
    if qualifier and not scope.star(tuple(qualifier)):
        path = exp.column(*reversed([exp.to_identifier(p, quoted=True) for p in qualifier]))
        if find_column(path, scope) is None and (around := _around(item, env)) is not None:
            return _columns(item, around, node)
        struct = scalar(env, path, scope)
        (type_,) = env.types(node.schema, [struct])
        paths = [[part.name for part in c.parts] for c in _written_after_except(item)]
        return _fields(path, type_, paths)
    return _columns(item, scope, node)


def _around(item: exp.Expr, env: Environment) -> Scope | None:
    """The names of the query around this one whose relation `t.*` means, the nearest first."""
    return next((outer for outer, _ in env.outer if _visible(item, outer)), None)


def _columns(item: exp.Expr, scope: Scope, node: Node) -> Items:
    """The columns that `*` or `t.*` stands for, less what stands after EXCEPT."""
    left_out = [_path(value) for value in _excepted(item, scope)]
    result: Items = []
    for visible in _visible(item, scope):
        paths = [path for root, path in left_out if root == visible.column]
        if [] in paths:
            continue
        shown: exp.Expr = Bound(this=column(visible.column))
        if paths:
            shown = _without_fields(shown, node.type_of(visible.column), paths)
        result.append((visible.name, shown))
    return result


def _path(value: exp.Expr) -> tuple[str, list[str]]:
    """The column whose field a value is, and the names that lead to the field."""
    names: list[str] = []
    while isinstance(value, exp.Dot):
        names.insert(0, value.expression.name)
        value = value.this
    return value.name, names


def _fields(struct: exp.Expr, type_: T.DataType, paths: list[list[str]]) -> Items:
    """The fields of a struct without those at the ends of some paths.

    Fields of one name cannot be told apart by it: those of such a struct are read by their places.
    """
    fields = type_.fields if isinstance(type_, T.StructType) else []
    names = [field.name for field in fields]
    if len({spelled(name) for name in names}) < len(names):
        names = [str(place) for place in range(len(names))]
        pairs = zip(names, fields, strict=True)
        numbered = T.StructType([T.StructField(name, f.dataType) for name, f in pairs])
        struct = exp.Paren(this=cast_to(struct, type_, numbered))
    result: Items = []
    for read_as, field in zip(names, fields, strict=True):
        inside = [path[1:] for path in paths if spelled(path[0]) == spelled(field.name)]
        if [] in inside:
            continue
        name = exp.to_identifier(read_as, quoted=True)
        value: exp.Expr = exp.Dot(this=struct.copy(), expression=name)
        if inside:
            value = _without_fields(value, field.dataType, inside)
        result.append((field.name, value))
    return result


def _without_fields(struct: exp.Expr, type_: T.DataType, paths: list[list[str]]) -> exp.Expr:
    """A struct without the fields at the ends of some paths; of NULLs, where it is NULL."""
    fields = _fields(struct, type_, paths)
    parts = [part for name, value in fields for part in (exp.Literal.string(name), value)]
    return exp.Anonymous(this="named_struct", expressions=parts)
