"""Tables, sources and views as the engine holds them, and what is known of each beside its rows.

Law: the rows of a view that lags (it is refreshed by hand or on a schedule, suspended, or failed)
are those of an older version, and `pending` holds exactly the changes of its inputs since then. So
bringing it up to date is one batch, whatever happened meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any

import pyarrow as pa

from spark_incr.catalog import Definition, StoredView, write_definition
from spark_incr.compile import read_order
from spark_incr.errors import IncrementalError, error
from spark_incr.plan.environment import Known
from spark_incr.plan.full import FULL
from spark_incr.plan.nodes import Recompute, SortKey
from spark_incr.plan.types import Schema, arrow_schema
from spark_incr.runtime.arrangement import Arrangement, Layout
from spark_incr.runtime.bag import bag_layout, merge_bag
from spark_incr.runtime.changes import add, consolidate
from spark_incr.runtime.contents import Contents, Output
from spark_incr.runtime.tables import Table
from spark_incr.runtime.views import View
from spark_incr.sources.source import Source
from spark_incr.sql.statements import TriggerKind
from spark_incr.sql.written_names import known_names

PENDING = "pending:"


class Status(Enum):
    """Whether a view is maintained."""

    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"
    FAILED = "FAILED"


@dataclass(eq=False)
class Relation:
    """A table, source or view and its condition; `changed` is the last version that changed its rows.

    `maintained` is the version whose inputs a view shows, `offsets` how far a stream was read. A `damaged` one lost its stored state and
    has no rows until it is rebuilt.
    """

    name: str
    state: Table | Source | View
    stored: StoredView | None
    schema: Schema
    changed: int = 0
    maintained: int = 0
    status: Status = Status.ACTIVE
    failure: str = ""
    damaged: bool = False
    offsets: Mapping[str, Any] = field(default_factory=dict)
    pending: dict[str, Arrangement] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        kinds = {Table: "table", Source: "source", View: "view"}
        return kinds[type(self.state)]

    @property
    def contents(self) -> Contents:
        """The rows with all changes that were made, published or not."""
        return self.output.contents()

    @property
    def output(self) -> Output:
        """Where the rows are, and the order in which they are read."""
        output = self.state.output
        return replace(output, order=self._order) if self._order else output

    @cached_property
    def _order(self) -> tuple[SortKey, ...]:
        if self.stored is None:
            return ()
        text = self.stored.statement.query_text
        return read_order(text, self.schema, known_names(text, self.stored.memory))

    @property
    def arrangements(self) -> dict[str, Arrangement]:
        """All state by name; the pending changes are part of it."""
        own = (
            {"rows": self.state.rows} if isinstance(self.state, Table) else self.state.arrangements
        )
        return {**own, **{PENDING + name: bag for name, bag in self.pending.items()}}

    @property
    def unique(self) -> tuple[str, ...]:
        """Columns that no two rows agree on, if there are such."""
        if isinstance(self.state, Table):
            return self.state.definition.primary_key
        return self.state.definition.key if isinstance(self.state, Source) else ()

    @property
    def append_only(self) -> bool:
        return isinstance(self.state, Source) and self.state.definition.append_only

    @property
    def known(self) -> Known:
        """What a plan may use of the relation."""
        return Known(self.name, self.schema, self.unique, self.append_only, self._order)

    def to_json(self, changed: int) -> dict[str, Any]:
        """The relation as the manifest keeps it."""
        definition: Definition
        if isinstance(self.state, View):
            assert self.stored is not None
            definition = self.stored
        else:
            definition = self.state.definition
        return {
            **write_definition(definition),
            "changed": changed,
            "maintained": self.maintained,
            "status": self.status.value,
            "failure": self.failure,
            "offsets": dict(self.offsets),
        }

    @property
    def reads(self) -> frozenset[str]:
        return self.state.dataflow.relations if isinstance(self.state, View) else frozenset()

    @property
    def recomputed(self) -> str:
        """Why Spark computes all of a view anew with each batch; empty if it does not."""
        plan = self.state.dataflow.plan if isinstance(self.state, View) else None
        return plan.reason if isinstance(plan, Recompute) and plan.tier == FULL else ""

    @property
    def follows_updates(self) -> bool:
        """Whether every commit brings the view up to date."""
        assert self.stored is not None
        trigger = self.stored.statement.trigger.kind
        return self.status is Status.ACTIVE and trigger is TriggerKind.ON_UPDATE

    def pending_layout(self, read: Relation) -> Layout:
        """The layout of pending changes: a source may have grown since the view was created."""
        assert self.stored is not None
        columns = arrow_schema(self.stored.sources.get(read.name, read.schema))
        return bag_layout(columns, tuple(columns.names))

    def postpone(self, changes: Mapping[Relation, pa.Table], version: int) -> None:
        """Keep changes of what the view reads for later."""
        if self.damaged or not changes:
            return
        if not self.pending:
            self.maintained = version - 1
        for read, change in changes.items():
            if read.name not in self.pending:
                self.pending[read.name] = Arrangement(self.pending_layout(read), version)
            bag = self.pending[read.name]
            merge_bag(bag, consolidate(change.select(bag.layout.schema.names)))

    def with_pending(self, changes: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """The changes together with those that were kept for later."""
        result = dict(changes)
        for name, bag in self.pending.items():
            kept = bag.snapshot().rows().combine_chunks()
            if name in result:
                kept = add([kept, result[name].select(kept.column_names)])
            result[name] = consolidate(kept)
        return {name: change for name, change in result.items() if change.num_rows}

    def damage(self) -> IncrementalError:
        """Why there are no rows to read, and what brings them back."""
        what = self.failure or "it is not there"
        hint = f"REFRESH INCREMENTAL {self.kind.upper()} {self.name} FULL rebuilds it."
        return error("INCR_VIEW_DAMAGED", name=self.name, what=what, hint=hint)

    def caught_up(self, version: int) -> None:
        """The view shows this version of what it reads."""
        self.pending = {}
        self.maintained = version
        self.status, self.failure, self.damaged = Status.ACTIVE, "", False


def name_taken(known: Relation, kind: str) -> IncrementalError:
    """Why a relation of a kind cannot be created under the name of one that is there."""
    if known.kind == kind:
        return error("INCR_RELATION_EXISTS", name=known.name)
    detail = f"It is a {known.kind}."
    hint = f"Use another name, or DROP INCREMENTAL {known.kind.upper()} first."
    return error("INCR_RELATION_EXISTS", name=known.name, detail=detail, hint=hint)


def readers_of(read: Iterable[Relation], relations: Iterable[Relation]) -> list[Relation]:
    """The views that read one of some relations, directly or not, in order of creation."""
    names = {relation.name for relation in read}
    result = []
    for other in relations:
        if other.reads & names:
            names.add(other.name)
            result.append(other)
    return result


def next_generation(source: Relation) -> int:
    """The number of the checkpoint by which the stream of a source would be read anew."""
    return int(source.offsets.get("generation", 0)) + 1


@dataclass(frozen=True)
class Published:
    """All relations as of one version; readers take it whole, so what they see fits together."""

    version: int
    timestamp_ms: int
    rows: Mapping[str, Contents]
    changed: Mapping[str, int]
    damaged: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with those that have no rows."""
