"""Many small commits: the number of files, the memory and the time of a commit stay bounded.

`python -m tests.reliability.soak --commits 10000` prints the figures of docs/reliability.md.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import spark_incr
from spark_incr.engine import Engine
from spark_incr.text_table import text_table
from tests.sources.streams import put

VIEWS = {
    "totals": "SELECT k, count(*) AS n, sum(x) AS s FROM t GROUP BY k",
    "extremes": "SELECT k, max(x) AS hi, count(DISTINCT x) AS d FROM t GROUP BY k",
    "joined": "SELECT t.k, x, y FROM t JOIN s ON t.k = s.k",
    "over_totals": "SELECT sum(s) AS s, count(*) AS n FROM totals",
}


@dataclass(frozen=True)
class Sample:
    """A stretch of commits: medians and what there is at its end."""

    commits: int
    commit_ms: float
    slowest_ms: float
    files: int
    megabytes: float
    manifest_bytes: int
    resident_megabytes: float


def prepare(engine: Engine, inbox: Path) -> None:
    spark = engine.spark
    inbox.mkdir()
    spark.sql("CREATE INCREMENTAL TABLE t (k BIGINT, x BIGINT)")
    spark.sql(
        f"CREATE INCREMENTAL SOURCE s (k BIGINT, y BIGINT) USING json OPTIONS (path '{inbox}')"
    )
    for name, query in VIEWS.items():
        spark.sql(f"CREATE INCREMENTAL VIEW {name} AS {query}")


class Soak:
    """Rows come and go, so that the tables keep their size; now and then a file arrives."""

    def __init__(self, engine: Engine, inbox: Path) -> None:
        self.engine, self.inbox = engine, inbox
        self._random = np.random.default_rng(1)
        self.rows = pa.table({c: pa.array([], pa.int64()) for c in "kx"})
        self.commits = 0

    def run(self, commits: int) -> Sample:
        times = []
        for _ in range(commits):
            arriving = pa.table({c: self._random.integers(0, 500, 10) for c in "kx"})
            leaving = np.zeros(self.rows.num_rows, dtype=np.bool_)
            if self.rows.num_rows > 2_000:
                leaving[self._random.choice(self.rows.num_rows, 10, replace=False)] = True
            batch = {"insert": arriving, "delete": self.rows.filter(pa.array(leaving))}
            began = time.perf_counter()
            self.engine.commit({"t": batch})
            times.append((time.perf_counter() - began) * 1e3)
            self.rows = pa.concat_tables([self.rows.filter(pa.array(~leaving)), arriving])
            self.commits += 1
            if self.commits % 50 == 0:
                self.rows = self.rows.combine_chunks()
                put(self.inbox, [{"k": int(self._random.integers(0, 500)), "y": 1}])
                self.engine.process_available()
        return self._sample(times)

    def _sample(self, times: list[float]) -> Sample:
        files = [entry for entry in os.scandir(self.engine.path) if entry.is_file()]
        manifest = max(entry.name for entry in files if entry.name.startswith("manifest"))
        status = Path("/proc/self/status").read_text()
        resident = next(int(x.split()[1]) for x in status.splitlines() if x.startswith("VmRSS"))
        return Sample(
            self.commits,
            median(times),
            max(times),
            len(files),
            sum(entry.stat().st_size for entry in files) / 1e6,
            (self.engine.path / manifest).stat().st_size,
            resident / 1e3,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=10_000)
    options = parser.parse_args()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    with tempfile.TemporaryDirectory() as directory:
        spark = spark_incr.session(Path(directory) / "state", builder)
        engine = spark_incr.engine(spark)
        prepare(engine, Path(directory) / "in")
        soak = Soak(engine, Path(directory) / "in")
        samples = [soak.run(options.commits // 10) for _ in range(10)]
        columns = [
            "commits",
            "median ms",
            "slowest ms",
            "files",
            "MB on disk",
            "manifest bytes",
            "resident MB",
        ]
        print(text_table(columns, [[round(v, 1) for v in vars(s).values()] for s in samples]))
        spark.stop()


if __name__ == "__main__":
    main()
