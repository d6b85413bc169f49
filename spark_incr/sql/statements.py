"""The INCREMENTAL statements as data; `parse.py` reads them, `show_create.py` prints them.

Names are texts as `names.py` defines them. The query of a view stays the text that the user wrote,
and the types of columns too: Spark is the authority on both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from spark_incr.errors import Position

Properties = tuple[tuple[str, str], ...]


class Kind(Enum):
    TABLE = "TABLE"
    VIEW = "VIEW"
    SOURCE = "SOURCE"


class Policy(Enum):
    """What may be done to maintain a view; the value is its SQL."""

    INCREMENTAL_STRICT = "INCREMENTAL STRICT"
    INCREMENTAL = "INCREMENTAL"
    AUTO = "AUTO"
    FULL = "FULL"


class TriggerKind(Enum):
    ON_UPDATE = "TRIGGER ON UPDATE"
    SCHEDULE = "SCHEDULE"
    MANUAL = "MANUAL"


class Unit(Enum):
    """A unit of a schedule; the value is its length in seconds."""

    SECOND = 1
    MINUTE = 60
    HOUR = 3_600
    DAY = 86_400
    WEEK = 604_800


@dataclass(frozen=True)
class Trigger:
    """When a view is brought up to date; `every` and `unit` count only for a schedule."""

    kind: TriggerKind = TriggerKind.ON_UPDATE
    every: int = 0
    unit: Unit = Unit.SECOND

    @property
    def seconds(self) -> int:
        return self.every * self.unit.value


@dataclass(frozen=True)
class ColumnDefinition:
    """A column of a table or source; the type and the default are texts for Spark to read."""

    name: str
    type_text: str
    not_null: bool = False
    comment: str | None = None
    default: str | None = None
    type_position: Position = field(default=Position(1, 1), compare=False)


@dataclass(frozen=True)
class ColumnName:
    """A column that a view names itself instead of by its query."""

    name: str
    comment: str | None = None


@dataclass(frozen=True)
class CreateTable:
    name: str
    columns: tuple[ColumnDefinition, ...]
    primary_key: tuple[str, ...] = ()
    if_not_exists: bool = False
    or_replace: bool = False
    comment: str | None = None
    properties: Properties = ()


@dataclass(frozen=True)
class CreateView:
    """`body_position` is where `query_text` begins in the text of the statement."""

    name: str
    query_text: str
    columns: tuple[ColumnName, ...] = ()
    comment: str | None = None
    properties: Properties = ()
    policy: Policy = Policy.INCREMENTAL_STRICT
    trigger: Trigger = Trigger()
    if_not_exists: bool = False
    or_replace: bool = False
    body_position: Position = field(default=Position(1, 1), compare=False)


class ChangeKind(Enum):
    """How the rows of a stream say whether they come or go."""

    APPEND = "APPEND"
    OPERATION = "OPERATION"
    WEIGHT = "WEIGHT"
    DELETES = "DELETES"
    FEED = "FEED"
    DEBEZIUM = "DEBEZIUM"
    DEBEZIUM_FLATTENED = "DEBEZIUM FLATTENED"


@dataclass(frozen=True)
class Changes:
    """`column` holds the operation or the weight; rows whose operation is in `delete_when` go.

    With DELETES, the rows to delete lie in a directory of their own, `deletes_path`.
    """

    kind: ChangeKind = ChangeKind.APPEND
    column: str | None = None
    delete_when: tuple[str, ...] = ()
    deletes_path: str | None = None


class OnError(Enum):
    """What happens with a row that does not fit its source."""

    FAIL = "FAIL"
    QUARANTINE = "QUARANTINE"


@dataclass(frozen=True)
class CreateSource:
    """A stream. With a `key`, the last row per key in order of `sequence_by` counts."""

    name: str
    format: str
    columns: tuple[ColumnDefinition, ...] = ()
    options: Properties = ()
    changes: Changes = Changes()
    key: tuple[str, ...] = ()
    sequence_by: str | None = None
    on_error: OnError = OnError.FAIL
    comment: str | None = None
    properties: Properties = ()
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True)
class Drop:
    kind: Kind
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class Refresh:
    name: str
    full: bool = False
    kind: Kind = Kind.VIEW


@dataclass(frozen=True)
class Suspend:
    pass


@dataclass(frozen=True)
class Resume:
    pass


@dataclass(frozen=True)
class SetPolicy:
    policy: Policy


@dataclass(frozen=True)
class SetTrigger:
    trigger: Trigger


@dataclass(frozen=True)
class SetProperties:
    properties: Properties


@dataclass(frozen=True)
class RenameTo:
    name: str


Action = Suspend | Resume | SetPolicy | SetTrigger | SetProperties | RenameTo


@dataclass(frozen=True)
class AlterView:
    name: str
    action: Action


@dataclass(frozen=True)
class ShowViews:
    like: str | None = None


@dataclass(frozen=True)
class ShowTables:
    like: str | None = None


@dataclass(frozen=True)
class ShowSources:
    like: str | None = None


@dataclass(frozen=True)
class ShowCreate:
    kind: Kind
    name: str


@dataclass(frozen=True)
class ShowProperties:
    """SHOW TBLPROPERTIES, which is Spark's statement, of a relation of ours."""

    kind: Kind
    name: str
    key: str | None = None


@dataclass(frozen=True)
class Describe:
    kind: Kind
    name: str
    extended: bool = False


@dataclass(frozen=True)
class DescribeHistory:
    name: str


class ExplainMode(Enum):
    PLAIN = ""
    SQL = "SQL"
    EXTENDED = "EXTENDED"


@dataclass(frozen=True)
class Explain:
    mode: ExplainMode
    name: str


@dataclass(frozen=True)
class ExplainCreate:
    mode: ExplainMode
    create: CreateView


Create = CreateTable | CreateView | CreateSource
Statement = (
    Create
    | Drop
    | Refresh
    | AlterView
    | ShowViews
    | ShowTables
    | ShowSources
    | ShowCreate
    | ShowProperties
    | Describe
    | DescribeHistory
    | Explain
    | ExplainCreate
)
