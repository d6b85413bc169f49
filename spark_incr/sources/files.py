"""Streams of files: what is new in a directory, and its rows.

Law: a file is read once, in the order of modification time and name. Which files were read is
state like any other and is committed with the rows, so a crash repeats none and loses none. Files must
be put into the directory whole, by a rename; a file that was read must not change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyspark.sql.types as T
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_incr.errors import error
from spark_incr.frames import computed
from spark_incr.plan.types import arrow_schema
from spark_incr.runtime.columns import Bools, single
from spark_incr.sources.arrow_files import is_plain, orc_misfit, read_file
from spark_incr.sources.definition import FILE_FORMATS, SourceDefinition
from spark_incr.sources.events import Fault
from spark_incr.sources.source import FILES_SCHEMA

CORRUPT = "__incr_corrupt"
MAX_FILES = 1_000
_OURS = {"path", "maxfilespertrigger", "recursivefilelookup"}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


@dataclass(frozen=True)
class FileInfo:
    """A file in the directory of inserts or of deletes."""

    path: str
    size: int
    modified: int
    deletes: bool = False


@dataclass(frozen=True)
class MicroBatch:
    """Rows that arrived, which of them delete, where they came from, and what could not be read."""

    rows: pa.Table
    deletes: Bools | None = None
    origins: Sequence[tuple[int, str]] = ()
    faults: Sequence[Fault] = ()
    files: pa.Table = field(default_factory=FILES_SCHEMA.empty_table)
    offsets: Mapping[str, Any] | None = None

    def origin(self, row: int) -> str:
        """The file or batch of a row."""
        found = ""
        for start, origin in self.origins:
            if start > row:
                break
            found = origin
        return found


def is_local(definition: SourceDefinition) -> bool:
    """Whether the source is a plain directory of files, which needs no Structured Streaming."""
    path = dict(definition.statement.options).get("path", "")
    scheme = _SCHEME.match(path)
    return definition.statement.format.lower() in FILE_FORMATS and (
        scheme is None or scheme[1].lower() == "file"
    )


def local_path(text: str) -> Path:
    """The directory of an option, which may be a URL."""
    match = re.match(r"file:(?://[^/]*)?(/.*)", text, re.IGNORECASE | re.DOTALL)
    return Path(os.path.abspath(match[1] if match else text))


class FileStream:
    """The directories of a source, and the files in them that were read."""

    def __init__(
        self, spark: SparkSession, definition: SourceDefinition, seen: Mapping[str, int]
    ) -> None:
        self._spark = spark
        self._definition = definition
        self._format = definition.statement.format.lower()
        options = dict(definition.statement.options)
        known = {key.lower(): value for key, value in options.items()}
        if "path" not in known:
            raise self._refused("the option path is missing")
        if "mode" in known:
            raise self._refused("the option mode; ON ERROR says what happens to a bad row")
        self._directories = [(local_path(known["path"]), False)]
        if definition.changes.deletes_path is not None:
            self._directories.append((local_path(definition.changes.deletes_path), True))
        self._recursive = known.get("recursivefilelookup", "false").lower() == "true"
        self._limit = int(known.get("maxfilespertrigger", MAX_FILES))
        self._options = {k: v for k, v in options.items() if k.lower() not in _OURS}
        self._plain = is_plain(self._format, definition.delivered, self._options)
        self.seen = dict(seen)
        for directory, _ in self._directories:
            if not directory.is_dir():
                raise self._refused(f"{directory} is not a directory")

    def _refused(self, what: str) -> Exception:
        return error("INCR_SOURCE_UNSUPPORTED", source=self._definition.name, what=what)

    # Listing

    def new_files(self) -> list[FileInfo]:
        """Files that were not read, oldest first, as many as one batch may take."""
        found: list[FileInfo] = []
        for directory, deletes in self._directories:
            self._list(str(directory), deletes, found)
        found.sort(key=lambda file: (file.modified, file.path))
        return found[: self._limit]

    def _list(self, directory: str, deletes: bool, found: list[FileInfo]) -> None:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.startswith(("_", ".")):
                    continue
                if entry.is_dir():
                    if not self._recursive:
                        what = f"{entry.path} is a directory; set recursiveFileLookup to read it"
                        raise self._refused(what)
                    self._list(entry.path, deletes, found)
                elif entry.path not in self.seen:
                    status = entry.stat()
                    found.append(FileInfo(entry.path, status.st_size, status.st_mtime_ns, deletes))

    def check_unchanged(self) -> None:
        """Refuse to go on if a file that was read has another size; one that is gone is no matter."""
        for path, size in self.seen.items():
            try:
                now = os.stat(path).st_size
            except OSError:
                continue
            if now != size:
                raise error("INCR_SOURCE_FILE_CHANGED", source=self._definition.name, file=path)

    # Reading

    def read(self, files: Sequence[FileInfo]) -> MicroBatch:
        """The rows of files; what Arrow cannot vouch for is read by Spark, in one job."""
        tables: dict[str, pa.Table] = {}
        faults: list[Fault] = []
        for file in files if self._plain else ():
            rows = read_file(
                Path(file.path), self._format, self._definition.delivered, self._options
            )
            if rows is not None:
                tables[file.path] = rows
        left = []
        for file in files:
            misfit = (
                orc_misfit(file.path, self._definition.delivered) if self._format == "orc" else ""
            )
            if misfit:
                faults.append(Fault("", misfit, file.path))
            elif file.path not in tables:
                left.append(file)
        if left:
            self._by_spark(left, tables, faults)
        schema = arrow_schema(self._definition.delivered)
        parts, origins, deletes, start = [], [], [], 0
        for file in files:
            rows = tables.get(file.path, schema.empty_table())
            origins.append((start, file.path))
            deletes.append(np.full(rows.num_rows, file.deletes, dtype=np.bool_))
            parts.append(rows)
            start += rows.num_rows
        names = ("path", "size", "modified")
        read = pa.table(
            [[getattr(file, name) for file in files] for name in names], schema=FILES_SCHEMA
        )
        whole = pa.concat_tables(parts).combine_chunks() if parts else schema.empty_table()
        marks = np.concatenate(deletes) if deletes else None
        return MicroBatch(whole, marks, origins, faults, read)

    def rest(self) -> Iterator[MicroBatch]:
        """All that was not read, batch by batch."""
        while files := self.new_files():
            batch = self.read(files)
            self.committed(batch.files)
            yield batch

    def committed(self, files: pa.Table) -> None:
        """The files are part of a version."""
        names, sizes = (single(files.column(c)).to_pylist() for c in ("path", "size"))
        self.seen.update(zip(names, sizes, strict=True))

    def _by_spark(
        self, files: Sequence[FileInfo], tables: dict[str, pa.Table], faults: list[Fault]
    ) -> None:
        try:
            found = self._load([file.path for file in files])
        except PySparkException as failure:
            if len(files) == 1:
                reason = str(failure).strip().split("\n")[0]
                faults.append(Fault("", f"the file cannot be read: {reason}", files[0].path))
                return
            for file in files:
                self._by_spark([file], tables, faults)
            return
        for path, rows in found.items():
            corrupt = single(rows.column(CORRUPT))
            bad = np.flatnonzero(~np.asarray(corrupt.is_null()))
            # The bytes may be what is wrong.
            lines = [
                line.decode(errors="replace")
                for line in corrupt.cast(pa.binary()).take(bad).to_pylist()
            ]
            faults += [Fault(line, _UNPARSED, path) for line in lines]
            good = np.flatnonzero(np.asarray(corrupt.is_null()))
            tables[path] = rows.drop_columns([CORRUPT]).take(good).combine_chunks()

    def _load(self, paths: Sequence[str]) -> dict[str, pa.Table]:
        """The rows of each file, in their order in it."""
        fields = [T.StructField(f.name, f.type) for f in self._definition.delivered]
        textual = self._format in ("json", "csv")
        if textual:
            fields.append(T.StructField(CORRUPT, T.StringType()))
        reader = self._spark.read.format(self._format).schema(T.StructType(fields))
        reader = reader.options(**self._options).option("__globPaths__", "false")
        if textual:
            reader = reader.option("mode", "PERMISSIVE").option(
                "columnNameOfCorruptRecord", CORRUPT
            )
        frame = reader.load([f"file:{path}" for path in paths])
        place = ("_metadata.file_path AS __incr_file", "_metadata.file_block_start AS __incr_block")
        columns = [f"`{f.name.replace('`', '``')}`" for f in fields]
        rows = computed(frame.selectExpr(*columns, *place))
        if not textual:
            rows = rows.append_column(CORRUPT, pa.nulls(rows.num_rows, pa.string()))
        schema = arrow_schema(self._definition.delivered).append(pa.field(CORRUPT, pa.string()))
        names = single(rows.column("__incr_file")).dictionary_encode()
        blocks = single(rows.column("__incr_block")).to_numpy(zero_copy_only=False)
        indices = names.indices.to_numpy(zero_copy_only=False)
        data = pa.Table.from_arrays(
            [single(rows.column(name)).cast(schema.field(name).type) for name in schema.names],
            schema=schema,
        )
        result = {}
        by_url = {_decoded(url): i for i, url in enumerate(names.dictionary.to_pylist())}
        for path in paths:
            at = np.flatnonzero(indices == by_url.get(path, -1))
            result[path] = data.take(at[np.argsort(blocks[at], kind="stable")])
        assert sum(part.num_rows for part in result.values()) == data.num_rows, "rows of no file"
        return result


_UNPARSED = "the row cannot be parsed, or a value does not have the type of its column"


def _decoded(url: str) -> str:
    return unquote(re.sub(r"^file:/*", "/", url))
