"""README's first example runs as pasted, and its state outlives the process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
AGAIN = """
import spark_incr
spark = spark_incr.session(state="./shop")
spark.sql("SELECT * FROM revenue ORDER BY customer").show()
"""


def run(code: str, folder: Path) -> str:
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(README.parent)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def tables(shown: str) -> list[list[list[str]]]:
    """The rows of each table that Spark's `show` printed."""
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]
        for body in re.findall(r"\+\n\|.*\|\n\+[-+]*\+\n((?:\|.*\|\n)*)", shown)
    ]


def test_the_first_example(tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    after_insert, at_the_end = tables(run(example.group(1), tmp_path))[:2]
    assert sorted(after_insert) == [
        ["ada", "2", "12.25", "6.125000", "10.00"],
        ["bob", "1", "5.50", "5.500000", "5.50"],
    ]
    assert sorted(at_the_end) == [
        ["ada", "1", "10.00", "10.000000", "10.00"],
        ["bob", "1", "7.00", "7.000000", "7.00"],
        ["cyd", "1", "1.00", "1.000000", "1.00"],
    ]
    assert tables(run(AGAIN, tmp_path)) == [sorted(at_the_end)]
