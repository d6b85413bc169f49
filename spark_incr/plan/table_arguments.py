"""Table functions of Python that read relations as a whole: f(TABLE(R) PARTITION BY k ORDER BY x).

Spark makes an instance of the function for the rows of each partition, in their order, and what it
gives for R is the sum of what its instances give:

    f(R) = Σk f(σ key=k (R))

So the partitions that a batch touches are given to the function again, as they were and as they are.
That is sound where the rows of a partition are in one order only, and where Python, which compares the
keys of neighbouring rows to find where a partition ends, tells keys apart that Spark does. The columns
of the rows complete the order; where that is not enough all rows are one group, as in a call without
PARTITION BY. What the function gives for it is kept, and computed anew as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.context import SessionFunction
from spark_incr.plan.environment import Built, Environment
from spark_incr.plan.expressions import read_window, scalar
from spark_incr.plan.nodes import RELATION, Node, Reapply, column, substitute
from spark_incr.plan.recursion import Input, recompute
from spark_incr.plan.scope import Scope, Visible, find_column, spelled
from spark_incr.plan.syntax import lambda_columns, outermost_windows, transformed, unsupported
from spark_incr.plan.types import (
    FLOATS,
    INTEGERS,
    Field,
    as_string,
    char_length,
    is_collated,
    is_ordered,
    is_told_by_text,
    parts,
    type_text,
)
from spark_incr.sql.dialect import print_sql
from spark_incr.sql.table_arguments import TableArgument

_PLACES = ("this", "table", "db", "catalog")
Relation = Callable[[exp.Expr, Environment], tuple[Node, Scope]]

_TOLD_APART = (
    *(*INTEGERS, *FLOATS, T.BooleanType, T.DecimalType, T.StringType, T.BinaryType),
    *(T.DateType, T.TimestampNTZType, T.ArrayType, T.StructType),
)
"""Types whose values are equal in Spark if they are in Python, where the hour that is there twice when
summer ends is one to TIMESTAMP."""


@dataclass(frozen=True)
class _Table:
    """A TABLE argument: its rows, and the names by which the function reads their columns.

    Its keys are expressions over the columns of the plan.
    """

    written: TableArgument
    node: Node
    columns: tuple[Visible, ...]
    keys: tuple[exp.Expr, ...]
    order: tuple[exp.Ordered, ...]

    def called(self, expression: exp.Expr) -> exp.Expr:
        """An expression over the columns as the function reads them."""
        return substitute(expression, {v.column: column(v.name) for v in self.columns})

    @property
    def ties(self) -> tuple[exp.Ordered, ...]:
        """What completes the order of a partition, as far as Spark sorts values: the other columns, and
        the texts of those that are equal and can be told apart."""
        known = {key.name for key in (*self.keys, *(by.this for by in self.order)) if _plain(key)}
        keys: list[exp.Expr] = []
        for visible in self.columns:
            kind = self.node.type_of(visible.column)
            if is_ordered(kind) and visible.column not in known:
                keys.append(column(visible.name))
            if is_told_by_text(kind):
                keys.append(exp.cast(column(visible.name), "string"))
        return tuple(exp.Ordered(this=key, desc=False, nulls_first=True) for key in keys)

    def argument(self, relation: str) -> TableArgument:
        """The argument over a relation that has the columns of the plan, its order completed."""
        items = [exp.alias_(column(v.column), v.name, quoted=True) for v in self.columns]
        source = exp.Table(this=exp.to_identifier(relation, quoted=True))
        rows = exp.select(*items).from_(source)
        single = bool(self.written.args.get("single"))
        keys = [self.called(key) for key in self.keys]
        argument = TableArgument(this=rows, single=single, partition_by=keys)
        order = [exp.Ordered(**{**by.args, "this": self.called(by.this)}) for by in self.order]
        order += self.ties
        if order and (single or keys):
            argument.set("order", exp.Order(expressions=order))
        elif order:
            # The function may say itself how rows are split and sorted, and then the call may not.
            rows.set("sort", exp.Sort(expressions=order))
        return argument


def _plain(key: exp.Expr) -> bool:
    return isinstance(key, exp.Column)


def _given(call: exp.Expr) -> list[exp.Expr]:
    return [e.expression if isinstance(e, exp.Kwarg) else e for e in call.expressions]


def reads_tables(call: exp.Expr) -> bool:
    """Whether a call has TABLE arguments."""
    return any(isinstance(e, TableArgument) for e in _given(call))


def applied(source: exp.Expr, env: Environment, relation: Relation) -> Built:
    """The rows that a function in FROM makes of relations; it cannot read what is around it."""
    call: exp.Expr = source.this
    env = replace(env, outer=())
    written = [e for e in _given(call) if isinstance(e, TableArgument)]
    tables = [_read(argument, env, relation) for argument in written]
    function = env.analyzer.session_function(call.name.lower(), len(call.expressions))
    if function is None:
        raise unsupported(
            source, f"a TABLE argument of {call.name}, which users have not registered,"
        )
    reason = _reason_for_all_rows(call, function, tables, env)
    if not reason:
        return _by_partition(source, tables[0], env)
    inputs: list[Input] = []

    def of_all_rows(node: Node) -> str:
        inputs.append((f"{RELATION}_{len(inputs)}", node, node.names))
        return inputs[-1][0]

    given = {id(table.written): table for table in tables}

    def change(node: exp.Expr) -> exp.Expr:
        if id(node) in given:
            table = given[id(node)]
            return table.argument(of_all_rows(table.node))
        if not isinstance(node, exp.Query):
            return node
        source = exp.to_identifier(of_all_rows(env.query(node).node), quoted=True)
        rows = exp.select("*").from_(exp.Table(this=source))
        return rows.subquery() if isinstance(node, exp.Subquery) else rows

    query = print_sql(_rows_of(source, transformed(call, change)))
    name = f"table function {call.name.lower()}, {reason}"
    return recompute(inputs, query, env.context, "affected", name)


def _read(argument: TableArgument, env: Environment, relation: Relation) -> _Table:
    if isinstance(argument.this, exp.Table):
        node, scope = relation(argument.this, env)
    else:
        built = env.query(argument.this)
        node, scope = built.node, _scope_of(built)
    columns = tuple(scope.star(None))
    if len({spelled(v.name) for v in columns}) < len(columns):
        what, hint = "a TABLE argument with two columns of one name", "Give each a name of its own."
        raise unsupported(argument, what, hint)

    def key(expression: exp.Expr) -> exp.Expr:
        expression = _unqualified(expression, scope)
        known: dict[int, exp.Expr] = {
            id(window): read_window(window, lambda e: scalar(env, e, scope))
            for window in outermost_windows(expression)
        }
        return scalar(env, expression, scope, known=known)

    order = argument.args.get("order")
    return _Table(
        argument,
        node,
        columns,
        tuple(key(e) for e in argument.args.get("partition_by") or []),
        tuple(
            exp.Ordered(**{**by.args, "this": key(by.this)})
            for by in (order.expressions if order is not None else [])
        ),
    )


def _scope_of(built: Built) -> Scope:
    pairs = zip(built.names, built.node.schema, strict=True)
    return Scope(tuple(Visible((), n, f.name, char_length(f.type)) for n, f in pairs))


def _unqualified(expression: exp.Expr, scope: Scope) -> exp.Expr:
    """An expression without the relations of columns: a query hands them on with what it passes."""
    lambdas = expression.find_all(exp.Lambda)
    parameters = {id(parameter) for each in lambdas for parameter in lambda_columns(each)}

    def change(node: exp.Expr) -> exp.Expr:
        while (
            isinstance(node, exp.Column)
            and id(node) not in parameters
            and len(node.parts) > 1
            and find_column(node, scope) is None
        ):
            names = [part.copy() for part in reversed(node.parts[1:])]
            node = exp.Column(**dict(zip(_PLACES, names, strict=False)))
        return node

    return transformed(expression, change)


def _reason_for_all_rows(
    call: exp.Expr, function: SessionFunction, tables: Sequence[_Table], env: Environment
) -> str:
    """Why a function is given all rows again, and not the partitions that a batch touches."""
    if len(tables) > 1:
        return "of several tables"
    (table,) = tables
    if not table.keys:
        return "without PARTITION BY"
    scalars = [e for e in _given(call) if e is not table.written]
    if any(e.find(exp.Query) for e in scalars):
        return "called with a subquery"
    if any(isinstance(kind, T.StructType) for kind in env.types((), scalars)):
        return "called with a struct"  # which Python takes for the row that has the keys
    if function.in_batches:
        return "given rows in batches"
    clauses = (*table.keys, *table.order)
    if any(outermost_windows(e) for e in clauses):
        return "split or sorted by a window function"
    for key, kind in zip(table.keys, env.types(table.node.schema, table.keys), strict=True):
        kind = as_string(kind)
        if is_collated(kind) or not all(isinstance(part, _TOLD_APART) for part in parts(kind)):
            return f"partitioned by {print_sql(table.called(key))} of type {type_text(kind)}"
    for visible in table.columns:
        kind = table.node.type_of(visible.column)
        nested = is_collated(kind) and not isinstance(kind, T.StringType)
        if nested or not is_ordered(kind):
            return f"of rows that {visible.name} of type {type_text(kind)} leaves in no order"
    return ""


def _by_partition(source: exp.Expr, table: _Table, env: Environment) -> Built:
    kept: list[tuple[str, exp.Expr]] = [(n, column(n)) for n in table.node.names]
    keys: list[str] = []
    added: list[tuple[str, exp.Expr]] = []
    for key in table.keys:
        if not _plain(key):
            added.append((env.names.fresh("partition"), key))
        keys.append(key.name if _plain(key) else added[-1][0])
    node = env.project(table.node, [*kept, *added]) if added else table.node
    argument = table.argument(RELATION)
    call = transformed(source.this, lambda e: argument if e is table.written else e)
    query = print_sql(_rows_of(source, call))
    fields = env.analyzer.output(query, {RELATION: node.schema})
    schema = tuple(Field(env.names.fresh(f.name), f.type) for f in fields)
    named = _rows_of(source, call, [f.name for f in schema])
    reason = f"table function {source.this.name.lower()}"
    rows = Reapply(schema, node, tuple(dict.fromkeys(keys)), named, reason)
    return Built(rows, tuple(f.name for f in fields))


def _rows_of(source: exp.Expr, call: exp.Expr, names: Sequence[str] = ()) -> exp.Select:
    """All rows of a call in the place of another one, with names for its columns if some are given."""
    qualifier = {place: source.args.get(place) for place in ("db", "catalog")}
    table = exp.Table(this=call, **qualifier)
    if names:
        columns = [exp.to_identifier(name, quoted=True) for name in names]
        table.set("alias", exp.TableAlias(this=exp.to_identifier("__incr_made"), columns=columns))
    return exp.select("*").from_(table)
