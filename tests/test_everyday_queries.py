"""Queries as people write them, one file per kind, over orders, customers, a tree of parts and more.

The rows are awkward: NULLs in every column, duplicates, NaN, -0.0 and infinities, customers without
orders and orders without customers; the batches move rows between groups and empty the tables.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_incr.sql.split import split_statements
from tests.fuzz import interpreted
from tests.oracle import Batch, check, update

FILES = sorted((Path(__file__).parent / "fixtures" / "everyday").glob("*.sql"))

TABLES = {
    "o": """id BIGINT, cust STRING, amt DECIMAL(10,2), day DATE, ts TIMESTAMP, tags ARRAY<STRING>,
            st STRUCT<a: INT, b: STRING>, q INT, x DOUBLE""",
    "c": "cust STRING, region STRING, since DATE, vip BOOLEAN",
    "e": "id INT, parent INT, w INT",
    "m": "k INT, m MAP<STRING, INT>, s STRING",
    "z": "k INT, f DOUBLE, s STRING",
}


def _day(year: int, month: int, day: int) -> dt.date:
    return dt.date(year, month, day)


def _at(hour: int, minute: int = 0, second: int = 0) -> dt.datetime:
    return dt.datetime(2024, 3, 31, hour, minute, second, tzinfo=dt.timezone.utc)


ORDERS = [
    (1, "ada", Decimal("10.00"), _day(2024, 1, 1), _at(0), ["a", "b"], {"a": 1, "b": "x"}, 3, 1.5),
    (2, "bob", Decimal("5.50"), _day(2024, 1, 31), _at(1, 30), [], {"a": 2, "b": None}, 1, 2.5),
    (3, "ada", Decimal("2.25"), _day(2024, 2, 29), _at(2), None, None, None, None),
    (4, None, None, None, None, ["c", None], {"a": None, "b": "y"}, 7, float("nan")),
    (5, "cyd", Decimal("10.00"), _day(2023, 12, 31), _at(3, 15), ["b"], {"a": 1, "b": "x"}, 3, -0.0),
    (5, "cyd", Decimal("10.00"), _day(2023, 12, 31), _at(3, 15), ["b"], {"a": 1, "b": "x"}, 3, -0.0),
    (6, "dan", Decimal("-3.10"), _day(2024, 1, 1), _at(23, 59, 59), ["a", "a", "d"],
     {"a": 9, "b": "z"}, 0, float("inf")),
]  # fmt: skip
LATER = (
    8,
    "ada",
    Decimal("7.77"),
    _day(2024, 1, 31),
    _at(1, 30),
    ["a"],
    {"a": 4, "b": "x"},
    3,
    1.5,
)
CUSTOMERS = [
    ("ada", "eu", _day(2020, 1, 1), True),
    ("bob", "us", _day(2021, 6, 1), False),
    ("cyd", None, None, None),
    ("zed", "eu", _day(2024, 1, 1), True),
    ("ada", "us", _day(2022, 2, 2), False),
]
MORE = [("bob", "eu", None, True), (None, "eu", _day(2024, 1, 1), True)]
PARTS = [(1, None, 5), (2, 1, 3), (3, 1, 4), (4, 2, 2), (5, 4, 9), (6, None, 1)]

MAPS = [
    (1, [("a", 1), ("b", 2)], "1.5"),
    (1, [("b", 2), ("a", 1)], "2"),
    (2, None, None),
    (2, [], "3"),
    (3, [("z", None)], "4"),
]
ZEROS = [
    (1, 0.0, "a"),
    (1, -0.0, "b"),
    (1, float("nan"), "c"),
    (2, None, "d"),
    (None, 1.0, "e"),
    (1, 2.0, None),
    (2, 3.5, "x"),
    (2, 3.5, "x"),
]

BATCHES: list[Batch] = [
    {
        "o": {"insert": ORDERS},
        "c": {"insert": CUSTOMERS},
        "e": {"insert": PARTS},
        "m": {"insert": MAPS},
        "z": {"insert": ZEROS},
    },
    {
        **update(
            "o",
            (ORDERS[0], (1, "bob", Decimal("99.99"), _day(2024, 1, 2), _at(0, 1), ["b", "q"],
                         {"a": 1, "b": "x"}, 4, 0.0)),
            (ORDERS[3], (4, "zed", Decimal("1.00"), _day(2024, 2, 1), _at(5), [],
                         {"a": 3, "b": "k"}, 2, 4.0)),
        ),
        "c": {"delete": [CUSTOMERS[0], CUSTOMERS[2]], "insert": MORE},
        "e": {"delete": [PARTS[1]], "insert": [(7, 3, 8), (2, 6, 1)]},
        "m": {"delete": [MAPS[0]], "insert": [(1, [("b", 2), ("a", 1)], "7")]},
        "z": {"delete": [ZEROS[0], ZEROS[6]], "insert": [(1, -0.0, "b"), (3, 1.0, "q")]},
    },
    {
        "o": {"delete": [*ORDERS[4:7], ORDERS[1], ORDERS[2]]},
        "c": {"delete": [CUSTOMERS[1], *CUSTOMERS[3:], *MORE]},
    },
    {
        "o": {"insert": [ORDERS[2], ORDERS[4], LATER]},
        "c": {"insert": [CUSTOMERS[0]]},
        "z": {"insert": [ZEROS[0]], "delete": [ZEROS[1], ZEROS[1], ZEROS[2]]},
    },
]  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_everyday_queries(spark: SparkSession, path: Path) -> None:
    queries = [statement.text for statement in split_statements(path.read_text(encoding="utf-8"))]
    with interpreted(spark):
        check(spark, TABLES, queries, BATCHES, magnitude=1e6)
