"""Rows as text in aligned columns, for a terminal or a pipe."""

from __future__ import annotations

import datetime
import decimal
import unicodedata
from collections.abc import Mapping, Sequence

import pyarrow as pa


def text_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A header, a rule, and a line per row; numbers are aligned right.

    >>> print(text_table(["view", "rows"], [["revenue", 12], ["top", None]]))
    view     rows
    -------  ----
    revenue    12
    top      NULL
    """
    # A text of several lines may stand alone; beside others, it would break the columns.
    shown = cell_text if len(columns) == 1 else _line_text
    cells = [[shown(value) for value in row] for row in rows]
    widths = [
        max(display_width(line) for text in texts for line in text.split("\n"))
        for texts in zip(columns, *cells, strict=True)
    ]
    right = [
        any(_is_number(row[place]) for row in rows)
        and all(row[place] in (None, "") or _is_number(row[place]) for row in rows)
        for place in range(len(columns))
    ]
    lines = [columns, ["-" * width for width in widths], *cells]
    return "\n".join(
        "  ".join(map(_aligned, line, widths, right)).rstrip() if len(columns) > 1 else line[0]
        for line in lines
    )


def text_records(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A line per value below a rule per row, for rows that are wider than a terminal.

    >>> print(text_records(["view", "rows"], [["revenue", 12]]))
    -- row 1 --
    view  revenue
    rows  12
    """
    width = max(map(display_width, columns), default=0)
    lines = []
    for number, row in enumerate(rows, start=1):
        lines.append(f"-- row {number} --")
        for column, value in zip(columns, row, strict=True):
            lines.append(f"{_aligned(column, width, False)}  {_line_text(value)}".rstrip())
    return "\n".join(lines)


def _line_text(value: object) -> str:
    return cell_text(value).replace("\n", "\\n").replace("\t", "\\t")


def pointed(text: str, line: int, column: int) -> str:
    """The line of a place, and a caret below the place.

    >>> print(pointed("SELECT 1,\\n  '日本' + nothing", 2, 10))
      '日本' + nothing
               ^
    """
    lines = text.split("\n")
    if line > len(lines):
        return ""
    shown = lines[line - 1]
    before = shown[: column - 1]
    margin = "".join("\t" if s == "\t" else " " * display_width(s) for s in before)
    return f"{shown}\n{margin}^"


def arrow_rows(table: pa.Table) -> list[tuple[object, ...]]:
    """The rows of an Arrow table, whose columns may share names."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def cell_text(value: object) -> str:
    """A value as a person writes it.

    >>> cell_text({"a": [1, None], "b": decimal.Decimal("1E+2")})
    '{a: [1, NULL], b: 100}'
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {cell_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple):
        return " -> ".join(map(cell_text, value))
    if isinstance(value, list):
        return f"[{', '.join(map(cell_text, value))}]"
    return str(value)


def size_text(size: int) -> str:
    """A number of bytes in the unit in which it has three digits.

    >>> size_text(169), size_text(1_058), size_text(384_000), size_text(999_999), size_text(1_260_000)
    ('169 B', '1.1 kB', '384 kB', '1 MB', '1.3 MB')
    """
    scaled, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if scaled < 999.5:
            break
        scaled, unit = scaled / 1000, larger
    digits = f"{scaled:.0f}" if scaled >= 9.95 else f"{scaled:.1f}".removesuffix(".0")
    return f"{digits} {unit}"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool)


def display_width(text: str) -> int:
    """The places that a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF")
        for sign in text
    )


def _aligned(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - display_width(text))
    return blanks + text if right else text + blanks
