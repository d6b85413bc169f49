"""From an AST to an evaluator: compile(f(x, y)) = kernel_f(compile(x), compile(y)), or None.

None for any part is None for the whole, so an evaluator never calls Spark.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_incr.plan.types import arrow_type, is_collated
from spark_incr.runtime.expressions import (
    arithmetic,
    bits,
    casts,
    comparison,
    conditional,
    dates,
    literals,
    mathematics,
    nested,
    rounding,
    strings,
)
from spark_incr.runtime.expressions.registry import (
    Call,
    Compiled,
    Evaluate,
    Settings,
    Types,
    rule_of,
)
from spark_incr.sql.dialect import print_sql

# Importing a module of kernels registers them.
MODULES = (
    arithmetic,
    bits,
    casts,
    comparison,
    conditional,
    dates,
    literals,
    mathematics,
    nested,
    rounding,
    strings,
)


def compile_expression(expression: exp.Expr, types: Types, settings: Settings) -> Evaluate | None:
    """An evaluator that equals Spark's evaluation of the expression, or None."""
    if not _collect(expression, {}):
        return None
    compiled = _compile(expression, types, settings)
    return None if compiled is None else compiled.evaluate


def subexpressions(expression: exp.Expr) -> list[exp.Expr]:
    """Every node whose type compiling will ask for; none if the expression has no kernel anyway."""
    found: dict[str, exp.Expr] = {}
    return list(found.values()) if _collect(expression, found) else []


def _collect(node: exp.Expr, found: dict[str, exp.Expr]) -> bool:
    if isinstance(node, exp.Paren):
        return _collect(node.this, found)
    if literals.literal_of(node) is not None:
        return True
    rule = rule_of(node)
    operands = None if rule is None else rule.operands(node)
    if operands is None or not all(_collect(operand, found) for operand in operands):
        return False
    found.setdefault(print_sql(node), node)
    return True


def _compile(node: exp.Expr, types: Types, settings: Settings) -> Compiled | None:
    if isinstance(node, exp.Paren):
        return _compile(node.this, types, settings)
    constant = literals.literal_of(node)
    if constant is not None:
        return replace(constant, is_written=True)
    rule = rule_of(node)
    parts = None if rule is None else rule.operands(node)
    if rule is None or parts is None:
        return None
    operands = []
    for part in parts:
        operand = _compile(part, types, settings)
        if operand is None:
            return None
        operands.append(operand)
    spark_type = types(node)
    if spark_type is None or arrow_type(spark_type) is None:
        return None
    if is_collated(spark_type) or any(is_collated(operand.type) for operand in operands):
        return None
    found = rule.kernel(Call(node, spark_type, tuple(operands), settings))
    return None if found is None else replace(found, is_written=False)
