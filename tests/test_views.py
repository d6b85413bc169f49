"""What is maintained equals Spark's answer: every construct, with awkward rows.

Each test gives the oracle tables, a query and a life: rows come, are doubled, move between groups,
whole groups vanish and come back, and in the end everything is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timezone
from decimal import Decimal
from importlib import import_module
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.oracle import NOTHING, Batch, check, delete, insert, together, undo, update

NAN, INF = float("nan"), float("inf")
BIG, NINES = Decimal(10) ** 23, Decimal("9" * 38)


def life(table: str, rows: Sequence[tuple[Any, ...]], key: int = 0) -> list[Batch]:
    """Batches in which rows live through all that can happen to them; `key` is their group."""
    half = len(rows) // 2
    present = [*rows, *rows[:2]]
    group = [row for row in present if row[key] == rows[0][key]]
    vanish = delete(table, *group)
    others = [row for row in present if row[key] != rows[0][key]]
    moved = [(row, (*row[:key], rows[0][key], *row[key + 1 :])) for row in others[:3]]
    left = [*group, *(new for _, new in moved), *others[len(moved) :]]
    return [
        insert(table, *rows[:half]),
        insert(table, *rows[half:], *rows[:2]),
        vanish,
        NOTHING,
        undo(vanish),
        update(table, *moved),
        delete(table, *left),
    ]


def brief(table: str, rows: Sequence[tuple[Any, ...]], key: int = 0) -> list[Batch]:
    """A shorter life, for the SQL texts, which cost Spark queries: come, vanish and move, return."""
    _, _, vanish, _, back, move, _ = life(table, rows, key)
    everything = insert(table, *rows, *rows[:2])
    changed: Batch = {
        table: {
            side: [*vanish[table].get(side, []), *move[table][side]]
            for side in ("insert", "delete")
        }
    }
    return [everything, changed, back]


def check_life(
    spark: SparkSession,
    tables: Mapping[str, str],
    query: str,
    rows: Sequence[tuple[Any, ...]],
    *,
    texts: bool = False,
    **options: Any,
) -> None:
    """Check a query while rows live in the last table, and its SQL texts if wanted."""
    table = list(tables)[-1]
    check(spark, tables, query, life(table, rows), **options)
    if texts:
        check(spark, tables, query, brief(table, rows), created_after=1, reference=True, **options)


def keyed(values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Values in groups of some, one value and none but NULL."""
    keys = ["a", "b", None]
    return [*((keys[i % 3], v) for i, v in enumerate(values)), ("alone", values[0]), ("void", None)]


@contextmanager
def conf(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    before = spark.conf.get(key)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.set(key, str(before))


NUMBERS: dict[str, list[Any]] = {
    "TINYINT": [127, -128, None, 127, 0, 1, -1, 5, None],
    "SMALLINT": [32767, -32768, None, 32767, 0, 1, -1, 5, 7],
    "INT": [2147483647, -2147483648, None, 2147483647, 0, 1, -1, 5, 7],
    "BIGINT": [2**60, -(2**60), None, 3, 0, 1, -1, -(2**60), 2**53 + 1],
    "FLOAT": [1.5, -0.0, 0.0, NAN, INF, -7.25, None, 1.5, 3.0],
    "DOUBLE": [1.5, -0.0, 0.0, -INF, NAN, -7.25, INF, 1.5, None],
    "DECIMAL(10,2)": [Decimal(s) if s else None for s in
        ("99999999.99", "-99999999.99", "0.01", "", "1.00", "1.00", "-0.01", "3.33", "2.50")],
    "DECIMAL(38,10)": [BIG, -BIG, Decimal("0.0000000001"), None, BIG, Decimal("-3.3333333333"), Decimal(0), BIG, Decimal(7)],
    "DECIMAL(38,0)": [Decimal(10) ** 33, -(Decimal(10) ** 33), Decimal(1), None, Decimal(1), Decimal(2), Decimal(0), Decimal(3), Decimal(5)],
    "DECIMAL(5,5)": [Decimal("0.99999"), Decimal("-0.99999"), Decimal("0.00001"), None, Decimal(0), Decimal("0.5"), Decimal("0.5"), Decimal("0.00001"), None],
}  # fmt: skip


@pytest.mark.parametrize("kind", NUMBERS)
def test_aggregates_of_numbers(spark: SparkSession, kind: str) -> None:
    check_life(
        spark,
        {"t": f"k STRING, v {kind}"},
        """SELECT k, count(*) AS n, count(v) AS c, sum(v) AS s, avg(v) AS a, min(v) AS lo, max(v) AS hi,
             count(DISTINCT v) AS d, sum(DISTINCT v) AS sd, avg(DISTINCT v) AS ad
           FROM t GROUP BY k""",
        keyed(NUMBERS[kind]),
        texts=kind in ("BIGINT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(38,10)"),
        magnitude=2.0**60 if kind == "BIGINT" else None,
    )


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_without_group(spark: SparkSession, kind: str) -> None:
    check_life(
        spark,
        {"t": f"k STRING, v {kind}"},
        """SELECT count(*) AS n, sum(v) AS s, avg(v) AS a, max(v) AS hi, count(DISTINCT v) AS d,
             median(v) AS m, percentile(v, array(0.0, 0.25, 1.0)) AS p, collect_set(v) AS vs
           FROM t HAVING count(*) <> 3""",
        keyed(NUMBERS[kind]),
        unordered=["vs"],
        magnitude=2.0**60 if kind == "BIGINT" else None,
    )


DYADIC = [1.5, -2.25, None, 4.0, 0.5, 1.5, -8.0, 1.5, 0.25, 3.0, 2.0, 1.0]


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT", "INT", "DECIMAL(10,2)"])
def test_moments(spark: SparkSession, kind: str) -> None:
    def typed(x: float | None) -> Any:
        if x is None or kind in ("DOUBLE", "FLOAT"):
            return x
        return Decimal(str(x)) if kind.startswith("DEC") else int(x * 4)

    rows = [
        (k, typed(a), typed(b))
        for (k, a), b in zip(keyed(DYADIC), [*DYADIC[3:], *DYADIC[:5]], strict=True)
    ]
    check_life(
        spark,
        {"t": f"k STRING, x {kind}, y {kind}"},
        """SELECT k, var_pop(x) AS a, var_samp(x) AS b, variance(x) AS c, stddev(x) AS d,
             stddev_pop(x) AS e, covar_pop(x, y) AS f, covar_samp(x, y) AS g, corr(x, y) AS h,
             var_pop(x) FILTER (WHERE y > 0) AS i, var_pop(DISTINCT x) AS j, std(y) AS l
           FROM t GROUP BY k""",
        rows,
        texts=kind == "DOUBLE",
        magnitude=64.0 * 64.0,
    )


def test_moments_of_nan_and_infinity(spark: SparkSession) -> None:
    rows = [
        ("a", NAN, 1.0),
        ("a", 1.0, 2.0),
        ("b", INF, 1.0),
        ("b", 2.0, INF),
        ("c", 3.0, 3.0),
        ("c", 3.0, 4.0),
    ]
    check_life(
        spark,
        {"t": "k STRING, x DOUBLE, y DOUBLE"},
        "SELECT k, var_pop(x) AS a, stddev(x) AS b, covar_samp(x, y) AS c, corr(x, y) AS d, sum(x) AS s FROM t GROUP BY k",
        rows,
        texts=True,
    )


def test_booleans_and_bits(spark: SparkSession) -> None:
    rows = [
        ("a", True, 5, 2**62), ("a", False, -1, -(2**63)), ("b", None, None, None), ("b", True, 6, 1),
        (None, False, 127, 2**63 - 1), (None, None, -128, 0), ("c", True, 3, 3), ("c", True, 3, 3),
    ]  # fmt: skip
    check_life(
        spark,
        {"t": "k STRING, b BOOLEAN, i TINYINT, l BIGINT"},
        """SELECT k, bool_and(b) AS ba, bool_or(b) AS bo, every(b) AS ev, some(b) AS so, count_if(b) AS ci,
             bit_and(i) AS ia, bit_or(i) AS io, bit_xor(i) AS ix, bit_and(l) AS la, bit_or(l) AS lo,
             bit_xor(l) AS lx, bit_xor(DISTINCT i) AS dx, max(b) AS mb, count_if(i > 0) AS cp,
             count_if(DISTINCT b) AS cd, any(b) AS an
           FROM t GROUP BY k""",
        rows,
        texts=True,
    )


UTC = timezone.utc
PAYLOADS: dict[str, list[Any]] = {
    "STRING": ["", "a", "ä", None, "a", "𝄞", "A", "z" * 50, "a"],
    "BINARY": [b"", b"a", b"\xff\x00", None, b"a", b"\x00", b"b", b"a", None],
    "BOOLEAN": [True, False, None, True, True, False, None, None, True],
    "DATE": [date(1, 1, 1), date(9999, 12, 31), None, date(1970, 1, 1), date(1582, 10, 15), date(2024, 2, 29), None, date(1, 1, 1), date(2024, 2, 29)],
    "TIMESTAMP": [datetime(1900, 1, 1, tzinfo=UTC), datetime(2024, 3, 31, 2, 30, 0, 1, tzinfo=UTC), None, datetime(1970, 1, 1, tzinfo=UTC), None, datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC), None, None],
    "TIMESTAMP_NTZ": [datetime(1900, 1, 1), datetime(2024, 3, 31, 2, 30, 0, 1), None, datetime(1970, 1, 1), None, datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1), None, None],
    "ARRAY<INT>": [[], [1], [1, None], None, [1], [None], [1, 2], [], None],
    "ARRAY<DOUBLE>": [[0.0], [-0.0], [NAN], None, [NAN], [INF, None], [], [0.0], None],
    "STRUCT<a: INT, b: STRING>": [{"a": 1, "b": "x"}, {"a": 1, "b": None}, None, {"a": None, "b": None}, {"a": 1, "b": "x"}, {"a": 0, "b": ""}, None, {"a": 1, "b": "x"}, {"a": 2, "b": "x"}],
}  # fmt: skip


@pytest.mark.parametrize("kind", PAYLOADS)
def test_payloads(spark: SparkSession, kind: str) -> None:
    check_life(
        spark,
        {"t": f"k STRING, v {kind}"},
        """SELECT k, count(v) AS c, min(v) AS lo, max(v) AS hi, count(DISTINCT v) AS d,
             collect_list(v) AS vs, collect_set(v) AS ds
           FROM t GROUP BY k""",
        keyed(PAYLOADS[kind]),
        unordered=["vs", "ds"],
        texts=kind in ("STRING", "ARRAY<DOUBLE>"),
    )


@pytest.mark.parametrize("kind", [*PAYLOADS, "FLOAT", "DOUBLE", "DECIMAL(38,10)"])
def test_keys_and_distinct(spark: SparkSession, kind: str) -> None:
    values = {**PAYLOADS, **NUMBERS}[kind]
    check_life(
        spark,
        {"t": f"v {kind}, n INT"},
        """SELECT v, count(*) AS c, sum(n) AS s FROM t GROUP BY v
           UNION ALL SELECT DISTINCT v, CAST(-1 AS BIGINT), CAST(-1 AS BIGINT) FROM t""",
        [(v, i) for i, v in enumerate(values)],
        texts=kind == "DOUBLE",
    )


@pytest.mark.parametrize("kind", [*PAYLOADS, "FLOAT", "DOUBLE", "DECIMAL(38,10)", "BIGINT"])
def test_payloads_through_joins(spark: SparkSession, kind: str) -> None:
    values = {**PAYLOADS, **NUMBERS}[kind]
    batches = life("t", [(i % 3, v) for i, v in enumerate(values)])
    other = insert("u", *((i, v) for i, v in enumerate(values[:4])))
    batches[1] = together(batches[1], other)
    batches[3] = undo(other)
    check(
        spark,
        {"t": f"k INT, v {kind}", "u": f"k INT, v {kind}"},
        "SELECT t.v AS tv, u.v AS uv, t.v = u.v AS same FROM t JOIN u ON t.v = u.v OR t.k = u.k WHERE t.k >= 0"
        if kind == "BIGINT"
        else "SELECT t.k, u.k AS uk, t.v AS tv, u.v AS uv FROM t JOIN u ON t.v = u.v",
        batches,
        reference=kind == "DOUBLE",
    )


def test_min_by_and_max_by(spark: SparkSession) -> None:
    rows = [
        ("a", 1, "x"),
        ("a", 2, None),
        ("a", None, "y"),
        ("b", None, "z"),
        (None, 4, "u"),
        (None, 3, "v"),
        ("c", 9, "w"),
    ]
    check_life(
        spark,
        {"t": "k STRING, o INT, v STRING"},
        """SELECT k, min_by(v, o) AS lo, max_by(v, o) AS hi, max_by(o, v) AS back,
             max_by(v, o) FILTER (WHERE o < 3) AS few, max_by(o, -o) AS own
           FROM t GROUP BY k""",
        rows,
        texts=True,
    )


def test_values_that_the_group_determines(spark: SparkSession) -> None:
    rows = [("a", 1), ("a", 1), ("b", 2), (None, 3), ("b", 5)]
    check_life(
        spark,
        {"t": "k STRING, v INT"},
        "SELECT k, any_value(k) AS a, first(k) AS f, last(upper(k)) AS l, first_value(k) AS fv, last(k, true) AS lt FROM t GROUP BY k",
        rows,
    )


def test_percentiles(spark: SparkSession) -> None:
    rows = keyed([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, None])
    check_life(
        spark,
        {"t": "k STRING, v INT"},
        """SELECT k, percentile(v, 0.5) AS p, median(v) AS m, percentile(v, array(0, 0.1, 1.0)) AS ps,
             percentile(v, 0.3) FILTER (WHERE v > 2) AS few, percentile(CAST(v AS DECIMAL(10,2)), 0.25) AS d,
             percentile(IF(v = 1, CAST('-Infinity' AS DOUBLE), v), 0.2) AS below,
             percentile(IF(v % 2 = 0, 1.7e308, -1.7e308), array(0.3, 0.5)) AS wide,
             CAST(percentile(v * 5915017324.394797BD, array(0, 0.1, 0.5, 1)) AS STRING) AS written
           FROM t GROUP BY k""",
        rows,
        texts=True,
    )


def test_filters(spark: SparkSession) -> None:
    rows = [
        ("a", 1, True),
        ("a", 2, False),
        ("a", 3, None),
        ("b", 4, False),
        ("b", None, True),
        (None, 5, True),
        ("c", 6, None),
    ]
    check_life(
        spark,
        {"t": "k STRING, v INT, c BOOLEAN"},
        """SELECT k, count(*) FILTER (WHERE c) AS n, count(v) FILTER (WHERE c) AS cv, sum(v) FILTER (WHERE c) AS s,
             avg(v) FILTER (WHERE NOT c) AS a, max(v) FILTER (WHERE c) AS m, count(DISTINCT v) FILTER (WHERE c) AS d,
             collect_list(v) FILTER (WHERE v > 2) AS vs, bool_and(c) FILTER (WHERE v > 1) AS b,
             count_if(c) FILTER (WHERE v > 1) AS ci, sum(DISTINCT v) FILTER (WHERE c) AS sd, any_value(k) FILTER (WHERE c) AS av
           FROM t GROUP BY k""",
        rows,
        unordered=["vs"],
        texts=True,
    )


def test_aggregates_without_group_over_nothing(spark: SparkSession) -> None:
    rows = [("a", 1.5, 2), ("b", None, 3), ("a", 4.0, None)]
    check_life(
        spark,
        {"t": "k STRING, x DOUBLE, i INT"},
        """SELECT count(*) AS n, count(x) AS c, sum(x) AS s, avg(x) AS a, min(k) AS lo, max(x) AS hi,
             count(DISTINCT k) AS d, sum(DISTINCT i) AS sd, var_samp(x) AS v, bool_or(x > 1) AS b, bit_xor(i) AS bx,
             min_by(k, i) AS mb, collect_list(k) AS ks, collect_set(k) AS ds, median(x) AS md, corr(x, i) AS co,
             count(*) FILTER (WHERE i > 2) AS f, count(DISTINCT k, i) AS ki, sum(CAST(i AS DECIMAL(38,3))) AS dec
           FROM t WHERE k IS NOT NULL""",
        rows,
        unordered=["ks", "ds"],
        texts=True,
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT max(v) AS m FROM t HAVING count(*) > 2",
        "SELECT 'x' AS x, 1 AS one FROM t HAVING sum(v) > 3",
        "SELECT count(*) + 1 AS n, sum(v) * 2 AS s FROM t HAVING max(v) IS NOT NULL OR count(*) = 0",
        "SELECT k, sum(v) AS s FROM t GROUP BY k HAVING s > 3 AND k <> 'b'",
        "SELECT k, sum(v) FROM t GROUP BY k HAVING count(DISTINCT v) > 1",
        "SELECT upper(k) AS u, v % 2 AS odd, count(*) AS n FROM t GROUP BY upper(k), v % 2",
        "SELECT upper(k) AS u, v % 2 AS odd, count(*) AS n FROM t GROUP BY 1, 2",
        "SELECT upper(k) AS u, v % 2 AS odd, count(*) AS n FROM t GROUP BY u, odd",
        "SELECT upper(k) AS u, v % 2 AS odd, sum(v) + v % 2 AS s FROM t GROUP BY ALL",
        "SELECT concat(upper(k), '!') AS u, max(v) - min(v) AS s FROM t GROUP BY upper(k)",
        "SELECT count(*) AS n FROM t GROUP BY k",
        "SELECT k FROM t GROUP BY k",
        "SELECT DISTINCT upper(k) AS u, v > 2 AS big FROM t",
        "SELECT DISTINCT count(*) AS n FROM t GROUP BY k",
        "SELECT DISTINCT k, sum(v) AS s FROM t GROUP BY k, v",


        "SELECT k, v, 1 AS one, CAST(NULL AS INT) AS nothing FROM t WHERE v IS NULL OR v > 1",
        "SELECT CASE WHEN v > 2 THEN 'big' WHEN v IS NULL THEN NULL ELSE k END AS c, coalesce(v, -1) AS w FROM t",
        "SELECT max(s) AS m, count(*) AS n FROM (SELECT k, sum(v) AS s FROM t GROUP BY k)",
        "SELECT n, count(*) AS groups FROM (SELECT k, count(*) AS n FROM t GROUP BY k) GROUP BY n",
        "SELECT avg(m) AS a FROM (SELECT max(n) AS m FROM (SELECT k, v, count(*) AS n FROM t GROUP BY k, v) GROUP BY k)",
        "SELECT a.k, a.n, b.s FROM (SELECT k, count(*) AS n FROM t GROUP BY k) AS a JOIN (SELECT k, sum(v) AS s FROM t GROUP BY k) AS b ON a.k = b.k",
        "WITH g AS (SELECT k, sum(v) AS s FROM t GROUP BY k) SELECT a.k, b.k AS k2 FROM g AS a JOIN g AS b ON a.s = b.s",
        "WITH a AS (SELECT k, v FROM t WHERE v > 1), b AS (SELECT k, max(v) AS m FROM a GROUP BY k) SELECT a.k, a.v, b.m FROM a JOIN b USING (k)",
        "WITH t AS (SELECT k, v + 1 AS v FROM t) SELECT k, sum(v) AS s FROM t GROUP BY k",
        "SELECT k, v FROM t UNION ALL SELECT upper(k), v * 2L FROM t",
        "SELECT k, v FROM t UNION SELECT k, v FROM t WHERE v > 2",
        "SELECT k, sum(w) AS s FROM (SELECT k, v AS w FROM t UNION ALL SELECT k, CAST(v AS DECIMAL(20,3)) FROM t UNION ALL SELECT 'z', 1) GROUP BY k",
        "SELECT 1 AS a, 'x' AS b",
        "SELECT count(*) AS n FROM (SELECT 1 AS a UNION ALL SELECT v FROM t)",
    ],
)  # fmt: skip
def test_query(spark: SparkSession, query: str) -> None:
    rows = [("a", 1), ("a", 2), ("b", 3), (None, 4), ("b", None), ("A", 2), ("", 1)]
    check_life(spark, {"t": "k STRING, v INT"}, query, rows)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, count(x, y) AS c, count(DISTINCT x, y) AS d, count(1) AS one, count(NULL) AS z FROM t GROUP BY k",
        "SELECT k, sum(1) AS s, sum(x + y) AS xy, sum(x) + sum(y) AS sy, avg(x * 1.5) AS a FROM t GROUP BY k",
        "SELECT k, count_if(DISTINCT x > 1) AS c, any(x > 2) AS a, count_if(k LIKE ANY ('a%', 'b%')) AS l FROM t GROUP BY k",
        "SELECT k, bool_and(DISTINCT x > 1) AS c, max(DISTINCT x) AS m, bit_or(DISTINCT x) AS b FROM t GROUP BY k",
        "SELECT k, median(DISTINCT x) AS m, percentile(DISTINCT x, 0.25) AS p FROM t GROUP BY k",
        "SELECT k, max(x) FILTER (WHERE y > 1) - min(x) AS d, mean(x) AS m, std(x) AS s FROM t GROUP BY k",
        "SELECT t.*, x + 1 AS z, z * 2 AS w FROM t",
        "SELECT k AS x, x AS k, y FROM t",
        "SELECT a.k FROM t AS a JOIN t AS b ON a.k <=> b.k",
        "SELECT a.k, b.k AS bk FROM t AS a JOIN t AS b ON a.x = b.x AND a.x = b.y",
        "SELECT a.k, b.x FROM t AS a JOIN t AS b ON a.x = b.x AND a.x = 1 AND b.k = 'a'",
        "SELECT k, x + y AS z, count(*) AS n FROM t GROUP BY k, x + y HAVING x + y > 3",
        "SELECT k IS NULL AS b, count(*) AS n FROM t GROUP BY k IS NULL",
        "SELECT k, CASE WHEN max(x) > 2 THEN 'big' ELSE 'small' END AS c, max(x) BETWEEN 1 AND 3 AS b FROM t GROUP BY k",
        "SELECT k, sum(CASE WHEN x > 1 THEN y ELSE 0 END) AS s, sum(IF(y > 1, x, NULL)) AS s2 FROM t GROUP BY k",
        "SELECT 'lit' AS l, count(*) AS n FROM t GROUP BY 'lit'",
        "SELECT count(*) AS n, max(x) AS m FROM t WHERE false",
        "SELECT k, count(*) AS n FROM t WHERE 1 = 0 GROUP BY k",
        "SELECT k, first(x) IGNORE NULLS AS f, any_value(y) AS a FROM t GROUP BY k, x, y",
        "SELECT struct(k, x) AS st, array(x, y) AS ar, map(k, x) AS m FROM t WHERE k IS NOT NULL",
        "SELECT struct(k, x) AS st, count(*) AS n FROM t GROUP BY struct(k, x)",
        "SELECT s.k, s.c FROM (SELECT named_struct('k', k, 'c', count(*)) AS s FROM t GROUP BY k)",
        "SELECT k, max(struct(x, y)).y AS ly, max(named_struct('a', x)).a AS lx FROM t GROUP BY k",
        "SELECT k, date_add(DATE'2024-01-01', x) AS d, timestamp_seconds(x) AS ts FROM t",
    ],
)  # fmt: skip
def test_query_of_two_numbers(spark: SparkSession, query: str) -> None:
    rows = [("a", 1, 2), ("a", 3, 4), ("b", None, 1), ("b", 2, None), (None, 5, 5), ("a", 1, 2)]
    check_life(spark, {"t": "k STRING, x INT, y INT"}, query, rows)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x, count(*) AS n, CAST(x AS STRING) AS s FROM t GROUP BY x",
        "SELECT DISTINCT x, CAST(x AS STRING) AS s FROM t",
        "SELECT CAST(x AS STRING) AS s, count(*) AS n FROM t GROUP BY CAST(x AS STRING)",
        "SELECT k, CAST(max(x) AS STRING) AS s, CAST(min(x) AS STRING) AS m FROM t GROUP BY k, x",
        "SELECT a.x, b.x AS bx, CAST(a.x AS STRING) AS s FROM t AS a JOIN t AS b ON a.x = b.x",
        "SELECT k, sum(x) AS s, avg(x) AS a, avg(x + y) AS xy FROM t GROUP BY k",
        "SELECT k, sum(x * 1e300) AS s FROM t GROUP BY k",
        "SELECT k, x = y AS e, x < y AS l, x <=> y AS n, x > double('nan') AS g FROM t",
        "SELECT count(DISTINCT x, y) AS d, count(DISTINCT struct(x)) AS ds, count(DISTINCT array(x)) AS da FROM t",
        "SELECT k, y, max_by(y, x) AS m, percentile(x, 0.5) AS p FROM t GROUP BY k, y",
    ],
)  # fmt: skip
def test_query_of_awkward_doubles(spark: SparkSession, query: str) -> None:
    rows = [
        ("a", 0.0, 1.0), ("a", -0.0, 2.0), ("b", NAN, 1.0), ("b", NAN, NAN), ("c", 1e308, 1e308),
        ("c", 1e308, -1e308), ("d", 0.1, 0.2), ("d", 0.2, 0.3), ("d", 0.3, -0.5),
    ]  # fmt: skip
    check_life(spark, {"t": "k STRING, x DOUBLE, y DOUBLE"}, query, rows, magnitude=1.0)


def test_moments_of_large_doubles(spark: SparkSession) -> None:
    queries = [
        "SELECT k, var_pop(x) AS p, stddev_samp(y) AS s, var_samp(DISTINCT x) AS d FROM t GROUP BY k",
        "SELECT k, covar_pop(x, y) AS p, covar_samp(y, x) AS s, corr(x, y) AS c FROM t GROUP BY k",
    ]
    rows = [
        ("squares of 300 digits", 1e145, 1e145), ("squares of 300 digits", 3e145, -2e150),
        ("no spread", 1e200, -1e300), ("no spread", 1e200, -1e300),
        ("little spread", 1e156, 1e156), ("little spread", 1.001e156, 1.001e156),
        ("beyond a double", 1e200, 1.0), ("beyond a double", 3e200, 2.0),
        ("moments whose product is beyond one", 1e100, 1e100), ("moments whose product is beyond one", 2e100, 3e100),
        ("one", 1e300, 1e300), ("mixed", 1.0, 5.0), ("mixed", 2.0, 7.0), ("mixed", 4.0, 7.5),
    ]  # fmt: skip
    passing = [("mixed", 1e150, 1e140), ("mixed", -3.5e151, 1.7e150), ("one", 1e300, 2e300)]
    tiny = [("tiny", 1e-90, 1e-90), ("tiny", 2e-90, 3e-90)]  # its correlation is a division by zero
    batches = [insert("t", *rows), insert("t", *passing), delete("t", *passing), insert("t", *tiny)]
    check(spark, {"t": "k STRING, x DOUBLE, y DOUBLE"}, queries, batches, magnitude=1.0)


DIGITS = """
    SELECT id, d > 0 AS a, d > 0L AS b, d > CAST(0 AS BIGINT) AS c, d > -1L AS e, d BETWEEN 0 AND 5 AS f FROM t
    SELECT id, d > z AS a, d = y AS b, d > x AS c FROM (SELECT id, d, 0 AS z, 5L AS y, -1 AS x FROM t)
    SELECT id, b FROM (SELECT id, d = z AS b FROM (SELECT id, d, 5 AS z FROM t)) WHERE b
    SELECT id FROM (SELECT id, d, 5 AS z FROM t UNION ALL SELECT id, d, 0 FROM t) WHERE d = z
    SELECT id, d + z AS a, d * z AS b, d / z AS c, typeof(d + z) AS e FROM (SELECT id, d, 5 AS z FROM t)
    SELECT id, j FROM t JOIN u ON d = j WHERE d <> 0
    SELECT id, CASE WHEN d = z THEN z END AS a FROM t CROSS JOIN (SELECT 5 AS z)
""".strip().splitlines()


def test_digits_count_in_whole_numbers_that_are_written_and_in_no_others(
    spark: SparkSession,
) -> None:
    rows = [(i, Decimal(text)) for i, text in enumerate(["0", "1E-30", f"5.{'0' * 29}1", "5"])]
    batches = [
        together(insert("t", *rows[:3]), insert("u", (0,), (5,))),
        together(insert("t", rows[3]), delete("t", rows[0])),
        delete("t", *rows[1:3]),
    ]
    check(spark, {"t": "id INT, d DECIMAL(38, 30)", "u": "j INT"}, DIGITS, batches)


T_ROWS = [
    (1, 10, "p"),
    (1, 20, "q"),
    (2, None, "p"),
    (None, 30, "r"),
    (3, 10, ""),
    (2, 10, "p"),
    (1, 10, "p"),
]
U_ROWS = [(1, 10, "x"), (1, 11, "y"), (2, 10, None), (None, 10, "z"), (4, 20, "w"), (2, 10, None)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT t.a, t.c, u.c AS uc FROM t JOIN u ON t.a = u.a",
        "SELECT t.a, u.c FROM t, u WHERE t.a = u.a AND t.b = u.b",
        "SELECT t.a, u.c FROM t JOIN u ON t.a = u.a AND t.b < u.b",
        "SELECT * FROM t JOIN (SELECT a, b AS ub, c AS uc FROM u) USING (a)",
        "SELECT * FROM t JOIN (SELECT a, b, c AS uc FROM u) AS s USING (b, a)",
        "SELECT a, b, t.c, u.c AS uc FROM t JOIN u USING (a, b) WHERE a > 1",
        "SELECT x.a, y.b, z.c FROM t AS x JOIN t AS y ON x.a = y.a JOIN t AS z ON y.b = z.b",
        "SELECT x.c, y.c AS yc FROM t AS x JOIN t AS y ON x.a = y.b / 10",
        "SELECT t.c, u.c AS uc FROM t CROSS JOIN u",
        "SELECT t.c, u.c AS uc FROM t JOIN u ON t.a > u.a",
        "SELECT u.c, count(*) AS n, sum(t.b) AS s, max(t.c) AS m FROM t JOIN u ON t.a = u.a GROUP BY u.c",
        "SELECT count(*) AS n FROM t JOIN u ON t.a = u.a",
        "SELECT t.a FROM t JOIN u ON t.a + 1 = u.a * 2 AND length(t.c) <= 1",
        "SELECT x.a, n, m FROM (SELECT a, count(*) AS n FROM t GROUP BY a) AS x JOIN (SELECT a, max(c) AS m FROM u GROUP BY a) AS y ON x.a = y.a",
        "SELECT t.a, s.d FROM t JOIN (SELECT a, b AS d FROM u UNION ALL SELECT b, a FROM u) AS s ON t.b = s.a",
    ],
)  # fmt: skip
def test_join(spark: SparkSession, query: str) -> None:
    batches = life("t", T_ROWS)
    other = life("u", U_ROWS)
    both = [together(a, b) for a, b in zip(batches, other, strict=True)]
    check(
        spark,
        {"t": "a INT, b INT, c STRING", "u": "a INT, b INT, c STRING"},
        query,
        [batches[0], together(batches[1], other[0]), other[1], *both[2:6], batches[6], other[6]],
    )


@pytest.mark.parametrize(
    ("left", "right", "rows", "other"),
    [
        ("INT", "BIGINT", [1, 2, None, 2**31 - 1], [1, 2, None, 2**31 - 1]),
        ("INT", "DOUBLE", [1, 2, 0, None], [1.0, 2.5, -0.0, NAN]),
        ("FLOAT", "DOUBLE", [0.1, NAN, -0.0, INF], [0.1, NAN, 0.0, INF]),
        ("DECIMAL(10,2)", "DECIMAL(12,4)", [Decimal("1.50"), Decimal("2.00"), None, Decimal("-1")], [Decimal("1.5000"), Decimal("2.0001"), None, Decimal("-1")]),
        ("BIGINT", "DECIMAL(20,1)", [1, 2, None, 3], [Decimal("1.0"), Decimal("2.5"), None, Decimal("3.0")]),
        ("DATE", "TIMESTAMP", [date(2024, 1, 1), date(2024, 1, 2), None, date(1970, 1, 1)], [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, 1, tzinfo=UTC), None, datetime(1970, 1, 1, tzinfo=UTC)]),
        ("STRING", "INT", ["1", "2", None, "7"], [1, 3, None, 7]),
        ("TINYINT", "SMALLINT", [127, -128, 0, None], [127, -128, 300, None]),
    ],
)  # fmt: skip
def test_join_keys_of_different_types(
    spark: SparkSession, left: str, right: str, rows: list[Any], other: list[Any]
) -> None:
    here = life("t", [(v, i) for i, v in enumerate(rows)])
    there = life("u", [(v, i) for i, v in enumerate(other)])
    check(
        spark,
        {"t": f"k {left}, n INT", "u": f"k {right}, m INT"},
        "SELECT t.k, u.k AS uk, n, m FROM t JOIN u ON t.k = u.k",
        [*there[:2], *here[:3], there[2], *here[3:6], there[4]],
    )


def test_views_over_views(spark: SparkSession) -> None:
    rows = [("a", 1), ("a", 2), ("b", 3), (None, 4), ("b", None), ("c", 2)]
    check_life(
        spark,
        {"t": "k STRING, v INT"},
        "SELECT g.k, g.s, w.m FROM grouped AS g JOIN whole AS w ON g.s <= w.m",
        rows,
        views={
            "filtered": "SELECT k, v FROM t WHERE v > 1",
            "grouped": "SELECT k, sum(v) AS s FROM filtered GROUP BY k",
            "whole": "SELECT max(s) AS m FROM grouped",
        },
        texts=True,
        reopen=True,
    )


def test_the_order_of_a_view_decides_what_limit_takes(spark: SparkSession) -> None:
    rows = [(i, f"r{i}") for i in range(6)]
    check(
        spark,
        {"t": "id INT, s STRING"},
        ["SELECT s FROM v LIMIT 2", "SELECT id FROM (SELECT * FROM v WHERE id < 4) LIMIT 2"],
        [insert("t", *rows), delete("t", rows[5], rows[3]), insert("t", (9, "z"), (None, "n"))],
        views={"v": "SELECT * FROM t ORDER BY id DESC NULLS FIRST"},
        reopen=True,
    )


def test_static_tables(spark: SparkSession) -> None:
    rows = [("a", 1), ("a", 2), ("b", 3), (None, 4), ("b", None), ("c", 2)]
    check_life(
        spark,
        {"t": "k STRING, v INT"},
        "SELECT n.name, sum(t.v) AS s FROM t JOIN names AS n ON t.k = n.k GROUP BY n.name",
        rows,
        static={"names": pa.table({"k": ["a", "b", "b"], "name": ["Ada", "Bob", "Ben"]})},
        texts=True,
        reopen=True,
    )


@pytest.mark.parametrize("after", [1, 3, 7])
def test_views_created_over_rows_that_are_there(
    spark: SparkSession, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("spark_incr.definitions"), "CHUNK_ROWS", 2)
    batches = life("t", T_ROWS)
    both = [together(a, b) for a, b in zip(batches, life("u", U_ROWS), strict=True)]
    check(
        spark,
        {"t": "a INT, b INT, c STRING", "u": "a INT, b INT, c STRING"},
        """SELECT t.a, count(*) AS n, max(u.c) AS m, collect_list(t.c) AS cs, median(u.b) AS md
           FROM t JOIN u ON t.a = u.a GROUP BY t.a""",
        both[:6],
        unordered=["cs"],
        created_after=after,
        reopen=True,
    )


@pytest.mark.parametrize("chunk", [1, 1_000_000])
@pytest.mark.parametrize("after", [0, 1])
def test_no_error_of_rows_that_never_were(
    spark: SparkSession, after: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of t meet the count of none of u only between two steps of one batch."""
    monkeypatch.setattr(import_module("spark_incr.definitions"), "CHUNK_ROWS", chunk)
    check(
        spark,
        {"t": "a INT", "u": "b INT"},
        [
            "SELECT a / (SELECT count(*) FROM u) AS q FROM t",
            "SELECT a FROM t, (SELECT count(*) AS n FROM u) WHERE a % n = 0",
            "SELECT a, e FROM t, (SELECT count(*) AS n FROM u) LATERAL VIEW explode(array(a DIV n)) AS e",
            "SELECT a / coalesce(s, 0) AS q FROM t LEFT JOIN (SELECT b, sum(b) AS s FROM u GROUP BY b) ON a = b",
        ],
        [
            {"t": {"insert": [(1,), (2,)]}, "u": {"insert": [(1,), (2,)]}},
            {"t": {"insert": [(3,)], "delete": [(1,)]}, "u": {"insert": [(3,)], "delete": [(1,)]}},
            {"t": {"delete": [(2,), (3,)]}, "u": {"delete": [(2,), (3,)]}},
            {"t": {"insert": [(4,)]}, "u": {"insert": [(4,)]}},
        ],
        created_after=after,
    )


@pytest.mark.parametrize(
    ("kind", "query", "fine", "bad"),
    [
        ("BIGINT", "SELECT k, sum(v) AS s FROM t GROUP BY k", 2**63 - 1, 1),
        ("BIGINT", "SELECT sum(v) AS s FROM t", -(2**61), -(2**63)),
        ("DECIMAL(38,0)", "SELECT k, sum(v) AS s FROM t GROUP BY k", NINES, Decimal(1)),
        ("INT", "SELECT k, v + 1 AS w FROM t", 5, 2**31 - 1),
        ("INT", "SELECT k, sum(100 / v) AS w FROM t GROUP BY k", 5, 0),
        ("INT", "SELECT k, CAST(v AS TINYINT) AS w FROM t", 127, 128),
        ("STRING", "SELECT k, max(CAST(v AS INT)) AS w FROM t GROUP BY k", "12", "twelve"),
        ("INT", "SELECT k, count(*) AS n FROM t GROUP BY k HAVING 10 / sum(v) > 1", 5, -5),
        ("BIGINT", "SELECT k, -v AS w FROM t", 5, -(2**63)),
        ("DECIMAL(38,0)", "SELECT v * 10 AS w FROM t", Decimal(5), NINES),
    ],
)  # fmt: skip
def test_failures_leave_everything_as_it_was(
    spark: SparkSession, kind: str, query: str, fine: Any, bad: Any
) -> None:
    check(
        spark,
        {"t": f"k STRING, v {kind}"},
        query,
        [
            insert("t", ("a", fine)),
            insert("t", ("a", bad), ("b", fine)),
            insert("t", ("c", fine)),
            update("t", (("c", fine), ("b", fine))),
            together(delete("t", ("a", fine))),
        ],
        reopen=True,
    )


@pytest.mark.parametrize(
    ("kind", "query", "values"),
    [
        ("BIGINT", "SELECT k, sum(v) AS s, avg(v) AS a FROM t GROUP BY k", [2**63 - 1, 1, 5, -(2**63), None]),
        ("INT", "SELECT k, v + 1 AS w, v * v AS q, -v AS m, abs(v) AS a FROM t", [2**31 - 1, -(2**31), 5, None]),
        ("INT", "SELECT k, 100 / v AS d, 100 % v AS r, sum(v) AS s FROM t GROUP BY k, v", [0, 5, None, 3]),
        ("STRING", "SELECT k, CAST(v AS INT) AS i, CAST(v AS DATE) AS d, v + 1 AS w FROM t", ["1", "x", "2024-02-30", "", None]),
        ("DECIMAL(38,0)", "SELECT k, sum(v) AS s, avg(v) AS a FROM t GROUP BY k", [NINES, NINES, Decimal(1), None]),
        ("DECIMAL(38,0)", "SELECT k, v * 10 AS w, v + v AS s FROM t", [NINES, Decimal(1), None]),
        ("INT", "SELECT k, CAST(v AS TINYINT) AS t, CAST(v AS SMALLINT) AS s FROM t", [128, 40000, -129, None]),
        ("DOUBLE", "SELECT k, CAST(v AS INT) AS i, CAST(v AS BIGINT) AS l, v / 0 AS z FROM t", [NAN, INF, 1e30, -1.5]),
        ("DOUBLE", "SELECT k, corr(v, v) AS c, var_samp(v) AS s FROM t GROUP BY k", [1.0, 1.0, 2.0, None]),
        ("ARRAY<INT>", "SELECT k, v[3] AS e, element_at(v, 5) AS f FROM t", [[1, 2], [], None]),
    ],
)  # fmt: skip
def test_without_ansi(spark: SparkSession, kind: str, query: str, values: list[Any]) -> None:
    with conf(spark, "spark.sql.ansi.enabled", "false"):
        check(spark, {"t": f"k STRING, v {kind}"}, query, life("t", keyed(values)))


def test_primary_keys(spark: SparkSession) -> None:
    check(
        spark,
        {"t": "id INT, k STRING, v DECIMAL(10,2)"},
        "SELECT k, count(*) AS n, sum(v) AS s, max(id) AS m, first(k) AS f FROM t GROUP BY k",
        [
            insert("t", (1, "a", Decimal("1.10")), (2, "b", Decimal("2.20")), (3, None, None)),
            update("t", ((1, "a", Decimal("1.10")), (1, "b", Decimal("1.10")))),
            update(
                "t",
                ((2, "b", Decimal("2.20")), (3, "b", Decimal("2.20"))),
                ((3, None, None), (2, None, None)),
            ),
            delete("t", (1, "b", Decimal("1.10"))),
        ],
        keys={"t": ("id",)},
        reopen=True,
    )


def test_names_that_need_quotes(spark: SparkSession) -> None:
    rows = [("a", 1), ("a", 2), ("b", 3), (None, 4)]
    check_life(
        spark,
        {"order": "`group by` STRING, `a.b` INT"},
        """SELECT o.`group by` AS `the key`, sum(o.`a.b`) AS `s``um`, max(`a.b`) AS `select`, count(*) AS `Größe`
           FROM `order` AS o JOIN (SELECT `a.b` AS `x y` FROM `order`) AS p ON o.`a.b` = p.`x y` GROUP BY o.`group by`""",
        rows,
        texts=True,
        reopen=True,
    )


def test_functions_that_only_spark_knows(spark: SparkSession) -> None:
    rows = [("a1", 1), ("b22", 2), (None, 3), ("", None)]
    check_life(
        spark,
        {"t": "k STRING, v INT"},
        """SELECT regexp_replace(k, '[0-9]+', '#') AS r, sum(size(split(k, ''))) AS n, max(transform(sequence(1, v), x -> x * v)) AS x,
             max(named_struct('a', v, 'b', k)) AS st, md5(k) AS h
           FROM t GROUP BY regexp_replace(k, '[0-9]+', '#'), md5(k)""",
        rows,
    )


def test_kernels_that_leave_some_batches_to_spark(spark: SparkSession) -> None:
    """Letters beyond ASCII: ß has an upper case of two letters, İ a lower case of two code points."""
    plain, foreign = [(1, "ab"), (2, "AB"), (3, None)], [(4, "straße"), (5, "İab"), (6, "éb")]
    check(
        spark,
        {"t": "k INT, s STRING"},
        """SELECT upper(s) AS u, lower(s) AS l, instr(s, 'b') AS at, length(upper(s)) AS n
           FROM t WHERE lower(s) <> 'x' OR s IS NULL""",
        [insert("t", *plain), insert("t", *foreign, (7, "x")), delete("t", *foreign), NOTHING],
        reference=True,
    )


def test_views_hand_on_what_their_sessions_are(spark: SparkSession) -> None:
    """A query that groups by the sessions of a view joins those that touch, as over a table of Spark."""
    check(
        spark,
        {"t": "k INT, s INT"},
        [
            "SELECT w.start AS b, w.end AS e, count(*) AS n FROM each GROUP BY w",
            "SELECT w.start AS b, w.end AS e, sum(n) AS n FROM by_key GROUP BY w",
            "SELECT DISTINCT w FROM by_key",
            "SELECT w.start AS b, k FROM each",
            """SELECT w.start AS b, w.end AS e, k, grouping(k) AS g, count(*) AS n, max(w.start) AS own
               FROM each GROUP BY w, ROLLUP (k)""",
            "SELECT w.start AS b, k, sum(n) AS n FROM by_key GROUP BY GROUPING SETS ((k, w), (w), (w))",
            """SELECT DISTINCT i.k, l.b, l.n FROM each AS i JOIN LATERAL (
                 SELECT w.start AS b, count(*) AS n FROM each AS o WHERE o.k <= i.k GROUP BY w) AS l""",
            "FROM each |> AGGREGATE count(*) AS n GROUP BY w |> SELECT n, w.start AS b",
        ],
        [
            insert("t", (1, 0), (1, 1800), (2, 1000), (2, 9000), (None, 0), (3, None)),
            insert("t", (1, 4000), (3, 7300)),
            update("t", ((1, 1800), (2, 1800))),
            delete("t", (1, 4000), (2, 1000), (None, 0)),
        ],
        views={
            "each": "SELECT k, session_window(timestamp_seconds(s), '1 hour') AS w FROM t",
            "by_key": "SELECT k, session_window AS w, count(*) AS n FROM t"
            " GROUP BY k, session_window(timestamp_seconds(s), '1 hour')",
        },
        reopen=True,
    )


def test_groups_show_their_own_zeros(spark: SparkSession) -> None:
    queries = [
        "SELECT k, CAST(max(x) AS STRING) AS m, CAST(min(x) AS STRING) AS n FROM t GROUP BY k",
        "SELECT m, count(*) AS n FROM (SELECT CAST(max(struct(x)) AS STRING) AS m FROM t GROUP BY k) GROUP BY m",
        "SELECT k, CAST(array_sort(collect_set(x)) AS STRING) AS s FROM t GROUP BY k",
    ]
    batches = [
        insert("t", (1, -0.0), (2, 0.0)),
        insert("t", (3, -0.0), (2, -1.0), (4, 0.0)),
        delete("t", (2, -1.0), (3, -0.0)),
        insert("t", (3, 0.0), (5, -0.0), (5, float("nan"))),
    ]
    check(spark, {"t": "k INT, x DOUBLE"}, queries, batches)
