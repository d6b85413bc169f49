"""`query |> step |> step`: each step is a query over the rows and the names of the one before.

A step that keeps a column keeps the relation that it can be named by: `FROM t |> WHERE a > 1 |>
EXTEND b + 1 AS c |> SELECT t.a`. ORDER BY decides which rows a later LIMIT takes, until a step makes
other rows of them: its keys go along as columns that nobody can name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_incr.plan.collations import with_keys
from spark_incr.plan.environment import Built, Environment
from spark_incr.plan.expressions import bound, keep_where
from spark_incr.plan.generators import is_generator
from spark_incr.plan.joins import only
from spark_incr.plan.nodes import Limit, Node, SortKey, column
from spark_incr.plan.ordering import limited_result, written_number
from spark_incr.plan.pivot import pivoted
from spark_incr.plan.relations import Rows, build_from, joined_with
from spark_incr.plan.scope import Bound, Scope, Visible, spelled
from spark_incr.plan.select import build_select
from spark_incr.plan.set_operations import build_set_operation
from spark_incr.plan.syntax import has_aggregate, refuse_clauses, unsupported
from spark_incr.plan.time_windows import below_time_window
from spark_incr.plan.types import char_length
from spark_incr.sql.pipes import Piped, Step

_WHOLE = {
    "this",
    "expressions",
    "with_",
    "order",
    "limit",
    "offset",
    "sort",
    "distribute",
    "cluster",
}


@dataclass(frozen=True)
class _Rows:
    """Rows, the names that a step may use for them, and what they are sorted by."""

    node: Node
    scope: Scope
    order: tuple[SortKey, ...] = ()

    @property
    def relation(self) -> exp.Expr:
        return Rows(this=(self.node, replace(self.scope, order=self.order)))

    @property
    def shown(self) -> list[Visible]:
        return self.scope.star(None)


def build_pipe(piped: Piped, env: Environment) -> Built:
    """The plan of a query with steps."""
    refuse_clauses(piped, _WHOLE)
    rows = _start(piped.this, env)
    within = replace(env, keeps_order=False)  # the steps hand the order on by themselves
    for step in piped.expressions:
        rows = _STEPS[step.args["kind"]](step, rows, within)
    names = tuple(visible.name for visible in rows.shown)
    columns = (*(v.column for v in rows.shown), *(key.column for key in rows.order))
    built = Built(only(rows.node, columns), names, rows.order)
    return limited_result(piped, built, env)


def _start(query: exp.Expr, env: Environment) -> _Rows:
    """The rows of the query before the first step; `FROM t` and `TABLE t` are those of t itself."""
    if isinstance(query, exp.Select) and query.expressions == [exp.Star()]:
        clauses = {key for key, value in query.args.items() if value}
        if clauses <= {"from_", "joins", "laterals", "expressions"}:
            node, scope = build_from(query, env, keeps_order=True)
            return _Rows(node, scope, scope.order)
    built = env.sorted_query(query)
    return _Rows(built.node, _named(built), built.order)


def _named(built: Built) -> Scope:
    pairs = zip(built.names, built.node.schema, strict=False)
    return Scope(tuple(Visible((), n, f.name, char_length(f.type)) for n, f in pairs))


def _where(step: Step, rows: _Rows, env: Environment) -> _Rows:
    node, scope, condition = below_time_window(step.this.this, rows.node, rows.scope, env)
    return replace(rows, node=keep_where(env, node, condition, scope), scope=scope)


def _select(step: Step, rows: _Rows, env: Environment) -> _Rows:
    select = step.this
    items = select.expressions
    made = select.args.get("distinct") or select.args.get("group")
    made = made or any(has_aggregate(e) or is_generator(e.unalias()) for e in items)
    order = () if made else rows.order
    keys = [exp.alias_(Bound(this=column(key.column)), key.column, quoted=True) for key in order]
    over = exp.Select(**{**select.args, "expressions": [*items, *keys]})
    over.set("from_", exp.From(this=rows.relation))
    built = build_select(over, env)
    shown = len(built.names) - len(keys)
    sorted_by = zip(order, built.node.names[shown:], strict=True)
    return _Rows(
        built.node,
        _kept_names(Built(built.node, built.names[:shown]), rows),
        tuple(replace(key, column=name) for key, name in sorted_by),
    )


def _kept_names(built: Built, before: _Rows) -> Scope:
    """The names of a result; a column that passed through can still be named by its relation."""
    known = {(c.column, spelled(c.name)): c.qualifier for c in before.scope.columns}
    columns = []
    for name, field in zip(built.names, built.node.schema, strict=False):
        qualifier = known.get((field.name, spelled(name)), ())
        columns.append(Visible(qualifier, name, field.name, char_length(field.type)))
    return Scope(tuple(columns))


def _selected(items: Sequence[exp.Expr], rows: _Rows, env: Environment) -> _Rows:
    step = Step(kind="SELECT", this=exp.Select(expressions=list(items)))
    return _select(step, rows, env)


def _extend(step: Step, rows: _Rows, env: Environment) -> _Rows:
    return _selected([exp.Star(), *step.expressions], rows, env)


def _set(step: Step, rows: _Rows, env: Environment) -> _Rows:
    """Each assignment is made over what the one before has left."""
    for assignment in step.expressions:
        items = []
        for visible in rows.shown:
            value: exp.Expr = Bound(this=column(visible.column))
            if spelled(visible.name) == spelled(assignment.this.name):
                value = assignment.expression
            items.append(exp.alias_(value, visible.name, quoted=True))
        rows = _selected(items, rows, env)
    return rows


def _drop(step: Step, rows: _Rows, env: Environment) -> _Rows:
    dropped = {spelled(name.name) for name in step.expressions}
    left = tuple(c for c in rows.shown if spelled(c.name) not in dropped)
    return replace(rows, scope=Scope(left))


def _alias(step: Step, rows: _Rows, env: Environment) -> _Rows:
    named = tuple(replace(c, qualifier=(step.this.name,)) for c in rows.shown)
    return replace(rows, scope=Scope(named))


def _aggregate(step: Step, rows: _Rows, env: Environment) -> _Rows:
    """The keys come first. A number among them is the place of a column."""
    keys: list[exp.Expr] = []
    for key in step.args.get("group") or []:
        value = key.unalias()
        if isinstance(value, exp.Literal) and value.is_int:
            visible = rows.shown[int(value.this) - 1]
            value = Bound(this=column(visible.column))
            key = exp.alias_(value, visible.name, quoted=True)
        keys.append(key)
    select = exp.Select(expressions=[*keys, *step.expressions])
    select.set("from_", exp.From(this=rows.relation))
    if keys:
        select.set("group", exp.Group(expressions=[key.unalias() for key in keys]))
    built = build_select(select, env)
    return _Rows(built.node, _kept_names(built, rows))


def _join(step: Step, rows: _Rows, env: Environment) -> _Rows:
    return _Rows(*joined_with((rows.node, rows.scope), step.this, env))


def _pivot(step: Step, rows: _Rows, env: Environment) -> _Rows:
    return _Rows(*pivoted(rows.node, rows.scope, step.this, env))


def _set_operation(step: Step, rows: _Rows, env: Environment) -> _Rows:
    left = exp.select("*").from_(rows.relation)
    operation = type(step.this)(**{**step.this.args, "this": left})
    built = build_set_operation(operation, replace(env, keeps_order=True))
    return _Rows(built.node, _named(built), built.order)


def _result(step: Step, rows: _Rows, env: Environment) -> _Rows:
    """ORDER BY, or LIMIT and OFFSET of what has been sorted; where rows lie does not matter."""
    refuse_clauses(step.this, {"order", "limit", "offset", "sort", "distribute", "cluster"})
    order = step.this.args.get("order")
    if order is not None:
        return _sorted(order.expressions, rows, env)
    limit, offset = (written_number(step.this, name, env) for name in ("limit", "offset"))
    if limit is None and not offset:
        clauses = ("sort", "distribute", "cluster")
        return replace(rows, order=()) if any(map(step.this.args.get, clauses)) else rows
    return replace(rows, node=Limit(rows.node.schema, rows.node, rows.order, limit, offset or 0))


def _sorted(keys: Sequence[exp.Expr], rows: _Rows, env: Environment) -> _Rows:
    node, shown, columns = rows.node, rows.shown, list[str]()
    for by in keys:
        value = by.this
        if isinstance(value, exp.Var):
            if len(keys) > 1 or rows.scope.find((), value.name):
                raise unsupported(by, "ALL as a name in ORDER BY")
            return _sorted([exp.Ordered(**{**by.args, "this": _at(v)}) for v in shown], rows, env)
        if isinstance(value, exp.Literal) and value.is_int:
            value = _at(shown[int(value.this) - 1])
        node, value = bound(env, node, value, rows.scope)
        name = env.names.fresh("order")
        kept: list[tuple[str, exp.Expr]] = [(n, column(n)) for n in node.names]
        node = env.project(node, [*kept, (name, value)])
        columns.append(name)
    node, collated = with_keys(node, tuple(columns), env.context)
    order = tuple(
        SortKey(collated.get(n, n), bool(by.args.get("desc")), bool(by.args.get("nulls_first")))
        for n, by in zip(columns, keys, strict=True)
    )
    return replace(rows, node=node, order=order)


def _at(visible: Visible) -> exp.Expr:
    return Bound(this=column(visible.column))


_STEPS: dict[str, Callable[[Step, _Rows, Environment], _Rows]] = {
    "SELECT": _select,
    "EXTEND": _extend,
    "SET": _set,
    "DROP": _drop,
    "AS": _alias,
    "WHERE": _where,
    "AGGREGATE": _aggregate,
    "JOIN": _join,
    "PIVOT": _pivot,
    "SET OPERATION": _set_operation,
    "RESULT": _result,
}
