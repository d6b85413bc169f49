"""The classes of Spark that a session loads, as an archive from which a JVM starts in half the time.

`python -m tests.class_archive` writes it into the virtual environment, and `tests/conftest.py` gives it
to each Spark that a test starts. Only the Java that wrote it reads it; any other passes over it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext

import spark_incr

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
_STATEMENTS = """
CREATE INCREMENTAL TABLE t (k INT, x DOUBLE, PRIMARY KEY (k));
CREATE INCREMENTAL VIEW v AS SELECT k % 2 AS p, count(*) AS n, max(x) AS m FROM t GROUP BY k % 2;
INSERT INTO t VALUES (1, 2.0), (2, 3.5);
UPDATE t SET x = sqrt(x) WHERE k = 1;
SELECT v.n, t.x FROM v JOIN t ON t.k = v.p ORDER BY 1
"""


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.prefix) as folder:
        written = Path(folder) / "classes.jsa"
        options = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xlog:disable"
        os.environ["SPARK_SUBMIT_OPTS"] = f"{options} -XX:ArchiveClassesAtExit={written}"
        spark = spark_incr.session(state=str(Path(folder) / "state"))
        for statement in _STATEMENTS.split(";"):
            spark.sql(statement).collect()
        gateway: Any = SparkContext._gateway
        spark.stop()
        # Java writes the archive when it ends, and it ends with its input.
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        written.replace(ARCHIVE)


if __name__ == "__main__":
    main()
