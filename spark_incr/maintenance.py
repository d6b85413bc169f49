"""Which views follow a commit, and what happens to one that cannot.

Law: views follow in order of creation, so each sees the changes of what it reads. A view whose own
computation fails is put back as it was and marked FAILED; its inputs' changes wait in `pending`, and
to those that read it nothing has changed. So one view never holds up another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException

from spark_incr.errors import IncrementalError
from spark_incr.relation import Relation, Status
from spark_incr.runtime.changes import weights
from spark_incr.runtime.clock import expression_seconds
from spark_incr.runtime.views import View

# What evaluating a view's own query may raise: our conditions and Spark's. Anything else is no
# fault of the view, and the whole commit fails.
VIEW_FAILURES = (IncrementalError, PySparkException, pa.ArrowException, ArithmeticError)


@dataclass(frozen=True)
class ViewChange:
    """What a commit did to one view."""

    inserted: int
    deleted: int
    milliseconds: float
    rows_in: int = 0
    expressions_ms: float = 0.0

    def counted(self, change: pa.Table) -> ViewChange:
        """The same, of a view whose rows changed by this much."""
        weight = weights(change)
        inserted, deleted = int(weight[weight > 0].sum()), int(-weight[weight < 0].sum())
        return replace(self, inserted=inserted, deleted=deleted)


@dataclass
class Maintained:
    """The views that a commit touched: counts, their own changes, and those that failed.

    The change of a view that came into being is a word, since it is all of its rows.
    """

    views: dict[str, ViewChange] = field(default_factory=dict)
    changes: dict[str, pa.Table | str] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)

    @property
    def touched(self) -> set[str]:
        return {*self.views, *self.failed}

    def joined(self, other: Maintained) -> Maintained:
        """Both, of views that are not the same."""
        return Maintained(
            {**self.views, **other.views},
            {**self.changes, **other.changes},
            {**self.failed, **other.failed},
        )


def maintain(
    relations: Iterable[Relation],
    changes: Mapping[str, pa.Table],
    version: int,
    *,
    due: Callable[[Relation], bool],
    strict: bool,
) -> Maintained:
    """Let the views that are due follow the changes; with `strict`, the first failure is raised."""
    current = dict(changes)
    result = Maintained()
    known: dict[str, Relation] = {}
    for relation in relations:
        known[relation.name] = relation
        if not isinstance(relation.state, View):
            continue
        inputs = {name: current[name] for name in relation.reads & current.keys()}
        if not due(relation):
            relation.postpone({known[name]: batch for name, batch in inputs.items()}, version)
            continue
        everything = relation.with_pending(inputs)
        if everything:
            try:
                change = _follow(relation, relation.state, everything, result)
            except VIEW_FAILURES as failure:
                if strict:
                    raise
                _fail(relation, relation.state, failure, version)
                relation.postpone({known[n]: batch for n, batch in inputs.items()}, version)
                result.failed[relation.name] = failure
                continue
            if change.num_rows:
                current[relation.name] = change
                result.changes[relation.name] = change
        relation.caught_up(version)
    return result


def _follow(
    relation: Relation, view: View, inputs: Mapping[str, pa.Table], result: Maintained
) -> pa.Table:
    began, expressions = time.perf_counter(), expression_seconds()
    change = view.apply(inputs)
    result.views[relation.name] = ViewChange(
        0,
        0,
        (time.perf_counter() - began) * 1e3,
        sum(int(np.abs(weights(batch)).sum()) for batch in inputs.values()),
        (expression_seconds() - expressions) * 1e3,
    ).counted(change)
    return change


def _fail(relation: Relation, view: View, failure: Exception, version: int) -> None:
    """Put a view back to its last good version and say why it stays there."""
    for arrangement in view.arrangements.values():
        arrangement.rollback(version - 1)
        arrangement.begin(version)
    relation.status = Status.FAILED
    relation.failure = str(failure).strip()
