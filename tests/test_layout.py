"""Layouts of graphs: boxes do not overlap, and no edge passes behind a box."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from spark_incr.layout import Layout, Node, Spot, laid_out


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    nodes: list[Node] = []
    for number in range(draw(st.integers(0, 14))):
        keys = [node.key for node in nodes]
        inputs = draw(st.lists(st.sampled_from(keys), max_size=3)) if keys else []
        size = st.integers(20, 400)
        nodes.append(Node(f"n{number}", tuple(inputs), draw(size), draw(size)))
    return nodes


def overlap(a: tuple[Spot, Spot], b: tuple[Spot, Spot]) -> bool:
    """Whether two rectangles, given by two corners each, share more than their borders."""
    return all(max(a[0][side], b[0][side]) < min(a[1][side], b[1][side]) - 1e-6 for side in (0, 1))


def areas(layout: Layout) -> list[tuple[Spot, Spot]]:
    """The rectangles within which edges run: pieces, and the curves from each to the next."""
    found = []
    for pieces in layout.routes.values():
        curves = [(end, start) for (_, end), (start, _) in pairwise(pieces)]
        for (x1, y1), (x2, y2) in [*pieces, *curves]:
            assert y1 <= y2, "an edge runs back"
            found.append(((min(x1, x2) - 1, y1), (max(x1, x2) + 1, y2)))
    return found


@given(graphs())
def test_nothing_is_behind_a_box(nodes: list[Node]) -> None:
    layout = laid_out(nodes)
    boxes = []
    for node in nodes:
        x, y = layout.corners[node.key]
        boxes.append(((x, y), (x + node.across, y + node.along)))
        assert min(x, y) >= -1e-6
        assert x + node.across <= layout.size[0] + 1e-6
        assert y + node.along <= layout.size[1] + 1e-6
    assert not any(overlap(a, b) for a, b in combinations(boxes, 2))
    assert not any(overlap(area, box) for area in areas(layout) for box in boxes)
    for node in nodes:
        for number, key in enumerate(node.inputs):
            pieces = layout.routes[node.key, number]
            below = layout.corners[key][1] + next(n.along for n in nodes if n.key == key)
            assert pieces[0][0][1] == below
            assert pieces[-1][1][1] == layout.corners[node.key][1]


def test_a_tree_keeps_the_order_of_its_inputs() -> None:
    leaves = [Node(f"leaf{i}", (), 50, 20) for i in range(4)]
    joins = [Node("a", ("leaf0", "leaf1"), 90, 20), Node("b", ("leaf2", "leaf3"), 90, 20)]
    corners = laid_out([*leaves, *joins, Node("top", ("a", "b"), 90, 20)]).corners
    assert sorted(corners, key=lambda key: corners[key][::-1]) == [
        *("leaf0", "leaf1", "leaf2", "leaf3"),
        *("a", "b"),
        "top",
    ]


def test_what_only_late_boxes_read_stands_late() -> None:
    chain = [Node("n0", (), 50, 20), Node("n1", ("n0",), 50, 20), Node("n2", ("n1",), 50, 20)]
    late = [Node("scan", (), 50, 20), Node("filter", ("scan",), 50, 20)]
    corners = laid_out([*chain, *late, Node("join", ("n2", "filter"), 50, 20)]).corners
    assert corners["filter"][1] == corners["n2"][1]
    assert corners["scan"][1] == corners["n1"][1]
