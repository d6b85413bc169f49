"""Answers: from the accumulators of a group to the value that Spark would give.

An answer narrows a sum to the result's type and raises what Spark raises where it does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark.sql.types as T

from spark_incr.errors import error
from spark_incr.plan.stages import Answer
from spark_incr.plan.types import FLOATS, arrow_type
from spark_incr.runtime.columns import Bools, Ints, from_values
from spark_incr.runtime.sums import (
    Floats,
    Vector,
    central_moment,
    float_total,
    wide_fits,
    wide_to_float,
    wide_to_python,
)

State = Sequence[Vector]
_DECIMAL_STORAGE = np.dtype([("low", np.uint64), ("high", np.int64)])


def _int_column(data: Vector, valid: Bools, answer: Answer) -> pa.Array:
    kind = arrow_type(answer.type)
    assert kind is not None
    return from_values(data.astype(kind.to_pandas_dtype()), valid, kind)


def _double_column(data: Floats, valid: Bools) -> pa.Array:
    return from_values(np.where(valid, data, 0.0), valid, pa.float64())


def _python_decimals(unscaled: Any, valid: Bools, decimal: T.DecimalType, ansi: bool) -> pa.Array:
    """Unscaled Python integers as a decimal column; what exceeds its precision is an overflow."""
    limit = 10**decimal.precision
    storage = np.zeros(len(unscaled), dtype=_DECIMAL_STORAGE)
    valid = valid.copy()
    for i in np.flatnonzero(valid):
        number = int(unscaled[i])
        if abs(number) >= limit:
            if ansi:
                raise error("ARITHMETIC_OVERFLOW", what="decimal sum")
            valid[i] = False
            continue
        storage["low"][i] = number & 0xFFFFFFFFFFFFFFFF
        storage["high"][i] = number >> 64
    return from_values(storage, valid, pa.decimal128(decimal.precision, decimal.scale))


def narrow_decimals(unscaled: Ints, valid: Bools, decimal: T.DecimalType, ansi: bool) -> pa.Array:
    """Unscaled 64-bit integers as a decimal column."""
    if decimal.precision < 19:
        limit = 10**decimal.precision
        fits = (unscaled < limit) & (unscaled > -limit)
        if ansi and not fits[valid].all():
            raise error("ARITHMETIC_OVERFLOW", what="decimal sum")
        valid = valid & fits
    storage = np.zeros(len(unscaled), dtype=_DECIMAL_STORAGE)
    storage["low"] = unscaled.view(np.uint64)
    storage["high"] = unscaled >> 63
    return from_values(storage, valid, pa.decimal128(decimal.precision, decimal.scale))


def _count(answer: Answer, states: Sequence[State], ansi: bool) -> pa.Array:
    return from_values(states[0][0], None, pa.int64())


def _sum(answer: Answer, states: Sequence[State], ansi: bool) -> pa.Array:
    state, (count,) = states
    valid = count > 0
    if isinstance(answer.source, FLOATS):
        return _double_column(float_total(state), valid)
    if isinstance(answer.type, T.DecimalType):
        if wide_fits(state).all():
            return narrow_decimals(state[0], valid, answer.type, ansi)
        return _python_decimals(wide_to_python(state), valid, answer.type, ansi)
    if isinstance(answer.source, T.LongType) and ansi and not wide_fits(state)[valid].all():
        raise error("ARITHMETIC_OVERFLOW", what="bigint sum", hint="Use try_sum or a wider type.")
    return _int_column(state[0], valid, answer)


MEANS_BELOW = 1 << 61
"""Sums times the factor of `rounded_means` have to be less than this."""


def rounded_means(sums: Ints, counts: Ints, factor: int) -> Ints | None:
    """sums * factor / counts, rounded HALF_UP; None where 64 bits may not be enough."""
    largest = max(int(sums.max(initial=0)), -int(sums.min(initial=0)))
    if largest >= MEANS_BELOW // factor:
        return None
    rounded = (np.abs(sums) * factor * 2 + counts) // (counts * 2)
    return np.where(sums < 0, -rounded, rounded)


def _average(answer: Answer, states: Sequence[State], ansi: bool) -> pa.Array:
    state, (count,) = states
    valid = count > 0
    divisor = np.where(valid, count, 1)
    if isinstance(answer.type, T.DecimalType) and isinstance(answer.source, T.DecimalType):
        factor = 10 ** (answer.type.scale - answer.source.scale)
        means = rounded_means(state[0], divisor, factor) if wide_fits(state).all() else None
        if means is not None:
            return narrow_decimals(means, valid, answer.type, ansi)
        exact = wide_to_python(state) * factor
        size = np.abs(exact)
        rounded_exact = (size * 2 + divisor.astype(object)) // (divisor.astype(object) * 2)
        return _python_decimals(
            np.where(state[2] < 0, -rounded_exact, rounded_exact), valid, answer.type, ansi
        )
    if isinstance(answer.source, FLOATS):
        total = float_total(state)
    else:
        total = wide_to_float(state) if len(state) == 3 else state[0].astype(np.float64)
    return _double_column(total / divisor, valid)


def _variance(sample: int, root: bool) -> Callable[[Answer, Sequence[State], bool], pa.Array]:
    def answer_variance(answer: Answer, states: Sequence[State], ansi: bool) -> pa.Array:
        (count,), x, xx = states
        valid = count > sample
        n = np.where(count > 0, count, 1).astype(np.float64)
        moment = np.maximum(central_moment(n, x, x, xx), 0.0)
        result = moment / np.where(valid, n - sample, 1.0)
        return _double_column(np.sqrt(result) if root else result, valid)

    return answer_variance


def _covariance(sample: int) -> Callable[[Answer, Sequence[State], bool], pa.Array]:
    def answer_covariance(answer: Answer, states: Sequence[State], ansi: bool) -> pa.Array:
        (count,), x, y, xy, _, _ = states
        valid = count > sample
        n = np.where(count > 0, count, 1).astype(np.float64)
        return _double_column(central_moment(n, x, y, xy) / np.where(valid, n - sample, 1.0), valid)

    return answer_covariance


def _correlation(answer: Answer, states: Sequence[State], ansi: bool) -> pa.Array:
    (count,), x, y, xy, xx, yy = states
    n = np.where(count > 0, count, 1).astype(np.float64)
    with np.errstate(all="ignore"):
        a, b = (np.maximum(central_moment(n, v, v, vv), 0.0) for v, vv in ((x, xx), (y, yy)))
        # As Spark divides: by infinity or by 0 where no double holds the product of the two.
        spread = np.sqrt(a * b)
        result = central_moment(n, x, y, xy) / spread
    valid = (count > 1) & (a != 0.0) & (b != 0.0)
    if ansi and not spread[valid].all():
        raise error("DIVIDE_BY_ZERO")
    return _double_column(result, valid & (spread != 0.0))


def _bool_and(answer: Answer, states: Sequence[State], ansi: bool) -> pa.Array:
    (true,), (count,) = states
    return from_values(true == count, count > 0, pa.bool_())


def _bool_or(answer: Answer, states: Sequence[State], ansi: bool) -> pa.Array:
    (true,), (count,) = states
    return from_values(true > 0, count > 0, pa.bool_())


def _bit_xor(answer: Answer, states: Sequence[State], ansi: bool) -> pa.Array:
    (bits,), (count,) = states
    return _int_column(bits, count > 0, answer)


ANSWERS: dict[str, Callable[[Answer, Sequence[State], bool], pa.Array]] = {
    "count": _count,
    "sum": _sum,
    "avg": _average,
    "var_pop": _variance(0, False),
    "var_samp": _variance(1, False),
    "stddev_pop": _variance(0, True),
    "stddev_samp": _variance(1, True),
    "covar_pop": _covariance(0),
    "covar_samp": _covariance(1),
    "corr": _correlation,
    "bool_and": _bool_and,
    "bool_or": _bool_or,
    "bit_xor": _bit_xor,
}
