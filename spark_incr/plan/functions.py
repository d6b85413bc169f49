"""Functions that a view may not call: their value depends on more than the rows."""

from __future__ import annotations

from sqlglot import exp

from spark_incr.errors import error
from spark_incr.sql.dialect import position_of

_UNSTABLE_NAMES = frozenset(
    [
        "rand",
        "random",
        "randn",
        "uuid",
        "shuffle",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "input_file_block_length",
        "current_timestamp",
        "now",
        "current_date",
        "curdate",
        "current_time",
        "localtimestamp",
        "unix_timestamp",
        "current_user",
        "user",
        "session_user",
        "current_database",
        "current_schema",
        "current_catalog",
        "current_timezone",
        "version",
        "randstr",
        "uniform",
        "getdate",
        "sysdate",
        "reflect",
        "java_method",
    ]
)
_UNSTABLE_CLASSES = tuple(
    getattr(exp, name)
    for name in [
        "Rand",
        "Randn",
        "Uuid",
        "CurrentTimestamp",
        "CurrentDate",
        "CurrentTime",
        "CurrentDatetime",
        "Localtimestamp",
        "CurrentUser",
        "SessionUser",
        "CurrentSchema",
        "CurrentDatabase",
        "CurrentCatalog",
        "CurrentTimezone",
        "CurrentVersion",
        "Version",
        "Uniform",
        "Randstr",
    ]
    if hasattr(exp, name)
)


def refuse_unstable(expression: exp.Expr) -> None:
    """Raise if the expression reads a clock, a random source or its surroundings."""
    for node in expression.walk():
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        unstable = isinstance(node, _UNSTABLE_CLASSES) or name in _UNSTABLE_NAMES
        if unstable and not (name == "unix_timestamp" and node.expressions):
            raise error(
                "INCR_NONDETERMINISTIC",
                what=node.sql(dialect="spark"),
                hint="Store the value in a column of a table when the row is inserted.",
                position=position_of(node),
            )
