"""A state directory looked at from outside: its checksums, its sizes, and its views against Spark.

Checking and measuring take no lock and write nothing, so they may run beside the process that
writes. Comparing views with recompute needs the engine, and with it the lock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException

from spark_incr.errors import IncrementalError
from spark_incr.frames import computed
from spark_incr.relation import Relation, Status
from spark_incr.runtime.changes import WEIGHT, consolidate, inserted, negate
from spark_incr.runtime.persistence import read_kills
from spark_incr.runtime.store import Segment, Store
from spark_incr.runtime.views import View

if TYPE_CHECKING:
    from spark_incr.engine import Engine


Progress = Callable[[str, int, int], None]


def _untold(what: str, done: int, total: int) -> None:
    pass


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, and what is wrong with it, if anything is."""

    what: str
    problem: str = ""


@dataclass(frozen=True)
class Size:
    """The rows and bytes of one arrangement."""

    relation: str
    kind: str
    stage: str
    runs: int
    rows: int
    stored_bytes: int


def check_files(path: Path, progress: Progress = _untold) -> Iterator[Finding]:
    """Verify every kept manifest and every segment that one of them names."""
    with Store.open(path, read_only=True) as store:
        seen: dict[Segment, str] = {}
        for version in store.versions():
            yield from _check_version(store, version, seen, progress)


def _check_version(
    store: Store, version: int, seen: dict[Segment, str], progress: Progress
) -> Iterator[Finding]:
    """A version and its segments; `seen` are those of earlier ones, with what is wrong with each."""
    try:
        with store.pin(version) as manifest:
            segments = {segment for segment, _ in _segments(manifest.body)}
            unseen = sorted(segments - seen.keys(), key=lambda s: (s.file, s.offset))
            for number, segment in enumerate(unseen):
                progress(f"version {version}", number, len(unseen))
                seen[segment] = _problem(store, segment)
                if seen[segment]:
                    yield Finding(f"{segment.file} at byte {segment.offset}", seen[segment])
            progress(f"version {version}", len(unseen), len(unseen))
            damaged = sum(bool(seen[segment]) for segment in segments)
            what = f"{damaged} of them damaged" if damaged else ""
            yield Finding(f"version {version}: {len(segments)} segments", what)
    except IncrementalError as failure:
        yield Finding(f"version {version}", failure.message)


def _problem(store: Store, segment: Segment) -> str:
    """What is wrong with a segment, if anything is."""
    try:
        store.read(segment).validate(full=True)
    except (IncrementalError, pa.ArrowInvalid) as failure:
        return str(getattr(failure, "message", failure))
    return ""


def _segments(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[Segment, tuple[str, ...]]]:
    """Every segment of a manifest's body, and where in the body it is named."""
    if isinstance(value, dict):
        if "$segment" in value:
            yield Segment.from_json(value), path
            return
        for key, item in value.items():
            yield from _segments(item, (*path, key))
    elif isinstance(value, list):
        for item in value:
            yield from _segments(item, path)


def sizes(path: Path) -> list[Size]:
    """What each table, source and view keeps, by stage."""
    with Store.open(path, read_only=True) as store:
        body: Any = store.manifest.body
        kinds = {item["name"]: item["kind"] for item in body.get("relations", [])}
        result = []
        for relation, arrangements in body.get("state", {}).items():
            for stage, runs in arrangements.items():
                tables = [store.read(Segment.from_json(run["rows"])) for run in runs]
                dead = sum(len(rows) for run in runs for rows in read_kills(run, store).values())
                stored = sum(s.length for s, _ in _segments(runs))
                rows = sum(table.num_rows for table in tables) - dead
                result.append(Size(relation, kinds[relation], stage, len(runs), rows, stored))
        return result


def check_views(engine: Engine, progress: Progress = _untold) -> Iterator[Finding]:
    """Every view against its query, computed by Spark from the relations as they are."""
    views = [relation for relation in engine.relations if isinstance(relation.state, View)]
    for number, relation in enumerate(views):
        progress(f"comparing {relation.name}", number, len(views))
        finding = _checked(engine, relation)
        progress(f"comparing {relation.name}", len(views), len(views))
        yield finding


def _checked(engine: Engine, relation: Relation) -> Finding:
    if relation.damaged:
        return Finding(f"view {relation.name}", f"damaged: {relation.failure}")
    if relation.pending or relation.status is not Status.ACTIVE:
        behind = f"{relation.status.value}, it shows version {relation.maintained}"
        return Finding(f"view {relation.name}: not compared ({behind})")
    return _compared(engine, relation.name)


def _compared(engine: Engine, name: str) -> Finding:
    try:
        return Finding(f"view {name} against recompute", _difference(engine, name))
    except PySparkException as failure:
        # What it reads may be known to another session only, as a temporary view is.
        reason = str(failure).strip().split("\n")[0]
        return Finding(f"view {name}: not compared ({reason})")


def _difference(engine: Engine, name: str) -> str:
    """What differs between a view and its query; floats may by the promised 1e-9."""
    relation = engine.relation_named(name, "view")
    assert relation.stored is not None
    actual = engine.view(name).to_arrow()
    expected = computed(engine.spark.sql(relation.stored.statement.query_text))
    expected = pa.Table.from_arrays(expected.columns, names=actual.schema.names).cast(actual.schema)
    both = pa.concat_tables([inserted(actual), negate(inserted(expected))]).combine_chunks()
    left = consolidate(both)
    if not left.num_rows:
        return ""
    surplus, missing = _side(left, 1), _side(left, -1)
    if _close(surplus, missing):
        return ""
    example = (surplus or missing)[0]
    return f"{len(surplus)} rows too many, {len(missing)} too few; for example {example}"


def _side(left: pa.Table, sign: int) -> list[tuple[Any, ...]]:
    """The rows of one sign, each as often as it counts, in an order that floats hardly change."""
    rows = []
    for row in left.to_pylist():
        weight = row.pop(WEIGHT) * sign
        rows += [tuple(row.values())] * max(weight, 0)
    return sorted(
        rows, key=lambda row: ([repr(v) for v in row if not isinstance(v, float)], repr(row))
    )


def _close(surplus: list[tuple[Any, ...]], missing: list[tuple[Any, ...]]) -> bool:
    return len(surplus) == len(missing) and all(
        math.isclose(a, b, rel_tol=1e-9)
        if isinstance(a, float) and isinstance(b, float)
        else a == b
        for one, other in zip(surplus, missing, strict=True)
        for a, b in zip(one, other, strict=True)
    )
