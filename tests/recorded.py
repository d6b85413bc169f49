"""Examples as JSON files that a person can read: values are written by the type of their column."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyspark.sql.types as T

from spark_incr.plan.types import Field, Schema
from tests.grammar import Example


def write_example(example: Example) -> dict[str, Any]:
    """The example as JSON data."""
    return {
        "tables": {
            name: ", ".join(f"{f.name} {f.type.simpleString()}" for f in schema)
            for name, schema in example.tables.items()
        },
        "query": example.query,
        "unordered": list(example.unordered),
        "batches": [
            {
                name: {
                    side: [
                        [_write(v, f.type) for v, f in zip(row, example.tables[name], strict=True)]
                        for row in rows
                    ]
                    for side, rows in sides.items()
                    if rows
                }
                for name, sides in batch.items()
            }
            for batch in example.batches
        ],
    }


def read_example(data: dict[str, Any]) -> Example:
    """The example that was written."""
    tables = {name: _schema(text) for name, text in data["tables"].items()}
    batches = [
        {
            name: {
                side: [
                    tuple(_read(v, f.type) for v, f in zip(row, tables[name], strict=True))
                    for row in rows
                ]
                for side, rows in sides.items()
            }
            for name, sides in batch.items()
        }
        for batch in data["batches"]
    ]
    return Example(tables, data["query"], batches, tuple(data.get("unordered", ())))


def _schema(text: str) -> Schema:
    parsed = T.StructType.fromDDL(text)
    assert isinstance(parsed, T.StructType)
    return tuple(Field(f.name, f.dataType) for f in parsed.fields)


def _write(value: Any, type_: T.DataType) -> Any:
    if isinstance(value, float):
        return str(value) if not math.isfinite(value) else value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    return value


def _read(value: Any, type_: T.DataType) -> Any:
    if value is None:
        return None
    match type_:
        case T.FloatType() | T.DoubleType():
            return float(value)
        case T.BinaryType():
            return bytes.fromhex(value)
        case T.DateType():
            return dt.date.fromisoformat(value)
        case T.TimestampType() | T.TimestampNTZType():
            return dt.datetime.fromisoformat(value)
        case T.DecimalType():
            return Decimal(value)
        case T.DayTimeIntervalType():
            return dt.timedelta(seconds=value)
        case T.MapType():
            return [tuple(entry) for entry in value]
    return value
