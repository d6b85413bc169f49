"""A function of tables, applied to the touched partitions: Δf(R) = f(R'|K) - f(R|K), K the keys of ΔR.

A row of the result may come of any partition, so what a partition gave is asked of its rows as they
were. That is what it gave, for the function gives the same for the same rows, in an order that
leaves no choice. The state is the rows by their key.
"""

from __future__ import annotations

import pyarrow as pa

from spark_incr.plan.nodes import RELATION, Reapply
from spark_incr.plan.types import arrow_schema
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.bag import add_arranged, arrange, bag_layout
from spark_incr.runtime.changes import add, consolidate, deleted, empty, inserted, repeated
from spark_incr.runtime.evaluation import Evaluator
from spark_incr.runtime.lineage import Lineage, touched_keys
from spark_incr.sql.dialect import print_sql


class ReapplyOperator:
    """Maintains one `Reapply`."""

    def __init__(self, node: Reapply, evaluator: Evaluator) -> None:
        self.schema = arrow_schema(node.schema)
        self._evaluator = evaluator
        self._query = print_sql(node.query)
        self._input = node.input.schema
        self._lineage = Lineage(node.input, node.keys)
        schema = self._lineage.extended(arrow_schema(self._input))
        self._rows = Arrangement(bag_layout(schema, self._lineage.names))
        self.arrangements = {"rows": self._rows}

    def apply(self, changes: pa.Table) -> pa.Table:
        """The change of the results for a change of the input."""
        arranged = arrange(self._rows.layout, self._lineage.with_lineage(changes))
        if arranged.rows.num_rows == 0:
            return empty(self.schema)
        touched, count = touched_keys(arranged.rows, self._lineage.names)
        before = self._of_keys(touched, count)
        add_arranged(self._rows, arranged)
        after = self._of_keys(touched, count)
        return consolidate(add([deleted(self._applied(before)), inserted(self._applied(after))]))

    def _of_keys(self, keys: list[pa.Array], count: int) -> pa.Table:
        snapshot = self._rows.snapshot()
        located = snapshot.find_lineage(keys, count)
        schema = self._rows.layout.schema
        found = pa.Table.from_arrays(snapshot.gather(located, schema.names), schema=schema)
        return repeated(found).select([f.name for f in self._input])

    def _applied(self, rows: pa.Table) -> pa.Table:
        """What the function gives for rows; of no rows there are no partitions."""
        if rows.num_rows == 0:
            return self.schema.empty_table()
        return self._evaluator.query_rows(self._query, {RELATION: (self._input, rows)}, self.schema)
