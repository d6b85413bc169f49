"""Operators that are asked again for what a batch touches, as SQL.

A rederived query runs on the rows of the keys of the batch; its change is what it gives minus what
it gave, which is kept in `rN_results`. A limit is asked before and after the merge of its rows, and so
is a function of tables, for the rows of the keys of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from spark_incr.plan.change_texts import (
    ANSWER,
    REDERIVED,
    WEIGHT,
    StageTexts,
    Text,
    bag_state,
    changes_of,
    columns,
    consolidated,
    difference,
    merged_bag,
    named,
    parse,
    relation,
    same,
    select,
    verbatim,
)
from spark_incr.plan.nodes import RELATION, Limit, Reapply, Recompute, Rederive
from spark_incr.plan.types import Field, Schema
from spark_incr.sql.dialect import quoted


def rederive_texts(node: Rederive, name: str, changes: str) -> StageTexts:
    """The texts of a query that is run anew for the keys of a batch."""
    rows, results, touched = f"{name}_rows", f"{name}_results", f"{name}_touched"
    keys = select(columns(node.keys), relation(changes)).distinct()
    before = select([*columns(node.names, "o"), exp.column(WEIGHT, "o")], relation(results, "o"))
    copies = select(columns(node.input.names, "o"), _copies(node.input.schema, rows).subquery("o"))
    key_texts = []
    if node.keys:
        key_texts = [Text(f"{name}_keys", "keys of the batch", keys)]
        on = same([Field(key, node.input.type_of(key)) for key in node.keys], "o", "k")
        before = before.join(relation(f"{name}_keys", "k"), on=on, join_type="left semi")
        copies = copies.join(relation(f"{name}_keys", "k"), on=on.copy(), join_type="left semi")
    answer = f"{name}_answer"
    change = exp.union(
        select([*columns(node.names), parse(f"1 AS {WEIGHT}")], relation(answer)),
        select([*columns(node.names), parse(f"-{WEIGHT} AS {WEIGHT}")], before.subquery("b")),
        distinct=False,
    )
    delta = consolidated(node.schema, changes_of(name), ()).subquery("d")
    texts = (
        *key_texts,
        merged_bag(
            rows, node.input.schema, consolidated(node.input.schema, changes, ()).subquery("d")
        ),
        Text(touched, "rows of the keys of the batch", copies),
        Text(answer, REDERIVED, over(node.query, {RELATION: touched})),
        Text(changes_of(name), "change", change),
        merged_bag(results, node.schema, delta),
    )
    states = (bag_state(rows, node.input.schema), bag_state(results, node.schema))
    return StageTexts(name, f"{node.reason} by {', '.join(node.keys) or 'nothing'}", texts, states)


def reapply_texts(node: Reapply, name: str, changes: str) -> StageTexts:
    """The texts of a function of tables, asked for the keys of a batch."""
    rows, keys = f"{name}_rows", f"{name}_keys"
    on = same([Field(key, node.input.type_of(key)) for key in node.keys], "o", "k")
    touched = select(
        columns(node.input.names, "o"), _copies(node.input.schema, rows).subquery("o")
    ).join(relation(keys, "k"), on=on, join_type="left semi")
    asked = {
        when: (
            Text(f"{name}_touched_{when}", "rows of the keys of the batch", touched.copy()),
            Text(
                f"{name}_{when}", REDERIVED, over(node.query, {RELATION: f"{name}_touched_{when}"})
            ),
        )
        for when in ("before", "after")
    }
    delta = consolidated(node.input.schema, changes, ()).subquery("d")
    texts = (
        Text(keys, "keys of the batch", select(columns(node.keys), relation(changes)).distinct()),
        *asked["before"],
        merged_bag(rows, node.input.schema, delta),
        *asked["after"],
        difference(name, node.names),
    )
    title = f"{node.reason} by {', '.join(node.keys)}"
    return StageTexts(name, title, texts, (bag_state(rows, node.input.schema),))


def limit_texts(node: Limit, name: str, changes: str) -> StageTexts:
    """The texts of the first rows in an order."""
    rows = f"{name}_rows"
    if node.keys:
        return _keyed_limit_texts(node, name, changes)
    answer = select(columns(node.names), _copies(node.schema, rows).subquery("copies"))
    for key in node.order:
        (column,) = columns([key.column])
        order = exp.Ordered(this=column, desc=key.descending, nulls_first=key.nulls_first)
        answer = answer.order_by(order)
    answer = answer.order_by(*columns(node.names))
    if node.limit is not None:
        answer = answer.limit(node.limit)
    if node.offset:
        answer = answer.offset(node.offset)
    texts = (
        Text(f"{name}_before", ANSWER, answer),
        merged_bag(rows, node.schema, consolidated(node.schema, changes, ()).subquery("d")),
        Text(f"{name}_after", ANSWER, answer),
        difference(name, node.names),
    )
    return StageTexts(name, "first rows", texts, (bag_state(rows, node.schema),))


def _keyed_limit_texts(node: Limit, name: str, changes: str) -> StageTexts:
    """The first rows of each key: those whose number in the order is in the range."""
    rows, place = f"{name}_rows", "__incr_place"
    order = [
        exp.Ordered(this=columns([k.column])[0], desc=k.descending, nulls_first=k.nulls_first)
        for k in node.order
    ]
    window = exp.Window(
        this=exp.RowNumber(),
        partition_by=columns(node.keys),
        order=exp.Order(expressions=[*order, *columns(node.names)]),
    )
    numbered = select(
        [*columns(node.names), exp.alias_(window, place)],
        _copies(node.schema, rows).subquery("copies"),
    )
    answer = select(columns(node.names), numbered.subquery("numbered"))
    answer = answer.where(parse(f"{place} > {node.offset}"))
    if node.limit is not None:
        answer = answer.where(parse(f"{place} <= {node.offset + node.limit}"))
    texts = (
        Text(f"{name}_before", ANSWER, answer),
        merged_bag(rows, node.schema, consolidated(node.schema, changes, ()).subquery("d")),
        Text(f"{name}_after", ANSWER, answer),
        difference(name, node.names),
    )
    title = f"first rows by {', '.join(node.keys)}"
    return StageTexts(name, title, texts, (bag_state(rows, node.schema),))


def recompute_texts(node: Recompute, name: str, inputs: Sequence[str]) -> StageTexts:
    """The texts of a query that is run anew over all rows that it reads."""
    texts: list[Text] = []
    states = []
    written, sources = node.query, []
    for i, (source, changes) in enumerate(zip(node.sources, inputs, strict=True)):
        rows, copies = f"{name}_rows_{i}", f"{name}_source_{i}"
        delta = consolidated(source.schema, changes, ()).subquery("d")
        texts.append(merged_bag(rows, source.schema, delta))
        relation_name, names = node.relations[i]
        items = [named(c, n) for c, n in zip(columns(source.names), names, strict=True)]
        query = select(items, _copies(source.schema, rows).subquery("copies"))
        texts.append(Text(copies, "rows that the query reads", query))
        states.append(bag_state(rows, source.schema))
        sources.append(copies)
        written = written.replace(quoted(relation_name), quoted(copies))
    results, answer = f"{name}_results", f"{name}_answer"
    change = exp.union(
        select([*columns(node.names), parse(f"1 AS {WEIGHT}")], relation(answer)),
        select([*columns(node.names), parse(f"-{WEIGHT} AS {WEIGHT}")], relation(results)),
        distinct=False,
    )
    delta = consolidated(node.schema, changes_of(name), ()).subquery("d")
    texts += [
        Text(
            answer,
            REDERIVED,
            select(columns(node.names), verbatim(written, "a", node.names)),
            tuple(sources),
        ),
        Text(changes_of(name), "change", change),
        merged_bag(results, node.schema, delta),
    ]
    states.append(bag_state(results, node.schema))
    return StageTexts(name, f"{node.reason}, over all rows", tuple(texts), tuple(states))


def over(query: exp.Expr, sources: Mapping[str, str]) -> exp.Query:
    """A query over relations of the runtime as one over relations of the texts."""
    query = query.copy()
    assert isinstance(query, exp.Query)
    for table in query.find_all(exp.Table):
        if table.name in sources:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
            table.set("this", exp.to_identifier(sources[table.name], quoted=True))
    return query


def _copies(schema: Schema, bag: str) -> exp.Select:
    """The rows of a bag, each as often as its weight says."""
    names = [f.name for f in schema]
    copy = parse(f"EXPLODE(ARRAY_REPEAT(1, CAST({WEIGHT} AS INT))) AS __incr_copy")
    return select([*columns(names), copy], relation(bag))
