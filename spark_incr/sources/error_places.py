"""Where a person wrote what Spark complains of.

Spark is given the parts of a statement in texts of our own, each part as it was written and on lines
of its own. A place in such a text is that of the same line in the statement, if the line is there
once; otherwise the message names no place, and never the plan of the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors.exceptions.captured import CapturedException

from spark_incr.errors import Position, split_place, without_plan
from spark_incr.sql.tokens import position_at


def place_in(failure: CapturedException, given: str, written: str) -> None:
    """Let the message of a failure of `given` speak of the statement that was `written`."""
    failure._desc = moved(failure._desc, given, written)


@contextmanager
def placed(start: Position) -> Iterator[None]:
    """Let the message of what Spark says of a part that begins at `start` speak of the statement."""
    try:
        yield
    except CapturedException as failure:
        what, place = split_place(without_plan(failure._desc))
        if place is not None:
            found = place.after(start)
            failure._desc = f"{what}; line {found.line} pos {found.column - 1}"
        raise


def moved(message: str, given: str, written: str) -> str:
    """A message with the place in one text as the place in the other.

    >>> moved("[X] no column; line 2 pos 4", "SELECT 1 WHERE (\\nNOT y\\n)", "DELETE FROM t WHERE NOT y")
    '[X] no column; line 1 pos 24'
    >>> moved("[X] no column; line 1 pos 7;\\n'Project ['z]", "SELECT z", "DELETE FROM t WHERE y")
    '[X] no column'
    """
    what, place = split_place(without_plan(message))
    if place is None:
        return what
    line = given.split("\n")[place.line - 1]
    if written.count(line) != 1:
        return what
    found = position_at(written, written.index(line) + place.column - 1)
    return f"{what}; line {found.line} pos {found.column - 1}"
