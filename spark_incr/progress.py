"""How far long work has come, on one line of a terminal: the filling of a view, a merge, a check."""

from __future__ import annotations

import sys

_WIDTH = 30


def show_progress(what: str, done: int, total: int, unit: str = "rows") -> None:
    """Write over the line while there is something to do, and clear it at the end."""
    if not sys.stderr.isatty():
        return
    if done >= total:
        sys.stderr.write("\r\033[K")
    else:
        bar = "#" * (_WIDTH * done // total)
        sys.stderr.write(f"\r{what} [{bar:<{_WIDTH}}] {done:,} of {total:,} {unit}\033[K")
    sys.stderr.flush()
