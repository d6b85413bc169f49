"""What surrounds a query while it becomes a plan: relations, CTEs, and the queries around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.context import Analyzer, Context
from spark_incr.plan.joins import only
from spark_incr.plan.nodes import Node, Project, SortKey, column, columns_in
from spark_incr.plan.scope import Names, Scope
from spark_incr.plan.types import Field, Schema


@dataclass(frozen=True)
class Known:
    """A relation: the engine's name for it, its columns, those that are unique together, whether
    rows only ever come, and the order in which they are read."""

    name: str
    schema: Schema
    unique: tuple[str, ...] = ()
    append_only: bool = False
    order: tuple[SortKey, ...] = ()


class Catalog(Protocol):
    """The relations a query may read."""

    def relation(self, parts: tuple[str, ...]) -> Known | None:
        """What is known of a relation that a query names."""


@dataclass(frozen=True)
class Built:
    """A query's plan and the names of its columns as the query gives them.

    Where somebody asks for the `order` of the rows, its keys are columns behind those that have names.
    """

    node: Node
    names: tuple[str, ...]
    order: tuple[SortKey, ...] = ()

    @property
    def shown(self) -> Built:
        """The columns that have names, in no order."""
        return Built(only(self.node, self.node.names[: len(self.names)]), self.names)


@dataclass(frozen=True)
class Cte:
    """A named query, and what it may read itself: CTEs, and the queries around its clause."""

    definition: exp.CTE
    ctes: Mapping[str, Cte]
    outer: tuple[tuple[Scope, Schema], ...] = ()
    recursive: bool = False


@dataclass(frozen=True)
class Environment:
    """What a query may refer to besides its own FROM clause; `build` makes the plan of a query."""

    catalog: Catalog
    context: Context
    build: Callable[[exp.Expr, Environment], Built]
    outer: tuple[tuple[Scope, Schema], ...] = ()
    ctes: Mapping[str, Cte] = field(default_factory=dict)
    plans: dict[int, tuple[exp.CTE, Built]] = field(default_factory=dict)
    """The plans of CTEs that have been read, by the identity of their definitions."""
    keeps_order: bool = False
    """Whether the order of a query's rows decides what stands above takes of them."""

    @property
    def analyzer(self) -> Analyzer:
        return self.context.analyzer

    @property
    def names(self) -> Names:
        return self.context.names

    def query(self, query: exp.Expr) -> Built:
        """The plan of a query that stands here."""
        return self.build(query, replace(self, keeps_order=False))

    def sorted_query(self, query: exp.Expr) -> Built:
        """The plan of a query that stands here, with the order of its rows."""
        return self.build(query, replace(self, keeps_order=True))

    def inside(self, scope: Scope, schema: Schema) -> Environment:
        """The environment of a subquery, which may read the columns of the query around it."""
        return replace(self, outer=((scope, schema), *self.outer))

    def types(self, schema: Schema, expressions: Sequence[exp.Expr]) -> list[T.DataType]:
        """The types of expressions over columns, those of outer queries included."""
        around = tuple(f for _, fields in self.outer for f in fields)
        needed = {name for e in expressions for name in columns_in(e)} - {f.name for f in schema}
        return self.analyzer.types((*schema, *(f for f in around if f.name in needed)), expressions)

    def project(self, node: Node, columns: Sequence[tuple[str, exp.Expr]]) -> Project:
        """Expressions as columns of these names, which are free."""
        types = self.types(node.schema, [e for _, e in columns])
        schema = tuple(Field(name, t) for (name, _), t in zip(columns, types, strict=True))
        return Project(schema, node, tuple(e for _, e in columns))

    def renamed(self, built: Built) -> Built:
        """The same rows once more, in columns of their own."""
        fresh = {name: self.names.fresh(name) for name in built.node.names}
        node = self.project(built.node, [(fresh[name], column(name)) for name in fresh])
        order = tuple(replace(key, column=fresh[key.column]) for key in built.order)
        return Built(node, built.names, order)

    def named(
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
