"""`spark-incr explain`: how a view is maintained, or the models of a folder would be."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_incr.cli.models import (
    add_naming_options,
    load_models,
    rehearsal,
    shared_engine,
    write_picture,
)
from spark_incr.cli.session import add_session_options
from spark_incr.errors import error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def add_commands(commands: Any) -> None:
    explain = commands.add_parser("explain", help="show how a view or a folder is maintained")
    explain.add_argument("target", help="a view, or a folder of models")
    explain.add_argument("--svg", metavar="FILE", help="draw the plan of the view")
    explain.add_argument("--sql", action="store_true", help="show the SQL texts of the stages")
    add_naming_options(explain)
    add_session_options(explain)
    explain.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    mode = "SQL " if options.sql else ""
    if Path(options.target).is_dir():
        return _explain_models(options, mode)
    if not Path(options.state).is_dir():
        raise error("INCR_STATE_NOT_FOUND", path=options.state)
    with shared_engine(options) as shared:
        from spark_incr.serve.execute import view_picture
        from spark_incr.sql.names import quote_name

        view = shared.engine.relation_named(options.target, "view")
        if options.svg is not None:
            write_picture(options.svg, view_picture(view))
        text = f"EXPLAIN {mode}INCREMENTAL VIEW {quote_name(view.name)}"
        print(_answer(shared.spark, text))
    return 0


def _explain_models(options: argparse.Namespace, mode: str) -> int:
    if options.svg is not None:
        raise SystemExit(
            "spark-incr: --svg draws one view; `spark-incr ls FOLDER --svg` draws models"
        )
    models = load_models(options.target, options.schema, options.vars)
    with rehearsal(options) as shared:
        from spark_incr.models.run import run

        for name, _ in run(shared.engine, shared.spark, models):
            text = models.statements[name].text
            create = text.replace("CREATE OR REPLACE", f"EXPLAIN {mode}CREATE", 1)
            print(f"-- {name}")
            print(f"{_answer(shared.spark, create)}\n", flush=True)
    return 0


def _answer(spark: SparkSession, statement: str) -> str:
    return "\n".join(row[0] for row in spark.sql(statement).collect())
