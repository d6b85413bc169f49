"""SELECT: its clauses become nodes in the order in which SQL defines them.

FROM, WHERE, aggregation, HAVING, the SELECT list, QUALIFY, DISTINCT, ORDER BY with LIMIT. What is
sorted or qualified by is computed beside the SELECT list and not shown.
"""

from __future__ import annotations

from sqlglot import exp

from spark_incr.errors import error
from spark_incr.plan.context import ALL_GROUPS
from spark_incr.plan.environment import Built, Environment
from spark_incr.plan.expressions import (
    bound,
    keep_where,
    value_for,
    with_parts,
)
from spark_incr.plan.generators import is_generator, operands
from spark_incr.plan.grouping import AggregateReader, Pending
from spark_incr.plan.grouping_sets import GROUPING_ID, is_total, sets_of, with_grouping_id
from spark_incr.plan.item_names import is_relation, with_derived_names
from spark_incr.plan.joins import only
from spark_incr.plan.nodes import Aggregate, Filter, Node, column
from spark_incr.plan.ordering import (
    inherited,
    inherits_order,
    limited,
    sort_items,
    written_number,
)
from spark_incr.plan.relations import build_from, generated
from spark_incr.plan.scope import Bound, Scope, Visible, spelled
from spark_incr.plan.sessions import in_sessions, refuse_left_out
from spark_incr.plan.stars import Items, expand_stars, with_arguments
from spark_incr.plan.syntax import (
    canonical,
    expression_of,
    has_aggregate,
    outermost_subqueries,
    outermost_windows,
    refuse_clauses,
    transformed,
    unsupported,
)
from spark_incr.plan.time_windows import below_time_window, time_windows_in, with_time_window
from spark_incr.plan.windows import with_windows
from spark_incr.sql.dialect import position_of

_CLAUSES = {
    "with_", "with", "expressions", "from_", "from", "joins", "where", "group", "having", "distinct", "kind",
    "hint", "operation_modifiers", "laterals", "order", "limit", "offset", "sort", "distribute",
    "cluster", "windows", "qualify",
}  # fmt: skip
_QUALIFY = "qualify"


def build_select(select: exp.Select, env: Environment) -> Built:
    """The plan of a SELECT."""
    refuse_clauses(select, _CLAUSES)
    if select.args.get("kind"):
        raise unsupported(select, f"SELECT {select.args['kind']}")
    named = is_relation(select)
    select = _with_named_windows(select)
    inherits = inherits_order(select, env) and _keeps_order(select)
    first = None
    if inherits and not select.args.get("where") and not select.args.get("offset"):
        first = written_number(select, "limit", env)
    node, scope = build_from(select, env, inherits, first)
    order = inherited(scope.order) if inherits else []
    source, select = (node, scope), with_arguments(select, scope, node, env)
    if select.args.get("where"):
        condition = select.args["where"].this
        node, scope, condition = below_time_window(condition, node, scope, env)
        node = keep_where(env, node, condition, scope)
    items = expand_stars(select.expressions, scope, node, env)
    if named:
        items = with_derived_names(select, items, source, env)
    select, items, node, scope = _in_time_windows(select, items, node, scope, env)
    if any(_generator(e) is not None for _, e in items):
        clauses = select.args.get("group"), select.args.get("having")
        if any(clauses) or any(has_aggregate(e) for _, e in items):
            select, items, node, scope = _over_groups(select, items, node, scope, env)
        items, node = _with_generated(items, node, scope, env)
        if select.args.get("having"):
            # Spark takes it of what the generator makes, by the names of the result.
            condition = _qualified(select.args["having"].this, items, scope)
            node = keep_where(env, node, condition, scope)
            select = exp.Select(**{**select.args, "having": None})
    sort = order or sort_items(select, items, env, scope)
    qualify = select.args.get("qualify")
    hidden = [(_QUALIFY, _qualified(qualify.this, items, scope))] if qualify else []
    hidden += [(f"order_{i}", key) for i, (key, _) in enumerate(sort)]
    having = select.args.get("having")
    group = select.args.get("group")
    everything = [*(e for _, e in items), *(e for _, e in hidden)]
    if group or having or any(has_aggregate(e) for e in everything):
        built = _grouped(node, scope, items, hidden, group, having, env)
    else:
        built = _projected(node, scope, [*items, *hidden], env)
    if qualify:
        built = _kept(built, len(hidden))
    if select.args.get("distinct"):
        if select.args["distinct"].args.get("on"):
            raise unsupported(select, "DISTINCT ON")
        rows = in_sessions(built.node, [column(n) for n in built.node.names], env)
        built = Built(Aggregate(rows.schema, rows, rows.names, ()), built.names)
    return limited(select, built, [by for _, by in sort], env)


def _keeps_order(select: exp.Select) -> bool:
    """Whether the rows of a SELECT are those of FROM, one by one: their order stays as it is."""
    others = ("joins", "laterals", "group", "having", "distinct", "qualify")
    return not any(select.args.get(clause) for clause in others) and not any(
        has_aggregate(e) or outermost_windows(e) or time_windows_in(e) or _generator(e.unalias())
        for e in select.expressions
    )


def _in_time_windows(
    select: exp.Select, items: Items, node: Node, scope: Scope, env: Environment
) -> tuple[exp.Select, Items, Node, Scope]:
    """The SELECT over rows in the window of time that it asks for, if it does."""
    _refuse_time_windows(select)
    names = ("group", "having")
    clauses = [select.args[name] for name in names if select.args.get(name)]
    node, scope, replaced = with_time_window([*(e for _, e in items), *clauses], node, scope, env)
    shallow = exp.Select(**select.args)
    for name in names:
        if select.args.get(name):
            shallow.set(name, replaced(select.args[name]))
    return shallow, [(name, replaced(e)) for name, e in items], node, scope


def _refuse_time_windows(select: exp.Select) -> None:
    """Refuse windows of time in clauses above SELECT, which put its result into windows once more."""
    for clause in ("qualify", "order", "sort", "distribute", "cluster"):
        written = select.args.get(clause)
        for call in time_windows_in(written) if written else ():
            raise error(
                "INCR_UNSUPPORTED",
                what=f"{call.name.lower()}() in {clause.upper()}{' BY' * (clause != 'qualify')}",
                hint="Make a column of the window in a subquery of FROM, and name that here.",
                position=position_of(call),
            )


def _with_named_windows(select: exp.Select) -> exp.Select:
    """The SELECT with each `OVER w` written out."""
    if not select.args.get("windows"):
        return select
    select = select.copy()
    named: dict[str, exp.Expr] = {}
    for window in select.args["windows"]:
        base = window.args.get("alias")
        named[spelled(window.this.name)] = named[spelled(base.name)] if base else window
    for key in ("expressions", "qualify", "order", "having"):
        value = select.args.get(key) or []
        for part in value if isinstance(value, list) else [value]:
            for window in outermost_windows(part):
                name = window.args.get("alias")
                if name is None:
                    continue
                window.set("alias", None)
                for clause in ("partition_by", "order", "spec"):
                    written = named[spelled(name.name)].args.get(clause)
                    copied = (
                        [e.copy() for e in written]
                        if isinstance(written, list)
                        else written.copy()
                        if written is not None
                        else None
                    )
                    window.set(clause, copied)
    return select


def _qualified(condition: exp.Expr, items: Items, scope: Scope) -> exp.Expr:
    """A condition of QUALIFY, with names of the result where FROM has no such column."""

    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            named = [e for name, e in items if spelled(name) == spelled(node.name)]
            if named and not scope.find((), node.name):
                return exp.Paren(this=named[0].copy())
        return node

    return transformed(condition, change)


def _kept(built: Built, hidden: int) -> Built:
    """The rows for which the condition, the first of the hidden columns, is true."""
    at = len(built.names) - hidden
    node = built.node
    kept = Filter(node.schema, node, column(node.names[at]))
    names = (*node.names[:at], *node.names[at + 1 :])
    return Built(only(kept, names), (*built.names[:at], *built.names[at + 1 :]))


def _generator(item: exp.Expr) -> exp.Expr | None:
    """The generator function that an item of SELECT is, if it is one."""
    function = item.this if isinstance(item, exp.Aliases) else item
    return function if is_generator(function) else None


def _over_groups(
    select: exp.Select, items: Items, node: Node, scope: Scope, env: Environment
) -> tuple[exp.Select, Items, Node, Scope]:
    """A SELECT with a generator as one over groups that have the generator's operands as columns."""

    def is_of_groups(operand: exp.Expr) -> bool:
        return has_aggregate(operand) or operand.find(exp.Column, Bound, exp.Query) is not None

    below: Items = []
    for name, written in items:
        generator = _generator(written)
        values = [written] if generator is None else filter(is_of_groups, operands(generator))
        below += [(name or "col", value) for value in values]
    groups = _grouped(node, scope, below, [], select.args.get("group"), None, env).node
    columns = iter([Bound(this=column(name)) for name in groups.names])
    above: Items = []
    for name, written in items:
        generator = _generator(written)
        if generator is None:
            above.append((name, next(columns)))
            continue
        called = with_parts(generator, lambda e: next(columns) if is_of_groups(e) else e.copy())
        named = exp.Aliases(this=called, expressions=written.expressions)
        above.append((name, named if isinstance(written, exp.Aliases) else called))
    return exp.Select(**{**select.args, "group": None}), above, groups, Scope()


def _with_generated(items: Items, node: Node, scope: Scope, env: Environment) -> tuple[Items, Node]:
    """Items of SELECT over the rows that their generator makes: its columns stand in its place."""
    result: Items = []
    for name, written in items:
        generator = _generator(written)
        if generator is None:
            result.append((name, written))
            continue
        given = [name]
        if isinstance(written, exp.Aliases):
            given = [e.name for e in written.expressions]
        node, both = generated((node, scope), exp.Lateral(this=generator), False, env)
        made = both.columns[len(scope.columns) :]
        named = len(given) == len(made) and given[0]
        names = given if named else [c.name for c in made]
        result += [(n, Bound(this=column(c.column))) for n, c in zip(names, made, strict=True)]
    return result, node


def _projected(node: Node, scope: Scope, items: Items, env: Environment) -> Built:
    aliases: dict[str, exp.Expr] = {}
    columns: Items = []
    for name, written in items:
        node, resolved = bound(env, node, written, scope, aliases)
        columns.append((name, resolved))
        aliases.setdefault(spelled(name), resolved)
    projected = env.project(node, env.named(node, columns))
    return Built(projected, tuple(name for name, _ in columns))


def _grouped(
    node: Node,
    scope: Scope,
    items: Items,
    hidden: Items,
    group: exp.Group | None,
    having: exp.Having | None,
    env: Environment,
) -> Built:
    written_sets = None if group is None else sets_of(group)
    if is_total(written_sets):
        group, written_sets = None, None
        items, hidden = ([(n, _without_sets(e)) for n, e in part] for part in (items, hidden))
        having = having and exp.Having(this=_without_sets(having.this))
    if written_sets is not None and not scope.find((), GROUPING_ID):
        items, hidden = ([(n, with_grouping_id(e)) for n, e in part] for part in (items, hidden))
        having = having and exp.Having(this=with_grouping_id(having.this))
    written_keys = _group_items(group, items) if written_sets is None else written_sets[0]

    def selected_by(written: exp.Expr) -> exp.Expr:
        return _selected(written, items, scope)

    resolved: dict[int, exp.Expr] = {}
    for each in (*written_keys, *_in_sets(written_sets)):
        if id(each) not in resolved:
            node, key = bound(env, node, selected_by(each), scope)
            resolved[id(each)] = key.unnest()
    keys = list({canonical(k): k for k in (resolved[id(e)] for e in written_keys)}.values())
    sets = None
    if written_sets is not None:
        chosen = [{canonical(resolved[id(e)]) for e in inside} for inside in written_sets[1]]
        sets = [[canonical(key) in inside for key in keys] for inside in chosen]
        assert group is not None
        refuse_left_out(node, keys, sets, group)
    numbers = {canonical(key): i for i, key in enumerate(keys)}
    written = {
        selected_by(e): numbers[canonical(resolved[id(e)])]
        for e in written_keys
        if outermost_subqueries(selected_by(e))
    }
    if sets is None:
        node = in_sessions(node, keys, env)
    reader = AggregateReader(env, scope, node, keys, sets, written)
    aliases: dict[str, exp.Expr] = {}
    selected: Items = []
    for name, expression in [*items, *hidden]:
        selected.append((name, reader.read(expression, aliases)))
        aliases.setdefault(spelled(name), expression)
    condition = None
    if having:
        condition = reader.read(having.this, {spelled(n): e for n, e in reversed(items)}, True)
    result = reader.aggregate(scalar=group is None)
    windows_first = False
    if having and sets is not None and any(_awaits_window(e) for _, e in selected):
        windows_first = _windows_see_all(having, env)
    if condition is not None and not windows_first:
        result = _having(result, condition, selected[: len(items)], scope, env)
    for i, (name, expression) in enumerate(selected):
        result, fulfilled = _fulfilled(result, expression, scope, env)
        selected[i] = (name, fulfilled)
    if condition is not None and windows_first:
        result = _having(result, condition, selected[: len(items)], scope, env)
    projected = env.project(result, env.named(result, selected))
    return Built(projected, tuple(name for name, _ in selected))


def _having(
    groups: Node, condition: exp.Expr, items: Items, scope: Scope, env: Environment
) -> Node:
    """The groups that HAVING leaves."""
    groups, names = _naming_items(groups, condition, items, scope, env)
    groups, condition = _fulfilled(groups, condition, names, env)
    return Filter(groups.schema, groups, condition)


def _awaits_window(expression: exp.Expr) -> bool:
    return any(isinstance(p.this, exp.Window) for p in expression.find_all(Pending))


def _windows_see_all(having: exp.Having, env: Environment) -> bool:
    """Whether windows over GROUPING SETS see the groups that HAVING does not leave, too."""
    seen = env.analyzer.windows_see()
    if not seen:
        hint = "Write GROUP BY with HAVING, or with the windows, as a subquery of FROM."
        raise unsupported(
            having, "HAVING beside windows over GROUPING SETS in several places", hint
        )
    return seen == ALL_GROUPS


def _without_sets(expression: exp.Expr) -> exp.Expr:
    """An expression over all rows as one group, in which grouping_id() is 0."""

    def change(node: exp.Expr) -> exp.Expr:
        return expression_of("CAST(0 AS BIGINT)") if isinstance(node, exp.GroupingId) else node

    return transformed(expression, change)


def _naming_items(
    node: Node, condition: exp.Expr, items: Items, scope: Scope, env: Environment
) -> tuple[Node, Scope]:
    """The groups with the items of SELECT that subqueries of HAVING name, where FROM has no such
    column, and the names with those."""
    subqueries = [p.this for p in condition.find_all(Pending) if not isinstance(p.this, exp.Window)]
    written = {spelled(c.parts[0].name) for q in subqueries for c in q.find_all(exp.Column)}
    kept: Items = [(n, column(n)) for n in node.names]
    added: Items = []
    visible: list[Visible] = []
    for name, value in items:
        known = scope.find((), name) or any(spelled(v.name) == spelled(name) for v in visible)
        if spelled(name) in written and not known and value.find(Pending) is None:
            added.append((env.names.fresh(name), value))
            visible.append(Visible((), name, added[-1][0]))
    if not added:
        return node, scope
    return env.project(node, [*kept, *added]), Scope((*visible, *scope.columns))


def _in_sets(sets: tuple[list[exp.Expr], list[tuple[exp.Expr, ...]]] | None) -> list[exp.Expr]:
    return [] if sets is None else [e for inside in sets[1] for e in inside]


def _fulfilled(
    node: Node, expression: exp.Expr, scope: Scope, env: Environment
) -> tuple[Node, exp.Expr]:
    """An expression over groups whose subqueries, which wait for the groups, are joined to them."""
    known: dict[int, exp.Expr] = {}
    for pending in expression.walk(prune=lambda n: isinstance(n, Pending)):
        if not isinstance(pending, Pending):
            continue
        if isinstance(pending.this, exp.Window):
            node, window = _fulfilled(node, pending.this, scope, env)
            assert isinstance(window, exp.Window)
            node, (known[id(pending)],) = with_windows(node, [window], env.context)
            continue
        values = []
        for part in pending.expressions:
            node, value = _fulfilled(node, part, scope, env)
            values.append(value)
        node, known[id(pending)] = value_for(env, node, values, pending.this, scope)
    return node, transformed(expression, lambda n: known.get(id(n), n))


def _group_items(group: exp.Group | None, items: Items) -> list[exp.Expr]:
    if group is None:
        return []
    if group.args.get("all"):
        return [e for _, e in items if not has_aggregate(e)]
    refuse_clauses(group, {"expressions"})
    return list(group.expressions)


def _selected(written: exp.Expr, items: Items, scope: Scope) -> exp.Expr:
    """A key of GROUP BY: by position, by an alias that is no column, or as it is."""
    if isinstance(written, exp.Literal) and written.is_int:
        return items[int(written.this) - 1][1]
    if (
        isinstance(written, exp.Column)
        and len(written.parts) == 1
        and not scope.find((), written.name)
    ):
        named = [e for name, e in items if spelled(name) == spelled(written.name)]
        return named[0] if named else written
    return written
