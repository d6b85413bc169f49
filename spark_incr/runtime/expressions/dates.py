"""Dates are days and timestamps are microseconds since 1970-01-01, in the proleptic calendar.

The parts of a timestamp depend on the session's time zone; only UTC is certain here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.errors import error
from spark_incr.plan.types import INTEGERS
from spark_incr.runtime.expressions.casts import MICROS_PER_DAY, coerce, to_date
from spark_incr.runtime.expressions.decimals import fits, magnitude
from spark_incr.runtime.expressions.evaluation import (
    Values,
    any_null,
    array_of,
    nulls_of,
    strict,
    values_of,
)
from spark_incr.runtime.expressions.registry import Call, Compiled, Operands, kernel, literal

SECOND = 1_000_000
DAY = MICROS_PER_DAY
_TIMES = (T.TimestampType, T.TimestampNTZType)
DATES_AND_TIMES = (T.DateType, *_TIMES)


def _months(days: Values) -> Values:
    """Whole months since 1970-01."""
    months: Values = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return months


def _first_day(months: Values) -> Values:
    """The day on which a month begins."""
    days: Values = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return days


def _monday(days: Values) -> Values:
    monday: Values = days - (days + 3) % 7
    return monday


_PARTS: dict[str, Callable[[Values], Values]] = {
    "YEAR": lambda days: _months(days) // 12 + 1970,
    "QUARTER": lambda days: _months(days) % 12 // 3 + 1,
    "MONTH": lambda days: _months(days) % 12 + 1,
    "DAY": lambda days: days - _first_day(_months(days)) + 1,
    "DAYOFWEEK": lambda days: (days + 4) % 7 + 1,
    "WEEKDAY": lambda days: (days + 3) % 7,
    "DAYOFYEAR": lambda days: days - _first_day(_months(days) // 12 * 12) + 1,
}
_ARROW_PARTS = {"YEAR": pc.year, "QUARTER": pc.quarter, "MONTH": pc.month, "DAY": pc.day}
_ARROW_DAYS = 10_000_000  # Arrow keeps years in 16 bits
_NODES: dict[type[exp.Expr] | str, str] = {
    exp.Year: "YEAR",
    exp.Quarter: "QUARTER",
    exp.Month: "MONTH",
    exp.Day: "DAY",
    exp.DayOfMonth: "DAY",
    exp.DayOfWeek: "DAYOFWEEK",
    exp.DayOfYear: "DAYOFYEAR",
    "weekday": "WEEKDAY",
}
_FLOORS: dict[str, Callable[[Values], Values]] = {
    "YEAR": lambda days: _first_day(_months(days) // 12 * 12),
    "QUARTER": lambda days: _first_day(_months(days) // 3 * 3),
    "MONTH": lambda days: _first_day(_months(days)),
    "WEEK": _monday,
}
_UNITS = {"DAY": DAY, "HOUR": 3600 * SECOND, "MINUTE": 60 * SECOND, "SECOND": SECOND}


def _bare(node: exp.Expr) -> exp.Expr:
    """The value below the cast to a date that the parser writes around it."""
    if isinstance(node, exp.TsOrDsToDate) and not any(
        value for key, value in node.args.items() if key != "this"
    ):
        return node.this  # type: ignore[no-any-return]
    return node


def _bare_operands(*names: str) -> Operands:
    def operands(node: exp.Expr) -> list[exp.Expr] | None:
        if any(value and key not in names for key, value in node.args.items()):
            return None
        return [_bare(node.args[name]) for name in names]

    return operands


def _part(call: Call, name: str, operand: Compiled) -> Compiled | None:
    date = to_date(operand, call.settings)
    part = _PARTS.get(name)
    if date is None or part is None or not isinstance(call.type, T.IntegerType):
        return None

    quick = _ARROW_PARTS.get(name)

    def evaluate(array: pa.Array) -> pa.Array:
        days = values_of(array)
        if quick is not None and magnitude(days) < _ARROW_DAYS:
            return quick(array).cast(pa.int32())
        return array_of(part(days.astype(np.int64)), pa.int32(), nulls_of(array))

    return strict(call, evaluate, operands=(date,))


def _date_part(call: Call) -> Compiled | None:
    key = call.node.name.lower() if isinstance(call.node, exp.Anonymous) else type(call.node)
    return _part(call, _NODES[key], call.operands[0])


for _key in _NODES:
    kernel(
        _key,
        words="dates, and timestamps in UTC",
        operands=None if isinstance(_key, str) else _bare_operands("this"),
    )(_date_part)


_CLOCK: dict[str, Callable[[Values], Values]] = {
    "HOUR": lambda micros: micros % DAY // (3600 * SECOND),
    "MINUTE": lambda micros: micros % (3600 * SECOND) // (60 * SECOND),
    "SECOND": lambda micros: micros % (60 * SECOND) // SECOND,
}


@kernel(exp.Hour, exp.Minute, exp.Second, words="timestamps in UTC", arguments=("this",))
def clock(call: Call) -> Compiled | None:
    (operand,) = call.operands
    if not isinstance(operand.type, _TIMES) or not _zone_is_certain(call, operand):
        return None
    part = _CLOCK[type(call.node).__name__.upper()]

    def evaluate(array: pa.Array) -> pa.Array:
        return array_of(part(values_of(array)).astype(np.int32), pa.int32(), nulls_of(array))

    return strict(call, evaluate)


def _zone_is_certain(call: Call, operand: Compiled) -> bool:
    return call.settings.is_utc or isinstance(operand.type, T.TimestampNTZType)


def _extract_operands(node: exp.Expr) -> list[exp.Expr] | None:
    return [node.args["expression"]] if isinstance(node.this, exp.Var) else None


@kernel(
    exp.Extract,
    words="YEAR, QUARTER, MONTH, DAY of dates, and of timestamps in UTC",
    operands=_extract_operands,
)
def extract(call: Call) -> Compiled | None:
    name = call.node.this.name.upper()
    return (
        _part(call, name, call.operands[0]) if name in ("YEAR", "QUARTER", "MONTH", "DAY") else None
    )


def _add_days_operands(node: exp.Expr) -> list[exp.Expr] | None:
    unit = node.args.get("unit")
    known = {"this", "expression", "unit"}
    if any(value and key not in known for key, value in node.args.items()):
        return None
    if unit is None or unit.name.upper() != "DAY":
        return None
    return [_bare(node.this), node.args["expression"]]


@kernel(
    exp.TsOrDsAdd,
    words="date_add and date_sub of a date and a number of days",
    operands=_add_days_operands,
)
def date_add(call: Call) -> Compiled | None:
    return moved(call, 1)


def moved(call: Call, sign: int) -> Compiled | None:
    """A date or timestamp and how far it moves: days, or an interval of fixed length."""
    start, distance = call.operands
    if start.type != call.type:
        return None
    if isinstance(start.type, T.DateType):
        days = _whole_days(distance)
        return None if days is None else _moved_days(call, start, days, sign)
    micros = distance.scalar
    if not isinstance(distance.type, T.DayTimeIntervalType) or micros is None:
        return None
    if not _zone_is_certain(call, start) or not call.settings.ansi:
        return None
    length = sign * micros.cast(pa.int64()).as_py()

    def evaluate(array: pa.Array) -> pa.Array:
        nulls, values = nulls_of(array), values_of(array)
        if nulls is not None:
            values = np.where(nulls, 0, values)
        if not fits(magnitude(values) + abs(length)):
            raise error("ARITHMETIC_OVERFLOW", what="timestamp")
        return array_of(values + length, call.arrow, nulls)

    return strict(call, evaluate, raises=True, operands=(start,))


def _whole_days(distance: Compiled) -> Compiled | None:
    if isinstance(distance.type, INTEGERS):
        return coerce(distance, T.IntegerType())
    if not isinstance(distance.type, T.DayTimeIntervalType) or distance.scalar is None:
        return None
    days, rest = divmod(distance.scalar.cast(pa.int64()).as_py(), DAY)
    if rest or abs(days) >= 2**31:
        return None
    return literal(pa.scalar(days, pa.int32()), T.IntegerType())


def _moved_days(call: Call, start: Compiled, days: Compiled, sign: int) -> Compiled:
    """As in Spark, a date that moves out of range wraps."""

    def evaluate(dates: pa.Array, count: pa.Array) -> pa.Array:
        found = values_of(dates) + values_of(count) * np.int32(sign)
        return array_of(found, pa.date32(), any_null(dates, count))

    return strict(call, evaluate, operands=(start, days))


@kernel(
    exp.DateDiff,
    words="two dates",
    operands=_bare_operands("this", "expression"),
)
def date_diff(call: Call) -> Compiled | None:
    if not all(isinstance(operand.type, T.DateType) for operand in call.operands):
        return None

    def evaluate(end: pa.Array, start: pa.Array) -> pa.Array:
        return array_of(values_of(end) - values_of(start), pa.int32(), any_null(end, start))

    return strict(call, evaluate) if isinstance(call.type, T.IntegerType) else None


def _unit_operands(node: exp.Expr) -> list[exp.Expr] | None:
    known = {"this", "unit"}
    if any(value and key not in known for key, value in node.args.items()):
        return None
    return [node.this] if isinstance(node.args.get("unit"), exp.Var | exp.Literal) else None


@kernel(
    exp.TimestampTrunc,
    words="date_trunc of timestamps in UTC to YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND",
    operands=_unit_operands,
)
def date_trunc(call: Call) -> Compiled | None:
    (operand,) = call.operands
    unit = call.node.args["unit"].name.upper()
    if operand.type != call.type or not isinstance(call.type, _TIMES):
        return None
    if not _zone_is_certain(call, operand):
        return None
    floor, step = _FLOORS.get(unit), _UNITS.get(unit)
    if floor is None and step is None:
        return None

    def evaluate(array: pa.Array) -> pa.Array:
        micros = values_of(array)
        found = micros - micros % step if floor is None else floor(micros // DAY) * DAY
        return array_of(found, call.arrow, nulls_of(array))

    return strict(call, evaluate)


@kernel(
    exp.DateTrunc,
    words="trunc of dates to YEAR, QUARTER, MONTH, WEEK",
    operands=_unit_operands,
)
def trunc(call: Call) -> Compiled | None:
    (operand,) = call.operands
    floor = _FLOORS.get(call.node.args["unit"].name.upper())
    if floor is None or not all(isinstance(t, T.DateType) for t in (operand.type, call.type)):
        return None

    def evaluate(array: pa.Array) -> pa.Array:
        days = floor(values_of(array).astype(np.int64)).astype(np.int32)
        return array_of(days, pa.date32(), nulls_of(array))

    return strict(call, evaluate)


@kernel(exp.LastDay, words="dates", arguments=("this",))
def last_day(call: Call) -> Compiled | None:
    if not isinstance(call.operands[0].type, T.DateType):
        return None
    month = _FLOORS["MONTH"]

    def evaluate(array: pa.Array) -> pa.Array:
        first = month(values_of(array).astype(np.int64))
        days = (month(first + 31) - 1).astype(np.int32)
        return array_of(days, pa.date32(), nulls_of(array))

    return strict(call, evaluate)
