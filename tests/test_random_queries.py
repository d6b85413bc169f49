"""Random queries over random data: after every batch the view equals Spark's recompute.

`python -m tests.fuzz` runs the same with as many examples as one likes. What it has found is in
tests/fixtures/random/ and is run for ever.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.fuzz import FAMILY, VARIANTS, report, run
from tests.recorded import read_example

EXAMPLES = 200
FIXTURES = Path(__file__).parent / "fixtures" / "random"


# The number is a seed and has no smaller neighbour: `report` does the shrinking.
@pytest.mark.fuzz
@settings(
    max_examples=EXAMPLES // FAMILY,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    deadline=None,
)
@given(number=st.integers(0, 2**48))
def test_random_queries(spark: SparkSession, number: int) -> None:
    if failure := report(spark, number):
        pytest.fail(failure, pytrace=False)


RECORDED = sorted(FIXTURES.glob("*.json"))


@pytest.mark.parametrize(("number", "path"), enumerate(RECORDED), ids=[p.stem for p in RECORDED])
def test_recorded_queries(spark: SparkSession, number: int, path: Path) -> None:
    example = read_example(json.loads(path.read_text()))
    run(spark, example)
    run(spark, example, VARIANTS[1 + number % (len(VARIANTS) - 1)])
