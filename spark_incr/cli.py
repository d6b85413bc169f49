"""The command line: `spark-incr sql` runs statements, `spark-incr demo` shows a small shop.

It uses the public API only. On a terminal it shows prompts, times and progress; into a pipe it
writes results alone. The exit status is 0 if all went well, 1 after an error, 2 for wrong usage,
130 after an interrupt.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spark_incr.errors import IncrementalError, Position
from spark_incr.inspect_commands import add_commands
from spark_incr.java import ensure_java
from spark_incr.progress import show_progress
from spark_incr.sql.split import ScriptStatement, is_complete, split_statements
from spark_incr.text_table import arrow_rows, text_table
from spark_incr.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN_ROWS = 1_000
_LOGGING = Path(__file__).with_name("log4j2-quiet.properties")
_CONFS = {
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        ensure_java()
        status: int = options.run(options)
    except IncrementalError as failure:
        hint = f". {failure.hint}" if failure.hint else ""
        print(f"spark-incr: [{failure.condition}] {failure.message}{hint}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output has enough; the interpreter would complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spark-incr", description="Incremental materialized views for Apache Spark."
    )
    parser.add_argument("--version", action="version", version=f"spark_incr {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    sql = commands.add_parser("sql", help="run SQL from a file, an argument or a prompt")
    sql.add_argument("file", nargs="?", help="a script; - is standard input")
    sql.add_argument("-e", "--execute", metavar="SQL", help="statements to run")
    sql.add_argument("--state", default="spark_incr_state", help="state directory (%(default)s)")
    sql.set_defaults(run=_sql)

    demo = commands.add_parser("demo", help="maintain the views of a small shop")
    demo.add_argument("--state", help="state directory (a temporary one)")
    demo.add_argument("--rows", type=_rows, default=100_000, help="orders (%(default)s)")
    demo.set_defaults(run=_demo)

    inspecting = add_commands(commands, _session)
    for command in (sql, demo, *inspecting):
        command.add_argument(
            "--conf", action="append", default=[], type=_conf, help="a Spark setting: key=value"
        )
    return parser


def _rows(text: str) -> int:
    rows = int(text)
    if rows < 1_000:
        raise argparse.ArgumentTypeError("the shop needs at least 1000 orders")
    return rows


def _conf(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text} is not key=value")
    return key, value


@contextlib.contextmanager
def _session(state: str, confs: Sequence[tuple[str, str]]) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    import spark_incr

    builder = SparkSession.builder.appName("spark-incr").master("local[*]")
    for key, value in {**_CONFS, **dict(confs)}.items():
        builder = builder.config(key, value)
    # Spark would start its Python workers by the name python3, in whatever place the PATH has it.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = spark_incr.session(state=state, builder=builder)
    spark_incr.engine(spark).on_fill = show_progress
    try:
        yield spark
    finally:
        spark.stop()


def _demo(options: argparse.Namespace) -> int:
    from spark_incr.demo import run_demo

    with contextlib.ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="spark_incr_demo_")
        state = options.state or stack.enter_context(temporary)
        spark = stack.enter_context(_session(state, options.conf))
        return 0 if run_demo(spark, options.rows) else 1


def _sql(options: argparse.Namespace) -> int:
    script = _script(options)
    if script is None:
        with _session(options.state, options.conf) as spark:
            return _prompt(spark, options.state)
    try:
        statements = split_statements(script)
    except IncrementalError as failure:
        _report(failure, script, failure.position)
        return 1
    with _session(options.state, options.conf) as spark:
        return 0 if all(_run(spark, statement, script) for statement in statements) else 1


def _script(options: argparse.Namespace) -> str | None:
    """The text to run, None if a person is to be asked for it."""
    if options.execute is not None:
        return str(options.execute)
    if options.file not in (None, "-"):
        try:
            return Path(options.file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as failure:
            raise SystemExit(f"spark-incr: {options.file} cannot be read: {failure}") from None
    return None if sys.stdin.isatty() else sys.stdin.read()


def _run(spark: SparkSession, statement: ScriptStatement, script: str) -> bool:
    """Run one statement and show its rows; False after an error, which is shown too."""
    from pyspark.errors import PySparkException

    began = time.perf_counter()
    limit = SHOWN_ROWS if sys.stdout.isatty() else None
    try:
        frame = spark.sql(statement.text)
        rows = arrow_rows((frame if limit is None else frame.limit(limit + 1)).toArrow())
    except IncrementalError as failure:
        place = failure.position and statement.in_script(failure.position)
        _report(failure, script, place)
        return False
    except PySparkException as failure:
        print(str(failure).strip(), file=sys.stderr)
        return False
    if frame.columns:
        print(text_table(frame.columns, rows[:limit]), flush=True)
    if sys.stdout.isatty():
        more = limit is not None and len(rows) > limit
        count = f"first {limit} rows" if more else f"{len(rows)} row{'s' * (len(rows) != 1)}"
        print(f"({count}, {time.perf_counter() - began:.3f} s)\n", flush=True)
    return True


def _report(failure: IncrementalError, script: str, place: Position | None) -> None:
    """Show an error, with the line it is about and a caret below the place."""
    if place is not None:
        failure.place(place)
        lines = script.split("\n")
        if place.line <= len(lines):
            line = lines[place.line - 1]
            margin = "".join("\t" if sign == "\t" else " " for sign in line[: place.column - 1])
            print(f"{line}\n{margin}^", file=sys.stderr)
    print(failure, file=sys.stderr)


def _prompt(spark: SparkSession, state: str) -> int:
    """Ask for statements until the end of input; errors are shown and do not end it."""
    _use_history()
    print(f"spark_incr {__version__} on Spark {spark.version}, state in {state}")
    print("A statement ends with ; and may take several lines. Ctrl-D ends.\n")
    script = ""
    while True:
        try:
            script += input("   -> " if script else "incr> ") + "\n"
        except KeyboardInterrupt:
            print()
            script = ""
            continue
        except EOFError:
            print()
            return 0
        if script.strip().lower().rstrip(";") in ("exit", "quit"):
            return 0
        if not is_complete(script):
            continue
        with contextlib.suppress(KeyboardInterrupt):
            for statement in split_statements(script):
                if not _run(spark, statement, script):
                    break
        script = ""


def _use_history() -> None:
    """Line editing, and lines that outlive the session, where Python has them."""
    try:
        import readline
    except ImportError:
        return
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    path = home / "spark_incr" / "history"
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        readline.read_history_file(path)
        readline.set_history_length(10_000)
        atexit.register(readline.write_history_file, path)
