"""`*` in a SELECT: its columns, in the SELECT list and among operands, less those after EXCEPT."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spark_incr.plan.environment import Environment
from spark_incr.plan.expressions import scalar
from spark_incr.plan.generators import is_generator
from spark_incr.plan.nodes import Node, column
from spark_incr.plan.scope import Bound, Scope, Visible, resolve_column
from spark_incr.plan.syntax import is_subquery, refuse_clauses, transformed, unsupported

Items = list[tuple[str, exp.Expr]]


def with_arguments(select: exp.Select, scope: Scope) -> exp.Select:
    """The SELECT with each `*` that stands among operands written out; count(*) counts rows."""

    def columns(star: exp.Expr, parent: exp.Expr) -> list[exp.Expr]:
        found = _found(star, scope)
        operands: list[exp.Expr] = [Bound(this=column(v.column)) for v in found]
        if isinstance(parent, exp.Struct):
            pairs = zip(operands, found, strict=True)
            operands = [exp.alias_(o, v.name, quoted=True) for o, v in pairs]
        return operands or [star]

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


def _found(item: exp.Expr, scope: Scope) -> list[Visible]:
    """The columns that `*` or `t.*` stands for, less those after EXCEPT."""
    star = _star_of(item)
    assert star is not None
    refuse_clauses(star, {"except_"})
    qualifier = None
    if isinstance(item, exp.Column):
        qualifier = tuple(part.name for part in item.parts[:-1])
    found = scope.star(qualifier)
    left_out = {
        resolve_column(c, Scope(tuple(found)), {}).name
        for c in star.args.get("except_") or []
        if isinstance(c, exp.Column)
    }
    return [v for v in found if v.column not in left_out]


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
            result.append((item.output_name or "col", item))
    return result


def _starred(item: exp.Expr, scope: Scope, node: Node, env: Environment) -> Items:
    """What `*`, `t.*` or the `*` of a struct stands for."""
    qualifier = [part.name for part in item.parts[:-1]] if isinstance(item, exp.Column) else []
    if qualifier and not scope.star(tuple(qualifier)):
        path = exp.column(*reversed([exp.to_identifier(p, quoted=True) for p in qualifier]))
        struct = scalar(env, path, scope)
        (type_,) = env.types(node.schema, [struct])
        names = getattr(type_, "names", [])
        return [
            (name, exp.Dot(this=path.copy(), expression=exp.to_identifier(name, quoted=True)))
            for name in names
        ]
    return [(v.name, Bound(this=column(v.column))) for v in _found(item, scope)]
