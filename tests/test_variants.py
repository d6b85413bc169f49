"""VARIANT columns, NULL ones among them.

The oracle's own model cannot hold a VARIANT: PySpark fails at one that is NULL on the way in and
out. Here the tables are the session's, and Spark recomputes over them; values are compared as JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import VariantVal

import spark_incr
from spark_incr.errors import IncrementalError
from spark_incr.serve import snapshots
from tests.oracle import check, delete, insert

QUERIES = (
    "SELECT * FROM t",
    "SELECT k, sum(v:a::int) AS s, count(v) AS n, count(*) AS c FROM t GROUP BY k",
    "SELECT id, v:a::int + 1 AS b, v:b AS c FROM t WHERE v:a::int > 1 OR v IS NULL",
    "SELECT t.id, static.v:q[0]::int AS q, t.v FROM t LEFT JOIN static ON t.id = static.id",
    "SELECT k, max_by(v, id) AS m, schema_of_variant_agg(v) AS g FROM t GROUP BY k",
    "SELECT id, lag(v) OVER (PARTITION BY k ORDER BY id) AS p, v FROM t",
    "SELECT id, v:['a'] AS x, v:a['b'].c AS y, v:`a`:b[0]::int AS z, v:['b'][0] AS w FROM t",
    "SELECT id, v FROM t ORDER BY id DESC LIMIT 2",
    "SELECT id, v FROM t UNION ALL SELECT id, v FROM static",
    "SELECT id, x.key, x.value FROM t, LATERAL variant_explode(v) AS x",
    "SELECT id, x.pos, x.value FROM t, LATERAL variant_explode_outer(v) AS x",
    "WITH p AS (SELECT parse_json(to_json(struct(id, k))) AS j FROM t) "
    "SELECT j:k::string AS k, max(j:id::int) AS top FROM p GROUP BY 1",
    "SELECT id, coalesce(v, parse_json('0')) AS c, struct(v, id) AS s, array(v) AS a, map(id, v) AS m FROM t",
    "SELECT one.id, two.v FROM t AS one FULL JOIN t AS two ON one.id = two.id + 1",
    "SELECT id, v FROM t WHERE EXISTS (SELECT 1 FROM static WHERE static.id <= t.id)",
)
STATEMENTS = (
    """INSERT INTO t VALUES (1, 'a', parse_json('{"a": 1, "b": [1, null]}')), (3, 'b', NULL),
       (2, 'a', parse_json('{"a": 2}')), (4, NULL, parse_json('7'))""",
    """UPDATE t SET v = parse_json('{"a": 5}') WHERE id = 2""",
    "DELETE FROM t WHERE id = 1",
    """MERGE INTO t USING (SELECT 1 AS id, 'c' AS k, parse_json('[{}, 3]') AS v
           UNION ALL SELECT 3, 'b', parse_json('{}') UNION ALL SELECT 4, 'b', NULL) AS n
       ON t.id = n.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
)


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    enabled = spark_incr.enable(spark.newSession(), tmp_path / "state")
    static = "SELECT 1 AS id, parse_json('{\"q\": [1]}') AS v UNION ALL SELECT 2, NULL"
    enabled.sql(static).createOrReplaceTempView("static")
    enabled.sql("CREATE INCREMENTAL TABLE t (id INT, k STRING, v VARIANT, PRIMARY KEY (id))")
    yield enabled
    spark_incr.disable(enabled)


def plain(value: Any) -> Any:
    if isinstance(value, VariantVal):
        return f"variant {value.toJson()}"
    if isinstance(value, dict):
        return sorted((key, plain(inner)) for key, inner in value.items())
    return [plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def bag(session: SparkSession, query: str) -> Counter[str]:
    return Counter(repr(plain(row)) for row in session.sql(query).collect())


@pytest.mark.parametrize("rows_kept_local", [0, snapshots.LOCAL_ROWS])
def test_variants_are_kept(
    session: SparkSession, rows_kept_local: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LOCAL_ROWS", rows_kept_local)
    for n, query in enumerate(QUERIES):
        session.sql(f"CREATE INCREMENTAL VIEW v{n} AS {query}")
    for statement in STATEMENTS:
        session.sql(statement)
        for n, query in enumerate(QUERIES):
            assert bag(session, f"SELECT * FROM v{n}") == bag(session, query), query


def test_variants_survive_a_restart(session: SparkSession, spark: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL VIEW v AS SELECT id, v FROM t")
    session.sql(STATEMENTS[0])
    before = bag(session, "SELECT * FROM v")
    path = spark_incr.engine(session).path
    spark_incr.disable(session)
    again = spark_incr.enable(spark.newSession(), path)
    try:
        assert bag(again, "SELECT * FROM v") == before
        again.sql("DELETE FROM t WHERE v IS NULL")
        assert bag(again, "SELECT * FROM v") == bag(again, "SELECT id, v FROM t") != before
    finally:
        spark_incr.disable(again)


def test_the_texts_tell_apart_what_spark_does_not_compare(spark: SparkSession) -> None:
    """The SQL texts group by what is compared, and tell variants, maps and intervals by their texts."""
    queries = (
        "SELECT k, parse_json(s) AS v, array(parse_json(s)) AS a FROM t",
        "SELECT k, map(id, s) AS m, struct(map('x', -0.0D) AS y) AS n FROM t",
        "SELECT make_interval(0, id) AS i, k FROM t",
    )
    rows = [(1, "a", "1"), (1, "a", '"1"'), (1, "a", '{"x": 1}'), (1, "a", "1"), (2, "b", None)]
    batches = (insert("t", *rows), delete("t", rows[0], rows[4]), delete("t", rows[3], rows[1]))
    check(spark, {"t": "id INT, k STRING, s STRING"}, queries, batches, reference=True)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INCREMENTAL TABLE u (v VARIANT, PRIMARY KEY (v))",
        "CREATE INCREMENTAL SOURCE u (v VARIANT) USING json OPTIONS (path '/nowhere') KEY (v)",
    ],
)
def test_a_variant_is_no_key(session: SparkSession, statement: str) -> None:
    with pytest.raises(IncrementalError) as raised:
        session.sql(statement)
    assert raised.value.condition == "INCR_KEY_TYPE"
