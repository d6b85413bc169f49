"""The columns that UPDATE and MERGE assign to, and the values that these get.

Law: a column has one value, whatever is assigned to it or to fields of it; a field that nothing is
assigned to stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyspark.sql.types as T

from spark_incr.errors import IncrementalError, error
from spark_incr.sources.dml_reader import Name
from spark_incr.sources.dml_statement import Assignment
from spark_incr.sources.row_change import Queries, Target, twice
from spark_incr.sql.names import quote, quote_string


@dataclass(frozen=True)
class Rows:
    """The rows of a target in a query: the FROM item, the name that they have there, and what a
    statement may write before a column of theirs, in lower case."""

    relation: str
    name: str
    qualifiers: frozenset[tuple[str, ...]]


def assigned_values(
    queries: Queries,
    assignments: tuple[Assignment, ...],
    target: Target,
    rows: Rows,
    *,
    inserted: bool = False,
) -> dict[int, str]:
    """The values that columns of the target get, by their places.

    A struct of which fields are assigned is made anew of those and of what the others hold; one that
    is inserted has no others.
    """
    fields: dict[int, dict[tuple[str, ...], str]] = {}
    for assignment in assignments:
        place, path = _assigned_to(queries, assignment.column, target, rows)
        given = fields.setdefault(place, {})
        if any(path[: len(other)] == other[: len(path)] for other in given):
            raise twice(assignment.column)
        if path and inserted:
            raise _no_field(assignment.column)
        default = "NULL" if path else target.default(place)
        given[path] = default if assignment.value is None else assignment.value
    return {
        place: _value(
            given, target.schema[place].type, f"{rows.name}.{quote(target.schema[place].name)}"
        )
        for place, given in fields.items()
    }


def _assigned_to(
    queries: Queries, column: Name, target: Target, rows: Rows
) -> tuple[int, tuple[str, ...]]:
    """The place of the column that is assigned to, and the names that lead to a field of it."""
    names = [field.name.lower() for field in target.schema]
    parts = [part.lower() for part in column.parts]
    for split in reversed(range(len(parts))):
        qualified = not split or tuple(parts[:split]) in rows.qualifiers
        if not qualified or parts[split] not in names:
            continue
        place, path = names.index(parts[split]), []
        inside: T.DataType | None = target.schema[place].type
        for part in parts[split + 1 :]:
            fields = inside.fields if isinstance(inside, T.StructType) else []
            found = [f for f in fields if f.name.lower() == part]
            inside = found[0].dataType if len(found) == 1 else None
            path += [f.name for f in found[:1]]
        if inside is not None:
            return place, tuple(path)
    queries.analyse(f"SELECT {column.sql} FROM {rows.relation}")
    raise _no_field(column)


def _no_field(column: Name) -> IncrementalError:
    what = f"an assignment to {column.sql}"
    hint = "Assign the whole column."
    return error("INCR_STATEMENT_UNSUPPORTED", what=what, hint=hint, position=column.position)


def _value(given: Mapping[tuple[str, ...], str], kind: T.DataType, old: str) -> str:
    """SQL of a value of which some fields, or all of it, are given."""
    if () in given:
        return given[()]
    if not given:
        return old
    assert isinstance(kind, T.StructType)
    items = []
    for field_ in kind.fields:
        inside = {path[1:]: value for path, value in given.items() if path[0] == field_.name}
        own = f"{old}.{quote(field_.name)}"
        value = _value(inside, field_.dataType, own)
        items.append(f"{quote_string(field_.name)}, (\n{value}\n)")
    return f"named_struct({', '.join(items)})"
