"""The catalogue of conditions: complete, uniform, and raised by name only."""

from __future__ import annotations

import ast
import contextlib
import re
import string
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_incr.errors as errors
from spark_incr.engine import Engine
from spark_incr.errors import CONDITIONS, IncrementalError, Position, error
from spark_incr.sql.parse import parse_statement
from spark_incr.sql.statements import CreateView
from tests.oracle import Model

PACKAGE = Path(errors.__file__).parent
REFERENCE = PACKAGE.parent / "docs" / "sql-reference.md"
TABLE = "| condition | SQLSTATE | message | hint |\n|---|---|---|---|\n"


def raised_conditions() -> set[tuple[str, frozenset[str]]]:
    """Each `error("CONDITION", name=...)` of the package, with the values it passes."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "error"
                and node.args
                and isinstance(node.args[0], ast.Constant)
                and all(keyword.arg for keyword in node.keywords)
            ):
                names = frozenset(str(k.arg) for k in node.keywords)
                found.add((str(node.args[0].value), names - {"detail", "hint", "position"}))
    return found


def placeholders(message: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(message) if name}


@pytest.mark.parametrize("name", CONDITIONS)
def test_message_style(name: str) -> None:
    condition = CONDITIONS[name]
    assert name == name.upper()
    assert not condition.message.endswith(".")
    first = condition.message.split()[0]
    assert first in {"Java", "Spark"} or first[0].islower() or first.startswith("{")
    assert not condition.hint or condition.hint.endswith(".")


def test_errors_of_spark_speak_of_no_name_of_the_engine(
    spark: SparkSession, tmp_path: Path
) -> None:
    with contextlib.closing(Engine(spark, tmp_path)) as engine:
        engine.create_table(Model.of(spark, "t", "a INT", ()).definition)
        spark.createDataFrame([], "a INT").createOrReplaceTempView("t")
        engine.commit({"t": {"insert": pa.table({"a": pa.array([0], pa.int32())})}})
        text = "CREATE INCREMENTAL VIEW v AS SELECT element_at(array(1, 2), a) AS x FROM t"
        statement = parse_statement(text)
        assert isinstance(statement, CreateView)
        with pytest.raises(PySparkException, match="INVALID_INDEX_OF_ZERO") as failure:
            engine.create_view(statement, text)
        assert "__incr_" not in str(failure.value)


def test_conditions_of_spark_have_the_state_that_spark_gives_them(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    for name, condition in CONDITIONS.items():
        assert re.fullmatch(r"[0-9A-Z]{5}", condition.sqlstate)
        if not name.startswith("INCR_"):
            states = jvm.org.apache.spark.SparkThrowableHelper
            assert (name, states.getSqlState(name)) == (name, condition.sqlstate)


def test_every_raised_condition_is_catalogued_with_its_values() -> None:
    raised = raised_conditions()
    assert raised
    for name, values in raised:
        assert name in CONDITIONS
        assert placeholders(CONDITIONS[name].message) == values, name


def test_the_reference_lists_every_condition(update_golden: bool) -> None:
    head, separator, rest = REFERENCE.read_text(encoding="utf-8").partition(TABLE)
    assert separator
    rows = "".join(
        f"| {n} | {c.sqlstate} | {c.message} | {c.hint} |\n" for n, c in CONDITIONS.items()
    )
    if update_golden:
        REFERENCE.write_text(head + TABLE + rows, encoding="utf-8")
    assert update_golden or rest == rows, "make test ARGS=--update-golden writes it anew"


def test_error_renders_message_place_detail_and_hint() -> None:
    raised = error(
        "INCR_RELATION_IN_USE",
        detail="Two views read it.",
        position=Position(3, 7),
        name="orders",
        readers="revenue, daily",
    )
    assert str(raised) == (
        "[INCR_RELATION_IN_USE] orders is read by revenue, daily (line 3, column 7)\n"
        "DETAIL: Two views read it.\n"
        "HINT: Drop those views first, or use CASCADE."
    )


def test_a_hint_of_the_place_replaces_the_usual_one() -> None:
    raised = error("DIVIDE_BY_ZERO", hint="Filter the zeros.")
    assert isinstance(raised, IncrementalError)
    assert raised.hint == "Filter the zeros."
    assert raised.position is None
    assert (raised.getCondition(), raised.getSqlState()) == ("DIVIDE_BY_ZERO", "22012")
