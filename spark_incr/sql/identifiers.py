"""IDENTIFIER(...): a name that is said by a text, in the place of a relation, a column or a function.

It is read as if the name were written there. A string says itself; what an expression says has to be
known already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from spark_incr.errors import Position, error
from spark_incr.sql.written_names import Name, Place

_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)


def said_by_expressions(tokens: Sequence[Token]) -> list[Place]:
    """Where a text has IDENTIFIER of anything but a string; the expression is in its parentheses."""
    return [
        (tokens[first].start, tokens[last - 1].end + 1)
        for first, last in _calls(tokens)
        if not _is_string(tokens[first + 2 : last - 1])
    ]


def with_identifiers(
    tokens: Sequence[Token], names: Iterable[Name], tokenize: Callable[[str], list[Token]]
) -> list[Token]:
    """The tokens with names in the places of IDENTIFIER(...)."""
    said = {(start, stop): name for start, stop, name in names if name}
    result: list[Token] = []
    done = 0
    for first, last in _calls(tokens):
        call, operand = tokens[first], tokens[first + 2 : last - 1]
        name = operand[0].text if _is_string(operand) else None
        name = said.get((call.start, tokens[last - 1].end + 1), name)
        if name is None:
            raise error(
                "INCR_UNSUPPORTED",
                what="IDENTIFIER() of an expression that is not constant",
                hint="Write the name.",
                position=Position(call.line, call.col - (call.end - call.start)),
            )
        called = last < len(tokens) and tokens[last].token_type == TokenType.L_PAREN
        result += [*tokens[done:first], *_in_place_of(call, tokenize(name), called)]
        done = last
    return [*result, *tokens[done:]]


def _in_place_of(call: Token, parts: list[Token], called: bool) -> list[Token]:
    """The parts of a name where the call stands; that of a function stays the word that it is."""
    for part in parts:
        if part.token_type != TokenType.DOT and not called:
            part.token_type = TokenType.IDENTIFIER
        part.line, part.col, part.start, part.end = call.line, call.col, call.start, call.end
    return parts


def _calls(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """The first token of each IDENTIFIER(...), and the one behind its last."""
    for first, token in enumerate(tokens[:-1]):
        word = token.token_type not in _QUOTED and token.text.upper() == "IDENTIFIER"
        if not word or tokens[first + 1].token_type != TokenType.L_PAREN:
            continue
        depth, last = 1, first + 2
        while depth and last < len(tokens):
            kind = tokens[last].token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            last += 1
        yield first, last


def _is_string(operand: Sequence[Token]) -> bool:
    return [token.token_type for token in operand] == [TokenType.STRING]
