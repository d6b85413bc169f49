"""Spark's daemon of Python workers, for the session of the tests.

Each worker is a fork of it, and some serve a single question; so what they would all import is there
before they are. Spark's own daemon imports nothing, since a fork has none of the threads that a module
started: here these are pyarrow's, whose allocator knows of forks.
"""

from __future__ import annotations

import pyspark.sql.worker.analyze_udtf
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import tests.session_functions  # noqa: F401

if __name__ == "__main__":
    manager()
