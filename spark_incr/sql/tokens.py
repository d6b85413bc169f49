"""SQL text as tokens with their places, by sqlglot's tokenizer of the Spark dialect.

Text is never searched by pattern: a keyword inside a string, a quoted name or a comment is none.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from spark_incr.errors import Position, error


class _Tokenizer(Spark.Tokenizer):
    # Every word is a token of its own, also in SHOW and EXPLAIN, whose rest sqlglot takes as one
    # string, and in PRIMARY KEY, which it takes as one word.
    COMMANDS: ClassVar[set[TokenType]] = set()
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        keyword: kind for keyword, kind in Spark.Tokenizer.KEYWORDS.items() if " " not in keyword
    }


def tokenize(text: str) -> list[Token]:
    """The tokens of a text, without its comments.

    >>> [token.text for token in tokenize("SHOW `a b` -- why")]
    ['SHOW', 'a b']
    """
    tokenizer = _Tokenizer(dialect=Spark)
    try:
        return tokenizer.tokenize(text)
    except TokenError as failure:
        last = tokenizer.tokens[-1].end + 1 if tokenizer.tokens else 0
        place = skip_blanks(text, last)
        raise error(
            "INCR_SYNTAX",
            what=f"{text[place : place + 2].strip()} opens what is not closed",
            position=position_at(text, place),
        ) from failure


def position_at(text: str, offset: int) -> Position:
    """The line and column of an offset.

    >>> position_at("SELECT\\n  x", 9)
    Position(line=2, column=3)
    """
    return Position(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def skip_blanks(text: str, offset: int) -> int:
    """The first offset from here that is neither white space nor part of a comment."""
    while offset < len(text):
        if text[offset].isspace():
            offset += 1
        elif text.startswith("--", offset):
            end = text.find("\n", offset)
            offset = len(text) if end < 0 else end + 1
        elif text.startswith("/*", offset) and not text.startswith("/*+", offset):
            closed = _comment_end(text, offset)
            if closed is None:
                return offset
            offset = closed
        else:
            return offset
    return offset


def _comment_end(text: str, offset: int) -> int | None:
    """The offset behind a bracketed comment, which may hold others; None if it is not closed."""
    depth, offset = 1, offset + 2
    while True:
        closing = text.find("*/", offset)
        if closing < 0:
            return None
        opening = text.find("/*", offset, closing + 1)
        if opening >= 0:
            depth, offset = depth + 1, opening + 2
        else:
            depth, offset = depth - 1, closing + 2
            if depth == 0:
                return offset


def leading_words(text: str, count: int) -> list[str]:
    """Up to `count` plain words at the head of a text, in upper case, whatever follows them.

    >>> leading_words("/* dbt */ create Incremental view `v`", 6)
    ['CREATE', 'INCREMENTAL', 'VIEW']
    """
    words: list[str] = []
    offset = skip_blanks(text, 0)
    while len(words) < count:
        end = offset
        while end < len(text) and is_word(text[end]):
            end += 1
        if end == offset:
            break
        words.append(text[offset:end].upper())
        offset = skip_blanks(text, end)
    return words


def is_word(text: str) -> bool:
    """Whether a text can stand in SQL as a name without quotes, or as a part of one."""
    return text.isascii() and text.replace("_", "a").isalnum()


def is_keyword(word: str) -> bool:
    """Whether a word means something to the dialect when it stands without quotes."""
    return word.upper() in _Tokenizer.KEYWORDS
