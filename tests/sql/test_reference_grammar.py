"""docs/sql-reference.md has the grammar that the parser has.

Its statements are read as a grammar: `[...]` may be left out, `{... | ...}` is a choice, and a list
that ends with `...` has one item here. Every text of that grammar parses, and together they make
every statement, action and clause that there is.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import pytest

from spark_incr.sql import statements
from spark_incr.sql.parse import parse_statement

REFERENCE = Path(__file__).parents[2] / "docs" / "sql-reference.md"
WORDS = {"name": "v", "column": "a", "type": "INT", "query": "SELECT 1 AS a", "format": "json"}
TOKENS = re.compile(r"'[^']*'|[\[\]{}|(),=]|\.\.\.|[^\s\[\]{}|(),=']+")
# Spark's own statements, with what the engine makes of them
NOT_OURS = "SELECT"
MOST = 40  # texts of one statement; a choice within a choice of six has its turns in them
# Options of which the reference says that one excludes the other
EXCLUSIVE = (
    (" OR REPLACE", " IF NOT EXISTS"),
    (
        r" PRIMARY KEY(?! \()",
        r" ,( CONSTRAINT v)? PRIMARY KEY \( a \)",
        r"(?<!PRIMARY) KEY \( a \)",
    ),
)
# Read in order to be refused with a reason
REFUSED = {statements.RenameTo}


def grammar() -> list[str]:
    """The statements of the reference, one text each."""
    found = []
    for block in re.findall(r"```sql\n(.*?)```", REFERENCE.read_text(encoding="utf-8"), re.DOTALL):
        text = re.sub(r" +-- .*", "", block)
        # A statement begins in the first column and goes on in indented lines.
        starts = r"\n(?=CREATE|DROP|SHOW|\{DESC|REFRESH INCR|ALTER|EXPLAIN|SELECT)"
        found += [part.strip() for part in re.split(starts, text) if part.strip()]
    return [text for text in found if not text.startswith(NOT_OURS)]


def texts(statement: str) -> Iterator[str]:
    """The texts of a statement in which each option and each choice is taken at least once."""
    tokens = TOKENS.findall(statement)
    for number in range(MOST):
        text = " ".join(_expanded(list(tokens), number))
        for options in EXCLUSIVE:
            stated = [option for option in options if re.search(option, text)]
            for option in stated:
                if option != stated[number % len(stated)]:
                    text = re.sub(option, "", text)
        yield text


def _expanded(tokens: list[str], number: int) -> list[str]:
    """One text: choices are taken by turns, and an option is a choice of which one is nothing."""
    result: list[str] = []
    while tokens:
        token = tokens.pop(0)
        if token in "[{":
            alternatives = [[], *_group(tokens)] if token == "[" else _group(tokens)
            turn, chosen = divmod(number, len(alternatives))
            result += _expanded(alternatives[chosen], turn)
        elif token == "...":
            while result and result[-1] == ",":
                result.pop()
        elif token == "n":
            result.append("2")
        else:
            result.append(WORDS.get(token, token))
    return result


def _group(tokens: list[str]) -> list[list[str]]:
    """The alternatives of the group whose opening was read, which is taken off."""
    parts: list[list[str]] = [[]]
    depth = 0
    while True:
        token = tokens.pop(0)
        if depth == 0 and token in "]}":
            return parts
        depth += (token in "[{") - (token in "]}")
        if token == "|" and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)


@pytest.mark.parametrize("statement", grammar(), ids=lambda text: " ".join(text.split())[:60])
def test_every_text_of_the_reference_is_read(statement: str) -> None:
    for text in texts(statement):
        assert parse_statement(_whole(text)) is not None, text


def _parts(value: object) -> Iterator[object]:
    """A statement and all that it holds."""
    yield type(value)
    if isinstance(value, Enum):
        yield value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _parts(getattr(value, field.name))


def test_every_statement_is_in_the_reference() -> None:
    """All that has a grammar here: SHOW TBLPROPERTIES has that of Spark."""
    made: set[object] = set()
    for statement in grammar():
        for text in texts(statement):
            made.update(_parts(parse_statement(_whole(text))))
    expected: set[object] = {*typing.get_args(statements.Statement)} - {statements.ShowProperties}
    expected |= set(typing.get_args(statements.Action)) - REFUSED
    for choice in (
        *(statements.Kind, statements.Policy, statements.TriggerKind, statements.Unit),
        *(statements.ChangeKind, statements.OnError, statements.ExplainMode),
    ):
        expected |= set(choice)
    assert expected <= made, expected - made


def _whole(text: str) -> str:
    return f"{text} v AS SELECT 1 AS a" if text.endswith("CREATE INCREMENTAL VIEW") else text
