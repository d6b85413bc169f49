"""What the kernels are tried on: the values of columns, and expressions over these columns.

A column is named by the letter of its domain and a number. Expressions are separated by ` | `.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyspark.sql.types as T
from hypothesis import strategies as st


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
    unit = 10**scale
    unscaled = (0, 1, -1, 5, -5, 15, 25, 49, 50, -50, unit, unit + 1, -unit, top, -top, top // 3)
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
_DOUBLE_CORNERS = (*_FLOAT_CORNERS, 1e14, 123456789012345.6, 4000000000000000.5)
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
_FAR_DAYS = (-719529, -719528, -1084037, -1084038, -4371953, 2932896, 2932897, 99999999, -99999999)
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
        (*_DOUBLE_CORNERS, 1.7e308, 5e-324, 2.0**31, 2.0**63, -(2.0**63), 0.1, 123456.789),
        st.floats() | st.floats(-1e4, 1e4) | st.floats(-1e16, 1e16),
    ),
    "n": _decimals(10, 2),
    "m": _decimals(18, 6),
    "w": _decimals(38, 18),
    "v": _decimals(38, 4),
    "c": _decimals(3, 3),
    "o": _decimals(38, 30),
    "t": Domain(T.StringType(), _TEXTS, _text),
    "q": Domain(
        T.StringType(),
        ("", "a", "ab", "AB", "aBc", "bab", "Z[`{@", "\x00", "\t x", "~"),
        st.text(st.characters(max_codepoint=127), max_size=5),
    ),
    "a": Domain(T.DateType(), (*_DATES, *_FAR_DAYS), st.dates() | st.integers(-(10**7), 10**7)),
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
            "5881580-07-11",
            "5881580-07-12",
            "-5877641-06-23",
            "-5877641-06-22",
            "9999999-01-01",
            "2023--1",
            "0000-01-01",
        ),
        st.dates().map(str)
        | st.from_regex(r"[+-]?[0-9]{3,7}(-[0-9]{1,2}){0,2}[ T]?", fullmatch=True),
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
        n1 + NULL | m1 / m2 | o1 + 1 | 1 - o1 | o1 * 2 | o1 / 3 | 3 / o1 | o1 % 3 | w1 + 1 | w1 * 3000000000 | o1 + i1 | o1 * n1""",
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
        w1 = v1 | v1 >= w1 | w1 < v1 | w1 <=> v1 | l1 > w1 | w1 BETWEEN v1 AND v2 | n1 BETWEEN n2 / n1 AND m1 | i1 / i2 BETWEEN 0 AND 1 / i1
        isnan(d1) | isnan(f1) | d1 IN (0, 1.5, 2) | d1 IN (0.0D, d2, 1) | n1 IN (0, 0.5, 1)
        o1 > 0 | o1 = 1 | 0 < o1 | -1 < o1 | o1 <=> (1) | o1 = 2147483648 | o1 < 99999999 | o1 <> 100000000 | o1 BETWEEN -1 AND 1 | o1 = i1 | w1 < 9223372036854775807
        CASE o1 WHEN 0 THEN 'none' WHEN 1 THEN 'one' END | nullif(o1, 1) | o1 > 0.0 | o1 = o2 | o1 < c1
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
        b1 & b2 | s1 ^ s2 | i1 & i2 | i1 ^ l1 | l1 & l2 | (i1|i2) | (b1|l1) | ~b1 | ~s1 | ~i1 | ~l1 | i1 & NULL | i1 & 255
        shiftright(i1, 1) | shiftright(l1, b1) | shiftleft(i1, b2) | shiftleft(l1, i1) | shiftright(b1, 33) | shiftleft(s1, -1) | i1 << 3 | l1 >> 2
        cast(shiftright(l1, 1) & 1 AS TINYINT) | shiftleft(i1, NULL)""",
    "other casts": """
        cast(d1 AS INT) | cast(d1 AS BIGINT) | cast(d1 AS TINYINT) | cast(f1 AS SMALLINT) | cast(f1 AS BIGINT) | cast(f1 AS INT)
        cast(n1 AS INT) | cast(w1 AS BIGINT) | cast(v1 AS BIGINT) | cast(n1 AS TINYINT) | cast(c1 AS INT) | cast(d1 AS FLOAT)
        cast(n1 AS FLOAT) | cast(w1 AS FLOAT) | cast(i1 AS BOOLEAN) | cast(d1 AS BOOLEAN) | cast(p1 AS INT) | cast(p1 AS DOUBLE)
        cast(i1 AS STRING) | cast(l1 AS STRING) | cast(b1 AS STRING) | cast(p1 AS STRING) | cast(n1 AS STRING) | cast(w1 AS STRING)
        cast(c1 AS STRING) | cast(v1 AS STRING) | cast(a1 AS STRING) | cast(t1 AS STRING) | 1.25BD | cast('7.5' AS DOUBLE)
        cast(z1 AS DATE) | cast(y1 AS DATE) | cast(a1 AS TIMESTAMP) | cast(a1 AS TIMESTAMP_NTZ) | cast(z1 AS TIMESTAMP_NTZ)
        cast(y1 AS TIMESTAMP) | date(z1) | DATE '2020-02-29' | cast('2020-1-1' AS DATE) | cast(n1 AS DECIMAL(4, 1)) | string(i1) | bigint(i1) | smallint(i1) | negative(i1)""",
    "text casts": """
        cast(g1 AS INT) | cast(g1 AS BIGINT) | cast(g1 AS TINYINT) | cast(g1 AS SMALLINT) | cast(e1 AS DATE) | date(e1)
        cast(t1 AS INT) | cast(t1 AS DATE) | to_date(e1) | to_date(t1) | cast('12' AS INT) + i1""",
    "mathematics": """
        sqrt(d1) | sqrt(i1) | sqrt(n1) | power(d1, 2) | power(i1, 0.5) | power(d1, 0.5D) | pow(d1, -1) | power(n1, 1) | power(d1, 0) | power(l1, 2.0)
        sign(d1) | sign(i1) | sign(n1) | signum(f1) | greatest(d1, d2) | least(d1, d2) | greatest(i1, i2, 0) | least(i1, l1) | greatest(t1, t2)
        least(a1, a2) | greatest(n1, m1) | greatest(n1, i1) | least(d1, i1, n1) | greatest(f1, d1) | greatest(i1, NULL, i2) | greatest(p1, p2)""",
    "rounding": """
        round(d1) | round(d1, 2) | round(d1, 0) | round(d1, 5) | bround(d1) | bround(d1, 2) | round(n1) | round(n1, 1) | round(n1, 5)
        round(w1, 3) | round(m1, 2) | bround(n1) | bround(n1, 1) | bround(w1, 2) | round(i1) | round(l1, 2) | round(d1, 13) | bround(d1, 14) | round(d1, 15) | floor(d1) | ceil(d1)
        ceiling(d1) | floor(n1) | ceil(n1) | floor(w1) | ceil(w1) | floor(i1) | ceil(l1) | floor(c1) | ceil(c1) | round(c1, 2) | round(v1, 2)""",
    "dates": """
        year(a1) | month(a1) | day(a1) | dayofmonth(a1) | quarter(a1) | dayofweek(a1) | weekday(a1) | dayofyear(a1) | year(z1) | month(z1)
        day(y1) | quarter(z1) | dayofweek(y1) | hour(z1) | minute(z1) | second(z1) | hour(y1) | minute(y1) | extract(year FROM a1)
        extract(month FROM z1) | date_add(a1, 1) | date_add(a1, b1) | date_sub(a1, 1) | date_sub(a1, s1) | dateadd(a1, -3) | datediff(a1, a2)
        date_diff(a2, a1) | date_trunc('year', z1) | date_trunc('quarter', z1) | date_trunc('MONTH', z1) | date_trunc('week', z1)
        date_trunc('day', z1) | date_trunc('hour', z1) | date_trunc('minute', z1) | date_trunc('second', z1) | trunc(a1, 'month')
        trunc(a1, 'YEAR') | trunc(a1, 'week') | trunc(a1, 'quarter') | year(a1) * 100 + month(a1) | a1 + 1 | a1 - s1 | a1 + INTERVAL 1 DAY
        a1 - INTERVAL '2' WEEKS | z1 + INTERVAL 90 MINUTES | z1 - INTERVAL 1 DAY | y1 + INTERVAL -5 SECOND | a1 = '2000-02-29' | a1 < '2023-01-01'
        z1 >= '2024-02-29' | z1 < '2024-02-29 12:34:56.000789' | y1 = TIMESTAMP_NTZ '1970-01-01 00:00:00' | z1 > TIMESTAMP '2000-01-01 00:00:00.500'
        a1 BETWEEN '1970-01-01' AND '2024-12-31' | a1 IN ('1970-01-01', '2000-02-29') | TIMESTAMP '2020-01-01 01:02:03' | last_day(a1) | to_date(a1) | to_date(z1) | to_date(y1) | CASE a1 WHEN '1970-01-01' THEN 1 END""",
    "strings": """
        length(t1) | char_length(t1) | len(t1) | concat(t1, t2) | t1 || t2 | concat(t1, '-', i1) | t1 || n1 || p1 | concat(t1) | concat(t1, a1)
        substring(t1, 1, 2) | substring(t1, 2) | substring(t1, 0, 2) | substring(t1, -2) | substring(t1, -3, 2) | substring(t1, -5, 4)
        substring(t1, 2, 0) | substring(t1, 2, -1) | substr(t1, 3, 2147483647) | substring(t1, -2, 2147483647) | substring(t1, 0) | left(t1, 2) | left(t1, 0)
        trim(t1) | ltrim(t1) | rtrim(t1) | trim(BOTH 'ax' FROM t1) | trim(LEADING 'a' FROM t1) | trim(TRAILING 'b ' FROM t1) | ltrim('é', t1)
        startswith(t1, 'a') | endswith(t1, 'b') | contains(t1, 'a') | contains(t1, '') | startswith(t1, '') | contains(t1, '日')
        replace(t1, 'a', 'bb') | replace(t1, 'a') | replace(t1, 'aa', '') | replace(t1, 'é', 'e') | lpad(t1, 3, 'x') | rpad(t1, 3) | lpad(t1, 5) | rpad(t1, 2, '日')""",
    "strings in ASCII": """
        upper(q1) | lower(q1) | ucase(q2) | lcase(q1 || q2) | upper(q1) = 'AB' | instr(q1, 'b') | locate('ab', q1) | position('a' IN q1)
        CASE WHEN p1 THEN upper(q1) ELSE q2 END""",
    "like": r"""
        t1 LIKE 'a%' | t1 LIKE '%b' | t1 LIKE '%a%' | t1 LIKE 'a' | t1 LIKE '' | t1 LIKE '%' | t1 LIKE '_' | t1 LIKE 'a_' | t1 LIKE '_b%'
        t1 NOT LIKE 'a%' | t1 LIKE 'a!%%' ESCAPE '!' | t1 NOT LIKE '!_' ESCAPE '!' | t1 LIKE '.*' | t1 LIKE '%\%%' | t1 LIKE '%\\%%' | t1 LIKE 'a\\\\b' | t1 LIKE '\_'
        t1 LIKE '%日%' | t1 LIKE '_x' | t1 LIKE '%%' | t1 LIKE 'a%b' | t1 LIKE '%\n%' | t1 LIKE 'a_b' | t1 LIKE '%a%a%' | t1 LIKE '^a$' | NOT (t1 LIKE 'a%')""",
    "nested": """
        r1[0] | r1[2] | size(r1) | cardinality(r1) | array_size(r1) | r1 | k1 | if(p1, r1, r2) | coalesce(r1, r2) | if(p1, k1, NULL) | size(r1) > 1 AND r1[1] = 5
        if(size(r1) > 0, r1[0], -1) | (k1).u | (k1).v""",
    "integer casts": """
        cast(b1 AS INT) | cast(i1 AS BIGINT) | cast(l1 AS INT) | cast(i1 AS SMALLINT) | cast(i1 AS TINYINT) | cast(l1 AS TINYINT)
        int(l1) | l1::smallint | cast(i1 AS INT) | cast(NULL AS INT) | cast(i1 AS DOUBLE) | cast(l1 AS DOUBLE) | cast(l1 AS FLOAT)
        cast(i1 AS DECIMAL(10, 0)) | cast(i1 AS DECIMAL(12, 2)) | cast(i1 AS DECIMAL(5, 2)) | cast(l1 AS DECIMAL(38, 18))
        cast(n1 AS DECIMAL(10, 1)) | cast(n1 AS DECIMAL(4, 3)) | cast(w1 AS DECIMAL(10, 0)) | cast(n1 AS DECIMAL(38, 20))
        cast(n1 AS DOUBLE) | cast(w1 AS DOUBLE) | cast(v1 AS DOUBLE) | cast(f1 AS DOUBLE) | cast(c1 AS DECIMAL(1, 0))""",
}
OUTSIDE = """
    initcap(t1) | exp(d1) | ln(d1) | power(d1, d2) | power(d1, 3) | log10(d1) | log(10, d1) | cast(d1 AS STRING) | cast(d1 AS DECIMAL(10, 2)) | try_cast(t1 AS INT) | rand() | i1 + rand()
    -w1 | w1 % w2 | t1 = i1 | cast(t1 AS DOUBLE) | round(f1, 1) | round(d1, -1) | transform(r1, x -> x + 1) | t1 LIKE t2
    substring(t1, i1, 2) | (SELECT 1) | i1 IN (SELECT 1) | row_number() OVER (ORDER BY i1) | sum(i1) | coalesce(w1, v1) | w1 IN (v1, 0) | o1 IN (0, 1) | o1 > 0L | o1 > cast(0 AS INT) | o1 = round(1) | coalesce(o1, 0) | greatest(o1, 0) | if(p1, o1, 0) | r1 = r2
    t1 LIKE 'a\\\\c' | a1 + INTERVAL 1 MONTH | date_trunc('decade', z1) | current_date() | i1 = '1'"""
