"""The universal tier: Δq(R) = q(R' of the touched keys) - q(R of the touched keys).

The input rows are kept by key, and so are the results. A batch fetches the rows of the keys that it
touches, lets Spark run the original expression on them, and puts out the difference to what was
there. Any window function, any aggregate, any user-defined one can be maintained so, at the cost of
the touched groups or partitions and of one Spark query.
"""

from __future__ import annotations

import pyarrow as pa

from spark_incr.plan.nodes import RELATION, Rederive
from spark_incr.plan.types import arrow_schema
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.bag import add_arranged, arrange, bag_layout
from spark_incr.runtime.changes import (
    WEIGHT,
    add,
    empty,
    inserted,
    negate,
    repeated,
)
from spark_incr.runtime.evaluation import Evaluator
from spark_incr.runtime.lineage import Lineage, touched_keys
from spark_incr.runtime.order import row_order
from spark_incr.sql.dialect import print_sql


class RederiveOperator:
    """Maintains one `Rederive`."""

    def __init__(self, node: Rederive, evaluator: Evaluator) -> None:
        self.schema = arrow_schema(node.schema)
        self._evaluator = evaluator
        self._query = print_sql(node.query)
        self._lineage = Lineage(node.input, node.keys)
        self._rows = self._bag(arrow_schema(node.input.schema))
        self._results = self._bag(self.schema)
        self._input = node.input.schema
        self._input_names = list(node.input.names)
        self.arrangements = {"rows": self._rows, "results": self._results}

    def _bag(self, schema: pa.Schema) -> Arrangement:
        return Arrangement(bag_layout(self._lineage.extended(schema), self._lineage.names))

    def apply(self, changes: pa.Table) -> pa.Table:
        """The change of the results for a change of the input."""
        starting = not self._lineage.names and not self._results.runs
        arranged = arrange(self._rows.layout, self._lineage.with_lineage(changes))
        if arranged.rows.num_rows == 0 and not starting:
            return empty(self.schema)
        touched, count = touched_keys(arranged.rows, self._lineage.names)
        add_arranged(self._rows, arranged)
        before = self._of_keys(self._results, touched, count)
        rows = repeated(self._of_keys(self._rows, touched, count)).select(self._input_names)
        # What depends on the order of rows shall depend on the rows alone.
        rows = rows.take(row_order(rows, (), self._input_names))
        relations = {RELATION: (self._input, rows)}
        result = self._evaluator.query_rows(self._query, relations, self.schema)
        after = inserted(self._lineage.with_lineage(result))
        both = add([negate(before), after.select(before.column_names)])
        change = arrange(self._results.layout, both)
        add_arranged(self._results, change)
        return change.rows.select([*self.schema.names, WEIGHT])

    def _of_keys(self, bag: Arrangement, keys: list[pa.Array], count: int) -> pa.Table:
        snapshot = bag.snapshot()
        located = snapshot.find_lineage(keys, count)
        names = bag.layout.schema.names
        return pa.Table.from_arrays(snapshot.gather(located, names), schema=bag.layout.schema)
