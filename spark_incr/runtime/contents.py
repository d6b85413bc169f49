"""What a relation holds: the rows of one arrangement, as they are or as they answer.

The groups of an aggregate hold everything that its answers are made of, so a view that ends in an
aggregate needs no second copy of its rows: a reader evaluates the answers of the live groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_incr.plan.nodes import SortKey
from spark_incr.runtime.arrangement import Arrangement, Snapshot
from spark_incr.runtime.changes import WEIGHT, inserted, repeated
from spark_incr.runtime.order import row_order
from spark_incr.runtime.run import Run


@dataclass(frozen=True)
class Output:
    """Where the rows of a relation are, and the table that some of its rows stand for.

    Rows without a weight stand for one row each.
    """

    arrangement: Arrangement
    columns: tuple[str, ...]
    answer: Callable[[pa.Table], pa.Table]
    order: tuple[SortKey, ...] = ()
    """The order in which a reader gets the rows; their bag does not depend on it."""

    @staticmethod
    def of_bag(bag: Arrangement) -> Output:
        return Output(bag, tuple(bag.layout.schema.names), lambda rows: rows)

    def select(self, names: Sequence[str], schema: pa.Schema) -> Output:
        """The output with the named columns only, as the columns of the schema."""

        def answer(rows: pa.Table) -> pa.Table:
            answers = self.answer(rows)
            return pa.Table.from_arrays([answers.column(name) for name in names], schema=schema)

        return Output(self.arrangement, self.columns, answer)

    def of_run(self, run: Run) -> pa.Table:
        """What the rows of a run stand for, the dead ones too; each run is asked once."""
        read = run.read
        if read is None or read[0] is not self.answer:
            read = run.read = (self.answer, self.answer(run.rows.select(self.columns)))
        return read[1]

    def contents(self) -> Contents:
        return Contents(self, self.arrangement.snapshot())


@dataclass(frozen=True)
class Contents:
    """The rows of a relation as of one version."""

    output: Output
    snapshot: Snapshot

    def _rows(self) -> pa.Table:
        output, version = self.output, self.snapshot.version
        if not self.snapshot.runs:
            nothing = self.snapshot.layout.schema.empty_table()
            return output.answer(nothing.select(output.columns))
        return pa.concat_tables(
            run.only_live(output.of_run(run), version) for run in self.snapshot.runs
        )

    def changes(self) -> pa.Table:
        """The rows as the batch that brings them all."""
        rows = self._rows()
        return rows if WEIGHT in rows.column_names else inserted(rows)

    def to_arrow(self) -> pa.Table:
        """The rows, each as often as it is there."""
        rows = self._rows()
        rows = repeated(rows) if WEIGHT in rows.column_names else rows
        return rows.take(row_order(rows, self.output.order)) if self.output.order else rows
