"""Names in scope: from what a query writes to the unique columns of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from sqlglot import exp

from spark_incr.errors import IncrementalError, Position, error
from spark_incr.plan.nodes import SortKey, column
from spark_incr.sql.dialect import position_of

_case_sensitive = ContextVar("case_sensitive", default=False)


def folded(name: str) -> str:
    """Names of relations and of what they hold are compared without regard to case."""
    return name.lower()


def spelled(name: str) -> str:
    """The form in which names that a query writes are compared: as the view's session does."""
    return name if _case_sensitive.get() else folded(name)


@contextmanager
def names_compared(case_sensitive: bool) -> Iterator[None]:
    """Whether the names of the query that is read here differ by their case."""
    token = _case_sensitive.set(case_sensitive)
    try:
        yield
    finally:
        _case_sensitive.reset(token)


class Bound(exp.Expression):
    """A column of the plan in a tree as written: what `*` stands for is known already."""

    arg_types = {"this": True}  # noqa: RUF012, as sqlglot declares it


@dataclass(frozen=True)
class Visible:
    """A column that a query may name.

    `length` is that of CHAR. `starred` columns are what `*` stands for, `bare` ones can be named without their qualifier; a
    column that USING has merged into another is neither.
    """

    qualifier: tuple[str, ...]
    name: str
    column: str
    length: int | None = None
    starred: bool = True
    bare: bool = True


@dataclass(frozen=True)
class Scope:
    """The columns of a FROM clause, in order, and what its rows are sorted by, if that is known."""

    columns: tuple[Visible, ...] = ()
    order: tuple[SortKey, ...] = ()

    def __add__(self, other: Scope) -> Scope:
        return Scope(self.columns + other.columns)

    def star(self, qualifier: tuple[str, ...] | None) -> list[Visible]:
        """What `*` or `qualifier.*` stands for."""
        if qualifier is None:
            return [c for c in self.columns if c.starred]
        return [c for c in self.columns if _qualifies(qualifier, c.qualifier)]

    def find(self, qualifier: tuple[str, ...], name: str) -> list[Visible]:
        """The columns a name may mean."""
        return [
            c
            for c in self.columns
            if spelled(c.name) == spelled(name)
            and (_qualifies(qualifier, c.qualifier) if qualifier else c.bare)
        ]

    def length(self, column: str) -> int | None:
        """How long a column of the plan is, if it is one of CHAR here."""
        return next((c.length for c in self.columns if c.column == column), None)

    def hiding(self, columns: Sequence[Visible]) -> Scope:
        """The scope where these columns are reachable by qualifier only: the first of a qualifier's."""
        hidden = tuple(replace(c, starred=False, bare=False) for c in columns)
        return Scope((*hidden, *(c for c in self.columns if c not in columns)))

    def led_by(self, columns: Sequence[Visible]) -> Scope:
        """The scope in which these are the first of the columns that are not hidden."""
        hidden = (c for c in self.columns if not c.bare)
        rest = (c for c in self.columns if c.bare and c not in columns)
        return Scope((*hidden, *columns, *rest))


def _qualifies(written: tuple[str, ...], actual: tuple[str, ...]) -> bool:
    """Whether a written qualifier names a relation: t, or db.t for a relation known as db.t."""
    tail = actual[-len(written) :] if len(written) <= len(actual) else ()
    return tuple(map(spelled, written)) == tuple(map(spelled, tail))


@dataclass
class Names:
    """A source of column names that are unique in one plan and close to what was written."""

    used: set[str] = field(default_factory=set)

    def fresh(self, hint: str) -> str:
        name, number = hint, 1
        while folded(name) in self.used:
            number += 1
            name = f"{hint}_{number}"
        self.used.add(folded(name))
        return name


class UnknownNameError(IncrementalError):
    """A name that is no column of the query it stands in, nor of one around it."""

    def __init__(self, node: exp.Column) -> None:
        refusal = error("INCR_UNSUPPORTED", what=f"the name {'.'.join(p.name for p in node.parts)}")
        detail = "It is not a column of the FROM clause of its own query or of one around it."
        super().__init__(refusal.condition, refusal.message, detail, "", position_of(node))


def resolve_column(
    node: exp.Column,
    scope: Scope,
    aliases: Mapping[str, exp.Expr],
    outer: Sequence[Scope] = (),
) -> exp.Expr:
    """The plan's expression for a column as written: a column, a field of a struct, or an alias.

    Parts are tried as relation, column and fields in this order, the longest relation first, as
    Spark does; an alias of the SELECT list counts only where no column has the name, and a column
    of an outer query only where neither does.
    """
    parts = [part.name for part in node.parts]
    found = find_column(node, scope)
    if found is not None:
        return found
    if spelled(parts[0]) in aliases:
        return _fields(exp.Paren(this=aliases[spelled(parts[0])].copy()), parts[1:])
    for enclosing in outer:
        found = find_column(node, enclosing)
        if found is not None:
            return found
    raise UnknownNameError(node)


def column_aliases(source: exp.Expr, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of a relation's columns: those that its alias gives, then its own."""
    alias = source.args.get("alias")
    given = tuple(c.name for c in alias.args.get("columns") or []) if alias else ()
    return given + names[len(given) :]


def find_column(node: exp.Column, scope: Scope) -> exp.Expr | None:
    """The column of the scope, or the field of one, that a name means."""
    parts = [part.name for part in node.parts]
    for split in range(len(parts) - 1, -1, -1):
        qualifier, name, rest = tuple(parts[:split]), parts[split], parts[split + 1 :]
        found = scope.find(qualifier, name)
        if len({c.column for c in found}) > 1:
            raise _ambiguous(node, name)
        if found:
            return _fields(column(found[0].column), rest)
    return None


def _fields(base: exp.Expr, names: list[str]) -> exp.Expr:
    for name in names:
        base = exp.Dot(this=base, expression=exp.to_identifier(name, quoted=True))
    return base


def _ambiguous(node: exp.Expr, name: str) -> IncrementalError:
    place: Position | None = position_of(node)
    return error(
        "INCR_UNSUPPORTED",
        what=f"the ambiguous name {name}",
        hint="Write the relation before the column.",
        position=place,
    )
