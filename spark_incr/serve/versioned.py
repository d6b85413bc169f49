"""Older versions and change feeds inside any query of Spark.

`v VERSION AS OF 3` and `incremental_changes('v', 2, 5)` are found among the tokens of a statement and
replaced by the name of a temporary view that holds those rows; the rest of the text stays as it is.
Strings, comments and quoted names are other tokens, so nothing in them is taken for a version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyspark.sql.types as T
from sqlglot.tokenizer_core import Token, TokenType

from spark_incr.engine import Engine
from spark_incr.errors import IncrementalError, error
from spark_incr.feed import changes_between, rows_as_of
from spark_incr.plan.scope import folded
from spark_incr.plan.types import Field, Schema
from spark_incr.relation import Relation
from spark_incr.serve.relations import Relations
from spark_incr.sql.cursor import Cursor
from spark_incr.sql.names import quote
from spark_incr.sql.tokens import is_word, position_at

FUNCTION = "incremental_changes"
_PREFIX = "__incr_rows_"
_KEPT = 32  # a DataFrame over one that is given up stays readable
_AFTER_RELATION = frozenset(
    """WHERE GROUP HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET UNION EXCEPT MINUS INTERSECT JOIN INNER
    LEFT RIGHT FULL OUTER CROSS NATURAL SEMI ANTI ON USING LATERAL PIVOT UNPIVOT TABLESAMPLE WINDOW SELECT
    SET WHEN INSERT""".split()
)
_FEED: Schema = (
    Field("_change_type", T.StringType()),
    Field("_commit_version", T.LongType()),
    Field("_commit_timestamp", T.TimestampType()),
)


@dataclass(frozen=True)
class Versioned:
    """Rows that a statement reads: the temporary view to make of them."""

    name: str
    schema: Schema
    rows: Callable[[], pa.Table]


class VersionedNames:
    """The temporary views of older versions and feeds in one session, the last few of them."""

    def __init__(self, engine: Engine, relations: Relations) -> None:
        self._engine = engine
        self._relations = relations
        self._names: list[str] = []

    def resolve(self, text: str) -> str:
        """The statement with names that Spark knows."""
        plain = folded(text)
        if FUNCTION not in plain and "version" not in plain:
            return text
        resolved, found = versioned(self._engine, text)
        for rows in found:
            self._relations.declare(rows.name, rows.schema, lambda: 0, rows.rows)
            self._names = [*(name for name in self._names if name != rows.name), rows.name]
        self._relations.refresh([rows.name for rows in found])
        for name in self._names[:-_KEPT]:
            self._relations.forget(name)
        self._names = self._names[-_KEPT:]
        return resolved


def versioned(engine: Engine, text: str) -> tuple[str, list[Versioned]]:
    """The statement with names in place of versions, and what these names stand for."""
    try:
        cursor = Cursor(text)
    except IncrementalError:
        return text, []
    found: list[Versioned] = []
    pieces, offset = [], 0
    while cursor.peek() is not None:
        first = cursor.peek()
        assert first is not None
        item = _changes(engine, cursor) or _as_of(engine, cursor)
        if item is None:
            cursor.index += 1
            continue
        rows, alias = item
        last = cursor.tokens[cursor.index - 1]
        named = quote(rows.name) + ("" if _has_alias(cursor) else f" AS {quote(alias)}")
        pieces += [text[offset : first.start], named]
        offset = last.end + 1
        found.append(rows)
    return "".join([*pieces, text[offset:]]), found


def _has_alias(cursor: Cursor) -> bool:
    token = cursor.peek()
    if token is None or token.token_type in (TokenType.COMMA, TokenType.R_PAREN):
        return False
    if token.token_type is TokenType.IDENTIFIER:
        return True
    return is_word(token.text) and token.text.upper() not in _AFTER_RELATION


def _changes(engine: Engine, cursor: Cursor) -> tuple[Versioned, str] | None:
    """`incremental_changes('view', from [, to])`"""
    token = cursor.peek()
    if token is None or token.token_type is TokenType.IDENTIFIER or folded(token.text) != FUNCTION:
        return None
    if not cursor.at_word(token.text.upper(), "("):
        return None
    cursor.index += 2
    name = cursor.string("the name of a view in quotes")
    cursor.expect(",")
    first = cursor.number("the first version")
    last = cursor.number("the last version") if cursor.take(",") else None
    cursor.expect(")")
    relation = engine.relation_named(name, "view")
    until = engine.version if last is None else last
    versions = engine.versions
    rows = changes_between(versions, relation.name, first, until)
    schema = (*relation.schema, *_FEED)
    view = f"{_PREFIX}{first}_{until}_of_{relation.name}"
    return Versioned(view, schema, lambda: rows), FUNCTION


def _as_of(engine: Engine, cursor: Cursor) -> tuple[Versioned, str] | None:
    """`name [FOR] [SYSTEM_]VERSION AS OF n`, of a relation of the engine"""
    start = cursor.index
    relation, alias = _relation(engine, cursor)
    if relation is None:
        cursor.index = start
        return None
    cursor.take("FOR")
    if not (cursor.take("VERSION") or cursor.take("SYSTEM_VERSION")) or not cursor.take("AS", "OF"):
        cursor.index = start
        return None
    version = _version(cursor)
    rows = rows_as_of(engine.versions, relation, version)
    view = f"{_PREFIX}at_{version}_of_{relation.name}"
    return Versioned(view, relation.schema, lambda: rows), alias


def _relation(engine: Engine, cursor: Cursor) -> tuple[Relation | None, str]:
    token = cursor.peek()
    if token is None or token.token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
        return None, ""
    if cursor.index and cursor.tokens[cursor.index - 1].text == ".":
        return None, ""
    try:
        name = cursor.name("a relation")
    except IncrementalError:  # `t.*` is no name
        return None, ""
    return engine.find(name), token.text


def _version(cursor: Cursor) -> int:
    token: Token | None = cursor.peek()
    if token is not None and token.token_type is TokenType.STRING and token.text.isdigit():
        cursor.index += 1
        return int(token.text)
    if token is None or token.token_type is not TokenType.NUMBER:
        place = position_at(cursor.text, token.start if token else len(cursor.text))
        raise error("INCR_SYNTAX", what="expected the number of a version", position=place)
    return cursor.number("the number of a version")
