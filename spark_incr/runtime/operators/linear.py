"""Linear operators: f(R + Δ) = f(R) + f(Δ), so they have no state and act on the batch alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyspark.sql.types as T

from spark_incr.errors import error
from spark_incr.plan.nodes import (
    AtMostOne,
    Constant,
    Filter,
    Project,
    Repeat,
    Scan,
    UnionAll,
)
from spark_incr.plan.types import arrow_schema
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.changes import (
    WEIGHT,
    add,
    consolidate,
    inserted,
    reweighted,
    weights,
    with_weights,
)
from spark_incr.runtime.columns import from_values, single, validity, values
from spark_incr.runtime.evaluation import Evaluator, compile_columns


class ScanOperator:
    """The change of a relation, under the names of the plan."""

    def __init__(self, scan: Scan) -> None:
        self._columns = scan.columns
        self.schema = arrow_schema(scan.schema)
        self.arrangements: dict[str, Arrangement] = {}

    def apply(self, changes: pa.Table) -> pa.Table:
        rows = pa.Table.from_arrays(
            [changes.column(name) for name in self._columns], schema=self.schema
        )
        return with_weights(rows, weights(changes))


class ProjectOperator:
    """π(Δ): the expressions of each row, with its weight."""

    def __init__(self, project: Project, evaluator: Evaluator) -> None:
        self.schema = arrow_schema(project.schema)
        self.arrangements: dict[str, Arrangement] = {}
        self._compute = compile_columns(
            project.expressions, [f.type for f in project.schema], project.input.schema, evaluator
        )
        self.by_spark = self._compute.by_spark

    def apply(self, changes: pa.Table) -> pa.Table:
        rows = pa.Table.from_arrays(self._compute(changes), schema=self.schema)
        return with_weights(rows, weights(changes))


class FilterOperator:
    """σ(Δ): the rows for which the condition is true."""

    def __init__(self, node: Filter, evaluator: Evaluator) -> None:
        self.schema = arrow_schema(node.schema)
        self.arrangements: dict[str, Arrangement] = {}
        self._compute = compile_columns(
            (node.condition,), [T.BooleanType()], node.input.schema, evaluator
        )
        self.by_spark = self._compute.by_spark

    def apply(self, changes: pa.Table) -> pa.Table:
        (condition,) = self._compute(changes)
        valid = validity(condition)
        keep = values(condition) if valid is None else values(condition) & valid
        if keep.all():
            return changes
        return changes.filter(from_values(keep, None, pa.bool_()))


class RepeatOperator:
    """ρ(Δ): the weight of each row times the number that it carries."""

    def __init__(self, node: Repeat) -> None:
        self.schema = arrow_schema(node.schema)
        self.arrangements: dict[str, Arrangement] = {}
        self._times = node.times

    def apply(self, changes: pa.Table) -> pa.Table:
        times = values(single(changes.column(self._times)))
        repeated = reweighted(
            changes.select([*self.schema.names, WEIGHT]), weights(changes) * times
        )
        return repeated.filter(from_values(times != 0, None, pa.bool_()))


class AtMostOneOperator:
    """Δ as it is, unless a row arrives for which a scalar subquery has several rows."""

    def __init__(self, node: AtMostOne) -> None:
        self.schema = arrow_schema(node.schema)
        self.arrangements: dict[str, Arrangement] = {}
        self._count = node.count

    def apply(self, changes: pa.Table) -> pa.Table:
        changes = consolidate(changes)
        column = single(changes.column(self._count))
        count, valid = values(column), validity(column)
        several = (count > 1) & (weights(changes) > 0)
        if (several if valid is None else several & valid).any():
            raise error("SCALAR_SUBQUERY_TOO_MANY_ROWS")
        return changes


class UnionOperator:
    """Δ(A ⊎ B) = ΔA + ΔB."""

    def __init__(self, union: UnionAll) -> None:
        self.schema = arrow_schema(union.schema)
        self.arrangements: dict[str, Arrangement] = {}

    def apply(self, *changes: pa.Table) -> pa.Table:
        names = [*self.schema.names, WEIGHT]
        return add([change.rename_columns(names) for change in changes])


class SingleOperator:
    """One row that is there from the start."""

    def __init__(self) -> None:
        self.schema = pa.schema([])
        self.arrangements: dict[str, Arrangement] = {}

    def start(self) -> pa.Table:
        return pa.table({WEIGHT: np.ones(1, dtype=np.int64)})


class ConstantOperator:
    """Rows that are there from the start, as Spark gives them."""

    def __init__(self, node: Constant, evaluator: Evaluator) -> None:
        self.schema = arrow_schema(node.schema)
        self.arrangements: dict[str, Arrangement] = {}
        self._rows = partial(evaluator.run, node.query)

    def start(self) -> pa.Table:
        rows = self._rows()
        return inserted(
            pa.Table.from_arrays(rows.columns, names=self.schema.names).cast(self.schema)
        )
