"""What every production draws with: choices, names, and expressions over the columns in scope."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from spark_incr.plan.types import Schema
from tests.grammar.words import (
    AGGREGATES,
    COMPARABLE,
    LITERALS,
    NOISY,
    OVER_AGGREGATES,
    SCALARS,
    USER_SCALARS,
)

Option = TypeVar("Option")


@dataclass(frozen=True)
class Column:
    """A column that an expression may read: how it is written, and its kind."""

    text: str
    kind: str

    @property
    def name(self) -> str:
        """Its name without that of the relation."""
        return self.text.rsplit(".", 1)[-1]


@dataclass(frozen=True)
class Select:
    """A query and the kinds of its columns by name."""

    text: str
    columns: tuple[Column, ...]


Scope = Sequence[Column]
Relation = tuple[str, list[Column]]
Production = Callable[["Draw", int], Select]
_SLOT = re.compile(r"\{(?:(\d):)?(\w+)\}")


def comparable(scope: Scope) -> list[Column]:
    """The columns that may be compared, grouped and ordered."""
    return [c for c in scope if c.kind in COMPARABLE]


def pairs(left: Scope, right: Scope) -> list[tuple[Column, Column]]:
    """Columns of two relations that may be equal."""
    return [(a, b) for a in left for b in right if a.kind == b.kind and a.kind in COMPARABLE]


class Draw:
    """A source of random choices over tables, and what has been named so far.

    `query` draws any query; `scalar` and `test` draw subqueries, as values and as conditions.
    With `functions`, those of users are drawn, too.
    """

    def __init__(
        self,
        random: Random,
        tables: Mapping[str, Schema],
        query: Production,
        scalar: Callable[[Draw, Scope, str], str],
        test: Callable[[Draw, Scope], str],
        functions: bool = False,
    ) -> None:
        self.random = random
        self.tables = tables
        self.ctes: dict[str, Select] = {}
        self._number = 0
        self._query = query
        self._scalar = scalar
        self._test = test
        self._subqueries = 0
        self.functions = functions

    @contextmanager
    def without_functions(self) -> Iterator[None]:
        """Where Spark takes no functions of Python."""
        before, self.functions = self.functions, False
        try:
            yield
        finally:
            self.functions = before

    def query(self, depth: int) -> Select:
        return self._query(self, depth)

    def choose(self, options: Sequence[Option]) -> Option:
        return self.random.choice(options)

    def chance(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def shuffled(self, options: Sequence[Option]) -> list[Option]:
        return self.random.sample(options, len(options))

    def name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    # Expressions

    def filled(self, template: str, scope: Scope, depth: int) -> str:
        """The template with operands; `{0:int}` is one operand wherever it stands."""
        shared: dict[str, str] = {}

        def operand(slot: re.Match[str]) -> str:
            if slot[1] is None:
                return self.expression(scope, slot[2], depth)
            if slot[1] not in shared:
                shared[slot[1]] = self.expression(scope, slot[2], depth)
            return shared[slot[1]]

        return _SLOT.sub(operand, template)

    def expression(self, scope: Scope, kind: str, depth: int) -> str:
        """An expression of a kind, in parentheses where it is compound."""
        columns = [c.text for c in scope if c.kind == kind]
        if columns and (depth <= 0 or self.chance(2)):
            return self.choose(columns)
        if depth <= 0 or self.chance(6):
            return self.choose([*columns, *LITERALS[kind]])
        if self.functions and kind in USER_SCALARS and self.chance(3):
            return self.filled(self.choose(USER_SCALARS[kind]), scope, depth - 1)
        if self.chance(25):
            return self.subquery(scope, kind)
        present = {c.kind for c in scope}
        reading = [t for t in SCALARS[kind] if {m[1] for m in _SLOT.findall(t)} <= present]
        templates = reading if reading and not self.chance(4) else SCALARS[kind]
        return f"({self.filled(self.choose(templates), scope, depth - 1)})"

    def subquery(self, scope: Scope, kind: str) -> str:
        """A subquery as a value; one within another reads the columns around it, a third none."""
        if self._subqueries > 1:
            return self.expression(scope, kind, 0)
        self._subqueries += 1
        try:
            if kind == "bool" and self.chance(2):
                return f"({self._test(self, scope)})"
            return self._scalar(self, scope, kind)
        finally:
            self._subqueries -= 1

    def value(self, scope: Scope, depth: int) -> Column:
        """Some expression, most often over the kinds that there are."""
        own = [c.kind for c in comparable(scope)]
        shown = [c for c in scope if c.kind not in COMPARABLE]
        if shown and self.chance(2):
            return self.choose(shown)
        kind = self.choose(own) if own and not self.chance(4) else self.choose([*COMPARABLE, "map"])
        return Column(self.expression(scope, kind, depth), kind)

    def condition(self, scope: Scope) -> str:
        """A condition of WHERE, HAVING and their like, at times with a subquery."""
        if self.chance(4):
            return self.subquery(scope, "bool")
        return self.expression(scope, "bool", 2)

    def ordered(self, scope: Scope) -> str:
        """All columns as keys of an order, so that only equal rows tie."""
        ways = ["", " DESC", " NULLS LAST", " ASC NULLS FIRST", " DESC NULLS FIRST"]
        return ", ".join(c.text + self.choose(ways) for c in self.shuffled(scope))

    # Aggregates

    def aggregate(self, scope: Scope) -> Column:
        """A call over the rows of a group, at times over some of them."""
        noisy = [c for c in scope if c.kind == "approx"]
        own = comparable(scope)
        if noisy and self.chance(2):
            function, kind = self.choose(NOISY)
            return Column(f"{function}({self.choose(noisy).text})", kind)
        if self.chance(8):
            return self.called(self.choose(OVER_AGGREGATES), scope)
        if own and self.chance(8):
            return self.greatest(own)
        call = self.called(self.choose(AGGREGATES), scope)
        if "FILTER" not in call.text and self.chance(5):
            return Column(
                f"{call.text} FILTER (WHERE {self.expression(scope, 'bool', 1)})", call.kind
            )
        return call

    def called(self, template: tuple[str, str], scope: Scope, depth: int | None = None) -> Column:
        """The template of a call with its operands."""
        text, result = template
        kind = self.choose([c.kind for c in comparable(scope)] or ["int"])
        depth = self.choose([0, 0, 1]) if depth is None else depth
        call = self.filled(text.replace("{k}", "{" + kind + "}"), scope, depth)
        return Column(call, result.replace("{k}", kind))

    def greatest(self, own: Scope) -> Column:
        """The value at the end of an order, of which it is a part: nothing else ties."""
        by, chosen = self.choose(own), self.choose(own)
        order = f"named_struct('by', {by.text}, 'chosen', {chosen.text})"
        function = self.choose(["min_by", "max_by"])
        return Column(f"{function}({chosen.text}, {order})", chosen.kind)

    # SELECT

    def named(self, items: Scope) -> tuple[str, tuple[Column, ...]]:
        """The items under names of their own, as they are listed and as they are read."""
        columns = tuple(Column(self.name("a"), i.kind) for i in items)
        return ", ".join(
            f"{i.text} AS {c.text}" for i, c in zip(items, columns, strict=True)
        ), columns

    def select(self, items: Scope, rest: str, distinct: str = "") -> Select:
        listed, columns = self.named(items)
        return Select(f"SELECT {distinct}{listed} FROM {rest}", columns)
