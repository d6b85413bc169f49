"""Window functions: frames of rows and of distances, named windows, QUALIFY."""

from __future__ import annotations

from tests.grammar.drawing import Column, Draw, Scope, Select, comparable
from tests.grammar.words import (
    DISTANCES,
    FRAMED,
    PEER_FRAMES,
    PLACED,
    RANKED,
    ROW_FRAMES,
    UNFRAMED,
    USER_AGGREGATES,
)

_WAYS = [["", " DESC", " NULLS LAST", " DESC NULLS FIRST"], [""]]


def windowed(draw: Draw, rest: str, scope: Scope) -> Select:
    """Window functions over a FROM clause, at times qualified."""
    usable = comparable(scope)
    if not usable:
        return draw.select([draw.value(scope, 0)], rest)
    total = usable if len(usable) == len(scope) else []
    named: dict[str, str] = {}
    items = [draw.value(scope, 0)]
    items += [
        call(draw, usable, total, named if draw.chance(3) else None)
        for _ in range(draw.choose([1, 1, 2, 3]))
    ]
    if draw.chance(6):
        rest += f" QUALIFY {_qualification(draw, usable, total)}"
    if named:
        written = ", ".join(f"{name} AS ({text})" for name, text in named.items())
        before, word, after = rest.rpartition(" QUALIFY ")
        rest = f"{before} QUALIFY {after} WINDOW {written}" if word else f"{rest} WINDOW {written}"
    return draw.select(items, rest)


def call(draw: Draw, usable: Scope, total: Scope, named: dict[str, str] | None = None) -> Column:
    """One call; those that look at the place of a row only over an order of all its columns."""
    by = partition(draw, usable)
    if draw.functions and draw.chance(4):
        made = draw.called(draw.choose(USER_AGGREGATES), usable, 0)
        return Column(f"{made.text} OVER ({by.strip()})", made.kind)
    if total and draw.chance(2):
        template = draw.choose([*PLACED, *FRAMED])
        order = [c.text + draw.choose(draw.choose(_WAYS)) for c in draw.shuffled(total)]
        frame = draw.choose([*ROW_FRAMES, *PEER_FRAMES])
    else:
        template = draw.choose([*RANKED, *FRAMED])
        key = draw.choose(usable)
        order = [key.text + draw.choose(draw.choose(_WAYS))]
        frame = draw.choose([*PEER_FRAMES, *DISTANCES.get(key.kind, [])])
    if template[0].split("(")[0] in UNFRAMED:
        frame = ""
    made = draw.called(template, usable, 0)
    window = f"{by}ORDER BY {', '.join(order)}{frame}"
    if template in FRAMED and draw.chance(4):
        window = by.strip()
    kind = "shown" if made.kind == "bag" else made.kind
    text = made.text
    if text.startswith("array_sort("):
        # The function within is the one that has a window.
        inner = text.removeprefix("array_sort(").removesuffix(")")
        return Column(f"array_sort({inner} OVER ({window}))", "shown")
    if template[0].startswith("collect_list"):
        return Column(f"array_sort({text} OVER ({window}))", kind)
    if named is not None:
        name = draw.name("w")
        named[name] = window
        return Column(f"{text} OVER {name}", kind)
    return Column(f"{text} OVER ({window})", kind)


def partition(draw: Draw, usable: Scope) -> str:
    by = [draw.choose(usable).text for _ in range(draw.choose([0, 1, 1, 2]))]
    return f"PARTITION BY {', '.join(by)} " if by else ""


def _qualification(draw: Draw, usable: Scope, total: Scope) -> str:
    by = partition(draw, usable)
    if total and draw.chance(2):
        return f"row_number() OVER ({by}ORDER BY {draw.ordered(total)}) < 3"
    if draw.chance(2):
        return f"{draw.choose(['rank', 'dense_rank'])}() OVER ({by}ORDER BY {draw.choose(usable).text}) < 3"
    return f"count(*) OVER ({by.strip()}) > 1"
