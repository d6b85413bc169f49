"""A query that is not taken apart: Δq(R1..Rn) = q(R1'..Rn') - q(R1..Rn), by Spark over all rows.

The inputs and the result are kept as bags. A batch that touches none of the inputs costs nothing;
any other costs the whole query, but the operators above see only what changed in its result.
"""

from __future__ import annotations

import pyarrow as pa

from spark_incr.plan.nodes import Recompute
from spark_incr.plan.types import Field, arrow_schema
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.bag import add_to_bag, bag_layout
from spark_incr.runtime.changes import add, consolidate, inserted, negate, repeated
from spark_incr.runtime.evaluation import Evaluator


class RecomputeOperator:
    """Maintains one `Recompute`."""

    def __init__(self, node: Recompute, evaluator: Evaluator) -> None:
        self.schema = arrow_schema(node.schema)
        self._evaluator = evaluator
        self._query = node.query
        self._relations = tuple(
            (name, tuple(Field(n, f.type) for n, f in zip(names, source.schema, strict=True)))
            for (name, names), source in zip(node.relations, node.sources, strict=True)
        )
        self._rows = [_bag(arrow_schema(source.schema)) for source in node.sources]
        self._results = _bag(self.schema)
        self.arrangements = {f"rows_{i}": bag for i, bag in enumerate(self._rows)}
        self.arrangements["results"] = self._results

    def apply(self, *changes: pa.Table) -> pa.Table:
        """The change of the result for changes of the inputs."""
        for bag, change in zip(self._rows, changes, strict=True):
            add_to_bag(bag, change)
        relations = {
            name: (fields, repeated(bag.snapshot().rows()).rename_columns([f.name for f in fields]))
            for (name, fields), bag in zip(self._relations, self._rows, strict=True)
        }
        result = self._evaluator.recompute(self._query, relations, self.schema)
        before = self._results.snapshot().rows()
        change = consolidate(add([negate(before), inserted(result)]))
        add_to_bag(self._results, change)
        return change


def _bag(schema: pa.Schema) -> Arrangement:
    return Arrangement(bag_layout(schema, tuple(schema.names)))
