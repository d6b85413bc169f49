"""Aggregate functions of Spark as the plan names them.

`read_call` recognises an aggregate in a sqlglot tree and returns its function, arguments and
constants. `FUNCTIONS` says which tier maintains each function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from spark_incr.plan.functions import AGGREGATE

HOMOMORPHIC = "homomorphic"
MULTISET = "multiset"
# The function of a call that is evaluated as it was written, over the rows of its group.
AFFECTED = "affected"

FUNCTIONS: dict[str, str] = {
    "count": HOMOMORPHIC,
    "count_if": HOMOMORPHIC,
    "sum": HOMOMORPHIC,
    "avg": HOMOMORPHIC,
    "var_pop": HOMOMORPHIC,
    "var_samp": HOMOMORPHIC,
    "stddev_pop": HOMOMORPHIC,
    "stddev_samp": HOMOMORPHIC,
    "covar_pop": HOMOMORPHIC,
    "covar_samp": HOMOMORPHIC,
    "corr": HOMOMORPHIC,
    "bool_and": HOMOMORPHIC,
    "bool_or": HOMOMORPHIC,
    "bit_xor": HOMOMORPHIC,
    "bit_and": MULTISET,
    "bit_or": MULTISET,
    "min": MULTISET,
    "max": MULTISET,
    "min_by": MULTISET,
    "max_by": MULTISET,
    "any_value": MULTISET,
    "first": MULTISET,
    "last": MULTISET,
    "collect_list": MULTISET,
    "collect_set": MULTISET,
    "percentile": MULTISET,
    "median": MULTISET,
}

_BY_CLASS: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.CountIf: "count_if",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Any: "bool_or",
    exp.BitwiseXorAgg: "bit_xor",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.Min: "min",
    exp.Max: "max",
    exp.ArgMin: "min_by",
    exp.ArgMax: "max_by",
    exp.AnyValue: "any_value",
    exp.First: "first",
    exp.FirstValue: "first",
    exp.Last: "last",
    exp.LastValue: "last",
    exp.ArrayAgg: "collect_list",
    exp.ArrayUniqueAgg: "collect_set",
    exp.Median: "median",
}

_BY_NAME = {
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
    "bool_and": "bool_and",
    "bool_or": "bool_or",
    "std": "stddev_samp",
    "mean": "avg",
    "var_samp": "var_samp",
    "count_if": "count_if",
    "percentile": "percentile",
    "corr": "corr",
    "covar_pop": "covar_pop",
    "covar_samp": "covar_samp",
    "any_value": "any_value",
    "bit_xor": "bit_xor",
    "bit_and": "bit_and",
    "bit_or": "bit_or",
    "first_value": "first",
    "last_value": "last",
    "max_by": "max_by",
    "min_by": "min_by",
}

# Aggregates of Spark that sqlglot reads as plain calls and that have no tier of their own here.
OTHER_AGGREGATES = frozenset(
    [
        "approx_count_distinct",
        "approx_percentile",
        "percentile_approx",
        "count_min_sketch",
        "grouping",
        "grouping_id",
        "histogram_numeric",
        "kurtosis",
        "skewness",
        "listagg",
        "string_agg",
        "mode",
        "percentile_cont",
        "percentile_disc",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "try_avg",
        "try_sum",
        "hll_sketch_agg",
        "hll_union_agg",
        "bitmap_and_agg",
        "bitmap_construct_agg",
        "bitmap_or_agg",
        "approx_top_k",
        "approx_top_k_accumulate",
        "approx_top_k_combine",
        "collect_union",
        "kll_merge_agg_bigint",
        "kll_merge_agg_double",
        "kll_merge_agg_float",
        "kll_sketch_agg_bigint",
        "kll_sketch_agg_double",
        "kll_sketch_agg_float",
        "schema_of_variant_agg",
        "theta_intersection_agg",
        "theta_sketch_agg",
        "theta_union_agg",
        "tuple_intersection_agg_double",
        "tuple_intersection_agg_integer",
        "tuple_sketch_agg_double",
        "tuple_sketch_agg_integer",
        "tuple_union_agg_double",
        "tuple_union_agg_integer",
        "vector_avg",
        "vector_sum",
    ]
)


# Functions that only Spark evaluates over distinct rows.
_NOT_OF_DISTINCT = frozenset(
    """min_by max_by first last percentile median corr covar_pop covar_samp""".split()
)


@dataclass(frozen=True)
class Reading:
    """An aggregate call as written."""

    function: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool = False
    parameters: tuple[Any, ...] = ()


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node calls an aggregate function, known here or not."""
    if isinstance(node, exp.WithinGroup):
        return True
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        return name in _BY_NAME or name in OTHER_AGGREGATES or bool(node.meta.get(AGGREGATE))
    if isinstance(node, exp.Any):
        # LIKE ANY (...) is read as the same node over patterns.
        return isinstance(node.this, exp.Paren) and not isinstance(
            node.parent, (exp.Like, exp.ILike)
        )
    return isinstance(node, exp.AggFunc) or type(node) in _BY_CLASS


def _flag(node: exp.Expr | None) -> bool | None:
    return node.this if isinstance(node, exp.Boolean) else None


def _number(node: exp.Expr | None) -> float | None:
    if isinstance(node, exp.Literal) and not node.is_string:
        return float(node.this)
    return None


def read_call(node: exp.Expr) -> Reading | None:
    """What an aggregate call asks for, or None if no tier below `affected` knows it."""
    nulls = type(node) if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)) else None
    ignore_nulls = nulls is exp.IgnoreNulls
    if nulls is not None:
        node = node.this
    if isinstance(node, exp.Anonymous):
        function = _BY_NAME.get(node.name.lower())
        arguments = list(node.expressions)
    else:
        function = _BY_CLASS.get(type(node))
        arguments = _arguments(node)
    if function is None or any(arg is None for arg in arguments):
        return None
    distinct = False
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        distinct, arguments = True, list(arguments[0].expressions)
    if function == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        return Reading("count", (), False)
    if any(isinstance(arg, (exp.Order, exp.Limit, exp.Star, exp.Distinct)) for arg in arguments):
        return None
    parameters: tuple[Any, ...] = ()
    if function in ("first", "last", "any_value"):
        if len(arguments) == 2:
            flag = _flag(arguments.pop())
            if flag is None:
                return None
            ignore_nulls = flag
        parameters = (ignore_nulls,)
    elif nulls is not None:
        return None
    if function == "percentile":
        if len(arguments) != 2:
            return None
        fraction = arguments.pop()
        if isinstance(fraction, exp.Array):
            fractions = [_number(f) for f in fraction.expressions]
            if not fractions or None in fractions:
                return None
            parameters = (tuple(fractions),)
        else:
            parameters = (_number(fraction),)
            if parameters[0] is None:
                return None
    if distinct and function in (
        "min",
        "max",
        "any_value",
        "bool_and",
        "bool_or",
        "bit_and",
        "bit_or",
    ):
        distinct = False
    if distinct and function in _NOT_OF_DISTINCT:
        return None
    expected = {"covar_pop": 2, "covar_samp": 2, "corr": 2, "min_by": 2, "max_by": 2}.get(
        function, 1
    )
    if function != "count" and len(arguments) != expected:
        return None
    return Reading(function, tuple(arguments), distinct, parameters)


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    """The operands of a typed call in the order written; unknown options make it unknown."""
    result: list[exp.Expr] = []
    for key in type(node).arg_types:
        value = node.args.get(key)
        if value is None or value is False:
            continue
        if key == "big_int":
            continue
        if isinstance(value, list):
            result.extend(value)
        elif isinstance(value, exp.Expr):
            result.append(value)
        elif key not in ("nulls_excluded",):
            return [None]  # type: ignore[list-item]
    return result
