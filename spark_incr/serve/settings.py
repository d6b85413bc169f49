"""The settings of a session on which the meaning of a query depends.

Law: a view means what the settings of its creation say, whatever the session has set since. While Spark
works for a view, the settings that the view keeps have its values, and of the others that matter none
is set that was not set then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_incr.serve.questions import unlogged

CASE_SENSITIVE = "spark.sql.caseSensitive"
FRACTION_FIRST = "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate"
# Literals have a meaning of their own under this one.
RAW_LITERALS = "spark.sql.parser.escapedStringLiterals"
# The kernels and the reader of queries know these only as they are by default.
FIXED = {
    "spark.sql.legacy.statisticalAggregate": "false",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.legacy.noCharPaddingInPredicate": "false",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
}
# Those that a view keeps in any case: their defaults differ between releases or are read here.
_KEPT = (
    "spark.sql.ansi.enabled",
    CASE_SENSITIVE,
    "spark.sql.session.timeZone",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.legacy.castComplexTypesToString.enabled",
    "spark.sql.legacy.sizeOfNull",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.timestampType",
)
_OTHERS = {
    *FIXED,
    RAW_LITERALS,
    "spark.sql.icu.caseMappings.enabled",
    "spark.sql.timeType.enabled",
    "spark.sql.timestampNanosTypes.enabled",
}
_OLDER_WAYS = "spark.sql.legacy."
_MOST_SEEN = 64
_seen: dict[str, dict[str, str]] = {}
_defaults: dict[str, str] = {}


def settings_of(spark: SparkSession) -> dict[str, str]:
    """The settings that a view keeps, as far as this release of Spark has them."""
    result = {}
    for key in (*_KEPT, *(key for key in _set_in(spark) if _matters(key))):
        with suppress(PySparkException), unlogged():
            result[key] = str(spark.conf.get(key))
    return result


@contextmanager
def under(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """The session with the settings of a view, for a while."""
    before = _set_in(spark)
    now = {key: before[key] if key in before else _default(spark, key) for key in settings}
    differing = {key: value for key, value in settings.items() if now[key] != value}
    surplus = [key for key in before if _matters(key) and key not in settings]
    unset = dict.fromkeys(key for key in surplus if spark.conf.isModifiable(key))
    with having(spark, differing | unset):
        yield


@contextmanager
def having(spark: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """The session with some settings for a while, of which None is as if it were not set."""
    before = _set_in(spark) if settings else {}
    for key, value in settings.items():
        _put(spark, key, value)
    try:
        yield
    finally:
        for key in settings:
            _put(spark, key, before.get(key))


def substituted(spark: SparkSession, text: str) -> str:
    """A text with the values of `${name}` in it, which Spark puts in before it reads a text."""
    if "${" not in text:
        return text
    jvm: Any = spark._jvm
    return str(jvm.org.apache.spark.sql.internal.VariableSubstitution().substitute(text))


def _matters(key: str) -> bool:
    return key.startswith(_OLDER_WAYS) or key in _OTHERS


def _put(spark: SparkSession, key: str, value: str | None) -> None:
    if value is None:
        spark.conf.unset(key)
    else:
        spark.conf.set(key, value)


def _set_in(spark: SparkSession) -> dict[str, str]:
    """What is set in a session. To ask for all is slow, so it is done once for the same text."""
    conf: Any = spark.conf
    text = str(conf._jconf.getAll().toString())
    if text not in _seen:
        if len(_seen) >= _MOST_SEEN:
            _seen.clear()
        _seen[text] = dict(conf.getAll)
    return _seen[text]


def _default(spark: SparkSession, key: str) -> str:
    """The value of a setting that is not set."""
    if key not in _defaults:
        _defaults[key] = str(spark.conf.get(key))
    return _defaults[key]
