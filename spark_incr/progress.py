"""How far the filling of a view has come, on one line of a terminal."""

from __future__ import annotations

import sys

_WIDTH = 30


def show_progress(view: str, done: int, total: int) -> None:
    """Write over the line while there is something to do, and clear it at the end."""
    if not sys.stderr.isatty():
        return
    if done >= total:
        sys.stderr.write("\r\033[K")
    else:
        bar = "#" * (_WIDTH * done // total)
        sys.stderr.write(f"\r{view} [{bar:<{_WIDTH}}] {done:,} of {total:,} rows\033[K")
    sys.stderr.flush()
