"""The line that shows how far the filling of a view has come."""

from __future__ import annotations

import io
import sys

import pytest

from spark_incr.progress import show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_is_written_over_and_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    show_progress("revenue", 1_000, 3_000)
    show_progress("revenue", 3_000, 3_000)
    bar = "#" * 10 + " " * 20
    assert terminal.getvalue() == f"\rrevenue [{bar}] 1,000 of 3,000 rows\033[K\r\033[K"


def test_nothing_is_written_into_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    show_progress("revenue", 1_000, 3_000)
    assert file.getvalue() == ""
