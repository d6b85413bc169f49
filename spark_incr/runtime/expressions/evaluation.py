"""Evaluation as Spark orders it: which rows an operand sees, and how NULL passes through.

Law: an operand that may raise is evaluated on exactly the rows where Spark evaluates it. A strict
function gives NULL as soon as an operand is NULL, and does not look at the later operands then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_incr.errors import error
from spark_incr.plan.types import arrow_type
from spark_incr.runtime.expressions.registry import Call, Compiled, null


class UndecidedError(Exception):
    """A kernel met values for which it is not certain to equal Spark: Spark is to evaluate these rows."""


Values = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def values_of(array: pa.Array) -> Values:
    """The values of a fixed-width array without a copy; anything may stand where it is NULL."""
    if pa.types.is_boolean(array.type):
        return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False))
    width = array.type.bit_width // 8
    kind = "f" if pa.types.is_floating(array.type) else "i"
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros(len(array), f"{kind}{width}")
    return np.frombuffer(data, f"{kind}{width}", count=len(array), offset=array.offset * width)


def nulls_of(array: pa.Array) -> Mask | None:
    """True where the array is NULL; None if it is nowhere."""
    return array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None


def any_null(*arrays: pa.Array) -> Mask | None:
    """True where any of the arrays is NULL; None if none is anywhere."""
    result: Mask | None = None
    for array in arrays:
        mask = nulls_of(array)
        if mask is not None:
            result = mask if result is None else result | mask
    return result


def array_of(values: Values, arrow: pa.DataType, nulls: Mask | None = None) -> pa.Array:
    """An array of values of the type's width, NULL where `nulls` says so."""
    if pa.types.is_temporal(arrow):
        width = pa.int32() if arrow.bit_width == 32 else pa.int64()
        return pa.array(values, width, mask=nulls).view(arrow)
    return pa.array(values, arrow, mask=nulls)


def true_rows(condition: pa.Array) -> Mask:
    """True where the condition is true, not where it is NULL."""
    return np.asarray(condition.fill_null(False).to_numpy(zero_copy_only=False))


def lazily(
    operand: Compiled, columns: Mapping[str, pa.Array], n: int, wanted: Mask | None
) -> pa.Array:
    """Evaluate the operand; one that may raise sees the wanted rows only and is NULL elsewhere."""
    if not operand.raises or wanted is None or wanted.all():
        return operand.evaluate(columns, n)
    if not wanted.any():
        return pa.nulls(n, arrow_type(operand.type))
    keep = pa.array(wanted)
    some = {name: columns[name].filter(keep) for name in operand.columns}
    found = operand.evaluate(some, int(np.count_nonzero(wanted)))
    return found.take(pa.array(np.cumsum(wanted) - 1, mask=~wanted))


def strict(
    call: Call,
    function: Callable[..., pa.Array],
    *,
    raises: bool = False,
    operands: Sequence[Compiled] | None = None,
    order: Sequence[int] | None = None,
) -> Compiled:
    """A function that is NULL where any operand is; `order` is that of Spark's evaluation."""
    inputs = tuple(call.operands if operands is None else operands)
    if any(operand.is_null for operand in inputs):
        return null(call.type)
    steps = tuple(order or range(len(inputs)))
    guarded = any(inputs[step].raises for step in steps[1:])

    def evaluate(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        if not guarded:
            return function(*[operand.evaluate(columns, n) for operand in inputs])
        found: dict[int, pa.Array] = {}
        for step in steps:
            missing = any_null(*found.values())
            wanted = None if missing is None else ~missing
            found[step] = lazily(inputs[step], columns, n, wanted)
        return function(*[found[i] for i in range(len(inputs))])

    return Compiled(
        call.type, evaluate, call.columns, raises or any(operand.raises for operand in inputs)
    )


def checked(what: str, function: Callable[..., pa.Array], *arrays: pa.Array) -> pa.Array:
    """Run an Arrow kernel that reports overflow, and report it as Spark does."""
    try:
        return function(*arrays)
    except pa.ArrowInvalid:
        narrow = len(arrays) == 2 and arrays[0].type.bit_width < 32
        condition = "BINARY_ARITHMETIC_OVERFLOW" if narrow else "ARITHMETIC_OVERFLOW"
        raise error(condition, what=what) from None
