"""Every kernel equals Spark, row by row: the same value, or the same error condition.

A group of expressions is compiled with the types that one Spark analysis tells, and evaluated on
the corners of its columns' types and on random rows. Rows on which we raise are kept from Spark
when values are compared; one of them is then shown to Spark alone, which must raise the same.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T
import pytest
import sqlglot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp

from spark_incr.errors import IncrementalError
from spark_incr.plan.types import arrow_type
from spark_incr.runtime.expressions import (
    KERNELS,
    Evaluate,
    Settings,
    compile_expression,
    subexpressions,
)

EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
LOCAL_EVALUATION = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
CORNER_ROWS = 150


@dataclass(frozen=True)
class Domain:
    """The values of a column: its type, corners that always appear, and random ones."""

    type: T.DataType
    corners: tuple[Any, ...]
    random: st.SearchStrategy[Any]


def _integers(spark_type: T.DataType, bits: int) -> Domain:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    corners = (0, 1, -1, 2, 3, -7, 10, 100, low, low + 1, high, high - 1)
    return Domain(spark_type, corners, st.integers(low, high) | st.integers(-9, 9))


def _decimals(precision: int, scale: int) -> Domain:
    top = 10**precision - 1
    unscaled = (0, 1, -1, 5, -5, 15, 25, 49, 50, -50, 10**scale, -(10**scale), top, -top, top // 3)
    return Domain(
        T.DecimalType(precision, scale),
        tuple(_decimal(u, scale) for u in unscaled if abs(u) <= top),
        (st.integers(-top, top) | st.integers(-min(999, top), min(999, top))).map(
            lambda u: _decimal(u, scale)
        ),
    )


def _decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


_FLOAT_CORNERS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 1.5, math.nan, math.inf, -math.inf, 1e-5)
_TEXTS = ("", " ", "a", "ab", "aab", "%", "_", "a%b", "\\", "a\\b", "é", "e\u0301", "😀x", "日本語", "A b ", " x\t", "\n", "a\nb", ".*", "ß", "İ", "1", "-12", " 7 ", "x" * 40, "aaaa")  # fmt: skip
_DATES = tuple(
    dt.date(*ymd)
    for ymd in (
        (1970, 1, 1),
        (1969, 12, 31),
        (2000, 2, 29),
        (1900, 3, 1),
        (2024, 12, 31),
        (1, 1, 1),
        (9999, 12, 31),
        (1582, 10, 4),
        (1582, 10, 15),
        (2023, 7, 30),
    )
)
_TIMES = tuple(
    dt.datetime(*parts)
    for parts in (
        (1970, 1, 1),
        (1969, 12, 31, 23, 59, 59, 999999),
        (2024, 2, 29, 12, 34, 56, 789),
        (1900, 1, 1, 0, 0, 0, 1),
        (9999, 12, 31, 23, 59, 59),
        (1, 1, 1),
        (2023, 7, 30, 6, 0, 0),
    )
)
_text = st.text(st.sampled_from("ab%_\\ .*xé日😀A\n"), max_size=6) | st.text(max_size=5).filter(
    lambda text: not any("\ud800" <= c <= "\udfff" for c in text)
)

DOMAINS: dict[str, Domain] = {
    "p": Domain(T.BooleanType(), (True, False), st.booleans()),
    "b": _integers(T.ByteType(), 8),
    "s": _integers(T.ShortType(), 16),
    "i": _integers(T.IntegerType(), 32),
    "l": _integers(T.LongType(), 64),
    "f": Domain(T.FloatType(), (*_FLOAT_CORNERS, 3.4e38, 2.0**-149), st.floats(width=32)),
    "d": Domain(
        T.DoubleType(),
        (*_FLOAT_CORNERS, 1.7e308, 5e-324, 2.0**31, 2.0**63, -(2.0**63), 0.1, 123456.789),
        st.floats() | st.floats(-1e4, 1e4),
    ),
    "n": _decimals(10, 2),
    "m": _decimals(18, 6),
    "w": _decimals(38, 18),
    "v": _decimals(38, 4),
    "c": _decimals(3, 3),
    "t": Domain(T.StringType(), _TEXTS, _text),
    "a": Domain(T.DateType(), _DATES, st.dates()),
    "z": Domain(
        T.TimestampType(),
        tuple(value.replace(tzinfo=dt.timezone.utc) for value in _TIMES),
        st.datetimes().map(lambda value: value.replace(tzinfo=dt.timezone.utc)),
    ),
    "y": Domain(T.TimestampNTZType(), _TIMES, st.datetimes()),
    "e": Domain(
        T.StringType(),
        (
            "2023-01-31",
            " 2023-1-1 ",
            "2023",
            "2023-02",
            "2023-02-30",
            "+2023-01-01",
            "-0044-03-15",
            "2023-01-01T12:00",
            "2023-01-01 x",
            "2023-1-1x",
            "",
            "12-01-01",
            "99999-1-1",
            "2023--1",
            "0000-01-01",
        ),
        st.dates().map(str)
        | st.from_regex(r"[+-]?[0-9]{3,5}(-[0-9]{1,2}){0,2}[ T]?", fullmatch=True),
    ),
    "g": Domain(
        T.StringType(),
        (
            "0",
            "7",
            "-7",
            "+7",
            " 12\t",
            "\x0012\x7f",
            "1.0",
            "1e3",
            "",
            " ",
            "x",
            "--1",
            "+-1",
            "007",
            "-0",
            "١",
            "127",
            "128",
            "2147483648",
            "-2147483648",
            "9223372036854775807",
            "9223372036854775808",
            "1 2",
        ),
        st.integers().map(str) | st.from_regex(r"[ ]?[+-]?[0-9]{1,10}[ ]?", fullmatch=True),
    ),
    "r": Domain(
        T.ArrayType(T.IntegerType()),
        ([], [1], [None], [1, None, 3], [4, 5, 6, 7]),
        st.lists(st.none() | st.integers(-9, 9), max_size=4),
    ),
    "k": Domain(
        T.StructType([T.StructField("u", T.IntegerType()), T.StructField("V", T.StringType())]),
        ({"u": 1, "V": "a"}, {"u": None, "V": "b"}, {"u": 2, "V": None}),
        st.fixed_dictionaries({"u": st.none() | st.integers(-9, 9), "V": st.none() | _text}),
    ),
    "x": Domain(T.BinaryType(), (b"", b"\x00", b"\xff", b"a", b"ab"), st.binary(max_size=3)),
}


def domain_of(column: str) -> Domain:
    """Columns are named by the letter of their domain and a number."""
    return DOMAINS[column[0]]


GROUPS: dict[str, str] = {
    "literals": """
        1 | -1 | 2147483647 | -2147483648 | 2147483648 | -9223372036854775808 | 1.5 | -0.05 | 0.0
        1e3 | 1.5D | 7L | 3S | 2Y | 1.5F | 'str' | '' | "q" | r'a\\b' | TRUE | FALSE | NULL
        i1 | t1 | d1 | n1 | a1 | z1 | p1 | x1 | (i1) | 12345678901234567890 | 100000000000.001""",
    "integer arithmetic": """
        b1 + b2 | s1 + s2 | i1 + i2 | l1 + l2 | b1 - b2 | s1 - s2 | i1 - i2 | l1 - l2
        b1 * b2 | s1 * s2 | i1 * i2 | l1 * l2 | b1 + l1 | s1 - i1 | i1 * 2 | i1 + 1L | l1 - 1
        i1 DIV i2 | l1 DIV l2 | b1 DIV s1 | i1 % i2 | l1 % l2 | b1 % b2 | s1 % b1 | mod(i1, 3)
        -i1 | -l1 | -b1 | -s1 | abs(i1) | abs(l1) | abs(b1) | abs(s1) | i1 / i2 | l1 / l2 | b1 / 2
        i1 + NULL | -(i1 + 1) | (i1 + i2) * 2 - i1 | l1 DIV -1 | l1 % -1""",
    "float arithmetic": """
        d1 + d2 | d1 - d2 | d1 * d2 | d1 / d2 | d1 % d2 | f1 + f2 | f1 - f2 | f1 * f2 | f1 / f2 | f1 % f2
        -d1 | -f1 | abs(d1) | abs(f1) | d1 + i1 | i1 * d1 | l1 + d1 | f1 + i1 | f1 * l1 | f1 + d1
        d1 / 2 | 1 / d1 | d1 * 1.5 | n1 + d1 | n1 / d1 | w1 * d1 | f1 * n1 | d1 % 2 | 1e3 * f1""",
    "decimal arithmetic": """
        n1 + n2 | n1 - n2 | n1 * n2 | n1 / n2 | n1 % n2 | m1 + n1 | m1 * n1 | m1 / n1 | m1 - m2 | m1 * m2
        w1 + w2 | w1 - w2 | w1 * w2 | w1 / w2 | w1 + v1 | v1 - w1 | v1 * w1 | v1 / w1
        v1 + v2 | v1 * v2 | c1 * w1 | c1 / n1 | n1 / c1 | c1 + v1 | n1 + 1 | n1 * i1 | l1 + n1 | l1 * w1
        n1 / 3 | n1 % 7 | i1 / n1 | -n1 | -m1 | abs(n1) | abs(m1) | n1 * 1.5 | (n1 + n2) / 2 | n1 - 0.005
        n1 + NULL | m1 / m2""",
    "comparison": """
        b1 = b2 | s1 < s2 | i1 = i2 | i1 <> i2 | i1 < i2 | i1 <= i2 | i1 > i2 | i1 >= i2 | l1 = l2 | l1 < i1
        b1 >= l1 | p1 = p2 | p1 < p2 | i1 <=> i2 | l1 <=> i1 | i1 IS DISTINCT FROM i2 | a1 = a2 | a1 < a2
        z1 >= z2 | y1 = y2 | t1 = t2 | t1 < t2 | t1 >= t2 | t1 <=> t2 | x1 < x2 | x1 = x2 | t1 = 'a'
        i1 = NULL | i1 <=> NULL | i1 IS NULL | i1 IS NOT NULL | t1 IS NULL | isnull(d1) | isnotnull(d1)
        p1 IS TRUE | p1 IS NOT TRUE | p1 IS FALSE | p1 IS NOT FALSE | p1 IS UNKNOWN
        i1 BETWEEN i2 AND 10 | i1 NOT BETWEEN 0 AND l1 | t1 BETWEEN 'a' AND t2 | a1 BETWEEN a2 AND a1
        i1 IN (1, 2, 3) | i1 NOT IN (1, -1) | i1 IN (1, NULL) | i1 NOT IN (0, NULL) | i1 IN (i2, 3) | t1 IN ('a', 'é')
        i1 IN (NULL) | l1 IN (1, 2147483648) | s1 IN (1, 100000)""",
    "number comparison": """
        d1 = d2 | d1 <> d2 | d1 < d2 | d1 <= d2 | d1 > d2 | d1 >= d2 | d1 <=> d2 | f1 = f2 | f1 < f2 | f1 >= f2
        f1 = d1 | f1 < d1 | i1 = d1 | l1 < d1 | l1 > f1 | n1 = d1 | w1 >= d1 | n1 = n2 | n1 < n2 | n1 <=> m1
        n1 = m1 | m1 >= n1 | n1 = i1 | n1 > 1 | n1 = 0.5 | i1 < n1 | l1 <= n1 | c1 < n1 | w1 = w2 | v1 > v2
        isnan(d1) | isnan(f1) | d1 IN (0, 1.5, 2) | d1 IN (0.0D, d2, 1) | n1 IN (0, 0.5, 1)
        d1 BETWEEN 0 AND d2 | n1 BETWEEN 0 AND m1 | d1 BETWEEN f1 AND n1 | n1 IN (1, NULL)""",
    "logic": """
        p1 AND p2 | p1 OR p2 | NOT p1 | !p1 | NOT (p1 AND p2) | p1 AND NULL | p1 OR NULL | NULL AND p1
        i2 <> 0 AND i1 % i2 = 0 | i2 = 0 OR i1 / i2 > 1 | p1 AND 1 / i1 > 0 | p1 OR 1 / i1 > 0
        1 / i1 > 0 AND FALSE | 1 / i1 > 0 OR TRUE | p1 AND p2 OR NOT p1 | p1 = p2 AND i1 < i2
        i1 % i2 = 1 OR i1 > 0 | NULL AND 1 / i1 > 0 | (1 / i1) + NULL | i1 / i2 = NULL
        i1 + i2 > 0 AND i1 * i2 > 0 | i1 + 1 / i2 | (1 / i1) <=> (i1 / i2) | 1 / i1 IS NULL""",
    "conditional": """
        CASE WHEN p1 THEN i1 WHEN p2 THEN i2 ELSE 0 END | CASE WHEN p1 THEN i1 END | if(p1, i1, l1) | if(p1, t1, t2)
        CASE i1 WHEN 1 THEN 'one' WHEN i2 THEN 'same' ELSE t1 END | CASE WHEN i2 = 0 THEN 0 ELSE i1 / i2 END
        if(i2 = 0, NULL, i1 % i2) | coalesce(i1, i2) | coalesce(i1, i2, 5) | nvl(i1, l1) | ifnull(t1, 'none')
        coalesce(NULL, i1) | coalesce(i1, 1 / i2) | nvl2(i1, i2, 0) | nvl2(p1, 1 / i1, i2) | nullif(i1, i2) | nullif(i1, 0)
        nullif(t1, '') | nullif(d1, d2) | nullif(i1, 1 / i2) | i1 / nullif(i2, 0) | coalesce(n1, i1) | coalesce(n1, m1)
        CASE WHEN 1 / i1 > 0 THEN 1 / i2 ELSE 7 END | CASE WHEN p1 THEN i1 + i2 WHEN p2 THEN i1 * i2 ELSE i1 - i2 END
        if(p1, d1, i1) | if(p1, n1, d1) | if(p1, n1, 1) | CASE WHEN p1 THEN NULL ELSE i1 END | if(p1, a1, a2) | if(NULL, i1, i2)
        CASE WHEN i1 > 0 THEN CASE WHEN i2 > 0 THEN i1 % i2 END ELSE -1 END | coalesce(d1, f1) | if(p1, x1, x2) | if(p1, z1, NULL)
        CASE i1 WHEN NULL THEN 1 ELSE 2 END | nullif(NULL, i1) | coalesce(p1, p2, TRUE)""",
    "bits": """
        b1 & b2 | s1 ^ s2 | i1 & i2 | i1 ^ l1 | l1 & l2 | (i1|i2) | (b1|l1) | ~b1 | ~s1 | ~i1 | ~l1 | i1 & NULL | i1 & 255""",
    "other casts": """
        cast(d1 AS INT) | cast(d1 AS BIGINT) | cast(d1 AS TINYINT) | cast(f1 AS SMALLINT) | cast(f1 AS BIGINT) | cast(f1 AS INT)
        cast(n1 AS INT) | cast(w1 AS BIGINT) | cast(v1 AS BIGINT) | cast(n1 AS TINYINT) | cast(c1 AS INT) | cast(d1 AS FLOAT)
        cast(n1 AS FLOAT) | cast(w1 AS FLOAT) | cast(i1 AS BOOLEAN) | cast(d1 AS BOOLEAN) | cast(p1 AS INT) | cast(p1 AS DOUBLE)
        cast(i1 AS STRING) | cast(l1 AS STRING) | cast(b1 AS STRING) | cast(p1 AS STRING) | cast(n1 AS STRING) | cast(w1 AS STRING)
        cast(c1 AS STRING) | cast(v1 AS STRING) | cast(a1 AS STRING) | cast(t1 AS STRING) | 1.25BD | cast('7.5' AS DOUBLE)
        cast(z1 AS DATE) | cast(y1 AS DATE) | cast(a1 AS TIMESTAMP) | cast(a1 AS TIMESTAMP_NTZ) | cast(z1 AS TIMESTAMP_NTZ)
        cast(y1 AS TIMESTAMP) | date(z1) | DATE '2020-02-29' | cast('2020-1-1' AS DATE) | cast(n1 AS DECIMAL(4, 1)) | string(i1)""",
    "text casts": """
        cast(g1 AS INT) | cast(g1 AS BIGINT) | cast(g1 AS TINYINT) | cast(g1 AS SMALLINT) | cast(e1 AS DATE) | date(e1)
        cast(t1 AS INT) | cast(t1 AS DATE) | cast('12' AS INT) + i1""",
    "mathematics": """
        sqrt(d1) | sqrt(i1) | sqrt(n1) | exp(d1) | exp(d1 % 10) | ln(d1) | ln(i1) | power(d1, d2) | power(d1, 2) | power(i1, 0.5) | power(b1, b2)
        sign(d1) | sign(i1) | sign(n1) | signum(f1) | greatest(d1, d2) | least(d1, d2) | greatest(i1, i2, 0) | least(i1, l1) | greatest(t1, t2)
        least(a1, a2) | greatest(n1, m1) | greatest(n1, i1) | least(d1, i1, n1) | greatest(f1, d1) | greatest(i1, NULL, i2) | greatest(p1, p2)""",
    "rounding": """
        round(d1) | round(d1, 2) | round(d1, 0) | round(d1, 5) | bround(d1) | bround(d1, 2) | round(n1) | round(n1, 1) | round(n1, 5)
        round(w1, 3) | round(m1, 2) | bround(n1) | bround(n1, 1) | bround(w1, 2) | round(i1) | round(l1, 2) | floor(d1) | ceil(d1)
        ceiling(d1) | floor(n1) | ceil(n1) | floor(w1) | ceil(w1) | floor(i1) | ceil(l1) | floor(c1) | ceil(c1) | round(c1, 2) | round(v1, 2)""",
    "dates": """
        year(a1) | month(a1) | day(a1) | dayofmonth(a1) | quarter(a1) | dayofweek(a1) | weekday(a1) | dayofyear(a1) | year(z1) | month(z1)
        day(y1) | quarter(z1) | dayofweek(y1) | hour(z1) | minute(z1) | second(z1) | hour(y1) | minute(y1) | extract(year FROM a1)
        extract(month FROM z1) | date_add(a1, 1) | date_add(a1, b1) | date_sub(a1, 1) | date_sub(a1, s1) | dateadd(a1, -3) | datediff(a1, a2)
        date_diff(a2, a1) | date_trunc('year', z1) | date_trunc('quarter', z1) | date_trunc('MONTH', z1) | date_trunc('week', z1)
        date_trunc('day', z1) | date_trunc('hour', z1) | date_trunc('minute', z1) | date_trunc('second', z1) | trunc(a1, 'month')
        trunc(a1, 'YEAR') | trunc(a1, 'week') | trunc(a1, 'quarter') | year(a1) * 100 + month(a1)""",
    "strings": """
        length(t1) | char_length(t1) | len(t1) | concat(t1, t2) | t1 || t2 | concat(t1, '-', i1) | t1 || n1 || p1 | concat(t1) | concat(t1, a1)
        substring(t1, 1, 2) | substring(t1, 2) | substring(t1, 0, 2) | substring(t1, -2) | substring(t1, -3, 2) | substring(t1, -5, 4)
        substring(t1, 2, 0) | substring(t1, 2, -1) | substr(t1, 3, 2147483647) | substring(t1, -2, 2147483647) | substring(t1, 0) | left(t1, 2) | left(t1, 0)
        trim(t1) | ltrim(t1) | rtrim(t1) | trim(BOTH 'ax' FROM t1) | trim(LEADING 'a' FROM t1) | trim(TRAILING 'b ' FROM t1) | ltrim('é', t1)
        startswith(t1, 'a') | endswith(t1, 'b') | contains(t1, 'a') | contains(t1, '') | startswith(t1, '') | contains(t1, '日')
        replace(t1, 'a', 'bb') | replace(t1, 'a') | replace(t1, 'aa', '') | replace(t1, 'é', 'e') | lpad(t1, 3, 'x') | rpad(t1, 3) | lpad(t1, 5) | rpad(t1, 2, '日')""",
    "like": r"""
        t1 LIKE 'a%' | t1 LIKE '%b' | t1 LIKE '%a%' | t1 LIKE 'a' | t1 LIKE '' | t1 LIKE '%' | t1 LIKE '_' | t1 LIKE 'a_' | t1 LIKE '_b%'
        t1 NOT LIKE 'a%' | t1 LIKE 'a!%%' ESCAPE '!' | t1 NOT LIKE '!_' ESCAPE '!' | t1 LIKE '.*' | t1 LIKE '%\%%' | t1 LIKE '%\\%%' | t1 LIKE 'a\\\\b' | t1 LIKE '\_'
        t1 LIKE '%日%' | t1 LIKE '_x' | t1 LIKE '%%' | t1 LIKE 'a%b' | t1 LIKE '%\n%' | t1 LIKE 'a_b' | t1 LIKE '%a%a%' | t1 LIKE '^a$' | NOT (t1 LIKE 'a%')""",
    "nested": """
        r1[0] | r1[2] | size(r1) | cardinality(r1) | array_size(r1) | r1 | k1 | if(p1, r1, r2) | coalesce(r1, r2) | if(p1, k1, NULL) | size(r1) > 1 AND r1[1] = 5
        if(size(r1) > 0, r1[0], -1)""",
    "integer casts": """
        cast(b1 AS INT) | cast(i1 AS BIGINT) | cast(l1 AS INT) | cast(i1 AS SMALLINT) | cast(i1 AS TINYINT) | cast(l1 AS TINYINT)
        int(l1) | l1::smallint | cast(i1 AS INT) | cast(NULL AS INT) | cast(i1 AS DOUBLE) | cast(l1 AS DOUBLE) | cast(l1 AS FLOAT)
        cast(i1 AS DECIMAL(10, 0)) | cast(i1 AS DECIMAL(12, 2)) | cast(i1 AS DECIMAL(5, 2)) | cast(l1 AS DECIMAL(38, 18))
        cast(n1 AS DECIMAL(10, 1)) | cast(n1 AS DECIMAL(4, 3)) | cast(w1 AS DECIMAL(10, 0)) | cast(n1 AS DECIMAL(38, 20))
        cast(n1 AS DOUBLE) | cast(w1 AS DOUBLE) | cast(v1 AS DOUBLE) | cast(f1 AS DOUBLE) | cast(c1 AS DECIMAL(1, 0))""",
}
ROUNDED = frozenset(
    (
        "exp(d1)",
        "exp(d1 % 10)",
        "ln(d1)",
        "ln(i1)",
        "power(d1, d2)",
        "power(d1, 2)",
        "power(i1, 0.5)",
        "power(b1, b2)",
    )
)


@pytest.fixture(scope="module")
def oracle(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark with its code generation, also for small local tables."""
    spark.conf.set(EXCLUDED_RULES, LOCAL_EVALUATION)
    yield spark
    spark.conf.unset(EXCLUDED_RULES)


@dataclass(frozen=True)
class Case:
    """An expression, its evaluator, and its place in the queries."""

    text: str
    evaluate: Evaluate
    type: T.DataType


def expressions_of(group: str) -> list[str]:
    lines = GROUPS[group].strip().splitlines()
    return [text.strip() for line in lines for text in line.split(" | ")]


def columns_of(texts: Sequence[str]) -> list[str]:
    trees = [sqlglot.parse_one(text, read="spark") for text in texts]
    return sorted({column.name for tree in trees for column in tree.find_all(exp.Column)}) or ["i1"]


def types_of(
    spark: SparkSession, columns: Sequence[str], texts: Sequence[str]
) -> dict[str, T.DataType]:
    """Spark's types of expressions, by one analysis."""
    fields = [T.StructField(name, domain_of(name).type) for name in columns]
    spark.createDataFrame([], T.StructType(fields)).createOrReplaceTempView("kernel_types")
    if not texts:
        return {}
    schema = spark.sql(f"SELECT {', '.join(texts)} FROM kernel_types").schema
    return dict(zip(texts, (field.dataType for field in schema), strict=True))


def compiled(spark: SparkSession, texts: Sequence[str]) -> list[Case]:
    """Every expression compiled; one without a kernel fails the test."""
    trees = {text: sqlglot.parse_one(text, read="spark") for text in texts}
    asked = {part.sql("spark") for tree in trees.values() for part in subexpressions(tree)}
    names = columns_of(texts)
    known = types_of(spark, names, sorted(asked))
    whole = types_of(spark, names, list(texts))
    cases = []
    for text, tree in trees.items():
        evaluate = compile_expression(tree, lambda node: known[node.sql("spark")], Settings())
        assert evaluate is not None, f"no kernel for {text}"
        cases.append(Case(text, evaluate, whole[text]))
    return cases


def corner_table(names: Sequence[str]) -> pa.Table:
    """Corners of every column against each other, in an order that is always the same."""
    shuffle = random.Random(7)
    columns = {}
    for name in names:
        pool = [None, *domain_of(name).corners]
        values = [pool[k % len(pool)] for k in range(CORNER_ROWS)]
        shuffle.shuffle(values)
        columns[name] = pa.array(values, arrow_type(domain_of(name).type))
    return pa.table(columns)


def random_tables(names: Sequence[str]) -> st.SearchStrategy[pa.Table]:
    row = st.tuples(*(st.none() | domain_of(name).random for name in names))

    def table(rows: list[tuple[Any, ...]]) -> pa.Table:
        return pa.table(
            {
                name: pa.array([r[k] for r in rows], arrow_type(domain_of(name).type))
                for k, name in enumerate(names)
            }
        )

    return st.lists(row, min_size=1, max_size=12).map(table)


def outcome(case: Case, columns: Mapping[str, pa.Array], n: int) -> pa.Array | str:
    """What we answer: an array, or the name of a condition."""
    try:
        found = case.evaluate(columns, n)
    except IncrementalError as raised:
        return raised.condition
    assert isinstance(found, pa.Array), case.text
    assert found.type == arrow_type(case.type), (case.text, found.type)
    assert len(found) == n, case.text
    found.validate(full=True)
    return found


def plain(array: pa.Array) -> list[Any]:
    """The values as Python has them; dates and times as numbers, since Python's end in 9999."""
    if pa.types.is_date(array.type):
        return array.view(pa.int32()).to_pylist()
    return (
        array.view(pa.int64()).to_pylist()
        if pa.types.is_timestamp(array.type)
        else array.to_pylist()
    )


def bits(value: Any) -> Any:
    """A value that is equal to another only if both are the same, with one NaN."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack("d", value)
    return value


def steps_between(left: float, right: float) -> float:
    """How many doubles lie between two."""
    if not (math.isfinite(left) and math.isfinite(right)):
        return 0 if bits(left) == bits(right) else math.inf
    return abs(left - right) / math.ulp(max(abs(left), abs(right)))


def check(spark: SparkSession, cases: Sequence[Case], table: pa.Table) -> None:
    """Our outcomes equal Spark's on every row of the table."""
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    n = table.num_rows
    shown, raised, ours = {"__row": pa.array(range(n), pa.int32()), **columns}, [], []
    for k, case in enumerate(cases):
        found = outcome(case, columns, n)
        rows: list[pa.Array | str] = [found] * n
        if isinstance(found, str):
            rows = [
                outcome(case, {name: a.slice(r, 1) for name, a in columns.items()}, 1)
                for r in range(n)
            ]
            assert any(isinstance(row, str) for row in rows), f"{case.text} raises on no row alone"
            raised.append((k, rows))
            kept = pa.array([not isinstance(row, str) for row in rows])
            some = {name: array.filter(kept) for name, array in columns.items()}
            alone = outcome(case, some, kept.true_count)
            assert isinstance(alone, pa.Array), case.text
            found = alone.take(pa.array([v if b else None for v, b in zip(_ranks(kept), kept.to_pylist(), strict=True)], pa.int64()))  # fmt: skip
            shown[f"__kept{k}"] = kept
        ours.append(found)
    spark.createDataFrame(pa.table(shown)).createOrReplaceTempView("kernel_rows")
    texts = [
        f"IF(__kept{k}, {case.text}, NULL) AS r{k}"
        if f"__kept{k}" in shown
        else f"{case.text} AS r{k}"
        for k, case in enumerate(cases)
    ]
    theirs = spark.sql(f"SELECT {', '.join(texts)} FROM kernel_rows").toArrow()
    wrong = []
    for k, case in enumerate(cases):
        pairs = zip(plain(theirs[f"r{k}"].combine_chunks()), plain(ours[k]), strict=True)
        for r, (expected, actual) in enumerate(pairs):
            if not same(expected, actual, case.text in ROUNDED):
                row = {name: columns[name][r].as_py() for name in columns_of([case.text])}
                wrong.append(f"{case.text}: Spark {expected!r}, here {actual!r}, row {row}")
                break
    for k, rows in raised:
        place = next(r for r in range(n) if isinstance(rows[r], str))
        condition = spark_condition(spark, cases[k].text, place)
        if condition != rows[place]:
            wrong.append(f"{cases[k].text}: Spark {condition}, here {rows[place]}, row {place}")
    assert not wrong, "\n".join(wrong)


def same(expected: Any, actual: Any, rounded: bool) -> bool:
    if rounded and None not in (expected, actual):
        return steps_between(expected, actual) <= 1
    return bool(bits(expected) == bits(actual))


def spark_condition(spark: SparkSession, text: str, place: int) -> str | None:
    """The condition that Spark raises for a row; the optimiser evaluates it, which is quick."""
    spark.conf.set(EXCLUDED_RULES, "")
    try:
        spark.sql(f"SELECT {text} FROM kernel_rows WHERE __row = {place}").collect()
    except PySparkException as raised:
        return (raised.getCondition() or "").partition(".")[0]
    finally:
        spark.conf.set(EXCLUDED_RULES, LOCAL_EVALUATION)
    return None


def _ranks(kept: pa.Array) -> list[int]:
    rank, found = -1, []
    for keep in kept.to_pylist():
        rank += keep
        found.append(rank)
    return found


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_equal_spark_on_corners(oracle: SparkSession, group: str) -> None:
    texts = expressions_of(group)
    check(oracle, compiled(oracle, texts), corner_table(columns_of(texts)))


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_equal_spark_on_random_rows(oracle: SparkSession, group: str) -> None:
    texts = expressions_of(group)
    cases = compiled(oracle, texts)

    @settings(max_examples=3, database=None, suppress_health_check=list(HealthCheck))
    @given(random_tables(columns_of(texts)))
    def law(table: pa.Table) -> None:
        check(oracle, cases, table)

    law()


def test_no_rows(oracle: SparkSession) -> None:
    for group in GROUPS:
        texts = expressions_of(group)
        none = corner_table(columns_of(texts)).slice(0, 0)
        empty = {name: none[name].combine_chunks() for name in none.column_names}
        for case in compiled(oracle, texts):
            assert isinstance(outcome(case, empty, 0), pa.Array), case.text


def test_every_kernel_is_described() -> None:
    assert all(words for words in KERNELS.values())
