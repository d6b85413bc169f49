"""`spark-incr serve`: the doors for JDBC, ODBC and Spark Connect."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_incr.cli.models import bring_up_to_date, load_models
from spark_incr.cli.session import CONFS, add_session_options
from spark_incr.cli.sql import read_script, run_all, stopped_by
from spark_incr.serve.questions import silence_spark
from spark_incr.sql.split import split_statements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOGGING = Path(__file__).with_name("log4j2-server.properties")


def add_commands(commands: Any) -> None:
    serve = commands.add_parser("serve", help="serve BI tools and Spark Connect clients")
    add_session_options(serve)
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    serve.add_argument(
        "--thrift-port", type=port_number, default=10000, help="%(default)s; none closes"
    )
    serve.add_argument(
        "--connect-port", type=port_number, default=15002, help="%(default)s; none closes"
    )
    serve.add_argument("--init", metavar="FILE", help="a script to run before the doors open")
    serve.add_argument("--models", metavar="DIR", help="model files to bring up to date first")
    serve.add_argument("--log", metavar="FILE", help="where to log (serve.log in the state)")
    serve.set_defaults(run=_run)


def port_number(text: str) -> int | None:
    if text == "none":
        return None
    port = int(text)
    if not 0 < port < 65536:
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return port


def _run(options: argparse.Namespace) -> int:
    from spark_incr.serve.server import Address, serving

    state = Path(options.state)
    script = None if options.init is None else read_script(options.init)
    models = None if options.models is None else load_models(options.models, "default", {})
    state.mkdir(parents=True, exist_ok=True)
    log = Path(options.log or state / "serve.log").absolute()
    stop = threading.Event()
    _listen(stop)
    with tempfile.TemporaryDirectory(prefix="spark_incr_") as scratch:
        _log_to(log)
        silence_spark()
        given = {**_on_loopback(dict(options.conf)), **dict(options.conf)}
        if given.get("spark.sql.catalogImplementation") != "hive":
            # The catalog lives as long as the server, and with it the tables of Spark's own.
            given.setdefault("spark.sql.warehouse.dir", str(Path(scratch, "warehouse")))
        properties = {
            "log4j2.configurationFile": _LOGGING.as_uri(),
            "spark_incr.log": log,
            "derby.stream.error.file": Path(scratch, "derby.log"),
        }
        java_options = [f'"-D{key}={value}"' for key, value in properties.items()]
        confs = {
            **CONFS,
            "spark.app.name": f"spark-incr serve {options.state}",
            **given,
            _JAVA_OPTIONS: " ".join([*java_options, given.get(_JAVA_OPTIONS, "")]),
        }
        address = Address(options.host, options.thrift_port, options.connect_port, confs)
        for warning in address.warnings():
            print(f"spark-incr: warning: {warning}", file=sys.stderr, flush=True)
        with serving(state, address) as shared:
            _listen(stop)  # again: Spark has taken SIGINT for itself
            if script is not None:
                stopped = run_all(shared.spark, split_statements(script), script)
                if stopped is not None:
                    print(stopped_by(options.init, stopped), file=sys.stderr)
                    return 1
            if models is not None:
                bring_up_to_date(shared.engine, shared.spark, models)
            shared.engine.start()
            _announce(options, log)
            _wait(stop, shared.spark)
            print("stopping", flush=True)
        print(f"stopped at version {shared.engine.version}", flush=True)
    return 0


def _on_loopback(given: Mapping[str, str]) -> dict[str, str]:
    """Settings for a Spark of this machine alone: nobody else reaches its own ports."""
    if not given.get("spark.master", CONFS["spark.master"]).startswith("local"):
        return {}
    return dict.fromkeys(("spark.driver.bindAddress", "spark.driver.host"), "127.0.0.1")


def _announce(options: argparse.Namespace, log: Path) -> None:
    print(f"serving {options.state}, log in {log}")
    if options.thrift_port is not None:
        print(f"  JDBC     jdbc:hive2://{options.host}:{options.thrift_port}")
    if options.connect_port is not None:
        print(f"  Connect  sc://{options.host}:{options.connect_port}")
    print("ready; SIGTERM or Ctrl-C stops", flush=True)


def _wait(stop: threading.Event, spark: SparkSession) -> None:
    """Until the server is to stop; if Spark dies meanwhile, that is an error."""
    gateway: Any = spark.sparkContext._gateway
    while not stop.wait(1.0):
        if gateway.proc.poll() is not None:
            print("spark-incr: Spark has ended; the last version stands", file=sys.stderr)
            sys.stderr.flush()
            os._exit(1)  # an orderly end would wait for an answer of Spark's


def _listen(stop: threading.Event) -> None:
    """Let SIGTERM and Ctrl-C set the event."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())


def _log_to(path: Path) -> None:
    """Send what Python's libraries log to the file that Spark logs to."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.WARNING)
