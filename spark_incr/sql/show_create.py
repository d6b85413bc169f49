"""The canonical text of a CREATE statement: it parses back to an equal statement."""

from __future__ import annotations

from collections.abc import Iterable

from spark_incr.sql.names import quote, quote_name, quote_string
from spark_incr.sql.statements import (
    ChangeKind,
    Changes,
    ColumnDefinition,
    ColumnName,
    Create,
    CreateSource,
    CreateTable,
    CreateView,
    OnError,
    Policy,
    Properties,
    Trigger,
    TriggerKind,
)


def show_create(statement: Create) -> str:
    """The statement as SQL, one clause a line; what is the default is left out.

    >>> from spark_incr.sql.parse import parse_statement
    >>> print(show_create(parse_statement(
    ...     "create incremental view v comment 'by day' schedule every 1 hour as select day from t"
    ... )))
    CREATE INCREMENTAL VIEW v
    COMMENT 'by day'
    SCHEDULE EVERY 1 HOUR
    AS select day from t
    """
    if isinstance(statement, CreateTable):
        lines = [_head(statement, "TABLE") + _columns(statement.columns, statement.primary_key)]
    elif isinstance(statement, CreateView):
        lines = [_head(statement, "VIEW") + _names(statement.columns)]
    else:
        lines = [_head(statement, "SOURCE") + _columns(statement.columns, ())]
        lines += _source_clauses(statement)
    if statement.comment is not None:
        lines.append(f"COMMENT {quote_string(statement.comment)}")
    if statement.properties:
        lines.append(f"TBLPROPERTIES {_pairs(statement.properties)}")
    if isinstance(statement, CreateView):
        if statement.policy is not Policy.INCREMENTAL_STRICT:
            lines.append(f"REFRESH POLICY {statement.policy.value}")
        if statement.trigger.kind is not TriggerKind.ON_UPDATE:
            lines.append(trigger_text(statement.trigger))
        lines.append(f"AS {statement.query_text}")
    return "\n".join(lines)


def _head(statement: Create, kind: str) -> str:
    replace = "OR REPLACE " if statement.or_replace else ""
    exists = "IF NOT EXISTS " if statement.if_not_exists else ""
    return f"CREATE {replace}INCREMENTAL {kind} {exists}{quote_name(statement.name)}"


def _names(columns: tuple[ColumnName, ...]) -> str:
    return _block(quote(column.name) + _comment(column.comment) for column in columns)


def _columns(columns: tuple[ColumnDefinition, ...], primary_key: tuple[str, ...]) -> str:
    lines = [
        f"{quote(column.name)} {column.type_text}"
        + (" NOT NULL" if column.not_null else "")
        + ("" if column.default is None else f" DEFAULT {column.default}")
        + _comment(column.comment)
        for column in columns
    ]
    if primary_key:
        lines.append(f"PRIMARY KEY ({', '.join(map(quote, primary_key))})")
    return _block(lines)


def _block(lines: Iterable[str]) -> str:
    body = ",\n  ".join(lines)
    return f" (\n  {body}\n)" if body else ""


def _comment(comment: str | None) -> str:
    return "" if comment is None else f" COMMENT {quote_string(comment)}"


def _pairs(pairs: Properties) -> str:
    return f"({', '.join(f'{quote_string(k)} = {quote_string(v)}' for k, v in pairs)})"


def trigger_text(trigger: Trigger) -> str:
    if trigger.kind is not TriggerKind.SCHEDULE:
        return str(trigger.kind.value)
    plural = "" if trigger.every == 1 else "S"
    return f"SCHEDULE EVERY {trigger.every} {trigger.unit.name}{plural}"


def _source_clauses(source: CreateSource) -> list[str]:
    lines = [f"USING {quote_name(source.format)}"]
    if source.options:
        lines.append(f"OPTIONS {_pairs(source.options)}")
    if source.changes.kind is not ChangeKind.APPEND:
        lines.append(f"CHANGES ({_changes(source.changes)})")
    if source.key:
        lines.append(f"KEY ({', '.join(map(quote, source.key))})")
    if source.sequence_by is not None:
        lines.append(f"SEQUENCE BY {quote(source.sequence_by)}")
    if source.on_error is not OnError.FAIL:
        lines.append(f"ON ERROR {source.on_error.value}")
    return lines


def _changes(changes: Changes) -> str:
    if changes.kind is ChangeKind.OPERATION:
        values = " OR ".join(quote_string(value) for value in changes.delete_when)
        return f"OP {quote(changes.column or '')}, DELETE WHEN {values}"
    if changes.kind is ChangeKind.WEIGHT:
        return f"WEIGHT {quote(changes.column or '')}"
    if changes.kind is ChangeKind.DELETES:
        return f"DELETES FROM {quote_string(changes.deletes_path or '')}"
    return "CHANGE FEED" if changes.kind is ChangeKind.FEED else changes.kind.value
