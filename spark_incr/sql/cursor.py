"""A place in the tokens of a statement, and the steps by which a parser moves it.

`take` steps over what is there or says that it is not; `expect` raises INCR_SYNTAX with the place
and with what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from sqlglot.tokenizer_core import Token, TokenType

from spark_incr.errors import IncrementalError, Position, error
from spark_incr.sql.names import is_reserved, join_name
from spark_incr.sql.tokens import is_word, position_at, tokenize

Item = TypeVar("Item")

_LITERALS = (TokenType.STRING, TokenType.RAW_STRING)


class Cursor:
    """The tokens of one statement, without the semicolons that close it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        while self.tokens and self.tokens[-1].token_type is TokenType.SEMICOLON:
            self.tokens.pop()
        self.index = 0

    def peek(self, ahead: int = 0) -> Token | None:
        place = self.index + ahead
        return self.tokens[place] if place < len(self.tokens) else None

    def at_word(self, *words: str) -> bool:
        """Whether these words, none of them quoted, come next."""
        tokens = [self.peek(ahead) for ahead in range(len(words))]
        return all(
            token is not None
            and token.token_type not in (TokenType.IDENTIFIER, *_LITERALS)
            and token.text.upper() == word
            for token, word in zip(tokens, words, strict=True)
        )

    def take(self, *words: str) -> bool:
        found = self.at_word(*words)
        if found:
            self.index += len(words)
        return found

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                raise self.expected(word)

    def choose(self, words: dict[str, Item]) -> Item:
        """The value of the word that comes next."""
        for word, value in words.items():
            if self.take(word):
                return value
        *others, last = words
        raise self.expected(f"{', '.join(others)} or {last}" if others else last)

    def expected(self, what: str) -> IncrementalError:
        token = self.peek()
        found = "the end of the statement" if token is None else self.slice(token, token)
        return self.refused(f"expected {what}, found {_shortened(found)}")

    def refused(self, what: str, token: Token | None = None) -> IncrementalError:
        return error("INCR_SYNTAX", what=what, position=self.position(token or self.peek()))

    def position(self, token: Token | None) -> Position:
        """The place of a token, or of the end."""
        if token is not None:
            return position_at(self.text, token.start)
        return position_at(self.text, self.tokens[-1].end + 1 if self.tokens else 0)

    def slice(self, first: Token, last: Token) -> str:
        return self.text[first.start : last.end + 1]

    def advance(self, what: str) -> Token:
        token = self.peek()
        if token is None:
            raise self.expected(what)
        self.index += 1
        return token

    def identifier(self, what: str, *, declared: bool = False) -> str:
        """A plain or back-quoted identifier; one that is declared must not be the engine's."""
        token = self.peek()
        if token is None or not _is_identifier(token):
            raise self.expected(what)
        if declared and is_reserved(token.text):
            raise error("INCR_RESERVED_NAME", name=token.text, position=self.position(token))
        self.index += 1
        return token.text

    def name(self, what: str, *, declared: bool = False) -> str:
        """A relation's name: identifiers joined by dots."""
        parts = [self.identifier(what, declared=declared)]
        while self.take("."):
            parts.append(self.identifier("the rest of the name", declared=declared))
        return join_name(parts)

    def string(self, what: str) -> str:
        """A string literal; as in Spark, literals in a row are one, and a doubled quote is a quote."""
        token = self.peek()
        if token is None or token.token_type not in _LITERALS:
            raise self.expected(what)
        value = ""
        previous: Token | None = None
        while token is not None and token.token_type in _LITERALS:
            if (
                previous is not None
                and token.start == previous.end + 1
                and self.text[token.start] == self.text[previous.end]
            ):
                value += self.text[token.start]
            value += token.text
            previous, self.index = token, self.index + 1
            token = self.peek()
        return value

    def number(self, what: str) -> int:
        token = self.peek()
        if token is None or token.token_type is not TokenType.NUMBER or not token.text.isdigit():
            raise self.expected(what)
        self.index += 1
        return int(token.text)

    def listed(self, parse: Callable[[], Item]) -> tuple[Item, ...]:
        """Items in parentheses, separated by commas."""
        return tuple(self._listed(parse))

    def _listed(self, parse: Callable[[], Item]) -> Iterator[Item]:
        self.expect("(")
        yield parse()
        while not self.take(")"):
            if not self.take(","):
                raise self.expected("a comma or )")
            yield parse()

    def finish(self) -> None:
        if self.peek() is not None:
            raise self.expected("the end of the statement")


def _is_identifier(token: Token) -> bool:
    if token.token_type is TokenType.IDENTIFIER:
        return bool(token.text)
    return (
        token.token_type not in (TokenType.NUMBER, *_LITERALS)
        and is_word(token.text)
        and not token.text.isdigit()
    )


def _shortened(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= 40 and line == text else f"{line[:37]}..."
