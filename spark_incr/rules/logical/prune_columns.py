"""Below a node, only the columns that it reads are kept.

    πa(R) = πa(πb(R))     where b holds every column that a reads

State holds what its stage reads and nothing else. A node that several others read keeps what any of
them reads and stays one node, so this looks at the whole plan, readers first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spark_incr.plan.context import Context
from spark_incr.plan.joins import only
from spark_incr.plan.nodes import (
    Aggregate,
    AtMostOne,
    Filter,
    Generate,
    Join,
    Limit,
    Node,
    Project,
    Repeat,
    Scan,
    UnionAll,
    Window,
    columns_in,
    walk,
)

_EXACT = (Join, Limit, Window, Repeat, UnionAll)


def prune_columns(plan: Node, context: Context) -> Node:
    nodes = {id(node): node for node in walk(plan)}
    wanted: dict[int, set[str]] = {number: set() for number in nodes}
    wanted[id(plan)] = set(plan.names)
    for number, node in reversed(nodes.items()):
        for child, names in zip(node.inputs, _reads(node, wanted[number]), strict=True):
            wanted[id(child)] |= names
    done: dict[int, Node] = {}
    for number, node in nodes.items():
        reads = _reads(node, wanted[number])
        inputs = [
            _input(node, done[id(child)], tuple(n for n in child.names if n in names))
            for child, names in zip(node.inputs, reads, strict=True)
        ]
        done[number] = _pruned(node, wanted[number], inputs)
    return only(done[id(plan)], plan.names)


def _reads(node: Node, wanted: set[str]) -> list[set[str]]:
    """The columns of each input that a node reads if these are wanted of its own."""
    match node:
        case Project():
            pairs = zip(node.names, node.expressions, strict=True)
            return [{c for name, e in pairs if name in wanted for c in columns_in(e)}]
        case Filter():
            return [wanted | columns_in(node.condition)]
        case Join():
            return [
                (wanted | {pair[side] for pair in node.keys}) & set(child.names)
                for side, child in enumerate(node.inputs)
            ]
        case AtMostOne():
            return [wanted | {node.count}]
        case Limit():
            return [wanted | {*node.keys, *(key.column for key in node.order)}]
        case Generate():
            return [(wanted - set(node.made)) | columns_in(node.generator)]
        case Window():
            made = {name for name, _ in node.functions}
            read = [columns_in(w) for name, w in node.functions if name in wanted]
            return [(wanted - made).union(node.keys, *read)]
        case Repeat():
            return [wanted | {node.times}]
        case UnionAll():
            places = [place for place, name in enumerate(node.names) if name in wanted]
            return [{child.names[place] for place in places} for child in node.inputs]
        case Aggregate():
            calls = [c for c in node.calls if c.name in wanted]
            conditions = {c.condition for c in calls if c.condition}
            return [{*node.keys, *(a for c in calls for a in c.arguments), *conditions}]
    return [set(child.names) for child in node.inputs]


def _input(node: Node, child: Node, names: tuple[str, ...]) -> Node:
    """What a node reads of an input that may have more: no other column, if it keeps or pairs rows."""
    return only(child, names) if isinstance(node, _EXACT) else child


def _pruned(node: Node, wanted: set[str], inputs: Sequence[Node]) -> Node:
    """The node over other inputs, with the wanted columns at least."""
    if isinstance(node, Scan):
        kept = [(f, c) for f, c in zip(node.schema, node.columns, strict=True) if f.name in wanted]
        schema, columns = tuple(f for f, _ in kept), tuple(c for _, c in kept)
        return node if schema == node.schema else replace(node, schema=schema, columns=columns)
    if not inputs:
        return node
    if isinstance(node, Project):
        pairs = zip(node.schema, node.expressions, strict=True)
        chosen = [(f, e) for f, e in pairs if f.name in wanted]
        schema = tuple(f for f, _ in chosen)
        return Project(schema, inputs[0], tuple(e for _, e in chosen))
    if isinstance(node, (Filter, AtMostOne, Limit)):
        return replace(node, schema=inputs[0].schema, input=inputs[0])
    if isinstance(node, Join):
        schema = inputs[0].schema if node.kind.left_only else inputs[0].schema + inputs[1].schema
        return replace(node, schema=schema, left=inputs[0], right=inputs[1])
    if isinstance(node, Generate):
        fields = tuple(f for f in node.schema if f.name in wanted or f.name in node.made)
        return replace(node, schema=fields, input=inputs[0])
    if isinstance(node, Window):
        functions = tuple((n, w) for n, w in node.functions if n in wanted)
        if not functions:
            return inputs[0]
        made = tuple(f for f in node.schema if f.name in {n for n, _ in functions})
        return Window((*inputs[0].schema, *made), inputs[0], node.keys, functions)
    if isinstance(node, Repeat):
        schema = tuple(f for f in inputs[0].schema if f.name != node.times)
        return replace(node, schema=schema, input=inputs[0])
    if isinstance(node, UnionAll):
        return UnionAll(tuple(f for f in node.schema if f.name in wanted), tuple(inputs))
    if isinstance(node, Aggregate):
        schema = tuple(f for f in node.schema if f.name in wanted or f.name in node.keys)
        calls = tuple(c for c in node.calls if c.name in wanted)
        return replace(node, schema=schema, calls=calls, input=inputs[0])
    return node.with_inputs(tuple(inputs))
