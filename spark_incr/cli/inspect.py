"""`spark-incr check` and `spark-incr state`: a state directory, verified and measured."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_incr.progress import show_progress
from spark_incr.text_table import text_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_incr.inspection import Finding

OpenSession = Callable[[str, Any], AbstractContextManager["SparkSession"]]


def add_commands(commands: Any, session: OpenSession) -> list[argparse.ArgumentParser]:
    """Add both commands to a command line; `session` opens a session over a state."""
    check = commands.add_parser("check", help="verify the checksums of a state, and its views")
    check.add_argument("--state", default="spark_incr_state", help="state directory (%(default)s)")
    check.add_argument(
        "--recompute", action="store_true", help="compare every view with its query, by Spark"
    )
    check.set_defaults(run=lambda options: _check(options, session))
    state = commands.add_parser("state", help="print sizes by table, view and stage")
    state.add_argument("--state", default="spark_incr_state", help="state directory (%(default)s)")
    state.set_defaults(run=_state)
    return [check]


def _check(options: argparse.Namespace, session: OpenSession) -> int:
    from spark_incr.inspection import check_files

    progress = partial(show_progress, unit="segments")
    problems = sum(map(_report, check_files(Path(options.state), progress)))
    if options.recompute and not problems:
        problems += sum(map(_report, _recomputed(options, session)))
    print(f"{problems} problem{'s' * (problems != 1)} found")
    return 1 if problems else 0


def _recomputed(options: argparse.Namespace, session: OpenSession) -> Iterator[Finding]:
    import spark_incr
    from spark_incr.inspection import check_views

    with session(options.state, options.conf) as spark:
        yield from check_views(spark_incr.engine(spark), partial(show_progress, unit="views"))


def _report(finding: Finding) -> bool:
    print(f"{finding.what}: {finding.problem}" if finding.problem else f"{finding.what}: ok")
    return bool(finding.problem)


def _state(options: argparse.Namespace) -> int:
    from spark_incr.inspection import sizes

    found = sizes(Path(options.state))
    rows: list[list[object]] = [
        [s.relation, s.kind, s.stage, s.runs, s.rows, s.stored_bytes] for s in found
    ]
    total = ["total", "", "", sum(s.runs for s in found), sum(s.rows for s in found)]
    rows.append([*total, sum(s.stored_bytes for s in found)])
    print(text_table(["relation", "kind", "stage", "runs", "rows", "bytes"], rows))
    return 0
