"""A maximum under changes: max(V + Δ) from max(V) and Δ, where these two tell it.

It is the greater of the old maximum and the greatest value that arrived, unless the old maximum
itself left and nothing that arrived reaches it. Only then the group's values have to be looked at.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_incr.runtime.bag import Weights
from spark_incr.runtime.columns import Ints
from spark_incr.runtime.order import dense_ranks

_NOTHING = np.iinfo(np.int64).min


def follow_extreme(
    sign: int, old: pa.Array, value: pa.Array, group: Ints, weights: Weights
) -> tuple[pa.Array, Ints]:
    """The new maximum (sign 1) or minimum (sign -1) per group, and the groups that must be redone.

    `old` has one value per group; `value`, `group` and `weights` describe the values of the batch.
    """
    both = pa.concat_arrays([old, value])
    ranks = dense_ranks(both)
    ranks = np.where(ranks < 0, _NOTHING, ranks * sign)
    old_rank, rank = ranks[: len(old)], ranks[len(old) :]

    arrived = np.flatnonzero((weights.after > 0) & (rank != _NOTHING))
    reached = np.full(len(old), _NOTHING)
    np.maximum.at(reached, group[arrived], rank[arrived])

    left = (weights.after <= 0) & (weights.before > 0) & (rank == old_rank[group])
    died = np.zeros(len(old), dtype=np.bool_)
    died[group[left & (rank != _NOTHING)]] = True

    # A group has the old value or one that arrived in it: those of other groups may be equal and differ.
    source = np.arange(len(old))
    new = arrived[rank[arrived] == reached[group[arrived]]][::-1]
    new = new[(rank[new] > old_rank[group[new]]) | died[group[new]]]
    source[group[new]] = len(old) + new
    return both.take(source), np.flatnonzero(died & (reached < old_rank))
