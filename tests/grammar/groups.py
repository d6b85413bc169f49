"""GROUP BY in its forms, HAVING, sessions, and window functions over groups."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.grammar.drawing import Column, Draw, Scope, Select, comparable
from tests.grammar.windows import call
from tests.grammar.words import ALONE, USER_AGGREGATES

_TIME = ["window({}, '1 hour').start", "window({}, '2 hours', '1 hour').end"]
_GAPS = [
    "'1 microsecond'",
    "'10 seconds'",
    "'20000 days'",
    "CASE WHEN {bool} THEN '1 day' ELSE '0 days' END",
]


@dataclass(frozen=True)
class _Grouping:
    """Keys, what is shown of them, and the clause; over sets a key is not one value of a group."""

    clause: str
    sets: bool = False


def grouped(draw: Draw, rest: str, scope: Scope, scalar: bool = False) -> Select:
    """Groups of a FROM clause, or one group of all of its rows."""
    keys = [] if scalar else _keys(draw, scope)
    calls = [
        draw.aggregate(scope) for _ in range(draw.choose([0, 1, 1, 2, 3] if keys else [1, 2, 3]))
    ]
    if draw.chance(12):
        calls = [draw.called(draw.choose(ALONE), scope)]
    if draw.functions and draw.chance(4):
        calls = [draw.called(draw.choose(USER_AGGREGATES), scope) for _ in calls] or calls
    shown = [k for k in keys if not draw.chance(5)]
    names = {k.text: draw.name("a") for k in shown}
    grouping = _grouping(draw, keys, shown, names)
    calls += _further(draw, keys, calls, grouping)
    having = ""
    if (keys or calls) and draw.chance(4):
        having = f" HAVING {draw.expression(comparable([*keys, *calls]), 'bool', 1)}"
    if keys and not grouping.sets and draw.chance(6):
        calls.append(_windowed(draw, keys, calls))
    if not shown and not calls:
        calls = [Column("count(*)", "int")]
    listed, columns = draw.named(calls)
    by = [f"{k.text} AS {names[k.text]}" for k in shown]
    items = ", ".join([*by, listed] if calls else by)
    return Select(
        f"SELECT {items} FROM {rest}{grouping.clause}{having}",
        (*(Column(names[k.text], k.kind) for k in shown), *columns),
    )


def sessions(draw: Draw, rest: str, scope: Scope) -> Select:
    """Rows grouped by the session of a time of theirs, and by columns."""
    usable = comparable(scope)
    times = [c for c in usable if c.kind in ("ts", "ntz")]
    if not times:
        return grouped(draw, rest, scope)
    time = draw.choose(times)
    session = f"session_window({time.text}, {draw.filled(draw.choose(_GAPS), scope, 1)})"
    others = [c for c in usable if c.kind not in ("ts", "ntz")]
    keys = draw.random.sample(others, min(len(others), draw.choose([0, 1, 1, 2])))
    shown = [Column(f"session_window.{part}", time.kind) for part in ("start", "end")]
    calls = [draw.aggregate(scope) for _ in range(draw.choose([0, 1, 2]))]
    texts = [k.text for k in keys]
    by = ", ".join(draw.shuffled([session, *texts]))
    if keys and draw.chance(4):
        by = f"{session}, {draw.choose(['ROLLUP', 'CUBE'])} ({', '.join(texts)})"
    having = ""
    if draw.chance(4):
        having = f" HAVING {draw.expression(comparable([*keys, *calls]), 'bool', 1)}"
    return draw.select([*shown, *keys, *calls], f"{rest} GROUP BY {by}{having}")


def _keys(draw: Draw, scope: Scope) -> list[Column]:
    usable = comparable(scope)
    keys = []
    for _ in range(draw.choose([1, 1, 2, 3])):
        times = [c for c in usable if c.kind == "ts"]
        if times and not keys and draw.chance(6):
            # A GROUP BY has one window of time.
            keys.append(Column(draw.choose(_TIME).format(draw.choose(times).text), "ts"))
        elif usable and not draw.chance(3):
            keys.append(draw.choose(usable))
        else:
            kind = draw.choose([c.kind for c in usable] or ["int"])
            keys.append(Column(draw.expression(scope, kind, 1), kind))
    return list({k.text: k for k in keys}.values())


def _grouping(
    draw: Draw, keys: list[Column], shown: list[Column], names: dict[str, str]
) -> _Grouping:
    if not keys:
        return _Grouping("")
    style = draw.choose(["text", "text", "position", "alias", "all", "sets"])
    plain = all(_not_a_position(k.text) == k.text for k in keys)
    if style == "sets" and plain:
        return _Grouping(f" GROUP BY {_sets(draw, keys)}", sets=True)
    if style == "all" and shown == keys and plain:
        return _Grouping(" GROUP BY ALL")
    written = [_not_a_position(k.text) for k in keys]
    if style == "position":
        written = [
            str(shown.index(k) + 1) if k in shown else w for k, w in zip(keys, written, strict=True)
        ]
    elif style == "alias":
        written = [names.get(k.text, w) for k, w in zip(keys, written, strict=True)]
    return _Grouping(f" GROUP BY {', '.join(written)}")


def _sets(draw: Draw, keys: list[Column]) -> str:
    """Sets of keys, some of which may be the same."""
    texts = [k.text for k in keys]
    written = ", ".join(texts)
    if len(keys) > 1 and draw.chance(3):
        return f"{texts[0]}, {draw.choose(['ROLLUP', 'CUBE'])} ({', '.join(texts[1:])})"
    if draw.chance(3):
        return f"{draw.choose(['ROLLUP', 'CUBE'])} ({written})"
    if draw.chance(4):
        return f"{written} WITH {draw.choose(['ROLLUP', 'CUBE'])}"
    parts = [
        f"({', '.join(draw.random.sample(texts, draw.random.randint(0, len(texts))))})"
        for _ in range(draw.choose([1, 2, 3]))
    ]
    return f"GROUPING SETS ({', '.join([f'({written})', *parts])})"


def _further(
    draw: Draw, keys: list[Column], calls: list[Column], grouping: _Grouping
) -> list[Column]:
    """What is said of keys, and an expression over keys and aggregates."""
    result = []
    if grouping.sets and draw.chance(2):
        key = draw.choose(keys).text
        result.append(Column(draw.choose([f"grouping({key})", "grouping_id()"]), "int"))
    elif keys and not grouping.sets and draw.chance(6):
        key = draw.choose(keys)
        function = draw.choose(["any_value", "first", "last", "max", "count", "min"])
        result.append(Column(f"{function}({key.text})", "int" if function == "count" else key.kind))
    if calls and draw.chance(6):
        numbers = [c for c in [*keys, *calls] if c.kind == "int"]
        result.append(Column(draw.expression(numbers, "int", 1), "int"))
    return result


def _windowed(draw: Draw, keys: list[Column], calls: list[Column]) -> Column:
    """A window function over groups, whose keys are a total order of them."""
    texts = [k for k in keys if "(SELECT" not in k.text]
    return call(draw, comparable([*keys, *calls]), texts if texts == keys else [])


def _not_a_position(text: str) -> str:
    return f"({text} + 0)" if re.fullmatch(r"\(*-?\d+\)*", text) else text
