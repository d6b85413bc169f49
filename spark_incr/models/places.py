"""Where the text that a template renders stands in the file of the template.

Law: a place is told only if it is certain. Literal texts and expressions of a template are marked and it is
rendered once more; the marks count if, without them, the text is the same as before.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from jinja2 import Environment

from spark_incr.errors import Position
from spark_incr.sql.tokens import position_at

# Signs that no file has: what follows is literal text of this offset, or was made at this offset.
_LITERAL, _MADE, _END = "\ue000", "\ue001", "\ue002"
_MARK = re.compile(f"([{_LITERAL}{_MADE}])(\\d+){_END}")


@dataclass(frozen=True)
class _Piece:
    """Text that begins at an offset of what is rendered, and where in the file it is from."""

    start: int
    offset: int
    literal: bool


@dataclass(frozen=True)
class Places:
    """The pieces that a rendered text consists of."""

    source: str
    pieces: tuple[_Piece, ...]

    def in_file(self, offset: int) -> Position:
        """The place in the file: of the sign itself, or of the expression that made it."""
        found = self.pieces[bisect_right([piece.start for piece in self.pieces], offset) - 1]
        within = offset - found.start if found.literal else 0
        return position_at(self.source, found.offset + within)


def find_places(
    source: str, rendered: str, environment: Environment, render: Callable[[str], str]
) -> Places | None:
    """Where a rendered text is from, None if that is not certain.

    >>> made = Environment()
    >>> source = "SELECT {% for c in 'ab' %}\\n  {{ c }},{% endfor %}\\n  1"
    >>> render = lambda text: made.from_string(text).render()
    >>> text = render(source)
    >>> places = find_places(source, text, made, render)
    >>> places.in_file(text.index("b")), places.in_file(text.index("1"))
    (Position(line=2, column=3), Position(line=3, column=3))
    """
    marked = _marked(source, environment)
    if marked is None:
        return None
    try:
        found = render(marked)
    except Exception:
        return None  # the template does more with its literal texts than to write them
    if _MARK.sub("", found) != rendered:
        return None
    pieces = [_Piece(0, 0, False)]
    removed = 0
    for mark in _MARK.finditer(found):
        pieces.append(_Piece(mark.start() - removed, int(mark[2]), mark[1] == _LITERAL))
        removed += len(mark[0])
    return Places(source, tuple(pieces))


def _marked(source: str, environment: Environment) -> str | None:
    """The template with a mark before and after each literal text, and before each expression."""
    if any(sign in source for sign in (_LITERAL, _MADE, _END)):
        return None
    parts, cursor = [], 0
    for _, kind, value in environment.lex(source):
        start = source.find(value, cursor)
        # White space that the template strips stands in no token.
        if start < 0 or source[cursor:start].strip():
            return None
        end = start + len(value)
        made = f"{_MADE}{start}{_END}" if kind == "variable_begin" else ""
        parts += [made, source[cursor:start]]
        literal = f"{_LITERAL}{start}{_END}{value}{_MADE}{end}{_END}"
        parts.append(literal if kind == "data" else value)
        cursor = end
    return "".join([*parts, source[cursor:]])
