"""Which rows Spark reads under the name of an incremental relation: those of its last version.

Law: after `refresh(names)`, a query over a named relation gives the rows of its last version.
Nothing is done at a commit: a relation is handed to Spark when it is read and has changed since.

A DataFrame shows the version that was current when it was made, for as long as it lives: Spark
binds a name when it analyses a query, and the rows stay while any plan can read them.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession

from spark_incr.engine import Engine
from spark_incr.errors import IncrementalError
from spark_incr.frames import columns_for
from spark_incr.plan.scope import folded
from spark_incr.plan.types import Schema
from spark_incr.serve.describe import Comments, comments
from spark_incr.serve.snapshots import Snapshots
from spark_incr.serve.temp_views import TempViews
from spark_incr.sql.names import name_parts
from spark_incr.sql.tokens import leading_words, tokenize

ATTEMPTS = 3
_UNSAID = Comments("", {})

# Statements that may name a relation without writing its name
_INDIRECT = re.compile(r"\bidentifier\s*(\(|/\*|--)|\bexecute\b")


class Shelf(Protocol):
    """Where Spark finds relations by name."""

    def announce(self, name: str, schema: T.StructType, comment: str, kind: str) -> None:
        """Take note of a relation that nobody has read; to read it is an error until it is shown."""

    def show(self, name: str, frame: DataFrame) -> None:
        """Let the name stand for these rows."""

    def remove(self, name: str) -> None:
        """Let the name be unknown; frames over it stay readable."""


class Frozen(Protocol):
    """Relations as of one version."""

    def holds(self, name: str) -> bool:
        """Whether the version has a relation of this name."""

    def changed(self, name: str) -> int:
        """The last version that changed the relation."""

    def to_arrow(self, name: str) -> pa.Table:
        """Its rows."""


class Relations:
    """The incremental relations of one engine as Spark sees them.

    `directory` belongs to this object alone. They are temporary views of the session, unless
    another shelf is given. `definitions` are what Spark has been told to keep as text, and the
    relations that this reads; they stay as long as the session.
    """

    def __init__(
        self,
        spark: SparkSession,
        directory: Path,
        shelf: Shelf | None = None,
        freeze: Callable[[], Frozen] | None = None,
        definitions: dict[str, set[str]] | None = None,
    ) -> None:
        self._freeze = freeze
        self._shelf = shelf or TempViews(spark)
        self._snapshots = Snapshots(spark, directory)
        self._relations: dict[str, _Relation] = {}
        self._definitions = {} if definitions is None else definitions
        self._lock = threading.RLock()  # never held while `version` or `snapshot` is called

    def names(self) -> set[str]:
        """The declared relations."""
        return {r.name for r in list(self._relations.values())}

    def declare(
        self,
        name: str,
        schema: Schema,
        version: Callable[[], int],
        snapshot: Callable[[], pa.Table],
        said: Comments = _UNSAID,
        kind: str = "view",
    ) -> None:
        """Make a relation known; its rows are handed over when it is first read.

        `version` grows with every change of the rows. `snapshot` gives the current rows, repeated
        as often as they occur, with exactly the Arrow schema of `schema`. A relation that is
        declared again with the same schema keeps what Spark has of it.
        """
        fields = _fields(schema, said.columns)
        with self._lock:
            known = self._relations.get(folded(name))
            if known is not None and known.name == name and known.schema == fields:
                known.version, known.snapshot = version, snapshot
                return
            if known is not None:
                self.forget(name)
            self._shelf.announce(name, fields, said.own, kind)
            self._relations[folded(name)] = _Relation(name, fields, version, snapshot)

    def forget(self, name: str) -> None:
        """Take a relation away from Spark; DataFrames over it stay readable."""
        with self._lock:
            known = self._relations.pop(folded(name), None)
            if known is not None:
                self._shelf.remove(known.name)

    def refresh(
        self, names: Iterable[str] | None = None, read: Callable[[], None] = lambda: None
    ) -> None:
        """Make what Spark reads current: the named relations, or all.

        Relations that are refreshed together show one version: that of `freeze`, if it was given,
        and otherwise as long as commits leave time to take their rows. `read` is called while they
        do: a moment later another thread may show some of them in a newer one.
        """
        chosen = self._chosen(names)
        while not self._shown(self._current(chosen), read):
            pass

    def _shown(self, current: list[_Current], read: Callable[[], None]) -> bool:
        """Whether Spark has these versions; not, if another thread has shown a newer one meanwhile."""
        with self._lock:
            if any(c.relation.is_newer_than(c.version) for c in current):
                return False
            for relation, version, rows in current:
                declared = self._relations.get(folded(relation.name)) is relation
                if declared and relation.is_older_than(version):
                    assert rows is not None
                    frame = self._snapshots.frame(rows, relation.schema)
                    self._shelf.show(relation.name, frame)
                    relation.published = version
            read()
            return True

    def _current(self, chosen: list[_Relation]) -> list[_Current]:
        """The last versions of relations, with the rows where Spark has an older one."""
        frozen = None if self._freeze is None else self._freeze()
        if frozen is not None and all(frozen.holds(r.name) for r in chosen):
            versions = [(r, frozen.changed(r.name)) for r in chosen]
            return [
                _Current(r, v, frozen.to_arrow(r.name) if r.is_older_than(v) else None)
                for r, v in versions
            ]
        for _ in range(ATTEMPTS):
            versions = [(r, r.version()) for r in chosen]
            current = [
                _Current(r, v, r.snapshot() if r.is_older_than(v) else None) for r, v in versions
            ]
            if versions == [(r, r.version()) for r in chosen]:
                break
        return current

    def frame(self, schema: Schema, rows: pa.Table) -> DataFrame:
        """Rows of no relation of ours as a frame: older ones, or a feed."""
        with self._lock:
            return self._snapshots.frame(rows, _fields(schema))

    def mentioned(self, sql_text: str) -> set[str]:
        """The declared relations that a statement may read; never too few, sometimes too many.

        Every statement must pass here, for Spark keeps views and functions that are defined over
        relations as text: a statement that names one of those reads them too.
        """
        text = _plain(sql_text)
        relations = list(self._relations.values())
        indirect = _INDIRECT.search(text) is not None
        found = {r.name for r in relations if indirect or _occurs(_plain(r.last_part), text)}
        for definition, read in list(self._definitions.items()):
            if _occurs(definition, text):
                found |= read
        if found and _is_definition(sql_text):
            self._definitions[_plain(_defined_name(sql_text))] = found
        return found & {r.name for r in relations}

    def _chosen(self, names: Iterable[str] | None) -> list[_Relation]:
        with self._lock:
            keys = list(self._relations) if names is None else {folded(n) for n in names}
            return [self._relations[key] for key in keys if key in self._relations]


def declare_all(relations: Relations, engine: Engine) -> None:
    """Declare what an engine has, and forget what it has no more."""
    wanted = {r.name: r for r in engine.relations}
    for name in relations.names() - wanted.keys():
        relations.forget(name)
    for relation in wanted.values():
        relations.declare(
            relation.name,
            relation.schema,
            functools.partial(getattr, relation, "changed"),
            engine._reader(relation).to_arrow,
            comments(relation),
            relation.kind,
        )


@dataclass(eq=False)
class _Relation:
    name: str
    schema: T.StructType
    version: Callable[[], int]
    snapshot: Callable[[], pa.Table]
    published: int | None = None

    @property
    def last_part(self) -> str:
        return name_parts(self.name)[-1]

    def is_older_than(self, version: int) -> bool:
        return self.published is None or self.published < version

    def is_newer_than(self, version: int) -> bool:
        return self.published is not None and self.published > version


class _Current(NamedTuple):
    """A relation, its last version, and the rows of that unless Spark has them."""

    relation: _Relation
    version: int
    rows: pa.Table | None


def _fields(schema: Schema, comments: Mapping[str, str] = _UNSAID.columns) -> T.StructType:
    """The columns with NULL allowed at every depth, as Spark reads them from files."""
    fields = columns_for(schema).toNullable()
    for field in fields:
        if field.name in comments:
            field.metadata = {**(field.metadata or {}), "comment": comments[field.name]}
    return fields


def _plain(text: str) -> str:
    """Text to look for names in: folded, and quotes alike, doubled or not."""
    return re.sub(r"[`\"]+", "`", folded(text))


def _occurs(name: str, text: str) -> bool:
    found = name in text
    return found and (not name or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None)


def _is_definition(sql_text: str) -> bool:
    words = leading_words(sql_text, 6)
    return words[:1] == ["CACHE"] or "VIEW" in words or "FUNCTION" in words


def _defined_name(sql_text: str) -> str:
    """What a statement defines, without its qualifiers; empty, which occurs anywhere, if unclear.

    >>> _defined_name("CREATE TEMP VIEW IF NOT EXISTS `my view` (a) AS SELECT 1")
    'my view'
    >>> _defined_name("CREATE GLOBAL TEMPORARY VIEW global_temp.v AS SELECT 1")
    'v'
    """
    try:
        tokens = [token.text for token in tokenize(sql_text)]
    except IncrementalError:
        return ""
    kinds = [i for i, word in enumerate(tokens) if word.upper() in ("VIEW", "FUNCTION", "TABLE")]
    rest = tokens[kinds[0] + 1 :] if kinds else []
    if [word.upper() for word in rest[:3]] == ["IF", "NOT", "EXISTS"]:
        rest = rest[3:]
    while rest[1:2] == ["."]:
        rest = rest[2:]
    return rest[0] if rest else ""
