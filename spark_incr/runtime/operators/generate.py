"""g(Δ): the rows that each row generates, with its weight; linear, so it has no state.

explode and posexplode of an array, and window() with durations that are known, are done here; every
other generator is Spark's. A kernel gives for each generated row the row it comes from, and what is
made of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.generators import WINDOW, generator_query, time_window
from spark_incr.plan.nodes import RELATION, Generate
from spark_incr.plan.types import Field, arrow_schema
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.changes import WEIGHT
from spark_incr.runtime.columns import Ints, from_values, validity, values
from spark_incr.runtime.evaluation import Evaluator, compile_columns
from spark_incr.sql.dialect import print_sql

Made = tuple[Ints, list[pa.Array]]
Kernel = Callable[[pa.Array], Made]

_EXPLODE: dict[type[exp.Expr], tuple[bool, bool]] = {
    exp.Explode: (False, False),
    exp.ExplodeOuter: (False, True),
    exp.Posexplode: (True, False),
    exp.PosexplodeOuter: (True, True),
}
"""Whether a function tells the place of an element, and keeps a row that has none."""


class GenerateOperator:
    """Maintains one `Generate`."""

    def __init__(self, node: Generate, evaluator: Evaluator) -> None:
        self.schema = arrow_schema(node.schema)
        self.arrangements: dict[str, Arrangement] = {}
        self._made = node.made
        self._input = (*node.input.schema, Field(WEIGHT, T.LongType()))
        self._query = print_sql(generator_query(node))
        self._evaluator = evaluator
        self.by_spark: tuple[exp.Expr, ...] = (node.generator,)
        operand = _operand(node.generator)
        (type_,) = evaluator.known_types(node.input.schema, [operand])
        self._kernel = None if type_ is None else _kernel(node, type_)
        if self._kernel is not None and type_ is not None:
            self._compute = compile_columns((operand,), [type_], node.input.schema, evaluator)
            self.by_spark = self._compute.by_spark

    def apply(self, changes: pa.Table) -> pa.Table:
        """The change of the generated rows for a change of the rows."""
        weighted = self.schema.append(pa.field(WEIGHT, pa.int64()))
        if self._kernel is None:
            relations = {RELATION: (self._input, changes)}
            return self._evaluator.query_rows(self._query, relations, weighted)
        (operand,) = self._compute(changes)
        rows, made = self._kernel(operand)
        kept = changes.select([n for n in weighted.names if n not in self._made]).take(rows)
        columns = dict(zip(self._made, made, strict=True))
        return pa.Table.from_arrays(
            [columns[n] if n in columns else kept.column(n) for n in weighted.names],
            schema=weighted,
        )


def _operand(generator: exp.Expr) -> exp.Expr:
    """What rows are made of."""
    operand: exp.Expr = generator.expressions[0] if time_window(generator) else generator.this
    return operand if isinstance(operand, exp.Expr) else exp.null()


def _kernel(node: Generate, type_: T.DataType) -> Kernel | None:
    kinds = [arrow_schema(node.schema).field(name).type for name in node.made]
    if type(node.generator) in _EXPLODE and isinstance(type_, T.ArrayType):
        places, outer = _EXPLODE[type(node.generator)]
        return lambda lists: explode(lists, kinds, places, outer or node.outer)
    if time_window(node.generator) == WINDOW:
        numbers = [_microseconds(operand) for operand in node.generator.expressions[1:]]
        if len(numbers) == 3 and None not in numbers:
            return lambda times: windows(times, kinds[0], *(n for n in numbers if n is not None))
    return None


def _microseconds(operand: exp.Expr) -> int | None:
    number, _, unit = operand.name.partition(" ")
    return int(number) if operand.is_string and unit == "microseconds" else None


def explode(lists: pa.Array, kinds: list[pa.DataType], places: bool, outer: bool) -> Made:
    """The elements of each list, with their places if they are asked for.

    >>> rows, made = explode(pa.array([[7, 8], None, [9]]), [pa.int32(), pa.int64()], True, True)
    >>> rows.tolist(), [column.to_pylist() for column in made]
    ([0, 0, 2, 1], [[0, 1, 0, None], [7, 8, 9, None]])
    """
    made = [lists.flatten().cast(kinds[-1])]
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(lists)), lengths)
    if places:
        place = np.arange(len(rows)) - (np.cumsum(lengths) - lengths)[rows]
        made.insert(0, pa.array(place, kinds[0]))
    if outer:
        without = np.flatnonzero(lengths == 0)
        rows = np.concatenate([rows, without])
        made = [pa.concat_arrays([m, pa.nulls(len(without), m.type)]) for m in made]
    return rows, made


def windows(times: pa.Array, kind: pa.DataType, duration: int, slide: int, start: int) -> Made:
    """The windows of time that each time is in: as many as slide into one another, in microseconds."""
    valid = validity(times)
    rows = np.arange(len(times)) if valid is None else np.flatnonzero(valid)
    moments = values(times)[rows]
    last = moments - np.mod(moments - start, slide)
    inside, starts = [], []
    for number in range(-(-duration // slide)):
        begins = last - number * slide
        keep = np.flatnonzero(moments < begins + duration)
        inside.append(rows[keep])
        starts.append(begins[keep])
    begins = np.concatenate(starts)
    ends = [from_values(b, None, times.type) for b in (begins, begins + duration)]
    struct = pa.StructArray.from_arrays(ends, fields=[kind.field(i) for i in range(2)])
    return np.concatenate(inside), [struct]
