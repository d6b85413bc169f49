"""Results compared as bags.

Values are compared exactly, with these exceptions: NaN equals NaN, -0.0 equals 0.0, and floats may
differ by 1e-9 of their size, which is the engine's promise, or by an absolute bound that the caller
knows.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pyarrow as pa

RELATIVE = 1e-9


def compare_bags(
    expected: pa.Table, actual: pa.Table, unordered: frozenset[str], absolute: float
) -> str:
    """What is in one bag and not in the other, as text; empty if they are equal."""
    left, right = _bag(expected, unordered), _bag(actual, unordered)
    missing, surplus = Counter(left) - Counter(right), Counter(right) - Counter(left)
    only_left = [row for row, n in missing.items() for _ in range(n)]
    only_right = [row for row, n in surplus.items() for _ in range(n)]
    for row in list(only_left):
        for other in only_right:
            if _close(row, other, absolute):
                only_left.remove(row)
                only_right.remove(other)
                break
    if not only_left and not only_right:
        return ""
    shown = [f"  only in Spark: {row}" for row in only_left[:10]]
    shown += [f"  only here:     {row}" for row in only_right[:10]]
    names = ", ".join(expected.column_names)
    return "\n".join([f"columns: {names} ({len(only_left)} and {len(only_right)} rows)", *shown])


def _bag(table: pa.Table, unordered: frozenset[str]) -> list[Any]:
    columns = [
        [
            _sorted(_comparable(v)) if name in unordered else _comparable(v)
            for v in column.to_pylist()
        ]
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


class _NaN:
    """Every NaN."""

    def __repr__(self) -> str:
        return "NaN"


_NAN = _NaN()


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(_comparable(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return tuple(_comparable(v) for v in value)
    return value


def _sorted(values: Any) -> Any:
    return None if values is None else tuple(sorted(values, key=lambda v: (v is None, repr(v))))


def _close(left: Any, right: Any, absolute: float) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (
            math.isclose(left, right, rel_tol=RELATIVE, abs_tol=absolute)
            and math.isfinite(left)
            and math.isfinite(right)
        )
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(
            _close(a, b, absolute) for a, b in zip(left, right, strict=True)
        )
    return bool(type(left) is type(right) and left == right)
