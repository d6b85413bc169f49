"""Computations side by side: Arrow and numpy let other threads run while they work on columns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

_NAME = "spark_incr_beside"
_worker = ThreadPoolExecutor(1, thread_name_prefix=_NAME)


def side_by_side(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """What functions give that write nothing another of them reads; every second one runs beside.

    >>> side_by_side([lambda: 1, lambda: 2, lambda: 3])
    [1, 2, 3]
    """
    here, there = tasks[::2], tasks[1::2]
    if not there or threading.current_thread().name.startswith(_NAME):
        return [task() for task in tasks]
    beside = _worker.submit(lambda: [task() for task in there])
    try:
        own = [task() for task in here]
    finally:
        beside.exception()  # waits: when we go on, nothing runs beside
    both = iter(own), iter(beside.result())
    return [next(both[place % 2]) for place in range(len(tasks))]
