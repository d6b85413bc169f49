"""Values as text and text as values, to the letter of Spark.

Text is trimmed of white space and control characters before it is read. What cannot be read is an
error. Floating point numbers are not written here: how many digits Java prints depends on its
version.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T

from spark_incr.errors import error
from spark_incr.plan.types import INTEGERS, arrow_type
from spark_incr.runtime.expressions.decimals import magnitude, unscaled, wide
from spark_incr.runtime.expressions.evaluation import nulls_of, values_of

Convert = Callable[[pa.Array], pa.Array]

_BLANK = "".join(map(chr, range(33))) + "\x7f"
_WHOLE = r"^[+-]?[0-9]+$"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_YEAR_ZERO, _YEAR_TEN_THOUSAND = -719528, 2932897


def text_writer(source: T.DataType) -> Convert | None:
    """How a type is written, None if that is not certain."""
    if isinstance(source, T.DecimalType):
        return lambda array: _plain_decimals(array, source.scale)
    if isinstance(source, T.DateType):
        return _iso_dates
    if isinstance(source, (*INTEGERS, T.BooleanType)):
        return lambda array: pc.cast(array, pa.string())
    return None


def _plain_decimals(array: pa.Array, scale: int) -> pa.Array:
    values = unscaled(array)
    if values.dtype == object or magnitude(values) >= 2**63:
        numbers = [str(abs(value)).zfill(scale + 1) for value in wide(values)]
        digits = pa.array(numbers, pa.string())
    else:
        digits = pc.utf8_lpad(pa.array(np.abs(values)).cast(pa.string()), scale + 1, "0")
    signs = pc.if_else(pa.array(values < 0, pa.bool_()), "-", "")
    if scale == 0:
        parts = [signs, digits]
    else:
        whole = pc.utf8_slice_codeunits(digits, start=0, stop=-scale)
        rest = pc.utf8_slice_codeunits(digits, start=-scale)
        parts = [signs, whole, pa.repeat(".", len(array)), rest]
    written = pc.binary_join_element_wise(*parts, "")
    return written if array.null_count == 0 else pc.if_else(array.is_valid(), written, None)


def _iso_dates(array: pa.Array) -> pa.Array:
    days = values_of(array)
    outside = (days < _YEAR_ZERO) | (days >= _YEAR_TEN_THOUSAND)
    nulls = nulls_of(array)
    if nulls is not None:
        outside &= ~nulls
    if not outside.any():
        return pc.cast(array, pa.string())
    texts = [_iso_date(day) for day in days.astype("datetime64[D]")]
    return pa.array(texts, pa.string(), mask=nulls)


def _iso_date(day: np.datetime64) -> str:
    """A year has four digits, more with a sign before them, and a sign if it is before the year 0.

    >>> [_iso_date(np.datetime64(day, "D")) for day in (-719529, -719528, 2932897)]
    ['-0001-12-31', '0000-01-01', '+10000-01-01']
    """
    year = int(day.astype("datetime64[Y]").astype(np.int64)) + 1970
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}{str(day)[-6:]}"


def text_reader(target: T.DataType) -> Convert | None:
    """How a type is read, None if that is not certain."""
    if isinstance(target, INTEGERS):
        return lambda array: _integers(array, target)
    return _dates if isinstance(target, T.DateType) else None


def _invalid(array: pa.Array, good: pa.Array | None, target: T.DataType) -> Exception:
    wrong = array if good is None else array.filter(pc.invert(good))
    return error(
        "CAST_INVALID_INPUT",
        value=repr(wrong[0].as_py()),
        source="string",
        target=target.simpleString(),
    )


def _integers(array: pa.Array, target: T.DataType) -> pa.Array:
    trimmed = pc.utf8_trim(array, characters=_BLANK)
    good = pc.match_substring_regex(trimmed, _WHOLE)
    if pc.all(good).as_py() is False:
        raise _invalid(array, good, target)
    unsigned = pc.utf8_ltrim(trimmed, characters="+")
    try:
        return pc.cast(unsigned, arrow_type(target))
    except pa.ArrowInvalid:
        raise _invalid(array.drop_null(), None, target) from None


def _dates(array: pa.Array) -> pa.Array:
    if pc.all(pc.match_substring_regex(array, _DAY)).as_py() is not False:
        try:
            return pc.cast(array, pa.date32())
        except pa.ArrowInvalid:
            pass
    days = [None if text is None else read_date(text) for text in array.to_pylist()]
    good = pa.array([day is not None for day in days])
    if any(
        day is None and valid for day, valid in zip(days, array.is_valid().to_pylist(), strict=True)
    ):
        raise _invalid(array, pc.or_(good, array.is_null()), T.DateType())
    return pa.array(days, pa.int32()).view(pa.date32())


_SEGMENTS = re.compile(
    r"(?P<year>[+-]?[0-9]{4,7})(-(?P<month>[0-9]{1,2})(-(?P<day>[0-9]{1,2})([ T].*)?)?)?",
    re.DOTALL,
)


def read_date(text: str) -> int | None:
    """The days since 1970-01-01 of `[+-]y[-m[-d[ anything]]]`, None if that is no date.

    >>> read_date("1970-1-2 12:00"), read_date("1971"), read_date("2023-02-29")
    (1, 365, None)
    """
    found = _SEGMENTS.fullmatch(text.strip(_BLANK))
    if found is None:
        return None
    year, month, day = int(found["year"]), int(found["month"] or 1), int(found["day"] or 1)
    # The calendar repeats after 400 years of 146,097 days.
    cycles, within = divmod(year - 2000, 400)
    try:
        ordinal = datetime.date(2000 + within, month, day).toordinal()
    except ValueError:
        return None
    days = ordinal - _EPOCH + cycles * 146_097
    return days if -(2**31) <= days < 2**31 else None
