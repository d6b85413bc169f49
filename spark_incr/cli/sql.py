"""`spark-incr sql`: statements from a file, an argument, a pipe or a prompt."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_incr.cli.session import add_session_options, session
from spark_incr.errors import IncrementalError, Position, split_place, without_plan
from spark_incr.frames import computed, in_words
from spark_incr.sql.split import ScriptStatement, split_statements
from spark_incr.text_table import arrow_rows, pointed, text_records, text_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN_ROWS = 1_000
_CANCELLED = "SPARK_JOB_CANCELLED"


def add_commands(commands: Any) -> None:
    sql = commands.add_parser("sql", help="run SQL from a file, an argument or a prompt")
    sql.add_argument("file", nargs="?", help="a script; - is standard input")
    sql.add_argument("-e", "--execute", metavar="SQL", help="statements to run")
    add_session_options(sql)
    sql.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    script = _script(options)
    if script is None:
        from spark_incr.cli.prompt import prompt

        with session(options.state, options.conf) as spark:
            return prompt(spark, options.state)
    try:
        statements = split_statements(script)
    except IncrementalError as failure:
        report(failure, script, failure.position)
        return 1
    with session(options.state, options.conf) as spark:
        stopped = run_all(spark, statements, script)
    if stopped is not None and options.execute is None:
        print(stopped_by(options.file or "the script", stopped), file=sys.stderr)
    return 0 if stopped is None else 1


def stopped_by(script: str, line: int) -> str:
    """What is said of a script that did not run to its end."""
    return f"{script} was stopped by the statement of line {line}"


def read_script(path: str) -> str:
    """The text of a file, or the end of the command."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        what = failure.strerror if isinstance(failure, OSError) else failure
        raise SystemExit(f"spark-incr: {path} cannot be read: {what}") from None


def _script(options: argparse.Namespace) -> str | None:
    """The text to run, None if a person is to be asked for it."""
    if options.execute is not None:
        return str(options.execute)
    if options.file not in (None, "-"):
        return read_script(options.file)
    return None if sys.stdin.isatty() else sys.stdin.read()


@dataclass
class Shown:
    """What a person wants to see: times, and rows as records."""

    timing: bool = True
    expanded: bool = False


def run_all(
    spark: SparkSession,
    statements: Iterable[ScriptStatement],
    script: str,
    shown: Shown | None = None,
) -> int | None:
    """Run the statements of a script up to the first error; the line of the one that had it."""
    for statement in statements:
        if not run_statement(spark, statement, script, shown):
            return statement.position.line
    return None


def run_statement(
    spark: SparkSession, statement: ScriptStatement, script: str, shown: Shown | None = None
) -> bool:
    """Run one statement and show its rows; False after an error, which is shown too."""
    from pyspark.errors import PySparkException

    shown = shown or Shown()
    began = time.perf_counter()
    limit = SHOWN_ROWS if sys.stdout.isatty() else None
    try:
        frame = spark.sql(statement.text)
        read = in_words(frame)
        rows = arrow_rows(computed(read if limit is None else read.limit(limit + 1)))
    except IncrementalError as failure:
        place = failure.position and statement.in_script(failure.position)
        report(failure, script, place)
        return False
    except PySparkException as failure:
        text = str(failure).strip()
        # Ctrl-C cancels the job, and that is the error which pyspark has for it.
        if _CANCELLED in text or _CANCELLED in str(getattr(failure, "_stackTrace", "")):
            raise KeyboardInterrupt from None
        what, spot = split_place(without_plan(text))
        if spot is not None:
            place = statement.in_script(spot)
            mark(script, place)
            head, *rest = what.split("\n")
            what = "\n".join([f"{head} (line {place.line}, column {place.column})", *rest])
        print(what, file=sys.stderr)
        return False
    if frame.columns:
        written = text_records if shown.expanded else text_table
        print(written(frame.columns, rows[:limit]), flush=True)
    if sys.stdout.isatty():
        more = limit is not None and len(rows) > limit
        count = f"first {limit} rows" if more else f"{len(rows)} row{'s' * (len(rows) != 1)}"
        spent = f", {time.perf_counter() - began:.3f} s" if shown.timing else ""
        print(f"({count}{spent})\n", flush=True)
    return True


def report(failure: IncrementalError, script: str, place: Position | None) -> None:
    """Show an error, with the line it is about and a caret below the place."""
    if place is not None:
        failure.place(place)
        mark(script, place)
    print(failure, file=sys.stderr)


def mark(script: str, place: Position) -> None:
    """Show the line of a place and a caret below it."""
    if shown := pointed(script, place.line, place.column):
        print(shown, file=sys.stderr)
