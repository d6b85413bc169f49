"""How long this thread has spent evaluating expressions: the part of a commit that kernels decide."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class _Spent(threading.local):
    seconds = 0.0


_spent = _Spent()


def expression_seconds() -> float:
    """The seconds spent so far; a caller takes the difference of two readings."""
    return _spent.seconds


@contextmanager
def evaluating() -> Iterator[None]:
    """Count the time of the block as evaluation of expressions."""
    began = time.perf_counter()
    try:
        yield
    finally:
        _spent.seconds += time.perf_counter() - began
