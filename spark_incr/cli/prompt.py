r"""The prompt: statements of any number of lines, and a few commands that begin with a backslash.

A command is obeyed at once; a statement that was begun stays and can be gone on with.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import spark_incr
from spark_incr.cli.sql import Shown, read_script, run_all, stopped_by
from spark_incr.errors import IncrementalError
from spark_incr.sql.names import quote_name
from spark_incr.sql.split import is_complete, is_open, split_statements
from spark_incr.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HELP = r"""
A statement ends with ; and may take several lines. Ctrl-C forgets it, or stops one that runs.

  \d            tables, sources and views      \i FILE       run a script
  \d NAME       columns and facts              \timing       times on and off
  \dt \ds \dv   tables, sources, views         \x            rows as records, on and off
  \e NAME       how a view is maintained       \?            this help
  \sql NAME     the SQL texts of its stages    \q            quit
  \s NAME       the statement that made it

CREATE INCREMENTAL TABLE t (id BIGINT, ..., PRIMARY KEY (id));
CREATE [OR REPLACE] INCREMENTAL VIEW v AS SELECT ...;
INSERT INTO t ...; UPDATE t SET ...; DELETE FROM t ...; MERGE INTO t ...;
""".strip()

# What lists relations, and what says something of one
_LISTS = {"\\dt": ("table",), "\\ds": ("source",), "\\dv": ("view",)}
_ABOUT = {
    "\\d": "DESCRIBE EXTENDED INCREMENTAL {kind} {name};",
    "\\e": "EXPLAIN INCREMENTAL VIEW {name};",
    "\\sql": "EXPLAIN SQL INCREMENTAL VIEW {name};",
    "\\s": "SHOW CREATE INCREMENTAL {kind} {name};",
}


def prompt(spark: SparkSession, state: str) -> int:
    """Ask for statements until the end of input; errors are shown and do not end it."""
    _use_history()
    print(f"spark_incr {__version__} on Spark {spark.version}, state in {state}")
    print("A statement ends with ; and may take several lines. \\? helps, Ctrl-D ends.\n")
    script, shown = "", Shown()
    while True:
        try:
            line = input("   -> " if script else "incr> ")
        except KeyboardInterrupt:
            print()
            script = ""
            continue
        except EOFError:
            print()
            return 0
        word = line.strip().rstrip(";").rstrip().lower()
        if word == "\\q" or (not script and word in ("exit", "quit")):
            return 0
        try:
            if not script and word == "help":
                print(HELP)
            elif line.lstrip().startswith("\\") and not is_open(script):
                obey(spark, line, shown)
            else:
                script += line + "\n"
                if is_complete(script):
                    begun, script = script, ""
                    _run_all(spark, begun, shown)
        except KeyboardInterrupt:
            print("interrupted\n")


def obey(spark: SparkSession, line: str, shown: Shown) -> None:
    """Carry out a backslash command."""
    word, _, name = line.strip().removesuffix(";").partition(" ")
    name = name.strip()
    if word in ("\\?", "\\h"):
        print(HELP)
    elif word == "\\timing":
        shown.timing = _switched(shown.timing, name)
        print(f"times are {'on' if shown.timing else 'off'}\n")
    elif word == "\\x":
        shown.expanded = _switched(shown.expanded, name)
        print(f"rows are shown as {'records' if shown.expanded else 'a table'}\n")
    elif word == "\\i":
        _run_file(spark, name, shown)
    elif word in _LISTS or (word == "\\d" and not name):
        _list(spark, _LISTS.get(word, ("table", "source", "view")), shown)
    elif word in _ABOUT:
        found = spark_incr.engine(spark).find(name) if name else None
        if found is None:
            missing = f"there is no incremental table, source or view {name}"
            print(missing if name else f"{word} needs a name; \\d lists what there is")
            return
        about = _ABOUT[word].format(kind=found.kind.upper(), name=quote_name(found.name))
        _run_all(spark, about, shown)
    else:
        print(f"{word} is not a command; \\? lists them")


def _switched(now: bool, said: str) -> bool:
    return {"on": True, "off": False}.get(said.lower(), not now)


def _list(spark: SparkSession, kinds: tuple[str, ...], shown: Shown) -> None:
    relations = spark_incr.engine(spark).relations
    there = [kind for kind in kinds if any(r.kind == kind for r in relations)]
    if not there:
        print(f"there are no incremental {' or '.join(f'{kind}s' for kind in kinds)} yet")
    _run_all(spark, "".join(f"SHOW INCREMENTAL {kind.upper()}S;" for kind in there), shown)


def _run_file(spark: SparkSession, path: str, shown: Shown) -> None:
    if not path:
        print("\\i needs the name of a file")
        return
    unquoted = path[1:-1] if path[0] == path[-1] and path[0] in "'\"" else path
    try:
        script = read_script(os.path.expanduser(unquoted))
    except SystemExit as failure:
        print(failure)
        return
    stopped = _run_all(spark, script, shown)
    if stopped is not None:
        print(stopped_by(unquoted, stopped))


def _run_all(spark: SparkSession, script: str, shown: Shown) -> int | None:
    """Run a script up to its first error; returns the line of the statement that had it."""
    try:
        statements = split_statements(script)
    except IncrementalError as failure:
        print(failure)
        return failure.position.line if failure.position else 1
    return run_all(spark, statements, script, shown)


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
