"""INSERT, UPDATE, DELETE, MERGE and TRUNCATE on an incremental table, as a change of its rows.

Law: Spark reads the statement and evaluates its expressions, each once per row; we only take the
rows. With `old` the rows the statement touches and `new` what it makes of them, the change is
`new - old`; a row that stays as it is appears on neither side, but is counted as touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from spark_incr.errors import error
from spark_incr.frames import schema_of
from spark_incr.sources.assigned_values import Rows, assigned_values
from spark_incr.sources.assignment import assigned, mismatch, unchanged
from spark_incr.sources.dml_reader import PARAMETER
from spark_incr.sources.dml_statement import (
    Delete,
    Insert,
    Merge,
    Truncate,
    Update,
    parse_dml,
    target_of,
)
from spark_incr.sources.merge import merge
from spark_incr.sources.row_change import (
    Queries,
    RowChange,
    Target,
    collect,
    no_rows,
    qualifiers,
    relation,
    rows_of,
    twice,
    unknown_column,
    value_struct,
    value_types,
)
from spark_incr.sql.names import quote

__all__ = ["RowChange", "Target", "change_of", "target_of"]


def change_of(
    spark: SparkSession,
    text: str,
    target: Target,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
) -> RowChange:
    """The rows that a DML statement deletes from and inserts into `target`.

    The session must know the table as a temp view of that name. `args` is that of `spark.sql`.
    """
    _check_syntax(spark, text)
    statement = parse_dml(text)
    if args is not None and not isinstance(args, Mapping):
        args = {f"{PARAMETER}{n}": value for n, value in enumerate(args)}
    context = "" if isinstance(statement, Truncate) else statement.context
    queries = Queries(spark, args, text, context)
    if isinstance(statement, Insert):
        return _insert(queries, statement, target)
    if isinstance(statement, Update):
        return _update(queries, statement, target)
    if isinstance(statement, Merge):
        return merge(queries, statement, target)
    return _delete(queries, statement, target)


def _check_syntax(spark: SparkSession, text: str) -> None:
    """Let Spark's own parser object first, with its own message and positions.

    A Connect session has no JVM at hand; there Spark sees the statement's parts only.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is not None:
        jvm.org.apache.spark.sql.execution.SparkSqlParser().parsePlan(text)


def _insert(queries: Queries, statement: Insert, target: Target) -> RowChange:
    text, data = _data(queries, statement, target)
    schema = schema_of(data)
    places = _places(statement, target, schema.names)
    values = []
    for i, (field, place) in enumerate(zip(target.schema, places, strict=True)):
        stored = target.default(i)
        if place is not None:
            source = schema.fields[place].dataType
            value = f"__incr_{place}"
            stored = assigned(value, source, field, target.name, by_name=statement.by_name)
        values.append(f"{stored} AS __incr_n{i}")
    given = [f"__incr_{j}" for j in range(len(schema))]
    rows = f"(\n{text}\n) AS __incr_q ({', '.join(given)})"
    staged = f"SELECT {', '.join(values)} FROM {rows}"
    if statement.replaced is None:
        held = "TRUE AS __incr_held"
        frame = data.toDF(*given).selectExpr("FALSE AS __incr_old", held, *values)
    else:
        frame = _held(queries, statement, target, staged)
    replaced = _replaced(statement, target, text, staged)
    if replaced is not None:
        if statement.using or statement.matched is not None:
            _check_read_twice(data)
        old = queries.analyse(f"SELECT {_columns(target, statement.alias)} FROM {replaced}")
        frame = frame.unionAll(old.selectExpr("TRUE", "TRUE", "*"))
    result = collect(frame)
    outside = result.num_rows - pc.sum(result.column(1), min_count=0).as_py()
    if outside:
        raise error("INCR_NOT_REPLACED", table=target.name, rows=outside)
    is_old, result = result.column(0), result.select(range(2, result.num_columns))
    inserted = rows_of(target, result.filter(pc.invert(is_old)).columns, checked=True)
    deleted = rows_of(target, result.filter(is_old).columns, checked=False)
    counts = {"num_affected_rows": inserted.num_rows, "num_inserted_rows": inserted.num_rows}
    return RowChange(inserted, deleted, counts)


def _replaced(statement: Insert, target: Target, query: str, staged: str) -> str | None:
    """The FROM clause of the rows that an INSERT takes away, if it does.

    REPLACE USING takes those that agree with a row to insert, as it is stored, on the columns, where
    NULL agrees with NULL; REPLACE ON those for which its condition holds beside a row of the query.
    """
    rows = relation(target, statement.table, statement.alias)
    if statement.matched is not None:
        source = f"(\n{query}\n) AS {quote(statement.query_alias or '__incr_s')}"
        return f"{rows} LEFT SEMI JOIN {source} ON (\n{statement.matched}\n)"
    if statement.using:
        names = [field.name.lower() for field in target.schema]
        own, equal = quote(statement.alias or statement.table.parts[-1]), []
        for n, column in enumerate(statement.using):
            if column.parts[-1].lower() not in names or len(column.parts) > 1:
                raise unknown_column(target, column)
            place = names.index(column.parts[-1].lower())
            if any(names[place] == other.parts[-1].lower() for other in statement.using[:n]):
                raise twice(column)
            equal.append(f"{own}.{quote(target.schema[place].name)} <=> __incr_s.__incr_n{place}")
        return f"{rows} LEFT SEMI JOIN ({staged}) AS __incr_s ON {' AND '.join(equal)}"
    if statement.overwrite or statement.replaced is not None:
        return f"{rows}{_filter(statement.replaced)}"
    return None


def _check_read_twice(data: DataFrame) -> None:
    """Refuse a query that may say one thing to take away rows and another to bring them."""
    plan: Any = getattr(data, "_jdf", None)
    if plan is not None and not plan.queryExecution().analyzed().deterministic():
        hint = "Store its rows in a table first."
        raise error("INCR_NONDETERMINISTIC", what="the query of INSERT ... REPLACE", hint=hint)


def _held(queries: Queries, statement: Insert, target: Target, staged: str) -> DataFrame:
    """The rows to insert beside whether the condition of REPLACE WHERE holds for them."""
    names = ", ".join(
        f"__incr_n{i} AS {quote(field.name)}" for i, field in enumerate(target.schema)
    )
    return queries.analyse(
        f"SELECT FALSE AS __incr_old, coalesce((\n{statement.replaced}\n), FALSE) AS __incr_held,"
        f" {_columns(target)} FROM (SELECT {names} FROM ({staged}))"
        f" AS {quote(statement.table.parts[-1])}"
    )


def _data(queries: Queries, statement: Insert, target: Target) -> tuple[str, DataFrame]:
    """The inserted query; DEFAULT is the keyword only where it is not a column."""
    try:
        return statement.query, queries.analyse(statement.query)
    except AnalysisException:
        if not any(isinstance(piece, int) for piece in statement.pieces):
            raise
        filled = _filled(statement, target)
        text = "".join(filled(p) if isinstance(p, int) else p for p in statement.pieces)
        return text, queries.analyse(text)


def _filled(statement: Insert, target: Target) -> Callable[[int], str]:
    """What DEFAULT means at a place of an inserted row."""
    columns = list(range(len(target.schema)))
    if statement.columns is not None:
        names = [field.name.lower() for field in target.schema]
        listed = [column.parts[-1].lower() for column in statement.columns]
        columns = [names.index(name) for name in listed if name in names]
    known = not statement.by_name

    def default(place: int) -> str:
        return target.default(columns[place]) if known and place < len(columns) else "NULL"

    return default


def _places(statement: Insert, target: Target, data: list[str]) -> list[int | None]:
    """For each column of the target, which column of the data goes there."""
    if statement.by_name:
        return _places_by_name(target, data)
    names = [field.name.lower() for field in target.schema]
    listed = names
    if statement.columns is not None:
        listed = [column.parts[-1].lower() for column in statement.columns]
        for n, (name, column) in enumerate(zip(listed, statement.columns, strict=True)):
            if name not in names or len(column.parts) > 1:
                raise unknown_column(target, column)
            if name in listed[:n]:
                raise twice(column)
    if len(listed) != len(data):
        kind = "NOT_ENOUGH" if len(data) < len(listed) else "TOO_MANY"
        condition = f"INSERT_COLUMN_ARITY_MISMATCH.{kind}_DATA_COLUMNS"
        what = f"{len(listed)} columns are to be filled, the data has {len(data)}."
        raise mismatch(target.name, condition, what)
    return [listed.index(name) if name in listed else None for name in names]


def _places_by_name(target: Target, data: list[str]) -> list[int | None]:
    given = [name.lower() for name in data]
    names = [field.name.lower() for field in target.schema]
    for field in target.schema:
        if given.count(field.name.lower()) > 1:
            condition = "INCOMPATIBLE_DATA_FOR_TABLE.AMBIGUOUS_COLUMN_NAME"
            what = f"Ambiguous column name in the input data {quote(field.name)}."
            raise mismatch(target.name, condition, what)
    extra = [quote(name) for name in data if name.lower() not in names]
    if extra:
        what = f"Cannot write extra columns {', '.join(extra)}."
        raise mismatch(target.name, "INCOMPATIBLE_DATA_FOR_TABLE.EXTRA_COLUMNS", what)
    return [given.index(name) if name in given else None for name in names]


def _columns(target: Target, alias: str | None = None) -> str:
    own = f"{quote(alias)}." if alias else ""
    return ", ".join(f"{own}{quote(f.name)} AS __incr_o{i}" for i, f in enumerate(target.schema))


def _filter(where: str | None) -> str:
    # Not `WHERE (...)`: with a lone name inside, Spark takes WHERE for the table's alias.
    return "" if where is None else f" WHERE TRUE AND (\n{where}\n)"


def _update(queries: Queries, statement: Update, target: Target) -> RowChange:
    rows = relation(target, statement.table, statement.alias)
    known = qualifiers(statement.table, statement.alias)
    named = Rows(rows, quote(statement.alias or statement.table.parts[-1]), known)
    given = assigned_values(queries, statement.assignments, target, named)
    places, values = list(given), value_struct(given.values())
    raw = queries.analyse(
        f"SELECT {_columns(target)}, {values} FROM {rows}{_filter(statement.where)}"
    )
    types = value_types(raw)
    stored, same = [], []
    for n, place in enumerate(places):
        field = target.schema[place]
        value = assigned(f"__incr_v.v{n}", types[n], field, target.name, by_name=True)
        stored.append(f"{value} AS __incr_n{place}")
        same.append(unchanged(f"__incr_o{place}", f"__incr_n{place}", field.type))
    old = [f"__incr_o{i}" for i in range(len(target.schema))]
    result = collect(
        raw.selectExpr(*old, *stored).selectExpr("*", f"{' AND '.join(same)} AS __incr_same")
    )
    changed = result.filter(pc.invert(result.column("__incr_same")))
    after = [changed.column(f"__incr_{'n' if i in places else 'o'}{i}") for i in range(len(old))]
    inserted = rows_of(target, after, checked=True)
    deleted = rows_of(target, changed.select(old).columns, checked=False)
    hint = "Leave the key as it is, or give each row a key that no other row has."
    return RowChange(inserted, deleted, {"num_affected_rows": result.num_rows}, hint)


def _delete(queries: Queries, statement: Delete | Truncate, target: Target) -> RowChange:
    alias, where = None, None
    if isinstance(statement, Delete):
        alias, where = statement.alias, statement.where
    rows = relation(target, statement.table, alias)
    result = collect(queries.analyse(f"SELECT {_columns(target)} FROM {rows}{_filter(where)}"))
    deleted = rows_of(target, result.columns, checked=False)
    return RowChange(no_rows(target), deleted, {"num_affected_rows": deleted.num_rows})
