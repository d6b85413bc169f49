"""FROM: tables, CTEs, subqueries, table functions, joins of them, and LATERAL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from spark_incr.errors import IncrementalError, error
from spark_incr.plan.context import SessionFunction
from spark_incr.plan.environment import Built, Cte, Environment
from spark_incr.plan.expressions import (
    all_bound,
    bound,
    keep_where,
    scalar,
    subquery_value,
    with_parts,
)
from spark_incr.plan.generators import generate, positional, time_window
from spark_incr.plan.item_names import refuse_unnamed
from spark_incr.plan.joins import join_on, only
from spark_incr.plan.nodes import (
    Constant,
    Filter,
    Generate,
    JoinKind,
    Node,
    Project,
    Scan,
    Single,
    column,
)
from spark_incr.plan.padding import padded_pair
from spark_incr.plan.pivot import pivoted
from spark_incr.plan.recursion import build_recursion
from spark_incr.plan.scope import Scope, UnknownNameError, Visible, column_aliases, spelled
from spark_incr.plan.sql_functions import rows_of_function, sql_function, with_arguments
from spark_incr.plan.subqueries import lateral
from spark_incr.plan.syntax import (
    arguments_of,
    outermost_subqueries,
    refuse_clauses,
    unsupported,
    words,
)
from spark_incr.plan.table_arguments import applied, reads_tables
from spark_incr.plan.time_windows import below_time_window
from spark_incr.plan.types import Field, char_length
from spark_incr.sql.dialect import position_of, print_sql

Source = tuple[Node, Scope]


class Rows(exp.Expression):
    """In the place of a relation: rows and names that are known already."""

    arg_types = {"this": True}  # noqa: RUF012, as sqlglot declares it


def build_from(
    select: exp.Select, env: Environment, keeps_order: bool = False, first: int | None = None
) -> Source:
    """The rows of a FROM clause with its LATERAL VIEWs, and the names in it; with their order, if that
    is wanted and known. A recursion that stands there alone is ended by its `first` rows."""
    clause = select.args.get("from_") or select.args.get("from")
    source: Source = (Single(()), Scope())
    if clause is not None:
        alone = not select.args.get("joins") and not select.args.get("laterals")
        ended = None if first is None else _ended_recursion(clause.this, first, env)
        source = ended or _relation(clause.this, env, keeps_order and alone)
        for join in select.args.get("joins") or []:
            source = joined_with(source, join, env)
    for view in select.args.get("laterals") or []:
        node, scope, function = below_time_window(view.this, *source, env)
        read = exp.Lateral(**{**view.args, "this": function})
        source = generated((node, scope), read, bool(view.args.get("outer")), env)
    return source


def _relation(source: exp.Expr, env: Environment, keeps_order: bool = False) -> Source:
    keeps_order = keeps_order and not source.args.get("pivots") and not source.args.get("joins")
    if isinstance(source, Rows):
        node, scope = source.args["this"]
    elif isinstance(source, exp.Table) and isinstance(source.this, exp.Func):
        node, scope = _called(_alone(source), env)
    elif isinstance(source, exp.Values) or isinstance(source.this, exp.Values):
        built = build_constant(_alone(source), env)
        node, scope = built.node, _scope_of(source, built, ())
    elif isinstance(source, exp.Lateral) and reads_tables(source.this):
        return _called(source, env)
    elif isinstance(source, exp.Lateral):
        # There is nothing before it that it could read: the rows of it alone.
        return _lateral_join((Single(()), Scope()), exp.Join(this=source), JoinKind.INNER, env)
    elif isinstance(source, exp.Table):
        refuse_clauses(source, {"this", "db", "catalog", "alias", "joins", "pivots"})
        node, scope = _table(source, env, keeps_order)
    elif isinstance(source, exp.Subquery) and _is_relation(source.this):
        refuse_clauses(source, {"this", "alias", "joins", "pivots"})
        node, scope = _relation(source.this, env)
        if source.alias:
            shown = scope.star(None)
            node = only(node, tuple(v.column for v in shown))
            scope = _scope_of(source, Built(node, tuple(v.name for v in shown)), ())
    elif isinstance(source, exp.Subquery):
        refuse_clauses(source, {"this", "alias", "joins", "pivots"})
        built = env.sorted_query(source.this) if keeps_order else env.query(source.this)
        node, scope = built.node, _scope_of(source, built, ())
    else:
        raise unsupported(source, f"{words(source)} in FROM")
    for pivot in source.args.get("pivots") or []:
        node, scope = pivoted(node, scope, pivot, env)
    for join in source.args.get("joins") or []:
        node, scope = joined_with((node, scope), join, env)
    return node, scope


def _alone(source: exp.Expr) -> exp.Expr:
    """A relation without what is joined to it and pivoted of it: in parentheses those are its parts."""
    alone = source.copy()
    for clause in ("joins", "pivots"):
        alone.set(clause, None)
    return alone


def _called(source: exp.Expr, env: Environment) -> Source:
    """The rows of a table function."""
    nothing: Source = (Single(()), Scope())
    if reads_tables(source.this):
        built = applied(source, env, _relation)
        return built.node, _scope_of(source, built, ())
    function = sql_function(source.this, env)
    if function is not None:
        node, built = _function_rows(source.this, function, nothing, env)
        rows = lateral(node, built.node, JoinKind.INNER, env.context)
        return rows, _scope_of(source, built, (source.this.name,))
    if any(isinstance(part, (exp.Column, exp.Query)) for part in source.this.walk()):
        return generated(nothing, source, False, env)
    built = build_constant(source, env)
    return built.node, _scope_of(source, built, ())


def _function_rows(
    call: exp.Expr, function: SessionFunction, called_for: Source, env: Environment
) -> tuple[Node, Built]:
    """The rows that a function of SQL is called for, with its arguments, and what it makes of each."""
    node, values = all_bound(env, called_for[0], arguments_of(call), called_for[1])
    node, scope, own = with_arguments(call, function, node, values, env)
    return node, rows_of_function(function, node, scope, own)


def _is_relation(inner: exp.Expr) -> bool:
    """Whether what stands in parentheses is a relation or a join, and not a query."""
    if isinstance(inner, exp.Subquery):
        return bool(inner.alias or inner.args.get("joins")) or _is_relation(inner.this)
    return isinstance(inner, exp.Table)


def build_constant(query: exp.Expr, env: Environment) -> Built:
    """The rows of a table function or of VALUES, which Spark computes once."""
    for part in query.walk():
        if isinstance(part, (exp.Subquery, exp.Query)) and part is not query:
            raise unsupported(part, "a subquery in a table function")
        if isinstance(part, exp.Table) and isinstance(part.this, exp.Identifier):
            raise unsupported(part, f"{part.name} in VALUES or a table function")
    text = f"SELECT * FROM {print_sql(query)}"
    fields = env.analyzer.query_schema(text)
    schema = tuple(Field(env.names.fresh(f.name), f.type) for f in fields)
    return Built(Constant(schema, text), tuple(f.name for f in fields))


def _table(table: exp.Table, env: Environment, keeps_order: bool = False) -> Source:
    parts = tuple(part.name for part in table.parts)
    cte = env.ctes.get(spelled(parts[0])) if len(parts) == 1 else None
    if cte is not None:
        built = _named_query(cte, env)
        built = built if keeps_order else built.shown
        return built.node, _scope_of(table, built, parts)
    try:
        known = env.catalog.relation(parts)
    except IncrementalError as failure:
        if (place := position_of(table)) is not None:
            failure.place(place)
        raise
    if known is None:
        raise error(
            "INCR_RELATION_NOT_FOUND",
            kind="table or view",
            name=".".join(parts),
            position=position_of(table),
        )
    columns = tuple(f.name for f in known.schema)
    renamed = tuple(replace(f, name=env.names.fresh(f.name)) for f in known.schema)
    scan = Scan(renamed, known.name, columns, known.unique, known.append_only)
    own = dict(zip(columns, scan.names, strict=True))
    order = tuple(replace(key, column=own[key.column]) for key in known.order)
    return scan, _scope_of(table, Built(scan, columns, order), parts)


def _ended_recursion(source: exp.Expr, first: int, env: Environment) -> Source | None:
    """The first rows of a recursive CTE, if that is all that stands in FROM."""
    if not isinstance(source, exp.Table) or {k for k, v in source.args.items() if v} - {
        "this",
        "alias",
    }:
        return None
    cte = env.ctes.get(spelled(source.name))
    if cte is None or not cte.recursive:
        return None
    built = build_recursion(cte, env, lambda table, inner: _table(table, inner), first)
    return built.node, _scope_of(source, built, (source.name,))


def _named_query(cte: Cte, env: Environment) -> Built:
    """The rows of a CTE; who reads it again reads the same node."""
    definition = cte.definition
    if id(definition) in env.plans:
        return env.renamed(env.plans[id(definition)][1])
    if cte.recursive:
        built = build_recursion(cte, env, lambda table, inner: _table(table, inner))
    else:
        body = replace(env, ctes=cte.ctes, outer=cte.outer).sorted_query(definition.this)
        built = replace(body, names=column_aliases(definition, body.names))
    env.plans[id(definition)] = definition, built
    return built


def joined_with(left: Source, join: exp.Join, env: Environment) -> Source:
    """The rows before a join with those behind it; PIVOT and UNPIVOT are of all that stands before
    them, and not of the relation that they follow."""
    pivots = [*(join.this.args.get("pivots") or []), *(join.args.get("pivots") or [])]
    if pivots:
        join = join.copy()
        join.this.set("pivots", None)
    source = _plain_join(left, join, env)
    for pivot in pivots:
        source = pivoted(*source, pivot, env)
    return source


def _plain_join(left: Source, join: exp.Join, env: Environment) -> Source:
    refuse_clauses(join, {"this", "on", "using", "kind", "side", "method", "pivots"})
    kind = _join_kind(join)
    if isinstance(join.this, exp.Lateral) and not reads_tables(join.this.this):
        return _lateral_join(left, join, kind, env)
    right = _relation(join.this, env)
    using = [identifier.name for identifier in join.args.get("using") or []]
    if join.method == "NATURAL":
        for side in (left, right):
            refuse_unnamed(side[1].star(None), join)
        using = _common_names(left[1], right[1])
    if using:
        return _join_using(left, right, using, kind, env)
    both = left[1] + right[1]
    scope = left[1] if kind.left_only else both
    condition = join.args.get("on")
    if condition is None:
        return _joined(left[0], right[0], [], kind, env), scope
    if kind is JoinKind.INNER:
        return keep_where(env, _joined(left[0], right[0], [], kind, env), condition, both), scope
    columns = (*left[0].names, *(() if kind.left_only else right[0].names))
    known: dict[int, exp.Expr] = {}
    for subquery in outermost_subqueries(condition):
        left, right, known[id(subquery)] = _beside(subquery, left, right, env)
    resolved = scalar(env, condition, both, known=known)
    return only(_joined(left[0], right[0], [resolved], kind, env), columns), scope


def _beside(
    subquery: exp.Expr, left: Source, right: Source, env: Environment
) -> tuple[Source, Source, exp.Expr]:
    """A subquery of an outer join's condition as a column of the side whose columns it reads: the
    right one, unless a name is none of its columns."""
    try:
        node, value = subquery_value(env, right[0], subquery, right[1])
        return left, (node, right[1]), value
    except UnknownNameError:
        pass
    try:
        node, value = subquery_value(env, left[0], subquery, left[1])
    except UnknownNameError:
        raise unsupported(subquery, "a subquery that reads both sides of an outer join") from None
    return (node, left[1]), right, value


def _joined(
    left: Node, right: Node, conditions: Sequence[exp.Expr], kind: JoinKind, env: Environment
) -> Node:
    return join_on(left, right, exp.and_(*conditions) if conditions else None, kind, env.context)


def _lateral_join(left: Source, join: exp.Join, kind: JoinKind, env: Environment) -> Source:
    """What stands in FROM and reads what stands before it: a subquery, or a generator function."""
    node, scope = left
    source = join.this
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise unsupported(source, f"{kind.value.upper()} JOIN with LATERAL")
    condition = join.args.get("on")
    function = sql_function(source.this, env)
    generates = isinstance(source.this, exp.Func) and function is None
    if generates and (condition is None or condition == exp.true()):
        outer = kind is JoinKind.LEFT and condition is not None
        return generated(left, source, outer, env)
    inside = env.inside(scope, node.schema)
    if generates:
        inner, added = generated((Single(()), Scope()), source, False, inside)
    elif function is not None:
        node, built = _function_rows(source.this, function, left, env)
        inner, added = built.node, _scope_of(source, built, (source.this.name,))
    elif isinstance(source.this, exp.Subquery):
        built = inside.query(source.this)
        inner, added = built.node, _scope_of(source, built, ())
    else:
        raise unsupported(source, "this LATERAL relation")
    both = scope + added
    if condition is not None:
        inner = Filter(inner.schema, inner, scalar(inside, condition, both))
    elif _is_generator_alone(inner):
        kind = JoinKind.INNER
    return lateral(node, inner, kind, env.context), both


def _is_generator_alone(inner: Node) -> bool:
    """Whether a LATERAL relation is nothing but what a generator makes: without a condition Spark puts
    the generator in the place of the join, and what it makes no rows of is gone, LEFT or not."""
    while isinstance(inner, Project):
        inner = inner.input
    return (
        isinstance(inner, Generate)
        and isinstance(inner.input, Single)
        and time_window(inner.generator) is None
    )


def generated(source: Source, view: exp.Expr, outer: bool, env: Environment) -> Source:
    """The rows that a generator makes of each row: LATERAL VIEW, or LATERAL in FROM."""
    node, scope = source

    def read(operand: exp.Expr) -> exp.Expr:
        nonlocal node
        node, value = bound(env, node, operand, scope)
        return value

    generator = with_parts(positional(view.this), read)
    alias = view.args.get("alias")
    given = [c.name for c in alias.args.get("columns") or []] if alias else []
    before = node.names
    node, made = generate(node, generator, given, outer, env)
    qualifier = (alias.name,) if alias is not None and alias.name else ()
    added = [n for n in node.names if n not in before]
    visible = tuple(
        Visible(qualifier, n, c, char_length(node.type_of(c)))
        for n, c in zip(made, added, strict=True)
    )
    return node, Scope(scope.columns + visible)


def _common_names(left: Scope, right: Scope) -> list[str]:
    """The names by which NATURAL joins: those of both sides, as often as both have them."""
    there = Counter(spelled(c.name) for c in right.star(None))
    common = []
    for visible in left.star(None):
        if there[spelled(visible.name)]:
            there[spelled(visible.name)] -= 1
            common.append(visible.name)
    return common


def _join_using(
    left: Source, right: Source, using: list[str], kind: JoinKind, env: Environment
) -> Source:
    """Columns of USING appear once, first, and hold the value of the side that is there; the others of
    their name can be reached by their relation, of whose columns they are the first. Of several
    columns of a name the first one is meant."""
    pairs = [(left[1].find((), name)[0], right[1].find((), name)[0]) for name in using]
    equalities = [
        padded_pair(column(here.column), here.length, column(there.column), there.length)
        for here, there in pairs
    ]
    node = _joined(left[0], right[0], equalities, kind, env)
    ours, theirs = [here for here, _ in pairs], [there for _, there in pairs]
    if kind.left_only:
        return node, Scope(left[1].columns).led_by(ours)
    both = left[1] + right[1]
    if kind is JoinKind.FULL:
        node, merged = _either(node, pairs, env)
        return node, both.hiding([*ours, *theirs]).led_by(merged)
    shown, hidden = (theirs, ours) if kind is JoinKind.RIGHT else (ours, theirs)
    return node, both.hiding(hidden).led_by(shown)


def _either(
    node: Node, pairs: Sequence[tuple[Visible, Visible]], env: Environment
) -> tuple[Node, list[Visible]]:
    """The rows with the value of the side that is there, for each pair of columns."""
    merged = []
    for here, there in pairs:
        either = exp.Coalesce(this=column(here.column), expressions=[column(there.column)])
        source = env.names.fresh(here.name)
        kept: list[tuple[str, exp.Expr]] = [(n, column(n)) for n in node.names]
        node = env.project(node, [*kept, (source, either)])
        merged.append(Visible((), here.name, source, char_length(node.type_of(source))))
    return node, merged


def _scope_of(source: exp.Expr, built: Built, parts: tuple[str, ...]) -> Scope:
    qualifier = (source.alias,) if source.alias else parts
    names = column_aliases(source, built.names)
    pairs = zip(names, built.node.schema[: len(names)], strict=True)
    visible = tuple(Visible(qualifier, name, f.name, char_length(f.type)) for name, f in pairs)
    return Scope(visible, built.order)


def _join_kind(join: exp.Join) -> JoinKind:
    if join.method not in ("", "NATURAL"):
        raise unsupported(join, f"{join.method} JOIN")
    if join.kind in ("SEMI", "ANTI"):
        return JoinKind[join.kind]
    if join.kind not in ("", "INNER", "CROSS", "OUTER"):
        raise unsupported(join, f"{join.kind} JOIN")
    return JoinKind[join.side] if join.side else JoinKind.INNER
