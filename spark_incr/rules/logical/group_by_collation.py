"""γ(x; f)(R) = π(x := any_value(x), f)(γ(key(x); any_value(x), f)(R)), where x has a collation.

Before any other rule: what reads the shown string must not be moved to where there are others.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_incr.plan.aggregates import AFFECTED
from spark_incr.plan.collations import with_keys
from spark_incr.plan.context import Context
from spark_incr.plan.nodes import Aggregate, Call, Node, Project, column
from spark_incr.plan.types import Field


def group_by_collation(node: Node, context: Context) -> Node:
    if not isinstance(node, Aggregate) or node.exact:
        return node
    below, keys = with_keys(node.input, node.keys, context)
    if not keys:
        return node
    affected = any(call.function == AFFECTED for call in node.calls)
    shown = {name: _shown(name, below, affected, context) for name in keys}
    grouped = tuple(keys.get(name, name) for name in node.keys)
    calls = (*node.calls, *shown.values())
    schema = (
        *(Field(name, below.type_of(name)) for name in grouped),
        *(Field(call.name, call.type) for call in calls),
    )
    groups = replace(node, schema=schema, input=below, keys=grouped, calls=calls)
    values = tuple(column(shown[n].name if n in shown else n) for n in node.names)
    return Project(node.schema, groups, values)


def _shown(name: str, node: Node, affected: bool, context: Context) -> Call:
    call = Call(context.names.fresh(name), "any_value", (name,), node.type_of(name))
    if not affected:
        return replace(call, parameters=(False,))
    return replace(call, function=AFFECTED, expression=exp.AnyValue(this=column(name)))
