"""Store assignment: which value may go into which column, and the SQL that puts it there.

Law: ANSI store assignment as Spark defines it for INSERT, UPDATE and MERGE. NULL goes anywhere,
numbers into numbers, any atomic value into a string, dates and timestamps into each other,
nested values part by part: by position in INSERT, by name in the others. Nothing else is stored,
and a number that does not fit is an error even where the session's own casts would wrap.
"""

from __future__ import annotations

from collections.abc import Callable

import pyspark.sql.types as T

from spark_incr.errors import IncrementalError, error
from spark_incr.plan.types import (
    FLOATS,
    INTEGERS,
    Field,
    UnreadType,
    holds,
    is_comparable,
    is_told_by_text,
    type_sql,
)
from spark_incr.sql.names import quote

OVERFLOW = "[CAST_OVERFLOW_IN_TABLE_INSERT] "

_NUMBERS = (*INTEGERS, *FLOATS, T.DecimalType)
_DATETIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)
_NESTED = (T.ArrayType, T.MapType, T.StructType)


def assigned(value: str, source: T.DataType, column: Field, table: str, *, by_name: bool) -> str:
    """SQL of `value` (of type `source`, evaluated once) as it is stored in `column`."""
    assignment = _Assignment(table, by_name)
    if all(part.isidentifier() for part in value.split(".")):
        assignment.references.add(value)
    return assignment.convert(value, source, column.type, (column.name,))


def unchanged(old: str, new: str, column_type: T.DataType) -> str:
    """SQL that tells whether two values of one type are the same to a reader.

    `<=>` takes -0.0 for 0.0 and what a collation takes for equal, which a reader can tell apart, and
    does not know maps; a value that cannot be compared counts as changed.
    """
    if not is_comparable(column_type):
        return "false"
    same = f"{_comparable(old, column_type)} <=> {_comparable(new, column_type)}"
    if is_told_by_text(column_type):
        same += f" AND CAST({old} AS STRING) <=> CAST({new} AS STRING)"
    return f"({same})"


def mismatch(table: str, condition: str, what: str) -> IncrementalError:
    """Rows that do not fit their table, with the name that Spark has for the reason."""
    return error("INCR_SCHEMA_MISMATCH", table=table, what=f"[{condition}] {what}")


class _Assignment:
    def __init__(self, table: str, by_name: bool) -> None:
        self.table = table
        self.by_name = by_name
        self.references: set[str] = set()

    def convert(self, value: str, source: T.DataType, to: T.DataType, path: tuple[str, ...]) -> str:
        if source.simpleString() == to.simpleString():
            return value
        if isinstance(source, T.NullType):
            return f"CAST({value} AS {type_sql(to)})"
        if isinstance(source, T.ArrayType) and isinstance(to, T.ArrayType):
            return self._each(value, source.elementType, to.elementType, (*path, "element"))
        if isinstance(source, T.MapType) and isinstance(to, T.MapType):
            return self._map(value, source, to, path)
        if isinstance(source, T.StructType) and isinstance(to, T.StructType):
            return self._struct(value, source, to, path)
        if isinstance(source, _NUMBERS) and isinstance(to, _NUMBERS):
            return self._number(value, source, to, path)
        if _storable(source, to):
            return f"CAST({value} AS {type_sql(to)})"
        what = f"Cannot safely cast {_path(path)} {_label(source)} to {_label(to)}."
        raise mismatch(self.table, "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", what)

    def _variable(self) -> str:
        variable = f"__incr_x{len(self.references)}"
        self.references.add(variable)
        return variable

    def _bound(self, value: str, body: Callable[[str], str]) -> str:
        """`body` of a value that it names more than once and that is to be evaluated once."""
        if value in self.references:
            return body(value)
        variable = self._variable()
        return f"transform(array({value}), {variable} -> {body(variable)})[0]"

    def _each(self, value: str, source: T.DataType, to: T.DataType, path: tuple[str, ...]) -> str:
        variable = self._variable()
        return f"transform({value}, {variable} -> {self.convert(variable, source, to, path)})"

    def _map(self, value: str, source: T.MapType, to: T.MapType, path: tuple[str, ...]) -> str:
        def body(bound: str) -> str:
            keys = self._each(f"map_keys({bound})", source.keyType, to.keyType, (*path, "key"))
            values = self._each(
                f"map_values({bound})", source.valueType, to.valueType, (*path, "value")
            )
            return f"map_from_arrays({keys}, {values})"

        return self._bound(value, body)

    def _struct(
        self, value: str, source: T.StructType, to: T.StructType, path: tuple[str, ...]
    ) -> str:
        fields = self._fields_by_name(source, to, path) if self.by_name else source.fields
        if len(fields) != len(to.fields):
            extra = len(fields) > len(to.fields)
            kind = "EXTRA_STRUCT_FIELDS" if extra else "STRUCT_MISSING_FIELDS"
            what = f"Struct {_path(path)} has {len(to.fields)} fields, {len(fields)} are given."
            raise mismatch(self.table, f"INCOMPATIBLE_DATA_FOR_TABLE.{kind}", what)

        def body(bound: str) -> str:
            items = []
            for field, wanted in zip(fields, to.fields, strict=True):
                part = f"{bound}.{quote(field.name)}"
                self.references.add(part)
                stored = self.convert(part, field.dataType, wanted.dataType, (*path, wanted.name))
                items.append(f"{stored} AS {quote(wanted.name)}")
            return f"IF({bound} IS NULL, NULL, struct({', '.join(items)}))"

        return self._bound(value, body)

    def _fields_by_name(
        self, source: T.StructType, to: T.StructType, path: tuple[str, ...]
    ) -> list[T.StructField]:
        found = []
        for wanted in to.fields:
            fields = [f for f in source.fields if f.name.lower() == wanted.name.lower()]
            place = _path((*path, wanted.name))
            if not fields:
                what = f"Cannot find data for the output column {place}."
                raise mismatch(self.table, "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA", what)
            if len(fields) > 1:
                what = f"Ambiguous column name in the input data {place}."
                condition = "INCOMPATIBLE_DATA_FOR_TABLE.AMBIGUOUS_COLUMN_NAME"
                raise mismatch(self.table, condition, what)
            found += fields
        if len(found) < len(source.fields):
            extra = ", ".join(quote(f.name) for f in source.fields if f not in found)
            what = f"Cannot write extra fields {extra} to the struct {_path(path)}."
            raise mismatch(self.table, "INCOMPATIBLE_DATA_FOR_TABLE.EXTRA_STRUCT_FIELDS", what)
        return found

    def _number(self, value: str, source: T.DataType, to: T.DataType, path: tuple[str, ...]) -> str:
        target = type_sql(to)
        if isinstance(to, FLOATS) or _widens(source, to):
            return f"CAST({value} AS {target})"
        text = f"{_label(source)} does not fit column {_path(path)} of type {_label(to)}"
        message = f"CAST(X'{(OVERFLOW + text).encode().hex()}' AS STRING)"

        def body(bound: str) -> str:
            failure = f"IF({bound} IS NULL, NULL, CAST(raise_error({message}) AS {target}))"
            return f"coalesce(try_cast({bound} AS {target}), {failure})"

        return self._bound(value, body)


def _widens(source: T.DataType, to: T.DataType) -> bool:
    if isinstance(source, INTEGERS) and isinstance(to, INTEGERS):
        return INTEGERS.index(type(source)) <= INTEGERS.index(type(to))
    if isinstance(source, T.DecimalType) and isinstance(to, T.DecimalType):
        whole = source.precision - source.scale <= to.precision - to.scale
        return whole and source.scale <= to.scale
    return False


def _storable(source: T.DataType, to: T.DataType) -> bool:
    if isinstance(to, (T.StringType, T.CharType)):
        return not isinstance(source, (*_NESTED, T.CalendarIntervalType, T.UserDefinedType))
    if isinstance(source, T.TimeType) and isinstance(to, T.TimeType):
        return source.precision <= to.precision
    if isinstance(source, T.TimeType) or isinstance(to, T.TimeType):
        kinds = (type(source), type(to))
        return T.DateType not in kinds and all(k in (*_DATETIMES, T.TimeType) for k in kinds)
    if isinstance(source, UnreadType):  # a time of more digits
        return isinstance(to, T.DateType) and source.name.startswith("timestamp")
    return isinstance(source, _DATETIMES) and isinstance(to, _DATETIMES)


def _comparable(value: str, value_type: T.DataType) -> str:
    if isinstance(value_type, T.MapType):
        entry = T.StructType().add("key", value_type.keyType).add("value", value_type.valueType)
        return _comparable(f"map_entries({value})", T.ArrayType(entry))
    if not holds(value_type, T.MapType):
        return value
    if isinstance(value_type, T.ArrayType):
        element = _comparable("__incr_y", value_type.elementType)
        return f"transform({value}, __incr_y -> {element})"
    if isinstance(value_type, T.StructType):
        parts = [_comparable(f"{value}.{quote(f.name)}", f.dataType) for f in value_type.fields]
        return f"IF({value} IS NULL, NULL, struct({', '.join(parts)}))"
    return value


def _path(path: tuple[str, ...]) -> str:
    return ".".join(map(quote, path))


def _label(value_type: T.DataType) -> str:
    return f'"{value_type.simpleString().upper()}"'
