"""Where the boxes of a graph stand, and how its edges run.

Boxes stand in layers, each after all that it reads and as near to its readers as that allows. An
edge over several layers goes through a lane of its own in each layer between, so that edges turn
in the gaps between layers alone and never pass behind a box. Across a layer, boxes and lanes have
the order that crosses the fewest edges, and stand as near to their neighbours as their widths
allow.

Directions are *along*, that of the edges, and *across*.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GAP = 34  # between boxes, and the least between layers
_LANE_GAP, _LANE = 20, 2  # beside a lane, and its width
_STEEPEST, _WIDEST_GAP = 0.12, 96  # a gap grows with the longest way across it, up to a limit
_PORT = 24  # between the ends of edges at a box
_ROUNDS = 12

Spot = tuple[float, float]  # across, along


@dataclass(frozen=True)
class Node:
    """A box of the graph, its size, and the keys of what it reads."""

    key: str
    inputs: tuple[str, ...]
    across: float
    along: float


@dataclass(frozen=True)
class Layout:
    """Corners of boxes; for each edge, by reader and number of the input, its straight pieces.

    The size is that of all of it, which begins at 0.
    """

    corners: Mapping[str, Spot]
    routes: Mapping[tuple[str, int], Sequence[tuple[Spot, Spot]]]
    size: Spot


@dataclass(frozen=True)
class _Graph:
    """Boxes, and a lane `(key, layer)` for each layer that edges of a box pass."""

    layers: list[list[_Key]]
    inputs: dict[_Key, tuple[_Key, ...]]
    readers: dict[_Key, list[_Key]]


_Key = str | tuple[str, int]


def laid_out(nodes: Sequence[Node]) -> Layout:
    """Lay a graph out; nodes come after what they read."""
    boxes = {node.key: node for node in nodes}
    depth = _depths(nodes)
    graph = _with_lanes(nodes, depth)
    layers = _ordered(graph)
    widths = {key: boxes[key].across if isinstance(key, str) else _LANE for key in graph.inputs}
    middles = _middles(graph, layers, widths)
    starts, ends = _along(graph, layers, middles, boxes)
    corners = {
        key: (middles[key] - box.across / 2, starts[depth[key]]) for key, box in boxes.items()
    }
    routes = {}
    for node in nodes:
        ports = _ports(middles[node.key], node.across, [middles[k] for k in graph.inputs[node.key]])
        for number, key in enumerate(node.inputs):
            box, layer = boxes[key], depth[key]
            first = starts[layer] + box.along
            pieces = [((middles[key], first), (middles[key], ends[layer]))]
            for passed in range(layer + 1, depth[node.key]):
                lane = middles[key, passed]
                pieces.append(((lane, starts[passed]), (lane, ends[passed])))
            port = (ports[number], starts[depth[node.key]])
            routes[node.key, number] = [*pieces, (port, port)]
    across = max((middles[key] + width / 2 for key, width in widths.items()), default=0)
    return Layout(corners, routes, (across, ends[-1] if ends else 0))


def _depths(nodes: Sequence[Node]) -> dict[str, int]:
    """The layer of each box: after its inputs, and right before the first of its readers."""
    depth: dict[str, int] = {}
    for node in nodes:
        depth[node.key] = max((depth[key] + 1 for key in node.inputs), default=0)
    limits: dict[str, int] = {}
    for node in reversed(nodes):
        depth[node.key] = limits.get(node.key, depth[node.key])
        for key in node.inputs:
            limits[key] = min(limits.get(key, depth[node.key] - 1), depth[node.key] - 1)
    return depth


def _with_lanes(nodes: Sequence[Node], depth: Mapping[str, int]) -> _Graph:
    inputs: dict[_Key, tuple[_Key, ...]] = {node.key: () for node in nodes}
    for node in nodes:
        near: list[_Key] = []
        for key in node.inputs:
            chain: list[_Key] = [key]
            for layer in range(depth[key] + 1, depth[node.key]):
                inputs[key, layer] = (chain[-1],)
                chain.append((key, layer))
            near.append(chain[-1])
        inputs[node.key] = tuple(near)
    readers: dict[_Key, list[_Key]] = {key: [] for key in inputs}
    for reader, read in inputs.items():
        for other in read:
            readers[other].append(reader)
    layers: list[list[_Key]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    # Inputs from left to right below the boxes that nobody reads: a tree has no crossing then.
    seen: set[_Key] = set()
    stack: list[_Key] = [node.key for node in reversed(nodes) if not readers[node.key]]
    while stack:
        found = stack.pop()
        if found not in seen:
            seen.add(found)
            layers[depth[found] if isinstance(found, str) else found[1]].append(found)
            stack.extend(reversed(inputs[found]))
    return _Graph(layers, inputs, readers)


def _ordered(graph: _Graph) -> list[list[_Key]]:
    """Each layer by the middle of its neighbours, forth and back; the best of all that was seen."""
    best, fewest = graph.layers, _crossings(graph, graph.layers)
    layers = [list(layer) for layer in graph.layers]
    for round_ in range(_ROUNDS):
        if not fewest:
            break
        neighbours: Mapping[_Key, Sequence[_Key]] = (
            graph.inputs if round_ % 2 == 0 else graph.readers
        )
        rank = {key: i for layer in layers for i, key in enumerate(layer)}
        for layer in layers if round_ % 2 == 0 else reversed(layers):
            layer.sort(key=lambda key: _mean([rank[n] for n in neighbours[key]], rank[key]))
            rank.update({key: i for i, key in enumerate(layer)})
        crossings = _crossings(graph, layers)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    return best


def _crossings(graph: _Graph, layers: list[list[_Key]]) -> int:
    rank = {key: i for layer in layers for i, key in enumerate(layer)}
    crossings = 0
    for layer in layers:
        passed: list[int] = []
        for key in layer:
            ends = sorted(rank[other] for other in graph.inputs[key])
            crossings += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return crossings


def _middles(
    graph: _Graph, layers: list[list[_Key]], widths: Mapping[_Key, float]
) -> dict[_Key, float]:
    """The middle of each box and lane across its layer; the leftmost box begins at 0."""
    middles: dict[_Key, float] = {}
    offsets: dict[_Key, float] = {}
    for layer in layers:
        at = 0.0
        for before, key in zip([None, *layer], layer, strict=False):
            if before is not None:
                lane = isinstance(key, tuple) or isinstance(before, tuple)
                at += (widths[before] + widths[key]) / 2 + (_LANE_GAP if lane else GAP)
            offsets[key] = middles[key] = at
    for round_ in range(4 * _ROUNDS + 1):
        for layer in layers if round_ % 2 == 0 else reversed(layers):
            wanted, weights = [], []
            for key in layer:
                sides = (graph.inputs[key], graph.readers[key])
                near = sides[round_ % 2] or sides[1 - round_ % 2]
                wanted.append(_mean([middles[n] for n in near], middles[key]) - offsets[key])
                weights.append(8.0 if isinstance(key, tuple) else 1.0 + len(near))
            for key, at in zip(layer, _nearest_in_order(wanted, weights), strict=True):
                middles[key] = at + offsets[key]
    left = min((middles[key] - width / 2 for key, width in widths.items()), default=0)
    return {key: middle - left for key, middle in middles.items()}


def _nearest_in_order(wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The numbers that do not decrease and are nearest to those wanted, by weighted squares.

    >>> _nearest_in_order([1, 5, 3, 9], [1, 1, 1, 1])
    [1.0, 4.0, 4.0, 9.0]
    """
    blocks: list[tuple[float, float, int]] = []  # value, weight, how many
    for value, weight in zip(wanted, weights, strict=True):
        block = (float(value), weight, 1)
        while blocks and blocks[-1][0] > block[0]:
            value_, weight_, count = blocks.pop()
            both = weight_ + block[1]
            block = ((value_ * weight_ + block[0] * block[1]) / both, both, count + block[2])
        blocks.append(block)
    return [value for value, _, count in blocks for _ in range(count)]


def _along(
    graph: _Graph,
    layers: list[list[_Key]],
    middles: Mapping[_Key, float],
    boxes: Mapping[str, Node],
) -> tuple[list[float], list[float]]:
    """Where each layer begins and ends; the wider the ways between two layers, the wider the gap."""
    starts: list[float] = []
    ends: list[float] = []
    for layer in layers:
        ways = [abs(middles[key] - middles[n]) for key in layer for n in graph.inputs[key]]
        gap = min(_WIDEST_GAP, GAP + _STEEPEST * max(ways, default=0))
        starts.append(ends[-1] + gap if ends else 0)
        ends.append(starts[-1] + max(boxes[key].along for key in layer if isinstance(key, str)))
    return starts, ends


def _ports(middle: float, across: float, coming: Sequence[float]) -> list[float]:
    """Where edges end at a box, in the order in which they come.

    >>> _ports(100, 90, [70, 10])
    [112.0, 88.0]
    """
    spread = min(_PORT, across / (len(coming) + 1))
    first = middle - spread * (len(coming) - 1) / 2
    order = sorted(range(len(coming)), key=lambda number: coming[number])
    return [first + spread * order.index(number) for number in range(len(coming))]


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
