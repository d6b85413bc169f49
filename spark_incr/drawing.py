"""Graphs as SVG: boxes in layers, what is read before what reads it.

A box has a title, a line in colour below it and further lines. Layers run downwards or to the
right; boxes of a layer are ordered by their neighbours, so that few edges cross.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

LINE, TITLE, PADDING, GAP, MARGIN = 17, 22, 12, 34, 24
LONGEST = 64  # signs of a line; the whole of a longer one is shown when the mouse is over it
_SIGN, _TITLE_SIGN = 7.25, 8.6  # widths of the two fonts
_STYLE = """
text { font: 12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #333d4b; }
.title { font: 600 14px system-ui, 'DejaVu Sans', 'Segoe UI', Helvetica, sans-serif; fill: #111927; }
.head { font: 600 18px system-ui, 'DejaVu Sans', 'Segoe UI', Helvetica, sans-serif; fill: #111927; }
.note { font: 12px system-ui, 'DejaVu Sans', 'Segoe UI', Helvetica, sans-serif; fill: #5b6675; }
.box { fill: #ffffff; stroke: #c5ccd6; }
.edge { fill: none; stroke: #8d99a9; stroke-width: 1.5; }
.arrow { fill: #8d99a9; }
""".strip()


@dataclass(frozen=True)
class Box:
    """One node; `badge` stands in the box's colour, `inputs` are the keys of what it reads."""

    key: str
    title: str
    inputs: tuple[str, ...] = ()
    badge: str = ""
    colour: str = "#5b6675"
    lines: tuple[str, ...] = ()

    @property
    def height(self) -> int:
        return TITLE + LINE * (bool(self.badge) + len(self.lines)) + 2 * PADDING - 6

    @property
    def width(self) -> int:
        texts = [len(shortened(line)) * _SIGN for line in (self.badge, *self.lines)]
        return round(max(110, len(self.title) * _TITLE_SIGN, *texts)) + 2 * PADDING + 6


def draw(
    boxes: Sequence[Box], head: str, notes: Sequence[tuple[str, str]] = (), *, down: bool = True
) -> str:
    """An SVG of the boxes; `notes` explain colours. Boxes come after what they read."""
    layers = _ordered(_layers(boxes))
    places, width, height = _places(layers, down)
    noted = sum(round(len(text) * 7) + 34 for text, _ in notes) - 20
    width = max(width, round(len(head) * 11) + 2 * MARGIN, noted + 2 * MARGIN)
    top = MARGIN + 30 + (24 if notes else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height + top}"'
        f' viewBox="0 0 {width} {height + top}" role="img">',
        f"<title>{escape(head)}</title><style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height + top}" fill="#f6f8fa"/>',
        f'<text class="head" x="{MARGIN}" y="{MARGIN + 10}">{escape(head)}</text>',
        *_legend(notes),
        f'<g transform="translate(0 {top})">',
    ]
    by_key = {box.key: box for box in boxes}
    parts += [
        _edge(by_key[key], places[key], box, places[box.key], down)
        for box in boxes
        for key in box.inputs
    ]
    parts += [_drawn(box, *places[box.key]) for box in boxes]
    return "\n".join([*parts, "</g>", "</svg>", ""])


def shortened(text: str) -> str:
    """A line that a person can take in.

    >>> shortened("x" * 80)[-3:], len(shortened("x" * 80))
    ('xx…', 64)
    """
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _layers(boxes: Sequence[Box]) -> list[list[Box]]:
    depth: dict[str, int] = {}
    for box in boxes:
        depth[box.key] = max((depth[key] + 1 for key in box.inputs), default=0)
    # What is read by one box alone stands right before it.
    readers: dict[str, list[int]] = {}
    for box in reversed(boxes):
        if not box.inputs and readers.get(box.key):
            depth[box.key] = min(readers[box.key]) - 1
        for key in box.inputs:
            readers.setdefault(key, []).append(depth[box.key])
    layers: list[list[Box]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for box in boxes:
        layers[depth[box.key]].append(box)
    return layers


def _ordered(layers: list[list[Box]]) -> list[list[Box]]:
    """Each layer by the middle of its neighbours, forth and back a few times."""
    above = {box.key: box.inputs for layer in layers for box in layer}
    below: dict[str, list[str]] = {key: [] for key in above}
    for key, inputs in above.items():
        for other in inputs:
            below[other].append(key)
    for round_ in range(4):
        neighbours: Mapping[str, Sequence[str]] = above if round_ % 2 == 0 else below
        rank = {box.key: i for layer in layers for i, box in enumerate(layer)}
        for layer in layers if round_ % 2 == 0 else reversed(layers):
            middles = {}
            for box in layer:
                near = [rank[key] for key in neighbours[box.key]] or [rank[box.key]]
                middles[box.key] = sum(near) / len(near)
            layer.sort(key=lambda box: middles[box.key])
            rank.update({box.key: i for i, box in enumerate(layer)})
    return layers


def _places(layers: list[list[Box]], down: bool) -> tuple[dict[str, tuple[float, float]], int, int]:
    """The corner of each box, and the size of the whole; layers are centred."""
    along = [max((b.height if down else b.width) for b in layer) for layer in layers]
    across = [sum((b.width if down else b.height) + GAP for b in layer) - GAP for layer in layers]
    widest = max(across, default=0)
    places: dict[str, tuple[float, float]] = {}
    start: float = MARGIN
    step = GAP if down else 2 * GAP
    for layer, depth, length in zip(layers, along, across, strict=True):
        offset: float = MARGIN + (widest - length) / 2
        for box in layer:
            places[box.key] = (offset, start) if down else (start, offset)
            offset += (box.width if down else box.height) + GAP
        start += depth + step
    total, other = round(start - step + MARGIN), round(widest + 2 * MARGIN)
    return places, *((other, total) if down else (total, other))


def _edge(
    source: Box, at: tuple[float, float], target: Box, to: tuple[float, float], down: bool
) -> str:
    if down:
        x1, y1 = at[0] + source.width / 2, at[1] + source.height
        x2, y2 = to[0] + target.width / 2, to[1] - 6
        middle = (y1 + y2) / 2
        path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"
        tip = f"M{x2:.1f} {y2 + 6:.1f}l-4 -8h8z"
    else:
        x1, y1 = at[0] + source.width, at[1] + source.height / 2
        x2, y2 = to[0] - 6, to[1] + target.height / 2
        middle = (x1 + x2) / 2
        path = f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
        tip = f"M{x2 + 6:.1f} {y2:.1f}l-8 -4v8z"
    return f'<path class="edge" d="{path}"/><path class="arrow" d="{tip}"/>'


def _drawn(box: Box, x: float, y: float) -> str:
    parts = [
        f'<g transform="translate({x:.1f} {y:.1f})">',
        f'<rect class="box" width="{box.width}" height="{box.height}" rx="6"/>',
        f'<path d="M0 6a6 6 0 0 1 6 -6v{box.height}a6 6 0 0 1 -6 -6z" fill="{box.colour}"/>',
        f'<text class="title" x="{PADDING + 4}" y="{PADDING + 12}">{escape(box.title)}</text>',
    ]
    colours = [box.colour] * bool(box.badge) + ["#333d4b"] * len(box.lines)
    texts = [box.badge] * bool(box.badge) + list(box.lines)
    for number, (text, colour) in enumerate(zip(texts, colours, strict=True), start=1):
        height = PADDING + 12 + LINE * number + 3
        whole = f"<title>{escape(text)}</title>" if shortened(text) != text else ""
        parts.append(
            f'<text x="{PADDING + 4}" y="{height}" style="fill:{colour}" xml:space="preserve">'
            f"{whole}{escape(shortened(text))}</text>"
        )
    return "".join([*parts, "</g>"])


def _legend(notes: Sequence[tuple[str, str]]) -> list[str]:
    parts, x = [], MARGIN
    for text, colour in notes:
        parts.append(
            f'<rect x="{x}" y="{MARGIN + 25}" width="10" height="10" rx="2" fill="{colour}"/>'
            f'<text class="note" x="{x + 15}" y="{MARGIN + 34}">{escape(text)}</text>'
        )
        x += round(len(text) * 7) + 34
    return parts
