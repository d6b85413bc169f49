"""Random queries against the oracle, as many as one likes: `python -m tests.fuzz --examples 1000`.

Several queries share tables, batches and an engine, for those cost more than a query. Each such
family has a number, counted from the seed, that makes it again. A query that fails is run alone, cut
down to few batches and rows and printed as a fixture for tests/fixtures/random/.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pyspark.sql.types as T
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_incr.java import ensure_java
from spark_incr.runtime import keys
from tests import session_functions
from tests.grammar import Batch, Example, examples
from tests.oracle import SparkFailsError, check
from tests.recorded import write_example

FAMILY = 8
WITH_FUNCTIONS = (
    4  # of so many families one calls functions of users, each of which waits for Python
)
VARIANTS = ("plain", "colliding", "reopened", "late")
_DEFINITIONS = importlib.import_module("spark_incr.definitions")
_FEW_BITS = np.uint64(0x5 << 61 | 0x3)
_MAGNITUDE = 1e8
_ATTEMPTS = 40
_NOT_THERE = "the test deletes a row that is not there"


def run(spark: SparkSession, given: Example | Sequence[Example], variant: str = "plain") -> None:
    """Hold an example to Spark, or several over the same tables and batches.

    `colliding` narrows the hashes of keys, `reopened` opens the engine anew after each batch, and
    `late` creates the view after all batches but one and fills it by two rows at a time.
    """
    registered(spark)
    family = [given] if isinstance(given, Example) else list(given)
    batches = family[0].batches
    with contextlib.ExitStack() as stack:
        stack.enter_context(interpreted(spark))
        if variant == "colliding":
            stack.enter_context(mock.patch.object(keys, "HASH_MASK", _FEW_BITS))
        if variant == "late":
            stack.enter_context(mock.patch.object(_DEFINITIONS, "CHUNK_ROWS", 2))
        for count in range(len(batches), 0, -1):
            # A batch that failed, here and in Spark, is not there to be undone.
            with contextlib.suppress(_NotThereError):
                _check(spark, family, batches[:count], variant)
                break


@cache
def registered(spark: SparkSession) -> None:
    """Let a session know the functions of users that queries may call."""
    session_functions.register(spark)


class _NotThereError(Exception):
    """A batch deletes what a failed one would have inserted."""


def _check(
    spark: SparkSession, family: Sequence[Example], batches: Sequence[Batch], variant: str
) -> None:
    try:
        check(
            spark,
            dict(family[0].tables),
            [given.query for given in family],
            batches,
            unordered=[name for given in family for name in given.unordered],
            magnitude=_MAGNITUDE,
            created_after=len(batches) - 1 if variant == "late" else 0,
            reopen=variant == "reopened",
        )
    except SparkFailsError:
        # One query that Spark cannot run says nothing of the others.
        for given in family if len(family) > 1 else ():
            _check(spark, [given], batches, variant)
    except AssertionError as failure:
        if str(failure).startswith(_NOT_THERE):
            raise _NotThereError from failure
        raise


def interpreted(spark: SparkSession) -> contextlib.AbstractContextManager[None]:
    """Spark without compiled code: many small queries, each run once."""
    return _with_code(spark, "false", "NO_CODEGEN")


def compiled(spark: SparkSession) -> contextlib.AbstractContextManager[None]:
    """Spark with compiled code: its interpreted max() of collated strings has bytes of other rows."""
    return _with_code(spark, "true", "FALLBACK")


@contextlib.contextmanager
def _with_code(spark: SparkSession, stages: str, expressions: str) -> Iterator[None]:
    confs = {"spark.sql.codegen.wholeStage": stages, "spark.sql.codegen.factoryMode": expressions}
    before: dict[str, Any] = {key: spark.conf.get(key) for key in confs}
    for key, value in confs.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def numbered(number: int) -> tuple[list[Example], str]:
    """The examples of a number and the variant in which they are run."""
    random = Random(number)
    variant = random.choice(VARIANTS)
    return examples(random, FAMILY, functions=number % WITH_FUNCTIONS == 0), variant


def failure_of(
    spark: SparkSession, given: Example | Sequence[Example], variant: str
) -> Exception | None:
    """What examples reveal, if anything."""
    try:
        run(spark, given, variant)
    except Exception as failure:
        return failure
    return None


def minimised(spark: SparkSession, given: Example, variant: str, failure: Exception) -> Example:
    """A part of the batches and rows that fails in the same way."""
    attempts = iter(range(_ATTEMPTS))
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(given):
            if next(attempts, None) is None:
                return given
            found = failure_of(spark, smaller, variant)
            if found is not None and type(found) is type(failure) and _NOT_THERE not in str(found):
                given, changed = smaller, True
                break
    return given


def _smaller(given: Example) -> Iterator[Example]:
    batches = list(given.batches)
    for i in reversed(range(len(batches))):
        if len(batches) > 1:
            yield _with(given, batches[:i] + batches[i + 1 :])
    for i, batch in enumerate(batches):
        for name, sides in batch.items():
            for side, rows in sides.items():
                for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]) if rows else ():
                    other = {**batch, name: {**sides, side: part}}
                    yield _with(given, [*batches[:i], other, *batches[i + 1 :]])


def _with(given: Example, batches: list[Batch]) -> Example:
    return Example(given.tables, given.query, batches, given.unordered)


def report(spark: SparkSession, number: int) -> str:
    """Run the examples of a number; what to say if one fails, else nothing."""
    family, variant = numbered(number)
    family = [given for given in family if _accepted(spark, given)]
    if not family:
        return ""
    together = failure_of(spark, family, variant)
    if together is None:
        return ""
    found = [(given, failure_of(spark, given, variant)) for given in family]
    texts = [_said(spark, number, given, variant, failure) for given, failure in found if failure]
    return "\n".join(texts) or f"examples {number} ({variant}), only together: {together}"


def _accepted(spark: SparkSession, given: Example) -> bool:
    """Whether Spark itself takes a query; its analyser has errors of its own, as with CUBE over a
    column of USING, and ends in some by a failed assertion."""
    registered(spark)
    for name, schema in dict(given.tables).items():
        columns = T.StructType([T.StructField(f.name, f.type) for f in schema])
        spark.createDataFrame([], columns).createOrReplaceTempView(name)
    try:
        # Some functions of Python it refuses only where it plans them.
        spark.sql(given.query)._jdf.queryExecution().executedPlan()
    except (PySparkException, Py4JJavaError):
        return False
    finally:
        for name in dict(given.tables):
            spark.catalog.dropTempView(name)
    return True


def _said(
    spark: SparkSession, number: int, given: Example, variant: str, failure: Exception
) -> str:
    small = minimised(spark, given, variant, failure)
    return "\n".join(
        [
            f"examples {number} ({variant}): {type(failure).__name__}: {failure}",
            f"again with: python -m tests.fuzz --examples {FAMILY} --seed {number}",
            json.dumps(write_example(small), ensure_ascii=False),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.examples} examples", flush=True)
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("spark_incr fuzz")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        # Each query runs once, so time spent on making it fast is lost.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    logging.disable(logging.ERROR)
    failures = 0
    for number in range(options.seed, options.seed - (-options.examples // FAMILY)):
        if text := report(spark, number):
            failures += 1
            print(text, flush=True)
    print(f"{options.examples} examples, {failures} failures")
    spark.stop()
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
