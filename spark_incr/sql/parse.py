"""From text to an INCREMENTAL statement.

A statement is recognised by its first words alone, so any other SQL, also SQL that nobody can
parse, costs a glance and is left to Spark. What is recognised is read to its end, or refused with
the place and with what was expected there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import TokenType

from spark_incr.sql.clauses import (
    Clauses,
    at_trigger,
    change_clause,
    column_definitions,
    column_names,
    policy_clause,
    property_list,
    trigger_clause,
)
from spark_incr.sql.cursor import Cursor
from spark_incr.sql.statements import (
    Action,
    AlterView,
    Changes,
    ColumnDefinition,
    ColumnName,
    Create,
    CreateSource,
    CreateTable,
    CreateView,
    Describe,
    DescribeHistory,
    Drop,
    Explain,
    ExplainCreate,
    ExplainMode,
    Kind,
    OnError,
    Policy,
    Properties,
    Refresh,
    RenameTo,
    Resume,
    SetPolicy,
    SetProperties,
    SetTrigger,
    ShowCreate,
    ShowSources,
    ShowTables,
    ShowViews,
    Statement,
    Suspend,
    Trigger,
)
from spark_incr.sql.tokens import leading_words

_KINDS = {kind.value: kind for kind in Kind}
_SHOWS: dict[str, Callable[[str | None], ShowViews | ShowTables | ShowSources]] = {
    "VIEWS": ShowViews,
    "TABLES": ShowTables,
    "SOURCES": ShowSources,
}
_EXTENDED = ("EXTENDED", "FORMATTED")


def parse_statement(text: str) -> Statement | None:
    """The INCREMENTAL statement that a text holds, None if it holds another one.

    >>> parse_statement("DROP INCREMENTAL VIEW IF EXISTS `my view`;")
    Drop(kind=<Kind.VIEW: 'VIEW'>, name='my view', if_exists=True, cascade=False)
    >>> parse_statement("DROP VIEW v") is None
    True
    """
    if not is_incremental(leading_words(text, 6)):
        return None
    cursor = Cursor(text)
    statement = _statement(cursor)
    cursor.finish()
    return statement


def is_incremental(words: Sequence[str]) -> bool:
    """Whether a statement with these first words is one of ours.

    REFRESH and DESCRIBE of a table that is called `incremental` are Spark's.
    """
    verb, *rest = words or ("",)
    if verb == "EXPLAIN":
        if rest[:1] in (["SQL"], ["EXTENDED"]):
            rest = rest[1:]
        return rest[:1] == ["INCREMENTAL"] or (rest[:1] == ["CREATE"] and is_incremental(rest))
    if verb == "CREATE":
        return rest[:1] == ["INCREMENTAL"] or rest[:3] == ["OR", "REPLACE", "INCREMENTAL"]
    if verb == "SHOW" and rest[:1] == ["CREATE"]:
        return rest[1:2] == ["INCREMENTAL"]
    if verb in ("DESCRIBE", "DESC") and rest[:1] and rest[0] in ("HISTORY", *_EXTENDED):
        rest = rest[1:]
    if verb in ("REFRESH", "DESCRIBE", "DESC"):
        return rest[:1] == ["INCREMENTAL"] and rest[1:2] != [] and rest[1] in _KINDS
    return verb in ("DROP", "ALTER", "SHOW") and rest[:1] == ["INCREMENTAL"]


def _statement(cursor: Cursor) -> Statement:
    if cursor.at_word("CREATE"):
        return _create(cursor)
    verb = cursor.advance("a statement").text.upper()
    if verb == "DROP":
        return _drop(cursor)
    if verb == "REFRESH":
        cursor.expect("INCREMENTAL")
        kind = cursor.choose({kind.value: kind for kind in (Kind.VIEW, Kind.SOURCE)})
        return Refresh(
            cursor.name(f"the name of a {kind.value.lower()}"), cursor.take("FULL"), kind
        )
    if verb == "ALTER":
        cursor.expect("INCREMENTAL", "VIEW")
        return AlterView(cursor.name("the name of a view"), _action(cursor))
    if verb == "SHOW":
        return _show(cursor)
    if verb == "EXPLAIN":
        return _explain(cursor)
    return _describe(cursor)


def _drop(cursor: Cursor) -> Drop:
    cursor.expect("INCREMENTAL")
    kind = cursor.choose(_KINDS)
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name(f"the name of a {kind.value.lower()}")
    cascade = cursor.take("CASCADE")
    if not cascade:
        cursor.take("RESTRICT")
    return Drop(kind, name, if_exists, cascade)


def _action(cursor: Cursor) -> Action:
    if cursor.take("SUSPEND"):
        return Suspend()
    if cursor.take("RESUME"):
        return Resume()
    if cursor.take("RENAME"):
        cursor.expect("TO")
        return RenameTo(cursor.name("the name of a view", declared=True))
    if not cursor.take("SET"):
        raise cursor.expected("SUSPEND, RESUME, SET or RENAME TO")
    if cursor.take("REFRESH"):
        return SetPolicy(policy_clause(cursor))
    if cursor.take("TBLPROPERTIES"):
        return SetProperties(property_list(cursor))
    if not at_trigger(cursor):
        raise cursor.expected("REFRESH POLICY, TBLPROPERTIES, TRIGGER, SCHEDULE or MANUAL")
    return SetTrigger(trigger_clause(cursor))


def _show(cursor: Cursor) -> Statement:
    if cursor.take("CREATE"):
        cursor.expect("INCREMENTAL")
        kind = cursor.choose(_KINDS)
        return ShowCreate(kind, cursor.name(f"the name of a {kind.value.lower()}"))
    cursor.expect("INCREMENTAL")
    show = cursor.choose(_SHOWS)
    if cursor.take("LIKE") or cursor.peek() is not None:
        return show(cursor.string("a pattern in quotes"))
    return show(None)


def _describe(cursor: Cursor) -> Describe | DescribeHistory:
    if cursor.take("HISTORY"):
        cursor.expect("INCREMENTAL", "VIEW")
        return DescribeHistory(cursor.name("the name of a view"))
    extended = _takes_extended(cursor)
    cursor.expect("INCREMENTAL")
    kind = cursor.choose(_KINDS)
    # The last word is the name, also if it is `extended`.
    if cursor.peek(1) is not None:
        extended = _takes_extended(cursor) or extended
    return Describe(kind, cursor.name(f"the name of a {kind.value.lower()}"), extended)


def _takes_extended(cursor: Cursor) -> bool:
    return cursor.take("EXTENDED") or cursor.take("FORMATTED")


def _explain(cursor: Cursor) -> Explain | ExplainCreate:
    mode = ExplainMode.PLAIN
    for other in (ExplainMode.SQL, ExplainMode.EXTENDED):
        if cursor.take(other.value):
            mode = other
    if cursor.take("INCREMENTAL"):
        cursor.expect("VIEW")
        return Explain(mode, cursor.name("the name of a view"))
    verb = cursor.peek()
    create = _create(cursor)
    if not isinstance(create, CreateView):
        raise cursor.refused("only the creation of a view can be explained", verb)
    return ExplainCreate(mode, create)


def _create(cursor: Cursor) -> Create:
    cursor.expect("CREATE")
    or_replace = cursor.take("OR", "REPLACE")
    cursor.expect("INCREMENTAL")
    kind = cursor.choose(_KINDS)
    mark = cursor.peek()
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    if or_replace and if_not_exists:
        raise cursor.refused("OR REPLACE and IF NOT EXISTS exclude each other", mark)
    name = cursor.name(f"the name of a {kind.value.lower()}", declared=True)
    if kind is Kind.TABLE:
        return _table(cursor, name, or_replace, if_not_exists)
    if kind is Kind.VIEW:
        return _view(cursor, name, or_replace, if_not_exists)
    return _source(cursor, name, or_replace, if_not_exists)


def _table(cursor: Cursor, name: str, or_replace: bool, if_not_exists: bool) -> CreateTable:
    columns, primary_key = column_definitions(cursor, defaults=True)
    clauses = Clauses(cursor)
    comment: str | None = None
    properties: Properties = ()
    while cursor.peek() is not None:
        if clauses.begins("COMMENT"):
            comment = cursor.string("a comment in quotes")
        elif clauses.begins("TBLPROPERTIES"):
            properties = property_list(cursor)
        else:
            raise cursor.expected("COMMENT, TBLPROPERTIES or the end of the statement")
    return CreateTable(name, columns, primary_key, if_not_exists, or_replace, comment, properties)


def _view(cursor: Cursor, name: str, or_replace: bool, if_not_exists: bool) -> CreateView:
    columns: tuple[ColumnName, ...] = ()
    if cursor.at_word("("):
        columns = column_names(cursor)
    clauses = Clauses(cursor)
    comment: str | None = None
    properties: Properties = ()
    policy, trigger = Policy.INCREMENTAL_STRICT, Trigger()
    while not cursor.take("AS"):
        if clauses.begins("COMMENT"):
            comment = cursor.string("a comment in quotes")
        elif clauses.begins("TBLPROPERTIES"):
            properties = property_list(cursor)
        elif clauses.begins("REFRESH"):
            policy = policy_clause(cursor)
        elif at_trigger(cursor):
            clauses.once("TRIGGER")
            trigger = trigger_clause(cursor)
        else:
            raise cursor.expected("AS, COMMENT, TBLPROPERTIES, REFRESH POLICY or TRIGGER")
    first = cursor.peek()
    if first is None:
        raise cursor.expected("a query")
    while (token := cursor.peek()) is not None and token.token_type is not TokenType.SEMICOLON:
        cursor.index += 1
    query = cursor.slice(first, cursor.tokens[cursor.index - 1])
    return CreateView(
        name,
        query,
        columns,
        comment,
        properties,
        policy,
        trigger,
        if_not_exists,
        or_replace,
        cursor.position(first),
    )


def _source(cursor: Cursor, name: str, or_replace: bool, if_not_exists: bool) -> CreateSource:
    columns: tuple[ColumnDefinition, ...] = ()
    key: tuple[str, ...] = ()
    if cursor.at_word("("):
        columns, key = column_definitions(cursor, defaults=False)
    cursor.expect("USING")
    source_format = cursor.name("the name of a format")
    clauses = Clauses(cursor)
    if key:
        clauses.once("KEY")
    options: Properties = ()
    properties: Properties = ()
    changes, on_error = Changes(), OnError.FAIL
    comment: str | None = None
    sequence_by: str | None = None
    while cursor.peek() is not None:
        if clauses.begins("OPTIONS"):
            options = property_list(cursor)
        elif clauses.begins("CHANGES"):
            changes = change_clause(cursor)
        elif clauses.begins("KEY"):
            key = cursor.listed(lambda: cursor.identifier("a column"))
        elif clauses.begins("SEQUENCE"):
            cursor.expect("BY")
            sequence_by = cursor.identifier("a column")
        elif clauses.begins("ON"):
            cursor.expect("ERROR")
            on_error = cursor.choose({choice.value: choice for choice in OnError})
        elif clauses.begins("COMMENT"):
            comment = cursor.string("a comment in quotes")
        elif clauses.begins("TBLPROPERTIES"):
            properties = property_list(cursor)
        else:
            raise cursor.expected(
                "OPTIONS, CHANGES, KEY, SEQUENCE BY, ON ERROR, COMMENT or TBLPROPERTIES"
            )
    return CreateSource(
        name,
        source_format,
        columns,
        options,
        changes,
        key,
        sequence_by,
        on_error,
        comment,
        properties,
        if_not_exists,
        or_replace,
    )
