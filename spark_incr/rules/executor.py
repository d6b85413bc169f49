"""Runs packs of rules over a plan.

A rule is a function `rule(node, context) -> node` that is applied to every node, inputs first, or
to the whole plan. A pack is applied once or until nothing changes. After each rule the plan is validated, so a rule
that breaks it is named by the failure. `SPARK_INCR_TRACE=rules` prints each effective rewrite.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from spark_incr.plan.context import Context
from spark_incr.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Limit,
    Node,
    Project,
    UnionAll,
    Window,
    columns_in,
    rewrite,
    walk,
)
from spark_incr.plan.stages import AggregateStage
from spark_incr.plan.types import as_string

_LIMIT = 50


Rule = Callable[[Node, Context], Node]


@dataclass(frozen=True)
class Pack:
    """Rules that belong together, in order; those of a `whole` pack are given the whole plan."""

    name: str
    rules: tuple[Rule, ...]
    once: bool = False
    whole: bool = False


def run_packs(plan: Node, packs: tuple[Pack, ...], context: Context) -> Node:
    """The plan after all packs."""
    for pack in packs:
        for _ in range(1 if pack.once else _LIMIT):
            before = plan
            for rule in pack.rules:
                changed = (
                    rule(plan, context)
                    if pack.whole
                    else rewrite(plan, lambda node, rule=rule: rule(node, context))  # type: ignore[misc]
                )
                if changed != plan:
                    _trace(pack, rule, plan, changed)
                    validate(changed, rule.__name__)
                    if changed.names != plan.names:
                        raise AssertionError(f"{rule.__name__} changed the columns of the result")
                plan = changed
            if plan == before:
                break
    return plan


def validate(plan: Node, rule: str) -> None:
    """Every expression reads columns that its input has, and names are unique in each node."""
    for node in walk(plan):
        if len(set(node.names)) != len(node.names):
            raise AssertionError(f"{rule}: {type(node).__name__} has two columns of one name")
        available = {name for child in node.inputs for name in child.names}
        if missing := _read_by(node) - available:
            raise AssertionError(f"{rule}: {type(node).__name__} lacks {sorted(missing)}")
        if isinstance(node, Join) and any(
            as_string(node.left.type_of(a)) != as_string(node.right.type_of(b))
            for a, b in node.keys
        ):
            raise AssertionError(f"{rule}: join keys differ in type")
        if isinstance(node, UnionAll) and any(
            [f.type for f in child.schema] != [f.type for f in node.schema]
            for child in node.relations
        ):
            raise AssertionError(f"{rule}: union of different types")


def _read_by(node: Node) -> set[str]:
    """The columns that a node reads from its inputs."""
    match node:
        case Project():
            return {name for e in node.expressions for name in columns_in(e)}
        case Filter():
            return columns_in(node.condition)
        case Generate():
            return columns_in(node.generator) | (set(node.names) - set(node.made))
        case Window():
            made = {name for name, _ in node.functions}
            read = {name for _, w in node.functions for name in columns_in(w)}
            return read | set(node.keys) | (set(node.names) - made)
        case Limit():
            return {*node.keys, *(k.column for k in node.order), *node.names}
        case Join():
            where = set() if node.where is None else columns_in(node.where)
            return where.union(*node.keys)
        case Aggregate():
            conditions = {c.condition for c in node.calls if c.condition}
            return {*node.keys, *(a for c in node.calls for a in c.arguments), *conditions}
        case AggregateStage():
            read = {*node.keys, *(v for m in node.multisets for v in m.values)}
            read |= {m.condition for m in node.multisets if m.condition}
            return read | {n for a in node.accumulators for n in (*a.terms, *a.present)}
    return set()


def _trace(pack: Pack, rule: Rule, before: Node, after: Node) -> None:
    if "rules" not in os.environ.get("SPARK_INCR_TRACE", ""):
        return
    from spark_incr.plan.explain import explain_plan

    left, right = explain_plan(before).splitlines(), explain_plan(after).splitlines()
    width = max(map(len, left), default=0)
    print(f"--- {pack.name}: {rule.__name__}", file=sys.stderr)
    for i in range(max(len(left), len(right))):
        a = left[i] if i < len(left) else ""
        b = right[i] if i < len(right) else ""
        print(f"{a:<{width}} {'|' if a == b else '!'} {b}", file=sys.stderr)
