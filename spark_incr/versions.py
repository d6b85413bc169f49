"""Versions: the relations of a state directory, and how they move on together.

Law: a version is the whole of all relations. Inside `version()` everything may change; when the
block ends after `persist`, the next version is durable and readers see all of it at once; after
any failure, or without `persist`, everything is as it was. The store alone says which it is: what is
raised after the store has the version undoes nothing, and Ctrl-C waits until readers see it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_incr.errors import error
from spark_incr.plan.scope import folded
from spark_incr.relation import Published, Relation
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.changes import add, consolidate, negate
from spark_incr.runtime.contents import Contents
from spark_incr.runtime.difference import stored_difference
from spark_incr.runtime.interrupts import Interrupts
from spark_incr.runtime.persistence import Entries, Entry, read_run
from spark_incr.runtime.store import Manifest, Store

# How the manifest marks a version whose change does not follow from its runs and the last ones
WHOLE = "whole"  # the view came into being: its change is all of its rows
REBUILT = "rebuilt"  # the view was computed anew


@dataclass(frozen=True)
class Change:
    """The change of a view in one version, and whether the view came into being by it."""

    rows: pa.Table
    timestamp_ms: int
    created: bool


class Versions:
    """The relations and their last version; `mutex` is held by whoever makes the next one."""

    def __init__(self, path: Path, retain_versions: int) -> None:
        self.store = Store.open(path, retain_versions=retain_versions)
        self.entries = Entries()
        self.relations: dict[str, Relation] = {}
        self.mutex = threading.RLock()
        self.published = Published(self.number, 0, {}, {})
        self._interrupts = Interrupts()
        self._finish: Callable[[], None] = lambda: None
        self._last: tuple[int, dict[str, pa.Table | str]] = (0, {})
        self._moved = threading.Condition()

    @property
    def number(self) -> int:
        return self.store.manifest.version

    def find(self, name: str) -> Relation | None:
        return self.relations.get(folded(name))

    def arrangements(self) -> list[Arrangement]:
        return [a for r in self.relations.values() for a in r.arrangements.values()]

    @contextmanager
    def version(self) -> Iterator[int]:
        """Make the next version."""
        with self.mutex, Interrupts() as self._interrupts:
            self.store.require_writable()
            version = self.number + 1
            relations = dict(self.relations)
            saved = [(r, {**vars(r), "pending": dict(r.pending)}) for r in relations.values()]
            for arrangement in self.arrangements():
                arrangement.begin(version)
            try:
                yield version
            except BaseException:
                self._interrupts.hold()
                self.store.abort()
                if self.number < version:
                    self.relations = relations
                    self._roll_back(saved, version)
                    self.entries.failed()
                else:
                    self._finish()
                raise
            if self.number < version:
                self._roll_back(saved, version)
            else:
                self._finish()

    def _roll_back(self, saved: Iterable[tuple[Relation, dict[str, Any]]], version: int) -> None:
        for relation, fields in saved:
            vars(relation).update(fields)
        for arrangement in self.arrangements():
            arrangement.rollback(version - 1)

    def persist(
        self,
        version: int,
        changed: set[str],
        changes: Mapping[str, pa.Table | str] | None = None,
        record: dict[str, Any] | None = None,
        then: Callable[[Manifest], None] = lambda manifest: None,
    ) -> None:
        """Make the version durable: `changed` relations, the changes of views, and its record.

        A change is not written, since it follows from the runs of this version and the last; only
        where it does not, a word says so. `then` is called when readers see the version.
        """
        with self.store.begin() as transaction:
            self.entries.move(transaction.carry(self.store.mostly_dead()))
            body: dict[str, Any] = {
                "relations": [
                    r.to_json(version if r.name in changed else r.changed)
                    for r in self.relations.values()
                ],
                "state": {
                    r.name: {
                        name: self.entries.save(arrangement, transaction)
                        for name, arrangement in r.arrangements.items()
                    }
                    for r in self.relations.values()
                    if not r.damaged
                },
                "changes": {n: c for n, c in (changes or {}).items() if isinstance(c, str)},
                "record": record or {},
            }
            self._finish = partial(self._show, changed, dict(changes or {}), then)
            self._interrupts.hold()
            transaction.commit(body)

    def _show(
        self,
        changed: set[str],
        changes: dict[str, pa.Table | str],
        then: Callable[[Manifest], None],
    ) -> None:
        """Show readers the version that was made durable."""
        self._last = self.number, changes
        self.entries.committed(self.arrangements())
        self.publish(changed)
        then(self.store.manifest)

    def publish(self, moved: set[str] | frozenset[str] = frozenset()) -> None:
        """Let readers see the relations as they are; `moved` are changed by this version.

        Who asks a relation when it changed, and then for its rows, gets rows that are at least as new.
        """
        manifest = self.store.manifest
        whole = {name: r for name, r in self.relations.items() if not r.damaged}
        rows = {name: relation.contents for name, relation in whole.items()}
        changed = {
            name: manifest.version if relation.name in moved else relation.changed
            for name, relation in whole.items()
        }
        damaged = {name: r.failure for name, r in self.relations.items() if r.damaged}
        self.published = Published(manifest.version, manifest.timestamp_ms, rows, changed, damaged)
        for name, version in changed.items():
            self.relations[name].changed = version
        with self._moved:
            self._moved.notify_all()

    def wait(self, version: int, timeout: float | None) -> bool:
        """Wait until a version is there; whether it is."""
        with self._moved:
            return self._moved.wait_for(lambda: self.published.version >= version, timeout)

    def load(self, relation: Relation, name: str, arrangement: Arrangement) -> None:
        """Give an arrangement of a relation its stored state."""
        manifest = self.store.manifest
        stored = manifest.body["state"][relation.name][name]  # type: ignore[index]
        arrangement.become(
            self.entries.load(arrangement.layout, manifest.version, stored, self.store)
        )

    # Older versions

    def manifest(self, version: int) -> Manifest:
        """The manifest of a kept version, or an error that says which ones are kept."""
        kept = self.store.versions()
        if version > self.number or version < 1 or version not in kept:
            raise error(
                "INCR_VERSION_GONE",
                version=version,
                oldest=min(kept, default=0),
                newest=self.number,
            )
        return self.store.manifest_at(version)

    def rows_at(self, relation: Relation, version: int) -> Contents | None:
        """The rows of a relation in a kept version, None if it was not there, or was another."""
        with self.store.pin(self.manifest(version).version) as manifest:
            runs = _runs_of(relation, manifest)
            if runs is None:
                return None
            output = relation.output
            layout = output.arrangement.layout
            stored = [read_run(layout, entry, self.store) for entry in runs]
            restored = Arrangement.restore(layout, version, stored)
            return Contents(output, restored.snapshot())

    def change_at(self, relation: Relation, version: int) -> Change | None:
        """What a kept version changed in a relation; None if it was not there, or was another."""
        with self.store.pin(self.manifest(version).version) as manifest:
            after = _runs_of(relation, manifest)
            if after is None:
                return None
            number, changes = self._last
            if number == version and isinstance(changes.get(relation.name), pa.Table):
                return Change(changes[relation.name], manifest.timestamp_ms, False)
            how = manifest.body.get("changes", {}).get(relation.name)  # type: ignore[attr-defined]
            output, store = relation.state.output, self.store
            if _definition_of(relation, manifest)["changed"] != version:
                return Change(
                    stored_difference(output, store, (), ()), manifest.timestamp_ms, False
                )
            if how == WHOLE:
                rows = stored_difference(output, store, (), after)
                return Change(rows, manifest.timestamp_ms, True)
            with store.pin(self.manifest(version - 1).version) as previous:
                before = _runs_of(relation, previous)
                assert before is not None
                if how == REBUILT:  # its runs are numbered anew
                    gone = negate(stored_difference(output, store, (), before))
                    rows = consolidate(add([stored_difference(output, store, (), after), gone]))
                else:
                    rows = stored_difference(output, store, before, after)
                return Change(rows, manifest.timestamp_ms, False)


def _definition_of(relation: Relation, manifest: Manifest) -> dict[str, Any]:
    items: Any = manifest.body["relations"]
    return next((item for item in items if item["name"] == relation.name), {})


def _runs_of(relation: Relation, manifest: Manifest) -> list[Entry] | None:
    """The stored runs of what a relation shows, if the version has it as it is now."""
    body: Any = manifest.body
    then, now = _definition_of(relation, manifest), relation.to_json(relation.changed)
    if relation.name not in body["state"]:
        return None
    if any(then.get(key) != now.get(key) for key in ("kind", "schema", "fingerprint")):
        return None
    arrangement = relation.state.output.arrangement
    (name,) = (n for n, a in relation.arrangements.items() if a is arrangement)
    runs: list[Entry] = body["state"][relation.name][name]
    return runs
