"""TPC-H: all 22 queries as views, under batches that insert, delete and update rows of every table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import spark_incr
from benchmarks.tpch import ddl, generated
from spark_incr.plan.types import Field, arrow_schema
from tests.bags import compare_bags

SCALE = "0.01"
BATCHES = 10
LOADED = 0.9
QUERIES = {
    path.stem: path.read_text()
    for path in sorted((Path(__file__).parents[1] / "sql_examples" / "tpch").glob("q*.sql"))
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    """The eight tables at the scale of the test."""
    return generated(SCALE, tmp_path_factory.mktemp("tpch"))


def _batches(tables: dict[str, pa.Table]) -> Iterator[dict[str, dict[str, pa.Table]]]:
    """The rest of the rows in equal parts; with each, as many loaded rows go or are replaced."""
    for number in range(BATCHES):
        batch = {}
        for name, table in tables.items():
            loaded = int(table.num_rows * LOADED)
            size = max(1, (table.num_rows - loaded) // BATCHES)
            arriving = table.slice(loaded + number * size, size)
            leaving = table.slice(number * size, size)
            updated = leaving.slice(0, size // 2)
            last = updated.num_columns - 1
            comments = pa.array([f"updated {i}" for i in range(updated.num_rows)], pa.string())
            updated = updated.set_column(last, updated.schema.field(last), comments)
            batch[name] = {"insert": pa.concat_tables([arriving, updated]), "delete": leaving}
        yield batch


def test_every_query_follows_every_table(
    spark: SparkSession, tables: dict[str, pa.Table], tmp_path: Path
) -> None:
    assert len(QUERIES) == 22
    spark_incr.enable(spark, tmp_path / "state")
    try:
        engine = spark_incr.engine(spark)
        for name, table in tables.items():
            spark.sql(f"CREATE INCREMENTAL TABLE {name} ({ddl(table)})")
        engine.commit(
            {n: {"insert": t.slice(0, int(t.num_rows * LOADED))} for n, t in tables.items()}
        )
        for name, query in QUERIES.items():
            spark.sql(f"CREATE INCREMENTAL VIEW {name} AS {query}")
        for number, batch in enumerate(_batches(tables)):
            engine.commit(batch)
            for name, query in QUERIES.items():
                frame = spark.sql(query)
                schema = tuple(Field(f.name, f.dataType) for f in frame.schema.fields)
                expected = frame.toArrow().cast(arrow_schema(schema))
                actual = engine.view(name).to_arrow()
                assert actual.schema.equals(expected.schema), name
                difference = compare_bags(expected, actual, frozenset(), 0.0)
                assert not difference, f"batch {number}, {name}: {difference}"
    finally:
        spark_incr.disable(spark)
