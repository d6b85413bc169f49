"""`spark-incr` as a process that takes one command after the other, so that Java starts once.

Each call is what a process of its own would do: it opens a session, works on its state and stops it.
`tests/test_cli.py` has the commands that get a process for themselves.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spark_incr.cli import main


class CommandLine:
    """The process; calling it runs a command and gives what it printed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.calling"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )

    def __call__(
        self, *arguments: str, cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        place = None if cwd is None else str(cwd)
        print(json.dumps([arguments, place, variables]), file=self._process.stdin, flush=True)
        status, stdout, stderr = json.loads(self._process.stdout.readline())
        return subprocess.CompletedProcess(list(arguments), status, stdout, stderr)

    def close(self) -> None:
        self._process.communicate()


@contextlib.contextmanager
def _within(cwd: str | None, variables: dict[str, str]) -> Iterator[None]:
    place, before = Path.cwd(), dict(os.environ)
    os.environ.update(variables)
    os.chdir(cwd or place)
    try:
        yield
    finally:
        os.chdir(place)
        os.environ.clear()
        os.environ.update(before)


def _called(arguments: list[str]) -> tuple[int, str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            status = main(arguments)
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
    return status, stdout.getvalue(), stderr.getvalue()


def _serve() -> None:
    # Java writes to the streams that it finds; answers have one of their own.
    answers: Any = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        arguments, cwd, variables = json.loads(line)
        with _within(cwd, variables):
            answer = _called(arguments)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
