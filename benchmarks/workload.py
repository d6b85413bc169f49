"""What a benchmark is: tables that grow and shrink by random batches, views over them, and bars.

Law: a workload is determined by its benchmark and its seed, so everybody sees the same batches. A
delete names rows that are there. A benchmark divided by n has n times fewer rows, keys and changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

Changes = dict[str, dict[str, pa.Table]]
Draw = Callable[[np.random.Generator, int], pa.Table]
SEED = 20


@dataclass(frozen=True)
class Input:
    """A table: its columns as DDL, how its rows are drawn, how many there are, and its batches."""

    columns: str
    draw: Draw
    rows: int
    inserts: int = 0
    deletes: int = 0


@dataclass(frozen=True)
class Bar:
    """Ours must be at least so many times faster than another: Spark, DuckDB or a benchmark."""

    other: str
    factor: float

    @property
    def text(self) -> str:
        if self.factor < 1:
            return f"at most {1 / self.factor:g} times the time of {self.other}"
        if self.factor == 1:
            return f"not slower than {self.other}"
        return f"at least {self.factor:g} times faster than {self.other}"


@dataclass(frozen=True)
class Benchmark:
    """Tables, the views over them by name, and what is expected of their maintenance."""

    name: str
    inputs: Mapping[str, Input]
    views: Mapping[str, str]
    bars: tuple[Bar, ...] = ()

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.inputs.values())

    @property
    def changes(self) -> int:
        return sum(table.inserts + table.deletes for table in self.inputs.values())


class Workload:
    """The tables of a benchmark as they should be, and the batches that change them."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._inputs = benchmark.inputs
        self._random = np.random.default_rng(SEED)
        self.tables = {
            name: table.draw(self._random, table.rows) for name, table in self._inputs.items()
        }

    def batches(self, count: int) -> Iterator[Changes]:
        """Batches one by one; the tables have changed when a batch is handed out."""
        for _ in range(count):
            changed = {n: t for n, t in self._inputs.items() if t.inserts or t.deletes}
            yield {name: self._change(name, table) for name, table in changed.items()}

    def _change(self, name: str, table: Input) -> dict[str, pa.Table]:
        rows, batch = self.tables[name], {}
        if table.deletes:
            leaving = np.zeros(rows.num_rows, dtype=np.bool_)
            leaving[self._random.choice(rows.num_rows, table.deletes, replace=False)] = True
            batch["delete"] = rows.filter(pa.array(leaving)).combine_chunks()
            rows = rows.filter(pa.array(~leaving))
        if table.inserts:
            batch["insert"] = table.draw(self._random, table.inserts)
            rows = pa.concat_tables([rows, batch["insert"]])
        self.tables[name] = rows
        return batch


def pairs(first: str, second: str, keys: int, values: int) -> Draw:
    """Rows of two random ints: the first below `keys`, the second below `values`."""

    def draw(random: np.random.Generator, count: int) -> pa.Table:
        return pa.table(
            {
                first: random.integers(0, keys, count, dtype=np.int32),
                second: random.integers(0, values, count, dtype=np.int32),
            }
        )

    return draw
