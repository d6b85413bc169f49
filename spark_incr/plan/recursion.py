"""WITH RECURSIVE: the relations that the recursion reads are kept, and Spark runs it anew.

A batch that touches any of them recomputes the recursion, not the query around it: what changed in
its result goes on as a change batch. A LIMIT right above a recursion ends it, and so is part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from spark_incr.plan.context import Context
from spark_incr.plan.environment import Built, Cte, Environment
from spark_incr.plan.nodes import RELATION, Node, Recompute
from spark_incr.plan.scope import Scope, spelled
from spark_incr.plan.syntax import unsupported
from spark_incr.plan.types import Field
from spark_incr.sql.dialect import print_sql, quoted

Table = Callable[[exp.Table, Environment], tuple[Node, Scope]]


def is_recursive(cte: exp.CTE) -> bool:
    """Whether the definition of a CTE reads itself."""
    return any(_is_name(table, cte.alias) for table in cte.this.find_all(exp.Table))


def _is_name(table: exp.Table, name: str) -> bool:
    return len(table.parts) == 1 and spelled(table.name) == spelled(name)


def build_recursion(
    cte: Cte, env: Environment, table_plan: Table, first: int | None = None
) -> Built:
    """The plan of a recursive CTE, or of its first rows: one operator over all that it reads."""
    definition = cte.definition.copy()
    inside = replace(env, ctes=cte.ctes, outer=())
    own = {spelled(c.alias) for c in definition.this.find_all(exp.CTE)}
    inputs: dict[str, Input] = {}
    for table in list(definition.this.find_all(exp.Table)):
        if _is_name(table, definition.alias) or isinstance(table.this, exp.Func):
            continue
        parts = tuple(part.name for part in table.parts)
        if len(parts) == 1 and spelled(parts[0]) in own:
            if spelled(parts[0]) in cte.ctes or env.catalog.relation(parts) is not None:
                raise unsupported(table, f"the CTE {table.name}, which hides a relation, here")
            continue
        key = ".".join(map(spelled, parts))
        if key not in inputs:
            node, scope = table_plan(exp.Table(**_bare(table).args), inside)
            names = tuple(v.name for v in scope.columns)
            inputs[key] = (f"{RELATION}_{len(inputs)}", node, names)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(parts[-1], quoted=True)))
        table.set("this", exp.to_identifier(inputs[key][0], quoted=True))
        table.set("db", None)
        table.set("catalog", None)
    query = f"WITH RECURSIVE {print_sql(definition)} SELECT * FROM {quoted(definition.alias)}"
    query += "" if first is None else f" LIMIT {first}"
    return recompute(tuple(inputs.values()), query, env.context, "affected", "recursion")


Input = tuple[str, Node, tuple[str, ...]]
"""The name under which a query reads a relation, its plan, and the names of its columns."""


def recompute(
    inputs: Sequence[Input], query: str, context: Context, tier: str, reason: str
) -> Built:
    """The plan of a query that is run anew over all rows of its inputs."""
    fields = context.analyzer.output(
        query,
        {
            relation: tuple(Field(n, f.type) for n, f in zip(names, node.schema, strict=True))
            for relation, node, names in inputs
        },
    )
    node = Recompute(
        tuple(Field(context.names.fresh(f.name), f.type) for f in fields),
        tuple(node for _, node, _ in inputs),
        tuple((relation, names) for relation, _, names in inputs),
        query,
        tier,
        reason,
    )
    return Built(node, tuple(f.name for f in fields))


def _bare(table: exp.Table) -> exp.Table:
    bare = table.copy()
    for clause in ("alias", "joins", "pivots"):
        bare.set(clause, None)
    return bare
