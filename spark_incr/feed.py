"""The change feed and older versions of a view, out of the manifests that are kept.

Law: the rows of version n and the changes of versions n+1 to m add up to the rows of version m. A
row that was deleted k times stands k times in the feed, as it would in Delta's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from spark_incr.errors import error, warn
from spark_incr.plan.types import arrow_schema
from spark_incr.relation import Relation
from spark_incr.runtime.changes import rows_of, weights
from spark_incr.versions import Versions

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = (
    "_change_type",
    "_commit_version",
    "_commit_timestamp",
)
OnChange = Callable[[int, pa.Table], None]


def feed_schema(columns: pa.Schema) -> pa.Schema:
    """The columns of a view, and those that say when and how a row changed."""
    own = {name.lower() for name in columns.names}
    for name, kind in (
        (CHANGE_TYPE, pa.string()),
        (COMMIT_VERSION, pa.int64()),
        (COMMIT_TIMESTAMP, pa.timestamp("us", tz="UTC")),
    ):
        if name in own:
            hint = "Give the column of the view another name to read its changes."
            raise error("INCR_DUPLICATE_COLUMN", name=name, hint=hint)
        columns = columns.append(pa.field(name, kind))
    return columns


def changes_between(versions: Versions, name: str, first: int, last: int | None) -> pa.Table:
    """The changes of a view in the versions from `first` to `last`, both included.

    From the version on that comes next, there are none yet.
    """
    relation = versions.find(name)
    assert relation is not None
    schema = feed_schema(arrow_schema(relation.schema))
    newest = versions.number if last is None else last
    for version in (first - 1, newest):
        require_made(versions, version)
    if first > newest + 1:
        raise error("INCR_VERSIONS_REVERSED", first=first, last=newest)
    parts = list(_changes(versions, relation, max(first, 1), newest))
    return pa.concat_tables(
        [part.cast(schema) for part in reversed(parts)] or [schema.empty_table()]
    )


def require_made(versions: Versions, version: int) -> None:
    """Refuse a version that is still to come."""
    if version > versions.number:
        versions.manifest(version)


def _changes(versions: Versions, relation: Relation, first: int, last: int) -> Iterator[pa.Table]:
    """Newest first, down to the version in which the view came into being."""
    for version in range(last, first - 1, -1):
        change = versions.change_at(relation, version)
        if change is None:
            return
        if change.rows.num_rows:
            yield _fed(change.rows, version, change.timestamp_ms)
        if change.created:
            return


def _fed(change: pa.Table, version: int, timestamp_ms: int) -> pa.Table:
    weight = weights(change)
    rows = rows_of(change).take(np.repeat(np.arange(len(weight)), np.abs(weight)))
    kinds = np.repeat(np.where(weight > 0, "insert", "delete"), np.abs(weight))
    count = rows.num_rows
    moment = pa.scalar(timestamp_ms * 1000, pa.timestamp("us", tz="UTC"))
    return (
        rows.append_column(CHANGE_TYPE, pa.array(kinds, pa.string()))
        .append_column(COMMIT_VERSION, pa.array(np.full(count, version), pa.int64()))
        .append_column(COMMIT_TIMESTAMP, pa.repeat(moment, count))
    )


def rows_as_of(versions: Versions, relation: Relation, version: int) -> pa.Table:
    """The rows of a relation in a version that is kept."""
    rows = versions.rows_at(relation, version)
    if rows is None:
        name = f"{relation.name} as it is now, in version {version},"
        raise error("INCR_RELATION_NOT_FOUND", kind=relation.kind, name=name)
    return rows.to_arrow()


class Subscription:
    """A consumer of a view's changes: called once per version that changed the view, in order.

    At least once: `position` moves on after the call has returned. A consumer that stores the
    version with what it makes of the changes can therefore be exact, by subscribing `since` it.
    """

    def __init__(self, versions: Versions, name: str, consumer: OnChange, since: int) -> None:
        self.name = name
        self.position = since
        self._versions = versions
        self._consumer = consumer
        self._turn = threading.Lock()
        self._closed = False

    def close(self) -> None:
        self._closed = True

    def deliver(self) -> None:
        """Hand over what is new; a consumer that raises is called again after the next commit.

        One thread delivers at a time. It looks again after it has let go, so that a version which
        another thread made meanwhile is not left behind.
        """
        while not self._closed and self.position < self._versions.published.version:
            if not self._turn.acquire(blocking=False):
                return
            try:
                if not self._next():
                    return
            finally:
                self._turn.release()

    def _next(self) -> bool:
        version = self.position + 1
        try:
            found = changes_between(self._versions, self.name, version, version)
            if found.num_rows:
                self._consumer(version, found)
        except Exception as failure:
            what = f"version {version} of {self.name} was not consumed: {failure}"
            warn(what)
            return False
        self.position = version
        return True
