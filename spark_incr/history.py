"""What each commit did: one record per version, kept in its manifest and told to listeners.

How long a commit took to write is known only after it is written; the next version notes it, so
the record of the very last commit before a restart lacks that one number.
"""

from __future__ import annotations

import datetime
import json
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_incr.errors import warn
from spark_incr.maintenance import Maintained
from spark_incr.relation import Relation
from spark_incr.runtime.store import Manifest

Listener = Callable[[str], None]


@dataclass
class Phases:
    """Milliseconds: reading the sources, changing tables and views, writing the version."""

    read: float = 0.0
    apply: float = 0.0
    commit: float = 0.0

    @property
    def total(self) -> float:
        return self.read + self.apply + self.commit


class Timer:
    """Adds the time of a block to phases, the part after `next` to another one."""

    def __init__(self, phases: Phases, phase: str) -> None:
        self._phases, self._phase = phases, phase

    def __enter__(self) -> Timer:
        self._began = time.perf_counter()
        return self

    def next(self, phase: str) -> None:
        now = time.perf_counter()
        spent = getattr(self._phases, self._phase) + (now - self._began) * 1e3
        setattr(self._phases, self._phase, spent)
        self._began, self._phase = now, phase

    def __exit__(self, *_: object) -> None:
        self.next(self._phase)


@dataclass(frozen=True)
class SourceRead:
    """What a commit took from one source; the offsets are JSON."""

    rows: int
    rejected: int = 0
    superseded: int = 0
    start: Any = None
    end: Any = None

    def then(self, later: SourceRead) -> SourceRead:
        """What was taken by this and by what came after."""
        return SourceRead(
            self.rows + later.rows,
            self.rejected + later.rejected,
            self.superseded + later.superseded,
            self.start,
            later.end,
        )


@dataclass
class Record:
    """One commit, as its manifest keeps it."""

    version: int
    timestamp_ms: int
    reason: str
    phases: Phases
    views: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def body(self, previous: Record | None) -> dict[str, Any]:
        before = None if previous is None else previous.phases.commit
        return {
            "reason": self.reason,
            "read_ms": round(self.phases.read, 3),
            "apply_ms": round(self.phases.apply, 3),
            "previous_commit_ms": None if before is None else round(before, 3),
            "views": {name: dict(view) for name, view in self.views.items()},
            "sources": self.sources,
            "failed": self.failed,
        }


def record_of(
    version: int,
    reason: str,
    phases: Phases,
    maintained: Maintained,
    relations: Iterable[Relation],
    sources: Mapping[str, SourceRead] | None = None,
) -> Record:
    views = {}
    for relation in relations:
        change = maintained.views.get(relation.name)
        if change is not None:
            arrangements = relation.arrangements.values()
            views[relation.name] = {
                "rows_in": change.rows_in,
                "inserted": change.inserted,
                "deleted": change.deleted,
                "expressions_ms": round(change.expressions_ms, 3),
                "operators_ms": round(change.milliseconds - change.expressions_ms, 3),
                "state_rows": sum(run.live for a in arrangements for run in a.runs),
            }
    return Record(
        version,
        0,
        reason,
        phases,
        views,
        {name: vars(read) for name, read in (sources or {}).items()},
        {name: str(failure) for name, failure in maintained.failed.items()},
    )


class History:
    """The records of the versions that are kept, and who listens to new ones."""

    def __init__(self, name: str, retain_versions: int) -> None:
        self.name = name
        self.records: deque[Record] = deque(maxlen=retain_versions)
        self.listeners: list[Listener] = []
        self._run = str(uuid.uuid4())

    @property
    def last(self) -> Record | None:
        return self.records[-1] if self.records else None

    def restore(self, manifests: Iterable[Manifest]) -> None:
        """The records in the kept manifests, oldest first."""
        for manifest in manifests:
            stored: Any = manifest.body.get("record") or {}
            if not stored:
                continue
            if self.last is not None and stored["previous_commit_ms"] is not None:
                self.last.phases.commit = stored["previous_commit_ms"]
            phases = Phases(stored["read_ms"], stored["apply_ms"])
            state: Any = manifest.body["state"]
            views = {
                name: {**view, "state_bytes": _stored_bytes(state.get(name, {}))}
                for name, view in stored["views"].items()
            }
            parts = (views, stored["sources"], stored["failed"])
            self.records.append(
                Record(manifest.version, manifest.timestamp_ms, stored["reason"], phases, *parts)
            )

    def committed(self, record: Record, manifest: Manifest) -> None:
        record.timestamp_ms = manifest.timestamp_ms
        state: Any = manifest.body["state"]
        for name, view in record.views.items():
            view["state_bytes"] = _stored_bytes(state.get(name, {}))
        self.records.append(record)

    def tell(self, record: Record) -> None:
        """Tell the listeners of a commit; what one of them raises does not concern the commit."""
        if self.listeners:
            text = json.dumps(progress(record, self.name, self._run))
            for listener in list(self.listeners):
                try:
                    listener(text)
                except Exception as failure:  # noqa: PERF203, each listener stands alone
                    what = f"version {record.version} was not heard by {listener}: {failure}"
                    warn(what)


def _stored_bytes(arrangements: Mapping[str, Any]) -> int:
    return sum(
        int(entry[part]["$segment"][2])
        for runs in arrangements.values()
        for entry in runs
        for part in ("rows", "kills")
        if part in entry
    )


def iso_time(timestamp_ms: int) -> str:
    moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def progress(record: Record, name: str, run: str) -> dict[str, Any]:
    """A record under the names of Spark's StreamingQueryProgress."""
    phases = record.phases
    rows = sum(source["rows"] for source in record.sources.values())
    expressions = sum(view["expressions_ms"] for view in record.views.values())
    operators = sum(view["operators_ms"] for view in record.views.values())
    seconds = phases.total / 1e3
    return {
        "id": name,
        "runId": run,
        "name": name,
        "timestamp": iso_time(record.timestamp_ms),
        "batchId": record.version,
        "batchDuration": round(phases.total, 3),
        "numInputRows": rows,
        "processedRowsPerSecond": round(rows / seconds, 1) if seconds else 0.0,
        "durationMs": {
            "getBatch": round(phases.read, 3),
            "addBatch": round(phases.apply, 3),
            "expressions": round(expressions, 3),
            "operators": round(operators, 3),
            "walCommit": round(phases.commit, 3),
            "triggerExecution": round(phases.total, 3),
        },
        "stateOperators": [
            {
                "operatorName": view,
                "numRowsTotal": found["state_rows"],
                "numRowsUpdated": found["inserted"],
                "numRowsRemoved": found["deleted"],
                "numInputRows": found["rows_in"],
                "memoryUsedBytes": found.get("state_bytes", 0),
            }
            for view, found in record.views.items()
        ],
        "sources": [
            {
                "description": source,
                "startOffset": found["start"],
                "endOffset": found["end"],
                "numInputRows": found["rows"],
                "metrics": {
                    "rejectedRows": found["rejected"],
                    "supersededRows": found["superseded"],
                },
            }
            for source, found in record.sources.items()
        ],
        "failedViews": record.failed,
        "sink": {"description": f"spark_incr[{name}]", "reason": record.reason},
    }
