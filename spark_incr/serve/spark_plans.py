"""Walks over plans of Spark's, which live in the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def items(sequence: Any) -> list[Any]:
    """The elements of a sequence of Scala's."""
    return [sequence.apply(i) for i in range(sequence.size())]


def nodes(plan: Any) -> Iterator[Any]:
    """A plan and all plans below it, those of subqueries too."""
    yield plan
    for inner in (*items(plan.children()), *items(plan.subqueries())):
        yield from nodes(inner)


def expressions(plan: Any) -> Iterator[Any]:
    """All expressions of a plan and of what is below it, with their parts."""
    open_ = [expression for node in nodes(plan) for expression in items(node.expressions())]
    while open_:
        expression = open_.pop()
        yield expression
        open_ += items(expression.children())
