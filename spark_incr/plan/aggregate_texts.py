"""γ as SQL: q(R ⊎ Δ) = a(h(R) ⊗ h(Δ)).

`homomorphism` groups the batch by the lineage and sums each accumulator times the weight; `merge`
adds it to `rN_state`; `answer` narrows the sums to what Spark's function gives. A multiset is a bag
of (key, value), and what has no inverse is Spark's own aggregate over it.

Sums are wider than what they sum, so that they are exact: DECIMAL(38, 0) for BIGINT, ten more
digits for DECIMAL. A DECIMAL of more than 17 digits times a weight, or added to another, may lose
digits by Spark's rules of types; so its sum is kept as the bag of its values. A sum of doubles keeps
NaN, Infinity and -Infinity as counts beside the sum of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.change_texts import (
    ANSWER,
    HOMOMORPHISM,
    WEIGHT,
    StageTexts,
    State,
    Text,
    bag_state,
    changes_of,
    columns,
    difference,
    either,
    merged_bag,
    named,
    parse,
    relation,
    same,
    select,
)
from spark_incr.plan.stages import (
    OF_DOUBLES,
    ROWS,
    Accumulator,
    AggregateStage,
    Answer,
    Derived,
    Multiset,
)
from spark_incr.plan.types import FLOATS, Field, type_text
from spark_incr.sql.names import quote

_EXACT_DIGITS = 17
_INFINITY = "CAST('Infinity' AS DOUBLE)"
_BIGINT = T.LongType()


def aggregate_texts(stage: AggregateStage, name: str, changes: str) -> StageTexts:
    """The texts of an aggregate over the changes of its input."""
    return _Writer(stage, name, changes).texts()


@dataclass(frozen=True)
class _Sum:
    """A column of the state: what a batch adds to it, and how two are combined."""

    name: str
    type: T.DataType
    of_batch: str
    operator: str = "+"

    def merged(self) -> exp.Expr:
        here, there = (f"COALESCE({side}.{quote(self.name)}, 0)" for side in "sd")
        both = f"{here} {self.operator} {there}"
        if isinstance(self.type, T.DecimalType):
            both = f"CAST({both} AS {type_text(self.type)})"
        return named(parse(both), self.name)


@dataclass(frozen=True)
class _Writer:
    stage: AggregateStage
    name: str
    changes: str

    def texts(self) -> StageTexts:
        stage, state = self.stage, f"{self.name}_state"
        homomorphism = f"{self.name}_homomorphism"
        sums = [_Sum(ROWS, _BIGINT, f"SUM({WEIGHT})")]
        for accumulator in stage.accumulators:
            if accumulator.multiset is None and not self._is_bag(accumulator):
                sums += self._sums(accumulator)
        answer = self._answer(state, homomorphism)
        texts = [
            Text(homomorphism, HOMOMORPHISM, self._homomorphism(sums)),
            *(self._bag_homomorphism(bag) for bag in self._bags()),
            Text(f"{self.name}_before", ANSWER, answer),
            Text(state, "merge", self._merge(state, homomorphism, sums)),
            *(self._bag_merge(bag) for bag in self._bags()),
            Text(f"{self.name}_after", ANSWER, answer),
            difference(self.name, stage.names),
        ]
        keys = self._fields(stage.keys)
        states = [State(state, (*keys, *(Field(s.name, s.type) for s in sums)))]
        states += [bag_state(self._relation(bag), self._bag_schema(bag)) for bag in self._bags()]
        lineage = f"by {', '.join(stage.keys)}" if stage.keys else "to one row"
        lineage = lineage if stage.keys or stage.scalar else "of rows without columns"
        return StageTexts(self.name, f"aggregate {lineage}", tuple(texts), tuple(states))

    # State

    def _fields(self, names: Sequence[str]) -> tuple[Field, ...]:
        return tuple(Field(name, self.stage.input.type_of(name)) for name in names)

    def _is_bag(self, accumulator: Accumulator) -> bool:
        """Whether a sum is kept as the bag of its values."""
        if accumulator.monoid != "wide":
            return False
        type_ = self.stage.input.type_of(accumulator.terms[0])
        return isinstance(type_, T.DecimalType) and type_.precision > _EXACT_DIGITS

    def _bags(self) -> list[Multiset]:
        sums = [a for a in self.stage.accumulators if a.multiset is None and self._is_bag(a)]
        return [*self.stage.multisets, *(Multiset(a.name, a.terms) for a in sums)]

    def _relation(self, bag: Multiset) -> str:
        return f"{self.name}_{bag.name}"

    def _bag_schema(self, bag: Multiset) -> tuple[Field, ...]:
        return self._fields(list(dict.fromkeys([*self.stage.keys, *bag.values])))

    def _bag_homomorphism(self, bag: Multiset) -> Text:
        names = [f.name for f in self._bag_schema(bag)]
        items = [*columns(names), parse(f"SUM({WEIGHT}) AS {WEIGHT}")]
        query = select(items, relation(self.changes)).group_by(*columns(names))
        if bag.condition is not None:
            query = query.where(columns([bag.condition])[0])
        return Text(changes_of(self._relation(bag)), HOMOMORPHISM, query)

    def _bag_merge(self, bag: Multiset) -> Text:
        state = self._relation(bag)
        delta = relation(changes_of(state), "d")
        return merged_bag(state, self._bag_schema(bag), delta, exact=False)

    # Homomorphism and merge

    def _sums(self, accumulator: Accumulator) -> list[_Sum]:
        name = accumulator.name
        if not accumulator.terms:
            present = " AND ".join(f"{quote(p)} IS NOT NULL" for p in accumulator.present)
            return [_Sum(name, _BIGINT, f"SUM(IF({present}, {WEIGHT}, 0))")]
        term = quote(accumulator.terms[0])
        type_ = self.stage.input.type_of(accumulator.terms[0])
        if accumulator.monoid == "xor":
            odd = f"BIT_XOR(IF({WEIGHT} % 2 <> 0, CAST({term} AS BIGINT), 0))"
            return [_Sum(name, _BIGINT, odd, "^")]
        if accumulator.monoid in OF_DOUBLES:
            return self._float_sums(accumulator)
        if isinstance(type_, T.BooleanType):
            return [_Sum(name, _BIGINT, f"SUM(IF({term}, {WEIGHT}, 0))")]
        if isinstance(type_, T.DecimalType):
            wider = T.DecimalType(type_.precision + 10, type_.scale)
            total = f"CAST(SUM({term} * {WEIGHT}) AS {type_text(wider)})"
            return [_Sum(name, wider, total)]
        if accumulator.monoid == "wide":
            whole = T.DecimalType(38, 0)
            return [_Sum(name, whole, f"SUM(CAST({term} AS {type_text(whole)}) * {WEIGHT})")]
        return [_Sum(name, _BIGINT, f"SUM({term} * {WEIGHT})")]

    def _float_sums(self, accumulator: Accumulator) -> list[_Sum]:
        name, double = accumulator.name, T.DoubleType()
        value = " * ".join(
            quote(t) if self.stage.input.type_of(t) == double else f"CAST({quote(t)} AS DOUBLE)"
            for t in accumulator.terms
        )
        finite = f"SUM(IF(ABS({value}) < {_INFINITY}, {value} * {WEIGHT}, 0))"
        nan, plus, minus = _counts(name)
        return [
            _Sum(name, double, finite),
            _Sum(nan, _BIGINT, f"SUM(IF(ISNAN({value}), {WEIGHT}, 0))"),
            _Sum(plus, _BIGINT, f"SUM(IF({value} = {_INFINITY}, {WEIGHT}, 0))"),
            _Sum(minus, _BIGINT, f"SUM(IF({value} = -{_INFINITY}, {WEIGHT}, 0))"),
        ]

    def _homomorphism(self, sums: Sequence[_Sum]) -> exp.Select:
        items = [*columns(self.stage.keys), *(named(parse(s.of_batch), s.name) for s in sums)]
        query = select(items, relation(self.changes))
        return query.group_by(*columns(self.stage.keys)) if self.stage.keys else query

    def _merge(self, state: str, homomorphism: str, sums: Sequence[_Sum]) -> exp.Select:
        items = [*(either(key) for key in self.stage.keys), *(s.merged() for s in sums)]
        query = select(items, relation(state, "s")).join(
            relation(homomorphism, "d"),
            on=same(self._fields(self.stage.keys), "s", "d"),
            join_type="full outer",
        )
        if self.stage.scalar:
            return query
        return query.where(parse(f"COALESCE(s.{ROWS}, 0) + COALESCE(d.{ROWS}, 0) <> 0"))

    # Answer

    def _answer(self, state: str, homomorphism: str) -> exp.Select:
        """The answers of the groups that the batch touches."""
        stage = self.stage
        from_bags: dict[Multiset, dict[str, exp.Expr]] = {}
        items = columns(stage.keys, "s")
        for answer in stage.answers:
            over_bag = self._over_bag(answer)
            if over_bag is None:
                items.append(named(parse(self._over_sums(answer)), answer.name))
                continue
            bag, value = over_bag
            from_bags.setdefault(bag, {})[answer.name] = value
            found = f"{quote(bag.name)}.{quote(answer.name)}"
            if not stage.scalar and (nothing := self._of_nothing(answer)):
                found = f"COALESCE({found}, {nothing})"
            items.append(named(parse(found), answer.name))
        # Of rows whose columns nobody reads there is still to say how many there are.
        query = select(items or columns([ROWS], "s"), self._totals(state))
        if not stage.scalar:
            query = query.join(
                relation(homomorphism, "d"),
                on=same(self._fields(stage.keys), "s", "d"),
                join_type="left semi",
            )
        for bag, values in from_bags.items():
            grouped = self._grouped(bag, values).subquery(bag.name)
            if stage.scalar:
                query = query.join(grouped, join_type="cross")
            else:
                query = query.join(
                    grouped, on=same(self._fields(stage.keys), "s", bag.name), join_type="left"
                )
        return query

    def _of_nothing(self, answer: Answer) -> str | None:
        """The answer of a group that has no row in the bag, where it is not NULL."""
        if answer.function == "count":
            return "0"
        lists = {d.name for d in self.stage.derived if d.function.startswith("collect_")}
        return "ARRAY()" if answer.name in lists else None

    def _totals(self, state: str) -> exp.Expr:
        """The state, with each sum of doubles as one number."""
        floats = [a for a in self.stage.accumulators if a.monoid in OF_DOUBLES and not a.multiset]
        if not floats:
            return relation(state, "s")
        hidden = {name for a in floats for name in (a.name, *_counts(a.name))}
        kept = [s for s in self._state_names() if s not in hidden]
        items = [*columns(kept), *(named(parse(_float_total(a.name)), a.name) for a in floats)]
        return select(items, relation(state)).subquery("s")

    def _state_names(self) -> list[str]:
        plain = [
            a.name for a in self.stage.accumulators if a.multiset is None and not self._is_bag(a)
        ]
        return [*self.stage.keys, ROWS, *plain]

    def _over_bag(self, answer: Answer) -> tuple[Multiset, exp.Expr] | None:
        """The bag that an answer is an aggregate of, and the aggregate."""
        bags = {bag.name: bag for bag in self._bags()}
        for derived in self.stage.derived:
            if derived.name == answer.name:
                bag = bags[derived.multiset]
                return bag, _derived_value(derived, bag.values)
        for accumulator in self.stage.accumulators:
            if accumulator.name not in answer.inputs:
                continue
            if accumulator.multiset is not None:
                bag = bags[accumulator.multiset]
                if answer.function == "count" and accumulator.terms:
                    return bag, parse(f"COUNT_IF({quote(accumulator.terms[0])})")
                return bag, _distinct_value(answer, bag.values)
            if self._is_bag(accumulator):
                value = f"{answer.function.upper()}({quote(accumulator.terms[0])})"
                return bags[accumulator.name], parse(value)
        return None

    def _grouped(self, bag: Multiset, values: dict[str, exp.Expr]) -> exp.Select:
        """Spark's aggregates over a bag."""
        source: exp.Expr = relation(self._relation(bag))
        if all(bag.name != m.name for m in self.stage.multisets):
            copies = parse(f"EXPLODE(ARRAY_REPEAT(1, CAST({WEIGHT} AS INT))) AS __incr_copy")
            names = [f.name for f in self._bag_schema(bag)]
            source = select([*columns(names), copies], source).subquery("copies")
        items = [
            *columns(self.stage.keys),
            *(named(value, name) for name, value in values.items()),
        ]
        query = select(items, source)
        return query.group_by(*columns(self.stage.keys)) if self.stage.keys else query

    def _over_sums(self, answer: Answer) -> str:
        first, *rest = (f"s.{quote(name)}" for name in answer.inputs)
        if answer.function == "count":
            return first
        if len(rest) > 1:
            return _moment(answer, [first, *rest])
        total, count = first, rest[0]
        match answer.function:
            case "bool_and":
                value = f"{total} = {count}"
            case "bool_or":
                value = f"{total} > 0"
            case "avg" if isinstance(answer.type, T.DecimalType):
                value = f"CAST({total} / {count} AS {type_text(answer.type)})"
            case "avg":
                value = f"CAST({total} AS DOUBLE) / {count}"
            case "sum" if not isinstance(answer.source, T.LongType):
                value = total
            case _:
                value = f"CAST({total} AS {type_text(answer.type)})"
        return f"CASE WHEN {count} > 0 THEN {value} END"


def _counts(name: str) -> tuple[str, str, str]:
    """The counts of NaN, Infinity and -Infinity beside a sum of doubles."""
    return f"__incr_nan_{name}", f"__incr_inf_{name}", f"__incr_minus_inf_{name}"


def _float_total(name: str) -> str:
    nan, plus, minus = (quote(count) for count in _counts(name))
    return (
        f"CASE WHEN {nan} > 0 OR {plus} > 0 AND {minus} > 0 THEN CAST('NaN' AS DOUBLE)"
        f" WHEN {plus} > 0 THEN {_INFINITY} WHEN {minus} > 0 THEN -{_INFINITY}"
        f" ELSE {quote(name)} END"
    )


def _moment(answer: Answer, inputs: Sequence[str]) -> str:
    """Σxy - Σx·Σy/n, divided as the function says."""
    n, x, *rest = inputs
    if len(rest) == 1:
        (xx,) = rest
        sample = answer.function.endswith("samp")
        spread = f"GREATEST({xx} - {x} * {x} / {n}, 0) / {f'({n} - 1)' if sample else n}"
        value = f"SQRT({spread})" if answer.function.startswith("stddev") else spread
        return f"CASE WHEN {n} > {int(sample)} THEN {value} END"
    y, xy, xx, yy = rest
    together = f"({xy} - {x} * {y} / {n})"
    if answer.function == "corr":
        for a, aa in ((x, xx), (y, yy)):
            together = f"{together} / NULLIF(SQRT(GREATEST({aa} - {a} * {a} / {n}, 0)), 0)"
        return f"CASE WHEN {n} > 1 THEN {together} END"
    if answer.function == "covar_samp":
        return f"CASE WHEN {n} > 1 THEN {together} / ({n} - 1) END"
    return f"CASE WHEN {n} > 0 THEN {together} / {n} END"


def _distinct_value(answer: Answer, values: Sequence[str]) -> exp.Expr:
    """An aggregate of distinct values: of the rows of the bag, whatever their weights."""
    if answer.function == "count" and len(values) > 1:
        present = " AND ".join(f"{quote(v)} IS NOT NULL" for v in values)
        return parse(f"COUNT(IF({present}, 1, NULL))")
    value, count = f"CAST({quote(values[0])} AS DOUBLE)", f"COUNT({quote(values[0])})"
    if answer.function.startswith(("var_", "stddev_")):
        return parse(_moment(answer, [count, _in_order(value), _in_order(f"{value} * {value}")]))
    if isinstance(answer.source, FLOATS) and answer.function in ("sum", "avg"):
        divisor = f" / {count}" if answer.function == "avg" else ""
        return parse(f"CASE WHEN {count} > 0 THEN {_in_order(value)}{divisor} END")
    return parse(f"{answer.function.upper()}({', '.join(map(quote, values))})")


def _in_order(value: str) -> str:
    """A sum of doubles that does not depend on the order of the rows."""
    return f"AGGREGATE(SORT_ARRAY(COLLECT_LIST({value})), CAST(0 AS DOUBLE), (a, b) -> a + b)"


def _derived_value(derived: Derived, values: Sequence[str]) -> exp.Expr:
    first = quote(values[0])
    match derived.function:
        case "any_value":
            return parse(f"MIN({first})")
        case "max_by" | "min_by":
            return parse(f"{derived.function.upper()}({quote(values[1])}, {first})")
        case "collect_list":
            copies = f"COLLECT_LIST(ARRAY_REPEAT({first}, CAST({WEIGHT} AS INT)))"
            return parse(f"SORT_ARRAY(FLATTEN({copies} FILTER(WHERE {first} IS NOT NULL)))")
        case "collect_set":
            return parse(f"SORT_ARRAY(COLLECT_SET({first}))")
        case "percentile":
            (fractions,) = derived.parameters
            many = isinstance(fractions, tuple)
            fraction = f"ARRAY({', '.join(map(str, fractions))})" if many else str(fractions)
            # Not by `parse`, which knows no weights in the third place.
            operands = [columns([values[0]])[0], parse(fraction), exp.column(WEIGHT)]
            return exp.Anonymous(this="PERCENTILE", expressions=operands)
    return parse(f"{derived.function.upper()}({first})")
