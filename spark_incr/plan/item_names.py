"""Names of items to which a SELECT gives none: Spark derives them from the way they are written.

The query around may use such a name, in backticks, and NATURAL JOIN compares it: `count(1)` of two
sides is one column, `count(1)` and `sum(b)` are two. Spark says the names, for the SELECT over
empty relations of the columns that it reads. Where it cannot, for what the item reads is not there,
the item is UNNAMED, which no query can write.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.errors import PySparkException
from sqlglot import exp

from spark_incr.plan.environment import Environment
from spark_incr.plan.generators import is_generator
from spark_incr.plan.nodes import Node
from spark_incr.plan.scope import Bound, Scope, Visible
from spark_incr.plan.stars import Items
from spark_incr.plan.syntax import unsupported
from spark_incr.plan.types import type_sql
from spark_incr.sql.dialect import print_sql, quoted

UNNAMED = "__incr_unnamed"
_NAMED = (exp.Alias, exp.Aliases, exp.Column, exp.Star, exp.Literal)


def is_relation(select: exp.Select) -> bool:
    """Whether the rows of a SELECT are what a query reads from, so that its names can be written."""
    around = select.parent
    while isinstance(around, (exp.Subquery, exp.SetOperation)):
        around = around.parent
    return isinstance(around, (exp.From, exp.Join, exp.CTE, exp.Lateral))


def with_derived_names(
    written: exp.Select, items: Items, source: tuple[Node, Scope], env: Environment
) -> Items:
    """The items of a SELECT that is `written` within a query, under the names that Spark gives them."""
    own = {id(e) for _, e in items if not isinstance(e, (*_NAMED, Bound)) and not is_generator(e)}
    own &= {id(e) for e in written.expressions}
    if not own:
        return items
    names = _names(written, *source, env)
    known = len(names) == len(items)
    return [
        (names[i] if known else UNNAMED, e) if id(e) in own else (name, e)
        for i, (name, e) in enumerate(items)
    ]


def refuse_unnamed(columns: Iterable[Visible], place: exp.Expr) -> None:
    """Refuse to compare names of which one is not known."""
    if any(c.name == UNNAMED for c in columns):
        hint = "Give each item of SELECT an alias."
        raise unsupported(place, "NATURAL JOIN of columns without a name", hint)


def _names(select: exp.Select, node: Node, scope: Scope, env: Environment) -> list[str]:
    relations: dict[tuple[str, ...], list[str]] = {}
    for v in scope.star(None):
        value = f"CAST(NULL AS {type_sql(node.type_of(v.column))}) AS {quoted(v.name)}"
        relations.setdefault(v.qualifier, []).append(value)
    text = f"SELECT {', '.join(map(print_sql, select.expressions))}"
    if relations:
        sources = (
            f"(SELECT {', '.join(columns)})" + (f" AS {quoted(qualifier[-1])}" if qualifier else "")
            for qualifier, columns in relations.items()
        )
        text += f" FROM {', '.join(sources)}"
    if select.args.get("group"):
        text += print_sql(select.args["group"])
    try:
        return [f.name for f in env.analyzer.query_schema(text)]
    except PySparkException:
        return []
