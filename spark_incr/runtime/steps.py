"""How far a long step of the runtime has come, told to whoever listens in this process.

A step that is done within a moment tells nothing, whatever its size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, int, int, str], None]
PATIENCE = 0.5  # seconds until a step is long


def _nobody(what: str, done: int, total: int, unit: str) -> None:
    pass


_listener: Listener = _nobody


def listen(listener: Listener) -> None:
    """Tell long steps to a listener from now on: what is done, how far, of how much, in which unit."""
    global _listener
    _listener = listener


@contextmanager
def step(what: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Work of a known size; the block calls what it is given with how much is done."""
    began, told = time.monotonic(), False

    def tell(done: int) -> None:
        nonlocal told
        if time.monotonic() - began >= PATIENCE:
            told = True
            _listener(what, done, total, unit)

    try:
        yield tell
    finally:
        if told:
            _listener(what, total, total, unit)
