"""Stages: operators with state, split into homomorphism, merge and answer.

An `AggregateStage` keeps one row per lineage key: the number of rows, the accumulators (sums that
can be undone) and the values derived from multisets. A multiset keeps value → weight per key, the
state of everything that has no inverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyspark.sql.types as T

from spark_incr.plan.nodes import Unary

ROWS = "__incr_n"

OF_DOUBLES = frozenset({"float", "product"})
"""The monoids that sum doubles."""


@dataclass(frozen=True)
class Accumulator:
    """A sum over the rows of a group of the product of the terms and the weight.

    Rows where a column of `present` is NULL do not count. With a `multiset`, the rows are its
    distinct values, each once. `monoid` is a name of `runtime.sums.MONOIDS`.
    """

    name: str
    monoid: str
    terms: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    multiset: str | None = None


@dataclass(frozen=True)
class Multiset:
    """The values of some columns with their weights; where `condition` is given, only its rows.

    In a `grouped` one, values that GROUP BY takes for one are one: -0.0 is 0.0, at any depth. One
    that is not `kept` is needed for the values of a batch alone: of rows that never leave, the
    extreme so far tells the next.
    """

    name: str
    values: tuple[str, ...]
    condition: str | None = None
    grouped: bool = False
    kept: bool = True


@dataclass(frozen=True)
class Derived:
    """A column of a group computed from the values of a multiset."""

    name: str
    function: str
    multiset: str
    type: T.DataType
    parameters: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Answer:
    """An output column: a function of accumulators, or a derived column as it is."""

    name: str
    function: str
    inputs: tuple[str, ...]
    type: T.DataType
    source: T.DataType
    """The type of the aggregated argument, which says how its sum is to be read."""


@dataclass(frozen=True)
class AggregateStage(Unary):
    """An aggregate as it is maintained."""

    keys: tuple[str, ...]
    accumulators: tuple[Accumulator, ...]
    multisets: tuple[Multiset, ...]
    derived: tuple[Derived, ...]
    answers: tuple[Answer, ...]
    scalar: bool
    exact: bool = False

    @property
    def tier(self) -> str:
        return "multiset" if any(m.kept for m in self.multisets) else "homomorphic"
