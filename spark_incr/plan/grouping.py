"""Aggregation: expressions over groups, and the `Aggregate` that computes what they need."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.aggregates import AFFECTED, is_aggregate, read_call
from spark_incr.plan.functions import refuse_unstable
from spark_incr.plan.grouping_sets import expand, grouping_bit
from spark_incr.plan.nodes import Aggregate, Call, Node, column, columns_in
from spark_incr.plan.scope import Scope, resolve_column
from spark_incr.plan.syntax import (
    has_aggregate,
    is_subquery,
    membership_of,
    outermost_subqueries,
    outermost_windows,
    tested_values,
    transformed,
    unsupported,
)
from spark_incr.plan.types import Field

if TYPE_CHECKING:
    from spark_incr.plan.build import Builder


class Pending(exp.Expression):
    """A subquery or window over groups, kept until the groups are there; with what stands before IN."""

    arg_types = {"this": True, "expressions": False}  # noqa: RUF012, as sqlglot declares it


@dataclass
class AggregateReader:
    """Turns expressions over groups into expressions over the output of one `Aggregate`."""

    builder: Builder
    scope: Scope
    keys: list[exp.Expr]
    sets: list[list[bool]] | None = None
    key_names: list[str] = field(default_factory=list)
    set_names: list[str] = field(default_factory=list)
    inputs: dict[exp.Expr, str] = field(default_factory=dict)
    calls: dict[exp.Expr, Call] = field(default_factory=dict)
    untyped: list[tuple[exp.Expr, Call]] = field(default_factory=list)

    def __post_init__(self) -> None:
        fresh = self.builder.names.fresh
        for key in self.keys:
            name = self._input(key, "key")
            # Over sets a key is NULL in some groups, while aggregates still read its column.
            self.key_names.append(name if self.sets is None else fresh(name))
        if self.sets is not None:
            self.set_names = [fresh("grouping_id"), fresh("grouping_set")]

    def _input(self, expression: exp.Expr, hint: str) -> str:
        if expression not in self.inputs:
            plain = isinstance(expression, exp.Column)
            self.inputs[expression] = expression.name if plain else self.builder.names.fresh(hint)
        return self.inputs[expression]

    def read(self, expression: exp.Expr, aliases: dict[str, exp.Expr] | None = None) -> exp.Expr:
        refuse_unstable(expression)
        if isinstance(expression, (exp.Grouping, exp.GroupingId)):
            return self._grouping(expression)
        call = self._call(expression)
        if call is not None:
            return column(call.name)
        if is_subquery(expression):
            test = membership_of(expression)
            parts = [] if test is None else tested_values(test[0])
            tested = [self.read(part, aliases) for part in parts]
            return Pending(this=expression.copy(), expressions=tested)
        if isinstance(expression, exp.Window):
            window = self.builder.window(expression, lambda e: self.read(e, aliases))
            return Pending(this=window)
        if not (
            has_aggregate(expression)
            or outermost_subqueries(expression)
            or outermost_windows(expression)
        ):
            resolved = self._resolved(expression, aliases)
            return self._over_keys(resolved, expression)
        copy = expression.copy()
        for key, value in list(copy.args.items()):
            if isinstance(value, exp.Expr):
                copy.set(key, self.read(value, aliases))
            elif isinstance(value, list):
                copy.set(
                    key,
                    [self.read(v, aliases) if isinstance(v, exp.Expr) else v for v in value],
                )
        return copy

    def _grouping(self, expression: exp.Expr) -> exp.Expr:
        """grouping(key) and grouping_id(): which keys are not in the row's set."""
        if self.sets is None:
            raise unsupported(expression, "grouping outside GROUPING SETS")
        if isinstance(expression, exp.GroupingId):
            return column(self.set_names[0])
        (argument,) = expression.expressions
        key = self.builder.scalar(argument, self.scope, {})
        return grouping_bit(self.set_names[0], self.keys.index(key), len(self.keys))

    def _resolved(self, expression: exp.Expr, aliases: dict[str, exp.Expr] | None) -> exp.Expr:
        if not aliases:
            return self.builder.scalar(expression, self.scope, {})
        marks: dict[str, exp.Expr] = {}
        for name, written in aliases.items():
            marks[name] = self.read(written)
        return self.builder.scalar(expression, self.scope, marks)

    def _over_keys(self, resolved: exp.Expr, written: exp.Expr) -> exp.Expr:
        known = {*self.key_names, *self.set_names, *(call.name for call in self.calls.values())}

        def change(node: exp.Expr) -> exp.Expr:
            if node in self.keys:
                return column(self.key_names[self.keys.index(node)])
            return node

        result = transformed(resolved, change)
        around = {f.name for _, fields in self.builder.outer for f in fields}
        outside = columns_in(result) - known - around
        if outside:
            raise unsupported(written, "a column that is neither grouped nor aggregated")
        return result

    def _call(self, expression: exp.Expr) -> Call | None:
        condition: exp.Expr | None = None
        node = expression
        if isinstance(node, exp.Filter):
            condition, node = node.expression.this, node.this
        inner = node.this if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)) else node
        if not is_aggregate(inner):
            return None
        reading = read_call(node)
        if reading is None:
            return self._as_written(expression)
        scalar = self.builder.scalar
        arguments = [scalar(a, self.scope, {}).unnest() for a in reading.arguments]
        resolved_condition = None if condition is None else scalar(condition, self.scope, {})
        identity = exp.Tuple(
            expressions=[
                exp.Literal.string(f"{reading.function} {reading.distinct} {reading.parameters}"),
                *arguments,
                *([exp.Filter(this=resolved_condition)] if resolved_condition is not None else []),
            ]
        )
        if identity in self.calls:
            return self.calls[identity]
        original = transformed(
            expression,
            lambda n: resolve_column(n, self.scope, {}) if isinstance(n, exp.Column) else n,
        )
        call = Call(
            name=self.builder.names.fresh(reading.function),
            function=reading.function,
            arguments=tuple(self._input(a, "argument") for a in arguments),
            type=T.NullType(),
            distinct=reading.distinct,
            condition=None
            if resolved_condition is None
            else self._input(resolved_condition, "condition"),
            parameters=reading.parameters,
        )
        self.calls[identity] = call
        self.untyped.append((original, call))
        return call

    def _as_written(self, expression: exp.Expr) -> Call:
        """A call that Spark evaluates over the rows of its group."""
        resolved = self.builder.scalar(expression, self.scope, {})
        if resolved in self.calls:
            return self.calls[resolved]
        call = Call(
            self.builder.names.fresh("aggregate"), AFFECTED, (), T.NullType(), expression=resolved
        )
        self.calls[resolved] = call
        self.untyped.append((resolved, call))
        return call

    def aggregate(self, node: Node, scalar: bool) -> Node:
        types = self.builder.types(node.schema, [e for e, _ in self.untyped])
        calls = tuple(
            Call(c.name, c.function, c.arguments, t, c.distinct, c.condition, c.parameters)
            for (_, c), t in zip(self.untyped, types, strict=True)
        )
        if any(call.function == AFFECTED for call in calls):
            calls = tuple(
                replace(call, function=AFFECTED, arguments=self._columns(e), expression=e)
                for call, (e, _) in zip(calls, self.untyped, strict=True)
            )
        below: Node = self.builder.project(node, [(name, e) for e, name in self.inputs.items()])
        if self.sets is not None:
            pairs = [
                (self.inputs[key], name)
                for key, name in zip(self.keys, self.key_names, strict=True)
            ]
            below = expand(
                below, pairs, self.sets, self.set_names[0], self.set_names[1], self.builder.context
            )
        names = [*self.key_names, *self.set_names]
        keys = tuple(Field(name, below.type_of(name)) for name in names)
        schema = keys + tuple(Field(c.name, c.type) for c in calls)
        return Aggregate(schema, below, tuple(names), calls, scalar)

    def _columns(self, expression: exp.Expr) -> tuple[str, ...]:
        """The columns that an expression reads, as inputs of the aggregate."""
        return tuple(self._input(column(n), n) for n in sorted(columns_in(expression)))
