"""Expressions over a batch: by verified kernels where there is one, by Spark otherwise.

The expressions of one operator that only Spark can evaluate go to Spark together, as one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.nodes import column, columns_in
from spark_incr.plan.types import Schema
from spark_incr.runtime.columns import single
from spark_incr.runtime.expressions import Evaluate, Settings, compile_expression, subexpressions
from spark_incr.sql.dialect import print_sql


class Evaluator(Protocol):
    """Spark, as far as the runtime needs it."""

    settings: Settings

    def known_types(
        self, schema: Schema, expressions: Sequence[exp.Expr]
    ) -> list[T.DataType | None]:
        """The types of expressions, None where one cannot be analysed alone."""

    def evaluate(
        self, expressions: Sequence[exp.Expr], types: Sequence[T.DataType], rows: pa.Table
    ) -> list[pa.Array]:
        """The values of expressions for each row, in order."""

    def query_rows(self, query: str, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """What a query over `RELATION` gives for the rows, in the schema's types."""

    def run(self, query: str) -> pa.Table:
        """The rows of a query that reads no incremental relation."""


Compute = Callable[[pa.Table], list[pa.Array]]


def compile_columns(
    expressions: Sequence[exp.Expr],
    types: Sequence[T.DataType],
    schema: Schema,
    evaluator: Evaluator,
) -> Compute:
    """A function from rows to the values of the expressions."""
    kernels = [_kernel(expression, schema, evaluator) for expression in expressions]
    by_spark = [i for i, kernel in enumerate(kernels) if kernel is None]
    needed = sorted({name for e in expressions for name in columns_in(e)})
    spark_needs = sorted({name for i in by_spark for name in columns_in(expressions[i])})

    def compute(rows: pa.Table) -> list[pa.Array]:
        columns = {name: single(rows.column(name)) for name in needed}
        results: dict[int, pa.Array] = {}
        for i, kernel in enumerate(kernels):
            if kernel is not None:
                results[i] = kernel(columns, rows.num_rows)
        if by_spark:
            values = evaluator.evaluate(
                [expressions[i] for i in by_spark],
                [types[i] for i in by_spark],
                rows.select(spark_needs),
            )
            results.update(zip(by_spark, values, strict=True))
        return [results[i] for i in range(len(expressions))]

    return compute


def needs_spark(
    expressions: Sequence[exp.Expr], schema: Schema, evaluator: Evaluator
) -> list[exp.Expr]:
    """The expressions that no kernel evaluates."""
    return [e for e in expressions if _kernel(e, schema, evaluator) is None]


def _kernel(expression: exp.Expr, schema: Schema, evaluator: Evaluator) -> Evaluate | None:
    if isinstance(expression, exp.Column):
        name = expression.name
        return lambda columns, length: columns[name]
    parts = subexpressions(expression)
    known = {print_sql(column(field.name)): field.type for field in schema}
    wanted = [part for part in parts if print_sql(part) not in known]
    for part, found in zip(wanted, evaluator.known_types(schema, wanted), strict=True):
        if found is not None:
            known[print_sql(part)] = found
    return compile_expression(
        expression, lambda node: known.get(print_sql(node)), evaluator.settings
    )
