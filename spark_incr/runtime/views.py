"""Incremental views: a dataflow and the bag of its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from spark_incr.plan.nodes import Node
from spark_incr.plan.types import Schema, arrow_schema
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.bag import add_to_bag, bag_layout
from spark_incr.runtime.changes import WEIGHT
from spark_incr.runtime.dataflow import Dataflow
from spark_incr.runtime.evaluation import Evaluator

OUTPUT = "output"


class View:
    """A maintained query; its columns have the names that users see."""

    def __init__(self, plan: Node, schema: Schema, evaluator: Evaluator) -> None:
        self.schema = arrow_schema(schema)
        self.dataflow = Dataflow(plan, evaluator)
        self.output = Arrangement(bag_layout(self.schema, tuple(self.schema.names)))

    @property
    def arrangements(self) -> dict[str, Arrangement]:
        return {**self.dataflow.arrangements, OUTPUT: self.output}

    def apply(self, changes: Mapping[str, pa.Table], start: bool = False) -> pa.Table:
        """Maintain the view for a change of its relations; returns its own change."""
        change = self.dataflow.apply(changes, start).rename_columns([*self.schema.names, WEIGHT])
        add_to_bag(self.output, change)
        return change


def chunks(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    """A batch in pieces, at least one."""
    for start in range(0, max(rows.num_rows, 1), size):
        yield rows.slice(start, size).combine_chunks()
