"""Data files: Arrow IPC streams one after the other, written once and then only mapped.

Law: `table(append(t)) = t`, with one chunk per column whatever the chunks of `t` were. The bytes
of a table are laid out once, in memory, where their checksum is taken; a reader gets views into
the mapped file, and a stream's checksum is verified the first time it is read.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from spark_incr.errors import error
from spark_incr.runtime.manifest import Segment

_END_OF_STREAM = pa.py_buffer(b"\xff\xff\xff\xff\x00\x00\x00\x00")
_SERIAL = pa.ipc.IpcReadOptions(use_threads=False)
_BUFFER_BYTES = 64 * 1024  # joins small streams; a larger one goes to the file without a copy


class DataWriter:
    """The data file of one transaction, before its commit."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.size = 0
        self._raw = io.FileIO(path, "x")
        self._file = io.BufferedWriter(self._raw, _BUFFER_BYTES)

    def append(self, table: pa.Table) -> Segment:
        parts = _stream(table)
        checksum = 0
        for part in parts:
            checksum = zlib.crc32(part, checksum)
        return self._write(parts, checksum)

    def append_bytes(self, data: pa.Buffer, checksum: int) -> Segment:
        """Append a stream that exists; its checksum goes with it, so damage stays visible."""
        return self._write([data], checksum)

    def _write(self, parts: list[pa.Buffer], checksum: int) -> Segment:
        length = 0
        for part in parts:
            self._file.write(part)
            length += len(part)
        segment = Segment(self.name, self.size, length, checksum)
        self.size += length
        return segment

    def flush(self) -> None:
        self._file.flush()

    @contextmanager
    def syncing(self, disk: Executor) -> Iterator[Callable[[], None]]:
        """Make the file durable while the block runs; what it gets waits for that, and fails by it."""
        synced = disk.submit(os.fsync, self._raw.fileno())
        try:
            yield synced.result
        finally:
            wait([synced])

    def close(self) -> None:
        """Give up the descriptor; what was not flushed is lost, and cannot fail here."""
        self._raw.close()


def _stream(table: pa.Table) -> list[pa.Buffer]:
    """The parts of the table's IPC stream, byte for byte as `pa.ipc.new_stream` writes them."""
    batches, schema = _batches(table), table.schema.serialize()
    if _has_dictionary(schema.to_pybytes()):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return [sink.getvalue()]
    return [schema, *[batch.serialize() for batch in batches], _END_OF_STREAM]


def _batches(table: pa.Table) -> list[pa.RecordBatch]:
    """One batch, also for no rows; more only where a column is too long for one chunk."""
    batches: list[pa.RecordBatch] = table.to_batches()
    if len(batches) > 1:
        batches = table.combine_chunks().to_batches()
    if not batches:
        columns = [pa.array([], field.type) for field in table.schema]
        batches = [pa.RecordBatch.from_arrays(columns, schema=table.schema)]
    return batches


@lru_cache(maxsize=1024)
def _has_dictionary(schema: bytes) -> bool:
    """Dictionaries are messages of their own, which only the stream writer emits."""
    fields = pa.ipc.read_schema(pa.py_buffer(schema))
    return any(_holds_dictionary(field.type) for field in fields)


def _holds_dictionary(type_: pa.DataType) -> bool:
    if isinstance(type_, pa.BaseExtensionType):
        return _holds_dictionary(type_.storage_type)
    if pa.types.is_dictionary(type_):
        return True
    return any(_holds_dictionary(type_.field(i).type) for i in range(type_.num_fields))


@dataclass(frozen=True)
class MappedFile:
    """A committed data file in memory; its pages outlive the removal of the file."""

    name: str
    buffer: pa.Buffer
    verified: set[Segment] = field(default_factory=set)

    @staticmethod
    def open(path: Path) -> MappedFile:
        if os.path.getsize(path) == 0:
            return MappedFile(path.name, pa.py_buffer(b""))
        with pa.memory_map(os.fspath(path)) as source:
            return MappedFile(path.name, source.read_buffer())

    def bytes(self, segment: Segment) -> pa.Buffer:
        if segment.offset + segment.length > self.buffer.size:
            raise self._corrupt(segment, f"the file ends at byte {self.buffer.size}")
        return self.buffer.slice(segment.offset, segment.length)

    def table(self, segment: Segment) -> pa.Table:
        data = self.bytes(segment)
        if segment not in self.verified:
            if zlib.crc32(data) != segment.checksum:
                raise self._corrupt(segment, "the checksum differs")
            self.verified.add(segment)
        try:
            return pa.ipc.open_stream(data, options=_SERIAL).read_all()
        except (pa.ArrowException, OSError) as failure:
            raise self._corrupt(segment, str(failure)) from failure

    def _corrupt(self, segment: Segment, what: str) -> Exception:
        end = segment.offset + segment.length
        return error(
            "INCR_STATE_CORRUPT",
            file=self.name,
            what=what,
            detail=f"The segment is bytes {segment.offset} to {end}.",
        )
