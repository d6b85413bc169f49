"""Window functions by kernels: Δω(R) = ω(R' of the touched partitions) - ω(R of the touched partitions).

Only the input rows are kept, by partition. Results follow from the rows alone, so those that were
there are computed again instead of being kept. Where a kernel is not sure, Spark is asked.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_incr.plan.nodes import RELATION, SortKey, Window
from spark_incr.plan.types import arrow_schema
from spark_incr.plan.window_functions import WindowCall, read_calls
from spark_incr.plan.windows import window_query
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.bag import add_arranged, arrange, bag_layout
from spark_incr.runtime.changes import (
    WEIGHT,
    add,
    consolidate,
    deleted,
    empty,
    inserted,
    weights,
)
from spark_incr.runtime.columns import Ints, single
from spark_incr.runtime.evaluation import Evaluator
from spark_incr.runtime.lineage import Lineage, touched_keys
from spark_incr.runtime.order import dense_ranks, row_order
from spark_incr.runtime.window_kernels import Frames, Unsure, evaluate
from spark_incr.sql.dialect import print_sql


class WindowOperator:
    """Maintains one `Window` whose functions all have kernels."""

    def __init__(self, node: Window, evaluator: Evaluator) -> None:
        calls = read_calls(node)
        assert calls is not None
        self.schema = arrow_schema(node.schema)
        self._evaluator = evaluator
        self._query = print_sql(window_query(node))
        self._input = node.input.schema
        self._names = list(node.input.names)
        self._lineage = Lineage(node.input, node.keys)
        self._orders: dict[tuple[SortKey, ...], list[WindowCall]] = {}
        for call in calls:
            self._orders.setdefault(call.order, []).append(call)
        kept = self._lineage.extended(arrow_schema(node.input.schema))
        self._rows = Arrangement(bag_layout(kept, self._lineage.names))
        self.arrangements = {"rows": self._rows}

    def apply(self, changes: pa.Table) -> pa.Table:
        """The change of the rows with their functions for a change of the rows."""
        arranged = arrange(self._rows.layout, self._lineage.with_lineage(changes))
        if arranged.rows.num_rows == 0:
            return empty(self.schema)
        touched, count = touched_keys(arranged.rows, self._lineage.names)
        before = self._evaluated(touched, count)
        add_arranged(self._rows, arranged)
        after = self._evaluated(touched, count)
        return consolidate(add([deleted(before), inserted(after)]))

    def _evaluated(self, keys: list[pa.Array], count: int) -> pa.Table:
        """The rows of partitions with the values of all functions."""
        snapshot = self._rows.snapshot()
        located = snapshot.find_lineage(keys, count)
        names = [*self._names, WEIGHT]
        schema = pa.schema([self._rows.layout.schema.field(n) for n in names])
        found = pa.Table.from_arrays(snapshot.gather(located, names), schema=schema)
        if found.num_rows == 0:
            return self.schema.empty_table()
        copies = np.repeat(np.arange(found.num_rows), weights(found))
        return self._of_rows(found.select(self._names).take(copies), located.probe[copies])

    def _of_rows(self, rows: pa.Table, partition: Ints) -> pa.Table:
        """The rows with the values of all functions; those of partitions of which a kernel is not
        sure by Spark, in an order that depends on them alone."""
        results: dict[str, pa.Array] = {}
        unsure = np.zeros(rows.num_rows, dtype=np.bool_)
        for order, calls in self._orders.items():
            at = row_order(rows, order, self._names, partition)
            back = np.empty(len(at), dtype=np.int64)
            back[at] = np.arange(len(at))
            sorted_rows = rows.take(at)
            keys = [dense_ranks(single(sorted_rows.column(key.column))) for key in order]
            frames = Frames.of(partition[at], keys)
            for call in calls:
                made = evaluate(call, sorted_rows, frames, self.schema.field(call.name).type)
                if isinstance(made, Unsure):
                    unsure |= made.rows[back]
                else:
                    results[call.name] = made.take(pa.array(back))
        if not unsure.any():
            columns = [results[n] for n in self.schema.names if n in results]
            return pa.Table.from_arrays([*rows.columns, *columns], schema=self.schema)
        sure = np.flatnonzero(~unsure)
        doubtful = rows.filter(unsure)
        doubtful = doubtful.take(row_order(doubtful, (), self._names))
        relations = {RELATION: (self._input, doubtful)}
        asked = self._evaluator.query_rows(self._query, relations, self.schema)
        if not len(sure):
            return asked
        return pa.concat_tables([self._of_rows(rows.take(sure), partition[sure]), asked])
