"""From syntax tree to logical plan.

The tree is the query as written; Spark has analysed it, so names exist and types fit. Here names
become unique columns, and each clause becomes a node. A node of the tree that is not known is
refused with its position.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_incr.plan.context import Analyzer, Context
from spark_incr.plan.environment import Built, Catalog, Cte, Environment
from spark_incr.plan.nodes import Node
from spark_incr.plan.ordering import inherits_order, limited_result
from spark_incr.plan.pipes import build_pipe
from spark_incr.plan.recursion import is_recursive
from spark_incr.plan.relations import build_constant
from spark_incr.plan.scope import Names, spelled
from spark_incr.plan.select import build_select
from spark_incr.plan.set_operations import build_set_operation
from spark_incr.plan.syntax import refuse_clauses, unsupported, words
from spark_incr.plan.unknown_memberships import negates_memberships
from spark_incr.sql.pipes import Piped


def build_plan(query: exp.Query, catalog: Catalog, analyzer: Analyzer) -> Node:
    """The logical plan of a query; output columns are positional."""
    context = Context(analyzer, Names())
    plan = _query(query.copy(), Environment(catalog, context, _query)).node
    if negates_memberships(plan, context.memberships.__contains__):
        context = Context(analyzer, Names(), negations=True)
        plan = _query(query, Environment(catalog, context, _query)).node
    return plan


def _query(query: exp.Expr, env: Environment) -> Built:
    env = _with_ctes(query, env)
    if isinstance(query, exp.Subquery):
        refuse_clauses(query, {"this", "alias", "with_", "order", "limit", "offset"})
        inherits = inherits_order(query, env)
        inner = env.sorted_query(query.this) if inherits else env.query(query.this)
        return limited_result(query, inner, env)
    if isinstance(query, exp.Select):
        return build_select(query, env)
    if isinstance(query, exp.SetOperation):
        return build_set_operation(query, env)
    if isinstance(query, Piped):
        return build_pipe(query, env)
    if isinstance(query, exp.Values):
        return build_constant(query, env)
    raise unsupported(query, words(query))


def _with_ctes(query: exp.Expr, env: Environment) -> Environment:
    clause = query.args.get("with_") or query.args.get("with")
    if clause is None:
        return env
    ctes = env.ctes
    for cte in clause.expressions:
        recursive = bool(clause.args.get("recursive")) and is_recursive(cte)
        ctes = {**ctes, spelled(cte.alias): Cte(cte, ctes, env.outer, recursive)}
    return replace(env, ctes=ctes)
