"""Columns and literals: the leaves, whose types need no analysis of an expression.

The types of number literals are Spark's: the first of INT, BIGINT and DECIMAL that holds a whole
number, DECIMAL with just the digits written if there is a point, DOUBLE if there is an exponent.
"""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.types import arrow_type
from spark_incr.runtime.expressions.decimals import MAX_PRECISION
from spark_incr.runtime.expressions.registry import Call, Compiled, kernel, literal, null

_WHOLE = re.compile(r"-?\d+")
_POINT = re.compile(r"-?(\d+\.\d*|\.\d+)")
_EXPONENT = re.compile(r"-?(\d+(\.\d*)?|\.\d+)[eE][+-]?\d+")
_INTERVAL_UNITS = {"WEEK": 604_800, "DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}


def literal_of(node: exp.Expr) -> Compiled | None:
    """The constant that a literal node is, or None for any other node."""
    if isinstance(node, exp.Null):
        return null(T.NullType())
    if isinstance(node, exp.Boolean):
        return literal(pa.scalar(bool(node.this)), T.BooleanType())
    if isinstance(node, exp.RawString):
        return literal(pa.scalar(node.this, pa.string()), T.StringType())
    if isinstance(node, exp.Literal):
        if node.is_string:
            return literal(pa.scalar(node.this, pa.string()), T.StringType())
        return _number(node.this)
    if isinstance(node, exp.Interval):
        return _interval(node)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return None if node.this.is_string else _number("-" + node.this.this)
    return None


def _interval(node: exp.Interval) -> Compiled | None:
    """A whole number of one unit of fixed length."""
    unit, count = node.args.get("unit"), node.this
    if not isinstance(unit, exp.Var) or not isinstance(count, exp.Literal):
        return None
    size = _INTERVAL_UNITS.get(unit.name.upper().removesuffix("S"))
    if size is None or not _WHOLE.fullmatch(count.this):
        return None
    length = int(count.this) * size * 1_000_000
    if abs(length) >= 2**63:
        return None
    return literal(pa.scalar(length, pa.duration("us")), T.DayTimeIntervalType())


def _number(text: str) -> Compiled | None:
    if _EXPONENT.fullmatch(text):
        return literal(pa.scalar(float(text), pa.float64()), T.DoubleType())
    if _WHOLE.fullmatch(text):
        whole = int(text)
        if -(2**31) <= whole < 2**31:
            return literal(pa.scalar(whole, pa.int32()), T.IntegerType())
        if -(2**63) <= whole < 2**63:
            return literal(pa.scalar(whole, pa.int64()), T.LongType())
    elif not _POINT.fullmatch(text):
        return None
    scale = len(text.partition(".")[2])
    digits = str(abs(int(text.replace(".", ""))))
    precision = max(len(digits), scale)
    if precision > MAX_PRECISION:
        return None
    spark_type = T.DecimalType(precision, scale)
    return literal(pa.scalar(Decimal(text), arrow_type(spark_type)), spark_type)


def _bare_name(node: exp.Expr) -> list[exp.Expr] | None:
    alone = not any(value for key, value in node.args.items() if key != "this")
    return [] if alone and isinstance(node.this, exp.Identifier) else None


@kernel(
    exp.Column, words="a column of the input, of any type that can be kept", operands=_bare_name
)
def column(call: Call) -> Compiled | None:
    name = call.node.name
    return Compiled(call.type, lambda columns, n: columns[name], frozenset((name,)))
