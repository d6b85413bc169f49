"""Aggregation: expressions over groups, and the `Aggregate` that computes what they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.aggregates import AFFECTED, read_call
from spark_incr.plan.environment import Environment
from spark_incr.plan.expressions import read_window, scalar, subquery_value
from spark_incr.plan.grouping_sets import expand, grouping_bit
from spark_incr.plan.nodes import Aggregate, Call, Node, column, columns_in
from spark_incr.plan.padding import padded
from spark_incr.plan.scope import Bound, Scope, find_column, spelled
from spark_incr.plan.sessions import in_sessions
from spark_incr.plan.syntax import (
    aggregate_call,
    canonical,
    has_aggregate,
    is_subquery,
    negation_inwards,
    outermost_subqueries,
    outermost_windows,
    transformed,
    unsupported,
    values_for,
)
from spark_incr.plan.totality import is_total
from spark_incr.plan.types import Field, as_string, is_collated, parts

Aliases = Mapping[str, exp.Expr]
_INTERVALS = (T.DayTimeIntervalType, T.YearMonthIntervalType)
_UNTYPED = {
    **dict.fromkeys(("sum", "avg", "median", "percentile"), "double"),
    **dict.fromkeys(("bool_and", "bool_or", "count_if"), "boolean"),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), "int"),
}
"""The type that functions read where an argument has none."""


class Pending(exp.Expression):
    """A subquery or window over groups, kept until the groups are there; with what it is given."""

    arg_types = {"this": True, "expressions": False}  # noqa: RUF012, as sqlglot declares it


@dataclass
class AggregateReader:
    """Turns expressions over groups into expressions over the output of one `Aggregate`.

    `keys` are expressions over the node below; `written` maps keys as the query writes them to
    their numbers. Arguments may hold subqueries, for which the node below gains columns.
    """

    env: Environment
    scope: Scope
    node: Node
    keys: list[exp.Expr]
    sets: list[list[bool]] | None = None
    written: Mapping[exp.Expr, int] = field(default_factory=dict)
    key_names: list[str] = field(default_factory=list)
    set_names: list[str] = field(default_factory=list)
    inputs: dict[exp.Expr, str] = field(default_factory=dict)
    calls: dict[exp.Expr, Call] = field(default_factory=dict)
    untyped: list[tuple[exp.Expr, Call]] = field(default_factory=list)

    def __post_init__(self) -> None:
        fresh = self.env.names.fresh
        for key in self.keys:
            name = self._input(key, "key")
            # Over sets a key is NULL in some groups, while aggregates still read its column.
            self.key_names.append(name if self.sets is None else fresh(name))
        if self.sets is not None:
            self.set_names = [fresh("grouping_id"), fresh("grouping_set")]
        self._key_numbers = {canonical(key): i for i, key in enumerate(self.keys)}

    def _input(self, expression: exp.Expr, hint: str) -> str:
        if expression not in self.inputs:
            plain = isinstance(expression, exp.Column)
            self.inputs[expression] = expression.name if plain else self.env.names.fresh(hint)
        return self.inputs[expression]

    def read(
        self, expression: exp.Expr, aliases: Aliases | None = None, hiding: bool = False
    ) -> exp.Expr:
        """An expression over the groups.

        `aliases` are names of the SELECT list. They count where FROM has no column of the name,
        and, if they are `hiding`, also where that column is no key: so does HAVING read names.
        """
        if expression in self.written:
            return column(self.key_names[self.written[expression]])
        if isinstance(expression, (exp.Grouping, exp.GroupingId)):
            return self._grouping(expression)
        call = self._call(expression)
        if call is not None:
            return column(call.name)
        if isinstance(expression, exp.Not) and outermost_subqueries(expression):
            expression = negation_inwards(expression)
        if is_subquery(expression):
            values = [self.read(v, aliases, hiding) for v in values_for(expression)]
            return Pending(this=self._with_own_calls(expression), expressions=values)
        if isinstance(expression, exp.Window):
            window = read_window(expression, lambda e: self.read(e, aliases, hiding))
            return Pending(this=window)
        if isinstance(expression, exp.Column):
            named = self._alias(expression, aliases or {}, hiding)
            if named is not None:
                return named
        if not (
            has_aggregate(expression)
            or outermost_subqueries(expression)
            or outermost_windows(expression)
            or (aliases and self._names_alias(expression, aliases, hiding))
        ):
            return self._over_keys(scalar(self.env, expression, self.scope), expression)
        compared = padded(
            expression,
            lambda side: self._length(side, aliases or {}, hiding),
            lambda side: self.read(side, aliases, hiding),
        )
        if compared is not None:
            return compared
        copy = expression.copy()
        for key, value in list(copy.args.items()):
            if isinstance(value, exp.Expr):
                copy.set(key, self.read(expression.args[key], aliases, hiding))
            elif isinstance(value, list):
                copy.set(
                    key,
                    [
                        self.read(v, aliases, hiding) if isinstance(v, exp.Expr) else v
                        for v in expression.args[key]
                    ],
                )
        return copy

    def _with_own_calls(self, subquery: exp.Expr) -> exp.Expr:
        """A subquery with the aggregates of its WHERE, which can only be of this query, as columns."""
        copy = subquery.copy()
        select = copy.find(exp.Select)
        where = None if select is None else select.args.get("where")
        if select is None or where is None or not has_aggregate(where.this):
            return copy

        def change(node: exp.Expr) -> exp.Expr:
            if is_subquery(node):
                return node.copy()
            call = self._call(node)
            return node if call is None else Bound(this=column(call.name))

        select.set("where", exp.Where(this=transformed(where.this, change)))
        return copy

    def _length(self, side: exp.Expr, aliases: Aliases, hiding: bool) -> int | None:
        """The length of CHAR, if it is what a name stands for."""
        side = side.unnest()
        if isinstance(side, Bound):
            return self.scope.length(side.this.name)
        if not isinstance(side, exp.Column):
            return None
        named = self._aliased(side, aliases, hiding)
        if named is not None:
            return self._length(named, _without(aliases, side.parts[0].name), False)
        found = find_column(side, self.scope)
        return self.scope.length(found.name) if isinstance(found, exp.Column) else None

    def _names_alias(self, expression: exp.Expr, aliases: Aliases, hiding: bool) -> bool:
        return any(
            self._aliased(c, aliases, hiding) is not None for c in expression.find_all(exp.Column)
        )

    def _aliased(self, written: exp.Column, aliases: Aliases, hiding: bool) -> exp.Expr | None:
        """What a name stands for, if it is an alias here."""
        named = aliases.get(spelled(written.parts[0].name))
        if named is None:
            return None
        found = find_column(written, self.scope)
        if found is None:
            return named
        is_key = canonical(found) in self._key_numbers
        return named if hiding and len(written.parts) == 1 and not is_key else None

    def _alias(self, written: exp.Column, aliases: Aliases, hiding: bool) -> exp.Expr | None:
        named = self._aliased(written, aliases, hiding)
        if named is None:
            return None
        result: exp.Expr = self.read(named, _without(aliases, written.parts[0].name))
        if not isinstance(result, exp.Column):
            result = exp.Paren(this=result)
        for part in written.parts[1:]:
            result = exp.Dot(this=result, expression=exp.to_identifier(part.name, quoted=True))
        return result

    def _grouping(self, expression: exp.Expr) -> exp.Expr:
        """grouping(key) and grouping_id(): which keys are not in the row's set."""
        if self.sets is None:
            raise unsupported(expression, "grouping outside GROUPING SETS")
        if isinstance(expression, exp.GroupingId):
            return column(self.set_names[0])
        (argument,) = expression.expressions
        key = scalar(self.env, argument, self.scope)
        number = self._key_numbers[canonical(key)]
        return grouping_bit(self.set_names[0], number, len(self.keys))

    def _over_keys(self, resolved: exp.Expr, written: exp.Expr) -> exp.Expr:
        known = {*self.key_names, *self.set_names}

        def change(node: exp.Expr) -> exp.Expr:
            number = self._key_numbers.get(canonical(node))
            return node if number is None else column(self.key_names[number])

        result = transformed(resolved, change)
        around = {f.name for _, fields in self.env.outer for f in fields}
        outside = columns_in(result) - known - around
        if outside:
            raise unsupported(written, "a column that is neither grouped nor aggregated")
        return result

    def _call(self, written: exp.Expr) -> Call | None:
        if aggregate_call(written) is None:
            return None
        expression = self._resolved(written)
        found = aggregate_call(expression)
        assert found is not None
        reading = read_call(found.node)
        if reading is None:
            return self._as_written(expression)
        arguments = [a.unnest() for a in reading.arguments]
        if reading.function in _UNTYPED:
            arguments = self._as_read(arguments, reading.function)
        condition = found.condition
        identity = exp.Tuple(
            expressions=[
                exp.Literal.string(f"{reading.function} {reading.distinct} {reading.parameters}"),
                *(a.copy() for a in arguments),
                *([exp.Filter(this=condition.copy())] if condition is not None else []),
            ]
        )
        if identity in self.calls:
            return self.calls[identity]
        if condition is not None:
            arguments = [self._guarded(a, condition) for a in arguments]
        call = Call(
            name=self.env.names.fresh(reading.function),
            function=reading.function,
            arguments=tuple(self._input(a, "argument") for a in arguments),
            type=T.NullType(),
            distinct=reading.distinct,
            condition=None if condition is None else self._input(condition, "condition"),
            parameters=reading.parameters,
        )
        self.calls[identity] = call
        self.untyped.append((expression, call))
        return call

    def _guarded(self, argument: exp.Expr, condition: exp.Expr) -> exp.Expr:
        """An argument that is evaluated only for the rows that count."""
        if is_total(argument, self.node.schema, self.env.context):
            return argument
        return exp.Case(ifs=[exp.If(this=condition.copy(), true=argument.copy())])

    def _as_read(self, arguments: list[exp.Expr], function: str) -> list[exp.Expr]:
        """Arguments as Spark casts them: a NULL without a type, and texts, but for those taken bit by
        bit."""
        types = self.env.types(self.node.schema, arguments)
        texts = () if function.startswith("bit_") else (T.StringType,)
        return [
            exp.cast(a, _UNTYPED[function]) if isinstance(as_string(t), (T.NullType, *texts)) else a
            for a, t in zip(arguments, types, strict=True)
        ]

    def _resolved(self, written: exp.Expr) -> exp.Expr:
        """A call over the columns of the node below, which gains those its subqueries need."""
        known: dict[int, exp.Expr] = {}
        for subquery in outermost_subqueries(written):
            self.node, known[id(subquery)] = subquery_value(
                self.env, self.node, subquery, self.scope
            )
        return scalar(self.env, written, self.scope, known=known)

    def _as_written(self, expression: exp.Expr) -> Call:
        """A call that Spark evaluates over the rows of its group."""
        if expression in self.calls:
            return self.calls[expression]
        call = Call(
            self.env.names.fresh("aggregate"), AFFECTED, (), T.NullType(), expression=expression
        )
        self.calls[expression] = call
        self.untyped.append((expression, call))
        return call

    def aggregate(self, scalar: bool) -> Node:
        """The groups, with a column for every call that has been read."""
        types = self.env.types(self.node.schema, [e for e, _ in self.untyped])
        calls = tuple(
            replace(c, type=t, expression=None)
            for (_, c), t in zip(self.untyped, types, strict=True)
        )
        if any(call.function == AFFECTED or self._has_no_tier(call) for call in calls):
            calls = tuple(
                replace(
                    call,
                    function=AFFECTED,
                    arguments=self._columns(e),
                    condition=None,
                    distinct=False,
                    expression=e,
                )
                for call, (e, _) in zip(calls, self.untyped, strict=True)
            )
        below: Node = self.env.project(self.node, [(name, e) for e, name in self.inputs.items()])
        if self.sets is not None:
            pairs = [
                (self.inputs[key], name)
                for key, name in zip(self.keys, self.key_names, strict=True)
            ]
            below = expand(
                below, pairs, self.sets, self.set_names[0], self.set_names[1], self.env.context
            )
            apart = [*self.key_names, self.set_names[1]]
            below = in_sessions(below, [column(name) for name in apart], self.env)
        names = [*self.key_names, *self.set_names]
        keys = tuple(Field(name, below.type_of(name)) for name in names)
        schema = keys + tuple(Field(c.name, c.type) for c in calls)
        return Aggregate(schema, below, tuple(names), calls, scalar)

    def _has_no_tier(self, call: Call) -> bool:
        """Whether only Spark can evaluate a call: it adds intervals up by rules of its own, and
        compares strings by their collations."""
        if call.function in ("sum", "avg"):
            return isinstance(call.type, _INTERVALS)
        if call.function in ("percentile", "median") and any(
            isinstance(t, _INTERVALS) for t in parts(call.type)
        ):
            return True
        if call.function == "count" and not call.distinct:
            return False
        read = [e for e, name in self.inputs.items() if name in call.arguments]
        return any(map(is_collated, self.env.types(self.node.schema, read)))

    def _columns(self, expression: exp.Expr) -> tuple[str, ...]:
        """The columns that an expression reads, as inputs of the aggregate."""
        return tuple(self._input(column(n), n) for n in sorted(columns_in(expression)))


def _without(aliases: Aliases, name: str) -> Aliases:
    """The aliases that stand before the named one: an alias never stands for itself."""
    result: dict[str, exp.Expr] = {}
    for key, value in aliases.items():
        if key == spelled(name):
            break
        result[key] = value
    return result
