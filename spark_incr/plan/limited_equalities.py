"""LIMIT in a correlated subquery where Spark takes it of all rows, and not of those of each outer row.

Spark takes an equality of a column with what is computed of the outer row out of the subquery, above
the LIMIT; so it does where types differ, since then one side is converted. A column that is compared
with one of the outer query as it is, and any other condition, stays below:

    (SELECT n FROM u WHERE u.k = t.k + 1 ORDER BY n LIMIT 1)    is NULL but for one k

That is no meaning that a view could keep: it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.errors import error
from spark_incr.plan.nodes import Filter, Limit, Node, columns_in, conjuncts, walk
from spark_incr.plan.types import as_string

_HINT = (
    "Compare columns of one type as they are: compute the value as a column of a subquery in the "
    "outer FROM, and compare with that."
)


def refuse_limited_equalities(node: Node, outer: Mapping[str, T.DataType | None]) -> None:
    """Refuse a LIMIT that Spark does not take per row of the outer query.

    `outer` are the columns of the outer query with their types, None for one that Spark converts.
    """
    limits = [part for part in walk(node) if isinstance(part, Limit)]
    below = {part for limit in limits for part in walk(limit) if isinstance(part, Filter)}
    for part in below:
        if any(_is_pulled(condition, part.input, outer) for condition in conjuncts(part.condition)):
            what = "LIMIT above an equality with what is computed of the outer query"
            raise error("INCR_UNSUPPORTED", what=what, hint=_HINT)


def _is_pulled(condition: exp.Expr, rows: Node, outer: Mapping[str, T.DataType | None]) -> bool:
    condition = condition.unnest()
    equality: tuple[type[exp.Binary], ...] = (exp.EQ, exp.NullSafeEQ)
    if isinstance(condition, exp.Not):
        condition, equality = condition.this.unnest(), (exp.NEQ, exp.NullSafeNEQ)
    if not isinstance(condition, equality):
        return False
    sides = [side.unnest() for side in (condition.left, condition.right)]
    for there, here in (sides, sides[::-1]):
        inner = here.this.unnest() if isinstance(here, exp.Cast) else here
        is_column = isinstance(inner, exp.Column) and inner.name in rows.names
        if not is_column or not columns_in(there) or not columns_in(there) <= outer.keys():
            continue
        type_ = outer[there.name] if isinstance(there, exp.Column) else None
        return type_ is None or here is not inner or not _same(type_, rows.type_of(inner.name))
    return False


def _same(one: T.DataType, other: T.DataType) -> bool:
    return as_string(one) == as_string(other)
