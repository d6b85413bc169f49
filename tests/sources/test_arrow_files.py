"""Where Arrow reads a file, it reads what Spark reads: awkward files of each format, and random ones.

All files of a format are read by Spark in one job.
"""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from spark_incr.plan.types import Field, Schema, arrow_schema
from spark_incr.sources.arrow_files import is_plain, read_file
from spark_incr.sources.definition import define
from spark_incr.sources.files import CORRUPT, FileStream
from spark_incr.sql.parse import parse_statement
from spark_incr.sql.statements import CreateSource

COLUMNS: Schema = (
    Field("i", T.IntegerType()),
    Field("n", T.LongType()),
    Field("d", T.DoubleType()),
    Field("s", T.StringType()),
    Field("b", T.BooleanType()),
)
_TEXTS = [
    "",
    "a",
    "two words",
    " lead",
    "trail ",
    "ünï 表 🙂",
    "null",
    "tab\tin",
    'quo"te',
    "back\\slash",
    "a\nb",
]
_NUMBERS = [0, -0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63]
_DOUBLES = [0.0, -0.0, 1.5, 1e308, 5e-324, 0.1, 123456789.123456789, 2**53 + 1]


def json_files(chance: random.Random) -> dict[str, bytes]:
    lines = [
        *(f'{{"i": {v}}}' for v in ("1", "1.0", '"1"', "1e2", "true", "null", "[1]", "2147483648", "-0", "01", "+1", "0x1")),
        *(f'{{"d": {v}}}' for v in ("1", "-0", "-0.0", "1e400", "NaN", '"NaN"', '"1.5"', "Infinity", "1.", ".5", "9007199254740993", "123456789012345678901234567890")),
        *(f'{{"s": {v}}}' for v in ('"a"', "1", "1.50", "true", '{"x": 1}', "[1, 2]", '"\\u00e9"', '"\\ud83d\\ude42"', '"\\ud800"', "'single'", '"a\tb"', '"\\/"')),
        *(f'{{"b": {v}}}' for v in ("true", "false", '"true"', "1", "TRUE")),
        '{"n": 1, "n": 2}', '{"N": 1}', '{"n": 1, "unknown": {"n": 3}}', '{"n": 1}{"n": 2}', '{"n": 1} {"n": 2}', '{"n": 1} x',
        '{"n":', "", "  ", "[]", "1", "null", "{}", "// c", '{"n": 1} // c', ' {"n": 1}', '{"n": 1} ', '[{"n": 1}, {"n": 2}]', '{"n": 1,}',
        '{"s": "\\n"}', "{'n': 1}", '{n: 1}',
    ]  # fmt: skip
    files = {f"one-{i}": line.encode() + b"\n" for i, line in enumerate(lines)}
    files["split"] = b'{"n": 1, "x": {}\n}{"n": 2}\n'
    files["latin"] = '{"s": "é"}\n'.encode("latin-1")
    files["mark"] = b'\xef\xbb\xbf{"n": 1}\n'
    files["returns"] = b'{"n": 1}\r\n{"n": 2}\r\n'
    files["unended"] = b'{"n": 1}\n{"n": 2}'
    files["blank"] = b'{"n": 1}\n\n{"n": 2}\n'
    files["empty"] = b""
    for number in range(60):
        rows = [_row(chance) for _ in range(chance.randint(1, 20))]
        text = "".join(json.dumps(row, ensure_ascii=chance.random() < 0.5) + "\n" for row in rows)
        files[f"random-{number}"] = text.encode()
    return files


def _row(chance: random.Random) -> dict[str, Any]:
    values = {
        "i": chance.choice([*_NUMBERS[:6], None]),
        "n": chance.choice([*_NUMBERS[:10], None] if chance.random() < 0.97 else [2**63]),
        "d": chance.choice([*_DOUBLES, chance.uniform(-1e9, 1e9), None]),
        "s": chance.choice([*_TEXTS, None]),
        "b": chance.choice([True, False, None]),
    }
    return {key: value for key, value in values.items() if chance.random() < 0.9}


def csv_files(chance: random.Random) -> dict[str, bytes]:
    lines = [
        "1,2,3.5,text", "1,2,3.5", "1,2,3.5,a,b", ",,,", "", " 1,2,3.5,a", "1 ,2,3.5,a", "1, 2,3.5, a ", "+1,2,3.5,a", "007,2,3.5,a",
        "0x1F,2,3,a", "1,2,NaN,a", "1,2,Inf,a", "1,2,nan,a", "1,2,-Infinity,a", "1,2,1e5,a", "1,2,1d,a", "1,2,-0,a", '1,2,3,"quoted"',
        '1,2,3,"a ""b"""', "1,2,3,a\\,b", "1,2,3,#c", "#1,2,3,c", "1.0,2,3,a", "1,2,3,null", "NULL,2,3,a", "1,2,3,a\tb", "1,2,3,'x'",
        "2147483648,1,1,a", "1,9223372036854775808,1,a", "1,2,1_000,a", "1,2,.5,a", "1,2,5.,a", "1,2,3,é 表",
    ]  # fmt: skip
    files = {f"one-{i}": line.encode() + b"\n" for i, line in enumerate(lines)}
    files["returns"] = b"1,2,3,a\r\n4,5,6,b\r\n"
    files["mixed"] = b"1,2,3,a\r4,5,6,b\n"
    files["blank"] = b"1,2,3,a\n\n4,5,6,b\n"
    files["unended"] = b"1,2,3,a\n4,5,6,b"
    files["empty"] = b""
    files["latin"] = "1,2,3,é\n".encode("latin-1")
    texts = [t for t in _TEXTS if "\n" not in t]
    for number in range(60):
        rows = []
        for _ in range(chance.randint(1, 20)):
            odd = chance.random() < 0.05
            row = (
                chance.choice(_NUMBERS[:6]),
                chance.choice(_NUMBERS if odd else _NUMBERS[:10]),
                chance.choice(_DOUBLES if odd else [1.5, 0.1, 1e300, chance.uniform(-9, 9)]),
                chance.choice(texts if odd else ["a", "b c", "", "null"]),
            )
            rows.append(",".join("" if chance.random() < 0.1 else str(v) for v in row))
        files[f"random-{number}"] = "\n".join(rows).encode() + b"\n"
    return files


def text_files(chance: random.Random) -> dict[str, bytes]:
    texts = [
        "a\nb\n",
        "a\nb",
        "",
        "\n",
        "\n\n",
        "a\r\nb\rc\n",
        " x \n\ty\n",
        "é表🙂\n",
        "a\0b\n",
        "\u2028x\x0by\x0cz\x85\n",
    ]
    return {f"one-{i}": text.encode() for i, text in enumerate(texts)} | {"latin": b"\xe9\n"}


def definition(format_: str, schema: Schema, directory: Path, options: str = "") -> Any:
    text = f"CREATE INCREMENTAL SOURCE s USING {format_} OPTIONS (path '{directory}'{options})"
    statement = parse_statement(text)
    assert isinstance(statement, CreateSource)
    return define(statement, schema)


def compare(
    spark: SparkSession, directory: Path, format_: str, schema: Schema, options: Mapping[str, str]
) -> float:
    """Hold every file that Arrow reads to Spark; returns the part of the files that it reads."""
    extra = "".join(f", {key} '{value}'" for key, value in options.items())
    stream = FileStream(spark, definition(format_, schema, directory, extra), {})
    assert is_plain(format_, schema, options)
    paths = sorted(str(path) for path in directory.iterdir())
    found = stream._load(paths)
    read = 0
    for path in paths:
        actual = read_file(Path(path), format_, schema, options)
        if actual is None:
            continue
        read += 1
        expected = found[path]
        content = Path(path).read_bytes()[:200]
        assert expected[CORRUPT].null_count == expected.num_rows, f"{path}: {content!r}"
        assert repr(actual.to_pylist()) == repr(expected.drop_columns([CORRUPT]).to_pylist()), (
            content
        )
    return read / len(paths)


@pytest.mark.parametrize("format_", ["json", "csv", "text"])
def test_text_files(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    make = {"json": json_files, "csv": csv_files, "text": text_files}[format_]
    for name, data in make(random.Random(7)).items():
        (tmp_path / name).write_bytes(data)
    schema = {"json": COLUMNS, "csv": COLUMNS[:4], "text": (Field("value", T.StringType()),)}[
        format_
    ]
    assert compare(spark, tmp_path, format_, schema, {}) > 0.3
    if format_ == "csv":
        assert compare(spark, tmp_path, format_, schema, {"header": "true"}) > 0.3
        one = (Field("s", T.StringType()),)
        compare(spark, tmp_path, format_, one, {"sep": ";"})


def test_parquet_files(spark: SparkSession, tmp_path: Path) -> None:
    schema: Schema = (
        *COLUMNS,
        Field("day", T.DateType()),
        Field("at", T.TimestampType()),
        Field("local", T.TimestampNTZType()),
        Field("m", T.DecimalType(12, 3)),
        Field("raw", T.BinaryType()),
    )
    columns = arrow_schema(schema)
    utc = datetime.timezone.utc
    row = {
        "i": 1, "n": 2**62, "d": float("nan"), "s": "é", "b": True, "day": datetime.date(1, 1, 1),
        "at": datetime.datetime(1500, 1, 1, 1, 2, 3, 4, tzinfo=utc), "local": datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
        "m": Decimal("-123456789.125"), "raw": b"\0\xff",
    }  # fmt: skip
    whole = pa.Table.from_pylist([row, {}, row], schema=columns)
    pq.write_table(whole, tmp_path / "whole.parquet")
    pq.write_table(whole.slice(0, 0), tmp_path / "none.parquet")
    pq.write_table(whole.select(["s", "i"]), tmp_path / "some.parquet")
    pq.write_table(
        whole.rename_columns([name.upper() for name in columns.names]), tmp_path / "upper.parquet"
    )
    pq.write_table(whole.append_column("z", pa.nulls(3, pa.int8())), tmp_path / "more.parquet")
    pq.write_table(whole, tmp_path / "int96.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(whole, tmp_path / "groups.parquet", row_group_size=1, compression="zstd")
    directory = tmp_path / "spark"
    frame = spark.createDataFrame(
        whole.slice(0, 1), T.StructType([T.StructField(f.name, f.type) for f in schema])
    )
    frame.coalesce(1).write.parquet(str(directory))
    (part,) = directory.glob("*.parquet")
    part.rename(tmp_path / "spark.parquet")
    for path in directory.glob("*"):
        path.unlink()
    for path in directory.glob(".*"):
        path.unlink()
    directory.rmdir()
    assert compare(spark, tmp_path, "parquet", schema, {}) > 0.7
    (tmp_path / "text.parquet").write_text("not Parquet")
    assert read_file(tmp_path / "text.parquet", "parquet", schema, {}) is None
