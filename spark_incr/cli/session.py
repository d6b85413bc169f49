"""The Spark session of a command, and the options that commands share."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spark_incr.cli.interrupts import heard_at_once
from spark_incr.progress import show_progress
from spark_incr.runtime.steps import listen
from spark_incr.serve.questions import silence_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOGGING = Path(__file__).with_name("log4j2-quiet.properties")
CONFS = {
    "spark.master": "local[*]",
    "spark.app.name": "spark-incr",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def add_session_options(command: argparse.ArgumentParser) -> None:
    """The options of every command that works on a state."""
    command.add_argument(
        "--state", default="spark_incr_state", help="state directory (%(default)s)"
    )
    add_conf_option(command)


def add_conf_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--conf", action="append", default=[], type=_conf, help="a Spark setting: key=value"
    )


def tell_progress() -> None:
    """Show how far merges and compaction have come, as the engine shows the filling of views."""
    listen(show_progress)


@contextlib.contextmanager
def session(state: str, confs: Sequence[tuple[str, str]]) -> Iterator[SparkSession]:
    """A session over a state directory, for as long as the block runs."""
    from pyspark.sql import SparkSession

    import spark_incr

    silence_spark()
    builder = SparkSession.builder
    for key, value in {**CONFS, **dict(confs)}.items():
        builder = builder.config(key, value)
    # Spark would start its Python workers by the name python3, in whatever place the PATH has it.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    tell_progress()
    spark = spark_incr.session(state=state, builder=builder)
    try:
        with heard_at_once():
            yield spark
    finally:
        spark.stop()


def _conf(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text} is not key=value")
    return key, value
