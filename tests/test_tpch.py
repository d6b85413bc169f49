"""TPC-H: all 22 queries as views, under batches that insert, delete and update rows of every table."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import spark_incr
from spark_incr.plan.types import Field, arrow_schema
from tests.oracle import compare_bags

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
    directory = tmp_path_factory.mktemp("tpch")
    generator = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent))
    assert generator is not None, "tpchgen-cli is installed with the extra dev"
    command = [generator, "parquet", "-s", SCALE, f"--output-dir={directory}"]
    subprocess.run(command, check=True, capture_output=True)
    return {path.stem: _plain(pq.read_table(path)) for path in sorted(directory.glob("*.parquet"))}


def _plain(table: pa.Table) -> pa.Table:
    text = (pa.types.is_string_view, pa.types.is_large_string)
    return table.cast(
        pa.schema(
            [
                pa.field(f.name, pa.string())
                if any(is_(f.type) for is_ in text)
                else f.with_nullable(True)
                for f in table.schema
            ]
        )
    )


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
            columns = ", ".join(f"{f.name} {_sql_type(f.type)}" for f in table.schema)
            spark.sql(f"CREATE INCREMENTAL TABLE {name} ({columns})")
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


def _sql_type(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return {"int32": "INT", "int64": "BIGINT", "string": "STRING", "date32[day]": "DATE"}[
        str(type_)
    ]
