"""Incremental views: a dataflow, and a bag of its results where its last stage does not hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import pyarrow as pa

from spark_incr.plan.nodes import Node, Recompute, walk
from spark_incr.plan.types import Schema, arrow_schema
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.bag import add_arranged, arrange, bag_layout
from spark_incr.runtime.changes import WEIGHT
from spark_incr.runtime.contents import Output
from spark_incr.runtime.dataflow import Dataflow
from spark_incr.runtime.evaluation import Evaluator

OUTPUT = "output"


class View:
    """A maintained query; its columns have the names that users see."""

    def __init__(
        self,
        plan: Node,
        schema: Schema,
        evaluator: Evaluator,
        tables: Mapping[str, Arrangement] = MappingProxyType({}),
    ) -> None:
        self.schema = arrow_schema(schema)
        self.dataflow = Dataflow(plan, evaluator, tables)
        self._bag: Arrangement | None = None
        output = self.dataflow.output(self.schema)
        if output is None:
            self._bag = Arrangement(bag_layout(self.schema, tuple(self.schema.names)))
            output = Output.of_bag(self._bag)
        self.output = output

    @property
    def arrangements(self) -> dict[str, Arrangement]:
        if self._bag is None:
            return self.dataflow.arrangements
        return {**self.dataflow.arrangements, OUTPUT: self._bag}

    @property
    def recomputes(self) -> bool:
        """Whether Spark runs a query over all rows in each batch."""
        return any(isinstance(node, Recompute) for node in walk(self.dataflow.plan))

    def apply(
        self, changes: Mapping[str, pa.Table], start: bool = False, filling: bool = False
    ) -> pa.Table:
        """Maintain the view for a change of its relations; returns its own change."""
        self.dataflow.evaluator.check_functions()
        change = self.dataflow.apply(changes, start, filling)
        change = change.rename_columns([*self.schema.names, WEIGHT])
        if self._bag is None:
            return change
        arranged = arrange(self._bag.layout, change)
        add_arranged(self._bag, arranged)
        return arranged.rows


def chunks(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    """A batch in pieces, at least one."""
    for start in range(0, max(rows.num_rows, 1), size):
        yield rows.slice(start, size).combine_chunks()
