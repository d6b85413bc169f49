"""Functions that users register: of Python, of pandas and of SQL, for values, groups and tables.

All of them are deterministic, and say of a row or a group what does not depend on other rows in the
same batch of Python's. As `tests/table_functions.py`, this module is imported by workers of Spark's.
"""

from __future__ import annotations

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.functions import pandas_udf, udf, udtf

from tests.table_functions import Repeated, Summed

SQL = {
    "sql_rest(x BIGINT, y BIGINT DEFAULT 3) RETURNS BIGINT": "pmod(x, nullif(y, 0))",
    "sql_joined(s STRING, x BIGINT) RETURNS STRING": "concat_ws('+', s, upper(s), sql_rest(x, 5))",
    "sql_pairs(x BIGINT, s STRING) RETURNS TABLE (n BIGINT, l STRING)": (
        "SELECT v + x % 5, s || v FROM VALUES (1L), (2L) AS w(v) WHERE v > x % 3"
    ),
}


def rest(x: int | None) -> int | None:
    return None if x is None else x % 7


def known(x: object) -> bool:
    return x is not None


def swapped(s: str | None, t: str | None) -> str | None:
    return None if s is None else f"{t or ''}{s.swapcase()}"


def half(x: pd.Series) -> pd.Series:  # type: ignore[type-arg]
    return x * 0.5


def doubled(s: pd.Series) -> pd.Series:  # type: ignore[type-arg]
    return s + s


def greatest(x: pd.Series) -> float:  # type: ignore[type-arg]
    return float(x.max()) if len(x) else -1.0


def spread(x: pd.Series, y: pd.Series) -> float:  # type: ignore[type-arg]
    return float((x - y).abs().max()) + len(x)


def register(spark: SparkSession) -> None:
    """Let a session know the functions."""
    spark.udf.register("py_rest", udf(rest, "bigint"))
    spark.udf.register("py_known", udf(known, "boolean"))
    spark.udf.register("py_swapped", udf(swapped, "string"))
    spark.udf.register("py_arrow_rest", udf(rest, "bigint", useArrow=True))
    spark.udf.register("pandas_half", pandas_udf(half, "double"))  # type: ignore[call-overload]
    spark.udf.register("pandas_doubled", pandas_udf(doubled, "string"))  # type: ignore[call-overload]
    spark.udf.register("pandas_greatest", pandas_udf(greatest, "double"))  # type: ignore[call-overload]
    spark.udf.register("pandas_spread", pandas_udf(spread, "double"))  # type: ignore[call-overload]
    spark.udtf.register(
        "py_repeated", udtf(Repeated, returnType="a INT, b STRING").asDeterministic()
    )
    spark.udtf.register("py_summed", udtf(Summed, returnType="n INT, ids STRING").asDeterministic())
    for head, body in SQL.items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {head} RETURN {body}")
