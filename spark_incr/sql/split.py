"""A script as its statements: semicolons part them, unless in a string, a name or a comment."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from spark_incr.errors import IncrementalError, Position
from spark_incr.sql.tokens import position_at, tokenize


@dataclass(frozen=True)
class ScriptStatement:
    """One statement of a script, and where its text begins there."""

    text: str
    position: Position

    def in_script(self, position: Position) -> Position:
        """The place in the script of a place in this statement."""
        return position.after(self.position)


def split_statements(script: str) -> tuple[ScriptStatement, ...]:
    """The statements of a script, without the comments and semicolons between them.

    >>> [statement.text for statement in split_statements("SELECT ';'; -- one; two\\nSELECT 2")]
    ["SELECT ';'", 'SELECT 2']
    """
    statements: list[ScriptStatement] = []
    first: Token | None = None
    last: Token | None = None
    for token in [*tokenize(script), None]:
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            first, last = first or token, token
        elif first is not None and last is not None:
            text = script[first.start : last.end + 1]
            statements.append(ScriptStatement(text, position_at(script, first.start)))
            first = last = None
    return tuple(statements)


def is_complete(script: str) -> bool:
    """Whether the last statement of a script is closed by a semicolon, or there is none.

    >>> is_complete("SELECT 1;  -- done"), is_complete("SELECT ';"), is_complete("SELECT 1")
    (True, False, False)
    """
    if is_open(script):
        return False
    tokens = tokenize(script)
    return not tokens or tokens[-1].token_type is TokenType.SEMICOLON


def is_open(script: str) -> bool:
    """Whether a script ends inside of a string, a quoted name or a comment.

    >>> is_open("SELECT 'a"), is_open("SELECT 1 /* and"), is_open("SELECT 'a',")
    (True, True, False)
    """
    try:
        tokenize(script)
    except IncrementalError:
        return True
    return False
