"""Plans as pictures: one box per operator, coloured by the tier that maintains it.

The picture is drawn from the text of EXPLAIN, so that both always say the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from spark_incr.drawing import Box, draw
from spark_incr.text_table import size_text

TIERS = {
    "linear": "#7a8797",
    "bilinear": "#2f6fde",
    "homomorphic": "#17924f",
    "multiset": "#0e8f96",
    "head": "#8250c4",
    "affected": "#d9730d",
    "full": "#cf2f3c",
}
# The labels of EXPLAIN that a box shows, and the words for them there
_SHOWN = {
    "lineage": "key",
    "folds": "folds",
    "monoid": "keeps",
    "multiset": "keeps",
    "derived": "gives",
    "state": "state",
}
_MOST = 8  # lines of one kind in a box
_HEAD = re.compile(
    r"(?P<name>r\d+) := (?P<operator>\w+)\[(?P<inputs>r\d+(?:, r\d+)*(?=[:\],]))?[:,]? ?"
)
_KEPT = re.compile(
    r"(?:(?P<name>\w+) )?(?P<rows>\d+) (?P<what>(?:distinct )?)rows,? (?P<bytes>\d+) bytes"
)


@dataclass
class _Operator:
    name: str
    operator: str
    inputs: tuple[str, ...]
    said: str
    details: list[tuple[str, str]] = field(default_factory=list)


def plan_picture(explained: str, view: str) -> str:
    """An SVG of what EXPLAIN says of a view: tiers, keys and the sizes of the state."""
    boxes = [_box(operator) for operator in _operators(explained)]
    output = re.search(r"^output: (.*)$", explained, re.MULTILINE)
    lines = (_readable(output[1]),) if output else ()
    boxes.append(Box("view", view, (boxes[-1].key,), "view", "#111927", lines))
    used = {box.badge.partition(" ")[0] for box in boxes}
    notes = [(tier, colour) for tier, colour in TIERS.items() if tier in used]
    return draw(boxes, f"How {view} is maintained", notes)


def _box(found: _Operator) -> Box:
    tier = next((text for label, text in found.details if label == "tier"), "linear")
    title, said = found.operator, found.said
    if found.operator == "Scan":
        relation, _, said = found.said.partition(": ")
        title = f"Scan {relation}"
    lines = [said] if said else []
    for label, word in _SHOWN.items():
        texts = [text for name, text in found.details if name == label]
        if label == "state":
            texts = [_readable(part) for text in texts for part in text.split("; ")]
        words = [word, *[""] * len(texts)]
        lines += [f"{word:<5}\t{text}" for word, text in zip(words, texts[:_MOST], strict=False)]
        if len(texts) > _MOST:
            lines.append(f"{'':<5}\tand {len(texts) - _MOST} more")
    colour = TIERS.get(tier.partition(" ")[0], TIERS["linear"])
    return Box(found.name, title, found.inputs, tier, colour, tuple(lines))


def _readable(state: str) -> str:
    """What is kept, in units that a person reads.

    >>> _readable("left 8000 rows 384000 bytes"), _readable("1 distinct rows, 843 bytes")
    ('left: 8,000 rows, 384 kB', '1 distinct row, 843 B')
    """
    found = _KEPT.fullmatch(state)
    if found is None:
        return state
    rows = int(found["rows"])
    name = f"{found['name']}: " if found["name"] else ""
    what = f"{found['what']}row{'s' * (rows != 1)}"
    return f"{name}{rows:,} {what}, {size_text(int(found['bytes']))}"


def _operators(explained: str) -> Iterator[_Operator]:
    current: _Operator | None = None
    for line in explained.split("\n"):
        if head := _HEAD.match(line):
            if current is not None:
                yield current
            inputs = tuple((head["inputs"] or "").split(", ")) if head["inputs"] else ()
            said = line[head.end() :].removesuffix("]")
            current = _Operator(head["name"], head["operator"], inputs, said)
        elif line.startswith("    ") and current is not None:
            label, _, text = line.strip().partition(" ")
            current.details.append((label, text.strip()))
    if current is not None:
        yield current
