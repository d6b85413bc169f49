"""Ctrl-C reaches the thread that waits for the user or for Spark.

The system hands a signal to any thread. Python notes it there and acts upon it in the main thread,
once that runs again; where the main thread waits for a key or an answer, nothing wakes it. Here a
signal that was noted and not acted upon is sent to the main thread itself.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

_MOMENT = 0.05  # seconds in which the main thread acts upon a signal that has reached it


@contextlib.contextmanager
def heard_at_once() -> Iterator[None]:
    """While the block runs, Ctrl-C interrupts what the main thread waits for."""
    usual = signal.getsignal(signal.SIGINT)
    acted = -math.inf

    def act(number: int, frame: FrameType | None) -> None:
        nonlocal acted
        acted = time.monotonic()
        if callable(usual):
            usual(number, frame)

    def relay() -> None:
        main = threading.main_thread().ident
        assert main is not None
        while noted := os.read(reader, 1):
            if noted[0] == signal.SIGINT:
                time.sleep(_MOMENT)
                if time.monotonic() - acted > 2 * _MOMENT:
                    signal.pthread_kill(main, signal.SIGINT)

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    relaying = threading.Thread(target=relay, daemon=True)
    relaying.start()
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, act)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        signal.set_wakeup_fd(before)
        os.close(writer)
        relaying.join()
        os.close(reader)
