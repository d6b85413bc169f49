"""Which expressions have a value for every row: the *total* ones.

Any other may fail (`10 / x`, `CAST(s AS INT)`), and an error of a row that Spark does not look at is
wrong. So an expression that is not total is evaluated for no more rows than the query says.

The answer is on the safe side: an expression counts as total if it is made of columns, constants,
logic, and comparisons for which Spark converts nothing, or only in a way that cannot fail.
"""

from __future__ import annotations

import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.context import Context
from spark_incr.plan.types import DIGITS, FLOATS, INTEGERS, Schema, as_string

_COMPARISONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_CONSTANTS = (exp.Literal, exp.Boolean, exp.Null)
_TIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)
_MOST_DIGITS = 38


def is_total(expression: exp.Expr, schema: Schema, context: Context) -> bool:
    """Whether an expression over columns has a value for every row."""
    compared = _compared(expression)
    if compared is None:
        return False
    operands = [side for pair in compared for side in pair]
    types = iter(context.analyzer.types(schema, operands)) if operands else iter(())
    return all(_converts_all(here, next(types), there, next(types)) for here, there in compared)


def _compared(node: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]] | None:
    """The pairs of operands that an expression compares, None if it does anything else with them."""
    if isinstance(node, (exp.Column, *_CONSTANTS)):
        return []
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return []
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    parts = [node.this]
    if isinstance(node, _COMPARISONS):
        parts = [node.left, node.right]
        pairs = [(node.left, node.right)]
    elif isinstance(node, exp.Between):
        parts = [node.this, node.args["low"], node.args["high"]]
        pairs = [(parts[0], bound) for bound in parts[1:]]
    elif isinstance(node, exp.In) and node.expressions:
        parts = [node.this, *node.expressions]
        pairs = [(node.this, item) for item in node.expressions]
    elif isinstance(node, (exp.And, exp.Or)):
        parts = [node.left, node.right]
    elif not isinstance(node, (exp.Not, exp.Paren)) and not (
        isinstance(node, exp.Is) and isinstance(node.expression, (exp.Null, exp.Boolean))
    ):
        return None
    for part in parts:
        inside = _compared(part)
        if inside is None:
            return None
        pairs += inside
    return pairs


def _converts_all(here: exp.Expr, one: T.DataType, there: exp.Expr, other: T.DataType) -> bool:
    """Whether every value of two types can be converted to the type in which they are compared."""
    one, other = as_string(one), as_string(other)
    if one == other or T.NullType() in (one, other):
        return True
    if isinstance(one, _TIMES) and isinstance(other, _TIMES):
        return True
    if isinstance(one, T.StringType) or isinstance(other, T.StringType):
        # A text is converted to the other type; that of a literal is so once, for all rows.
        text = here if isinstance(one, T.StringType) else there
        return isinstance(text, exp.Literal)
    if isinstance(one, FLOATS) or isinstance(other, FLOATS):
        return _is_number(one) and _is_number(other)
    if not (_is_number(one) and _is_number(other)):
        return False
    if isinstance(one, INTEGERS) and isinstance(other, INTEGERS):
        return True
    whole = max(_whole_digits(one), _whole_digits(other))
    return whole + max(_scale(one), _scale(other)) <= _MOST_DIGITS


def _is_number(type_: T.DataType) -> bool:
    return isinstance(type_, (*INTEGERS, *FLOATS, T.DecimalType))


def _whole_digits(type_: T.DataType) -> int:
    if isinstance(type_, T.DecimalType):
        return type_.precision - type_.scale
    return DIGITS[type(type_)]


def _scale(type_: T.DataType) -> int:
    return type_.scale if isinstance(type_, T.DecimalType) else 0
