"""One plain Spark session for the whole run, and the options every test file may use."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from py4j.java_gateway import JavaPackage, JVMView
from pyspark.sql import SparkSession
from pyspark.traceback_utils import SCCallSiteSync

from spark_incr.java import ensure_java
from tests.calling import CommandLine
from tests.class_archive import ARCHIVE

ORDINARY_EXAMPLES = 200

# For every Spark that a test starts, in this process or in another. Each query runs once, so time that
# the optimizing compiler spends on Spark's own code is lost, too.
JAVA_OPTIONS = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
    f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable"
)

# Files of tests are not meant to last; in memory they cost less, if there is room for them.
SCRATCH = Path("/dev/shm")
SCRATCH_BYTES = 4 << 30

# Two workers share the files in order. A long one that begins last is run by one of them alone.
LONG_FILES = frozenset(
    f"test_{name}.py"
    for name in """
    char cli collations constructs dbt full intervals models random_queries server table_functions
    tpch types views
    """.split()
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")
    parser.addoption(
        "--fuzz",
        type=int,
        default=ORDINARY_EXAMPLES,
        metavar="N",
        help="examples per property that sets no number of its own",
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile(
        "spark_incr",
        max_examples=config.getoption("--fuzz"),
        deadline=None,  # an example may hold a Spark query, whose time says nothing
        # A change is judged by the same examples every time; `make fuzz` looks for others.
        derandomize="CI" in os.environ,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )
    settings.load_profile("spark_incr")
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA_OPTIONS)
    os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark_conf"))
    if os.access(SCRATCH, os.W_OK) and shutil.disk_usage(SCRATCH).free >= SCRATCH_BYTES:
        for variable in ("TMPDIR", "SPARK_LOCAL_DIRS"):
            os.environ.setdefault(variable, str(SCRATCH))
        tempfile.tempdir = None  # it is read from the environment again
    for kind in (JVMView, JavaPackage):
        kind.__getattr__ = _remembered(kind.__getattr__)
    # Nobody asks from which line of Python a job came.
    SCCallSiteSync.__init__ = SCCallSiteSync.__enter__ = SCCallSiteSync.__exit__ = _nothing


def _remembered(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """A name of Java's is looked for in all of Spark's jars each time; its meaning stays the same."""

    def found(place: Any, name: str) -> Any:
        place.__dict__[name] = look_up(place, name)
        return place.__dict__[name]

    return found


def _nothing(*_: object) -> None:
    """In place of what only costs time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONG_FILES)


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten instead of compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that knows nothing of incremental views: the oracle."""
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("spark_incr tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        # Tables are tiny: each further task, and a job that broadcasts one side of a join, cost more
        # than all rows.
        .config("spark.sql.leafNodeDefaultParallelism", "1")
        .config("spark.sql.autoBroadcastJoinThreshold", "-1")
        # Nobody looks at past jobs, at their plans, or at the lines of Python that a column came from.
        .config("spark.sql.ui.explainMode", "simple")
        .config("spark.ui.retainedJobs", "10")
        .config("spark.ui.retainedStages", "10")
        .config("spark.ui.retainedTasks", "100")
        .config("spark.sql.ui.retainedExecutions", "10")
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        .config("spark.python.daemon.module", "tests.python_daemon")
        .config("spark.driver.memory", "4g")
        # Plans live until their test ends, and no longer; what is called a few times here is called
        # for a quarter of an hour, so it is compiled early.
        .config("spark.driver.extraJavaOptions", "-Xms4g -Xmn2g -XX:CompileThresholdScaling=0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    # Spark walks its stack for the name of each RDD that has none.
    for form in ("short", "long"):
        session.sparkContext.setLocalProperty(f"callSite.{form}", "a test")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def command_line() -> Iterator[CommandLine]:
    """`spark-incr`, for commands that need no process of their own."""
    started = CommandLine()
    yield started
    started.close()
