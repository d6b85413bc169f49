"""Ctrl-C that waits: what others can see already is finished before it is heard.

Law: from `hold` to the end of the block no signal interrupts the main thread; those that came are
handed on after it, once each. Python acts upon signals in that thread alone, so others need nothing.
"""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """A block at whose end the signals are handed on that came after `hold`."""

    def __init__(self) -> None:
        self._usual = ExitStack()
        self._holding = False
        self._came: dict[int, FrameType | None] = {}

    def __enter__(self) -> Interrupts:
        return self

    def hold(self) -> None:
        """Let signals wait from here on."""
        if self._holding or threading.current_thread() is not threading.main_thread():
            return
        self._holding = True
        for number in _SIGNALS:
            usual = signal.getsignal(number)
            if callable(usual):
                self._usual.callback(signal.signal, number, usual)
                signal.signal(number, self._keep)

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self._came[number] = frame

    def __exit__(self, *_: object) -> None:
        self._usual.close()
        for number, frame in self._came.items():
            usual = signal.getsignal(number)
            if callable(usual):
                usual(number, frame)
