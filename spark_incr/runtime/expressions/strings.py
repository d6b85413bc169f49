"""Strings: sequences of code points in UTF-8, compared and searched as bytes.

Patterns, positions and lengths must be literals. Java, ICU and Arrow agree on the upper case of a letter
in ASCII, and on no others.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.runtime.expressions.casts import to_text
from spark_incr.runtime.expressions.evaluation import UndecidedError, strict
from spark_incr.runtime.expressions.registry import Call, Compiled, kernel, literal, null

_INT_MAX = 2**31 - 1


def _is_text(operand: Compiled) -> bool:
    return isinstance(operand.type, T.StringType)


def _text_of(operand: Compiled) -> str | None:
    """The text of a string literal."""
    return operand.value if _is_text(operand) else None


def _number_of(operand: Compiled) -> int | None:
    """The value of an INT literal."""
    return operand.value if isinstance(operand.type, T.IntegerType) else None


@kernel(exp.Length, words="strings, in code points", arguments=("this",))
def length(call: Call) -> Compiled | None:
    return strict(call, pc.utf8_length) if _is_text(call.operands[0]) else None


def _in_ascii(array: pa.Array) -> pa.Array:
    """The array, if a code point is a byte in all of it."""
    if not pc.all(pc.string_is_ascii(array), min_count=0).as_py():
        raise UndecidedError
    return array


_CASES: dict[type[exp.Expr], Callable[[pa.Array], pa.Array]] = {
    exp.Upper: pc.ascii_upper,
    exp.Lower: pc.ascii_lower,
}


@kernel(
    *_CASES, words="strings; a batch with letters beyond ASCII goes to Spark", arguments=("this",)
)
def letter_case(call: Call) -> Compiled | None:
    turn = _CASES[type(call.node)]
    if not _is_text(call.operands[0]):
        return None
    return strict(call, lambda array: turn(_in_ascii(array)))


@kernel(
    exp.StrPosition,
    words="a string, literal text to look for; a batch with letters beyond ASCII goes to Spark",
    arguments=("this", "substr"),
)
def position(call: Call) -> Compiled | None:
    text, other = call.operands
    wanted = _text_of(other)
    if not wanted or not _is_text(text):
        return None

    def found(array: pa.Array) -> pa.Array:
        return pc.add(pc.find_substring(_in_ascii(array), wanted), pa.scalar(1, pa.int32()))

    return strict(call, found, operands=(text,))


def _concatenated(call: Call) -> Compiled | None:
    parts = [to_text(operand) for operand in call.operands]
    if not isinstance(call.type, T.StringType) or None in parts or not call.settings.ansi:
        return None
    texts = [part for part in parts if part is not None]
    if any(part.raises for part in texts):
        return None
    if not texts:
        return literal(pa.scalar("", pa.string()), call.type)

    def join(*arrays: pa.Array) -> pa.Array:
        return pc.binary_join_element_wise(*arrays, "", null_handling="emit_null")

    return strict(call, join, operands=texts)


@kernel(
    exp.Concat,
    words="strings, and what casts to a string without doubt",
    arguments=("expressions",),
    flags=("safe",),
)
def concat(call: Call) -> Compiled | None:
    # Without this flag the node stands for adjacent literals, whose quotes it does not tell apart.
    return _concatenated(call) if call.node.args.get("safe") else None


@kernel(exp.DPipe, words="as concat", flags=("safe",))
def pipes(call: Call) -> Compiled | None:
    return _concatenated(call)


def _slice(call: Call, position: int, count: int | None) -> Compiled:
    """`count` code points from a position that counts from 1, or from the end if negative."""
    if count is not None and count <= 0:
        return strict(call, _blank, operands=call.operands[:1])
    start = position - 1 if position > 0 else position
    stop = None if count is None or start + count > _INT_MAX else start + count
    if start < 0 and stop is not None and stop >= 0:
        stop = None

    def cut(array: pa.Array) -> pa.Array:
        return pc.utf8_slice_codeunits(array, start=start, stop=stop)

    return strict(call, cut, operands=call.operands[:1])


def _blank(array: pa.Array) -> pa.Array:
    return pc.if_else(array.is_valid(), "", pa.scalar(None, pa.string()))


@kernel(
    exp.Substring,
    words="a string, literal position and length",
    arguments=("this", "start", "length"),
)
def substring(call: Call) -> Compiled | None:
    text, *numbers = call.operands
    if any(operand.is_null for operand in call.operands):
        return null(call.type)
    places = [_number_of(number) for number in numbers]
    if not _is_text(text) or None in places or not places or places[0] is None:
        return None
    return _slice(call, places[0], places[1] if len(places) == 2 else None)


@kernel(exp.Left, words="a string, literal length")
def left(call: Call) -> Compiled | None:
    text, number = call.operands
    count = _number_of(number)
    return None if count is None or not _is_text(text) else _slice(call, 1, count)


@kernel(
    exp.Trim,
    words="a string, spaces or a literal set of characters",
    arguments=("this", "expression"),
    flags=("position",),
)
def trim(call: Call) -> Compiled | None:
    text, *sets = call.operands
    characters = _text_of(sets[0]) if sets else " "
    position = (call.node.args.get("position") or "BOTH").upper()
    function = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}.get(
        position
    )
    if not _is_text(text) or not characters or function is None:
        return None
    return strict(
        call, lambda array: function(array, characters=characters), operands=call.operands[:1]
    )


def like_parts(pattern: str, escape: str) -> list[str | None] | None:
    """A LIKE pattern as literal texts, None for `%` and "" for `_`; None if it is not valid.

    >>> like_parts("a\\\\%b%_", "\\\\")
    ['a%b', None, '']
    """
    parts: list[str | None] = []
    text, i = "", 0
    while i < len(pattern):
        sign = pattern[i]
        if sign == escape:
            i += 1
            if i == len(pattern) or pattern[i] not in ("%", "_", escape):
                return None
            text += pattern[i]
        elif sign in "%_":
            parts += [text] if text else []
            parts.append(None if sign == "%" else "")
            text = ""
        else:
            text += sign
        i += 1
    return parts + ([text] if text else [])


def _quoted(text: str) -> str:
    """The regular expression that matches a text."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


def _like(
    call: Call, text: Compiled, pattern: str | None, escape: str, negated: bool
) -> Compiled | None:
    parts = None if pattern is None else like_parts(pattern, escape)
    if parts is None or not _is_text(text):
        return None
    signs = [".*" if part is None else _quoted(part) if part else "." for part in parts]
    expression = r"(?s)\A" + "".join(signs) + r"\z"

    def matches(array: pa.Array) -> pa.Array:
        match parts:
            case []:
                found = pc.equal(array, "")
            case [str(only)] if only:
                found = pc.equal(array, only)
            case [str(first), None] if first:
                found = pc.starts_with(array, first)
            case [None, str(last)] if last:
                found = pc.ends_with(array, last)
            case [None, str(middle), None] if middle:
                found = pc.match_substring(array, middle)
            case _:
                found = pc.match_substring_regex(array, expression)
        return pc.invert(found) if negated else found

    return strict(call, matches, operands=(text,))


@kernel(exp.Like, words="a string, literal pattern", flags=("negate",))
def like(call: Call) -> Compiled | None:
    text, pattern = call.operands
    return _like(call, text, _text_of(pattern), "\\", bool(call.node.args.get("negate")))


def _escaped_like(node: exp.Expr) -> list[exp.Expr] | None:
    inner, escape = node.this, node.args.get("expression")
    known = {"this", "expression", "negate"}
    if not isinstance(inner, exp.Like) or not isinstance(escape, exp.Literal):
        return None
    if any(value and key not in known for key, value in inner.args.items()):
        return None
    return [inner.this, inner.args["expression"], escape]


@kernel(
    exp.Escape, words="LIKE with a literal pattern and escape character", operands=_escaped_like
)
def like_escape(call: Call) -> Compiled | None:
    text, pattern, escape = call.operands
    sign = _text_of(escape)
    if sign is None or len(sign) != 1 or sign in "%_":
        return None
    return _like(call, text, _text_of(pattern), sign, bool(call.node.this.args.get("negate")))


_SEARCHES: dict[type[exp.Expr], Callable[[pa.Array, str], pa.Array]] = {
    exp.StartsWith: pc.starts_with,
    exp.EndsWith: pc.ends_with,
    exp.Contains: pc.match_substring,
}


@kernel(*_SEARCHES, words="a string, literal text to look for")
def search(call: Call) -> Compiled | None:
    text, other = call.operands
    wanted, function = _text_of(other), _SEARCHES[type(call.node)]
    if wanted is None or not _is_text(text):
        return None
    return strict(call, lambda array: function(array, wanted), operands=(text,))


@kernel(
    exp.Replace,
    words="a string, literal texts",
    arguments=("this", "expression", "replacement"),
)
def replace(call: Call) -> Compiled | None:
    text, *others = call.operands
    texts = [_text_of(other) for other in others]
    if not _is_text(text) or not texts or None in texts or not texts[0]:
        return None
    old, new = texts[0], texts[1] if len(texts) == 2 else ""
    return strict(call, lambda array: pc.replace_substring(array, old, new or ""), operands=(text,))


@kernel(
    exp.Pad,
    words="a string, literal length, literal padding of one character",
    arguments=("this", "expression", "fill_pattern"),
    flags=("is_left",),
)
def pad(call: Call) -> Compiled | None:
    text, number, *fills = call.operands
    width, fill = _number_of(number), _text_of(fills[0]) if fills else " "
    if not _is_text(text) or width is None or not 0 < width < 10_000 or fill is None:
        return None
    if len(fill) != 1:
        return None
    function = pc.utf8_lpad if call.node.args.get("is_left") else pc.utf8_rpad

    def padded(array: pa.Array) -> pa.Array:
        return pc.utf8_slice_codeunits(function(array, width, fill), start=0, stop=width)

    return strict(call, padded, operands=(text,))
