"""Sources for tests: directories that files are put into, and statements on an engine."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import spark_incr
from spark_incr.engine import Engine
from spark_incr.serve.session import disable, enable

_numbers = itertools.count()


def run(engine: Engine, text: str) -> list[tuple[Any, ...]]:
    """Carry out a statement; its rows."""
    return [tuple(row) for row in engine.spark.sql(text).collect()]


def column(engine: Engine, text: str, name: str) -> list[Any]:
    """One column of what a statement says."""
    return [row[name] for row in engine.spark.sql(text).collect()]


def opened(spark: SparkSession, state: Path) -> Engine:
    """The engine of a session that understands the statements."""
    return spark_incr.engine(enable(spark, state))


def reopened(engine: Engine) -> Engine:
    """The same state as a process finds it that comes after this one."""
    disable(engine.spark)
    return opened(engine.spark, engine.path)


def put(
    directory: Path, rows: Sequence[Mapping[str, Any]] | str | bytes, suffix: str = "json"
) -> Path:
    """Put a file into a directory whole; files are ordered as they are put."""
    directory.mkdir(exist_ok=True)
    number = next(_numbers)
    path = directory / f"part-{number:06d}.{suffix}"
    if not isinstance(rows, (str, bytes)):
        rows = "".join(json.dumps(row) + "\n" for row in rows)
    data = rows.encode() if isinstance(rows, str) else rows
    hidden = directory / f".{path.name}"
    hidden.write_bytes(data)
    os.utime(hidden, ns=(10**18 + number * 10**6,) * 2)
    hidden.rename(path)
    return path


def bag(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows.to_pylist())


def bag_of(*rows: tuple[Any, ...]) -> Counter[tuple[Any, ...]]:
    return Counter(rows)
