"""Histories: batches that change tables, and the queries over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyspark.sql.types as T

from spark_incr.plan.types import Field, Schema
from tests.grammar.queries import queries, whole
from tests.grammar.values import ATOMIC, MAP, NESTED, pool

Row = tuple[Any, ...]
Batch = dict[str, dict[str, list[Row]]]


@dataclass(frozen=True)
class Example:
    """Tables, a query over them, and the batches that change them."""

    tables: Mapping[str, Schema]
    query: str
    batches: Sequence[Batch]
    unordered: tuple[str, ...]


def examples(random: Random, count: int, functions: bool) -> list[Example]:
    """Examples over the same tables and batches, which a source of random numbers determines."""
    tables = {f"t{i}": _schema(random) for i in range(random.choice([1, 1, 2, 2, 3]))}
    batches = history(random, tables)
    draw = queries(random, tables, functions)
    result = []
    for _ in range(count):
        query = whole(draw)
        unordered = tuple(c.text for c in query.columns if c.kind == "bag")
        result.append(Example(tables, query.text, batches, unordered))
    return result


def _schema(random: Random) -> Schema:
    types = random.choices(ATOMIC, k=random.randint(2, 5))
    if random.randrange(3) == 0:
        types[-1] = random.choice([*NESTED, MAP])
    return tuple(Field(f"c{i}", t) for i, t in enumerate(types))


def _value(random: Random, type_: T.DataType, extreme: bool) -> Any:
    return random.choice([None, *pool(type_, extreme)])


def history(random: Random, tables: Mapping[str, Schema]) -> list[Batch]:
    """Batches that can be applied one after the other."""
    extreme = random.randrange(15) == 0
    rows: dict[str, list[Row]] = {name: [] for name in tables}
    batches: list[Batch] = []
    kinds = ["change", "change", "change", "update", "undo", "empty", "clear"]
    for number in range(random.randint(2, 4)):
        kind = "change" if number == 0 else random.choice(kinds)
        batch: Batch = {}
        if kind == "undo":
            for name, sides in batches[-1].items():
                batch[name] = {"insert": list(sides["delete"]), "delete": list(sides["insert"])}
        elif kind != "empty":
            for name, schema in tables.items():
                if random.randrange(5):
                    size = 0 if kind == "clear" else 12 if number == 0 else 4
                    batch[name] = _change(random, schema, rows[name], kind, size, extreme)
        for name, sides in batch.items():
            for row in sides["delete"]:
                del rows[name][[repr(r) for r in rows[name]].index(repr(row))]
            rows[name] += sides["insert"]
        batches.append(batch)
    return batches


def _change(
    random: Random, schema: Schema, rows: list[Row], kind: str, size: int, extreme: bool
) -> dict[str, list[Row]]:
    count = len(rows) if kind == "clear" else min(len(rows), random.randrange(5))
    delete = random.sample(rows, count)
    if kind == "update":
        # One column of each deleted row changes.
        at = random.randrange(len(schema))
        other = _value(random, schema[at].type, extreme)
        return {"insert": [(*r[:at], other, *r[at + 1 :]) for r in delete], "delete": delete}
    insert = [
        tuple(_value(random, f.type, extreme) for f in schema)
        for _ in range(random.randint(0, size))
    ]
    if insert and random.randrange(2):
        insert += [insert[0]] * random.randint(1, 3)
    return {"insert": insert, "delete": delete}
