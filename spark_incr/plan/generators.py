"""Functions that make several rows of one: explode, posexplode, inline, stack, json_tuple, and what
users register for FROM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one

from spark_incr.plan.nodes import RELATION, Generate, Node, column, columns_in
from spark_incr.plan.types import Field
from spark_incr.sql.dialect import SparkText, print_sql

if TYPE_CHECKING:
    from spark_incr.plan.environment import Environment

WEIGHT = "__incr_w"
WINDOW, SESSION_WINDOW = "window", "session_window"
NAMES = frozenset(
    """explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple
    variant_explode variant_explode_outer""".split()
)
_GENERATED = "__incr_generated"
_VARIANTS = ("variant_explode", "variant_explode_outer")
_CLASSES = (exp.Explode, exp.ExplodeOuter, exp.Posexplode, exp.PosexplodeOuter, exp.Inline)


def is_generator(node: exp.Expr) -> bool:
    """Whether a node is a generator function."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in NAMES
    return isinstance(node, _CLASSES)


def operands(generator: exp.Expr) -> list[exp.Expr]:
    """What a generator function is called with."""
    values = generator.args.values()
    each = (e for value in values for e in (value if isinstance(value, list) else [value]))
    return [e for e in each if isinstance(e, exp.Expr)]


def positional(generator: exp.Expr) -> exp.Expr:
    """A generator of Spark's own without the name of its only operand: LATERAL VIEW takes none."""
    given = operands(generator)
    if len(given) != 1 or not is_generator(generator) or not isinstance(given[0], exp.Kwarg):
        return generator
    copy = generator.copy()
    operands(copy)[0].replace(given[0].expression.copy())
    return copy


def _only_in_from(generator: exp.Expr) -> bool:
    """Whether Spark takes a function only in FROM: those of users, and some of its own."""
    name = generator.name.lower() if isinstance(generator, exp.Anonymous) else ""
    return bool(name) and (name not in NAMES or name in _VARIANTS)


def time_window(node: exp.Expr) -> str | None:
    """Which window of time a node is a call of, if it is one: `window` or `session_window`."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    return name if name in (WINDOW, SESSION_WINDOW) else None


def window_time(node: exp.Expr) -> exp.Expr | None:
    """The window of time whose last moment a node asks for, if it does."""
    if isinstance(node, exp.Anonymous) and node.name.lower() == "window_time":
        window: exp.Expr = node.expressions[0]
        return window
    return None


def last_moment(window: exp.Expr) -> exp.Expr:
    """window_time(); Spark itself tells it only of a column that it has just made."""
    end = exp.Dot(this=exp.Paren(this=window), expression=exp.to_identifier("end", quoted=True))
    moment = parse_one("INTERVAL '0.000001' SECOND", read="spark")
    return exp.Paren(this=exp.Sub(this=end, expression=moment))


def generator_query(node: Generate) -> exp.Select:
    """What a generator makes of the rows of `RELATION`, with their weights."""
    if time_window(node.generator):
        kept = [column(n) for n in node.names if n not in node.made]
        made = exp.alias_(_plain_window(node.generator), node.made[0], quoted=True)
        return exp.select(*kept, made, column(WEIGHT)).from_(exp.to_table(RELATION))
    query = exp.select(*(column(n) for n in node.names), column(WEIGHT))
    return _generating(query.from_(exp.to_table(RELATION)), node.generator, node.made, node.outer)


def _plain_window(window: exp.Expr) -> exp.Expr:
    """A window of time as a plain value: Spark joins those of sessions wherever it groups by them."""
    if time_window(window) != SESSION_WINDOW:
        return window.copy()
    parts = (f"'{part}', {print_sql(window)}.`{part}`" for part in ("start", "end"))
    return parse_one(f"named_struct({', '.join(parts)})", read=SparkText)


def generated_columns(generator: exp.Expr) -> exp.Select:
    """What a generator makes of the rows of `RELATION`, under Spark's names."""
    if _only_in_from(generator) and not time_window(generator):
        made = exp.select(f"{_GENERATED}.*").from_(exp.to_table(RELATION))
        return _generating(made, generator, (), False)
    return exp.select(generator.copy()).from_(exp.to_table(RELATION))


def _generating(
    query: exp.Select, generator: exp.Expr, made: Sequence[str], outer: bool
) -> exp.Select:
    """A query over what a generator makes of its rows, too: by LATERAL VIEW, or by a join for a
    function that Spark takes only in FROM (its own ones only by a join without condition)."""
    alias = exp.TableAlias(
        this=exp.to_identifier(_GENERATED),
        columns=[exp.to_identifier(name, quoted=True) for name in made],
    )
    if generator.name.lower() in _VARIANTS:
        name = _VARIANTS[1 if outer else _VARIANTS.index(generator.name.lower())]
        called = exp.Anonymous(this=name, expressions=[e.copy() for e in generator.expressions])
        return query.join(exp.Lateral(this=called, alias=alias), join_type="cross")
    if _only_in_from(generator):
        joined = exp.Lateral(this=generator.copy(), alias=alias)
        if outer:
            return query.join(joined, on=exp.true(), join_type="left")
        return query.join(joined, join_type="cross")
    lateral = exp.Lateral(this=generator.copy(), alias=alias, view=True, outer=outer)
    query.set("laterals", [lateral])
    return query


def generate(
    node: Node, generator: exp.Expr, aliases: Sequence[str], outer: bool, env: Environment
) -> tuple[Generate, tuple[str, ...]]:
    """The node's rows with what a generator over its columns makes of each, and the names of that.

    `aliases` name the generated columns; without them they have the names that Spark gives.
    """
    around = tuple(f for _, fields in env.outer for f in fields)
    needed = columns_in(generator) - set(node.names)
    schema = (*node.schema, *(f for f in around if f.name in needed))
    generated = env.analyzer.generated(schema, generator)
    written = tuple(aliases) or tuple(f.name for f in generated)
    fields = tuple(
        Field(env.names.fresh(name), f.type) for name, f in zip(written, generated, strict=True)
    )
    made = tuple(f.name for f in fields)
    return Generate((*node.schema, *fields), node, generator, made, outer), written
