"""Sums that can be undone: h(Δ) of each additive monoid, and its ⊗.

Law: adding a batch and then its negation leaves the state as it was, bit for bit, whatever the
order of rows. Each sum is kept wider than its result, so that nothing is rounded or wraps on the
way; the answer narrows it and raises what Spark raises.

- `integer`: 64 bits, for values of at most 32 bits;
- `wide`: 192 bits in three columns, for bigint and the unscaled values of decimals: a change of 38
  digits may need more than 128;
- `float`: a non-overlapping expansion of three doubles, two more for values whose sum could
  overflow (scaled down by 2**128), and counts of NaN, Infinity and -Infinity. It is exact while
  three doubles can hold the sum, that is up to 159 bits between its first and its last; beyond
  that, what is rounded is 2**-159 of the greatest sum that the group has had.
- `product`: the same for products of two doubles, of which an expansion of three more holds those
  that could overflow (scaled down by 2**1152), exact to the last bit of a product;
- `xor`: 64 bits, each value counted modulo 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_incr.runtime.columns import Bools, Ints
from spark_incr.runtime.keys import Groups

Floats = npt.NDArray[np.float64]
Vector = npt.NDArray[Any]
_LOW32 = np.int64(0xFFFFFFFF)
_BIG = 2.0**960
_BIG_SCALE = 2.0**-128
_HALF_SCALE = 576
"""Products of two doubles are scaled down by twice as many powers of 2, each factor by as many."""
_SPLITTER = 134217729.0


@dataclass(frozen=True)
class Monoid:
    """A state of several plain columns, how a batch maps into it, and how two states combine."""

    dtypes: tuple[str, ...]
    homomorphism: Callable[[Sequence[Vector], Ints, Groups], list[Vector]]
    merge: Callable[[Sequence[Vector], Sequence[Vector]], list[Vector]]
    weighted_total: Callable[[Sequence[Vector], Ints, Groups], list[Vector]] | None = None
    """The sum per group of states times weights, where that is exact."""


def _integer_homomorphism(terms: Sequence[Vector], weight: Ints, groups: Groups) -> list[Vector]:
    product = weight
    for term in terms:
        product = product * term.astype(np.int64)
    return [groups.total(product)]


def _integer_merge(state: Sequence[Vector], delta: Sequence[Vector]) -> list[Vector]:
    return [state[0] + delta[0]]


def _wide_homomorphism(terms: Sequence[Vector], weight: Ints, groups: Groups) -> list[Vector]:
    (term,) = terms
    if term.dtype.names:
        low, high = np.ascontiguousarray(term["low"]), np.ascontiguousarray(term["high"])
    else:
        low, high = term.astype(np.int64).view(np.uint64), term.astype(np.int64) >> 63
    return _wide_total([low.view(np.int64), high, high >> 63], weight, groups)


def _wide_total(words: Sequence[Vector], weight: Ints, groups: Groups) -> list[Vector]:
    """The sum per group of numbers of 192 bits times their weights."""
    low, middle, high = words
    if bool(wide_fits(words).all()):
        largest = max(int(low.max(initial=0)), -int(low.min(initial=0)))
        if largest * max(int(np.abs(weight).sum()), 1) < 1 << 62:
            total = groups.total(low * weight)
            return [total, total >> 63, total >> 63]
    limbs = [low & _LOW32, (low >> 32) & _LOW32, middle & _LOW32, (middle >> 32) & _LOW32]
    carry = np.zeros(groups.count, dtype=np.int64)
    parts: list[Ints] = []
    for limb in limbs:
        whole = groups.total(limb * weight) + carry
        parts.append(whole & _LOW32)
        carry = whole >> 32
    top = groups.total(high * weight) + carry
    return [parts[0] | (parts[1] << 32), parts[2] | (parts[3] << 32), top]


def _wide_merge(state: Sequence[Vector], delta: Sequence[Vector]) -> list[Vector]:
    words: list[Vector] = []
    carry = np.zeros(len(state[0]), dtype=np.uint64)
    for a, b in zip(state[:2], delta[:2], strict=True):
        part = a.view(np.uint64) + b.view(np.uint64)
        whole = part + carry
        carry = ((part < a.view(np.uint64)) | (whole < part)).astype(np.uint64)
        words.append(whole.view(np.int64))
    return [*words, state[2] + delta[2] + carry.view(np.int64)]


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    p = a * b
    c = _SPLITTER * a
    a_high = c - (c - a)
    a_low = a - a_high
    c = _SPLITTER * b
    b_high = c - (c - b)
    b_low = b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def _expansion_add(a: Sequence[Floats], b: Sequence[Floats]) -> list[Floats]:
    """Add two expansions of one length, rounding only below the last component."""
    result = list(a)
    for component in b:
        carry = component
        for i in range(len(result)):
            result[i], carry = _two_sum(result[i], carry)
    for _ in range(2):
        for i in range(len(result) - 1):
            result[i], result[i + 1] = _two_sum(result[i], result[i + 1])
    return result


def _tree_total(rows: list[Floats], groups: Groups) -> list[Floats]:
    """Sum expansions within groups, pairing neighbours until one is left per group."""
    rows = [r[groups.order] for r in rows]
    sizes = groups.sizes()
    while len(sizes) and sizes.max() > 1:
        starts = np.cumsum(sizes) - sizes
        rank = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)
        even = np.flatnonzero(rank % 2 == 0)
        paired = np.repeat(sizes, sizes)[even] > rank[even] + 1
        left = even[paired]
        combined = _expansion_add([r[left] for r in rows], [r[left + 1] for r in rows])
        for r, c in zip(rows, combined, strict=True):
            r[left] = c
        rows = [r[even] for r in rows]
        sizes = (sizes + 1) // 2
    return rows


def _times(value: Floats, residue: Floats, weight: Ints) -> list[Floats]:
    """A double and what is left of it, times weights."""
    factor = weight.astype(np.float64)
    if (np.abs(weight) == 1).all():
        return [value * factor, residue * factor]
    first, second = _two_product(value, factor)
    return [first, second + residue * factor]


def _not_finite(value: Floats, weight: Ints, groups: Groups) -> list[Vector]:
    """The counts of NaN, Infinity and -Infinity."""
    masks = (np.isnan(value), value == np.inf, value == -np.inf)
    return [groups.total(np.where(mask, weight, 0)) for mask in masks]


def _float_homomorphism(terms: Sequence[Vector], weight: Ints, groups: Groups) -> list[Vector]:
    with np.errstate(all="ignore"):
        value = terms[0].astype(np.float64)
        counts = _not_finite(value, weight, groups)
        value = np.where(np.isfinite(value), value, 0.0)
        big = np.abs(value) >= _BIG
        zero = np.zeros_like(value)
        sums = _tree_total([*_times(np.where(big, 0.0, value), zero, weight), zero], groups)
        if big.any():
            scaled = np.where(big, value * _BIG_SCALE, 0.0)
            bigs = _tree_total(_times(scaled, zero, weight), groups)
        else:
            bigs = [np.zeros(groups.count), np.zeros(groups.count)]
        return [*sums, *bigs, *counts]


def _float_merge(state: Sequence[Vector], delta: Sequence[Vector]) -> list[Vector]:
    with np.errstate(all="ignore"):
        sums = _expansion_add(list(state[:3]), list(delta[:3]))
        bigs = _expansion_add(list(state[3:-3]), list(delta[3:-3]))
    return [*sums, *bigs, *(s + d for s, d in zip(state[-3:], delta[-3:], strict=True))]


def _product_homomorphism(terms: Sequence[Vector], weight: Ints, groups: Groups) -> list[Vector]:
    with np.errstate(all="ignore"):
        x, y = (term.astype(np.float64) for term in terms)
        finite = np.isfinite(x) & np.isfinite(y)
        counts = _not_finite(np.where(finite, 0.0, x * y), weight, groups)
        # Of numbers between 1/2 and 1, so that nothing overflows on the way.
        (x, x_power), (y, y_power) = (np.frexp(np.where(finite, v, 0.0)) for v in (x, y))
        value, residue = _two_product(x, y)
        power = x_power + y_power
        big = np.abs(np.ldexp(value, power)) >= _BIG
        zero = np.zeros_like(value)

        def total(kept: Bools, power: Ints) -> list[Floats]:
            first, second = (np.where(kept, np.ldexp(p, power), 0.0) for p in (value, residue))
            return _tree_total([*_times(first, second, weight), zero], groups)

        sums = total(~big, power)
        if big.any():
            bigs = total(big, power - 2 * _HALF_SCALE)
        else:
            bigs = [np.zeros(groups.count) for _ in range(3)]
        return [*sums, *bigs, *counts]


def _xor_homomorphism(terms: Sequence[Vector], weight: Ints, groups: Groups) -> list[Vector]:
    odd = np.where(weight % 2 != 0, terms[0].astype(np.int64), 0)
    if not groups.count:
        return [np.zeros(0, dtype=np.int64)]
    return [np.bitwise_xor.reduceat(odd[groups.order], groups.starts)]


def _xor_merge(state: Sequence[Vector], delta: Sequence[Vector]) -> list[Vector]:
    return [state[0] ^ delta[0]]


MONOIDS: dict[str, Monoid] = {
    "integer": Monoid(("i8",), _integer_homomorphism, _integer_merge, _integer_homomorphism),
    "wide": Monoid(("i8", "i8", "i8"), _wide_homomorphism, _wide_merge, _wide_total),
    "float": Monoid(("f8",) * 5 + ("i8",) * 3, _float_homomorphism, _float_merge),
    "product": Monoid(("f8",) * 6 + ("i8",) * 3, _product_homomorphism, _float_merge),
    "xor": Monoid(("i8",), _xor_homomorphism, _xor_merge),
}


def float_total(state: Sequence[Vector]) -> Floats:
    """The double nearest to a float sum."""
    with np.errstate(all="ignore"):
        total = state[0] + (state[1] + state[2])
        big = state[3] + state[4]
        total = np.where(big != 0.0, big / _BIG_SCALE + total, total)
        nan, plus, minus = (state[i] > 0 for i in (5, 6, 7))
        total = np.where(plus, np.inf, np.where(minus, -np.inf, total))
        return np.where(nan | (plus & minus), np.nan, total)


def wide_fits(state: Sequence[Vector]) -> Bools:
    """Whether the first 64 bits of a wide sum are all of it."""
    sign = state[0] >> 63
    return np.asarray((state[1] == sign) & (state[2] == sign))


def wide_to_float(state: Sequence[Vector]) -> Floats:
    """The double nearest to a wide sum."""
    result = state[0].astype(np.float64)
    beyond = np.flatnonzero(~wide_fits(state))
    if len(beyond):
        result[beyond] = wide_to_python([word[beyond] for word in state]).astype(np.float64)
    return result


def wide_to_python(state: Sequence[Vector]) -> Vector:
    """Wide sums as Python's integers."""
    low, middle = (state[i].view(np.uint64).astype(object) for i in (0, 1))
    result: Vector = (state[2].astype(object) << 128) + (middle << 64) + low
    return result


Pair = tuple[Floats, Floats]


def _pair(expansion: Sequence[Floats]) -> Pair:
    total, rest = _two_sum(expansion[0], expansion[1])
    return total, rest + expansion[2]


def _pair_product(a: Pair, b: Pair) -> Pair:
    p, e = _two_product(a[0], b[0])
    return _two_sum(p, e + (a[0] * b[1] + a[1] * b[0]))


def _pair_divided(a: Pair, n: Floats) -> Pair:
    q = a[0] / n
    p, e = _two_product(q, n)
    return _two_sum(q, ((a[0] - p) - e + a[1]) / n)


def central_moment(
    n: Floats, x: Sequence[Vector], y: Sequence[Vector], xy: Sequence[Vector]
) -> Floats:
    """Σxy - Σx·Σy/n of finite numbers, evaluated with twice the precision of a double; else NaN.

    What is left after cancellation below that precision is rounding, and is returned as 0.
    """
    with np.errstate(all="ignore"):
        result = _central(n, *(_pair(state[:3]) for state in (x, y, xy)))
        big = (x[3] != 0.0) | (y[3] != 0.0) | (xy[3] != 0.0)
        if big.any():
            scaled = _central(n, _scaled(x), _scaled(y), _scaled_product(xy))
            result = np.where(big, np.ldexp(scaled, 2 * _HALF_SCALE), result)
        finite = np.all([count == 0 for state in (x, y, xy) for count in state[-3:]], axis=0)
        return np.where(finite, result, np.nan)


def _central(n: Floats, x: Pair, y: Pair, xy: Pair) -> Floats:
    product = _pair_divided(_pair_product(x, y), n)
    high, low = _two_sum(xy[0], -product[0])
    result = high + (low + (xy[1] - product[1]))
    noise = np.maximum(np.abs(xy[0]), np.abs(product[0])) * 2.0**-98
    return np.where(np.abs(result) <= noise, 0.0, result)


def _scaled(state: Sequence[Vector]) -> Pair:
    """A sum of doubles, scaled down as each factor of a product is."""
    sums = [part * 2.0**-_HALF_SCALE for part in state[:3]]
    bigs = [part * (2.0**-_HALF_SCALE / _BIG_SCALE) for part in state[3:5]]
    return _pair(_expansion_add(sums, bigs))


def _scaled_product(state: Sequence[Vector]) -> Pair:
    """A sum of products, scaled down as its large ones are."""
    sums = [np.ldexp(part, -2 * _HALF_SCALE) for part in state[:3]]
    return _pair(_expansion_add(sums, list(state[3:6])))
