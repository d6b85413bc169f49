"""Expressions over a batch: by verified kernels where there is one, by Spark otherwise.

The expressions of one operator that only Spark can evaluate go to Spark together, as one call. What
reads no column (`DATE '1994-01-01' + INTERVAL '1' YEAR`) is computed by Spark once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.nodes import column, columns_in
from spark_incr.plan.syntax import transformed
from spark_incr.plan.types import Field, Schema, arrow_type, as_string
from spark_incr.runtime.clock import evaluating
from spark_incr.runtime.columns import single
from spark_incr.runtime.expressions import Evaluate, Settings, compile_expression, subexpressions
from spark_incr.runtime.expressions.evaluation import UndecidedError
from spark_incr.sql.dialect import is_suffixed, print_sql


class Evaluator(Protocol):
    """Spark, as far as the runtime needs it."""

    settings: Settings

    def start_anew(self) -> None:
        """From here on everything is computed anew: functions of users may be others than before."""

    def check_functions(self) -> None:
        """Fail if a function that a user has registered is not the one that it was."""

    def known_types(
        self, schema: Schema, expressions: Sequence[exp.Expr]
    ) -> list[T.DataType | None]:
        """The types of expressions, None where one cannot be analysed alone."""

    def evaluate(
        self,
        expressions: Sequence[exp.Expr],
        types: Sequence[T.DataType],
        schema: Schema,
        rows: pa.Table,
    ) -> list[pa.Array]:
        """The values of expressions for each row, in order; the schema tells the rows' types."""

    def constants(self, expressions: Sequence[exp.Expr]) -> list[pa.Scalar] | None:
        """The values of expressions that read no column, None if one of them fails."""

    def query_rows(
        self, query: str, relations: Mapping[str, tuple[Schema, pa.Table]], schema: pa.Schema
    ) -> pa.Table:
        """What a query over the named relations gives, in the schema's types."""

    def recompute(
        self, query: str, relations: Mapping[str, tuple[Schema, pa.Table]], schema: pa.Schema
    ) -> pa.Table:
        """The same for a query as a user wrote it, to which the relations are of the types that
        they were declared with."""

    def run(self, query: str) -> pa.Table:
        """The rows of a query that reads no incremental relation."""


@dataclass(frozen=True)
class Computation:
    """A function from rows to values; `by_spark` are the expressions that have no kernel."""

    compute: Callable[[pa.Table], list[pa.Array]]
    by_spark: tuple[exp.Expr, ...] = ()

    def __call__(self, rows: pa.Table) -> list[pa.Array]:
        return self.compute(rows)


# Parts of an expression that may be constant without being a literal.
_FOLDED = (exp.Binary, exp.Func, exp.Cast, exp.Neg)


def compile_columns(
    expressions: Sequence[exp.Expr],
    types: Sequence[T.DataType],
    schema: Schema,
    evaluator: Evaluator,
) -> Computation:
    """A function from rows to the values of the expressions."""
    kernels = [_kernel(expression, schema, evaluator) for expression in expressions]
    read = [columns_in(expression) for expression in expressions]
    needed = sorted({name for names in read for name in names})

    @evaluating()
    def compute(rows: pa.Table) -> list[pa.Array]:
        columns = {name: single(rows.column(name)) for name in needed}
        results = [_decided(kernel, columns, rows.num_rows) for kernel in kernels]
        open_ = [i for i, result in enumerate(results) if result is None]
        if open_:
            known = {name for i in open_ for name in read[i]}
            fields = tuple(field for field in schema if field.name in known)
            values = evaluator.evaluate(
                [expressions[i] for i in open_],
                [types[i] for i in open_],
                fields,
                rows.select([field.name for field in fields]),
            )
            for i, value in zip(open_, values, strict=True):
                results[i] = value
        return results

    by_spark = (e for e, kernel in zip(expressions, kernels, strict=True) if kernel is None)
    return Computation(compute, tuple(by_spark))


def _decided(
    kernel: Evaluate | None, columns: Mapping[str, pa.Array], length: int
) -> pa.Array | None:
    """What a kernel says; None where Spark has to be asked."""
    try:
        return None if kernel is None else kernel(columns, length)
    except UndecidedError:
        return None


def _kernel(expression: exp.Expr, schema: Schema, evaluator: Evaluator) -> Evaluate | None:
    if isinstance(expression, exp.Column):
        name = expression.name
        return lambda columns, length: columns[name]
    kernel = _compiled(expression, schema, evaluator)
    if kernel is not None:
        return kernel
    return _with_constants(expression, schema, evaluator)


def _compiled(expression: exp.Expr, schema: Schema, evaluator: Evaluator) -> Evaluate | None:
    parts = subexpressions(expression)
    known = {print_sql(column(field.name)): as_string(field.type) for field in schema}
    wanted = [part for part in parts if print_sql(part) not in known]
    for part, found in zip(wanted, evaluator.known_types(schema, wanted), strict=True):
        if found is not None:
            known[print_sql(part)] = as_string(found)
    return compile_expression(
        expression, lambda node: known.get(print_sql(node)), evaluator.settings
    )


def _with_constants(expression: exp.Expr, schema: Schema, evaluator: Evaluator) -> Evaluate | None:
    """A kernel for which Spark computes, once, the parts that read no column."""
    constants: dict[exp.Expr, str] = {}

    def named(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Lambda):
            return node.copy()  # what reads its parameters is not constant
        if is_suffixed(node):
            return node.copy()  # a literal, which Spark does not take for a column
        if not isinstance(node, _FOLDED) or columns_in(node) or node.find(exp.Lambda):
            return node
        return column(constants.setdefault(node, f"__incr_constant_{len(constants)}"))

    rest = transformed(expression, named)
    types = evaluator.known_types((), list(constants))
    if not constants or any(type_ is None for type_ in types):
        return None
    fields = tuple(
        Field(name, type_)
        for name, type_ in zip(constants.values(), types, strict=True)
        if type_ is not None
    )
    kernel = (
        _compiled(rest, (*schema, *fields), evaluator)
        if not isinstance(rest, exp.Column)
        else (lambda columns, length: columns[rest.name])
    )
    if kernel is None:
        return None
    row = evaluator.constants(list(constants))
    if row is None:
        return None
    values = {f.name: value.cast(arrow_type(f.type)) for f, value in zip(fields, row, strict=True)}

    def evaluate(columns: Mapping[str, pa.Array], length: int) -> pa.Array:
        # Arrow repeats a list once or more, but not zero times.
        repeated = {
            name: pa.repeat(value, max(length, 1)).slice(0, length)
            for name, value in values.items()
        }
        return kernel({**columns, **repeated}, length)

    return evaluate
