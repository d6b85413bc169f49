"""Graphs as SVG: boxes in layers, what is read before what reads it.

A box has a title, a line in colour below it and further lines. Layers run downwards or to the
right; `layout` says where boxes stand and how edges run.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from xml.sax.saxutils import escape

from spark_incr.layout import Node, Spot, laid_out
from spark_incr.text_table import display_width

LINE, TITLE, PADDING, MARGIN = 17, 22, 12, 24
WIDEST = 52  # signs of a line; a longer text takes several lines
MOST_LINES = 4  # of one text; the whole of a longer one is shown when the mouse is over it
_SIGN, _TITLE_SIGN, _HEAD_SIGN, _NOTE_SIGN = 7.25, 9.6, 12.5, 7.4  # widths in the four fonts
_LEAST = 110
_STYLE = """
text { font: 12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #333d4b; }
.title { font: 600 14px system-ui, 'DejaVu Sans', 'Segoe UI', Helvetica, sans-serif; fill: #111927; }
.head { font: 600 18px system-ui, 'DejaVu Sans', 'Segoe UI', Helvetica, sans-serif; fill: #111927; }
.note { font: 12px system-ui, 'DejaVu Sans', 'Segoe UI', Helvetica, sans-serif; fill: #5b6675; }
.box { fill: #ffffff; stroke: #c5ccd6; }
.edge { fill: none; stroke: #8d99a9; stroke-width: 1.5; }
.arrow { fill: #5b6675; }
""".strip()


@dataclass(frozen=True)
class Box:
    """One node; `badge` stands in the box's colour, `inputs` are the keys of what it reads.

    A line may begin with a label and a tab: the lines that it is broken into stand below its text.
    """

    key: str
    title: str
    inputs: tuple[str, ...] = ()
    badge: str = ""
    colour: str = "#5b6675"
    lines: tuple[str, ...] = ()

    @cached_property
    def texts(self) -> list[tuple[str, str, str]]:
        """The lines below the title: what is shown, its colour, and all of it where it is cut."""
        colours = [self.colour] * bool(self.badge) + ["#333d4b"] * len(self.lines)
        texts = [self.badge] * bool(self.badge) + list(self.lines)
        return [
            (line, colour, text.replace("\t", " ") if cut else "")
            for text, colour in zip(texts, colours, strict=True)
            for shown, cut in [wrapped(text)]
            for line in shown
        ]

    @property
    def height(self) -> int:
        return TITLE + LINE * len(self.texts) + 2 * PADDING - 6

    @property
    def width(self) -> int:
        texts = [display_width(line) * _SIGN for line, _, _ in self.texts]
        title = display_width(shortened(self.title)) * _TITLE_SIGN
        return round(max(_LEAST, title, *texts)) + 2 * PADDING + 6


def draw(
    boxes: Sequence[Box], head: str, notes: Sequence[tuple[str, str]] = (), *, down: bool = True
) -> str:
    """An SVG of the boxes; `notes` explain colours. Boxes come after what they read."""
    layout = laid_out(
        [
            Node(b.key, b.inputs, *((b.width, b.height) if down else (b.height, b.width)))
            for b in boxes
        ]
    )
    across, along = layout.size
    width, height = (across, along) if down else (along, across)
    noted = sum(_note_width(text) for text, _ in notes)
    width = 2 * MARGIN + round(max(width, display_width(head) * _HEAD_SIGN, noted))
    top = 2 * MARGIN + 30 + (24 if notes else 0)
    height = round(height) + top + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(head)}</title><style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#f6f8fa"/>',
        f'<text class="head" x="{MARGIN}" y="{MARGIN + 10}">{escape(head)}</text>',
        *_legend(notes),
        f'<g transform="translate({MARGIN} {top})">',
        *(_edge(pieces, down) for pieces in layout.routes.values()),
        *(_drawn(box, *_turned(layout.corners[box.key], down)) for box in boxes),
    ]
    return "\n".join([*parts, "</g>", "</svg>", ""])


def shortened(text: str) -> str:
    """A line that a person can take in.

    >>> shortened("x" * 80)[-3:], len(shortened("x" * 80))
    ('xx…', 52)
    """
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def wrapped(text: str) -> tuple[list[str], bool]:
    r"""The lines of a text, and whether they are not all of it.

    >>> wrapped("keeps\t" + "a_long_column, " * 4 + "end")
    (['keeps a_long_column, a_long_column, a_long_column,', '      a_long_column, end'], False)
    """
    label, tab, said = text.rpartition("\t")
    indent = " " * (len(label) + 1) if tab else ""
    lines = textwrap.wrap(said, WIDEST, initial_indent=indent, subsequent_indent=indent) or [""]
    cut = len(lines) > MOST_LINES
    if cut:
        lines = [*lines[: MOST_LINES - 1], shortened(f"{lines[MOST_LINES - 1]} …")]
    return [label + lines[0][len(label) :], *lines[1:]], cut


def _turned(spot: Spot, down: bool) -> Spot:
    """A spot of the layout as x and y."""
    return spot if down else (spot[1], spot[0])


def _edge(pieces: Sequence[tuple[Spot, Spot]], down: bool) -> str:
    """Straight through layers, in a curve through the gaps between them."""

    def point(across: float, along: float) -> str:
        return "{:.1f} {:.1f}".format(*_turned((across, along), down))

    (across, along), end = pieces[0]
    path = f"M{point(across, along)}L{point(*end)}"
    for (_, out), (start, stop) in pairwise(pieces):
        # The last piece ends at a box: the line stops inside its arrow.
        reached = start if start != stop else (start[0], start[1] - 6)
        middle = (out[1] + reached[1]) / 2
        path += f"C{point(out[0], middle)} {point(reached[0], middle)} {point(*reached)}"
        if start != stop:
            path += f"L{point(*stop)}"
    tip = f"M{point(*pieces[-1][1])}l{'-4.5 -9h9z' if down else '-9 -4.5v9z'}"
    return f'<path class="edge" d="{path}"/><path class="arrow" d="{tip}"/>'


def _drawn(box: Box, x: float, y: float) -> str:
    title = shortened(box.title)
    whole = f"<title>{escape(box.title)}</title>" if title != box.title else ""
    parts = [
        f'<g transform="translate({x:.1f} {y:.1f})">',
        f'<rect class="box" width="{box.width}" height="{box.height}" rx="6"/>',
        f'<path d="M0 6a6 6 0 0 1 6 -6v{box.height}a6 6 0 0 1 -6 -6z" fill="{box.colour}"/>',
        f'<text class="title" x="{PADDING + 4}" y="{PADDING + 12}">{whole}{escape(title)}</text>',
    ]
    for number, (text, colour, all_) in enumerate(box.texts, start=1):
        height = PADDING + 12 + LINE * number + 3
        whole = f"<title>{escape(all_)}</title>" if all_ else ""
        parts.append(
            f'<text x="{PADDING + 4}" y="{height}" style="fill:{colour}" xml:space="preserve">'
            f"{whole}{escape(text)}</text>"
        )
    return "".join([*parts, "</g>"])


def _note_width(text: str) -> int:
    return round(display_width(text) * _NOTE_SIGN) + 34


def _legend(notes: Sequence[tuple[str, str]]) -> list[str]:
    parts, x = [], MARGIN
    for text, colour in notes:
        parts.append(
            f'<rect x="{x}" y="{MARGIN + 25}" width="10" height="10" rx="2" fill="{colour}"/>'
            f'<text class="note" x="{x + 15}" y="{MARGIN + 34}">{escape(text)}</text>'
        )
        x += _note_width(text)
    return parts
