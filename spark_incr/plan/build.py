"""From syntax tree to logical plan.

The tree is the query as written; Spark has analysed it, so names exist and types fit. Here names
become unique columns, and each clause becomes a node: FROM, WHERE, aggregation, HAVING, SELECT,
DISTINCT, in the order in which SQL defines them. A node of the tree that is not known is refused
with its position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.errors import error
from spark_incr.plan.bags import compare_bags
from spark_incr.plan.context import Analyzer, Context
from spark_incr.plan.functions import refuse_unstable
from spark_incr.plan.generators import generate, is_generator
from spark_incr.plan.grouping import AggregateReader, Pending
from spark_incr.plan.grouping_sets import sets_of
from spark_incr.plan.joins import cast_to, join_on, only
from spark_incr.plan.nodes import (
    Aggregate,
    Constant,
    Filter,
    Join,
    JoinKind,
    Limit,
    Node,
    Project,
    Scan,
    Single,
    SortKey,
    UnionAll,
    column,
    columns_in,
    conjuncts,
)
from spark_incr.plan.scope import Bound, Names, Scope, Visible, folded, resolve_column
from spark_incr.plan.subqueries import (
    existence,
    keep_where_exists,
    keep_where_in,
    lateral,
    membership,
    scalar_value,
)
from spark_incr.plan.syntax import (
    has_aggregate,
    is_subquery,
    lambda_columns,
    membership_of,
    negation_inwards,
    outermost_subqueries,
    outermost_windows,
    tested_values,
    transformed,
    unsupported,
)
from spark_incr.plan.types import Field, Schema
from spark_incr.plan.windows import with_windows
from spark_incr.sql.dialect import position_of, print_sql


@dataclass(frozen=True)
class Known:
    """A relation: the engine's name for it, its columns, those that are unique together, and
    whether rows only ever come."""

    name: str
    schema: Schema
    unique: tuple[str, ...] = ()
    append_only: bool = False


class Catalog(Protocol):
    """The relations a query may read."""

    def relation(self, parts: tuple[str, ...]) -> Known | None:
        """What is known of a relation that a query names."""


def build_plan(query: exp.Query, catalog: Catalog, analyzer: Analyzer) -> Node:
    """The logical plan of a query; output columns are positional."""
    builder = Builder(catalog, analyzer)
    return builder.query(query, {}).node


@dataclass(frozen=True)
class _Built:
    """A query's plan and the names of its columns as the query gives them."""

    node: Node
    names: tuple[str, ...]


_Ctes = Mapping[str, tuple[exp.CTE, "_Ctes"]]

_SELECT_CLAUSES = {
    "with_", "with", "expressions", "from_", "from", "joins", "where", "group", "having", "distinct", "kind",
    "hint", "operation_modifiers", "laterals", "order", "limit", "offset", "sort", "distribute",
    "cluster",
}  # fmt: skip


@dataclass
class Builder:
    """Builds one plan; it knows the outer queries and the CTEs of where it is."""

    catalog: Catalog
    analyzer: Analyzer
    names: Names = field(default_factory=Names)
    outer: tuple[tuple[Scope, Schema], ...] = ()
    ctes: _Ctes = field(default_factory=dict)

    @property
    def context(self) -> Context:
        return Context(self.analyzer, self.names)

    def types(self, schema: Schema, expressions: Sequence[exp.Expr]) -> list[T.DataType]:
        """The types of expressions over columns, those of outer queries included."""
        around = tuple(f for _, fields in self.outer for f in fields)
        needed = {name for e in expressions for name in columns_in(e)} - {f.name for f in schema}
        return self.analyzer.types((*schema, *(f for f in around if f.name in needed)), expressions)

    def query(self, query: exp.Expr, ctes: _Ctes) -> _Built:
        if isinstance(query, exp.Subquery):
            _refuse_clauses(query, {"this", "alias"})
            return self.query(query.this, ctes)
        around, self.ctes = self.ctes, _with_ctes(query, ctes)
        try:
            return self._query_with(query, self.ctes)
        finally:
            self.ctes = around

    def _query_with(self, query: exp.Expr, ctes: _Ctes) -> _Built:
        if isinstance(query, exp.Select):
            return self._select(query, ctes)
        if isinstance(query, exp.SetOperation):
            return self._set_operation(query, ctes)
        if isinstance(query, exp.Values):
            return self._constant(query)
        raise unsupported(query, _words(query))

    # FROM

    def _relation(self, source: exp.Expr, ctes: _Ctes) -> tuple[Node, Scope]:
        if isinstance(source, exp.Values) or (
            isinstance(source, exp.Table) and isinstance(source.this, exp.Func)
        ):
            built = self._constant(source)
            node, scope = built.node, _scope_of(source, built, ())
        elif isinstance(source, exp.Table):
            _refuse_clauses(source, {"this", "db", "catalog", "alias", "joins"})
            node, scope = self._table(source, ctes)
        elif isinstance(source, exp.Subquery):
            _refuse_clauses(source, {"this", "alias", "joins"})
            built = self.query(source.this, ctes)
            node, scope = built.node, _scope_of(source, built, ())
        else:
            raise unsupported(source, f"{_words(source)} in FROM")
        for join in source.args.get("joins") or []:
            node, scope = self._join(node, scope, join, ctes)
        return node, scope

    def _constant(self, query: exp.Expr) -> _Built:
        """The rows of a table function or of VALUES, which Spark computes once."""
        for part in query.walk():
            if isinstance(part, (exp.Subquery, exp.Query)) and part is not query:
                raise unsupported(part, "a subquery in a table function")
        refuse_unstable(query)
        text = f"SELECT * FROM {print_sql(query)}"
        fields = self.analyzer.query_schema(text)
        schema = tuple(Field(self.names.fresh(f.name), f.type) for f in fields)
        return _Built(Constant(schema, text), tuple(f.name for f in fields))

    def _table(self, table: exp.Table, ctes: _Ctes) -> tuple[Node, Scope]:
        parts = tuple(part.name for part in table.parts)
        if len(parts) == 1 and folded(parts[0]) in ctes:
            definition, outer = ctes[folded(parts[0])]
            built = self.query(definition.this, outer)
            built = _Built(built.node, _column_aliases(definition, built.names))
            return built.node, _scope_of(table, built, parts)
        known = self.catalog.relation(parts)
        if known is None:
            raise error(
                "INCR_RELATION_NOT_FOUND",
                kind="table or view",
                name=".".join(parts),
                position=position_of(table),
            )
        columns = tuple(f.name for f in known.schema)
        renamed = tuple(Field(self.names.fresh(f.name), f.type) for f in known.schema)
        scan = Scan(renamed, known.name, columns, known.unique, known.append_only)
        return scan, _scope_of(table, _Built(scan, columns), parts)

    def _from(self, select: exp.Select, ctes: _Ctes) -> tuple[Node, Scope]:
        source = select.args.get("from_") or select.args.get("from")
        if source is None:
            return Single(()), Scope()
        node, scope = self._relation(source.this, ctes)
        for join in select.args.get("joins") or []:
            node, scope = self._join(node, scope, join, ctes)
        return node, scope

    def _join(
        self, left: Node, left_scope: Scope, join: exp.Join, ctes: _Ctes
    ) -> tuple[Node, Scope]:
        _refuse_clauses(join, {"this", "on", "using", "kind", "side", "method"})
        kind = _join_kind(join)
        if isinstance(join.this, exp.Lateral):
            return self._lateral_join(left, left_scope, join, kind)
        right, right_scope = self._relation(join.this, ctes)
        using = [identifier.name for identifier in join.args.get("using") or []]
        if join.method == "NATURAL":
            using = [
                c.name for c in left_scope.star(None) if len(right_scope.find((), c.name)) == 1
            ]
        scope = left_scope if kind.left_only else left_scope + right_scope
        if using:
            return self._join_using(left, left_scope, right, right_scope, using, kind)
        condition = None
        if join.args.get("on") is not None:
            condition = self.scalar(join.args["on"], left_scope + right_scope, {})
        if kind is JoinKind.INNER:
            node: Node = Join(left.schema + right.schema, left, right, ())
            return (node if condition is None else self._filter(node, condition)), scope
        return join_on(left, right, condition, kind, self.context), scope

    def _lateral_join(
        self, left: Node, left_scope: Scope, join: exp.Join, kind: JoinKind
    ) -> tuple[Node, Scope]:
        """A subquery in FROM that reads what stands before it."""
        source = join.this
        if not isinstance(source.this, exp.Subquery) or kind not in (JoinKind.INNER, JoinKind.LEFT):
            raise unsupported(source, "this LATERAL relation")
        built = self._inner(left, left_scope, source.this)
        scope = left_scope + _scope_of(source, built, ())
        inner = built.node
        if join.args.get("on") is not None:
            self.outer = ((left_scope, left.schema), *self.outer)
            condition = self.scalar(join.args["on"], scope, {})
            self.outer = self.outer[1:]
            inner = self._filter(inner, condition)
        return lateral(left, inner, kind, self.context), scope

    def _join_using(
        self,
        left: Node,
        left_scope: Scope,
        right: Node,
        right_scope: Scope,
        using: list[str],
        kind: JoinKind,
    ) -> tuple[Node, Scope]:
        """Columns of USING appear once, first, and hold the value of the side that is there."""
        pairs = []
        for name in using:
            (left_column,) = left_scope.find((), name)
            (right_column,) = right_scope.find((), name)
            pairs.append((name, left_column.column, right_column.column))
        equalities: list[exp.Expr] = [
            exp.EQ(this=column(here), expression=column(there)) for _, here, there in pairs
        ]
        if kind is JoinKind.INNER:
            node: Node = Join(left.schema + right.schema, left, right, ())
            for condition in equalities:
                node = self._filter(node, condition)
        else:
            node = join_on(left, right, exp.and_(*equalities), kind, self.context)
        if kind.left_only:
            return node, left_scope
        merged: list[Visible] = []
        hidden: set[str] = set()
        for name, here, there in pairs:
            hidden |= {here, there}
            source = there if kind is JoinKind.RIGHT else here
            if kind is JoinKind.FULL:
                either = exp.Coalesce(this=column(here), expressions=[column(there)])
                source = self.names.fresh(name)
                columns = [(n, column(n)) for n in node.names]
                node = self.project(node, [*columns, (source, either)])
            merged.append(Visible((), name, source))
        rest = (left_scope + right_scope).hide(hidden)
        return node, Scope(tuple(merged) + rest.columns)

    # Expressions

    def scalar(
        self,
        expression: exp.Expr,
        scope: Scope,
        aliases: dict[str, exp.Expr],
        known: Mapping[int, exp.Expr] | None = None,
    ) -> exp.Expr:
        """An expression over the columns of the plan; `known` are parts that are bound already."""
        refuse_unstable(expression)
        known = known or {}
        outer = [scope for scope, _ in self.outer]
        bound = {
            id(parameter)
            for lambda_ in expression.find_all(exp.Lambda)
            for parameter in lambda_columns(lambda_)
        }

        def change(node: exp.Expr) -> exp.Expr:
            if id(node) in known:
                return known[id(node)].copy()
            if isinstance(node, Bound):
                return column(node.this.name)
            if isinstance(node, exp.Column) and id(node) not in bound:
                if isinstance(node.this, exp.Star):
                    raise unsupported(node, "* inside an expression")
                return resolve_column(node, scope, aliases, outer)
            if is_subquery(node):
                raise unsupported(node, "a subquery here")
            if isinstance(node, exp.Window):
                raise unsupported(node, "a window function")
            if isinstance(node, (exp.Explode, exp.Posexplode, exp.Inline, exp.UDTF)):
                raise unsupported(node, "a generator function")
            return node

        return transformed(expression, change)

    def _bound(
        self, node: Node, expression: exp.Expr, scope: Scope, aliases: dict[str, exp.Expr]
    ) -> tuple[Node, exp.Expr]:
        """An expression over the columns of a node, which gains the columns its subqueries need."""
        known: dict[int, exp.Expr] = {}
        for subquery in outermost_subqueries(expression):
            node, known[id(subquery)] = self._subquery(node, subquery, scope, aliases)
        windows = outermost_windows(expression)
        resolved = [
            self.window(w, lambda e: self.scalar(e, scope, aliases, known)) for w in windows
        ]
        node, values = with_windows(node, resolved, self.context)
        known |= {id(w): value for w, value in zip(windows, values, strict=True)}
        return node, self.scalar(expression, scope, aliases, known)

    def window(self, written: exp.Expr, read: Callable[[exp.Expr], exp.Expr]) -> exp.Window:
        """A window function whose operands are read; a named window is put in its place."""
        named = written.args.get("alias")
        if named is not None:
            raise unsupported(written, "a named window")
        function = written.this
        wrapped = []
        while isinstance(function, (exp.IgnoreNulls, exp.RespectNulls)):
            wrapped.append(type(function))
            function = function.this
        function = _with_parts(function, read)
        for wrapper in reversed(wrapped):
            function = wrapper(this=function)
        window = exp.Window(**written.copy().args)
        window.set("this", function)
        window.set("partition_by", [read(e) for e in written.args.get("partition_by") or []])
        order = written.args.get("order")
        if order is not None:
            window.set(
                "order",
                exp.Order(
                    expressions=[
                        exp.Ordered(**{**o.args, "this": read(o.this)}) for o in order.expressions
                    ]
                ),
            )
        return window

    def _subquery(
        self, node: Node, written: exp.Expr, scope: Scope, aliases: dict[str, exp.Expr]
    ) -> tuple[Node, exp.Expr]:
        """The value of a subquery as an expression over the node and what is joined to it."""
        if isinstance(written, exp.Exists):
            return existence(node, self._inner(node, scope, written.this).node, self.context)
        test = membership_of(written)
        if test is not None:
            node, values = self._tested(node, test[0], scope, aliases)
            inner = self._inner(node, scope, test[0].args["query"]).node
            return membership(node, values, inner, test[1], self.context)
        inner = self._inner(node, scope, written).node
        return scalar_value(node, inner, self.context)

    def _tested(
        self, node: Node, written: exp.In, scope: Scope, aliases: dict[str, exp.Expr]
    ) -> tuple[Node, list[exp.Expr]]:
        """The values that stand before IN, over the columns of the node."""
        values = []
        for part in tested_values(written):
            node, value = self._bound(node, part, scope, aliases)
            values.append(value)
        return node, values

    def _inner(self, node: Node, scope: Scope, query: exp.Expr) -> _Built:
        """The plan of a subquery, which may read columns of the node."""
        around, ctes = self.outer, self.ctes
        self.outer = ((scope, node.schema), *around)
        try:
            return self.query(query, ctes)
        finally:
            self.outer, self.ctes = around, ctes

    def _where(self, node: Node, condition: exp.Expr, scope: Scope) -> Node:
        """The rows for which a condition is true."""
        names = node.names
        for part in conjuncts(condition):
            negated = isinstance(part, exp.Not)
            inner = part.this.unnest() if negated else part
            if outermost_subqueries(part):
                part = negation_inwards(part)
            if isinstance(inner, exp.Exists):
                subplan = self._inner(node, scope, inner.this).node
                node = keep_where_exists(node, subplan, not negated, self.context)
            elif (test := membership_of(part)) is not None:
                node, values = self._tested(node, test[0], scope, {})
                subplan = self._inner(node, scope, test[0].args["query"]).node
                node = keep_where_in(node, values, subplan, test[1], self.context)
            else:
                node, resolved = self._bound(node, part, scope, {})
                node = self._filter(node, resolved)
        return only(node, names)

    def _filter(self, node: Node, condition: exp.Expr) -> Node:
        return Filter(node.schema, node, condition)

    def _named(
        self, node: Node, columns: Sequence[tuple[str, exp.Expr]]
    ) -> list[tuple[str, exp.Expr]]:
        """Columns under unique names; one that passes through keeps its own."""
        result: list[tuple[str, exp.Expr]] = []
        taken: set[str] = set()
        for hint, expression in columns:
            passes = (
                isinstance(expression, exp.Column)
                and expression.name in node.names
                and expression.name not in taken
            )
            name = expression.name if passes else self.names.fresh(hint)
            taken.add(name)
            result.append((name, expression))
        return result

    def project(self, node: Node, columns: Sequence[tuple[str, exp.Expr]]) -> Project:
        types = self.types(node.schema, [e for _, e in columns])
        schema = tuple(Field(name, t) for (name, _), t in zip(columns, types, strict=True))
        return Project(schema, node, tuple(e for _, e in columns))

    # SELECT

    def _select(self, select: exp.Select, ctes: _Ctes) -> _Built:
        _refuse_clauses(select, _SELECT_CLAUSES)
        if select.args.get("kind"):
            raise unsupported(select, f"SELECT {select.args['kind']}")
        node, scope = self._from(select, ctes)
        for view in select.args.get("laterals") or []:
            node, scope = self._lateral_view(node, scope, view)
        if select.args.get("where"):
            node = self._where(node, select.args["where"].this, scope)
        items = _expand_stars(select.expressions, scope)
        sort = self._sort_items(select, items)
        items += [(f"order_{i}", key) for i, (key, _) in enumerate(sort)]
        having = select.args.get("having")
        group = select.args.get("group")
        grouped = group is not None or any(
            has_aggregate(e) for e in [*(e for _, e in items), *([having.this] if having else [])]
        )
        if grouped or having:
            built = self._grouped(node, scope, items, group, having)
        else:
            built = self._projected(node, scope, items)
        if select.args.get("distinct"):
            if select.args["distinct"].args.get("on"):
                raise unsupported(select, "DISTINCT ON")
            node = built.node
            built = _Built(Aggregate(node.schema, node, node.names, ()), built.names)
        return self._limited(select, built, [by for _, by in sort])

    def _projected(self, node: Node, scope: Scope, items: list[tuple[str, exp.Expr]]) -> _Built:
        aliases: dict[str, exp.Expr] = {}
        columns: list[tuple[str, exp.Expr]] = []
        for name, written in items:
            if is_generator(written):
                generator = _with_parts(written, lambda e: self.scalar(e, scope, aliases))
                before = node.names
                node, made = generate(node, generator, (), False, self.context)
                fresh = [n for n in node.names if n not in before]
                given = [name] if len(made) == 1 and name else made
                columns += [(g, column(n)) for g, n in zip(given, fresh, strict=True)]
                continue
            node, resolved = self._bound(node, written, scope, aliases)
            columns.append((name, resolved))
            aliases.setdefault(folded(name), resolved)
        projected = self.project(node, self._named(node, columns))
        return _Built(projected, tuple(name for name, _ in columns))

    def _lateral_view(self, node: Node, scope: Scope, view: exp.Expr) -> tuple[Node, Scope]:
        """LATERAL VIEW: the rows that a generator makes of each row."""
        if not is_generator(view.this):
            raise unsupported(view, "this LATERAL VIEW")
        generator = _with_parts(view.this, lambda e: self.scalar(e, scope, {}))
        alias = view.args["alias"]
        given = [c.name for c in alias.args.get("columns") or []]
        before = node.names
        outer = bool(view.args.get("outer"))
        node, made = generate(node, generator, given, outer, self.context)
        qualifier = (alias.name,) if alias.name else ()
        added = [n for n in node.names if n not in before]
        visible = [Visible(qualifier, n, c) for n, c in zip(made, added, strict=True)]
        return node, Scope(scope.columns + tuple(visible))

    # Order

    def _sort_items(
        self, query: exp.Expr, items: list[tuple[str, exp.Expr]]
    ) -> list[tuple[exp.Expr, exp.Ordered]]:
        """What a query with LIMIT sorts by; an order without LIMIT changes no rows."""
        order = query.args.get("order")
        if order is None or not (query.args.get("limit") or query.args.get("offset")):
            return []
        result = []
        for by in order.expressions:
            key = by.this
            if isinstance(key, exp.Literal) and key.is_int:
                key = items[int(key.this) - 1][1]
            elif isinstance(key, exp.Column) and len(key.parts) == 1:
                named = [e for name, e in items if folded(name) == folded(key.name)]
                key = named[0] if named else key
            result.append((key.copy(), by))
        return result

    def _limited(self, query: exp.Expr, built: _Built, sort: Sequence[exp.Ordered]) -> _Built:
        """The first rows of a query, if it asks for those; its sort columns are not shown."""
        limit, offset = _constant_clause(query, "limit"), _constant_clause(query, "offset")
        if limit is None and offset is None:
            return built
        node = built.node
        columns = node.names[len(node.names) - len(sort) :]
        keys = tuple(
            SortKey(name, bool(by.args.get("desc")), bool(by.args.get("nulls_first")))
            for name, by in zip(columns, sort, strict=True)
        )
        limited = Limit(node.schema, node, keys, limit, offset or 0)
        names = built.names[: len(built.names) - len(sort)]
        return _Built(only(limited, node.names[: len(names)]), names)

    def _grouped(
        self,
        node: Node,
        scope: Scope,
        items: list[tuple[str, exp.Expr]],
        group: exp.Group | None,
        having: exp.Having | None,
    ) -> _Built:
        written_sets = None if group is None else sets_of(group)
        written_keys = (
            _group_items(group, items, scope) if written_sets is None else written_sets[0]
        )

        def key_of(written: exp.Expr) -> exp.Expr:
            return self.scalar(_selected(written, items, scope), scope, {}).unnest()

        keys = list(dict.fromkeys(key_of(e) for e in written_keys))
        sets = None
        if written_sets is not None:
            chosen = [{key_of(e) for e in written} for written in written_sets[1]]
            sets = [[key in inside for key in keys] for inside in chosen]
        reader = AggregateReader(self, scope, keys, sets)
        aliases = {folded(name): e for name, e in reversed(items)}
        selected = [(name, reader.read(e)) for name, e in items]
        condition = reader.read(having.this, aliases) if having else None
        result = reader.aggregate(node, scalar=group is None)
        if condition is not None:
            result, condition = self._fulfilled(result, condition, scope)
            result = self._filter(result, condition)
        for i, (name, expression) in enumerate(selected):
            result, selected[i] = self._fulfilled_item(result, name, expression, scope)
        projected = self.project(result, self._named(result, selected))
        return _Built(projected, tuple(name for name, _ in items))

    def _fulfilled_item(
        self, node: Node, name: str, expression: exp.Expr, scope: Scope
    ) -> tuple[Node, tuple[str, exp.Expr]]:
        node, fulfilled = self._fulfilled(node, expression, scope)
        return node, (name, fulfilled)

    def _fulfilled(self, node: Node, expression: exp.Expr, scope: Scope) -> tuple[Node, exp.Expr]:
        """An expression over groups whose subqueries, which wait for the groups, are joined to them."""
        known: dict[int, exp.Expr] = {}
        for pending in expression.find_all(Pending):
            written = pending.this
            if isinstance(written, exp.Window):
                node, (value,) = with_windows(node, [written], self.context)
            elif (test := membership_of(written)) is not None:
                inner = self._inner(node, scope, test[0].args["query"]).node
                node, value = membership(node, pending.expressions, inner, test[1], self.context)
            else:
                node, value = self._subquery(node, written, scope, {})
            known[id(pending)] = value
        return node, transformed(expression, lambda n: known.get(id(n), n))

    # Set operations

    def _set_operation(self, operation: exp.SetOperation, ctes: _Ctes) -> _Built:
        known = {"this", "expression", "distinct", "with_", "by_name", "order", "limit", "offset"}
        _refuse_clauses(operation, known)
        if operation.args.get("by_name"):
            raise unsupported(operation, "a set operation BY NAME")
        left, right = self.query(operation.left, ctes), self.query(operation.right, ctes)
        types = [
            a.type if a.type == b.type else self.analyzer.union_type(a.type, b.type)
            for a, b in zip(left.node.schema, right.node.schema, strict=True)
        ]
        schema = tuple(
            Field(self.names.fresh(name), t) for name, t in zip(left.names, types, strict=True)
        )
        sides = self._cast_to(left.node, types), self._cast_to(right.node, types)
        distinct = bool(operation.args.get("distinct"))
        if isinstance(operation, exp.Union):
            node: Node = UnionAll(schema, sides)
            if distinct:
                node = Aggregate(node.schema, node, node.names, ())
        else:
            node = compare_bags(
                sides, schema, isinstance(operation, exp.Intersect), distinct, self.context
            )
        return self._sorted_union(operation, _Built(node, left.names))

    def _sorted_union(self, operation: exp.Expr, built: _Built) -> _Built:
        """ORDER BY and LIMIT of a set operation, which name its columns."""
        items = list(zip(built.names, (column(n) for n in built.node.names), strict=True))
        sort = self._sort_items(operation, [(name, Bound(this=c)) for name, c in items])
        scope = Scope(tuple(Visible((), name, c.name) for name, c in items))
        columns: list[tuple[str, exp.Expr]] = [*items]
        columns += [(f"order_{i}", self.scalar(key, scope, {})) for i, (key, _) in enumerate(sort)]
        if not sort:
            return self._limited(operation, built, [])
        node = self.project(built.node, self._named(built.node, columns))
        names = (*built.names, *(f"order_{i}" for i in range(len(sort))))
        return self._limited(operation, _Built(node, names), [by for _, by in sort])

    def _cast_to(self, node: Node, types: Sequence[T.DataType]) -> Node:
        if [f.type for f in node.schema] == list(types):
            return node
        columns = [
            (f.name, cast_to(column(f.name), f.type, t))
            for f, t in zip(node.schema, types, strict=True)
        ]
        return self.project(node, self._named(node, columns))


def _words(node: exp.Expr) -> str:
    return type(node).__name__.upper()


def _refuse_clauses(node: exp.Expr, known: set[str]) -> None:
    for key, value in node.args.items():
        if key not in known and value not in (None, False, [], ""):
            place = value[0] if isinstance(value, list) else value
            where = place if isinstance(place, exp.Expr) else node
            raise unsupported(where, f"the clause {key.strip('_').upper().replace('_', ' ')}")


def _with_ctes(query: exp.Expr, ctes: _Ctes) -> _Ctes:
    clause = query.args.get("with_") or query.args.get("with")
    if clause is None:
        return ctes
    if clause.args.get("recursive"):
        raise unsupported(clause, "WITH RECURSIVE")
    for cte in clause.expressions:
        ctes = {**ctes, folded(cte.alias): (cte, ctes)}
    return ctes


def _column_aliases(source: exp.Expr, names: tuple[str, ...]) -> tuple[str, ...]:
    alias = source.args.get("alias")
    given = tuple(c.name for c in alias.args.get("columns") or []) if alias else ()
    return given + names[len(given) :]


def _scope_of(source: exp.Expr, built: _Built, parts: tuple[str, ...]) -> Scope:
    qualifier = (source.alias,) if source.alias else parts
    names = _column_aliases(source, built.names)
    return Scope(
        tuple(
            Visible(qualifier, name, field.name)
            for name, field in zip(names, built.node.schema, strict=True)
        )
    )


def _with_parts(function: exp.Expr, read: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A function call with its operands read."""
    copy = function.copy()
    for key, value in list(copy.args.items()):
        if isinstance(value, exp.Expr):
            copy.set(key, read(function.args[key]))
        elif isinstance(value, list):
            written = function.args[key]
            copy.set(key, [read(v) if isinstance(v, exp.Expr) else v for v in written])
    return copy


def _constant_clause(query: exp.Expr, name: str) -> int | None:
    clause = query.args.get(name)
    if clause is None:
        return None
    value = clause.expression.unnest()
    if not (isinstance(value, exp.Literal) and not value.is_string):
        raise unsupported(clause, f"{name.upper()} with anything but a number")
    return int(value.this)


def _join_kind(join: exp.Join) -> JoinKind:
    if join.method not in ("", "NATURAL"):
        raise unsupported(join, f"{join.method} JOIN")
    if join.kind in ("SEMI", "ANTI"):
        return JoinKind[join.kind]
    if join.kind not in ("", "INNER", "CROSS", "OUTER"):
        raise unsupported(join, f"{join.kind} JOIN")
    return JoinKind[join.side] if join.side else JoinKind.INNER


def _expand_stars(items: Sequence[exp.Expr], scope: Scope) -> list[tuple[str, exp.Expr]]:
    result: list[tuple[str, exp.Expr]] = []
    for item in items:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            _refuse_clauses(star, {"except_"})
            qualifier = None
            if isinstance(item, exp.Column):
                qualifier = tuple(part.name for part in item.parts[:-1])
            left_out = {
                resolve_column(c, scope, {}).name
                for c in star.args.get("except_") or []
                if isinstance(c, exp.Column)
            }
            result.extend(
                (v.name, Bound(this=column(v.column)))
                for v in scope.star(qualifier)
                if v.column not in left_out
            )
        elif isinstance(item, exp.Alias):
            result.append((item.alias, item.this))
        elif isinstance(item, exp.Aliases):
            raise unsupported(item, "several aliases for one expression")
        else:
            result.append((item.output_name or "col", item))
    return result


def _group_items(
    group: exp.Group | None, items: list[tuple[str, exp.Expr]], scope: Scope
) -> list[exp.Expr]:
    if group is None:
        return []
    if group.args.get("all"):
        return [e for _, e in items if not has_aggregate(e)]
    _refuse_clauses(group, {"expressions"})
    return list(group.expressions)


def _selected(written: exp.Expr, items: list[tuple[str, exp.Expr]], scope: Scope) -> exp.Expr:
    """A key of GROUP BY: by position, by an alias that is no column, or as it is."""
    if isinstance(written, exp.Literal) and written.is_int:
        return items[int(written.this) - 1][1]
    if (
        isinstance(written, exp.Column)
        and len(written.parts) == 1
        and not scope.find((), written.name)
    ):
        named = [e for name, e in items if folded(name) == folded(written.name)]
        return named[0] if named else written
    return written
