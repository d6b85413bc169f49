"""Incremental tables: bags of rows that DML and commits change, with their constraints.

Law: a batch is applied whole or not at all. Deletes must find their rows in the table as it was;
with a primary key, at most one row per key is left after the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T

from spark_incr.errors import error
from spark_incr.plan.collations import has_key, key_type
from spark_incr.plan.types import (
    Field,
    Schema,
    arrow_schema,
    is_collated,
    is_ordered,
    parts,
    type_text,
)
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.bag import (
    Departure,
    add_to_bag,
    arrange,
    bag_layout,
    exchange,
    find_departing,
)
from spark_incr.runtime.changes import (
    WEIGHT,
    add,
    deleted,
    empty,
    inserted,
    rows_of,
    weights,
)
from spark_incr.runtime.columns import arrays, from_values, single, taken, validity, values
from spark_incr.runtime.contents import Output
from spark_incr.runtime.keys import group_rows
from spark_incr.runtime.nested import made_of, parts_of

_SHOWN = 5
_KEY_OF = "__incr_key_{}"
_NANOSECOND_DIGITS = 9


@dataclass(frozen=True)
class TableDefinition:
    """A table as its CREATE statement has it."""

    name: str
    schema: Schema
    primary_key: tuple[str, ...]
    not_null: frozenset[str]
    statement: str
    longest: Mapping[str, int] = field(default_factory=dict)
    """The length that strings may have, where it is limited."""
    arranged_by: tuple[str, ...] = ()
    """The columns by which joins look rows up, where there is no primary key."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """What a statement that gives no value stores, as SQL; NULL where nothing is said."""

    @property
    def collated(self) -> tuple[Field, ...]:
        """The columns of the primary key that are compared by their collations."""
        return tuple(f for f in self.schema if f.name in self.primary_key and is_collated(f.type))

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that are equal, byte by byte, in rows of one primary key."""
        collated = {f.name for f in self.collated}
        return tuple(_KEY_OF.format(n) if n in collated else n for n in self.primary_key)

    @property
    def lineage(self) -> tuple[str, ...]:
        """The columns by which rows are looked up."""
        return self.key or self.arranged_by or tuple(f.name for f in self.schema)


Keys = Callable[[pa.Table], list[pa.Array]]
"""What the collated columns of a primary key are compared by, for some rows."""


def require_keys(columns: Iterable[Field]) -> None:
    """Refuse columns as a key whose values cannot be compared."""
    for field_ in columns:
        if not is_ordered(field_.type):
            raise error("INCR_KEY_TYPE", name=field_.name, type=type_text(field_.type))
        if is_collated(field_.type) and not has_key(field_.type):
            detail = "It holds strings with a collation in a way that only Spark compares."
            kind = type_text(field_.type)
            raise error("INCR_KEY_TYPE", name=field_.name, type=kind, detail=detail)


class Table:
    """A table and its rows, looked up by primary key if there is one.

    Strings with a collation are kept beside what they are compared by, which `keys` tells.
    """

    def __init__(self, definition: TableDefinition, keys: Keys | None = None) -> None:
        self.definition = definition
        self._keys = keys
        self.schema = arrow_schema(definition.schema)
        fitting = {f.name: _fitting(f.type) for f in definition.schema}
        self._fitting = {name: fit for name, fit in fitting.items() if fit is not None}
        hidden = tuple(Field(_KEY_OF.format(f.name), key_type(f.type)) for f in definition.collated)
        self._hidden = arrow_schema(hidden)
        stored = pa.schema([*self.schema, *self._hidden])
        self.rows = Arrangement(bag_layout(stored, definition.lineage))

    @property
    def output(self) -> Output:
        if not len(self._hidden):
            return Output.of_bag(self.rows)
        return Output(self.rows, (*self.schema.names, WEIGHT), lambda rows: rows)

    def _with_keys(self, rows: pa.Table) -> pa.Table:
        """The rows as they are stored."""
        if not len(self._hidden):
            return rows
        assert self._keys is not None
        for field_, values_ in zip(self._hidden, self._keys(rows), strict=True):
            rows = rows.append_column(field_, values_)
        return rows

    def _seen(self, changes: pa.Table) -> pa.Table:
        """A change as those who read the table see it."""
        return changes.drop_columns(self._hidden.names) if len(self._hidden) else changes

    def apply(self, insert: pa.Table | None, delete: pa.Table | None) -> pa.Table:
        """Check and apply a batch; returns its change."""
        arriving = None if insert is None else self._fit(insert, "insert")
        leaving = None if delete is None else self._fit_delete(delete)
        arrives = empty(pa.schema([*self.schema, *self._hidden]))
        if arriving is not None and arriving.num_rows:
            self._check_not_null(arriving)
            arrives = inserted(self._with_keys(self._in_length(arriving)))
        layout = self.rows.layout
        if leaving is None or not leaving.num_rows:
            self._check_key(arrives)
            add_to_bag(self.rows, arrives)
            return self._seen(arrives)
        departure = find_departing(self.rows, arrange(layout, deleted(self._with_keys(leaving))))
        self._check_present(departure)
        changes = add([departure.leaving.rows, arrives])
        self._check_key(changes)
        exchange(self.rows, departure, arrange(layout, arrives))
        return self._seen(changes)

    def _fit(self, rows: pa.Table, what: str) -> pa.Table:
        """The rows in the table's schema; columns are matched by name."""
        table = self.definition.name
        missing = [n for n in self.schema.names if n not in rows.column_names]
        surplus = [n for n in rows.column_names if n not in self.schema.names]
        if missing or surplus:
            problem = [f"column {n} is missing" for n in missing]
            problem += [f"there is no column {n}" for n in surplus]
            raise error("INCR_SCHEMA_MISMATCH", table=table, what="; ".join(problem))
        rows = rows.select(self.schema.names)
        if rows.schema.equals(self.schema) and not self._fitting:
            return rows.combine_chunks()
        return pa.Table.from_arrays(
            [
                self._fitted(self._cast(single(rows.column(f.name)), f, what), f)
                for f in self.schema
            ],
            schema=self.schema,
        )

    def _fitted(self, column: pa.Array, field: pa.Field) -> pa.Array:
        """A column as its Spark type has it, of which Arrow knows less."""
        fit = self._fitting.get(field.name)
        return column if fit is None else fit(column)

    def _cast(self, column: pa.Array, field: pa.Field, what: str) -> pa.Array:
        """A column in the type of a field, in which its values stay what they are."""
        try:
            return _converted(column, field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as failure:
            raise error(
                "INCR_SCHEMA_MISMATCH",
                table=self.definition.name,
                what=f"column {field.name} of the rows to {what} has type {column.type}, "
                f"not {field.type}",
                detail=str(failure).split("\n")[0],
            ) from None

    def _fit_delete(self, rows: pa.Table) -> pa.Table:
        """Rows to delete; of a table with a primary key, the key columns are enough."""
        key = self.definition.primary_key
        if not key or set(rows.column_names) != set(key) or len(key) == len(self.schema):
            return self._fit(rows, "delete")
        fields = [self.schema.field(name) for name in key]
        keys = [
            self._fitted(self._cast(single(rows.column(f.name)), f, "delete"), f)
            if rows.num_rows
            else pa.array([], f.type)
            for f in fields
        ]
        given = pa.Table.from_arrays(keys, schema=pa.schema(fields))
        snapshot = self.rows.snapshot()
        sought = arrays(self._with_keys(given), self.definition.key)
        located = snapshot.find_lineage(sought, rows.num_rows)
        if len(located.probe) < rows.num_rows:
            absent = np.setdiff1d(np.arange(rows.num_rows), located.probe)
            raise self._not_found(rows.select(list(key)).take(absent[:_SHOWN]), len(absent))
        columns = snapshot.gather(located, self.schema.names)
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _check_present(self, departure: Departure) -> None:
        absent = np.flatnonzero(departure.left < 0)
        if len(absent):
            raise self._not_found(
                rows_of(self._seen(departure.leaving.rows)).take(absent[:_SHOWN]), len(absent)
            )

    def _not_found(self, rows: pa.Table, count: int) -> Exception:
        more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
        return error("INCR_ROW_NOT_FOUND", table=self.definition.name, rows=_shown(rows) + more)

    def _check_not_null(self, rows: pa.Table) -> None:
        for name in self.schema.names:
            if rows.column(name).null_count == 0:
                continue
            if name in self.definition.primary_key:
                raise error("INCR_NULL_KEY", column=name, table=self.definition.name)
            if name in self.definition.not_null:
                raise error("INCR_NOT_NULL", column=name, table=self.definition.name)

    def _in_length(self, rows: pa.Table) -> pa.Table:
        """The rows without the spaces that end a string beyond its length."""
        for name, longest in self.definition.longest.items():
            column = single(rows.column(name))
            long = np.flatnonzero(pc.fill_null(pc.greater(pc.utf8_length(column), longest), False))
            if not len(long):
                continue
            texts = column.take(long)
            surplus = pc.utf8_rtrim(pc.utf8_slice_codeunits(texts, longest), " ")
            if pc.any(pc.not_equal(surplus, "")).as_py():
                value = texts.filter(pc.not_equal(surplus, ""))[0].as_py()
                table = self.definition.name
                raise error("INCR_TOO_LONG", column=name, table=table, longest=longest, value=value)
            short = pc.utf8_slice_codeunits(column, 0, longest)
            rows = rows.set_column(rows.schema.get_field_index(name), name, short)
        return rows

    def _check_key(self, changes: pa.Table) -> None:
        key = self.definition.primary_key
        if not key or not changes.num_rows:
            return
        columns = arrays(changes, self.definition.key)
        groups = group_rows(columns, changes.num_rows)
        weight = weights(changes)
        net = groups.total(weight)
        keys = [taken(c, groups.first) for c in columns]
        located = self.rows.snapshot().find_lineage(keys, groups.count)
        net[located.probe] += 1
        twice = np.flatnonzero(net > 1)
        if len(twice):
            stay = net - groups.total(np.maximum(weight, 0))
            present = twice[stay[twice] > 0]
            which = present if len(present) else twice
            shown = changes.select(list(key)).take(groups.first[which[:_SHOWN]])
            raise self._duplicate(shown, len(which), bool(len(present)))

    def _duplicate(self, keys: pa.Table, count: int, present: bool) -> Exception:
        more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
        return error(
            "INCR_DUPLICATE_KEY",
            table=self.definition.name,
            what="already present" if present else "given more than once",
            keys=_shown(keys) + more,
            hint=None if present else "Give one row for each key.",
        )


def _converted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Arrow's cast, without those that read texts or round decimals."""
    source = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if _is_text(source) and not (_is_text(kind) or pa.types.is_binary(kind)):
        raise pa.ArrowInvalid(f"Texts are not read as {kind}: cast them first")
    result = column.cast(kind)
    if pa.types.is_floating(source) and pa.types.is_decimal(kind):
        rounded = pc.not_equal(result.cast(source), column)
        if pc.any(rounded).as_py():
            first = column.filter(rounded)[0]
            raise pa.ArrowInvalid(f"{first} would be rounded: round it first")
    return result


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _fitting(spark_type: T.DataType) -> Callable[[pa.Array], pa.Array] | None:
    """CHAR has spaces up to its length, TIME at any depth as many digits of a second as it says."""
    if isinstance(spark_type, T.CharType):
        length = spark_type.length
        return lambda column: pc.utf8_rpad(column, length)
    times = [part for part in parts(spark_type) if isinstance(part, T.TimeType)]
    if any(time.precision < _NANOSECOND_DIGITS for time in times):
        return lambda column: _cut(column, spark_type)
    return None


def _cut(array: pa.Array, spark_type: T.DataType) -> pa.Array:
    """Values without the digits of a second that their type does not have."""
    if isinstance(spark_type, T.TimeType):
        unit = 10 ** (_NANOSECOND_DIGITS - spark_type.precision)
        return from_values(values(array) // unit * unit, validity(array), array.type)
    kinds: list[T.DataType] = []
    if isinstance(spark_type, T.StructType):
        kinds = [field.dataType for field in spark_type.fields]
    elif isinstance(spark_type, T.ArrayType):
        kinds = [spark_type.elementType]
    elif isinstance(spark_type, T.MapType):
        kinds = [spark_type.keyType, spark_type.valueType]
    if not kinds:
        return array
    return made_of(array, [_cut(p, k) for p, k in zip(parts_of(array), kinds, strict=True)])


def _shown(rows: pa.Table) -> str:
    return ", ".join(
        "(" + ", ".join(f"{k}={v!r}" for k, v in row.items()) + ")" for row in rows.to_pylist()
    )
