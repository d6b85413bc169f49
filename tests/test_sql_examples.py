"""Every script in sql_examples/ runs as `spark-incr sql` runs it, and its views are always right.

After each statement that makes a version, every view is compared with its query, run by a session
of Spark that has the tables' rows as plain temporary views and knows nothing of the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyspark.sql.functions as F
import pytest
from pyspark.sql import DataFrame, SparkSession

import spark_incr
from spark_incr.cli.sql import run_statement
from spark_incr.engine import Engine
from spark_incr.plan.types import Field, arrow_schema
from spark_incr.sql.split import split_statements
from tests.bags import compare_bags
from tests.oracle import EPSILON

EXAMPLES = sorted((Path(__file__).parent.parent / "sql_examples").glob("*.sql"))
# Spark's own noise where a sum of the examples cancels: ε times the greatest number in them.
ABSOLUTE = EPSILON * 1e4
_STEP = "__step"


@dataclass(frozen=True)
class Step:
    """A view after a statement: as the engine has it, and as Spark will compute it."""

    statement: str
    actual: pa.Table
    expected: DataFrame


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    enabled = spark_incr.enable(spark.newSession(), tmp_path / "state")
    yield enabled
    spark_incr.disable(enabled)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 10
    assert [int(path.name[:2]) for path in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))
    for path in EXAMPLES:
        assert path.read_text(encoding="utf-8").startswith("-- "), f"{path.name} says nothing"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, session: SparkSession, spark: SparkSession) -> None:
    script = path.read_text(encoding="utf-8")
    engine, plain = spark_incr.engine(session), spark.newSession()
    steps: dict[str, list[Step]] = {}
    version = engine.version
    for statement in split_statements(script):
        assert run_statement(session, statement, script), statement.text
        if engine.version == version:
            continue
        version = engine.version
        for key, step in recomputed(engine, plain, statement.text):
            steps.setdefault(key, []).append(step)
    assert steps, "the example maintains nothing"
    for found in steps.values():
        compare(found)


def recomputed(engine: Engine, plain: SparkSession, statement: str) -> Iterator[tuple[str, Step]]:
    """Each view by its definition, and its recomputation over the rows that the tables have."""
    for relation in engine.relations:
        if relation.stored is None:
            rows = engine.table(relation.name).to_arrow()
            plain.createDataFrame(rows).createOrReplaceTempView(relation.name)
            continue
        names = [field.name for field in relation.schema]
        expected = plain.sql(relation.stored.statement.query_text).toDF(*names)
        expected.createOrReplaceTempView(relation.name)
        actual = engine.view(relation.name).to_arrow()
        yield relation.stored.text, Step(statement, actual, expected)


def compare(steps: list[Step]) -> None:
    """Compare all steps of a view by one query of Spark."""
    numbered = [s.expected.withColumn(_STEP, F.lit(i)) for i, s in enumerate(steps)]
    everything = reduce(DataFrame.unionAll, numbered).toArrow()
    of_step = everything.column(_STEP).to_numpy()
    for number, step in enumerate(steps):
        fields = [Field(f.name, f.dataType) for f in step.expected.schema.fields]
        assert step.actual.schema == arrow_schema(tuple(fields))
        expected = everything.filter(pa.array(of_step == number)).drop_columns([_STEP])
        difference = compare_bags(expected, step.actual, frozenset(), ABSOLUTE)
        assert not difference, f"after {step.statement}\n{difference}"
