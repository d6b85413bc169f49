"""The command line: statements, model files, plans, servers and a demonstration.

It uses the public API only. On a terminal it shows prompts, times and progress; into a pipe it
writes results alone. The exit status is 0 if all went well, 1 after an error, 2 for wrong usage,
130 after an interrupt.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pyspark.errors import PySparkException

from spark_incr.cli import dbt, demo, explain, inspect, models, serve, sql
from spark_incr.cli.session import add_conf_option, session
from spark_incr.errors import IncrementalError, without_plan
from spark_incr.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except IncrementalError as failure:
        what = ": ".join(part for part in (failure.message, failure.detail) if part)
        text = f"{what.removesuffix('.')}. {failure.hint}" if failure.hint else what
        print(f"spark-incr: [{failure.condition}] {text}", file=sys.stderr)
        return 1
    except PySparkException as failure:
        print(f"spark-incr: {without_plan(str(failure).strip())}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output has enough; the interpreter would complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return status


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parsed = argparse.ArgumentParser(
        prog="spark-incr", description="Incremental materialized views for Apache Spark."
    )
    parsed.add_argument("--version", action="version", version=f"spark_incr {__version__}")
    commands = parsed.add_subparsers(required=True, metavar="command")
    for command in (sql, serve, models, explain, dbt, demo):
        command.add_commands(commands)
    for inspecting in inspect.add_commands(commands, session):
        add_conf_option(inspecting)
    return parsed
