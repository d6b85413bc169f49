"""`spark-incr demo`: a small shop."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from typing import Any

from spark_incr.cli.session import add_conf_option, session


def add_commands(commands: Any) -> None:
    demo = commands.add_parser("demo", help="maintain the views of a small shop")
    demo.add_argument("--state", help="state directory (a temporary one)")
    demo.add_argument("--rows", type=_rows, default=100_000, help="orders (%(default)s)")
    add_conf_option(demo)
    demo.set_defaults(run=_run)


def _rows(text: str) -> int:
    rows = int(text)
    if rows < 1_000:
        raise argparse.ArgumentTypeError("the shop needs at least 1000 orders")
    return rows


def _run(options: argparse.Namespace) -> int:
    from spark_incr.demo import run_demo

    with contextlib.ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="spark_incr_demo_")
        state = options.state or stack.enter_context(temporary)
        # What Spark keeps for tables of its own is never filled.
        warehouse = stack.enter_context(tempfile.TemporaryDirectory(prefix="spark_incr_demo_"))
        confs = [("spark.sql.warehouse.dir", warehouse), *options.conf]
        spark = stack.enter_context(session(state, confs))
        return 0 if run_demo(spark, options.rows) else 1
