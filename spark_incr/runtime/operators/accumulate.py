"""h(Δ): the accumulators of a batch, one value per group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_incr.plan.stages import OF_DOUBLES, Accumulator
from spark_incr.runtime.columns import Ints, single, validity, values
from spark_incr.runtime.keys import Groups
from spark_incr.runtime.sums import MONOIDS, Vector


def homomorphism(
    accumulator: Accumulator, rows: pa.Table, weight: Ints, groups: Groups
) -> list[Vector]:
    """The state that a batch alone would give an accumulator."""
    columns = {name: single(rows.column(name)) for name in accumulator.present}
    for column in columns.values():
        valid = validity(column)
        if valid is not None:
            weight = np.where(valid, weight, 0)
    terms = [_term(columns[name], accumulator.monoid) for name in accumulator.terms]
    return MONOIDS[accumulator.monoid].homomorphism(terms, weight, groups)


def counts_rows(accumulator: Accumulator, rows: pa.Table) -> bool:
    """Whether an accumulator counts every row of a batch, as the number of rows does."""
    return (
        accumulator.multiset is None
        and not accumulator.terms
        and all(rows.column(name).null_count == 0 for name in accumulator.present)
    )


def grouped_by_number(numbers: Ints) -> tuple[Ints, Groups]:
    """Rows grouped by a number that each has; returns the numbers that occur, too."""
    order = np.argsort(numbers, kind="stable")
    in_order = numbers[order]
    begins = np.ones(len(order), dtype=np.bool_)
    np.not_equal(in_order[1:], in_order[:-1], out=begins[1:])
    starts = np.flatnonzero(begins)
    return in_order[starts], Groups(order, starts, np.zeros(len(starts), np.uint64))


def spread(parts: list[Vector], places: Ints, length: int) -> list[Vector]:
    """Values at their places among zeros."""
    result = []
    for part in parts:
        full = np.zeros(length, dtype=part.dtype)
        full[places] = part
        result.append(full)
    return result


def _term(column: pa.Array, monoid: str) -> Vector:
    if monoid in OF_DOUBLES and pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    data = values(column)
    valid = validity(column)
    return data if valid is None else np.where(valid, data, np.zeros(1, dtype=data.dtype))
