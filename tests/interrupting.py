"""Ctrl-C at any line: a signal that comes when a chosen line of some modules is about to run."""

from __future__ import annotations

import linecache
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any


class Lines:
    """Counts the lines that run in the modules, from the first call of a function on if it is given."""

    def __init__(self, *modules: ModuleType, after: str = "") -> None:
        self._files = {module.__file__ for module in modules}
        self._after = after

    def interrupt(self, place: int, work: Callable[[], object]) -> bool:
        """Do the work with a signal before its line of that number; whether there was such a line."""
        seen, begun = -1, not self._after

        def line(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal seen
            if event == "line" and not _begins_block(frame):
                seen += 1
                if seen == place:
                    sys.settrace(None)
                    signal.raise_signal(signal.SIGINT)
            return line

        def call(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal begun
            begun = begun or frame.f_code.co_name == self._after
            return line if begun and frame.f_code.co_filename in self._files else None

        before = sys.gettrace()
        try:
            with _python_hears():
                sys.settrace(call)
                work()
        except KeyboardInterrupt:
            assert seen >= place, "nobody interrupted"
            return True
        finally:
            sys.settrace(before)
        assert seen < place, "an interrupt was lost"
        return False


def _begins_block(frame: FrameType) -> bool:
    """Whether the line is that of a `with`: Python lets no signal in where such a block ends, but
    calls that a line as well."""
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")


@contextmanager
def _python_hears() -> Iterator[None]:
    """A signal raises KeyboardInterrupt and does nothing else, whoever has taken it for himself."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
