"""Where a query names relations, told by Spark's own parser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from spark_incr.errors import error
from spark_incr.plan.context import Read
from spark_incr.plan.scope import spelled
from spark_incr.serve.spark_plans import items


def relations_in(spark: SparkSession, text: str) -> list[Read]:
    """The places that name a relation which is no CTE, in order."""
    session: Any = spark._jsparkSession
    plan = session.sessionState().sqlParser().parsePlan(text)
    return sorted(set(_reads(spark, text, plan, frozenset())), key=lambda read: read.start)


def _reads(spark: SparkSession, text: str, plan: Any, ctes: frozenset[str]) -> Iterator[Read]:
    kind = plan.nodeName()
    if kind == "UnresolvedWith":
        for definition in items(plan.innerChildren()):
            own = frozenset([spelled(definition.alias())])
            yield from _reads(
                spark, text, definition, ctes | own if plan.allowRecursion() else ctes
            )
            ctes |= own
        yield from _reads(spark, text, plan.child(), ctes)
        return
    if kind == "RelationTimeTravel":
        hint = "A view follows what it reads; read the version that you want by a query."
        raise error("INCR_UNSUPPORTED", what="an older version of a relation", hint=hint)
    if kind in ("UnresolvedRelation", "PlanWithUnresolvedIdentifier"):
        start, stop = plan.origin().startIndex().get(), plan.origin().stopIndex().get() + 1
        if kind == "UnresolvedRelation":
            parts = tuple(items(plan.multipartIdentifier()))
        else:
            parts = _identified(spark, text[start:stop])
        hidden = spelled(parts[-1]) in ctes
        if not hidden or len(parts) > 1:
            yield Read(start, stop, parts, hidden)
        return
    for below in (*items(plan.children()), *items(plan.innerChildren())):
        yield from _reads(spark, text, below, ctes)


def _identified(spark: SparkSession, call: str) -> tuple[str, ...]:
    """The name that IDENTIFIER(...) says."""
    value = call[call.index("(") : call.rindex(")") + 1]
    (row,) = spark.sql(f"SELECT {value}").collect()
    session: Any = spark._jsparkSession
    return tuple(items(session.sessionState().sqlParser().parseMultipartIdentifier(row[0])))
