"""Files that Arrow reads exactly as Spark would.

Law: `read_file` gives the rows that Spark's reader of the format gives for the file, or None. It
says None where the two could differ: a type that is not listed, an option, a quote, a blank line, a
value that Arrow refuses. Then Spark reads the file, at the price of a Spark job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.orc
import pyarrow.parquet as pq
import pyspark.sql.types as T

from spark_incr.plan.types import Schema, arrow_schema
from spark_incr.runtime.columns import single, values

_INTEGERS = (T.IntegerType, T.LongType)
_JSON = (*_INTEGERS, T.DoubleType, T.StringType, T.BooleanType)
_CSV = (*_INTEGERS, T.DoubleType, T.StringType)
_PARQUET = (*_JSON, T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType, T.DecimalType)
_COMPRESSED = re.compile(r"\.(gz|bz2|zst|zstd|lz4|snappy|deflate|xz|br)$", re.IGNORECASE)
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
# Spark trims, quotes and comments in its own way; hexadecimal numbers are numbers to Arrow alone.
_DELICATE_CSV = re.compile(rb"[\"'\\\r\0#]|0[xX]|\n\n|(?m:^[ \t]|[ \t]$)|[ \t]{sep}|{sep}[ \t]")
_OPTIONS: Mapping[str, frozenset[str]] = {
    "json": frozenset(),
    "csv": frozenset({"header", "sep", "delimiter"}),
    "parquet": frozenset(),
    "text": frozenset(),
}


def is_plain(format_: str, schema: Schema, options: Mapping[str, str]) -> bool:
    """Whether files of a source may be read here at all."""
    allowed = {"json": _JSON, "csv": _CSV, "parquet": _PARQUET, "text": (T.StringType,)}
    if format_ not in allowed or {key.lower() for key in options} - _OPTIONS[format_]:
        return False
    return all(type(field.type) in allowed[format_] for field in schema)


def read_file(
    path: Path, format_: str, schema: Schema, options: Mapping[str, str]
) -> pa.Table | None:
    """The rows of a file of a plain source, in its schema, or None: let Spark read it."""
    if format_ == "parquet":
        return _parquet(path, schema)
    if _COMPRESSED.search(path.name):
        return None
    data = path.read_bytes()
    if format_ == "text":
        return _text(data, schema)
    if not data:
        return arrow_schema(schema).empty_table()
    return _json(data, schema) if format_ == "json" else _csv(data, schema, options)


def _json(data: bytes, schema: Schema) -> pa.Table | None:
    """One object a line: every line begins with `{` and ends with `}`, and each is one row."""
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    ended = data.count(b"}\n") + data.endswith(b"}")
    if b"\r" in data or not data.startswith(b"{") or ended != lines:
        return None
    if data.count(b"\n{") != lines - 1:
        return None
    columns = arrow_schema(schema)
    parse = pa.json.ParseOptions(explicit_schema=columns, unexpected_field_behavior="ignore")
    read = pa.json.ReadOptions(use_threads=False, block_size=max(len(data) + 1, 1 << 20))
    try:
        rows = pa.json.read_json(pa.BufferReader(data), read_options=read, parse_options=parse)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None
    return rows.select(columns.names) if rows.num_rows == lines and _sound(rows) else None


def _csv(data: bytes, schema: Schema, options: Mapping[str, str]) -> pa.Table | None:
    known = {key.lower(): value for key, value in options.items()}
    separator = known.get("sep", known.get("delimiter", ","))
    header = known.get("header", "false").lower()
    if (
        len(separator.encode()) != 1
        or separator in " \t\"'\\#\n"
        or header not in ("true", "false")
    ):
        return None
    delicate = _DELICATE_CSV.pattern.replace(b"{sep}", re.escape(separator).encode())
    if data.startswith((b"\n", b"\xef\xbb\xbf")) or re.search(delicate, data):
        return None
    columns = arrow_schema(schema)
    try:
        rows = pa.csv.read_csv(
            pa.BufferReader(data),
            pa.csv.ReadOptions(
                use_threads=False,
                column_names=columns.names,
                skip_rows=int(header == "true"),
                block_size=max(len(data) + 1, 1 << 20),
            ),
            pa.csv.ParseOptions(delimiter=separator, quote_char=False, ignore_empty_lines=False),
            pa.csv.ConvertOptions(column_types=columns, null_values=[""], strings_can_be_null=True),
        )
    except pa.ArrowInvalid:
        return None
    return rows if _sound(rows) else None


def _text(data: bytes, schema: Schema) -> pa.Table | None:
    if b"\r" in data or len(schema) != 1:
        return None
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None
    if lines[-1] == "":
        lines.pop()
    return pa.table([pa.array(lines, pa.string())], schema=arrow_schema(schema))


def _parquet(path: Path, schema: Schema) -> pa.Table | None:
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError):
        return None
    found, metadata = file.schema_arrow, file.metadata.metadata or {}
    columns = arrow_schema(schema)
    if any(key in metadata for key in _LEGACY) or len(set(map(str.lower, found.names))) < len(
        found.names
    ):
        return None
    named = {name.lower(): name for name in found.names}
    for field in columns:
        name = named.get(field.name.lower())
        if name is not None and found.field(name).type != field.type:
            return None
    rows = file.read([named[f.name.lower()] for f in columns if f.name.lower() in named])
    parts = [
        single(rows.column(named[f.name.lower()]))
        if f.name.lower() in named
        else pa.nulls(file.metadata.num_rows, f.type)
        for f in columns
    ]
    return pa.Table.from_arrays(parts, schema=columns)


def _sound(rows: pa.Table) -> bool:
    """No text that is not UTF-8, and no number that the two may have understood differently."""
    for column in rows.columns:
        array = single(column)
        if pa.types.is_string(array.type):
            try:
                array.validate(full=True)
            except pa.ArrowInvalid:
                return False
        elif pa.types.is_floating(array.type):
            numbers = values(pc.fill_null(array, 1.0))
            if not np.isfinite(numbers).all() or (np.signbit(numbers) & (numbers == 0)).any():
                return False
    return True


def orc_misfit(path: str, schema: Schema) -> str:
    """What keeps an ORC file from its source: Spark reads a value of another type as NULL."""
    try:
        found = pyarrow.orc.ORCFile(path).schema
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return ""  # Spark will say what it is
    types = {field.name.lower(): field.type for field in found}
    for field in arrow_schema(schema):
        kind = types.get(field.name.lower())
        if kind is not None and not _holds(field.type, kind):
            return f"column {field.name} has type {kind} in the file"
    return ""


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Whether every value of a type of a file is one of a type of a column."""
    same_kind = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    for kind in (pa.types.is_timestamp, pa.types.is_date):
        if kind(wide) and kind(narrow):
            return True
    if any(kind(wide) and kind(narrow) for kind in same_kind):
        if pa.types.is_decimal(wide):
            whole = wide.precision - wide.scale >= narrow.precision - narrow.scale
            return bool(whole and wide.scale >= narrow.scale)
        return bool(wide.bit_width >= narrow.bit_width)
    if wide.num_fields:
        pairs = [(wide.field(i), i) for i in range(wide.num_fields)]
        if wide.id != narrow.id or len(pairs) != narrow.num_fields:
            return False
        return all(_holds(field.type, narrow.field(i).type) for field, i in pairs)
    return bool(wide.equals(narrow))
