"""Names that are words of the dialect, told by who knows where a text has names.

Spark reserves next to nothing: `SELECT a AS select FROM t AS order` has two names in it that sqlglot
takes for clauses. Where the names of a text are known, each is read under a name that means nothing
to anybody, and has its own again in the tree.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

Place = tuple[int, int]
"""From one character to before another."""

Name = tuple[int, int, str]
"""A place that is a name, and which one: that of IDENTIFIER(...); empty if it stands there itself."""

NAMES = "NAMES IN "
"""What a view remembers of a text under these words: the places of its names, as JSON."""

_PREFIX = "__incr_name_"
# GROUP BY ALL and ORDER BY ALL mean a name where a column has it, which the plan finds out.
_BEFORE_ALL = (TokenType.GROUP_BY, TokenType.ORDER_BY)


def known_names(text: str, memory: Mapping[str, str]) -> tuple[Name, ...]:
    """The places that are remembered to be names; none of a text that is read well without."""
    remembered = json.loads(memory.get(NAMES + text, "[]"))
    return tuple((start, stop, "".join(said)) for start, stop, *said in remembered)


def hide_names(tokens: Sequence[Token], names: Iterable[Name]) -> None:
    """Let the tokens at these places, as far as they are single words, be plain names."""
    places = {(start, stop) for start, stop, said in names if not said}
    for before, token in pairwise([None, *tokens]):
        assert token is not None
        if token.token_type == TokenType.IDENTIFIER:
            continue
        if before is not None and before.token_type in _BEFORE_ALL and token.text.upper() == "ALL":
            continue
        if (token.start, token.end + 1) in places:
            token.token_type = TokenType.IDENTIFIER
            token.text = _PREFIX + token.text


def show_names(tree: exp.Expr) -> None:
    """Give the names in a tree back what they are called."""
    for node in tree.walk():
        for key, value in node.args.items():
            if isinstance(value, str) and value.startswith(_PREFIX):
                node.set(key, value.removeprefix(_PREFIX))
