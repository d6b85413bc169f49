"""Joins as SQL: Δ(L ⋈ R) = ΔL ⋈ R + (L + ΔL) ⋈ ΔR.

Each side is a bag, `rN_left` and `rN_right`, of the rows whose keys can match. Which rows of a side
are alone (or, for a semi join, are not) depends on the other side as a whole; so it is asked for the
keys of the batch before the merges and after them, and the change is the difference. Rows whose key
can match nothing are alone as they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from spark_incr.plan.change_texts import (
    WEIGHT,
    StageTexts,
    Text,
    agree,
    all_of,
    bag_state,
    changes_of,
    columns,
    consolidated,
    is_present,
    merged_bag,
    named,
    parse,
    relation,
    select,
    texts_of,
)
from spark_incr.plan.nodes import Join, JoinKind, Node
from spark_incr.plan.types import Field, Schema, is_told_by_text, type_sql


def join_texts(node: Join, name: str, left: str, right: str) -> StageTexts:
    """The texts of a join over the changes of its sides."""
    how = node.null_safe, node.exact
    here = _Side(node.left, f"{name}_left", left, [a for a, _ in node.keys], *how)
    there = _Side(node.right, f"{name}_right", right, [b for _, b in node.keys], *how)
    states = tuple(bag_state(side.state, side.node.schema) for side in (here, there))
    pairs = exp.union(
        _pairs(here, there, left, there.state),
        _pairs(here, there, here.state, right),
        distinct=False,
    )
    purpose = "change, ΔL ⋈ R + (L + ΔL) ⋈ ΔR"
    if node.kind is JoinKind.INNER:
        change = Text(changes_of(name), purpose, pairs)
        return StageTexts(name, "join", (here.merge(), change, there.merge()), states)

    semi = node.kind is JoinKind.SEMI
    alone = [(here, there), (there, here)] if node.kind is JoinKind.FULL else [(here, there)]
    keys, word = f"{name}_keys", "matched" if semi else "alone"
    before: list[Text] = []
    after: list[Text] = []
    parts: list[exp.Select] = []
    for own, other in alone:
        query = own.alone(other, keys, [a for a, _ in node.keys], semi)
        for asked, when, sign in ((after, "after", ""), (before, "before", "-")):
            asked.append(Text(f"{own.state}_{word}_{when}", f"rows {word}", query))
            parts.append(own.extended(node.schema, asked[-1].name, sign))
        if own.needs_key and not semi:
            unmatched = exp.not_(all_of([is_present(key) for key in own.needs_key]))
            parts.append(own.extended(node.schema, own.changes, "").where(unmatched))
    inner: list[Text] = []
    if not node.kind.left_only:
        inner = [Text(f"{name}_pairs", purpose, pairs)]
        items = [*columns(node.names), exp.column(WEIGHT)]
        parts.insert(0, select(items, relation(inner[0].name)))
    texts = (
        Text(keys, "keys of the batch", exp.union(here.batch_keys(here), there.batch_keys(here))),
        *before,
        here.merge(),
        *inner,
        there.merge(),
        *after,
        Text(changes_of(name), "change", exp.union(*parts, distinct=False)),
    )
    return StageTexts(name, f"{node.kind.value} join", texts, states)


@dataclass(frozen=True)
class _Side:
    """An input of a join: its bag, the relation of its changes, and its key."""

    node: Node
    state: str
    changes: str
    keys: Sequence[str]
    null_safe: Sequence[bool]
    exact: bool

    @property
    def needs_key(self) -> list[str]:
        """The columns in which NULL matches nothing."""
        return [key for key, safe in zip(self.keys, self.null_safe, strict=True) if not safe]

    def merge(self) -> Text:
        present = [is_present(key) for key in self.needs_key]
        delta = consolidated(self.node.schema, self.changes, present).subquery("d")
        return merged_bag(self.state, self.node.schema, delta)

    def matches(self, other: _Side, own: str, others: str) -> exp.Expr:
        """Whether a row of this side matches one of the other."""
        pairs = zip(columns(self.keys, own), columns(other.keys, others), strict=True)
        equal: list[exp.Expr] = [
            (exp.NullSafeEQ if safe else exp.EQ)(this=a, expression=b)
            for (a, b), safe in zip(pairs, self.null_safe, strict=True)
        ]
        floats = [
            place
            for place, key in enumerate(self.keys)
            if self.exact and is_told_by_text(self.node.type_of(key))
        ]
        mine = texts_of([self._key(place) for place in floats], own)
        theirs = texts_of([other._key(place) for place in floats], others)
        for a, b in zip(mine, theirs, strict=True):
            equal.append(exp.NullSafeEQ(this=a, expression=b))
        return all_of(equal)

    def _key(self, place: int) -> Field:
        return Field(self.keys[place], self.node.type_of(self.keys[place]))

    def batch_keys(self, left: _Side) -> exp.Select:
        """The keys of this side in the batch, under the names of the left side."""
        pairs = zip(columns(self.keys), left.keys, strict=True)
        items = [named(key, name) for key, name in pairs] or [parse("1 AS __incr_key")]
        return select(items, relation(self.changes))

    def alone(self, other: _Side, keys: str, names: Sequence[str], semi: bool) -> exp.Select:
        """The rows with a key of the batch that match nothing on the other side, or something."""
        fields = [self._key(place) for place in range(len(self.keys))]
        touched = agree(fields, columns(self.keys, "o"), columns(names, "k"))
        items = [*columns(self.node.names, "o"), exp.column(WEIGHT, "o")]
        return (
            select(items, relation(self.state, "o"))
            .join(relation(keys, "k"), on=touched, join_type="left semi")
            .join(
                relation(other.state, "x"),
                on=self.matches(other, "o", "x"),
                join_type="left semi" if semi else "left anti",
            )
        )

    def extended(self, schema: Schema, source: str, sign: str) -> exp.Select:
        """Rows of this side in the columns of the join."""
        own = set(self.node.names)
        items = [
            columns([f.name])[0]
            if f.name in own
            else named(parse(f"CAST(NULL AS {type_sql(f.type)})"), f.name)
            for f in schema
        ]
        weight = parse(f"-{WEIGHT} AS {WEIGHT}") if sign else exp.column(WEIGHT)
        return select([*items, weight], relation(source))


def _pairs(left: _Side, right: _Side, here: str, there: str) -> exp.Select:
    items = [
        *columns(left.node.names, "l"),
        *columns(right.node.names, "r"),
        parse(f"l.{WEIGHT} * r.{WEIGHT} AS {WEIGHT}"),
    ]
    matches = left.matches(right, "l", "r")
    return select(items, relation(here, "l")).join(relation(there, "r"), on=matches)
