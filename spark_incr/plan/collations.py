"""Strings with a collation: kept as they were written, equal and in order as the collation says.

    x = y  and  x < y   as   key(x) = key(y)  and  key(x) < key(y)

Spark can give the key, as bytes. Wherever rows meet by a value (groups, joins, partitions, sort keys)
the key takes its place; expressions over the strings are Spark's. Of the strings that are one group
the least one is shown, byte by byte: Spark shows the one that it meets first.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.errors import IncrementalError, error
from spark_incr.plan.context import Context
from spark_incr.plan.nodes import Aggregate, Join, Limit, Node, Project, Rederive, Window, column
from spark_incr.plan.stages import AggregateStage
from spark_incr.plan.types import Field, is_collated

COLLATION_KEY = "__INCR_COLLATION_KEY"
_HINT = "Convert it: lower(... COLLATE UTF8_BINARY), for example."


def collation_key(value: exp.Expr) -> exp.Expr:
    """The bytes by which a string with a collation is compared."""
    return exp.Anonymous(this=COLLATION_KEY, expressions=[value])


def has_key(spark_type: T.DataType) -> bool:
    """Whether values of the type are compared by a key; what holds such strings has none."""
    return isinstance(spark_type, T.StringType) and is_collated(spark_type)


def with_keys(node: Node, names: Iterable[str], context: Context) -> tuple[Node, dict[str, str]]:
    """The node with a key for each of these columns that needs one, and the names of the keys."""
    keys = {
        name: context.names.fresh(f"{name}_key") for name in names if has_key(node.type_of(name))
    }
    if not keys:
        return node, {}
    added = tuple(Field(key, T.BinaryType()) for key in keys.values())
    values = (*(column(n) for n in node.names), *(collation_key(column(n)) for n in keys))
    return Project((*node.schema, *added), node, values), keys


def in_collation(value: exp.Expr, target: T.StringType) -> exp.Expr:
    """A string with another collation."""
    name = exp.to_identifier(target.collation)
    return exp.Collate(this=exp.Paren(this=value), expression=name)


def check_keys(plan: Iterable[Node]) -> None:
    """Refuse keys that are compared in a way that only Spark knows: what holds strings with a
    collation, and NULLs without a type, which no join of Spark's finds equal by `<=>`."""
    for node in plan:
        if isinstance(node, Join) and not node.exact:
            for (name, _), safe in zip(node.keys, node.null_safe, strict=False):
                if safe and isinstance(node.left.type_of(name), T.NullType):
                    what = "<=> of NULLs without a type"
                    raise error("INCR_UNSUPPORTED", what=what, hint="Cast them to a type.")
        for name, kind in _keys(node):
            if is_collated(kind):
                raise uncompared(name, kind)


def uncompared(name: str, kind: T.DataType) -> IncrementalError:
    """The refusal of a column where rows would meet by it."""
    what = f"{name} of type {kind.simpleString()} as a key"
    return error("INCR_UNSUPPORTED", what=what, hint=_HINT)


def _keys(node: Node) -> list[tuple[str, T.DataType]]:
    names: list[str] = []
    match node:
        case Join() if not node.exact:
            return [(a, node.left.type_of(a)) for a, _ in node.keys]
        case Aggregate() | AggregateStage() if not node.exact:
            names = list(node.keys)
        case Window() | Rederive():
            names = list(node.keys)
        case Limit():
            names = [*node.keys, *(key.column for key in node.order)]
    return [(name, node.inputs[0].type_of(name)) for name in names]
