"""The dialect is made of sqlglot's own, which has to be there in a form that can be extended."""

from __future__ import annotations

import pytest
from sqlglot.parsers import spark

from spark_incr.errors import IncrementalError
from spark_incr.sql.dialect import parse_query


def test_compiled_sqlglot_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "__file__", "spark.cpython-311-x86_64-linux-gnu.so")
    with pytest.raises(IncrementalError) as raised:
        parse_query("SELECT 1 AS a")
    assert raised.value.condition == "INCR_SQLGLOT_COMPILED"
