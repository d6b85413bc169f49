"""The cursor of a DML statement: finds its query parts and cuts them out.

Law: what is cut is the statement's own text between two tokens, so nothing is lost in printing;
only parameters are put in other words: `?` becomes a named one, so that parts may be used in any
order. Where a `DEFAULT` stands for a whole value is told apart, for the column says what it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from spark_incr.errors import IncrementalError, Position, error
from spark_incr.sql.cursor import Cursor
from spark_incr.sql.names import name_parts

PARAMETER = "__incr_p"
VERBS = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "LOAD"})

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_QUOTED = {TokenType.IDENTIFIER, TokenType.STRING, TokenType.RAW_STRING}
_QUERIES = {"SELECT", "VALUES", "WITH", "FROM", "TABLE"}
_OPERANDS = {TokenType.VAR, TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE, TokenType.NULL}
_BEFORE_SUBQUERY = {"IN", "EXISTS", "AND", "OR", "NOT"}
_PARTICLES = {
    "INSERT": {"INTO": True, "OVERWRITE": True},
    "LOAD": {"INTO": True},
    "MERGE": {"INTO": True},
    "DELETE": {"FROM": True},
    "TRUNCATE": {"TABLE": True},
}


@dataclass(frozen=True)
class Name:
    """A dotted name: its parts without quotes, and how and where it is written."""

    parts: tuple[str, ...]
    sql: str
    position: Position


class Reader(Cursor):
    """A cursor that knows the frame of DML statements."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        marks = [t.start for t in self.tokens if t.token_type is TokenType.PLACEHOLDER]
        self._parameters = {start: f":{PARAMETER}{n}" for n, start in enumerate(marks)}

    def unsupported(self, what: str, hint: str | None = None) -> IncrementalError:
        place = self.position(self.peek())
        return error("INCR_STATEMENT_UNSUPPORTED", what=what, hint=hint, position=place)

    def type(self, ahead: int = 0) -> TokenType | None:
        token = self.peek(ahead) if self.index + ahead >= 0 else None
        return None if token is None else token.token_type

    def word(self, ahead: int = 0) -> str:
        """The unquoted token in capitals; empty for a quoted one and beyond the ends."""
        kind = self.type(ahead)
        return (
            "" if kind is None or kind in _QUOTED else self.tokens[self.index + ahead].text.upper()
        )

    def piece(self, start: int, stop: int) -> str:
        """The text of the tokens in [start, stop)."""
        if start >= stop:
            raise self.expected("an expression")
        parts, offset = [], self.tokens[start].start
        for token in self.tokens[start:stop]:
            substitute = self._parameters.get(token.start)
            if substitute is not None:
                parts += [self.text[offset : token.start], substitute]
                offset = token.end + 1
        parts.append(self.text[offset : self.tokens[stop - 1].end + 1])
        return "".join(parts)

    def qualified_name(self) -> Name:
        start, position = self.index, self.position(self.peek())
        parts = [self.identifier("a name")]
        while self.take("."):
            parts.append(self.identifier("the rest of the name"))
        return Name(tuple(parts), self.piece(start, self.index), position)

    def table(self) -> Name:
        """The name of a table, which may be written as `IDENTIFIER('name')`."""
        if not self.at_word("IDENTIFIER", "("):
            return self.qualified_name()
        start, position = self.index, self.position(self.peek())
        if self.type(2) is not TokenType.STRING or self.word(3) != ")":
            raise self.unsupported("IDENTIFIER of anything but a string as the table of a change")
        parts = name_parts(self.tokens[self.index + 2].text)
        self.index += 4
        return Name(parts, self.piece(start, self.index), position)

    def alias(self, *stops: str) -> str | None:
        if not self.take("AS") and (self.word() in stops or self.type() is None):
            return None
        return self.identifier("an alias")

    def group(self) -> str:
        """A parenthesised part, parentheses included."""
        start = self.index
        self._skip_group()
        return self.piece(start, self.index)

    def _skip_group(self) -> None:
        depth = 0
        while (kind := self.type()) is not None:
            depth += (kind in _OPENING) - (kind in _CLOSING)
            self.index += 1
            if depth == 0:
                return
        raise self.expected(")")

    def expression(self, *stops: str) -> str:
        """The text up to a comma, a closing parenthesis or a word of `stops` at this level."""
        start, cases = self.index, 0
        while (kind := self.type()) is not None:
            if kind in _OPENING:
                self._skip_group()
                continue
            if not cases and (kind in _CLOSING or kind is TokenType.COMMA):
                break
            if self.word(-1) != ".":
                if not cases and self.word() in stops:
                    break
                cases += (self.word() == "CASE") - (cases > 0 and self.word() == "END")
            self.index += 1
        return self.piece(start, self.index)

    def value(self, *stops: str) -> str | None:
        """An expression that is assigned; None for DEFAULT."""
        start = self.index
        written = self.expression(*stops)
        return None if self.index == start + 1 and self.word(-1) == "DEFAULT" else written

    def replaced_alias(self) -> str | None:
        """The alias that REPLACE USING and REPLACE ON may give their table."""
        forms = (("REPLACE", "USING"), ("REPLACE", "ON"), ("BY", "NAME", "REPLACE"))
        words = [self.word(ahead) for ahead in (1, 2, 3)]
        if self.word() != "AS" and not any(words[: len(form)] == list(form) for form in forms):
            return None
        return self.alias()

    def alias_behind_query(self) -> tuple[int, str] | None:
        """Where a query in parentheses ends that has an alias, and that alias."""
        if self.type() is not TokenType.L_PAREN:
            return None
        start = self.index
        self._skip_group()
        stop = self.index
        rest = len(self.tokens) - stop - self.take("AS")
        name = self.identifier("an alias") if rest == 1 else None
        self.index = start
        return None if name is None else (stop, name)

    def replaced(self) -> str:
        """The condition of REPLACE WHERE or ON: all up to the query that follows it at this level."""
        start = self.index
        while (kind := self.type()) is not None and not (
            self.index > start and self._begins_query()
        ):
            if kind in _OPENING:
                self._skip_group()
            else:
                self.index += 1
        return self.piece(start, self.index)

    def _begins_query(self) -> bool:
        """Whether a query stands here, and no operand as in `x = (SELECT ...)` or `f((SELECT ...))`."""
        ahead = 0
        while self.type(ahead) is TokenType.L_PAREN:
            ahead += 1
        if self.word(ahead) not in _QUERIES:
            return False
        before = self.type(-1)
        if ahead:
            last, here = self.tokens[self.index - 1 : self.index + 1]
            called = before is TokenType.VAR and last.end + 1 == here.start
            ended = before in _CLOSING or before in _OPERANDS or before in _QUOTED
            return ended and not called and self.word(-1) not in _BEFORE_SUBQUERY
        return self.word() != "FROM" or self.word(-1) != "DISTINCT"

    def context(self) -> str:
        """Skip the common table expressions before the verb and give them back."""
        start = self.index
        if not self.take("WITH"):
            return ""
        while self.type() is not None:
            if self.type() is TokenType.L_PAREN:
                self._skip_group()
                if self.word() not in ("AS", "(", ",", "MAX"):
                    return self.piece(start, self.index)
            else:
                self.index += 1
        raise self.expected("a statement")

    def target(self) -> Name | None:
        """The table of a statement of any verb, the cursor behind it; None if it names none."""
        if self.word() == "FROM":
            self.skip_to_insert()
        verb = self.word()
        if verb == "LOAD":
            while self.type() is not None and not self.at_word("INTO", "TABLE"):
                self.index += 1
        elif verb not in VERBS:
            return None
        else:
            self.index += 1
        if verb in ("INSERT", "MERGE"):
            self.take("WITH", "SCHEMA", "EVOLUTION")
        if verb in _PARTICLES:
            self.choose(_PARTICLES[verb])
        if verb == "INSERT" and self._directory():
            return None
        if verb in ("INSERT", "LOAD") and self.word() == "TABLE" and self.word(1) not in (".", "("):
            self.index += 1
        return self.table()

    def _directory(self) -> bool:
        ahead = 1 if self.word() == "LOCAL" else 0
        path = self.type(ahead + 1) is TokenType.STRING or self.word(ahead + 1) == "USING"
        return self.word(ahead) == "DIRECTORY" and path

    def at_insert(self) -> bool:
        return self.word() == "INSERT" and self.word(1) in ("INTO", "OVERWRITE")

    def skip_to_insert(self) -> None:
        while self.type() is not None:
            if self.at_insert():
                return
            if self.type() in _OPENING:
                self._skip_group()
            else:
                self.index += 1
        raise self.expected("INSERT")

    def refuse_stars(self) -> None:
        """`s.*` as an argument: the joined rows of MERGE hold more than the user's columns."""
        start = self.index
        while self.type() is not None:
            counted = self.word(-2) == "COUNT"
            argument = self.word(-1) in ("(", ",") and not counted
            if self.type() is TokenType.STAR and (self.word(-1) == "." or argument):
                raise self.unsupported("* as an argument in MERGE")
            self.index += 1
        self.index = start

    def defaults(self, start: int) -> dict[int, int]:
        """The tokens from `start` on that are a DEFAULT in place of a whole value, and the place of
        that value in its row.

        Such a value stands in a row of VALUES or in a list of SELECT.
        """
        found: dict[int, int] = {}
        levels, places, before = ["other"], [0], ""
        for index in range(start, len(self.tokens)):
            kind, word = self.tokens[index].token_type, self.word(index - self.index)
            if kind in _OPENING:
                row = levels[-1] == "values" and before in ("VALUES", ",")
                levels.append("row" if row else "other")
                places.append(0)
            elif kind in _CLOSING:
                levels.pop()
                places.pop()
            elif word in ("VALUES", "SELECT"):
                levels[-1], places[-1] = word.lower(), 0
            elif kind is TokenType.COMMA:
                places[-1] += levels[-1] != "values"
            elif word in ("FROM", "WHERE"):
                levels[-1] = "other"
            elif word == "DEFAULT" and levels[-1] != "other":
                after = self.word(index - self.index + 1)
                if before in ("VALUES", "SELECT", ",", "(") and after in (",", ")", "FROM", ""):
                    found[index] = places[-1]
            before = word
            if not levels:
                break
        return found
