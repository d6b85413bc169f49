"""What builders and rules may ask: Spark's types, and column names that are free."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.scope import Names
from spark_incr.plan.types import Schema
from spark_incr.sql.written_names import Name


@dataclass(frozen=True)
class SessionFunction:
    """A function that a user has registered."""

    aggregates: bool
    deterministic: bool
    body: str = ""
    """What a function of SQL is made of: a query if it gives rows, else an expression."""
    inputs: str = ""
    """The parameters of a function of SQL, as JSON."""
    returns: str = ""
    """The columns of a function of SQL whose query is part of the plan, as JSON."""
    gives_rows: bool = False
    """Whether it stands in FROM."""
    in_batches: bool = False
    """Whether it is a table function of Python that is given rows in batches of any length."""

    @property
    def made_of(self) -> list[str]:
        """What a function of SQL is made of, its defaults included, as queries."""
        fields = json.loads(self.inputs)["fields"] if self.inputs else []
        defaults = (f["metadata"].get("default") for f in fields)
        body = self.body if self.gives_rows or not self.body else f"SELECT {self.body}"
        return [*filter(None, [body]), *(f"SELECT {d}" for d in defaults if d)]


@dataclass(frozen=True)
class Read:
    """A place of a text, from one character to before another, that names a relation.

    The last part of the name is `hidden` where it is that of a CTE too.
    """

    start: int
    stop: int
    parts: tuple[str, ...]
    hidden: bool


LEFT_GROUPS, ALL_GROUPS = "left", "all"


class Analyzer(Protocol):
    """What only Spark knows, and what the relations hold."""

    @property
    def recomputed(self) -> str:
        """Why the query of the view is computed anew with each batch; empty if it is not."""

    def windows_see(self) -> str:
        """The groups of GROUPING SETS that windows see beside HAVING: those that it leaves, or all, as
        Spark resolves the one or the other first; empty if it does both in one query."""

    @property
    def case_sensitive(self) -> bool:
        """Whether names of a query differ by their case."""

    def session_function(self, name: str, arguments: int) -> SessionFunction | None:
        """What a name means if it is a function of the session and not Spark's own."""

    def types(self, schema: Schema, expressions: Sequence[exp.Expr]) -> list[T.DataType]:
        """The types of expressions over columns."""

    def generated(self, schema: Schema, generator: exp.Expr) -> Schema:
        """The columns that a generator function over columns makes."""

    def query_schema(self, text: str) -> Schema:
        """The output of a query, or Spark's error about it."""

    def names(self, text: str) -> tuple[Name, ...]:
        """The places of a query that are names or say some, if it takes that to read it."""

    def reads(self, text: str) -> Sequence[Read]:
        """The places where a query names relations, in order."""

    def output(self, query: str, relations: Mapping[str, Schema]) -> Schema:
        """The output of a query that reads nothing but these relations."""

    def integer(self, expression: exp.Expr) -> int:
        """The value of an expression over nothing that is a whole number."""

    def comparison_type(self, left: T.DataType, right: T.DataType) -> T.DataType:
        """The type in which Spark compares values of two types."""

    def union_type(self, left: T.DataType, right: T.DataType) -> T.DataType:
        """The type of a column in the union of two relations."""

    def rows(self, relation: str) -> int:
        """About how many rows a relation held when the view was made; 0 if that is not known."""

    def distinct(self, relation: str, column: str) -> int:
        """About how many values a column of a relation had then."""


@dataclass(frozen=True)
class Context:
    """Spark's word on types, and a source of names."""

    analyzer: Analyzer
    names: Names
    memberships: set[exp.Expr] = field(default_factory=set, compare=False)
    """The values of IN (subquery) and of NOT IN."""
    negations: bool = False
    """Whether these values are to know their negation."""
