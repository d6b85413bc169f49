"""Sums: h(A + B) = h(A) ⊗ h(B), what is inserted and deleted leaves nothing, and the total is that
of exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_incr.runtime.keys import Groups
from spark_incr.runtime.sums import (
    MONOIDS,
    central_moment,
    float_total,
    wide_to_float,
    wide_to_python,
)

DECIMAL = np.dtype([("low", np.uint64), ("high", np.int64)])
GROUPS = 3

ANY_FLOAT = st.floats(allow_nan=False, allow_infinity=False)
AWKWARD_FLOAT = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.1, 1e300, -1e300, 1.7e308, 1e16, 1.0000000000000002, 5e-324, 1e-300]
)
FLOATS = ANY_FLOAT | AWKWARD_FLOAT | st.floats(-1e6, 1e6)
# Three doubles hold any sum of these without rounding: about 140 bits from first to last.
HELD_FLOATS = st.builds(
    lambda mantissa, exponent: math.ldexp(mantissa, exponent),
    st.integers(-(2**52), 2**52),
    st.integers(-40, 40),
)
# As many doubles hold any sum of their squares.
HELD_FACTORS = st.builds(math.ldexp, st.integers(-(2**52), 2**52), st.integers(-5, 5))
WEIGHTS = st.integers(-3, 3)


def groups_of(numbers: list[int]) -> Groups:
    """Rows grouped by a number below GROUPS; every group has at least one row."""
    order = np.argsort(np.array(numbers), kind="stable")
    starts = np.searchsorted(np.array(numbers)[order], np.arange(GROUPS))
    return Groups(order, starts, np.zeros(GROUPS, np.uint64))


def state_of(monoid: str, rows: list[tuple[int, Any, int]], dtype: Any) -> list[Any]:
    """h of rows (group, value, weight)."""
    padded = [*rows, *((g, rows[0][1] if rows else 0, 0) for g in range(GROUPS))]
    values = np.array([v for _, v, _ in padded], dtype=dtype)
    weight = np.array([w for _, _, w in padded], dtype=np.int64)
    terms = [values, values] if monoid == "product" else [values]
    return MONOIDS[monoid].homomorphism(terms, weight, groups_of([g for g, _, _ in padded]))


# Three doubles hold a sum of these: 40 bits before the point, 60 and a mantissa behind it.
HELD_SINGLES = st.floats(-(2.0**40), 2.0**40, width=32).map(
    lambda value: value if abs(value) >= 2.0**-60 else 0.0
)


def wide(number: int) -> tuple[int, int]:
    return number & (2**64 - 1), number >> 64


def rows_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[int, Any, int]]]:
    return st.lists(st.tuples(st.integers(0, GROUPS - 1), values, WEIGHTS), max_size=12)


def exact(rows: list[tuple[int, Any, int]], number: Any = Fraction) -> list[Any]:
    return [sum((number(v) * w for g, v, w in rows if g == k), number(0)) for k in range(GROUPS)]


CASES: list[tuple[str, Any, st.SearchStrategy[Any]]] = [
    ("integer", np.int32, st.integers(-(2**31), 2**31 - 1)),
    ("integer", np.bool_, st.booleans()),
    ("wide", np.int64, st.integers(-(2**63), 2**63 - 1)),
    ("wide", DECIMAL, st.integers(-(10**38) + 1, 10**38 - 1).map(wide)),
    ("wide", DECIMAL, st.integers(-(10**20), 10**20).map(wide)),
    ("float", np.float64, HELD_FLOATS | st.sampled_from([math.nan, math.inf, -math.inf, -0.0])),
    ("float", np.float32, HELD_SINGLES),
    ("product", np.float64, HELD_FACTORS | st.sampled_from([math.nan, math.inf, -math.inf, -0.0])),
    ("product", np.float64, HELD_FACTORS.map(lambda value: math.ldexp(value, 700))),
    ("xor", np.int64, st.integers(-(2**63), 2**63 - 1)),
]


def same_state(a: list[Any], b: list[Any]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(("monoid", "dtype", "values"), CASES)
@given(data=st.data())
def test_what_is_inserted_and_deleted_leaves_the_state(
    monoid: str, dtype: Any, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    merge = MONOIDS[monoid].merge
    a, b = data.draw(rows_of(values)), data.draw(rows_of(values))
    state = merge(state_of(monoid, [], dtype), state_of(monoid, a, dtype))
    added = merge(state, state_of(monoid, b, dtype))
    undone = merge(added, state_of(monoid, [(g, v, -w) for g, v, w in b], dtype))
    assert same_state(undone, state)


@pytest.mark.parametrize(("monoid", "dtype", "values"), CASES)
@given(data=st.data())
def test_h_of_a_sum_is_the_merge_of_the_hs(
    monoid: str, dtype: Any, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    merge = MONOIDS[monoid].merge
    a, b = data.draw(rows_of(values)), data.draw(rows_of(values))
    together = merge(state_of(monoid, [], dtype), state_of(monoid, a + b, dtype))
    apart = merge(state_of(monoid, a, dtype), state_of(monoid, b, dtype))
    swapped = merge(state_of(monoid, b[::-1], dtype), state_of(monoid, a[::-1], dtype))
    assert same_state(together, apart)
    assert same_state(swapped, apart)


@given(rows_of(st.integers(-(2**63), 2**63 - 1)))
def test_sums_of_bigints_are_those_of_python(rows: list[tuple[int, int, int]]) -> None:
    state = state_of("wide", rows, np.int64)
    assert wide_to_python(state).tolist() == exact(rows, int)
    assert wide_to_float(state).tolist() == [float(n) for n in exact(rows, int)]


@given(rows_of(st.integers(-(10**38) + 1, 10**38 - 1)))
def test_sums_of_decimals_do_not_wrap(rows: list[tuple[int, int, int]]) -> None:
    state = state_of("wide", [(g, wide(v), w) for g, v, w in rows], DECIMAL)
    assert wide_to_python(state).tolist() == exact(rows, int)


@given(rows_of(FLOATS))
def test_float_sums_are_exact_within_one_ulp(rows: list[tuple[int, float, int]]) -> None:
    totals = float_total(state_of("float", rows, np.float64)).tolist()
    for total, expected in zip(totals, exact(rows), strict=True):
        assert within_an_ulp(total, expected)


def within_an_ulp(total: float, expected: Fraction) -> bool:
    try:
        nearest = float(expected)
    except OverflowError:
        return math.isinf(total) or abs(total) > 1.79e308
    return abs(Fraction(total) - expected) <= Fraction(math.ulp(nearest))


@given(rows_of(st.floats()))
def test_not_finite_values_are_counted(rows: list[tuple[int, float, int]]) -> None:
    positive = [(g, v, abs(w)) for g, v, w in rows]
    totals = float_total(state_of("float", positive, np.float64)).tolist()
    for group, total in enumerate(totals):
        values = [v for g, v, w in positive if g == group and w]
        if any(not math.isfinite(v) for v in values):
            assert str(total) == str(sum(v for v in values if not math.isfinite(v)))


def moments(x: Any, counts: Any, weight: Any, groups: Groups) -> Any:
    sums = MONOIDS["float"].homomorphism([x], weight, groups)
    squares = MONOIDS["product"].homomorphism([x, x], weight, groups)
    return central_moment(counts.astype(np.float64), sums, sums, squares)


@pytest.mark.parametrize("power", [0, 300, 478, 480, 490, 511, 512, 600, 1000])
def test_moments_of_numbers_of_any_size(power: int) -> None:
    x = np.ldexp(np.array([1.0, 3.0, 5.0, 7.0, 7.0, 1.0 + 2.0**-40, 1.0]), power)
    weight = np.array([1, 1, 1, 2, 3, 1, 1])
    groups = groups_of([0, 0, 0, 1, 1, 2, 2])
    result = moments(x, np.array([3, 5, 2]), weight, groups)
    with np.errstate(over="ignore"):
        assert result.tolist() == np.ldexp([8.0, 0.0, 2.0**-81], 2 * power).tolist()


@given(
    rows_of(st.integers(-(10**9), 10**9).map(lambda n: n / 1000)), st.integers(-(10**12), 10**12)
)
def test_moments_survive_a_large_mean(rows: list[tuple[int, float, int]], mean: int) -> None:
    shifted = [(g, v + mean, abs(w) + 1) for g, v, w in rows]
    counts = np.array([max(sum(w for g, _, w in shifted if g == k), 1) for k in range(GROUPS)])
    padded = [*shifted, *((g, 0.0, 0) for g in range(GROUPS))]
    x = np.array([v for _, v, _ in padded])
    weight = np.array([w for _, _, w in padded], dtype=np.int64)
    groups = groups_of([g for g, _, _ in padded])
    result = moments(x, counts, weight, groups)
    for group in range(GROUPS):
        mine = [(Fraction(v), w) for g, v, w in shifted if g == group]
        total = sum((v * w for v, w in mine), Fraction(0))
        expected = sum((v * v * w for v, w in mine), Fraction(0)) - total**2 / int(counts[group])
        # Twice the precision of a double, of what cancels.
        noise = float(total**2 / int(counts[group])) * 2.0**-96
        assert math.isclose(result[group], float(expected), rel_tol=1e-9, abs_tol=noise)
