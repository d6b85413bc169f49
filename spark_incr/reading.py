"""Reading tables, sources and views: the last version, an older one, or the changes between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_incr.errors import error
from spark_incr.feed import (
    OnChange,
    Subscription,
    changes_between,
    require_made,
    rows_as_of,
)
from spark_incr.plan.scope import folded
from spark_incr.plan.types import Schema
from spark_incr.relation import Published

if TYPE_CHECKING:
    from spark_incr.engine import Engine


@dataclass(frozen=True)
class RelationReader:
    """A relation to read from; every call sees the version that is the last one then."""

    name: str
    schema: Schema
    _engine: Engine

    def to_arrow(self, version: int | None = None) -> pa.Table:
        """All rows of the last version, or of an older one that is kept.

        They come in the order of the view's query, if it has one.
        """
        engine = self._engine
        if version is None:
            return engine.snapshot().to_arrow(self.name)
        relation = engine.find(self.name)
        if relation is None:
            raise error("INCR_RELATION_NOT_FOUND", kind="relation", name=self.name)
        return rows_as_of(engine.versions, relation, version)

    def changes(self, since: int, until: int | None = None) -> pa.Table:
        """The changes of a view after the version `since`, up to `until` or the last one.

        Each row has `_change_type` (insert or delete), `_commit_version` and `_commit_timestamp`.
        """
        name = self._engine.relation_named(self.name, "view").name
        return changes_between(self._engine.versions, name, since + 1, until)

    def on_change(self, consumer: OnChange, since: int | None = None) -> Callable[[], None]:
        """Call a consumer with the version and its changes, after each that changed the view.

        First it gets what has changed after `since`, if that is given. Returns what ends it.
        """
        engine = self._engine
        name = engine.relation_named(self.name, "view").name
        start = engine.version if since is None else since
        require_made(engine.versions, start)
        subscription = Subscription(engine.versions, name, consumer, start)
        engine.subscriptions.append(subscription)
        subscription.deliver()
        return subscription.close


@dataclass(frozen=True)
class EngineSnapshot:
    """All relations as of one version; what is read from it fits together."""

    _published: Published

    @property
    def version(self) -> int:
        return self._published.version

    def holds(self, name: str) -> bool:
        """Whether there is a relation of this name that can be read."""
        return folded(name) in self._published.rows

    def changed(self, name: str) -> int:
        """The last version that changed a relation."""
        return self._published.changed.get(folded(name), 0)

    def to_arrow(self, name: str) -> pa.Table:
        """All rows of a relation."""
        found = self._published.rows.get(folded(name))
        if found is not None:
            return found.to_arrow()
        what = self._published.damaged.get(folded(name))
        if what is None:
            version = self._published.version
            raise error(
                "INCR_RELATION_NOT_FOUND", kind="relation", name=f"{name}, in version {version},"
            )
        raise error("INCR_VIEW_DAMAGED", name=name, what=what)
