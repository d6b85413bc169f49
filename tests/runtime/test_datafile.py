"""A table of any type comes back from a data file as it was, in one chunk, without a copy."""

from __future__ import annotations

import datetime
import decimal
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from spark_incr.errors import IncrementalError
from spark_incr.runtime.datafile import DataWriter, MappedFile
from spark_incr.runtime.manifest import Segment, data_name

DAY = datetime.date(2024, 2, 29)
INSTANT = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)

ARRAYS: dict[str, pa.Array] = {
    "null": pa.nulls(3),
    "bool": pa.array([True, None, False]),
    **{
        str(t): pa.array([1, None, 3], t)
        for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64())
    },
    "float16": pa.array([1.5, None, -0.0], pa.float32()).cast(pa.float16()),
    "float32": pa.array([float("inf"), None, -0.0], pa.float32()),
    "float64": pa.array([float("-inf"), None, -0.0]),
    "decimal128": pa.array([decimal.Decimal("1.20"), None], pa.decimal128(38, 2)),
    "decimal256": pa.array([decimal.Decimal("-1.20"), None], pa.decimal256(60, 2)),
    "string": pa.array(["", None, "ż\U0001f600"]),
    "large_string": pa.array(["a", None], pa.large_string()),
    "string_view": pa.array(["a string longer than twelve bytes", None], pa.string_view()),
    "binary": pa.array([b"\x00\xff", None, b""]),
    "fixed_binary": pa.array([b"ab", None], pa.binary(2)),
    "date32": pa.array([DAY, None]),
    "date64": pa.array([DAY, None], pa.date64()),
    "time64": pa.array([INSTANT.time(), None], pa.time64("us")),
    "timestamp_utc": pa.array([INSTANT, None], pa.timestamp("us", tz="UTC")),
    "timestamp": pa.array([INSTANT, None], pa.timestamp("us")),
    "duration": pa.array([datetime.timedelta(days=-1, microseconds=1), None], pa.duration("us")),
    "interval": pa.array([pa.MonthDayNano([1, 2, 3]), None]),
    "list": pa.array([[1, None], None, []], pa.list_(pa.field("element", pa.int64()))),
    "large_list": pa.array([["a"], None], pa.large_list(pa.string())),
    "fixed_list": pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
    "struct": pa.array([{"a": 1, "b": ["x", None]}, None, {"a": None, "b": None}]),
    "map": pa.array([[("k", {"v": 1})], None, []], pa.map_(pa.string(), pa.struct({"v": pa.int8()}))),
    "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
    "list_of_dictionary": pa.array([["a"], None], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "extension": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None], pa.binary(16))),
    "deep": pa.array([[[{"m": [[1.5]]}]], None], pa.list_(pa.list_(pa.struct({"m": pa.list_(pa.list_(pa.float64()))})))),
}  # fmt: skip


def written(directory: Path, *tables: pa.Table) -> tuple[MappedFile, list[Segment]]:
    path = directory / data_name(1, "00000000")
    writer = DataWriter(path)
    segments = [writer.append(table) for table in tables]
    writer.flush()
    writer.close()
    assert path.stat().st_size == writer.size == sum(segment.length for segment in segments)
    return MappedFile.open(path), segments


@pytest.mark.parametrize("name", ARRAYS)
def test_every_type_comes_back(tmp_path: Path, name: str) -> None:
    whole = pa.table({"x": ARRAYS[name]}).replace_schema_metadata({"a": "b"})
    tables = [whole, whole.slice(1), whole.slice(0, 0), whole.schema.empty_table()]
    if name != "list_of_dictionary":  # Arrow cannot join chunks whose inner dictionaries differ
        tables.append(pa.concat_tables([whole, whole.slice(1), whole]))
    file, segments = written(tmp_path, *tables)
    for segment, table in zip(segments, tables, strict=True):
        read = file.table(segment)
        read.validate(full=True)
        assert read.equals(table, check_metadata=True)
        assert read.column(0).num_chunks == 1


def test_segments_are_plain_ipc_streams(tmp_path: Path) -> None:
    table = pa.table({name: array.slice(0, 2) for name, array in ARRAYS.items()})
    table = table.drop_columns(["dictionary", "list_of_dictionary"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    file, [segment] = written(tmp_path, table)
    assert file.bytes(segment).equals(sink.getvalue())


def test_rows_without_columns(tmp_path: Path) -> None:
    rows = pa.table({"n": range(5)}).select([])
    file, segments = written(tmp_path, rows, pa.table({}))
    assert [file.table(segment).num_rows for segment in segments] == [5, 0]


def test_a_read_is_a_view_of_the_mapped_file(tmp_path: Path) -> None:
    file, [segment] = written(tmp_path, pa.table({"n": range(10_000)}))
    before = pa.total_allocated_bytes()
    values = file.table(segment).column(0).chunk(0).buffers()[1]
    assert pa.total_allocated_bytes() - before < 1_000
    assert file.buffer.address < values.address < file.buffer.address + file.buffer.size


def test_a_segment_that_is_no_stream_is_damage(tmp_path: Path) -> None:
    """The checksum says that these are the bytes that were written, not that they are Arrow."""
    path = tmp_path / data_name(1, "00000000")
    path.write_bytes(b"\xff" * 64)
    segment = Segment(path.name, 0, 64, zlib.crc32(b"\xff" * 64))
    with pytest.raises(IncrementalError) as caught:
        MappedFile.open(path).table(segment)
    assert caught.value.condition == "INCR_STATE_CORRUPT"
