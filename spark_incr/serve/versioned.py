"""Older versions and change feeds inside any query of Spark.

`v VERSION AS OF 3` and `incremental_changes('v', 2, 5)` are found among the tokens of a statement and
replaced by the name of a global temporary view that holds those rows; the rest of the text stays as it
is. Strings, comments and quoted names are other tokens, so nothing in them is taken for a version.
Global views are seen by every session of the application, and listed by SHOW TABLES of none.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyspark.sql.types as T
from pyspark.sql import SparkSession
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
_ENGINES = itertools.count()
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
    """Rows that a statement reads, and what they are called among those of one engine."""

    name: str
    schema: Schema
    rows: Callable[[], pa.Table]


class VersionedNames:
    """The views of older versions and feeds of one engine, the last few of them."""

    def __init__(self, spark: SparkSession, engine: Engine, relations: Relations) -> None:
        self._spark = spark
        self._engine = engine
        self._relations = relations
        self._shown: list[str] = []
        self._lock = threading.Lock()
        self._prefix = f"{_PREFIX}{next(_ENGINES)}_"
        self._database = str(spark.conf.get("spark.sql.globalTempDatabase"))

    def resolve(self, text: str) -> str:
        """The statement with names that Spark knows."""
        plain = folded(text)
        if FUNCTION not in plain and "version" not in plain:
            return text
        return versioned(self._engine, text, self._name)

    def forget(self) -> None:
        """Take all of them away; frames over them stay readable."""
        with self._lock:
            self._keep([])

    def _name(self, versioned: Versioned) -> str:
        name = self._prefix + versioned.name
        with self._lock:
            if name not in self._shown:
                frame = self._relations.frame(versioned.schema, versioned.rows())
                frame.createOrReplaceGlobalTempView(_back_quoted(name))
            self._keep([*(n for n in self._shown if n != name), name][-_KEPT:])
        return f"{quote(self._database)}.{_back_quoted(name)}"

    def _keep(self, names: list[str]) -> None:
        for name in set(self._shown) - set(names):
            self._spark.catalog.dropGlobalTempView(name)
        self._shown = names


def versioned(engine: Engine, text: str, name: Callable[[Versioned], str]) -> str:
    """The statement with names, as `name` gives them, in place of versions."""
    try:
        cursor = Cursor(text)
    except IncrementalError:
        return text
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
        named = name(rows) + ("" if _has_alias(cursor) else f" AS {quote(alias)}")
        pieces += [text[offset : first.start], named]
        offset = last.end + 1
    return "".join([*pieces, text[offset:]])


def _back_quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


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
    if last is not None and first > last:
        raise error("INCR_VERSIONS_REVERSED", first=first, last=last)
    rows = changes_between(engine.versions, relation.name, first, until)
    schema = (*relation.schema, *_FEED)
    view = f"{first}_{until}_of_{relation.name}"
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
    view = f"at_{version}_of_{relation.name}"
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
