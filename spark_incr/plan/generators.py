"""Functions that make several rows of one: explode, posexplode, inline, stack, json_tuple."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spark_incr.plan.context import Context
from spark_incr.plan.nodes import RELATION, Generate, Node, column
from spark_incr.plan.types import Field

_NAMES = frozenset(["stack", "json_tuple", "explode_outer", "posexplode_outer", "inline_outer"])


def is_generator(node: exp.Expr) -> bool:
    """Whether a node is a generator function."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _NAMES
    return isinstance(
        node, (exp.Explode, exp.ExplodeOuter, exp.Posexplode, exp.PosexplodeOuter, exp.Inline)
    )


def generate(
    node: Node, generator: exp.Expr, aliases: Sequence[str], outer: bool, context: Context
) -> tuple[Generate, tuple[str, ...]]:
    """The node's rows with what a generator over its columns makes of each, and the names of that.

    `aliases` name the generated columns; without them they have the names that Spark gives.
    """
    weight = "__incr_w"
    generated = context.analyzer.generated(node.schema, generator)
    written = tuple(aliases) or tuple(f.name for f in generated)
    names = [context.names.fresh(name) for name in written]
    lateral = exp.Lateral(
        this=generator,
        view=True,
        outer=outer,
        alias=exp.TableAlias(
            this=exp.to_identifier("__incr_generated"),
            columns=[exp.to_identifier(name, quoted=True) for name in names],
        ),
    )
    query = exp.select(
        *(column(n) for n in node.names), *(column(n) for n in names), column(weight)
    ).from_(exp.to_table(RELATION))
    query.set("laterals", [lateral])
    fields = tuple(Field(n, f.type) for n, f in zip(names, generated, strict=True))
    return Generate((*node.schema, *fields), node, query), written
