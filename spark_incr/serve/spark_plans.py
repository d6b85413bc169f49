"""Walks over plans of Spark's, which live in the JVM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from spark_incr.plan.functions import UNSTABLE, means_a_day
from spark_incr.serve.settings import having
from spark_incr.sql.names import join_name

# What makes a time of a day: functions, casts, and literals, of which the plan has the value alone.
_TIME = re.compile(r"_time\(| as time\(|cast\(\d\d:\d\d:\d\d")
_TO_TIMESTAMP = re.compile(r" as \S*timestamp")
# Spark shows the first 25 columns of a node, unless it is told otherwise.
_IN_FULL = dict.fromkeys(
    ("spark.sql.debug.maxToStringFields", "spark.sql.maxPlanStringLength"), str(2**31 - 16)
)
_COMMANDS = tuple(
    f"org.apache.spark.sql.catalyst.plans.logical.{kind}" for kind in ("Command", "ParsedStatement")
)
# These are called otherwise, in some versions of Spark at least.
_SCRIPTS = ("Call", "CompoundBody", "ExecuteImmediateQuery", "UnresolvedExecuteImmediate")
_ANY_ROW = ("first", "first_value", "last", "last_value", "any_value")


def items(sequence: Any) -> list[Any]:
    """The elements of a sequence of Scala's."""
    return [sequence.apply(i) for i in range(sequence.size())]


def nodes(plan: Any, within_views: bool = True) -> Iterator[Any]:
    """A plan and all plans below it, those of subqueries too."""
    yield plan
    if plan.nodeName() == "View" and not within_views:
        return
    for inner in (*items(plan.children()), *items(plan.subqueries())):
        yield from nodes(inner, within_views)


def is_query(spark: SparkSession, text: str) -> bool:
    """Whether a text, or else Spark's error about it, is a query and neither a command nor a script."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    plan = session.sessionState().sqlParser().parsePlan(text)
    kinds = [jvm.java.lang.Class.forName(name) for name in _COMMANDS]
    return not any(
        node.nodeName() in _SCRIPTS or any(kind.isInstance(node) for kind in kinds)
        for node in nodes(plan)
    )


def havings_below_windows(plan: Any) -> int:
    """How many SELECTs with GROUPING SETS have their windows over the groups that HAVING leaves."""
    return sum(
        _is_over_sets(_below_projects(filtered.child()))
        for node in nodes(plan, within_views=False)
        if node.nodeName() == "Window"
        and (filtered := _below_projects(node.child())).nodeName() == "Filter"
    )


def _below_projects(plan: Any) -> Any:
    while plan.nodeName() == "Project":
        plan = plan.child()
    return plan


def _is_over_sets(plan: Any) -> bool:
    return bool(plan.nodeName() == "Aggregate" and plan.child().nodeName() == "Expand")


def with_comparable_rows(plan: Any, jvm: Any) -> Any:
    """The plan with the rows of VALUES as bytes where they hold maps, of which Spark compares no other
    form. Those of subqueries in expressions stay as they are."""
    if not any(_holds_maps(leaf) for leaf in items(plan.collectLeaves())):
        return plan
    to_sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    if _holds_maps(plan):
        rows = to_sequence(rows_in_bytes(plan, jvm))
        return plan.copy(plan.output(), rows, plan.isStreaming(), plan.stream())
    children = [with_comparable_rows(child, jvm) for child in items(plan.children())]
    return plan.withNewChildren(to_sequence(children))


def rows_in_bytes(values: Any, jvm: Any) -> list[Any]:
    """The rows of VALUES in the form in which Spark compares all of them."""
    module = getattr(jvm.org.apache.spark.sql.catalyst.expressions, "UnsafeProjection$")
    in_bytes = getattr(module, "MODULE$").create(values.schema())
    return [in_bytes.apply(row).copy() for row in items(values.data())]


def _holds_maps(leaf: Any) -> bool:
    return leaf.nodeName() == "LocalRelation" and '"type":"map"' in str(leaf.schema().json())


def names_in(frame: Any) -> Iterator[str]:
    """The tables and views that the query of a frame reads."""
    for node in nodes(frame._jdf.queryExecution().analyzed()):
        if node.nodeName() == "View":
            yield join_name(items(node.desc().identifier().nameParts()))
        elif node.nodeName() == "SubqueryAlias" and not node.identifier().qualifier().isEmpty():
            yield join_name((*items(node.identifier().qualifier()), node.identifier().name()))


def unstable_in(plan: Any) -> Iterator[str]:
    """What a plan holds that gives other rows each time, as far as Spark knows.

    Lists whose order is free are none of it, and neither is the first row of a window.
    """
    for node in nodes(plan):
        if node.nodeName() == "Sample":
            yield "TABLESAMPLE"
    found = list(expressions(plan))
    windowed = {
        e.windowFunction().sql()
        for e in found
        if e.getClass().getSimpleName() == "WindowExpression"
    }
    for expression in found:
        kind, name = expression.getClass().getSimpleName(), expression.prettyName()
        if kind == "AggregateExpression" and expression.sql() not in windowed:
            if expression.aggregateFunction().prettyName() in _ANY_ROW:
                yield expression.sql()
        elif (
            _is_of_today(expression)
            or name in UNSTABLE
            or (
                not expression.deterministic()
                and all(child.deterministic() for child in items(expression.children()))
                and ".aggregate." not in expression.getClass().getName()
            )
        ):
            yield expression.sql()


def variables_in(plan: Any) -> Iterator[str]:
    """The variables of the session that a plan reads."""
    for expression in expressions(plan):
        if expression.getClass().getSimpleName() == "VariableReference":
            yield join_name(items(expression.originalNameParts()))


def read_clock_in(frame: Any) -> Iterator[str]:
    """The casts in the query of a frame that give another time each day.

    They are of texts that mean a day, such as 'today', where Spark knows the text when it plans, and of
    times of a day, which are put into the current one. To look at every expression is slow, so it is
    done only if Spark's own rule finds such a text, or if the plan speaks of such times.
    """
    spark = frame.sparkSession
    optimizer = spark._jvm.org.apache.spark.sql.catalyst.optimizer
    plain, by_day = (
        getattr(getattr(optimizer, f"{rule}$"), "MODULE$")
        for rule in ("ReplaceExpressions", "SpecialDatetimeValues")
    )
    plan = frame._jdf.queryExecution().analyzed()
    for part in (plan, *items(plan.subqueriesAll())):
        casts = plain.apply(part)
        if not by_day.apply(casts).fastEquals(casts):
            yield from (e.sql() for e in expressions(casts) if _is_of_a_day(e))
    with having(spark, _IN_FULL):
        text = str(plan.toString())
    if not _TO_TIMESTAMP.search(text):
        return
    leaves = [node for node in nodes(plan) if node.children().isEmpty()]
    if _TIME.search(text) or any('"time(' in str(leaf.schema().json()) for leaf in leaves):
        yield from (e.sql() for e in expressions(plan) if _is_of_today(e))


def _is_of_a_day(expression: Any) -> bool:
    if str(expression.getClass().getSimpleName()) != "Cast":
        return False
    source, target = (kind.catalogString() for kind in _kinds(expression))
    if not source.startswith("string") or not target.startswith(("date", "timestamp")):
        return False
    text = expression.child()
    return bool(text.foldable()) and means_a_day(str(text.eval(None)))


def _is_of_today(expression: Any) -> bool:
    if str(expression.getClass().getSimpleName()) != "Cast":
        return False
    source, target = (str(kind.catalogString()) for kind in _kinds(expression))
    return "time(" in source and "timestamp" in target


def _kinds(cast: Any) -> tuple[Any, Any]:
    return cast.child().dataType(), cast.dataType()


def expressions(plan: Any) -> Iterator[Any]:
    """All expressions of a plan and of what is below it, with their parts."""
    open_ = [expression for node in nodes(plan) for expression in items(node.expressions())]
    while open_:
        expression = open_.pop()
        yield expression
        open_ += items(expression.children())
