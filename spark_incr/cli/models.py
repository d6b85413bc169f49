"""`spark-incr run`, `dry-run` and `ls`: folders of model files."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_incr.cli.session import CONFS, add_session_options, tell_progress
from spark_incr.errors import error
from spark_incr.serve.questions import silence_spark
from spark_incr.text_table import text_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_incr.engine import Engine
    from spark_incr.models.run import Models
    from spark_incr.serve.shared import SharedEngine


def add_commands(commands: Any) -> None:
    run = commands.add_parser("run", help="bring the views of a folder of models up to date")
    run.add_argument("--full-refresh", action="store_true", help="rebuild every view")
    run.set_defaults(run=_run)
    dry = commands.add_parser("dry-run", help="show what `run` would do, and change nothing")
    dry.set_defaults(run=_dry_run)
    for command in (run, dry):
        add_session_options(command)
    ls = commands.add_parser("ls", help="list the models of a folder and what they read")
    ls.add_argument("--svg", metavar="FILE", help="draw the graph, too")
    ls.set_defaults(run=_ls)
    for command in (run, dry, ls):
        add_model_options(command)


def add_model_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("folder", help="the folder of the model files")
    add_naming_options(command)


def add_naming_options(command: argparse.ArgumentParser) -> None:
    """What the models of a folder are rendered with."""
    command.add_argument("--schema", default="default", help="where the views go (%(default)s)")
    command.add_argument(
        "--vars", type=_variables, default={}, metavar="JSON", help='values of var(): {"name": 1}'
    )


def _variables(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as failure:
        raise argparse.ArgumentTypeError(f"{text} is not JSON: {failure}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text} is not an object")
    return found


def load_models(folder: str, schema: str, variables: dict[str, Any]) -> Models:
    """The models of a folder; the packages that this takes may be missing."""
    try:
        from spark_incr.models.run import load
    except ModuleNotFoundError as missing:
        raise error(
            "INCR_MODEL",
            model=folder,
            what=f"the package {missing.name} is missing",
            hint="pip install 'spark_incr[models]'",
        ) from missing
    return load(folder, schema, variables)


@contextlib.contextmanager
def rehearsal(options: argparse.Namespace) -> Iterator[SharedEngine]:
    """An engine with the relations of the state, without their rows, where nothing lasts."""
    from spark_incr.models.rehearsal import copy_definitions

    with tempfile.TemporaryDirectory(prefix="spark_incr_") as folder:
        copy = Path(folder) / "state"
        copy_definitions(Path(options.state), copy)
        with shared_engine(argparse.Namespace(state=copy, conf=options.conf)) as shared:
            yield shared


@contextlib.contextmanager
def shared_engine(options: argparse.Namespace) -> Iterator[SharedEngine]:
    """An engine whose relations are tables of Spark's catalog, as models name them."""
    from spark_incr.serve.shared import SharedEngine

    silence_spark()
    with tempfile.TemporaryDirectory(prefix="spark_incr_") as warehouse:
        confs = {**CONFS, "spark.sql.warehouse.dir": warehouse, **dict(options.conf)}
        shared = SharedEngine(Path(options.state), confs)
        tell_progress()
        try:
            yield shared
        finally:
            shared.close()


def bring_up_to_date(
    engine: Engine, spark: SparkSession, models: Models, full_refresh: bool = False
) -> None:
    """Run models and tell what was done."""
    from spark_incr.models.run import run

    began = time.perf_counter()
    rows = []
    for name, done in run(engine, spark, models, full_refresh):
        spent = time.perf_counter() - began
        rows.append([name, done, f"{spent:.2f}"] if sys.stdout.isatty() else [name, done])
        began = time.perf_counter()
    columns = ["model", "done", "seconds"] if sys.stdout.isatty() else ["model", "done"]
    print(text_table(columns, rows), flush=True)


def _run(options: argparse.Namespace) -> int:
    models = load_models(options.folder, options.schema, options.vars)
    with shared_engine(options) as shared:
        bring_up_to_date(shared.engine, shared.spark, models, options.full_refresh)
    return 0


def _dry_run(options: argparse.Namespace) -> int:
    from spark_incr.models.run import run

    models = load_models(options.folder, options.schema, options.vars)
    with rehearsal(options) as shared:
        for name, done in run(shared.engine, shared.spark, models):
            print(f"-- {name}: {done}")
            if done in ("create", "replace"):
                print(f"{models.statements[name].text};\n", flush=True)
    return 0


def _ls(options: argparse.Namespace) -> int:
    models = load_models(options.folder, options.schema, options.vars)
    from spark_incr.models.run import graph_svg, graph_text

    print(graph_text(models))
    if options.svg is not None:
        head = f"Models in {Path(options.folder).resolve().name}/"
        write_picture(options.svg, graph_svg(models, head))
    return 0


def write_picture(path: str, svg: str) -> None:
    """Write a picture and say so, or end the command."""
    try:
        Path(path).write_text(svg, encoding="utf-8")
    except OSError as failure:
        raise SystemExit(f"spark-incr: {path} cannot be written: {failure.strerror}") from None
    print(f"spark-incr: drew {path}", file=sys.stderr)
