"""The universal tier: Δq(R) = q(R' of the touched keys) - q(R of the touched keys).

The input rows are kept by key, and so are the results. A batch fetches the rows of the keys that it
touches, lets Spark run the original expression on them, and puts out the difference to what was
there. Any window function, any aggregate, any user-defined one can be maintained so, at the cost of
the touched groups or partitions and of one Spark query.
"""

from __future__ import annotations

import pyarrow as pa

from spark_incr.plan.nodes import RELATION, Rederive
from spark_incr.plan.types import arrow_schema, contains_float
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.bag import add_to_bag, bag_layout
from spark_incr.runtime.changes import (
    add,
    consolidate,
    empty,
    inserted,
    negate,
    repeated,
    weights,
    with_weights,
)
from spark_incr.runtime.columns import arrays, single
from spark_incr.runtime.evaluation import Evaluator
from spark_incr.runtime.keys import canonical, group_rows
from spark_incr.runtime.order import row_order
from spark_incr.sql.dialect import print_sql

_KEY = "__incr_key_{}"


class RederiveOperator:
    """Maintains one `Rederive`."""

    def __init__(self, node: Rederive, evaluator: Evaluator) -> None:
        self.schema = arrow_schema(node.schema)
        self._evaluator = evaluator
        self._query = print_sql(node.query)
        self._keys = node.keys
        # Spark groups -0.0 with 0.0 and NaN with NaN; rows keep their values as they are.
        self._clean = {
            key: _KEY.format(i)
            for i, key in enumerate(node.keys)
            if contains_float(node.input.type_of(key))
        }
        self._lineage = tuple(self._clean.get(key, key) for key in node.keys)
        self._rows = Arrangement(
            bag_layout(self._keyed(arrow_schema(node.input.schema)), self._lineage)
        )
        self._results = Arrangement(bag_layout(self._keyed(self.schema), self._lineage))
        self._input_names = list(node.input.names)
        self.arrangements = {"rows": self._rows, "results": self._results}

    def _keyed(self, schema: pa.Schema) -> pa.Schema:
        for key, name in self._clean.items():
            schema = schema.append(pa.field(name, schema.field(key).type))
        return schema

    def _with_keys(self, rows: pa.Table) -> pa.Table:
        for key, name in self._clean.items():
            rows = rows.append_column(name, canonical(single(rows.column(key))))
        return rows

    def apply(self, changes: pa.Table) -> pa.Table:
        """The change of the results for a change of the input."""
        starting = not self._keys and not self._results.runs
        changes = consolidate(self._with_keys(changes))
        if changes.num_rows == 0 and not starting:
            return empty(self.schema)
        columns = arrays(changes, self._lineage)
        groups = group_rows(columns, changes.num_rows)
        touched = [c.take(groups.first) for c in columns]
        count = groups.count if self._keys else 1
        add_to_bag(self._rows, changes)
        before = self._of_keys(self._results, touched, count)
        rows = repeated(self._of_keys(self._rows, touched, count)).select(self._input_names)
        # What depends on the order of rows shall depend on the rows alone.
        rows = rows.take(row_order(rows, (), self._input_names))
        result = self._evaluator.query_rows(self._query, {RELATION: rows}, self.schema)
        after = inserted(self._with_keys(result))
        change = consolidate(add([negate(before), after.select(before.column_names)]))
        add_to_bag(self._results, change)
        return with_weights(change.select(self.schema.names), weights(change))

    def _of_keys(self, bag: Arrangement, keys: list[pa.Array], count: int) -> pa.Table:
        snapshot = bag.snapshot()
        located = snapshot.find_lineage(keys, count)
        names = bag.layout.schema.names
        return pa.Table.from_arrays(snapshot.gather(located, names), schema=bag.layout.schema)
