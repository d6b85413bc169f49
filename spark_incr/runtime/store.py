"""The versioned store: a directory in which a version exists exactly when its manifest does.

Law: commit = write the data, fsync, write the manifest under a temporary name, fsync, rename,
fsync the directory. The rename is the commit: a crash before it leaves the last version, a crash
after it leaves the next one, and recovery deletes what no kept manifest names. A failure that the
process survives is undone, so its caller may go on from the last version. Only the disk fails a
commit after the rename: what interrupts it there, whatever it is, is raised with the version made.

One writer, under a lock; any number of readers. A reader of this process pins its version; a
reader of another process maps every file of its version as it opens it, so the files may be
deleted under it.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pyarrow as pa

from spark_incr.errors import error
from spark_incr.runtime.datafile import DataWriter, MappedFile
from spark_incr.runtime.directory import Directory, DoubtfulError, Fault, versions_in
from spark_incr.runtime.interrupts import Interrupts
from spark_incr.runtime.lock import Lock
from spark_incr.runtime.manifest import (
    DATA_NAME,
    EMPTY,
    TEMPORARY_NAME,
    Manifest,
    Segment,
    data_name,
    data_version,
    encode,
    encode_body,
    live_bytes,
    manifest_name,
    segments,
    temporary_name,
)
from spark_incr.runtime.steps import step

__all__ = ["Manifest", "Segment", "Store", "Transaction"]

_SMALL_BYTES = 1024 * 1024
_CROWD = 16


class Store:
    """An open state directory; `manifest` is the last committed version (0 is empty)."""

    manifest: Manifest

    def __init__(self, directory: Directory, lock: Lock | None, retain_versions: int) -> None:
        self.manifest = EMPTY
        self._directory = directory
        self._lock = lock
        self._retain_versions = retain_versions
        self._mutex = threading.RLock()
        self._transaction: Transaction | None = None
        self._kept: dict[int, dict[str, int]] = {}  # version -> data file -> live bytes
        self._sizes: dict[str, int] = {}  # of every data file on disk, as the writer knows it
        self._doubtful: set[str] = set()  # named by a manifest whose removal may not be durable
        self._stuck = False
        self._maps: dict[str, MappedFile] = {}
        self._pins: Counter[int] = Counter()
        self._disk = ThreadPoolExecutor(1, "spark_incr disk")  # waits for it beside the writer

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        retain_versions: int = 10,
        fault: Fault | None = None,
    ) -> Store:
        """Open a state directory; a writer creates it, takes its lock and recovers it."""
        if retain_versions < 1:
            raise ValueError("at least one version is kept")
        directory = Directory(Path(path), fault or (lambda _: None))
        if read_only:
            if not directory.path.is_dir():
                raise error("INCR_STATE_NOT_FOUND", path=directory.path)
            store = Store(directory, None, retain_versions)
            store.refresh()
            return store
        store = Store(directory, directory.own(), retain_versions)
        try:
            store._recover()
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Abort what is open and let go of the lock; tables that were read stay valid."""
        self.abort()
        self._maps.clear()
        self._disk.shutdown()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading

    def read(self, segment: Segment) -> pa.Table:
        """The table of a committed segment, as views into the mapped file."""
        return self._mapped(segment.file).table(segment)

    def versions(self) -> list[int]:
        """The committed versions that are kept, oldest first."""
        if self._lock is None:
            return self._directory.versions()
        with self._mutex:
            return sorted(self._kept)

    def manifest_at(self, version: int) -> Manifest:
        """The manifest of a kept version, or of version 0, the empty state before all commits."""
        with self._mutex:
            try:
                return self._load(version)
            except FileNotFoundError as failure:
                raise error("INCR_STATE_GONE", what=f"version {version}") from failure

    @contextmanager
    def pin(self, version: int | None = None) -> Iterator[Manifest]:
        """Keep a version, the current one if none is given, readable until the block ends."""
        with self._mutex:
            manifest = self.manifest if version is None else self.manifest_at(version)
            if manifest.version and manifest.version not in self._kept:
                live = live_bytes(encode_body(manifest.body))
                for file in live:
                    self._mapped(file)
                self._kept[manifest.version] = live
            self._pins[manifest.version] += 1
        try:
            yield manifest
        finally:
            with self._mutex:
                self._pins[manifest.version] -= 1

    def refresh(self) -> Manifest:
        """Move a read-only store to the last committed version and map all its files."""
        if self._lock is not None:
            return self.manifest
        with self._mutex:
            missing: str | None = None
            while True:
                version = max(self._directory.versions(), default=0)
                try:
                    manifest = self._load(version)
                    live = live_bytes(encode_body(manifest.body))
                    maps = {file: self._maps.get(file) or self._map(file) for file in live}
                    break
                except FileNotFoundError as failure:
                    # Either the writer went on and deleted the file, which the next round
                    # does not look for, or the directory is damaged.
                    name = Path(str(failure.filename)).name
                    if name == missing:
                        raise _missing(name) from failure
                    missing = name
            self.manifest = manifest
            self._kept = {v: files for v, files in self._kept.items() if self._pins[v]}
            if version:
                self._kept[version] = live
            named = self._named()
            self._maps = {file: m for file, m in self._maps.items() if file in named} | maps
            return manifest

    def _load(self, version: int) -> Manifest:
        if version == self.manifest.version:
            return self.manifest
        return self._directory.load(version) if version else EMPTY

    def _map(self, file: str) -> MappedFile:
        return MappedFile.open(self._directory.path / file)

    def _mapped(self, file: str) -> MappedFile:
        data_version(file)
        with self._mutex:
            if self._transaction is not None and self._transaction.owns(file):
                raise ValueError("a segment can be read once it is committed")
            mapped = self._maps.get(file)
            if mapped is None:
                try:
                    mapped = self._maps[file] = self._map(file)
                except FileNotFoundError as failure:
                    if file in self._named():
                        raise _missing(file) from failure
                    raise error("INCR_STATE_GONE", what=f"file {file}") from failure
            return mapped

    # Writing

    def require_writable(self) -> None:
        """Raise what stands in the way of the next version."""
        path = self._directory.path
        if self._lock is None:
            raise error("INCR_STATE_READ_ONLY", path=path, what="opened for reading only")
        if not self._lock.held:
            raise error("INCR_STATE_CLOSED", path=path)
        if self._stuck:
            what = "a failed commit could not be taken back"
            raise error("INCR_STATE_WRITE", path=path, what=what, hint="Open the state again.")

    def begin(self) -> Transaction:
        """Start the next version; there is one transaction at a time."""
        self.require_writable()
        if self._transaction is not None:
            raise RuntimeError("a transaction is open")
        self._transaction = Transaction(self)
        return self._transaction

    def abort(self) -> None:
        """Forget what is open, also where an interrupt came before its block began or ended."""
        if self._transaction is not None:
            self._transaction.abort()

    def mostly_dead(self, manifest: Manifest | None = None) -> list[Segment]:
        """The live segments that are worth a `carry`, so that their files can be deleted.

        A file is given up when less than a quarter of it is live and it is large, or older than
        four times the retention; and small old files are given up together once there are many.
        What stays is bounded: the young files, a crowd of small ones, and files with at least a
        quarter of a megabyte of live data each.
        """
        manifest = manifest or self.manifest
        oldest = manifest.version - 4 * self._retain_versions
        with self._mutex:
            kept = self._kept.get(manifest.version, {})
            files = [(file, live, self._sizes.get(file, 0)) for file, live in kept.items()]
        dead = {
            file
            for file, live, size in files
            if live < size / 4 and (size > _SMALL_BYTES or data_version(file) < oldest)
        }
        small = {f for f, live, _ in files if live < _SMALL_BYTES / 4 and data_version(f) < oldest}
        if len(small) >= _CROWD:
            dead |= small
        if not dead:
            return []
        found = segments(encode_body(manifest.body))
        live_there = (segment for segment in found if segment.file in dead)
        return sorted(live_there, key=lambda segment: (segment.file, segment.offset))

    # What is kept

    def _recover(self) -> None:
        """Read the kept manifests, then delete what none of them names."""
        entries = self._directory.sizes()
        self._sizes = {name: size for name, size in entries.items() if DATA_NAME.fullmatch(name)}
        versions = versions_in(entries)
        for version in versions[-self._retain_versions :]:
            manifest = self._load(version)
            live = live_bytes(encode_body(manifest.body))
            missing = sorted(live.keys() - self._sizes.keys())
            if not missing:
                self._kept[version] = live
            elif version == versions[-1]:
                raise _missing(missing[0])
            self.manifest = manifest
        for name in entries:
            if TEMPORARY_NAME.fullmatch(name):
                self._directory.delete(name)
        for version in versions:
            if version not in self._kept:
                self._directory.delete(manifest_name(version))
        self._expire()

    def _named(self) -> set[str]:
        return self._doubtful.union(*self._kept.values())

    def _expire(self) -> None:
        """Delete the versions past retention and the data files that no kept version names."""
        for version in sorted(self._kept)[: -self._retain_versions]:
            if not self._pins[version] and self._directory.delete(manifest_name(version)):
                del self._kept[version]
        for file in self._sizes.keys() - self._named():
            if self._directory.delete(file):
                del self._sizes[file]
                self._maps.pop(file, None)


class Transaction:
    """The next version in the making: it is committed whole, or nothing of it remains.

    As a context manager it aborts at the end of the block what was not committed.
    """

    def __init__(self, store: Store) -> None:
        self.version = store.manifest.version + 1
        self._store = store
        self._directory = store._directory
        self._writer: DataWriter | None = None

    def write(self, table: pa.Table) -> Segment:
        """Append a table to this version's data file; it can be read once committed."""
        try:
            return self._data().append(table)
        except OSError as failure:
            raise self._failed(failure) from failure

    def carry(self, segments: Iterable[Segment]) -> dict[Segment, Segment]:
        """Copy committed segments into this version's data file; the body names the copies."""
        carried: dict[Segment, Segment] = {}
        moved = list(segments)
        with step("compacting", len(moved), "segments") as tell:
            for number, segment in enumerate(moved):
                tell(number)
                data = self._store._mapped(segment.file).bytes(segment)
                try:
                    carried[segment] = self._data().append_bytes(data, segment.checksum)
                except OSError as failure:
                    raise self._failed(failure) from failure
        return carried

    def owns(self, file: str) -> bool:
        """Whether the file is this version's data file, still being written."""
        return self._writer is not None and self._writer.name == file

    def commit(self, body: dict[str, object]) -> Manifest:
        """Make the version durable and visible; `body` belongs to the manifest afterwards."""
        self._check_open()
        store = self._store
        text = encode_body(body)
        live = live_bytes(text)
        own = set() if self._writer is None else {self._writer.name}
        unknown = live.keys() - store._sizes.keys() - own
        if unknown:
            raise ValueError(f"the body names files that are not kept: {sorted(unknown)}")
        timestamp_ms = max(time.time_ns() // 1_000_000, store.manifest.timestamp_ms)
        made = Manifest(self.version, timestamp_ms, body)
        try:
            manifest = encode(self.version, timestamp_ms, text)
            with self._syncing() if own & live.keys() else nullcontext(_nothing) as durable:
                self._directory.prepare(self.version, manifest, durable)
            self._show(made, live, own)
        except OSError as failure:
            raise self._failed(failure) from failure
        with store._mutex:
            store._doubtful.clear()
            store._expire()
        return made

    def _show(self, made: Manifest, live: dict[str, int], own: set[str]) -> None:
        """The rename, after which the store has the version unless the manifest could be removed.

        A removal that is perhaps not durable is a doubt: a crash may bring the manifest back, and
        the file that it names must be there then.
        """
        store = self._store
        with Interrupts() as interrupts:
            interrupts.hold()
            try:
                self._directory.show(self.version)
            except DoubtfulError as failure:
                store._doubtful |= own
                store._stuck = not failure.removed
                raise
            except OSError:
                raise
            except BaseException:
                if self._directory.shows(self.version):
                    self._become(made, live)
                else:
                    store._doubtful |= own
                raise
            self._become(made, live)

    def _become(self, made: Manifest, live: dict[str, int]) -> None:
        with self._store._mutex:
            self._store._kept[made.version] = live
            self._store.manifest = made
            self._end()

    def _syncing(self) -> AbstractContextManager[Callable[[], None]]:
        """The data file becomes durable while its manifest is written."""
        assert self._writer is not None
        self._directory.step("flush data")
        self._writer.flush()
        self._directory.step("fsync data")
        return self._writer.syncing(self._store._disk)

    def abort(self) -> None:
        """Forget the version and delete what was written for it; harmless when it is over."""
        store = self._store
        if store._transaction is not self:
            return
        with store._mutex:
            self._end()
            if store._lock is not None and store._lock.held:
                self._directory.delete(temporary_name(self.version))
                store._expire()

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def _check_open(self) -> None:
        if self._store._transaction is not self:
            raise RuntimeError("the transaction is over")

    def _data(self) -> DataWriter:
        self._check_open()
        if self._writer is None:
            self._directory.step("create data")
            name = data_name(self.version, secrets.token_hex(4))
            self._writer = DataWriter(self._directory.path / name)
        self._directory.step("write data")
        return self._writer

    def _end(self) -> None:
        self._store._transaction = None
        if self._writer is not None:
            self._store._sizes[self._writer.name] = self._writer.size
            self._writer.close()

    def _failed(self, failure: OSError) -> Exception:
        self.abort()
        what = failure.strerror or str(failure)
        return error("INCR_STATE_WRITE", path=self._directory.path, what=what)


def _nothing() -> None:
    """What a version without data waits for."""


def _missing(file: str) -> Exception:
    return error("INCR_STATE_CORRUPT", file=file, what="it is missing")
