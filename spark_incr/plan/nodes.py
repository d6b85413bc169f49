"""The algebra: relations as trees of frozen nodes.

Each node has a schema whose column names are unique in the whole plan, so an expression refers to
its input by bare names and can move between nodes without renaming. Keys and arguments of joins
and aggregates are always columns of the input; what has to be computed is computed by a
`Project` below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.types import Schema
from spark_incr.sql.dialect import is_suffixed


@dataclass(frozen=True)
class Node:
    """A relation."""

    schema: Schema

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.schema)

    def type_of(self, name: str) -> T.DataType:
        return next(field.type for field in self.schema if field.name == name)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """The same node over other inputs of the same schemas."""
        return self


@dataclass(frozen=True)
class Scan(Node):
    """The rows of a named relation; `columns` are its columns in the order of the schema.

    `unique` are columns of the relation that no two of its rows agree on, if there are such. Of
    an `append_only` relation no row ever leaves.
    """

    relation: str
    columns: tuple[str, ...]
    unique: tuple[str, ...] = ()
    append_only: bool = False


@dataclass(frozen=True)
class Single(Node):
    """One row without columns: the input of a SELECT without FROM."""


@dataclass(frozen=True)
class Unary(Node):
    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])


@dataclass(frozen=True)
class Project(Unary):
    """One expression per column of the schema."""

    expressions: tuple[exp.Expr, ...]


@dataclass(frozen=True)
class Filter(Unary):
    """The rows for which the condition is true."""

    condition: exp.Expr


class JoinKind(Enum):
    """Which rows a join keeps besides the pairs, or instead of them."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"

    @property
    def left_only(self) -> bool:
        """Whether the result has the columns of the left side alone."""
        return self in (JoinKind.SEMI, JoinKind.ANTI)


@dataclass(frozen=True)
class Repeat(Unary):
    """Each row as often as its column `times` says; the column is not in the result."""

    times: str


@dataclass(frozen=True)
class AtMostOne(Unary):
    """The rows of the input; one whose column `count` is above 1 is Spark's error about a scalar
    subquery with several rows."""

    count: str


@dataclass(frozen=True)
class Rederive(Unary):
    """What a query over `RELATION` gives for the rows of each key, one key at a time.

    The query reads all columns of the input and its result holds the key columns. It must give for
    the rows of several keys what it gives for each of them, put together: window functions
    partitioned by the key and aggregates grouped by it do. Without keys all rows are one group.
    """

    keys: tuple[str, ...]
    query: exp.Expr
    reason: str


@dataclass(frozen=True)
class Reapply(Unary):
    """What a query over `RELATION` gives for the rows of each key, one key at a time.

    The query gives for the rows of several keys what it gives for each of them, put together, and for
    the same rows the same each time. Its result need not tell which key a row is of.
    """

    keys: tuple[str, ...]
    query: exp.Expr
    reason: str


@dataclass(frozen=True)
class Window(Unary):
    """The rows of the input with a column per window function, all over one partitioning.

    A function is its name and the call with frame and order; its operands are columns of the input
    or expressions over them. Its PARTITION BY is `keys`.
    """

    keys: tuple[str, ...]
    functions: tuple[tuple[str, exp.Window], ...]


@dataclass(frozen=True)
class Recompute(Node):
    """What a query that is not taken apart gives for the rows of all its inputs.

    `relations` are the names under which the query reads the inputs, and those of their columns.
    """

    sources: tuple[Node, ...]
    relations: tuple[tuple[str, tuple[str, ...]], ...]
    query: str
    tier: str
    reason: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.sources

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, sources=inputs)


@dataclass(frozen=True)
class Generate(Unary):
    """The rows that a generator function over the input's columns makes of each row.

    The schema has columns of the input and then those that are `made`; with `outer` a row of which
    nothing is made is kept, with NULLs.
    """

    generator: exp.Expr
    made: tuple[str, ...]
    outer: bool = False


@dataclass(frozen=True)
class SortKey:
    """A column to order by."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class Limit(Unary):
    """The rows from `offset` on, `limit` at most, in an order that is made total.

    After the sort keys rows are ordered by all their columns, so that the result depends on
    nothing but the rows, also where the keys tie. With `keys` that is so for the rows of each key.
    """

    order: tuple[SortKey, ...]
    limit: int | None
    offset: int = 0
    keys: tuple[str, ...] = ()


RELATION = "__incr_rows"


@dataclass(frozen=True)
class Constant(Node):
    """The rows of a query that reads no table: VALUES, range() and the like."""

    query: str


@dataclass(frozen=True)
class Join(Node):
    """Pairs of rows that agree on the keys.

    Keys are pairs of columns of one type; NULL agrees with NULL where `null_safe` says so for the
    key, and with nothing otherwise. Without keys all rows agree.
    """

    left: Node
    right: Node
    keys: tuple[tuple[str, str], ...]
    kind: JoinKind = JoinKind.INNER
    null_safe: tuple[bool, ...] = ()
    exact: bool = False
    """Keys are compared bit by bit: -0.0 is not 0.0."""
    where: exp.Expr | None = None
    """What else pairs have to meet, if the join is none of pairs alone."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, left=inputs[0], right=inputs[1])


@dataclass(frozen=True)
class UnionAll(Node):
    """The sum of relations whose columns agree in number and type."""

    relations: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.relations

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, relations=inputs)


@dataclass(frozen=True)
class Call:
    """An aggregate function over columns of the input.

    `function` is a name of `plan.aggregates.FUNCTIONS`; `parameters` are its constants; rows count
    only where the column `condition` is true.
    """

    name: str
    function: str
    arguments: tuple[str, ...]
    type: T.DataType
    distinct: bool = False
    condition: str | None = None
    parameters: tuple[Any, ...] = ()
    expression: exp.Expr | None = None
    """The call as written, where the function is to be evaluated so."""


@dataclass(frozen=True)
class Aggregate(Unary):
    """One row per key, with the key columns and a column per call.

    A `scalar` aggregate has no key and always one row, also over nothing.
    """

    keys: tuple[str, ...]
    calls: tuple[Call, ...]
    scalar: bool = False
    exact: bool = False
    """Keys are compared bit by bit: -0.0 is not 0.0, as for whole rows of a bag."""


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, inputs first."""
    for child in node.inputs:
        yield from walk(child)
    yield node


def rewrite(node: Node, rule: Callable[[Node], Node]) -> Node:
    """Apply a rule to every node, inputs first; a node that stands in several places once."""
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if id(node) not in done:
            inputs = tuple(visit(child) for child in node.inputs)
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            done[id(node)] = rule(node if same else node.with_inputs(inputs))
        return done[id(node)]

    return visit(node)


def column(name: str) -> exp.Column:
    """A reference to a column of the input."""
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def columns_in(expression: exp.Expr) -> set[str]:
    """The columns of the input that an expression reads."""
    return {c.name for c in expression.find_all(exp.Column)}


def substitute(expression: exp.Expr, values: dict[str, exp.Expr]) -> exp.Expr:
    """The expression with columns replaced."""

    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name in values:
            value = values[node.name].copy()
            return value if node is whole else _in_place(value)
        return node

    whole = expression.copy()
    return whole.transform(change, copy=False)


def _in_place(value: exp.Expr) -> exp.Expr:
    """What a column holds, in the place of the column.

    A whole number is no literal there: beside a decimal Spark counts the digits of a literal, but takes
    a column for as many as its type has.
    """
    type_ = _written_type(value)
    if type_ is not None:
        return exp.Cast(this=value, to=type_)
    return value if isinstance(value, (exp.Column, exp.Literal)) else exp.Paren(this=value)


def _written_type(value: exp.Expr) -> exp.DataType | None:
    """The type of a whole number that is written, or of a literal that has it behind it; else None."""
    if is_suffixed(value):
        return next(value.find_all(exp.DataType)).copy()
    number = int(value.to_py()) if value.is_int else 2**63
    kinds = (("INT", 31), ("BIGINT", 63))
    fitting = [name for name, bits in kinds if -(2**bits) <= number < 2**bits]
    return exp.DataType.build(fitting[0]) if fitting else None


def conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """The conditions that AND joins, in order."""
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        return conjuncts(condition.left) + conjuncts(condition.right)
    return [condition]
