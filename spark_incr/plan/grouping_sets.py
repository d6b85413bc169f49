"""GROUPING SETS, ROLLUP and CUBE: γ over the rows once per set.

    γ sets S1..Sn (R) = γ k,i ( ⊎i π k where k ∈ Si, else NULL; i (R) )

The number of the set keeps groups of different sets apart, also where their keys are NULL.
"""

from __future__ import annotations

from itertools import chain, combinations, product

import pyspark.sql.types as T
from sqlglot import exp, parse_one

from spark_incr.plan.context import Context
from spark_incr.plan.joins import cast_to
from spark_incr.plan.nodes import Node, Project, UnionAll, column
from spark_incr.plan.scope import spelled
from spark_incr.plan.syntax import is_subquery, outermost_windows, transformed
from spark_incr.plan.types import Field

Set = tuple[exp.Expr, ...]
GROUPING_ID = "grouping__id"
"""The name by which Hive, and so Spark, reads grouping_id() where no column has it."""


def sets_of(group: exp.Group) -> tuple[list[exp.Expr], list[Set]] | None:
    """The keys of a GROUP BY and its sets of keys, as written; None if it has no sets."""
    plain = [e for e in group.expressions if not _is_sets(e)]
    if group.args.get("grouping_sets"):
        (sets,) = group.args["grouping_sets"]
        return plain, [_parts(e) for e in sets.expressions]
    if group.args.get("rollup"):
        return plain, _prefixes([(e,) for e in plain])
    if group.args.get("cube"):
        return plain, _subsets([(e,) for e in plain])
    if len(plain) == len(group.expressions):
        return None
    choices = [_choices(e) for e in group.expressions]
    sets = [tuple(dict.fromkeys(chain(*choice))) for choice in product(*choices)]
    keys = list(dict.fromkeys(chain(*(chain(*c) for c in choices))))
    return keys, sets


def is_total(sets: tuple[list[exp.Expr], list[Set]] | None) -> bool:
    """Whether sets are one without a key: a row of all rows, also where there are none."""
    return sets == ([], [()])


def havings_beside_windows(tree: exp.Expr) -> int:
    """How many SELECTs of a query have HAVING and windows over GROUPING SETS."""
    return sum(map(_has_both, tree.find_all(exp.Select)))


def _has_both(select: exp.Select) -> bool:
    group = select.args.get("group")
    if group is None or select.args.get("having") is None:
        return False
    sets = sets_of(group)
    clauses = [*select.expressions, select.args.get("qualify"), select.args.get("order")]
    windows = any(outermost_windows(clause) for clause in clauses if clause is not None)
    return sets is not None and not is_total(sets) and windows


def _is_sets(node: exp.Expr) -> bool:
    return isinstance(node, (exp.GroupingSets, exp.Rollup, exp.Cube))


def _parts(node: exp.Expr) -> Set:
    node = node.unnest()
    return tuple(node.expressions) if isinstance(node, exp.Tuple) else (node,)


def _choices(node: exp.Expr) -> list[Set]:
    if isinstance(node, exp.Rollup):
        return _prefixes([_parts(e) for e in node.expressions])
    if isinstance(node, exp.Cube):
        return _subsets([_parts(e) for e in node.expressions])
    if isinstance(node, exp.GroupingSets):
        nested = (_choices(e) if _is_sets(e) else [_parts(e)] for e in node.expressions)
        return list(chain(*nested))
    return [(node,)]


def _prefixes(parts: list[Set]) -> list[Set]:
    return [tuple(chain(*parts[:n])) for n in range(len(parts), -1, -1)]


def _subsets(parts: list[Set]) -> list[Set]:
    sizes = range(len(parts), -1, -1)
    return [tuple(chain(*chosen)) for n in sizes for chosen in combinations(parts, n)]


def expand(
    rows: Node,
    keys: list[tuple[str, str]],
    sets: list[list[bool]],
    grouping_id: str,
    number: str,
    context: Context,
) -> UnionAll:
    """The rows once per set, with keys under names of their own, the set's bits and its number.

    `keys` pairs a column with the name of its copy; a set says for each key whether it is in. The
    bits of the grouping id are set for the keys that are not, the first key highest.
    """
    bigint, integer = T.LongType(), T.IntegerType()
    copies = tuple(Field(copy, rows.type_of(key)) for key, copy in keys)
    schema = (*rows.schema, *copies, Field(grouping_id, bigint), Field(number, integer))
    inputs = []
    for i, inside in enumerate(sets):
        bits = sum(1 << (len(keys) - 1 - k) for k, here in enumerate(inside) if not here)
        expressions = [
            *(column(n) for n in rows.names),
            *(
                column(key) if here else cast_to(exp.null(), T.NullType(), rows.type_of(key))
                for (key, _), here in zip(keys, inside, strict=True)
            ),
            parse_one(f"CAST({bits} AS BIGINT)", read="spark"),
            exp.Literal.number(i),
        ]
        fresh = tuple(Field(context.names.fresh(f.name), f.type) for f in schema)
        inputs.append(Project(fresh, rows, tuple(expressions)))
    return UnionAll(schema, tuple(inputs))


def with_grouping_id(expression: exp.Expr) -> exp.Expr:
    """An expression with grouping_id() for its name; subqueries stay as they are."""

    def change(node: exp.Expr) -> exp.Expr:
        named = isinstance(node, exp.Column) and len(node.parts) == 1
        if named and spelled(node.name) == GROUPING_ID:
            return exp.GroupingId()
        return node.copy() if is_subquery(node) else node

    return transformed(expression, change)


def grouping_bit(grouping_id: str, position: int, count: int) -> exp.Expr:
    """grouping(key): 1 where the key is not in the row's set."""
    shift = count - 1 - position
    text = f"CAST(SHIFTRIGHT({column(grouping_id).sql('spark')}, {shift}) & 1 AS TINYINT)"
    return parse_one(text, read="spark")
