r"""The prompt: statements of any number of lines, and a few commands that begin with a backslash."""

from __future__ import annotations

import atexit
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from spark_incr.cli.sql import read_script, run_statement
from spark_incr.errors import IncrementalError
from spark_incr.sql.names import quote_name
from spark_incr.sql.split import ScriptStatement, is_complete, split_statements
from spark_incr.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HELP = r"""
A statement ends with ; and may take several lines.

  \d          tables and views              \q          quit
  \d NAME     columns and facts             \timing     times on and off
  \dt  \dv    tables, views                 \i FILE     run a script
  \e NAME     how a view is maintained      \?          this help
  \sql NAME   the SQL texts of its stages
  \s NAME     the statement that made it

CREATE INCREMENTAL TABLE t (id BIGINT, ..., PRIMARY KEY (id));
CREATE [OR REPLACE] INCREMENTAL VIEW v AS SELECT ...;
INSERT INTO t ...; UPDATE t SET ...; DELETE FROM t ...; MERGE INTO t ...;
""".strip()


def prompt(spark: SparkSession, state: str) -> int:
    """Ask for statements until the end of input; errors are shown and do not end it."""
    _use_history()
    print(f"spark_incr {__version__} on Spark {spark.version}, state in {state}")
    print("A statement ends with ; and may take several lines. \\? helps, Ctrl-D ends.\n")
    script, timing = "", True
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
        line = script.strip()
        if line.lower().rstrip(";") in ("exit", "quit", "\\q"):
            return 0
        if line == "\\timing":
            timing, script = not timing, ""
            print(f"times are {'on' if timing else 'off'}\n")
            continue
        if line.startswith("\\"):
            script = command(spark, line)
        elif not is_complete(script):
            continue
        try:
            _run_all(spark, script, timing)
        except KeyboardInterrupt:
            print("interrupted\n")
        script = ""


def command(spark: SparkSession, line: str) -> str:
    """The statements that a backslash command stands for; help and complaints are printed."""
    import spark_incr

    word, _, name = line.removesuffix(";").partition(" ")
    name = name.strip()
    if word == "\\i" and name:
        try:
            return read_script(name)
        except SystemExit as failure:
            print(failure)
            return ""
    if word in ("\\d", "\\dt", "\\dv") and not name:
        shown = {"\\d": ("TABLES", "VIEWS"), "\\dt": ("TABLES",), "\\dv": ("VIEWS",)}[word]
        return "".join(f"SHOW INCREMENTAL {kind};" for kind in shown)
    found = spark_incr.engine(spark).find(name) if name else None
    if word in ("\\d", "\\e", "\\sql", "\\s") and name and found is None:
        print(f"there is no incremental table or view {name}")
        return ""
    if found is not None:
        kind = "TABLE" if found.stored is None else "VIEW"
        quoted = quote_name(found.name)
        statements = {
            "\\d": f"DESCRIBE EXTENDED INCREMENTAL {kind} {quoted};",
            "\\e": f"EXPLAIN INCREMENTAL VIEW {quoted};",
            "\\sql": f"EXPLAIN SQL INCREMENTAL VIEW {quoted};",
            "\\s": f"SHOW CREATE INCREMENTAL {kind} {quoted};",
        }
        if word in statements:
            return statements[word]
    print(HELP if word in ("\\?", "\\h") else f"{word} is not a command; \\? lists them")
    return ""


def _run_all(spark: SparkSession, script: str, timing: bool) -> None:
    try:
        statements: tuple[ScriptStatement, ...] = split_statements(script)
    except IncrementalError as failure:
        print(failure)
        return
    for statement in statements:
        if not run_statement(spark, statement, script, timing=timing):
            break


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
