"""INTERSECT and EXCEPT, with and without ALL, by counting.

With l(r) and q(r) how often a row stands on the left and on the right, the result has the row

    INTERSECT ALL  min(l, q) times         INTERSECT  once if l > 0 and q > 0
    EXCEPT ALL     max(l - q, 0) times     EXCEPT     once if l > 0 and q = 0

Counting compares rows as grouping does, NULL with NULL, which is what SQL asks for here.
"""

from __future__ import annotations

import pyspark.sql.types as T
from sqlglot import exp, parse_one

from spark_incr.plan.context import Context
from spark_incr.plan.nodes import Aggregate, Call, Node, Project, Repeat, UnionAll, column
from spark_incr.plan.types import Field, Schema

_TIMES = {
    (True, False): "LEAST({l}, {q})",
    (True, True): "CASE WHEN {l} > 0 AND {q} > 0 THEN 1L ELSE 0L END",
    (False, False): "GREATEST({l} - {q}, 0L)",
    (False, True): "CASE WHEN {l} > 0 AND {q} = 0 THEN 1L ELSE 0L END",
}


def compare_bags(
    sides: tuple[Node, Node], schema: Schema, intersect: bool, distinct: bool, context: Context
) -> Node:
    """INTERSECT or EXCEPT of two relations of the same types."""
    bigint = T.LongType()
    marks = [Field(context.names.fresh(f"on_{side}"), bigint) for side in ("left", "right")]
    inputs: list[Node] = []
    for own, node in enumerate(sides):
        flags = tuple(
            parse_one("1L" if own == i else "CAST(NULL AS BIGINT)", read="spark") for i in (0, 1)
        )
        columns = tuple(column(name) for name in node.names)
        inputs.append(Project((*node.schema, *_renamed(marks, context)), node, (*columns, *flags)))
    both = UnionAll((*schema, *marks), tuple(inputs))
    counts = [
        Call(context.names.fresh(f"count_{mark.name}"), "count", (mark.name,), bigint)
        for mark in marks
    ]
    keys = tuple(f.name for f in schema)
    counted = Aggregate(
        (*schema, *(Field(c.name, bigint) for c in counts)), both, keys, tuple(counts)
    )
    times = Field(context.names.fresh("times"), bigint)
    names = {"l": f"`{counts[0].name}`", "q": f"`{counts[1].name}`"}
    text = _TIMES[intersect, distinct].format(**names)
    expressions: tuple[exp.Expr, ...] = (
        *(column(name) for name in keys),
        parse_one(text, read="spark"),
    )
    return Repeat(schema, Project((*schema, times), counted, expressions), times.name)


def _renamed(fields: list[Field], context: Context) -> list[Field]:
    return [Field(context.names.fresh(f.name), f.type) for f in fields]
