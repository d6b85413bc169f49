"""Names of relations and columns, and how SQL quotes them.

A relation's name is one text: its parts joined by dots. A part that itself holds a dot or a back
quote keeps its quotes in it, so that different names are different texts and parts can be told:
`` `my table` `` is the name *my table*, `` `a.b`.c `` is the name *`a.b`.c*.
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_incr.sql.tokens import is_keyword, is_word

RESERVED_PREFIX = "__incr_"


def join_name(parts: Iterable[str]) -> str:
    """The name made of these parts.

    >>> join_name(["shop", "orders"]), join_name(["a.b", "c"])
    ('shop.orders', '`a.b`.c')
    """
    return ".".join(_quoted(part) if "." in part or "`" in part else part for part in parts)


def name_parts(name: str) -> tuple[str, ...]:
    """The parts of a name, without quotes.

    >>> name_parts("`a.b`.c")
    ('a.b', 'c')
    """
    parts, rest = [], name
    while True:
        if rest.startswith("`"):
            end = 1
            while end < len(rest) and (rest[end] != "`" or rest.startswith("``", end)):
                end += 2 if rest[end] == "`" else 1
            parts.append(rest[1:end].replace("``", "`"))
            rest = rest[end + 1 :]
        else:
            part, dot, tail = rest.partition(".")
            parts.append(part)
            rest = dot + tail
        if not rest:
            return tuple(parts)
        rest = rest[1:]


def without_default(name: str) -> str:
    """A name of Spark's own catalog without the parts that it has when nothing is said.

    >>> without_default("spark_catalog.Default.orders"), without_default("shop.orders")
    ('orders', 'shop.orders')
    """
    parts = name_parts(name)
    if len(parts) == 3 and parts[0].lower() == "spark_catalog":
        parts = parts[1:]
    if len(parts) == 2 and parts[0].lower() == "default":
        parts = parts[1:]
    return join_name(parts)


def quote_name(name: str) -> str:
    """A relation's name as SQL, quoted part by part where it must be.

    >>> quote_name("orders"), quote_name("my table"), quote_name("`a.b`.c")
    ('orders', '`my table`', '`a.b`.c')
    """
    return ".".join(quote(part) for part in name_parts(name))


def quote(identifier: str) -> str:
    """A single identifier as SQL.

    >>> quote("id"), quote("a`b"), quote("10"), quote("from")
    ('id', '`a``b`', '`10`', '`from`')
    """
    plain = is_word(identifier) and not identifier[0].isdigit() and not is_keyword(identifier)
    return identifier if plain else _quoted(identifier)


def quote_string(value: str) -> str:
    r"""A text as a string literal.

    >>> print(quote_string("it's a \\"))
    'it\'s a \\'
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def is_reserved(identifier: str) -> bool:
    """Whether an identifier belongs to the engine."""
    return identifier.lower().startswith(RESERVED_PREFIX)


def _quoted(identifier: str) -> str:
    return "`" + identifier.replace("`", "``") + "`"
