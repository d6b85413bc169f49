"""γ becomes a stage: γ = a ∘ h, where h(R ⊎ Δ) = h(R) ⊗ h(Δ).

Each call is split into accumulators (the homomorphism), values derived from multisets where the
function has no inverse, and an answer. Calls share what they have in common: avg(x), sum(x) and
count(x) need one sum and one count, max(x) and count(DISTINCT x) one multiset.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.errors import error
from spark_incr.plan.aggregates import AFFECTED, FUNCTIONS, MULTISET
from spark_incr.plan.context import Context
from spark_incr.plan.facts import append_only, determines
from spark_incr.plan.joins import cast_to, with_a_column
from spark_incr.plan.nodes import RELATION, Aggregate, Call, Node, Project, Rederive, column
from spark_incr.plan.stages import (
    ROWS,
    Accumulator,
    AggregateStage,
    Answer,
    Derived,
    Multiset,
)
from spark_incr.plan.types import FLOATS, INTEGERS, Field, has_several_forms
from spark_incr.sql.dialect import print_sql

_MOMENTS = {"var_pop", "var_samp", "stddev_pop", "stddev_samp", "covar_pop", "covar_samp", "corr"}


def maintain_aggregates(node: Node, context: Context) -> Node:
    if not isinstance(node, Aggregate):
        return node
    if any(call.function == AFFECTED for call in node.calls):
        return _rederived(replace(node, input=with_a_column(node.input, context)))
    splitter = _Splitter(node, context)
    answers = tuple(splitter.answer(call) for call in node.calls)
    return AggregateStage(
        node.schema,
        splitter.input(),
        node.keys,
        tuple(splitter.accumulators.values()),
        splitter.kept_multisets(),
        tuple(splitter.derived),
        answers,
        node.scalar,
        node.exact,
    )


def _rederived(node: Aggregate) -> Node:
    """The aggregate as written, evaluated for the groups that a batch touches."""
    keys = [column(key) for key in node.keys]
    calls = [exp.alias_(_written(c), c.name, quoted=True) for c in node.calls]
    query = exp.select(*keys, *calls).from_(exp.to_table(RELATION))
    if keys:
        query = query.group_by(*(k.copy() for k in keys))
    functions = sorted({print_sql(_written(c)).split("(")[0].lower() for c in node.calls})
    return Rederive(node.schema, node.input, node.keys, query, ", ".join(functions))


def _written(call: Call) -> exp.Expr:
    assert call.expression is not None
    return call.expression


@dataclass
class _Splitter:
    node: Aggregate
    context: Context
    computed: dict[exp.Expr, Field] = field(default_factory=dict)
    accumulators: dict[Accumulator, Accumulator] = field(default_factory=dict)
    multisets: dict[Multiset, Multiset] = field(default_factory=dict)
    derived: list[Derived] = field(default_factory=list)

    def input(self) -> Node:
        below = self.node.input
        if not self.computed:
            return below
        schema = (*below.schema, *self.computed.values())
        expressions = (*(column(n) for n in below.names), *self.computed)
        return Project(schema, below, expressions)

    def answer(self, call: Call) -> Answer:
        source = self._type(call.arguments[0]) if call.arguments else T.LongType()
        if FUNCTIONS[call.function] == MULTISET:
            return self._derived(call, source)
        multiset: str | None = None
        condition = call.condition
        if call.distinct:
            floats = any(has_several_forms(self._type(name)) for name in call.arguments)
            multiset = self._multiset(call.arguments, condition, grouped=floats).name
            condition = None
        if call.function == "count":
            masked = self._masked(call.arguments, condition)
            return self._answer(call, "count", [self._count(masked, multiset)], source)
        if call.function == "count_if":
            (argument,) = self._masked(call.arguments, condition)
            total = self._sum("integer", (argument,), multiset)
            return self._answer(call, "count", [total], source)
        if call.function in _MOMENTS:
            return self._moments(call, condition, multiset)
        (argument,) = self._masked(call.arguments, condition)
        count = self._count((argument,), multiset)
        if call.function == "bit_xor":
            return self._answer(
                call, "bit_xor", [self._sum("xor", (argument,), multiset), count], source
            )
        if call.function in ("bool_and", "bool_or"):
            total = self._sum("integer", (argument,), multiset)
            return self._answer(call, call.function, [total, count], source)
        total = self._sum(_monoid(source, call), (argument,), multiset)
        return self._answer(call, call.function, [total, count], source)

    def _moments(self, call: Call, condition: str | None, multiset: str | None) -> Answer:
        double = T.DoubleType()
        if multiset is not None:
            # The distinct values are those of the argument itself, so the cast comes after.
            (argument,) = call.arguments
            names: tuple[str, ...] = (argument,)
        else:
            names = self._masked(call.arguments, condition)
            if len(names) == 2:
                a, b = names
                names = (self._only_where(a, b), self._only_where(b, a))
            names = tuple(
                self._compute(cast_to(self._expression(n), self._type(n), double), double, "moment")
                if self._type(n) != double
                else n
                for n in names
            )
        x, y = names[0], names[-1]
        terms = [(x,), (y,), (x, y), (x, x), (y, y)] if len(names) == 2 else [(x,), (x, x)]
        sums = [self._sum("product" if len(t) == 2 else "float", t, multiset) for t in terms]
        return self._answer(call, call.function, [self._count((x,), multiset), *sums], double)

    def _derived(self, call: Call, source: T.DataType) -> Answer:
        function, parameters = call.function, call.parameters
        if function in ("first", "last"):
            if not determines(self.node.input, self.node.keys, call.arguments[0]):
                raise error(
                    "INCR_NONDETERMINISTIC",
                    what=f"{function} of a column that the group does not determine",
                    hint="Use min, max, min_by, max_by or any_value.",
                )
            function = "any_value"
        if function == "median":
            function, parameters = "percentile", (0.5,)
        arguments = call.arguments
        if function in ("min_by", "max_by"):
            arguments = (arguments[1], arguments[0])
        multiset = self._multiset(arguments, call.condition)
        if function == "collect_list" and call.distinct:
            function = "collect_set"
        derived = Derived(call.name, function, multiset.name, call.type, parameters)
        self.derived.append(derived)
        return Answer(call.name, "derived", (call.name,), call.type, source)

    def _answer(
        self, call: Call, function: str, inputs: list[Accumulator], source: T.DataType
    ) -> Answer:
        return Answer(call.name, function, tuple(a.name for a in inputs), call.type, source)

    def _count(self, present: tuple[str, ...], multiset: str | None) -> Accumulator:
        if not present and multiset is None:
            return Accumulator(ROWS, "integer")
        return self._accumulator(Accumulator("", "integer", (), present, multiset), "count")

    def _sum(self, monoid: str, terms: tuple[str, ...], multiset: str | None) -> Accumulator:
        present = tuple(dict.fromkeys(terms))
        return self._accumulator(Accumulator("", monoid, terms, present, multiset), "sum")

    def _accumulator(self, accumulator: Accumulator, hint: str) -> Accumulator:
        if accumulator not in self.accumulators:
            words = (
                [hint, *accumulator.terms] if accumulator.terms else [hint, *accumulator.present]
            )
            if accumulator.multiset:
                words.insert(1, "distinct")
            name = self.context.names.fresh("_".join(words))
            self.accumulators[accumulator] = replace(accumulator, name=name)
        return self.accumulators[accumulator]

    def kept_multisets(self) -> tuple[Multiset, ...]:
        """The multisets; not to be kept if only extremes of rows that never leave need them."""
        multisets = tuple(self.multisets.values())
        if not append_only(self.node.input):
            return multisets
        needed = {a.multiset for a in self.accumulators.values()}
        needed |= {d.multiset for d in self.derived if d.function not in ("min", "max")}
        return tuple(replace(m, kept=m.name in needed) for m in multisets)

    def _multiset(
        self, values: tuple[str, ...], condition: str | None, grouped: bool = False
    ) -> Multiset:
        unnamed = Multiset("", values, condition, grouped)
        if unnamed not in self.multisets:
            name = self.context.names.fresh("values_" + "_".join(values))
            self.multisets[unnamed] = replace(unnamed, name=name)
        return self.multisets[unnamed]

    def _type(self, name: str) -> T.DataType:
        for known in (*self.node.input.schema, *self.computed.values()):
            if known.name == name:
                return known.type
        raise AssertionError(name)

    def _compute(self, expression: exp.Expr, type_: T.DataType, hint: str) -> str:
        if expression not in self.computed:
            self.computed[expression] = Field(self.context.names.fresh(hint), type_)
        return self.computed[expression].name

    def _masked(self, arguments: tuple[str, ...], condition: str | None) -> tuple[str, ...]:
        """The arguments, NULL where FILTER leaves the row out."""
        if condition is None:
            return arguments
        if not arguments:
            one = exp.Case(ifs=[exp.If(this=column(condition), true=exp.Literal.number(1))])
            return (self._compute(one, T.IntegerType(), "counted"),)
        return tuple(self._where(name, column(condition)) for name in arguments)

    def _only_where(self, name: str, other: str) -> str:
        present = exp.Not(this=exp.Is(this=self._expression(other), expression=exp.Null()))
        return self._where(name, present)

    def _where(self, name: str, condition: exp.Expr) -> str:
        masked = exp.Case(ifs=[exp.If(this=condition, true=self._expression(name))])
        return self._compute(masked, self._type(name), name)

    def _expression(self, name: str) -> exp.Expr:
        for expression, known in self.computed.items():
            if known.name == name:
                return expression.copy()
        return column(name)


def _monoid(source: T.DataType, call: Call) -> str:
    if isinstance(source, FLOATS):
        return "float"
    if isinstance(source, (T.LongType, T.DecimalType)):
        return "wide"
    if isinstance(source, INTEGERS):
        return "integer"
    raise error("INCR_UNSUPPORTED", what=f"{call.function} of {source.simpleString()}")
