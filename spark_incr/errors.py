"""Named conditions: what happened, the detail, what to do about it, and where in the SQL.

Every failure a user can meet is raised as an `IncrementalError` whose `condition` is a key of
`CONDITIONS`. Messages are lower case and carry no full stop; details and hints are sentences.
"""

from __future__ import annotations

import re
import sys
import warnings
from dataclasses import dataclass


@dataclass(frozen=True)
class Condition:
    """One entry of the catalogue: its SQLSTATE, a message template and the usual way out.

    The SQLSTATE is that of Spark's or PostgreSQL's for the same failure, so that tools which look
    at nothing else know its class.
    """

    sqlstate: str
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Position:
    """A place in a statement, both counted from 1."""

    line: int
    column: int

    def after(self, start: Position) -> Position:
        """The place in a text of a place in a part of it that begins at `start`.

        >>> Position(1, 3).after(Position(5, 10)), Position(2, 3).after(Position(5, 10))
        (Position(line=5, column=12), Position(line=6, column=3))
        """
        before = start.column - 1 if self.line == 1 else 0
        return Position(start.line + self.line - 1, before + self.column)


CONDITIONS: dict[str, Condition] = {
    # Statements and names
    "INCR_SQLGLOT_COMPILED": Condition(
        "58000",
        "sqlglot is installed in its compiled form, whose parser cannot be extended",
        "Uninstall the package sqlglotc; the package sqlglot works without it.",
    ),
    "INCR_SYNTAX": Condition("42601", "syntax error in an INCREMENTAL statement: {what}"),
    "INCR_SPARK_ERROR": Condition("42000", "Spark rejects the statement: {what}"),
    "INCR_RELATION_EXISTS": Condition(
        "42P07", "relation {name} already exists", "Use IF NOT EXISTS, OR REPLACE, or another name."
    ),
    "INCR_RELATION_NOT_FOUND": Condition(
        "42P01",
        "incremental {kind} {name} does not exist",
        "SHOW INCREMENTAL VIEWS lists what there is.",
    ),
    "INCR_RELATION_IN_USE": Condition(
        "2BP01", "{name} is read by {readers}", "Drop those views first, or use CASCADE."
    ),
    "INCR_RELATION_OWNED": Condition(
        "2BP01",
        "table {name} is where source {source} sets rows aside",
        "DELETE empties it; it goes when the source is dropped.",
    ),
    "INCR_RESERVED_NAME": Condition(
        "42939",
        "the name {name} is reserved",
        "Names that begin with __incr_ belong to the engine.",
    ),
    "INCR_NAME_UNUSABLE": Condition("42602", "the name {name} cannot be used here: {what}"),
    "INCR_NOT_APPLICABLE": Condition(
        "42809", "{name} is an incremental {kind}, {what} does not apply"
    ),
    "INCR_DUPLICATE_COLUMN": Condition(
        "42711", "column {name} appears more than once", "Give each column an alias of its own."
    ),
    "INCR_COLUMN_COUNT": Condition(
        "21S01", "{expected} column names are needed, {actual} are given"
    ),
    "INCR_TYPE_UNSUPPORTED": Condition("0A000", "type {type} of column {name} cannot be kept"),
    "INCR_KEY_TYPE": Condition(
        "42804",
        "column {name} of type {type} cannot be a key",
        "Spark does not compare such values.",
    ),
    "INCR_NOT_FOLLOWED": Condition(
        "0A000",
        "{name} is a view of Spark over the incremental {kind} {relation}, and would be read once",
        "Create it as an INCREMENTAL VIEW, or write its query in place of its name.",
    ),
    # What a view may hold
    "INCR_UNSUPPORTED": Condition("0A000", "{what} cannot be maintained incrementally"),
    "INCR_NONDETERMINISTIC": Condition(
        "42K0E",
        "{what} is not deterministic",
        "A view must give the same rows for the same tables.",
    ),
    "INCR_SESSION_VARIABLE": Condition(
        "42K0F",
        "{name} is a variable of the session, which a view outlives",
        "Write its value; for one that changes, keep it in a table of one row, read it from there, "
        "and UPDATE it.",
    ),
    "INCR_READING_DIFFERS": Condition(
        "XX000",
        "this query is read differently by Spark and by the compiler",
        "Please report the query; writing the marked construct in another way helps.",
    ),
    "INCR_SCHEMA_DIFFERS": Condition(
        "XX000", "the compiled plan gives {actual}, Spark gives {expected}"
    ),
    # Changes
    "INCR_DUPLICATE_KEY": Condition(
        "23505",
        "primary key of {table} {what}: {keys}",
        "Use MERGE or UPDATE to change a row that is there.",
    ),
    "INCR_NULL_KEY": Condition("23502", "primary key column {column} of {table} is NULL"),
    "INCR_NOT_NULL": Condition(
        "23502", "column {column} of {table} is NOT NULL, but a row has NULL there"
    ),
    "INCR_TOO_LONG": Condition(
        "22001",
        "column {column} of {table} has at most {longest} characters, but a row has {value!r} there",
    ),
    "INCR_ROW_NOT_FOUND": Condition("23000", "rows to delete are not in {table}: {rows}"),
    "INCR_TOO_MANY_ROWS": Condition(
        "54000",
        "{rows} rows are more than can be handed over",
        "Keep a count in a column of the rows.",
    ),
    "INCR_SCHEMA_MISMATCH": Condition("42804", "the rows do not fit table {table}: {what}"),
    "INCR_STATEMENT_UNSUPPORTED": Condition(
        "0A000", "{what} is not supported on incremental tables"
    ),
    "INCR_NOT_REPLACED": Condition(
        "44000",
        "{rows} of the rows for {table} do not satisfy the condition of REPLACE WHERE",
        "Add the condition to the query, or write one that holds for all of the rows.",
    ),
    "INCR_MERGE_CARDINALITY": Condition(
        "23K01",
        "several source rows match one row of {table}",
        "Make the source unique on the condition.",
    ),
    # Sources
    "INCR_SOURCE_ROW": Condition(
        "22000",
        "source {source} brought a row that does not fit: {reason}",
        "Repair or remove it; ON ERROR QUARANTINE sets such rows aside.",
    ),
    "INCR_SOURCE_UNSUPPORTED": Condition("0A000", "source {source} cannot be read: {what}"),
    "INCR_SOURCE_CHANGED": Condition(
        "55000", "source {source} is not what it was: {what}", "Drop the source and create it anew."
    ),
    "INCR_SOURCE_FILE_CHANGED": Condition(
        "55000",
        "source {source} has read {file}, which has changed since",
        "Put each file into the directory once, whole; REFRESH INCREMENTAL SOURCE ... FULL reads "
        "all files anew.",
    ),
    "INCR_SOURCE_OFFSETS": Condition(
        "55000",
        "the checkpoint of source {source} is not the one that its rows came by",
        "REFRESH INCREMENTAL SOURCE ... FULL reads the stream anew from its beginning.",
    ),
    "INCR_SOURCE_DETACHED": Condition(
        "55000",
        "source {source} is fed by a stream that this process has not attached",
        "Call engine.stream with its name and a frame first.",
    ),
    "INCR_VIEW_FAILED": Condition(
        "55000",
        "view {name} has failed and shows version {version}: {failure}",
        "Mend the cause, then REFRESH INCREMENTAL VIEW, or REFRESH ... FULL.",
    ),
    "INCR_VIEW_OUTDATED": Condition(
        "55000",
        "view {name} is computed anew: another version of spark_incr keeps its state in another way",
        "Nothing is to be done; what it takes is like REFRESH INCREMENTAL VIEW ... FULL.",
    ),
    "INCR_FUNCTION_CHANGED": Condition(
        "55000",
        "the function {name} is not the one that the view was computed with",
        "REFRESH INCREMENTAL VIEW ... FULL computes the view anew, with the function as it is now.",
    ),
    "INCR_VIEW_DAMAGED": Condition(
        "XX001",
        "the stored state of {name} is damaged: {what}",
        "REFRESH INCREMENTAL VIEW (or SOURCE) ... FULL rebuilds it.",
    ),
    "INCR_STATE_DISAGREES": Condition(
        "XX001",
        "rows are to leave the view that its state does not have",
        "Please report it; REFRESH INCREMENTAL VIEW ... FULL computes the view anew.",
    ),
    "INCR_VERSION_GONE": Condition(
        "22023",
        "version {version} is not kept; versions {oldest} to {newest} are",
        "Read a version that is kept; spark.incr.retainVersions says how many are.",
    ),
    "INCR_VERSIONS_REVERSED": Condition(
        "22023",
        "there are no changes from version {first} to version {last}",
        "Name the earlier version first.",
    ),
    # Evaluation; the texts follow Spark's own conditions of the same name
    "ARITHMETIC_OVERFLOW": Condition(
        "22003", "{what} overflow", "Use a wider type or the try_ function."
    ),
    "BINARY_ARITHMETIC_OVERFLOW": Condition(
        "22003", "{what} overflow", "Use a wider type or the try_ function."
    ),
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": Condition(
        "21000",
        "more than one row is returned by a subquery used as an expression",
        "Aggregate in the subquery, or make its condition unique.",
    ),
    "DIVIDE_BY_ZERO": Condition(
        "22012", "division by zero", "Use try_divide or NULLIF(divisor, 0)."
    ),
    "REMAINDER_BY_ZERO": Condition(
        "22012", "remainder by zero", "Use try_mod or NULLIF(divisor, 0)."
    ),
    "NUMERIC_VALUE_OUT_OF_RANGE": Condition("22003", "{what} does not fit {type}"),
    "CAST_INVALID_INPUT": Condition(
        "22018", "the value {value} of type {source} cannot be cast to {target}", "Use try_cast."
    ),
    "CAST_OVERFLOW_IN_TABLE_INSERT": Condition("22003", "a value of type {what}", "Use try_cast."),
    "CAST_OVERFLOW": Condition(
        "22003", "the value {value} of type {source} overflows {target}", "Use try_cast."
    ),
    "INVALID_ARRAY_INDEX": Condition(
        "22003", "index {index} is out of bounds of an array", "Use get, which gives NULL."
    ),
    # Store
    "INCR_STATE_LOCKED": Condition(
        "55006",
        "the state directory {path} is in use by process {pid}",
        "Stop that process, or use another state directory.",
    ),
    "INCR_STATE_CORRUPT": Condition(
        "XX001",
        "state file {file} is damaged: {what}",
        "Restore the directory from a copy.",
    ),
    "INCR_STATE_FORMAT": Condition(
        "0A000", "the state has format {found}, this version reads {known}", "Upgrade spark_incr."
    ),
    "INCR_STATE_READ_ONLY": Condition(
        "58030", "the state directory {path} cannot be written: {what}"
    ),
    "INCR_STATE_WRITE": Condition(
        "58030",
        "the state in {path} could not be written: {what}",
        "The last committed version stands; free the disk or repair it and try again.",
    ),
    "INCR_STATE_GONE": Condition(
        "55000",
        "{what} of the state is no longer kept",
        "Read the current version; a reader that needs an older one must pin it.",
    ),
    "INCR_STATE_CLOSED": Condition(
        "55000",
        "the state in {path} is closed, or was opened by the parent of this process",
        "Open it again by `spark_incr.session` or `spark_incr.enable`.",
    ),
    "INCR_STATE_NOT_FOUND": Condition("58P01", "there is no state in {path}"),
    # Model files
    "INCR_MODEL": Condition("42000", "model {model}: {what}"),
    # Environment
    "INCR_SESSION_BOUND": Condition(
        "55006",
        "the session already works on the state directory {path}",
        "Use another session, or `spark_incr.disable(spark)` first.",
    ),
    "INCR_SESSION_UNBOUND": Condition(
        "55000",
        "the session has no state directory",
        "Call `spark_incr.enable(spark, state=...)` first.",
    ),
    "INCR_INTERNAL": Condition(
        "XX000", "an internal error: {what}", "Please report it; the log has its stack trace."
    ),
    "INCR_SERVER": Condition("58000", "the server cannot start: {what}"),
    "INCR_SERVER_STOPPING": Condition(
        "57P01", "the server is stopping", "What was committed stays; try again when it is back."
    ),
    "INCR_JAVA_MISSING": Condition(
        "58000",
        "Java 17 or newer is not found",
        "Install a JRE, or `pip install 'spark_incr[java]'`, which brings one.",
    ),
}


class IncrementalError(Exception):
    """A named condition. `str()` is what a person reads at any door.

    What it is can be asked as PySpark's own errors are.
    """

    def __init__(
        self, condition: str, message: str, detail: str, hint: str, position: Position | None
    ) -> None:
        self.condition = condition
        self.message = message
        self.detail = detail
        self.hint = hint
        self.position = position
        super().__init__(self.render())

    @property
    def sqlstate(self) -> str:
        return CONDITIONS[self.condition].sqlstate

    def getCondition(self) -> str:  # noqa: N802, PySpark's name
        return self.condition

    def getSqlState(self) -> str:  # noqa: N802, PySpark's name
        return self.sqlstate

    def place(self, position: Position) -> None:
        """Say where in a larger text the error is."""
        self.position = position
        self.args = (self.render(),)

    def advise(self, hint: str) -> None:
        """Say what to do in the words of a larger statement."""
        self.hint = hint
        self.args = (self.render(),)

    def render(self) -> str:
        place = (
            f" (line {self.position.line}, column {self.position.column})" if self.position else ""
        )
        lines = [f"[{self.condition}] {self.message}{place}"]
        if self.detail:
            lines.append(f"DETAIL: {self.detail}")
        if self.hint:
            lines.append(f"HINT: {self.hint}")
        return "\n".join(lines)


def error(
    condition: str,
    *,
    detail: str = "",
    hint: str | None = None,
    position: Position | None = None,
    **values: object,
) -> IncrementalError:
    """Build the error of a catalogued condition; `values` fill its message.

    >>> print(error("DIVIDE_BY_ZERO"))
    [DIVIDE_BY_ZERO] division by zero
    HINT: Use try_divide or NULLIF(divisor, 0).
    """
    entry = CONDITIONS[condition]
    return IncrementalError(
        condition,
        entry.message.format(**values),
        detail,
        entry.hint if hint is None else hint,
        position,
    )


def warn(what: str) -> None:
    """Warn whoever called the package: the line that is shown is theirs, not one of ours."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("spark_incr."):
        level, frame = level + 1, frame.f_back
    warnings.warn(what, RuntimeWarning, stacklevel=level)


def without_plan(text: str) -> str:
    """A message of Spark without the plan that it may end with.

    >>> without_plan("[X] not found; line 1 pos 14;\\n'Project [*]\\n+- 'Unresolved [t]")
    '[X] not found; line 1 pos 14'
    """
    return re.sub(r";\n'?[A-Z]\w+ ?[\[(].*", "", text, flags=re.DOTALL)


def without_own_text(text: str) -> str:
    """A message of Spark without the place that it draws in a text which has names of the engine.

    >>> without_own_text("[X] division by zero\\n== SQL (line 1, position 1) ==\\n1 / a AS __incr_c0\\n^^^^^")
    '[X] division by zero'
    >>> without_own_text("[X] division by zero\\n== SQL (line 1, position 8) ==\\nSELECT 1 / a\\n       ^^^^^")
    '[X] division by zero\\n== SQL (line 1, position 8) ==\\nSELECT 1 / a\\n       ^^^^^'
    """
    head, mark, drawn = text.partition("\n== SQL ")
    return head if "__incr_" in drawn else head + mark + drawn


_PLACE = re.compile(
    r" ?\(line (?P<l1>\d+), column (?P<c1>\d+)\)"
    r"| ?\(line (?P<l2>\d+), pos (?P<c2>\d+)\)(?:\n\n== SQL ==\n.*)?"
    r"|; line (?P<l3>\d+) pos (?P<c3>\d+)",
    re.DOTALL,
)


def split_place(text: str) -> tuple[str, Position | None]:
    """A message, ours or Spark's, without the place that it names, and that place.

    Spark counts columns from 0, and draws the place of a syntax error.

    >>> split_place("[X] no such column; line 2 pos 7")
    ('[X] no such column', Position(line=2, column=8))
    >>> split_place("[X] at or near 'b' (line 1, pos 2)\\n\\n== SQL ==\\na b\\n--^^^")
    ("[X] at or near 'b'", Position(line=1, column=3))
    """
    found = _PLACE.search(text)
    if found is None:
        return text, None
    line, column = [int(number) for number in found.groups() if number is not None]
    rest = text[: found.start()] + text[found.end() :]
    return rest, Position(line, column if found["l1"] else column + 1)
