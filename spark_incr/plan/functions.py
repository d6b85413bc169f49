"""Functions as far as the plan must know them: those that a view may not call, and session functions.

A view is a function of its tables. What reads a clock, a random source or its surroundings is
refused. A function that a user has registered is Spark's business, but Spark must say whether it
aggregates and whether it is deterministic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from sqlglot import exp

from spark_incr.errors import IncrementalError, error
from spark_incr.sql.dialect import parse_query, position_of, print_sql

if TYPE_CHECKING:
    from spark_incr.plan.context import Analyzer

AGGREGATE = "aggregate"
"""The mark, in the meta data of a call, of a session function that aggregates."""

QUERY = "query"
"""The mark of a function of SQL that holds a query, called for a value."""

CLOCK = (
    "Store the time in a column when the row is inserted; for a moving time, keep it in a table of one "
    "row, read it from there, and UPDATE it."
)
_RANDOM = (
    "Store the value in a column of a table when the row is inserted, or derive it with hash()."
)
_SURROUNDINGS = "Write the value as a literal, or store it in a column of a table."
_PLACE = "Give the rows a column of their own for it; row_number() numbers them by an order."

UNSTABLE: dict[str, str] = {
    **dict.fromkeys(
        """current_timestamp now current_date curdate current_time localtimestamp""".split(),
        CLOCK,
    ),
    **dict.fromkeys("rand random randn uuid shuffle randstr uniform".split(), _RANDOM),
    **dict.fromkeys(
        """current_user user session_user current_database current_schema current_catalog
        current_timezone version reflect java_method try_reflect current_path""".split(),
        _SURROUNDINGS,
    ),
    **dict.fromkeys(
        """monotonically_increasing_id spark_partition_id input_file_name input_file_block_start
        input_file_block_length""".split(),
        _PLACE,
    ),
}
"""Functions of Spark whose value depends on more than the rows, and what to do instead."""

_BARE = {
    **{n: n for n in ("current_date", "current_timestamp", "current_time", "current_path")},
    **dict.fromkeys(("current_user", "user", "session_user"), "current_user"),
    "localtime": "current_time",
}
"""What Spark calls without parentheses, where no column has the name, and which function it is."""

_UNSTABLE_BELOW: dict[str, tuple[int, str]] = {
    "unix_timestamp": (1, CLOCK),
    "aes_encrypt": (5, "Give the initialization vector; without it Spark draws one."),
}
"""Functions that are stable with at least so many arguments."""

# Calls that sqlglot reads without parentheses, or under a name of its own.
_CLASSES: dict[type[exp.Expr], str] = {
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentDate: "current_date",
    exp.CurrentTime: "current_time",
    exp.CurrentDatetime: "current_timestamp",
    exp.Localtimestamp: "localtimestamp",
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user",
    exp.Rand: "rand",
    exp.Randn: "randn",
    exp.Uuid: "uuid",
}


def refuse_bare_calls(tree: exp.Expr, calls: Callable[[], Collection[str]]) -> None:
    """Refuse a function that is called by its name alone, where it is no column.

    Who knows is Spark: `calls` are the names of the functions in its plan of the query.
    """
    found = (c for c in tree.find_all(exp.Column) if len(c.parts) == 1)
    bare = [(c, _BARE[c.name.lower()]) for c in found if c.name.lower() in _BARE]
    called_in_plan = calls() if bare else ()
    for column, function in bare:
        if function in called_in_plan:
            raise _unstable(column, UNSTABLE[function])


def read_functions(tree: exp.Expr, analyzer: Analyzer) -> None:
    """Refuse what is not deterministic, and mark the session functions that aggregate or hold a query."""
    for node in tree.walk():
        if isinstance(node, exp.TableSample):
            raise error(
                "INCR_NONDETERMINISTIC",
                what="TABLESAMPLE",
                hint="Choose rows by a condition on their columns, for example pmod(hash(id), 100) < 5.",
                position=position_of(node.parent) if node.parent else None,
            )
        name = called(node)
        if name is None:
            continue
        if name in UNSTABLE:
            raise _unstable(node, UNSTABLE[name])
        if name in _UNSTABLE_BELOW and len(node.expressions) < _UNSTABLE_BELOW[name][0]:
            raise _unstable(node, _UNSTABLE_BELOW[name][1])
        if _reads_today(node):
            raise _unstable(node, CLOCK)
        _ask(node, name, analyzer)


_TIMES = (
    *(exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ),
    *(exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ),
)
_READ_TIMES = frozenset(
    """date timestamp to_date try_to_date to_timestamp try_to_timestamp to_timestamp_ltz
    to_timestamp_ntz""".split()
)
_DAY = re.compile(r"\s*(now|today|tomorrow|yesterday)(?![a-z])", re.IGNORECASE)


def called(node: exp.Expr) -> str | None:
    """The name of the function that a node calls, as Spark knows it."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if type(node) in _CLASSES:
        return _CLASSES[type(node)]
    if isinstance(node, exp.Func):
        written = node.meta.get("name")
        return written.lower() if isinstance(written, str) else node.sql_name().lower()
    return None


def _reads_today(node: exp.Expr) -> bool:
    """Whether a text is read as a time that means the current day."""
    if isinstance(node, (exp.Cast, exp.TryCast)):
        text: object = node.this if node.to.this in _TIMES else None
    elif called(node) in _READ_TIMES:
        text = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    else:
        return False
    if not isinstance(text, exp.Expr) or not text.is_string:
        return False
    return means_a_day(text.name)


def means_a_day(text: str) -> bool:
    """Whether Spark takes a text, cast to a time, for the current day or one beside it."""
    return _DAY.match(text) is not None


def _ask(node: exp.Expr, name: str, analyzer: Analyzer) -> None:
    count = len(node.expressions) if isinstance(node, exp.Anonymous) else 0
    found = analyzer.session_function(name, count)
    if found is None:
        return
    if not isinstance(node, exp.Anonymous):
        raise error(
            "INCR_UNSUPPORTED",
            what=f"the function {name}, which hides one of Spark,",
            hint="Register the function under a name of its own.",
            position=position_of(node),
        )
    if not found.deterministic:
        raise _unstable(node, "Declare the function deterministic if it is, or store its values.")
    for body in found.made_of:
        _read_body(node, body, analyzer)
    if found.aggregates:
        node.meta[AGGREGATE] = True
    if found.returns and not found.gives_rows:
        node.meta[QUERY] = True


def _read_body(node: exp.Expr, body: str, analyzer: Analyzer) -> None:
    """Refuse a call of a function of SQL for what it is made of."""
    try:
        read_functions(parse_query(body), analyzer)
    except IncrementalError as failure:
        if (place := position_of(node)) is not None:
            failure.place(place)
        raise


def _unstable(node: exp.Expr, hint: str) -> IncrementalError:
    what = print_sql(node).lower()
    return error("INCR_NONDETERMINISTIC", what=what, hint=hint, position=position_of(node))
