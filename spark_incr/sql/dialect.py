"""Spark SQL as sqlglot reads and prints it."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from spark_incr.errors import Position, error

DIALECT = "spark"


def parse_query(text: str) -> exp.Query:
    """The syntax tree of one query."""
    try:
        tree = sqlglot.parse_one(text, read=DIALECT)
    except ParseError as failure:
        first = failure.errors[0] if failure.errors else {}
        place = Position(int(first["line"]), int(first["col"])) if first.get("line") else None
        raise error(
            "INCR_SYNTAX", what=str(first.get("description", failure)), position=place
        ) from None
    except TokenError as failure:
        raise error("INCR_SYNTAX", what=str(failure)) from None
    if not isinstance(tree, exp.Query):
        raise error("INCR_SYNTAX", what="a view is made of one query")
    return tree


def print_sql(tree: exp.Expr, pretty: bool = False) -> str:
    """A tree as Spark SQL."""
    return tree.sql(dialect=DIALECT, pretty=pretty, comments=False)


def quoted(name: str) -> str:
    """A name as it stands in SQL text, whatever it holds.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def position_of(node: exp.Expr) -> Position | None:
    """Where a node stands in the text, as far as the tree remembers."""
    places = [
        (n.meta["start"], n.meta["line"], n.meta["col"] - (n.meta["end"] - n.meta["start"]))
        for n in node.walk()
        if "start" in n.meta
    ]
    if not places:
        return None
    _, line, column = min(places)
    return Position(line, column)
