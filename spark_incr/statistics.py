"""What relations hold, as far as the order of joins asks: their rows, and distinct values.

Distinct values are estimated from a sample. Runs are sorted by a hash of their rows, so the first
rows of one are such a sample. Of D values, n draws find D·(1 - exp(-n/D)).
"""

from __future__ import annotations

import math

import numpy as np

from spark_incr.relation import Relation
from spark_incr.runtime.columns import single
from spark_incr.runtime.keys import group_rows

_SAMPLE = 20_000


def count_rows(relation: Relation) -> int:
    """The number of rows, those that occur several times counted once."""
    return 0 if relation.damaged else relation.contents.snapshot.count()


def count_distinct(relation: Relation, column: str) -> int:
    """The number of values of a column."""
    total = count_rows(relation)
    if not total:
        return 0
    snapshot, output = relation.contents.snapshot, relation.output
    largest = max(snapshot.runs, key=lambda run: run.live)
    rows = largest.only_live(largest.rows.select(output.columns), snapshot.version)
    values = single(output.answer(rows.slice(0, _SAMPLE)).column(column))
    return _estimated(group_rows([values], len(values)).count, len(values), total)


def _estimated(found: int, drawn: int, total: int) -> int:
    """The number of values of which so many were found.

    >>> _estimated(8647, 20_000, 6_000_000), _estimated(5, 5, 5), _estimated(7, 20_000, 1_000_000)
    (10001, 5, 7)
    """
    if drawn == total or found == drawn:
        return found if drawn == total else total
    low, high = float(found), float(total)
    while high - low > 0.5:
        middle = (low + high) / 2
        if middle * -math.expm1(-drawn / middle) < found:
            low = middle
        else:
            high = middle
    return int(np.rint(high))
