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

from spark_incr.errors import IncrementalError, error
from spark_incr.plan.aggregates import is_aggregate, read_call
from spark_incr.plan.functions import refuse_unstable
from spark_incr.plan.nodes import (
    Aggregate,
    Call,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    Single,
    UnionAll,
    column,
    columns_in,
    conjuncts,
)
from spark_incr.plan.scope import Names, Scope, Visible, folded, resolve_column
from spark_incr.plan.types import Field, Schema, type_text
from spark_incr.sql.dialect import position_of


class Analyzer(Protocol):
    """What only Spark knows."""

    def types(self, schema: Schema, expressions: Sequence[exp.Expr]) -> list[T.DataType]:
        """The types of expressions over columns."""

    def comparison_type(self, left: T.DataType, right: T.DataType) -> T.DataType:
        """The type in which Spark compares values of two types."""

    def union_type(self, left: T.DataType, right: T.DataType) -> T.DataType:
        """The type of a column in the union of two relations."""


@dataclass(frozen=True)
class Known:
    """A relation: the engine's name for it, its columns, and those that are unique together."""

    name: str
    schema: Schema
    unique: tuple[str, ...] = ()


class Catalog(Protocol):
    """The relations a query may read."""

    def relation(self, parts: tuple[str, ...]) -> Known | None:
        """What is known of a relation that a query names."""


def build_plan(query: exp.Query, catalog: Catalog, analyzer: Analyzer) -> Node:
    """The logical plan of a query; output columns are positional."""
    builder = _Builder(catalog, analyzer)
    return builder.query(query, {}).node


@dataclass(frozen=True)
class _Built:
    """A query's plan and the names of its columns as the query gives them."""

    node: Node
    names: tuple[str, ...]


_Ctes = Mapping[str, tuple[exp.CTE, "_Ctes"]]

_SELECT_CLAUSES = {
    "with_", "with", "expressions", "from_", "from", "joins", "where", "group", "having", "distinct", "kind",
    "hint", "operation_modifiers",
}  # fmt: skip


@dataclass
class _Builder:
    catalog: Catalog
    analyzer: Analyzer
    names: Names = field(default_factory=Names)

    def query(self, query: exp.Expr, ctes: _Ctes) -> _Built:
        if isinstance(query, exp.Subquery):
            _refuse_clauses(query, {"this", "alias"})
            return self.query(query.this, ctes)
        ctes = _with_ctes(query, ctes)
        if isinstance(query, exp.Select):
            return self._select(query, ctes)
        if isinstance(query, exp.Union):
            return self._union(query, ctes)
        raise unsupported(query, _words(query))

    # FROM

    def _relation(self, source: exp.Expr, ctes: _Ctes) -> tuple[Node, Scope]:
        if isinstance(source, exp.Table):
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
        scan = Scan(renamed, known.name, columns, known.unique)
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
        if join.side or join.method or join.kind not in ("", "INNER", "CROSS"):
            words = " ".join(w for w in (join.method, join.side, join.kind) if w)
            raise unsupported(join, f"{words} JOIN")
        right, right_scope = self._relation(join.this, ctes)
        scope = left_scope + right_scope
        node: Node = Join(left.schema + right.schema, left, right, ())
        conditions: list[exp.Expr] = []
        for identifier in join.args.get("using") or []:
            (here,) = left_scope.find((), identifier.name)
            (there,) = right_scope.find((), identifier.name)
            conditions.append(exp.EQ(this=column(here.column), expression=column(there.column)))
            scope = scope.hide({there.column})
        if join.args.get("using"):
            scope = _using_first(scope, [i.name for i in join.args["using"]])
        if join.args.get("on") is not None:
            conditions.append(self._scalar(join.args["on"], scope, {}))
        for condition in conditions:
            node = self._filter(node, condition)
        return node, scope

    # Expressions

    def _scalar(self, expression: exp.Expr, scope: Scope, aliases: dict[str, exp.Expr]) -> exp.Expr:
        """An expression over the columns of the plan."""
        refuse_unstable(expression)
        for node in expression.walk():
            if isinstance(node, (exp.Subquery, exp.Exists, exp.Query)) or (
                isinstance(node, exp.In) and node.args.get("query")
            ):
                raise unsupported(node, "a subquery in an expression")
            if isinstance(node, exp.Window):
                raise unsupported(node, "a window function")
            if isinstance(node, (exp.Explode, exp.Posexplode, exp.Inline, exp.UDTF)):
                raise unsupported(node, "a generator function")
        bound = {
            id(parameter)
            for lambda_ in expression.find_all(exp.Lambda)
            for parameter in _lambda_columns(lambda_)
        }

        def change(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column) and id(node) not in bound:
                if isinstance(node.this, exp.Star):
                    raise unsupported(node, "* inside an expression")
                return resolve_column(node, scope, aliases)
            return node

        return _transform(expression, change)

    def _filter(self, node: Node, condition: exp.Expr) -> Node:
        return Filter(node.schema, node, condition)

    def _named(self, columns: Sequence[tuple[str, exp.Expr]]) -> list[tuple[str, exp.Expr]]:
        """Columns under unique names; one that passes through keeps its own."""
        result: list[tuple[str, exp.Expr]] = []
        taken: set[str] = set()
        for hint, expression in columns:
            passes = isinstance(expression, exp.Column) and expression.name not in taken
            name = expression.name if passes else self.names.fresh(hint)
            taken.add(name)
            result.append((name, expression))
        return result

    def _project(self, node: Node, columns: Sequence[tuple[str, exp.Expr]]) -> Project:
        types = self.analyzer.types(node.schema, [e for _, e in columns])
        schema = tuple(Field(name, t) for (name, _), t in zip(columns, types, strict=True))
        return Project(schema, node, tuple(e for _, e in columns))

    # SELECT

    def _select(self, select: exp.Select, ctes: _Ctes) -> _Built:
        _refuse_clauses(select, _SELECT_CLAUSES)
        if select.args.get("kind"):
            raise unsupported(select, f"SELECT {select.args['kind']}")
        node, scope = self._from(select, ctes)
        if select.args.get("where"):
            node = self._filter(node, self._scalar(select.args["where"].this, scope, {}))
        items = _expand_stars(select.expressions, scope)
        having = select.args.get("having")
        group = select.args.get("group")
        grouped = group is not None or any(
            _aggregates_in(e) for e in [*(e for _, e in items), *([having.this] if having else [])]
        )
        if grouped or having:
            built = self._grouped(node, scope, items, group, having)
        else:
            aliases: dict[str, exp.Expr] = {}
            columns: list[tuple[str, exp.Expr]] = []
            for name, written in items:
                resolved = self._scalar(written, scope, aliases)
                columns.append((name, resolved))
                aliases.setdefault(folded(name), resolved)
            projected = self._project(node, self._named(columns))
            built = _Built(projected, tuple(name for name, _ in items))
        if select.args.get("distinct"):
            if select.args["distinct"].args.get("on"):
                raise unsupported(select, "DISTINCT ON")
            node = built.node
            built = _Built(Aggregate(node.schema, node, node.names, ()), built.names)
        return built

    def _grouped(
        self,
        node: Node,
        scope: Scope,
        items: list[tuple[str, exp.Expr]],
        group: exp.Group | None,
        having: exp.Having | None,
    ) -> _Built:
        keys: list[exp.Expr] = []
        for written in _group_items(group, items, scope):
            key = self._scalar(written, scope, {})
            if key not in keys:
                keys.append(key)
        reader = _AggregateReader(self, scope, keys)
        aliases = {folded(name): e for name, e in reversed(items)}
        selected = [(name, reader.read(e)) for name, e in items]
        condition = reader.read(having.this, aliases) if having else None
        result = reader.aggregate(node, scalar=group is None)
        if condition is not None:
            result = self._filter(result, condition)
        projected = self._project(result, self._named(selected))
        return _Built(projected, tuple(name for name, _ in items))

    # Set operations

    def _union(self, union: exp.Union, ctes: _Ctes) -> _Built:
        _refuse_clauses(union, {"this", "expression", "distinct", "with_", "with", "by_name"})
        if union.args.get("by_name"):
            raise unsupported(union, "UNION BY NAME")
        left, right = self.query(union.left, ctes), self.query(union.right, ctes)
        types = [
            a.type if a.type == b.type else self.analyzer.union_type(a.type, b.type)
            for a, b in zip(left.node.schema, right.node.schema, strict=True)
        ]
        schema = tuple(
            Field(self.names.fresh(name), t) for name, t in zip(left.names, types, strict=True)
        )
        inputs = tuple(self._cast_to(side.node, types) for side in (left, right))
        node: Node = UnionAll(schema, inputs)
        if union.args.get("distinct"):
            node = Aggregate(node.schema, node, node.names, ())
        return _Built(node, left.names)

    def _cast_to(self, node: Node, types: Sequence[T.DataType]) -> Node:
        if [f.type for f in node.schema] == list(types):
            return node
        columns = [
            (f.name, cast_to(column(f.name), f.type, t))
            for f, t in zip(node.schema, types, strict=True)
        ]
        return self._project(node, self._named(columns))


@dataclass
class _AggregateReader:
    """Turns expressions over groups into expressions over the output of one `Aggregate`."""

    builder: _Builder
    scope: Scope
    keys: list[exp.Expr]
    key_names: list[str] = field(default_factory=list)
    inputs: dict[exp.Expr, str] = field(default_factory=dict)
    calls: dict[exp.Expr, Call] = field(default_factory=dict)
    untyped: list[tuple[exp.Expr, Call]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for key in self.keys:
            self.key_names.append(self._input(key, "key"))

    def _input(self, expression: exp.Expr, hint: str) -> str:
        if expression not in self.inputs:
            plain = isinstance(expression, exp.Column)
            self.inputs[expression] = expression.name if plain else self.builder.names.fresh(hint)
        return self.inputs[expression]

    def read(self, expression: exp.Expr, aliases: dict[str, exp.Expr] | None = None) -> exp.Expr:
        refuse_unstable(expression)
        call = self._call(expression)
        if call is not None:
            return column(call.name)
        if not _aggregates_in(expression):
            resolved = self._resolved(expression, aliases)
            return self._over_keys(resolved, expression)
        copy = expression.copy()
        for key, value in list(copy.args.items()):
            if isinstance(value, exp.Expr):
                copy.set(key, self.read(value, aliases))
            elif isinstance(value, list):
                copy.set(
                    key,
                    [self.read(v, aliases) if isinstance(v, exp.Expr) else v for v in value],
                )
        return copy

    def _resolved(self, expression: exp.Expr, aliases: dict[str, exp.Expr] | None) -> exp.Expr:
        if not aliases:
            return self.builder._scalar(expression, self.scope, {})
        marks: dict[str, exp.Expr] = {}
        for name, written in aliases.items():
            marks[name] = self.read(written)
        return self.builder._scalar(expression, self.scope, marks)

    def _over_keys(self, resolved: exp.Expr, written: exp.Expr) -> exp.Expr:
        known = {*self.key_names, *(call.name for call in self.calls.values())}

        def change(node: exp.Expr) -> exp.Expr:
            if node in self.keys:
                return column(self.key_names[self.keys.index(node)])
            return node

        result = _transform(resolved, change)
        outside = columns_in(result) - known
        if outside:
            raise unsupported(written, "a column that is neither grouped nor aggregated")
        return result

    def _call(self, expression: exp.Expr) -> Call | None:
        condition: exp.Expr | None = None
        node = expression
        if isinstance(node, exp.Filter):
            condition, node = node.expression.this, node.this
        inner = node.this if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)) else node
        if not is_aggregate(inner):
            return None
        reading = read_call(node)
        if reading is None:
            raise unsupported(inner, f"the aggregate {inner.sql(dialect='spark')}")
        scalar = self.builder._scalar
        arguments = [scalar(a, self.scope, {}) for a in reading.arguments]
        resolved_condition = None if condition is None else scalar(condition, self.scope, {})
        identity = exp.Tuple(
            expressions=[
                exp.Literal.string(f"{reading.function} {reading.distinct} {reading.parameters}"),
                *arguments,
                *([exp.Filter(this=resolved_condition)] if resolved_condition is not None else []),
            ]
        )
        if identity in self.calls:
            return self.calls[identity]
        original = _transform(
            expression,
            lambda n: resolve_column(n, self.scope, {}) if isinstance(n, exp.Column) else n,
        )
        call = Call(
            name=self.builder.names.fresh(reading.function),
            function=reading.function,
            arguments=tuple(self._input(a, "argument") for a in arguments),
            type=T.NullType(),
            distinct=reading.distinct,
            condition=None
            if resolved_condition is None
            else self._input(resolved_condition, "condition"),
            parameters=reading.parameters,
        )
        self.calls[identity] = call
        self.untyped.append((original, call))
        return call

    def aggregate(self, node: Node, scalar: bool) -> Node:
        types = self.builder.analyzer.types(node.schema, [e for e, _ in self.untyped])
        calls = tuple(
            Call(c.name, c.function, c.arguments, t, c.distinct, c.condition, c.parameters)
            for (_, c), t in zip(self.untyped, types, strict=True)
        )
        below = self.builder._project(node, [(name, e) for e, name in self.inputs.items()])
        keys = tuple(Field(name, below.type_of(name)) for name in self.key_names)
        schema = keys + tuple(Field(c.name, c.type) for c in calls)
        return Aggregate(schema, below, tuple(self.key_names), calls, scalar)


def cast_to(expression: exp.Expr, source: T.DataType, target: T.DataType) -> exp.Expr:
    """The expression in the target type."""
    if source == target:
        return expression
    return exp.Cast(this=expression, to=exp.DataType.build(type_text(target), dialect="spark"))


def split_join_condition(
    condition: exp.Expr, left: set[str], right: set[str]
) -> tuple[list[tuple[exp.Expr, exp.Expr]], list[exp.Expr]]:
    """The pairs that an equi-join can use as keys, and what is left."""
    keys: list[tuple[exp.Expr, exp.Expr]] = []
    rest: list[exp.Expr] = []
    for part in conjuncts(condition):
        if isinstance(part, exp.EQ):
            here, there = columns_in(part.left), columns_in(part.right)
            if here and there and here <= left and there <= right:
                keys.append((part.left, part.right))
                continue
            if here and there and here <= right and there <= left:
                keys.append((part.right, part.left))
                continue
        rest.append(part)
    return keys, rest


def unsupported(node: exp.Expr, what: str) -> IncrementalError:
    """The refusal of a construct, with its place."""
    return error("INCR_UNSUPPORTED", what=what, position=position_of(node))


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


def _using_first(scope: Scope, using: list[str]) -> Scope:
    """In `*`, the columns of USING come first."""
    wanted = [folded(name) for name in using]
    first = [c for name in wanted for c in scope.columns if c.starred and folded(c.name) == name]
    return Scope(tuple(first) + tuple(c for c in scope.columns if c not in first))


def _expand_stars(items: Sequence[exp.Expr], scope: Scope) -> list[tuple[str, exp.Expr]]:
    result: list[tuple[str, exp.Expr]] = []
    for item in items:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            _refuse_clauses(star, set())
            qualifier = None
            if isinstance(item, exp.Column):
                qualifier = tuple(part.name for part in item.parts[:-1])
            for visible in scope.star(qualifier):
                parts = [*visible.qualifier, visible.name]
                result.append((visible.name, exp.column(*reversed(parts), quoted=True)))
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
        return [e for _, e in items if not _aggregates_in(e)]
    _refuse_clauses(group, {"expressions"})
    result: list[exp.Expr] = []
    for written in group.expressions:
        if isinstance(written, exp.Literal) and not written.is_string:
            result.append(items[int(written.this) - 1][1])
        elif (
            isinstance(written, exp.Column)
            and len(written.parts) == 1
            and not scope.find((), written.name)
            and (found := [e for name, e in items if folded(name) == folded(written.name)])
        ):
            result.append(found[0])
        else:
            result.append(written)
    return result


def _aggregates_in(expression: exp.Expr) -> bool:
    return any(is_aggregate(n) for n in expression.walk() if not isinstance(n, exp.Window))


def _lambda_columns(lambda_: exp.Lambda) -> list[exp.Column]:
    parameters = {folded(p.name) for p in lambda_.expressions}
    return [c for c in lambda_.this.find_all(exp.Column) if folded(c.parts[0].name) in parameters]


def _transform(expression: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A changed copy; what has been put in is not looked into again."""
    changed = change(expression)
    if changed is not expression:
        return changed
    copy = type(expression)()
    copy.args = {}
    for key, value in expression.args.items():
        if isinstance(value, exp.Expr):
            copy.set(key, _transform(value, change))
        elif isinstance(value, list):
            copy.set(
                key,
                [_transform(v, change) if isinstance(v, exp.Expr) else v for v in value],
            )
        else:
            copy.set(key, value)
    return copy
