"""Strings with a collation: kept as they were written, equal and in order as the collation says.

    x = y  and  x < y   as   key(x) = key(y)  and  key(x) < key(y)

Spark can give the key, as bytes; that of an array, a struct or a map has the keys of its parts. Wherever rows
meet by a value (groups, joins, partitions, sort keys) the key takes its place; expressions over the
strings are Spark's. Of the strings that are one group the least one is shown, byte by byte: Spark
shows the one that it meets first.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.errors import IncrementalError, error
from spark_incr.plan.context import Context
from spark_incr.plan.nodes import (
    Aggregate,
    Join,
    Limit,
    Node,
    Project,
    Reapply,
    Rederive,
    Window,
    column,
)
from spark_incr.plan.scope import folded
from spark_incr.plan.stages import AggregateStage
from spark_incr.plan.types import Field, is_collated, parts, with_parts

COLLATION_KEY = "__INCR_COLLATION_KEY"
_ELEMENT = "__incr_element"
_HINT = "Convert it: lower(... COLLATE UTF8_BINARY), for example."


def collation_key(value: exp.Expr, spark_type: T.DataType, depth: int = 0) -> exp.Expr:
    """The value with the bytes by which they are compared in the place of its strings."""
    if not is_collated(spark_type):
        return value
    if isinstance(spark_type, T.ArrayType):
        element = exp.to_identifier(f"{_ELEMENT}{depth}")
        body = collation_key(element.copy(), spark_type.elementType, depth + 1)
        each = exp.Lambda(this=body, expressions=[element])
        return exp.Anonymous(this="transform", expressions=[value, each])
    if isinstance(spark_type, T.MapType):
        for function, number, kind in (
            ("transform_keys", 0, spark_type.keyType),
            ("transform_values", 1, spark_type.valueType),
        ):
            entry = [exp.to_identifier(f"{_ELEMENT}{depth + i}") for i in range(2)]
            body = collation_key(entry[number].copy(), kind, depth + 2)
            each = exp.Lambda(this=body, expressions=entry)
            if is_collated(kind):
                value = exp.Anonymous(this=function, expressions=[value, each])
        return value
    if isinstance(spark_type, T.StructType):
        fields: list[exp.Expr] = []
        for f in spark_type.fields:
            name = exp.to_identifier(f.name, quoted=True)
            part = exp.Dot(this=exp.Paren(this=value.copy()), expression=name)
            own = collation_key(part, f.dataType, depth)
            fields += [exp.Literal.string(f.name), own]
        absent = exp.Is(this=exp.Paren(this=value.copy()), expression=exp.null())
        keys = exp.Anonymous(this="named_struct", expressions=fields)
        return exp.Case(ifs=[exp.If(this=exp.Not(this=absent), true=keys)])
    return exp.Anonymous(this=COLLATION_KEY, expressions=[value])


def has_key(spark_type: T.DataType) -> bool:
    """Whether values of the type are compared by a key: strings, and what holds them.

    A field of a struct has to have a name of its own, for it is read by its name.
    """
    inside = list(parts(spark_type))
    structs = [part.names for part in inside if isinstance(part, T.StructType)]
    told = all(len(set(map(folded, names))) == len(names) for names in structs)
    return is_collated(spark_type) and told


def key_type(spark_type: T.DataType) -> T.DataType:
    """The type of the key of a value."""
    return with_parts(spark_type, lambda part: T.BinaryType() if is_collated(part) else part)


def with_keys(node: Node, names: Iterable[str], context: Context) -> tuple[Node, dict[str, str]]:
    """The node with a key for each of these columns that needs one, and the names of the keys."""
    keys = {
        name: context.names.fresh(f"{name}_key") for name in names if has_key(node.type_of(name))
    }
    if not keys:
        return node, {}
    added = tuple(Field(key, key_type(node.type_of(n))) for n, key in keys.items())
    own = (collation_key(column(n), node.type_of(n)) for n in keys)
    values = (*(column(n) for n in node.names), *own)
    return Project((*node.schema, *added), node, values), keys


def in_collation(value: exp.Expr, target: T.StringType) -> exp.Expr:
    """A string with another collation."""
    name = exp.to_identifier(target.collation)
    return exp.Collate(this=exp.Paren(this=value), expression=name)


def check_keys(plan: Iterable[Node]) -> None:
    """Refuse keys that are compared in a way that only Spark knows: structs of strings with a collation
    that have two fields of one name, and NULLs without a type, which no join of Spark's finds equal by
    `<=>`."""
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
        case Window() | Reapply() | Rederive():
            names = list(node.keys)
        case Limit():
            names = [*node.keys, *(key.column for key in node.order)]
    return [(name, node.inputs[0].type_of(name)) for name in names]
