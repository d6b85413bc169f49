"""`spark-incr dbt`: dbt with its method `session`, in a session that knows incremental views."""

from __future__ import annotations

import argparse
from typing import Any

from spark_incr.cli.models import shared_engine
from spark_incr.cli.session import add_session_options
from spark_incr.errors import error


def add_commands(commands: Any) -> None:
    dbt = commands.add_parser("dbt", help="run dbt over a state directory, without a server")
    add_session_options(dbt)
    dbt.add_argument("arguments", nargs=argparse.REMAINDER, help="what dbt is to do: run, test ...")
    dbt.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        from dbt.cli.main import dbtRunner
    except ModuleNotFoundError as missing:
        raise error(
            "INCR_MODEL",
            model="dbt",
            what=f"the package {missing.name} is missing",
            hint="pip install 'spark_incr[dbt]'",
        ) from missing
    arguments = [word for word in options.arguments if word != "--"]
    with shared_engine(options):
        result = dbtRunner().invoke(arguments)
    if result.exception is not None:
        print(result.exception)
    return 0 if result.success else 1
