"""Every aggregate, window and generator function of Spark's registry: maintained, or refused by name.

A function that Spark gains fails these tests until it has an example here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from sqlglot import exp

from spark_incr.plan.functions import UNSTABLE
from spark_incr.plan.generators import NAMES as GENERATORS
from spark_incr.plan.syntax import has_aggregate
from spark_incr.sql.dialect import parse_query
from tests.fuzz import interpreted
from tests.oracle import Batch, check, insert

TABLE = "k STRING, i INT, j INT, b BIGINT, x DOUBLE, d DECIMAL(10,2), s STRING, f BOOLEAN, xs ARRAY<INT>"


def row(k: str | None, i: int | None, s: str | None, f: bool | None) -> tuple[Any, ...]:
    number = None if i is None else float(i) / 2
    return (k, i, None if i is None else i * i % 5, i, number, None, s, f, [i, 1] if i else None)


ROWS = [
    row("a", 1, "p", True), row("a", 2, "q", False), row("a", 2, "q", None), row("a", 4, "q", True),
    row("b", 3, "p", True), row("b", None, None, None), row(None, 7, "r", False), row("c", 9, "s", True),
]  # fmt: skip
BATCHES: list[Batch] = [
    insert("t", *ROWS),
    {
        "t": {
            "insert": [row("d", 5, "t", True), row("b", 1, "p", True), row("e", 3, "p", True)],
            "delete": [ROWS[0], ROWS[1], ROWS[4], ROWS[7]],
        }
    },
    {"t": {"insert": [ROWS[7]], "delete": [ROWS[6]]}},
]

# How a function is called, where it is not called with one number. A whole query where it needs one.
AGGREGATES: dict[str, str] = {
    "any": "any(f)",
    "any_value": "any_value(k)",
    "approx_percentile": "approx_percentile(i, 0.5)",
    "approx_top_k": "size(approx_top_k(s, 9))",
    "approx_top_k_accumulate": "size(approx_top_k_estimate(approx_top_k_accumulate(s), 9))",
    "approx_top_k_combine": "SELECT size(approx_top_k_estimate(approx_top_k_combine(a), 9)) AS r FROM"
    " (SELECT k, approx_top_k_accumulate(s) AS a FROM t GROUP BY k)",
    "bitmap_and_agg": "bitmap_count(bitmap_and_agg(to_binary(lpad('', 8192, '0'), 'hex')))",
    "bitmap_construct_agg": "bitmap_count(bitmap_construct_agg(bitmap_bit_position(i)))",
    "bitmap_or_agg": "bitmap_count(bitmap_or_agg(to_binary(lpad('', 8192, '0'), 'hex')))",
    "bool_and": "bool_and(f)",
    "bool_or": "bool_or(f)",
    "collect_union": "array_sort(collect_union(xs))",
    "corr": "corr(i, j)",
    "count_if": "count_if(f)",
    "count_min_sketch": "length(count_min_sketch(i, 0.5D, 0.5D, 1))",
    "covar_pop": "covar_pop(i, j)",
    "covar_samp": "covar_samp(i, j)",
    "every": "every(f)",
    "first": "first(k)",
    "first_value": "first_value(k)",
    "grouping": "SELECT k, grouping(k) AS r FROM t GROUP BY ROLLUP (k)",
    "grouping_id": "SELECT k, grouping_id(k) AS r FROM t GROUP BY ROLLUP (k)",
    "histogram_numeric": "size(histogram_numeric(DISTINCT i, 10))",
    "hll_sketch_agg": "hll_sketch_estimate(hll_sketch_agg(i))",
    "hll_union_agg": "SELECT hll_sketch_estimate(hll_union_agg(a)) AS r FROM"
    " (SELECT k, hll_sketch_agg(i) AS a FROM t GROUP BY k)",
    "last": "last(k)",
    "last_value": "last_value(k)",
    "listagg": "listagg(s, ',') WITHIN GROUP (ORDER BY s)",
    "max_by": "max_by(i, i)",
    "min_by": "min_by(i, i)",
    "mode": "mode(s, true)",
    "percentile": "percentile(i, 0.5)",
    "percentile_approx": "percentile_approx(i, 0.5)",
    "percentile_cont": "percentile_cont(0.5) WITHIN GROUP (ORDER BY i)",
    "percentile_disc": "percentile_disc(0.5) WITHIN GROUP (ORDER BY i)",
    "some": "some(f)",
    "string_agg": "string_agg(s, '-') WITHIN GROUP (ORDER BY s DESC)",
    "vector_avg": "vector_avg(array(CAST(x AS FLOAT), 1.0F))",
    "vector_sum": "vector_sum(array(CAST(x AS FLOAT), 1.0F))",
    "schema_of_variant_agg": "schema_of_variant_agg(parse_json(CAST(i AS STRING)))",
    **{
        name: f"{name}(i, j)"
        for name in """regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
        regr_sxy regr_syy""".split()
    },
    **{f"kll_sketch_agg_{t}": f"kll_sketch_get_n_{t}(kll_sketch_agg_{t}({c}))" for t, c in
       (("bigint", "b"), ("double", "x"), ("float", "CAST(x AS FLOAT)"))},
    **{f"kll_merge_agg_{t}": f"SELECT kll_sketch_get_n_{t}(kll_merge_agg_{t}(a)) AS r FROM"
       f" (SELECT k, kll_sketch_agg_{t}({c}) AS a FROM t WHERE i > 0 GROUP BY k)" for t, c in
       (("bigint", "b"), ("double", "x"), ("float", "CAST(x AS FLOAT)"))},
    "theta_sketch_agg": "theta_sketch_estimate(theta_sketch_agg(i))",
    **{name: f"SELECT theta_sketch_estimate({name}(a)) AS r FROM"
       " (SELECT k, theta_sketch_agg(i) AS a FROM t GROUP BY k)"
       for name in ("theta_union_agg", "theta_intersection_agg")},
    **{f"tuple_sketch_agg_{t}": f"tuple_sketch_estimate_{t}(tuple_sketch_agg_{t}(i, {c}))" for t, c in
       (("integer", "j"), ("double", "x"))},
    **{f"tuple_{w}_agg_{t}": f"SELECT tuple_sketch_estimate_{t}(tuple_{w}_agg_{t}(a)) AS r FROM"
       f" (SELECT k, tuple_sketch_agg_{t}(i, {c}) AS a FROM t GROUP BY k)"
       for w in ("union", "intersection") for t, c in (("integer", "j"), ("double", "x"))},
}  # fmt: skip
NOT_OF_TABLES = {"measure"}  # Spark takes it for metric views alone
UNORDERED = ["array_agg", "collect_list", "collect_set"]

WINDOWS: dict[str, str] = {
    "lag": "lag(i)",
    "lead": "lead(i, 2, 0)",
    "nth_value": "nth_value(i, 2)",
    "ntile": "ntile(2)",
    "counter_diff": "counter_diff(i)",
}


def registry(spark: SparkSession) -> dict[str, Any]:
    """The functions of Spark by name, with what it says of them."""
    jvm: Any = spark._jvm
    entries = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.expressions().iterator()
    found = {}
    while entries.hasNext():
        entry = entries.next()
        if entry._1().isidentifier():
            found[str(entry._1())] = entry._2()._1()
    return found


def in_group(spark: SparkSession, group: str) -> list[str]:
    """The functions in a group of Spark's documentation."""
    return sorted(n for n, info in registry(spark).items() if info.getGroup() == group)


def aggregates(spark: SparkSession) -> list[str]:
    """The functions that aggregate: by their group, or by the class that implements them."""
    jvm: Any = spark._jvm
    of_name = jvm.java.lang.Class.forName
    package = "org.apache.spark.sql.catalyst.expressions"
    kinds = ("aggregate.AggregateFunction", "RuntimeReplaceableAggregate")
    bases = [of_name(f"{package}.{kind}") for kind in kinds]
    result = set()
    for name, info in registry(spark).items():
        kind = of_name(info.getClassName()) if info.getClassName().startswith("org.") else None
        by_class = kind is not None and any(base.isAssignableFrom(kind) for base in bases)
        if info.getGroup() == "agg_funcs" or (by_class and info.getGroup() != "window_funcs"):
            result.add(name)
    return sorted(result - NOT_OF_TABLES)


def in_parts(queries: Sequence[str], size: int = 12) -> list[list[str]]:
    return [list(queries[i : i + size]) for i in range(0, len(queries), size)]


def test_every_aggregate_is_maintained(spark: SparkSession) -> None:
    queries = []
    for name in aggregates(spark):
        text = AGGREGATES.get(name, f"{name}(i)")
        if not text.startswith("SELECT"):
            text = f"SELECT k, {text} AS {name} FROM t GROUP BY k"
        assert any(has_aggregate(e) for e in parse_query(text).find_all(exp.Alias)), name
        queries.append(text)
    with interpreted(spark):
        for part in in_parts(queries):
            check(spark, {"t": TABLE}, part, BATCHES, unordered=UNORDERED, magnitude=1e4)


def test_every_window_function_is_maintained(spark: SparkSession) -> None:
    names = [*in_group(spark, "window_funcs"), "sum", "max", "collect_list", "skewness", "count"]
    calls = [WINDOWS.get(n, f"{n}()" if n not in _OF_ONE else f"{n}(i)") for n in names]
    order = "ORDER BY i, j, s, f"
    queries = [f"SELECT i, {call} OVER (PARTITION BY k {order}) AS r FROM t" for call in calls]
    queries += [f"SELECT i, {call} OVER ({order}) AS r FROM t" for call in calls]
    with interpreted(spark):
        for part in in_parts(queries):
            check(spark, {"t": TABLE}, part, BATCHES, magnitude=1e4)


_OF_ONE = {"sum", "max", "collect_list", "skewness", "count", "nth_value"}


def test_every_generator_is_maintained(spark: SparkSession) -> None:
    arguments = {
        "inline": "array(named_struct('a', i, 'b', s), named_struct('a', j, 'b', k))",
        "inline_outer": "array(struct(i, s))",
        "stack": "2, i, s, j, k",
        "json_tuple": "concat('{\"a\": ', i, '}'), 'a'",
    }
    names = [*in_group(spark, "generator_funcs"), "json_tuple"]
    assert set(names) <= GENERATORS
    made = {"inline": 2, "inline_outer": 2, "stack": 2, "posexplode": 2, "posexplode_outer": 2}
    queries = []
    for name in names:
        columns = ", ".join(f"c{i}" for i in range(made.get(name, 1)))
        call = f"{name}({arguments.get(name, 'xs')})"
        queries.append(f"SELECT k, {columns} FROM t LATERAL VIEW {call} AS {columns}")
        queries.append(f"SELECT k, g.* FROM t, LATERAL {call} AS g({columns})")
    queries += ["SELECT id FROM range(2, 9, 3)", "SELECT * FROM explode(array(1, 2)) AS g(e)"]
    with interpreted(spark):
        check(spark, {"t": TABLE}, queries, BATCHES)


def test_refused_functions_are_functions_of_spark(spark: SparkSession) -> None:
    known = registry(spark)
    assert [name for name in UNSTABLE if name not in known] == []
