"""What the documents tell a reader to type is what there is to type, and gives what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from spark_incr.cli import parser
from spark_incr.sql.parse import parse_statement
from spark_incr.sql.split import split_statements
from tests.calling import CommandLine

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Its blocks are a grammar, and have a test of their own.
REFERENCE = "sql-reference.md"


def commands() -> list[str]:
    """The lines of code that call `spark-incr`; those with brackets show usage."""
    lines = [line for path in DOCUMENTS for line in path.read_text(encoding="utf-8").split("\n")]
    found = [re.search(r"^    .*?(spark-incr .*)", line) for line in lines]
    return [match[1] for match in found if match and "[-" not in match[1]]


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_every_command_is_one_that_there_is(line: str) -> None:
    program, *arguments = shlex.split(line, comments=True)
    if program == "spark-incr" and arguments:
        parser().parse_args(arguments)


def test_every_statement_can_be_read() -> None:
    read = 0
    for path in DOCUMENTS:
        blocks = re.findall(r"```sql\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
        for block in blocks if path.name != REFERENCE else ():
            read += sum(parse_statement(s.text) is not None for s in split_statements(block))
    assert read


def test_the_prompt_of_getting_started(tmp_path: Path, command_line: CommandLine) -> None:
    text = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
    script = "\n".join(re.findall(r"^ +(?:incr>|->) (.*)$", text, re.MULTILINE))
    assert script.count(";") == 4
    found = command_line("sql", "-e", script, "--state", str(tmp_path / "shop"))
    assert found.returncode == 0, found.stderr
    rows = [line.split() for line in found.stdout.splitlines()[-2:]]
    assert sorted(rows) == [["ada", "1", "10.00"], ["bob", "1", "5.50"]]
