"""What runs by itself: sources are read as rows arrive, and views are refreshed on their schedule.

Law: whoever has something to commit queues it, and one of them commits what is queued, of each source
the first, together with the files that are new, as one version; so sources advance together, each by
one micro-batch, and views over one source share it. Only what was committed is said to be done. Time
is the monotonic clock's: a jump of the wall clock changes nothing here.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from spark_incr.errors import IncrementalError, error, warn
from spark_incr.relation import Relation, Status, next_generation
from spark_incr.runtime.views import View
from spark_incr.sources.files import FileStream, MicroBatch, is_local
from spark_incr.sources.source import Source
from spark_incr.sources.streaming import AttachedStream
from spark_incr.sql.statements import TriggerKind

if TYPE_CHECKING:
    from spark_incr.engine import Engine

# Commits all micro-batches of a stream, and the milliseconds that it took to read them.
CommitAll = Callable[[list[MicroBatch], float], None]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


@dataclass(eq=False)
class _Submission:
    source: str
    batch: MicroBatch
    done: bool = False
    failure: Exception | None = None


@dataclass
class _Trouble:
    """A source that could not go on: why, how long it rests, and until when."""

    failure: Exception
    pause: float = _FIRST_PAUSE
    until: float = field(default_factory=time.monotonic)


class Runner:
    """The streams of an engine, and the thread that moves them on."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._files: dict[str, FileStream] = {}
        self._attached: dict[str, AttachedStream] = {}
        self._queue: deque[_Submission] = deque()
        self._queueing = threading.Lock()
        self._leader = threading.RLock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._interval = 0.1
        self._refreshed: dict[str, float] = {}
        self.troubles: dict[str, _Trouble] = {}
        self.failure: BaseException | None = None

    # Sources

    def attach(self, name: str, stream: AttachedStream) -> None:
        old = self._attached.pop(name, None)
        if old is not None:
            old.stop()
        self._attached[name] = stream
        if self.running:
            self._start_stream(name, stream)

    def forget(self, name: str) -> None:
        """The source is gone, or another."""
        self._files.pop(name, None)
        self.troubles.pop(name, None)
        self._refreshed.pop(name, None)
        stream = self._attached.pop(name, None)
        if stream is not None:
            stream.stop()

    def halt(self, name: str) -> None:
        """Let the stream of a source rest, after the micro-batch that is under way."""
        if name in self._attached:
            self._attached[name].stop()

    def read_anew(self, relation: Relation, commit: CommitAll) -> None:
        """Read a source from its beginning and commit all of it; if either fails, it goes on as it was."""
        assert isinstance(relation.state, Source)
        definition, began = relation.state.definition, time.perf_counter()
        if is_local(definition):
            with self._leader:
                stream = FileStream(self._engine.spark, definition, {})
                commit(list(stream.rest()), (time.perf_counter() - began) * 1e3)
                self._files[relation.name] = stream
        else:
            self._stream_anew(relation, commit)
        self.troubles.pop(relation.name, None)

    def _stream_anew(self, relation: Relation, commit: CommitAll) -> None:
        self.attached(relation)
        with self._leader:
            stream = self._attached.pop(relation.name)
        stream.stop()
        began, going_on = time.perf_counter(), stream
        try:
            fresh = stream.anew(next_generation(relation))
            batches = fresh.rest()
            with self._leader:
                commit(batches, (time.perf_counter() - began) * 1e3)
            going_on = fresh
        finally:
            self._attached[relation.name] = going_on

    def file_stream(self, relation: Relation) -> FileStream | None:
        """The directory that feeds a source, None for one that a DataFrame feeds."""
        assert isinstance(relation.state, Source)
        if not is_local(relation.state.definition):
            return None
        if relation.name not in self._files:
            stream = FileStream(
                self._engine.spark, relation.state.definition, relation.state.known_files()
            )
            stream.check_unchanged()
            self._files[relation.name] = stream
        return self._files[relation.name]

    def _sources(self, only: Iterable[str] | None = None) -> list[Relation]:
        wanted = None if only is None else set(only)
        return [
            relation
            for relation in self._engine.relations
            if isinstance(relation.state, Source) and (wanted is None or relation.name in wanted)
        ]

    # Running

    @property
    def running(self) -> bool:
        return self._thread is not None

    def start(self, interval: float) -> None:
        if self.running:
            return
        self._interval, self._stopping, self.failure = interval, False, None
        self.troubles.clear()
        self._refreshed.clear()
        self._files.clear()
        self._thread = threading.Thread(target=self._run, name="spark_incr runner", daemon=True)
        self._thread.start()

    @property
    def dead(self) -> bool:
        """Whether it was started and has ended by itself."""
        return self._thread is not None and not self._thread.is_alive()

    def stop(self) -> None:
        """Stop after the commit that is under way."""
        thread, self._thread = self._thread, None
        self._stopping = True
        self._wake.set()
        for stream in self._attached.values():
            stream.stop()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while not self._stopping:
            began = time.monotonic()
            try:
                with self._leader:
                    for name, stream in list(self._attached.items()):
                        self._tend(name, stream)
                self._move(None, patient=True)
            except BaseException as failure:
                # Not a source's and not a view's: the state itself cannot move on.
                self.failure = failure
                warn(f"the engine could not move on: {failure}")
                if self._fatal(failure):
                    return
            self._wake.wait(max(0.0, self._interval - (time.monotonic() - began)))
            self._wake.clear()

    def _fatal(self, failure: BaseException) -> bool:
        transient = (
            isinstance(failure, IncrementalError) and failure.condition == "INCR_STATE_WRITE"
        )
        return not transient

    def _start_stream(self, name: str, stream: AttachedStream) -> None:
        stream.start(
            self.submit,
            lambda: self._offsets(name),
            {"processingTime": f"{self._interval} seconds"},
        )

    def _offsets(self, name: str) -> Mapping[str, Any]:
        relation = self._engine.find(name)
        return {} if relation is None else relation.offsets

    def _tend(self, name: str, stream: AttachedStream) -> None:
        """Start a stream, also again after a rest when it has failed."""
        if stream.active or self._resting(name):
            return
        failure = stream.failure
        stream.query = None
        if failure is not None:
            self._trouble(name, self.troubles[name].failure if name in self.troubles else failure)
            return
        self._start_stream(name, stream)

    def _resting(self, name: str) -> bool:
        return name in self.troubles and time.monotonic() < self.troubles[name].until

    def _trouble(self, name: str, failure: Exception) -> None:
        old = self.troubles.get(name)
        pause = _FIRST_PAUSE if old is None else min(2 * old.pause, _LONGEST_PAUSE)
        self.troubles[name] = _Trouble(failure, pause, time.monotonic() + pause)

    # Moving on

    def submit(self, source: str, batch: MicroBatch) -> None:
        """Commit a micro-batch, together with whatever else is waiting."""
        submission = _Submission(source, batch)
        with self._queueing:
            self._queue.append(submission)
        with self._leader:
            try:
                while not submission.done:
                    self._move(None if self.running else (), patient=True)
            finally:
                self._withdraw(submission)
        if submission.failure is not None:
            raise submission.failure

    def _withdraw(self, submission: _Submission) -> None:
        """Nobody commits what its source will bring again."""
        with self._queueing:
            if submission in self._queue:
                self._queue.remove(submission)

    def _take_queued(self) -> dict[str, _Submission]:
        """The first submission of each source; the others stay."""
        first: dict[str, _Submission] = {}
        with self._queueing:
            for submission in self._queue:
                first.setdefault(submission.source, submission)
            self._queue = deque(s for s in self._queue if first[s.source] is not s)
        return first

    def available(self, only: Iterable[str] | None = None) -> None:
        """Read all that is there now, of some sources or of all; raise what stands in the way."""
        for relation in self._sources(only):
            self.troubles.pop(relation.name, None)
        while self._move(only, patient=False):
            pass
        for relation in self._sources(only):
            stream = self._attached.get(relation.name)
            if stream is not None:
                self._drain(relation.name, stream)
        for relation in self._sources(only):
            if relation.name in self.troubles:
                raise self.troubles[relation.name].failure

    def _drain(self, name: str, stream: AttachedStream) -> None:
        try:
            if stream.active:
                assert stream.query is not None
                stream.query.processAllAvailable()
                return
            stream.start(self.submit, lambda: self._offsets(name), {"availableNow": True})
            assert stream.query is not None
            stream.query.awaitTermination()
        except PySparkException as failure:
            self._trouble(name, self.troubles[name].failure if name in self.troubles else failure)

    def _move(self, only: Iterable[str] | None, patient: bool) -> bool:
        """Commit what is queued and what is new in the directories; whether there was anything."""
        with self._leader:
            began = time.perf_counter()
            queued = self._take_queued()
            batches = {source: submission.batch for source, submission in queued.items()}
            try:
                batches.update(self._new_files(only, patient))
                due = self._due()
                if not batches and not due:
                    return False
                read_ms = (time.perf_counter() - began) * 1e3
                failures = self._engine.advance(batches, due, read_ms)
                for source, submission in queued.items():
                    submission.done, submission.failure = True, failures.get(source)
                self._settle(batches, failures)
            except BaseException as failure:
                self._unsettle(queued.values(), batches, failure)
                raise
            return bool(batches) and not failures

    def _unsettle(
        self, queued: Iterable[_Submission], batches: Iterable[str], failure: BaseException
    ) -> None:
        """What was interrupted may be committed or not: the state says which files are part of it,
        and which micro-batch a stream need not repeat."""
        for name in batches:
            self._files.pop(name, None)
        for submission in queued:
            if not submission.done:
                interrupted = RuntimeError("the commit was interrupted")
                submission.failure = failure if isinstance(failure, Exception) else interrupted
                submission.done = True

    def _new_files(self, only: Iterable[str] | None, patient: bool) -> dict[str, MicroBatch]:
        batches = {}
        for relation in self._sources(only):
            if relation.damaged or (patient and self._resting(relation.name)):
                continue
            try:
                stream = self.file_stream(relation)
                files = [] if stream is None else stream.new_files()
                if stream is not None and files:
                    batches[relation.name] = stream.read(files)
            except Exception as failure:
                self._trouble(relation.name, failure)
        return batches

    def _settle(self, batches: Mapping[str, MicroBatch], failures: Mapping[str, Exception]) -> None:
        for name, batch in batches.items():
            if name in failures:
                self._trouble(name, failures[name])
                continue
            self.troubles.pop(name, None)
            if name in self._files:
                self._files[name].committed(batch.files)

    def _due(self) -> set[str]:
        """The views whose schedule says so, if the runner runs."""
        if not self.running:
            return set()
        now = time.monotonic()
        due = set()
        for relation in self._engine.relations:
            if not isinstance(relation.state, View) or relation.status is not Status.ACTIVE:
                continue
            assert relation.stored is not None
            trigger = relation.stored.statement.trigger
            last = self._refreshed.get(relation.name)
            if trigger.kind is TriggerKind.SCHEDULE and (
                last is None or now - last >= trigger.seconds
            ):
                self._refreshed[relation.name] = now
                if relation.pending:
                    due.add(relation.name)
        return due

    def attached(self, relation: Relation) -> None:
        """Raise if nothing in this process feeds the source."""
        if self.file_stream(relation) is None and relation.name not in self._attached:
            raise error("INCR_SOURCE_DETACHED", source=relation.name)
