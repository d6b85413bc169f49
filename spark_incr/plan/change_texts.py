"""Changes and bags as SQL: the parts of which the texts of operators are made.

A relation's change has the relation's columns and `__incr_w`. A bag has one row per distinct row
with its weight, and B ⊎ Δ is a FULL OUTER JOIN of the two on all columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyspark.sql.types as T
import sqlglot
from sqlglot import exp
from sqlglot.generator import Generator

from spark_incr.plan.types import Field, Schema, holds, is_ordered, is_told_by_text
from spark_incr.sql.dialect import SparkText

WEIGHT = "__incr_w"
HOMOMORPHISM = "homomorphism"
ANSWER = "answer"
REDERIVED = "query, run anew"


@dataclass(frozen=True)
class Text:
    """An assignment: the relation `name` becomes the result of the query."""

    name: str
    purpose: str
    query: exp.Query
    unread: tuple[str, ...] = ()
    """The relations that a part reads which stands there as it was written."""

    @property
    def reads(self) -> tuple[str, ...]:
        tables = (table.name for table in self.query.find_all(exp.Table))
        return tuple(dict.fromkeys([*filter(None, tables), *self.unread]))


@dataclass(frozen=True)
class State:
    """A relation that lives from batch to batch; it is empty before the first."""

    name: str
    schema: Schema


@dataclass(frozen=True)
class StageTexts:
    """The texts of one operator, in the order in which they run."""

    name: str
    operator: str
    texts: tuple[Text, ...]
    states: tuple[State, ...] = ()


def changes_of(name: str) -> str:
    """The relation that holds the changes of a relation."""
    return f"{name}_changes"


def parse(text: str) -> exp.Expr:
    """An expression that the texts themselves bring in."""
    return sqlglot.parse_one(text, read=SparkText)


def columns(names: Sequence[str], relation: str | None = None) -> list[exp.Expr]:
    """Columns, of a relation where one is given."""
    return [exp.column(name, relation, quoted=True) for name in names]


def named(expression: exp.Expr, name: str) -> exp.Expr:
    """An expression under a name, which a column of that name has already."""
    if isinstance(expression, exp.Column) and expression.name == name:
        return expression.copy()
    return exp.alias_(expression.copy(), name, quoted=True)


def relation(name: str, alias: str | None = None) -> exp.Expr:
    """A relation of the texts, whose name is one identifier."""
    table = exp.Table(this=exp.to_identifier(name, quoted=True))
    return table if alias is None else exp.alias_(table, alias, table=True)


def verbatim(query: str, alias: str, names: Sequence[str]) -> exp.Subquery:
    """A query as it was written, as a relation with these columns."""
    text = query.replace("\n", Generator.SENTINEL_LINE_BREAK)
    columns = [exp.to_identifier(name, quoted=True) for name in names]
    table = exp.TableAlias(this=exp.to_identifier(alias), columns=columns)
    return exp.Subquery(this=exp.Var(this=text), alias=table)


def select(items: Sequence[exp.Expr], source: exp.Expr) -> exp.Select:
    """SELECT items FROM source."""
    return exp.select(*items).from_(source)


def all_of(conditions: Sequence[exp.Expr]) -> exp.Expr:
    return exp.and_(*conditions) if conditions else exp.true()


def same(fields: Sequence[Field], left: str, right: str) -> exp.Expr:
    """Whether rows of two relations agree on columns; NULL agrees with NULL."""
    names = [field.name for field in fields]
    return agree(fields, columns(names, left), columns(names, right))


def agree(fields: Sequence[Field], left: Sequence[exp.Expr], right: Sequence[exp.Expr]) -> exp.Expr:
    """Whether values agree; of VOID all do, though Spark joins no two of them by `<=>`."""
    pairs = [
        (one, other)
        for field, one, other in zip(fields, left, right, strict=True)
        if not isinstance(field.type, T.NullType)
    ]
    return all_of([exp.NullSafeEQ(this=one, expression=other) for one, other in pairs])


def is_present(name: str) -> exp.Expr:
    return exp.Not(this=exp.Is(this=columns([name])[0], expression=exp.null()))


def bag_state(name: str, schema: Schema) -> State:
    """The state of a bag of rows."""
    return State(name, (*schema, Field(WEIGHT, T.LongType())))


def consolidated(schema: Schema, changes: str, conditions: Sequence[exp.Expr]) -> exp.Select:
    """One row per distinct row of a change that meets the conditions, its weights summed.

    GROUP BY takes -0.0 for 0.0, and strings for equal by their collation; in a row they are two
    values, told apart by their texts. What Spark does not compare is told by its text alone.
    """
    by_value = [f.name for f in schema if is_ordered(f.type)]
    by_text = [f for f in schema if is_told_by_text(f.type) or not is_ordered(f.type)]
    shown = {f.name for f in by_text}
    items = [
        named(exp.First(this=c), c.name) if c.name in shown else c
        for c in columns([f.name for f in schema])
    ]
    query = select([*items, parse(f"SUM({WEIGHT}) AS {WEIGHT}")], relation(changes))
    if conditions:
        query = query.where(*conditions)
    if schema:
        query = query.group_by(*columns(by_value), *texts_of(by_text))
    return query


def merged_bag(state: str, schema: Schema, delta: exp.Expr, exact: bool = True) -> Text:
    """B ⊎ Δ for a consolidated Δ known as `d`; what reaches weight 0 leaves.

    An `exact` bag tells such values apart; one that is not takes rows for equal as GROUP BY does.
    """
    names = [f.name for f in schema]
    by_text = [f for f in schema if (exact and is_told_by_text(f.type)) or not is_ordered(f.type)]
    matches = [same([f], "s", "d") for f in schema if is_ordered(f.type)]
    for here, there in zip(texts_of(by_text, "s"), texts_of(by_text, "d"), strict=True):
        matches.append(exp.NullSafeEQ(this=here, expression=there))
    weight = parse(f"COALESCE(s.{WEIGHT}, 0) + COALESCE(d.{WEIGHT}, 0)")
    items = [*(either(name) for name in names), named(weight, WEIGHT)]
    query = (
        select(items, relation(state, "s"))
        .join(delta, on=all_of(matches), join_type="full outer")
        .where(exp.NEQ(this=weight.copy(), expression=exp.Literal.number(0)))
    )
    return Text(state, "merge", query)


def difference(name: str, names: Sequence[str]) -> Text:
    """The change of an operator: its answer after the batch minus its answer before."""
    after, before = (
        select([*columns(names), parse(f"{weight} AS {WEIGHT}")], relation(f"{name}_{when}"))
        for weight, when in ((1, "after"), (-1, "before"))
    )
    return Text(changes_of(name), "change", exp.union(after, before, distinct=False))


def either(name: str) -> exp.Expr:
    """A column of the state `s`, or of the change `d` where the state has no row."""
    (here,), (there,) = columns([name], "s"), columns([name], "d")
    return exp.alias_(exp.Coalesce(this=here, expressions=[there]), name, quoted=True)


def texts_of(fields: Sequence[Field], side: str | None = None) -> list[exp.Expr]:
    """Columns as texts, which tell apart what is equal: -0.0 and 0.0."""
    pairs = zip(fields, columns([f.name for f in fields], side), strict=True)
    return [
        exp.Anonymous(this="TO_JSON", expressions=[c])
        if holds(f.type, T.MapType, T.VariantType)
        else exp.cast(c, "string")
        for f, c in pairs
    ]
