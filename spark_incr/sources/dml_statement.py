"""DML statements as data: what is changed, and the query parts as text of their own.

Law: only the frame of a statement is read here, never an expression: Spark judges those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sqlglot.tokenizer_core import TokenType

from spark_incr.errors import IncrementalError, error
from spark_incr.sources.dml_reader import VERBS, Name, Reader
from spark_incr.sql.names import join_name
from spark_incr.sql.tokens import leading_words

# A header longer than this is read from the whole text; most statements never need that.
_HEADER_LENGTH = 2000
_WITHOUT_PARTITIONS = (
    "A table has no partitions; INSERT INTO ... REPLACE WHERE replaces a part of it."
)
_WITHOUT_EVOLUTION = "The columns are those of CREATE; list the ones that are given."
_REFUSED_INSERTS = {
    ("PARTITION", "("): ("PARTITION", _WITHOUT_PARTITIONS),
    ("IF", "NOT", "EXISTS"): ("IF NOT EXISTS", _WITHOUT_PARTITIONS),
    ("WITH", "("): ("WITH (options)", "A table takes no options."),
}


@dataclass(frozen=True)
class Assignment:
    """`column = value`, of UPDATE and of both kinds of MERGE clauses that give values.

    None stands for DEFAULT.
    """

    column: Name
    value: str | None


@dataclass(frozen=True)
class Insert:
    table: Name
    context: str
    """The common table expressions before the verb; every query of the statement sees them."""
    alias: str | None
    overwrite: bool
    replaced: str | None
    """The condition of REPLACE WHERE."""
    using: tuple[Name, ...]
    """The columns of REPLACE USING."""
    matched: str | None
    """The condition of REPLACE ON, over the rows of the table and those of the query."""
    columns: tuple[Name, ...] | None
    by_name: bool
    query: str
    query_alias: str | None
    pieces: tuple[str | int, ...]
    """The query in pieces: text, and for each DEFAULT that stands for a whole value its place."""


@dataclass(frozen=True)
class Update:
    table: Name
    context: str
    alias: str | None
    assignments: tuple[Assignment, ...]
    where: str | None


@dataclass(frozen=True)
class Delete:
    table: Name
    context: str
    alias: str | None
    where: str | None


@dataclass(frozen=True)
class Truncate:
    table: Name


class Match(Enum):
    """Which rows a clause of MERGE looks at."""

    MATCHED = "MATCHED"
    NOT_MATCHED = "NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "NOT MATCHED BY SOURCE"


class Action(Enum):
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"


@dataclass(frozen=True)
class Clause:
    """One WHEN of MERGE; `assignments` is None for `SET *` and `INSERT *`, empty for DELETE."""

    match: Match
    condition: str | None
    action: Action
    assignments: tuple[Assignment, ...] | None


@dataclass(frozen=True)
class Merge:
    table: Name
    context: str
    alias: str | None
    source: str
    source_alias: str | None
    condition: str
    clauses: tuple[Clause, ...]


Statement = Insert | Update | Delete | Truncate | Merge


def target_of(text: str) -> str | None:
    """The table that a DML statement would change, None for any other text.

    >>> target_of("-- dbt\\nINSERT INTO shop.`my orders` SELECT 1"), target_of("SELECT 1")
    ('shop.my orders', None)
    """
    verb = "".join(leading_words(text, 1))
    if verb not in VERBS | {"WITH", "FROM"}:
        return None
    if verb in VERBS and len(text) > _HEADER_LENGTH:
        # The last token may be cut, and so may be the name it belongs to.
        name = _table_name(text[:_HEADER_LENGTH], spare_tokens=4)
        if name is not None:
            return name
    return _table_name(text, spare_tokens=0)


def parse_dml(text: str) -> Statement:
    """Read a DML statement; INCR_STATEMENT_UNSUPPORTED for a form that has no meaning on our tables."""
    reader = Reader(text)
    context = reader.context()
    verb = reader.word()
    if verb in ("FROM", "INSERT"):
        return _insert(reader, context)
    if verb == "UPDATE":
        return _update(reader, context)
    if verb == "DELETE":
        return _delete(reader, context)
    if verb == "MERGE":
        return _merge(reader, context)
    if verb == "TRUNCATE":
        return _truncate(reader)
    if verb == "LOAD":
        hint = (
            "INSERT INTO ... SELECT reads files, and CREATE INCREMENTAL SOURCE follows a directory."
        )
        raise reader.unsupported("LOAD DATA", hint)
    raise reader.expected("INSERT, UPDATE, DELETE, MERGE or TRUNCATE")


def _table_name(text: str, spare_tokens: int) -> str | None:
    try:
        reader = Reader(text)
        reader.context()
        name = reader.target()
    except IncrementalError:
        return None
    if name is None or reader.index + spare_tokens > len(reader.tokens):
        return None
    return join_name(name.parts)


def _insert(reader: Reader, context: str) -> Insert:
    source = ""
    if reader.word() == "FROM":
        start = reader.index
        reader.skip_to_insert()
        source = reader.piece(start, reader.index) + "\n"
    if reader.word(1) == "WITH":
        raise reader.unsupported("INSERT WITH SCHEMA EVOLUTION", _WITHOUT_EVOLUTION)
    overwrite = reader.word(1) == "OVERWRITE"
    table = reader.target()
    if table is None:
        raise reader.unsupported("INSERT OVERWRITE DIRECTORY")
    alias = reader.replaced_alias()
    for words, (form, hint) in _REFUSED_INSERTS.items():
        if reader.at_word(*words):
            raise reader.unsupported(f"INSERT ... {form}", hint)
    by_name = reader.take("BY", "NAME")
    columns = None if by_name else _column_list(reader)
    replaced = reader.replaced() if reader.take("REPLACE", "WHERE") else None
    using = reader.listed(reader.qualified_name) if reader.take("REPLACE", "USING") else ()
    matched = reader.replaced() if reader.take("REPLACE", "ON") else None
    start, stop = reader.index, len(reader.tokens)
    query_alias = None
    if matched is not None and (found := reader.alias_behind_query()):
        stop, query_alias = found
    while source and reader.type() is not None:
        if reader.at_insert():
            raise reader.unsupported("FROM ... with several INSERTs", "Write one INSERT for each.")
        reader.index += 1
    query = source + reader.piece(start, stop)
    pieces = (source, *_pieces(reader, start, stop))
    return Insert(
        table,
        context,
        alias,
        overwrite,
        replaced,
        using,
        matched,
        columns,
        by_name,
        query,
        query_alias,
        pieces,
    )


def _pieces(reader: Reader, start: int, stop: int) -> Iterator[str | int]:
    for index, place in reader.defaults(start).items():
        if index > start:
            yield reader.piece(start, index) + " "
        yield place
        start = index + 1
    if start < stop:
        yield " " + reader.piece(start, stop)


def _column_list(reader: Reader) -> tuple[Name, ...] | None:
    """`(a, b)` and not `(SELECT ...)` or `(TABLE t)`: names and commas only."""
    if reader.type() is not TokenType.L_PAREN:
        return None
    start = reader.index
    try:
        names = reader.listed(reader.qualified_name)
    except IncrementalError:
        reader.index = start
        return None
    return names


def _assignments(reader: Reader, *stops: str) -> tuple[Assignment, ...]:
    found = []
    while True:
        column = reader.qualified_name()
        if not reader.take("=") and not reader.take("=="):
            raise reader.expected("=")
        found.append(Assignment(column, reader.value(*stops)))
        if not reader.take(","):
            return tuple(found)


def _where(reader: Reader) -> str | None:
    where = reader.expression() if reader.take("WHERE") else None
    reader.finish()
    return where


def _table(reader: Reader) -> Name:
    table = reader.target()
    if table is None:
        raise reader.expected("a table")
    return table


def _update(reader: Reader, context: str) -> Update:
    table = _table(reader)
    alias = reader.alias("SET")
    reader.expect("SET")
    assignments = _assignments(reader, "WHERE")
    return Update(table, context, alias, assignments, _where(reader))


def _delete(reader: Reader, context: str) -> Delete:
    table = _table(reader)
    return Delete(table, context, reader.alias("WHERE"), _where(reader))


def _truncate(reader: Reader) -> Truncate:
    table = _table(reader)
    if reader.word() == "PARTITION":
        raise reader.unsupported("TRUNCATE TABLE ... PARTITION", "DELETE FROM ... WHERE does it.")
    reader.finish()
    return Truncate(table)


def _merge(reader: Reader, context: str) -> Merge:
    if reader.word(1) == "WITH":
        raise reader.unsupported("MERGE WITH SCHEMA EVOLUTION", _WITHOUT_EVOLUTION)
    table = _table(reader)
    alias = reader.alias("USING")
    reader.expect("USING")
    if reader.type() is TokenType.L_PAREN:
        source, last = reader.group(), None
    else:
        name = reader.table()
        source, last = name.sql, name.parts[-1]
    source_alias = reader.alias("ON") or last
    reader.expect("ON")
    reader.refuse_stars()
    condition = reader.expression("WHEN")
    clauses = []
    while reader.take("WHEN"):
        clauses.append(_clause(reader))
    reader.finish()
    return Merge(table, context, alias, source, source_alias, condition, tuple(clauses))


def _clause(reader: Reader) -> Clause:
    match = Match.MATCHED
    if reader.take("NOT") or reader.take("!"):
        match = Match.NOT_MATCHED
    reader.expect("MATCHED")
    if match is Match.NOT_MATCHED and reader.take("BY", "SOURCE"):
        match = Match.NOT_MATCHED_BY_SOURCE
    elif match is Match.NOT_MATCHED:
        reader.take("BY", "TARGET")
    condition = reader.expression("THEN") if reader.take("AND") else None
    reader.expect("THEN")
    if match is Match.NOT_MATCHED:
        reader.expect("INSERT")
        return Clause(match, condition, Action.INSERT, _inserted(reader))
    if reader.take("DELETE"):
        return Clause(match, condition, Action.DELETE, ())
    reader.expect("UPDATE", "SET")
    if match is Match.MATCHED and reader.take("*"):
        return Clause(match, condition, Action.UPDATE, None)
    return Clause(match, condition, Action.UPDATE, _assignments(reader, "WHEN"))


def _inserted(reader: Reader) -> tuple[Assignment, ...] | None:
    if reader.take("*"):
        return None
    position = reader.position(reader.peek())
    columns = reader.listed(reader.qualified_name)
    reader.expect("VALUES", "(")
    values = [reader.value()]
    while reader.take(","):
        values.append(reader.value())
    reader.expect(")")
    if len(values) != len(columns):
        raise error(
            "INCR_COLUMN_COUNT", position=position, expected=len(columns), actual=len(values)
        )
    return tuple(Assignment(c, v) for c, v in zip(columns, values, strict=True))
