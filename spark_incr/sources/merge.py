"""MERGE INTO as one query over the join of target and source.

Law: each joined row meets the clauses of its kind in their order and the first one that holds
acts; the action and its values are one expression, so conditions and values are evaluated once
and only for rows that reach them. A target row is told from its duplicates by a row number.
The query is a stack of projections over one join, because names mean something else in each
kind of clause: both sides for MATCHED, the source alone for NOT MATCHED, the target alone for
NOT MATCHED BY SOURCE.

A target row that an action reaches through several source rows is an error, as the result would
depend on their order; an unconditional DELETE as the only MATCHED clause is exempt.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from spark_incr.errors import error
from spark_incr.frames import schema_of
from spark_incr.sources.assigned_values import Rows, assigned_values
from spark_incr.sources.assignment import assigned, unchanged
from spark_incr.sources.dml_statement import Action, Clause, Match, Merge
from spark_incr.sources.row_change import (
    Queries,
    RowChange,
    Target,
    collect,
    qualifiers,
    relation,
    rows_of,
    value_struct,
    value_types,
)
from spark_incr.sql.names import quote

_JOINS = {(False, False): "INNER", (False, True): "LEFT OUTER", (True, False): "RIGHT OUTER"}
_GUARDS = {
    Match.MATCHED: "__incr_row IS NOT NULL AND __incr_source",
    Match.NOT_MATCHED: "__incr_row IS NULL",
    Match.NOT_MATCHED_BY_SOURCE: "__incr_source IS NULL",
}


@dataclass(frozen=True)
class _Sides:
    """Both sides of the join as FROM items, and the names their columns go by."""

    target: str
    target_name: str
    source: str
    source_name: str
    source_columns: tuple[str, ...]
    """Those that a name can mean: a column name that occurs twice is left out."""


def merge(queries: Queries, statement: Merge, target: Target) -> RowChange:
    """The change that a MERGE makes."""
    sides = _sides(queries, statement, target)
    actions = {
        match: _action(queries, statement, target, sides, match)
        for match in Match
        if any(clause.match is match for clause in statement.clauses)
    }
    result = collect(_acted(queries, statement, target, sides, actions))
    return _change(statement, target, _one_action_per_row(statement, target, result))


def _sides(queries: Queries, statement: Merge, target: Target) -> _Sides:
    columns = ", ".join(quote(field.name) for field in target.schema)
    rows = relation(target, statement.table)
    target_name = quote(statement.alias or statement.table.parts[-1])
    source_name = quote(statement.source_alias or "__incr_s")
    names = schema_of(queries.analyse(f"SELECT * FROM {statement.source}")).names
    lower = [name.lower() for name in names]
    return _Sides(
        f"(SELECT {columns}, monotonically_increasing_id() AS __incr_row FROM {rows}) AS {target_name}",
        target_name,
        f"(SELECT *, TRUE AS __incr_source FROM {statement.source}) AS {source_name}",
        source_name,
        tuple(name for name in names if lower.count(name.lower()) == 1),
    )


def _action(queries: Queries, statement: Merge, target: Target, sides: _Sides, match: Match) -> str:
    """SQL of `struct(k, v0, v1, ...)`: the acting clause's number and the row it makes.

    NULL for a row of another kind and for one that no clause takes.
    """
    scope = {
        Match.MATCHED: f"{sides.target} JOIN {sides.source} ON (\n{statement.condition}\n)",
        Match.NOT_MATCHED: sides.source,
        Match.NOT_MATCHED_BY_SOURCE: sides.target,
    }[match]
    numbered = [(n, c) for n, c in enumerate(statement.clauses) if c.match is match]
    values = [_values(queries, statement, target, sides, clause) for _, clause in numbered]
    flat = [value for row in values for value in row.values()]
    types: list[T.DataType] = []
    if flat:
        types = value_types(queries.analyse(f"SELECT {value_struct(flat)} FROM {scope}"))
    branches = []
    for (number, clause), row in zip(numbered, values, strict=True):
        stored = {
            place: assigned(
                f"(\n{value}\n)", types.pop(0), target.schema[place], target.name, by_name=True
            )
            for place, value in row.items()
        }
        kept = sides.target_name if clause.action is Action.UPDATE else None
        parts = [stored.get(i) or _unassigned(target, i, kept) for i in range(len(target.schema))]
        fields = ", ".join(f"{part} AS v{i}" for i, part in enumerate(parts))
        condition = "TRUE" if clause.condition is None else f"(\n{clause.condition}\n)"
        branches.append(f"WHEN {condition} THEN struct({number} AS k, {fields})")
    return f"CASE WHEN {_GUARDS[match]} THEN CASE {' '.join(branches)} END END"


def _unassigned(target: Target, place: int, kept: str | None) -> str:
    field = target.schema[place]
    return f"{kept}.{quote(field.name)}" if kept else target.default(place)


def _values(
    queries: Queries, statement: Merge, target: Target, sides: _Sides, clause: Clause
) -> dict[int, str]:
    """The values that a clause assigns, by the column's place."""
    if clause.assignments is None:
        names = [quote(field.name) for field in target.schema]
        return {place: f"{sides.source_name}.{name}" for place, name in enumerate(names)}
    known = qualifiers(statement.table, statement.alias)
    rows = Rows(sides.target, sides.target_name, known)
    inserted = clause.action is Action.INSERT
    return assigned_values(queries, clause.assignments, target, rows, inserted=inserted)


def _acted(
    queries: Queries,
    statement: Merge,
    target: Target,
    sides: _Sides,
    actions: dict[Match, str],
) -> DataFrame:
    """One row per action: `__incr_row`, the old row, the clause and the row it makes."""
    old = {f"__incr_o{i}": quote(field.name) for i, field in enumerate(target.schema)}
    new = {f"__incr_s{i}": quote(name) for i, name in enumerate(sides.source_columns)}
    join = _JOINS.get(
        (Match.NOT_MATCHED in actions, Match.NOT_MATCHED_BY_SOURCE in actions), "FULL OUTER"
    )
    carried = ["__incr_row", "__incr_source", *old, *new]
    query = (
        "SELECT __incr_row, __incr_source, "
        + "".join(f"{sides.target_name}.{name} AS {key}, " for key, name in old.items())
        + "".join(f"{sides.source_name}.{name} AS {key}, " for key, name in new.items())
        + f"{actions.get(Match.MATCHED, 'NULL')} AS __incr_matched"
        + f" FROM {sides.target} {join} JOIN {sides.source} ON (\n{statement.condition}\n)"
    )
    taken = ["__incr_matched"] if Match.MATCHED in actions else []
    for match, columns, name in (
        (Match.NOT_MATCHED, new, sides.source_name),
        (Match.NOT_MATCHED_BY_SOURCE, old, sides.target_name),
    ):
        if match not in actions:
            continue
        kept = ", ".join([*carried, *taken])
        seen = "".join(f", {key} AS {column}" for key, column in columns.items())
        taken.append(f"__incr_{match.name.lower()}")
        query = (
            f"SELECT {kept}, {actions[match]} AS {taken[-1]}"
            f" FROM (SELECT {kept}{seen} FROM ({query})) AS {name}"
        )
    action = queries.analyse(query).selectExpr(
        "__incr_row", *old, f"coalesce({', '.join([*taken, 'NULL'])}) AS __incr_a"
    )
    updates = [n for n, c in enumerate(statement.clauses) if c.action is Action.UPDATE]
    same = [f"__incr_a.k IN ({', '.join(map(str, [-1, *updates]))})"]
    same += [
        unchanged(f"__incr_o{i}", f"__incr_a.v{i}", field.type)
        for i, field in enumerate(target.schema)
    ]
    return action.where("__incr_a IS NOT NULL").selectExpr(
        "__incr_row", *old, "__incr_a.*", f"{' AND '.join(same)} AS __incr_same"
    )


def _one_action_per_row(statement: Merge, target: Target, result: pa.Table) -> pa.Table:
    """Refuse a target row with several actions, or keep one of several equal deletes."""
    on_target = pc.is_valid(result.column("__incr_row"))
    rows = result.column("__incr_row").filter(on_target).to_numpy()
    _, first = np.unique(rows, return_index=True)
    if len(first) == len(rows):
        return result
    matched = [clause for clause in statement.clauses if clause.match is Match.MATCHED]
    if len(matched) > 1 or matched[0].action is not Action.DELETE or matched[0].condition:
        raise error("INCR_MERGE_CARDINALITY", table=target.name)
    kept = pc.invert(on_target).to_numpy()
    kept[np.flatnonzero(on_target.to_numpy())[first]] = True
    return result.filter(pa.array(kept))


def _change(statement: Merge, target: Target, result: pa.Table) -> RowChange:
    def acting(*actions: Action) -> pa.Array:
        numbers = [n for n, c in enumerate(statement.clauses) if c.action in actions]
        return pc.is_in(result.column("k"), pa.array(numbers, pa.int32()))

    changed = pc.invert(result.column("__incr_same"))
    places = range(len(target.schema))
    old = result.filter(pc.and_(acting(Action.UPDATE, Action.DELETE), changed))
    new = result.filter(pc.and_(acting(Action.UPDATE, Action.INSERT), changed))
    counted = {action: pc.sum(acting(action)).as_py() or 0 for action in Action}
    counts = {
        "num_affected_rows": result.num_rows,
        "num_updated_rows": counted[Action.UPDATE],
        "num_deleted_rows": counted[Action.DELETE],
        "num_inserted_rows": counted[Action.INSERT],
    }
    return RowChange(
        rows_of(target, [new.column(f"v{i}") for i in places], checked=True),
        rows_of(target, [old.column(f"__incr_o{i}") for i in places], checked=False),
        counts,
        "Match rows by the key, let WHEN MATCHED change those whose key is there, and give each "
        "key once.",
    )
