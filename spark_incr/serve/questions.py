"""Questions to Spark whose answer may be an error that nobody has to see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.logger import PySparkLogger

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def silence_spark() -> None:
    """Keep pyspark from logging errors, with their traces, that are shown in another way."""
    for name in _LOGGERS:
        PySparkLogger.getLogger(name).disabled = True


@contextmanager
def unlogged() -> Iterator[None]:
    """While the block runs, pyspark logs no errors: who asks takes them for an answer."""
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    silence_spark()
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
