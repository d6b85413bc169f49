"""The clauses of CREATE and ALTER INCREMENTAL: columns, properties, policy, trigger, changes."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot.tokenizer_core import Token, TokenType

from spark_incr.errors import error
from spark_incr.sql.cursor import Cursor
from spark_incr.sql.statements import (
    ChangeKind,
    Changes,
    ColumnDefinition,
    ColumnName,
    Policy,
    Properties,
    Trigger,
    TriggerKind,
    Unit,
)

_POLICIES = {
    "INCREMENTAL": Policy.INCREMENTAL,
    "AUTO": Policy.AUTO,
    "FULL": Policy.FULL,
}
_UNITS = {word: unit for unit in Unit for word in (f"{unit.name}S", unit.name)}
_AFTER_TYPE = (
    *("NOT", "PRIMARY", "COMMENT", "DEFAULT"),
    *("GENERATED", "CHECK", "UNIQUE", "REFERENCES", "CONSTRAINT"),
)


class Clauses:
    """Clauses that may come in any order, each at most once."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.seen: set[str] = set()

    def begins(self, word: str) -> bool:
        """Step over the word that opens a clause, if it is there."""
        if not self.cursor.at_word(word):
            return False
        self.once(word)
        return self.cursor.take(word)

    def once(self, word: str) -> None:
        if word in self.seen:
            raise self.cursor.refused(f"{word} is stated twice")
        self.seen.add(word)


class Columns:
    """The columns declared so far; Spark compares their names without regard to case."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.names: dict[str, str] = {}

    def declare(self) -> str:
        token = self.cursor.peek()
        name = self.cursor.identifier("a column", declared=True)
        if name.lower() in self.names:
            position = self.cursor.position(token)
            hint = "Give each column a name of its own."
            raise error("INCR_DUPLICATE_COLUMN", name=name, position=position, hint=hint)
        self.names[name.lower()] = name
        return name


def column_names(cursor: Cursor) -> tuple[ColumnName, ...]:
    """`(name [COMMENT '...'], ...)`"""
    columns = Columns(cursor)
    return cursor.listed(lambda: ColumnName(columns.declare(), _optional_comment(cursor)))


def column_definitions(
    cursor: Cursor, *, defaults: bool
) -> tuple[tuple[ColumnDefinition, ...], tuple[str, ...]]:
    """`(name type [NOT NULL] [DEFAULT e] [PRIMARY KEY] [COMMENT '...'], ..., [PRIMARY KEY (name, ...)])`"""
    columns = Columns(cursor)
    definitions: list[ColumnDefinition] = []
    key: list[tuple[Token | None, str]] = []

    def primary_key() -> None:
        place = cursor.peek()
        cursor.expect("PRIMARY", "KEY")
        if key:
            raise cursor.refused("PRIMARY KEY is stated twice", place)

    def item() -> None:
        if cursor.at_word("PRIMARY", "KEY") or cursor.at_word("CONSTRAINT"):
            if cursor.take("CONSTRAINT"):
                cursor.identifier("the name of a constraint")
            primary_key()
            key.extend(cursor.listed(lambda: (cursor.peek(), cursor.identifier("a column"))))
            return
        name = columns.declare()
        place = cursor.position(cursor.peek())
        type_text = _written(cursor, "a type", ("(<", ")>"), _ends_type)
        options = Clauses(cursor)
        not_null, comment, default = False, None, None
        while not (cursor.at_word(",") or cursor.at_word(")")):
            if options.begins("NOT"):
                cursor.expect("NULL")
                not_null = True
            elif options.begins("COMMENT"):
                comment = cursor.string("a comment in quotes")
            elif defaults and options.begins("DEFAULT"):
                default = _written(cursor, "an expression", ("([", ")]"), _ends_default)
            elif cursor.at_word("PRIMARY"):
                token = cursor.peek()
                primary_key()
                key.append((token, name))
            else:
                known = "NOT NULL, DEFAULT, PRIMARY KEY" if defaults else "NOT NULL, PRIMARY KEY"
                raise cursor.expected(f"{known}, COMMENT, a comma or )")
        definitions.append(ColumnDefinition(name, type_text, not_null, comment, default, place))

    cursor.listed(item)
    if not definitions:
        raise cursor.expected("at least one column")
    primary: list[str] = []
    for token, name in key:
        declared = columns.names.get(name.lower())
        if declared is None:
            raise cursor.refused(f"the primary key names {name}, which is not a column", token)
        if declared in primary:
            position, hint = cursor.position(token), "Name each column of the key once."
            raise error("INCR_DUPLICATE_COLUMN", name=name, position=position, hint=hint)
        primary.append(declared)
    return tuple(definitions), tuple(primary)


def _written(
    cursor: Cursor, what: str, brackets: tuple[str, str], ends: Callable[[Cursor, Token], bool]
) -> str:
    """What stands here as it is written: all up to a comma, a ) or what `ends` it, told the token
    before, outside of its own brackets."""
    first = last = cursor.peek()
    depth, (opening, closing) = 0, brackets
    while (token := cursor.peek()) is not None and last is not None:
        if token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING):
            if depth == 0 and (token.text in (",", ")") or ends(cursor, last)):
                break
            depth += sum((sign in opening) - (sign in closing) for sign in token.text)
        last = token
        cursor.index += 1
    if first is None or last is None or cursor.peek() is first:
        raise cursor.expected(what)
    return cursor.slice(first, last)


def _ends_default(cursor: Cursor, before: Token) -> bool:
    """`NOT NULL` is an option of the column, `IS NOT NULL` part of its default."""
    return (
        (cursor.at_word("NOT", "NULL") and before.text.upper() != "IS")
        or cursor.at_word("PRIMARY", "KEY")
        or cursor.at_word("COMMENT")
        or cursor.at_word("DEFAULT")
    )


def _ends_type(cursor: Cursor, _: Token) -> bool:
    return any(cursor.at_word(word) for word in _AFTER_TYPE)


def _optional_comment(cursor: Cursor) -> str | None:
    return cursor.string("a comment in quotes") if cursor.take("COMMENT") else None


def property_list(cursor: Cursor) -> Properties:
    """`(key = value, key value, ...)`; a key is dotted or in quotes, a value is a literal."""
    seen: set[str] = set()

    def item() -> tuple[str, str]:
        token = cursor.peek()
        key = property_key(cursor)
        if key in seen:
            raise cursor.refused(f"the key {key} is stated twice", token)
        seen.add(key)
        cursor.take("=")
        return key, _literal(cursor)

    return cursor.listed(item)


def property_key(cursor: Cursor) -> str:
    """A key, dotted or in quotes."""
    token = cursor.peek()
    if token is not None and token.token_type is TokenType.STRING:
        return cursor.string("a key")
    key = cursor.identifier("a key")
    while cursor.take("."):
        key += "." + cursor.identifier("the rest of the key")
    return key


def _literal(cursor: Cursor) -> str:
    for word in ("TRUE", "FALSE"):
        if cursor.take(word):
            return word.lower()
    sign = "-" if cursor.take("-") else ""
    token = cursor.peek()
    if token is not None and token.token_type is TokenType.NUMBER:
        cursor.index += 1
        return sign + token.text
    if sign:
        raise cursor.expected("a number")
    return cursor.string("a string, a number, TRUE or FALSE")


def policy_clause(cursor: Cursor) -> Policy:
    """`POLICY {INCREMENTAL [STRICT] | AUTO | FULL}`"""
    cursor.expect("POLICY")
    policy = cursor.choose(_POLICIES)
    if policy is Policy.INCREMENTAL and cursor.take("STRICT"):
        return Policy.INCREMENTAL_STRICT
    return policy


def at_trigger(cursor: Cursor) -> bool:
    return any(cursor.at_word(word) for word in ("TRIGGER", "SCHEDULE", "MANUAL"))


def trigger_clause(cursor: Cursor) -> Trigger:
    """`[TRIGGER] {ON UPDATE | SCHEDULE EVERY n unit | MANUAL}`"""
    cursor.take("TRIGGER")
    if cursor.take("MANUAL"):
        return Trigger(TriggerKind.MANUAL)
    if cursor.take("ON"):
        cursor.expect("UPDATE")
        return Trigger()
    if not cursor.take("SCHEDULE"):
        raise cursor.expected("ON UPDATE, SCHEDULE or MANUAL")
    cursor.expect("EVERY")
    place = cursor.peek()
    every = cursor.number("a whole number")
    if every == 0:
        raise cursor.refused("a schedule needs a positive number", place)
    return Trigger(TriggerKind.SCHEDULE, every, cursor.choose(_UNITS))


def change_clause(cursor: Cursor) -> Changes:
    """How a stream tells deletes, in parentheses.

    `OP column, DELETE WHEN 'd' [OR 'x' ...]`, `WEIGHT column`, `DELETES FROM 'path'`,
    `CHANGE FEED`, or `DEBEZIUM [FLATTENED]`.
    """
    cursor.expect("(")
    if cursor.take("OP"):
        column = cursor.identifier("a column")
        cursor.expect(",", "DELETE", "WHEN")
        values = [cursor.string("a value in quotes")]
        while cursor.take("OR"):
            values.append(cursor.string("a value in quotes"))
        changes = Changes(ChangeKind.OPERATION, column, tuple(values))
    elif cursor.take("WEIGHT"):
        changes = Changes(ChangeKind.WEIGHT, cursor.identifier("a column"))
    elif cursor.take("DELETES"):
        cursor.expect("FROM")
        changes = Changes(ChangeKind.DELETES, deletes_path=cursor.string("a path in quotes"))
    elif cursor.take("CHANGE"):
        cursor.expect("FEED")
        changes = Changes(ChangeKind.FEED)
    elif cursor.take("DEBEZIUM"):
        flattened = cursor.take("FLATTENED")
        kind = ChangeKind.DEBEZIUM_FLATTENED if flattened else ChangeKind.DEBEZIUM
        changes = Changes(kind)
    else:
        raise cursor.expected("OP, WEIGHT, DELETES FROM, CHANGE FEED or DEBEZIUM")
    cursor.expect(")")
    return changes
