"""Intervals of every unit: kept as they are, compared and added up as Spark does.

A column of years and months is handed over as its months, PySpark having no form of it. What a
reader sees is asserted by text, which tells INTERVAL '12' MONTH from INTERVAL '1' YEAR.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import spark_incr
from spark_incr.errors import IncrementalError
from spark_incr.serve import snapshots
from tests.oracle import check, delete, insert, together, undo, update

DAY = dt.timedelta(days=1)
TABLES = {
    "t": "id INT, k STRING, ym INTERVAL YEAR TO MONTH, y INTERVAL YEAR, m INTERVAL MONTH, d INTERVAL DAY",
    "u": "id INT, m INTERVAL MONTH",
}
ROWS = (
    (1, "a", 14, 12, 14, DAY),
    (2, "a", -14, 24, 0, -DAY),
    (2, "a", -14, 24, 0, -DAY),
    (3, "b", None, None, None, None),
    (4, "b", 2_000_000_000, -12, -1, 3 * DAY),
    (5, None, 12, 12, 12, DAY),
)
BATCHES = (
    together(insert("t", *ROWS), insert("u", (1, 14), (2, 12), (3, None), (3, 12))),
    together(
        update("t", (ROWS[0], (1, "b", 0, 0, 0, None)), (ROWS[5], (5, "c", None, 12, 11, DAY))),
        delete("u", (2, 12)),
    ),
    delete("t", ROWS[1], ROWS[2], ROWS[4]),
    delete("t", ROWS[3]),
    insert("t", ROWS[1], ROWS[4]),
)
QUERIES = (
    "SELECT * FROM t",
    "SELECT id, CAST(ym AS STRING) AS a, CAST(y AS STRING) AS b, CAST(m AS STRING) AS c,"
    " CAST(d AS STRING) AS e, typeof(y) AS f, typeof(d) AS g FROM t",
    "SELECT k, min(ym) AS a, max(ym) AS b, count(DISTINCT m) AS c, max_by(id, y) AS e FROM t GROUP BY k",
    "SELECT k, percentile(d, 0.5) AS p, percentile(ym, array(0.25, 0.5)) AS q, median(d) AS m FROM t GROUP BY k",
    "SELECT k, sum(y) AS s, avg(m) AS a, sum(d) AS d, count(*) AS n FROM t GROUP BY k",
    "SELECT k, collect_list(m) AS l FROM t GROUP BY k",
    "SELECT ym, count(*) AS n FROM t GROUP BY ym",
    "SELECT DISTINCT y, m, d FROM t",
    "SELECT t.id, u.id AS other FROM t JOIN u ON t.m = u.m",
    "SELECT t.id, u.id AS other FROM t JOIN u ON t.y = u.m",
    "SELECT t.id, u.m FROM t LEFT JOIN u ON t.ym <=> u.m",
    "SELECT id, m FROM t WHERE m > INTERVAL '1' YEAR OR m IN (INTERVAL '0' MONTH, INTERVAL '1' YEAR)",
    "SELECT id, y + m AS s, y - m AS d, -m AS n, abs(m) AS p, m * 2 AS x, y / 3 AS q FROM t",
    "SELECT id, DATE '2020-01-31' + m AS a, make_ym_interval(id, 3) AS b, INTERVAL '1' MONTH * id AS c FROM t",
    "SELECT id, coalesce(m, y) AS c, CASE WHEN id > 2 THEN y ELSE m END AS e, nullif(m, y) AS f FROM t",
    "SELECT id, CAST(y AS INT) AS a, CAST(m AS BIGINT) AS b, extract(YEAR FROM ym) AS e, hash(m, id) AS h FROM t",
    "SELECT id, array(m, y) AS a, struct(m, id AS i) AS s FROM t",
    "SELECT s, count(*) AS n FROM (SELECT struct(y, array(m)) AS s FROM t) GROUP BY s",
    "SELECT id, e FROM t LATERAL VIEW explode(array(m, y, NULL)) AS e",
    "SELECT id, e.a, e.b FROM t LATERAL VIEW explode(map(y, m)) e AS a, b WHERE y IS NOT NULL",
    "SELECT id, ym FROM t ORDER BY ym DESC NULLS LAST, id LIMIT 2",
    "SELECT id, m, lag(m) OVER w AS p, max(m) OVER w AS x, sum(m) OVER w AS s, rank() OVER w AS r "
    "FROM t WINDOW w AS (PARTITION BY k ORDER BY m)",
    "SELECT id, count(*) OVER (PARTITION BY y ORDER BY m "
    "RANGE BETWEEN INTERVAL '1' MONTH PRECEDING AND CURRENT ROW) AS n FROM t",
    "SELECT y AS i FROM t UNION ALL SELECT m FROM u",
    "SELECT y AS i FROM t INTERSECT SELECT m FROM u",
    "SELECT m FROM t EXCEPT ALL SELECT m FROM u",
    "SELECT id FROM t WHERE m NOT IN (SELECT m FROM u)",
    "SELECT id, (SELECT max(u.m) FROM u WHERE u.id = t.id) AS x FROM t",
    "SELECT id, y FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.m >= t.y)",
    "SELECT k, max(DATE '2024-05-05' - INTERVAL '1' DAY + m) AS d FROM t GROUP BY k HAVING min(m) < INTERVAL '2' MONTH",
    "WITH RECURSIVE r(n, i) AS (SELECT 1, max(m) FROM u UNION ALL SELECT n + 1, i + INTERVAL '1' MONTH FROM r WHERE n < 3) "
    "SELECT n, CAST(i AS INTERVAL MONTH) AS i FROM r",
)


@pytest.mark.parametrize("part", range(3))
def test_intervals_equal_recompute(spark: SparkSession, part: int) -> None:
    unordered = ["l"]
    check(spark, TABLES, QUERIES[part::3], BATCHES, reference=3, unordered=unordered)


def test_intervals_in_maps_equal_recompute(spark: SparkSession) -> None:
    query = "SELECT k, map(id, y) AS p, map(coalesce(m, y, d2), id) AS q FROM (SELECT *, ym AS d2 FROM t) WHERE id <> 3"
    check(spark, TABLES, query, BATCHES)


def test_intervals_survive_a_restart(spark: SparkSession) -> None:
    queries = [QUERIES[0], QUERIES[2], QUERIES[7], QUERIES[15]]
    check(spark, TABLES, queries, BATCHES, created_after=1, reopen=True)


def test_a_sum_of_months_overflows_as_in_spark(spark: SparkSession) -> None:
    much = (7, "b", 2_000_000_000, 12, 1, DAY)
    batches = (BATCHES[0], insert("t", much), insert("t", (8, "c", 1, 12, 1, DAY)))
    check(spark, TABLES, "SELECT k, sum(ym) AS s FROM t GROUP BY k", batches)
    check(spark, TABLES, "SELECT id, ym + m AS s FROM t", (*batches, undo(batches[2])))


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    enabled = spark_incr.enable(spark.newSession(), tmp_path / "state")
    enabled.sql(f"CREATE INCREMENTAL TABLE t ({TABLES['t']}, PRIMARY KEY (id))")
    enabled.sql("SELECT INTERVAL '3' MONTH AS m, 'three' AS w").createOrReplaceTempView("static")
    yield enabled
    spark_incr.disable(enabled)


def texts(session: SparkSession, query: str) -> Counter[str]:
    frame = session.sql(query)
    shown = frame.selectExpr(*(f"CAST(`{name}` AS STRING)" for name in frame.columns))
    return Counter(repr(tuple(row)) for row in shown.collect())


@pytest.mark.parametrize("rows_kept_local", [0, snapshots.LOCAL_ROWS])
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_session_reads_and_writes_intervals(
    session: SparkSession, rows_kept_local: int, ansi: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LOCAL_ROWS", rows_kept_local)
    session.conf.set("spark.sql.ansi.enabled", ansi)
    queries = [
        *(QUERIES[n] for n in (0, 1, 15)),
        "SELECT t.id, w, t.m FROM t JOIN static ON t.m = static.m",
        "SELECT id, y, m FROM t UNION ALL SELECT 0, NULL, m FROM static",
    ]
    for n, query in enumerate(queries):
        session.sql(f"CREATE INCREMENTAL VIEW v{n} AS {query}")
    for statement in (
        "INSERT INTO t VALUES (1, 'a', INTERVAL '1-2' YEAR TO MONTH, INTERVAL '-2' YEAR, INTERVAL '3' MONTH,"
        " INTERVAL '4' DAY), (2, NULL, NULL, NULL, NULL, NULL), (3, 'b', INTERVAL '0-3' YEAR TO MONTH,"
        " INTERVAL '1' YEAR, INTERVAL '12' MONTH, INTERVAL '0' DAY)",
        "UPDATE t SET m = INTERVAL '3' MONTH, ym = ym + m WHERE id = 3",
        "MERGE INTO t USING (SELECT 2 AS id, INTERVAL '7' YEAR AS y) AS n ON t.id = n.id "
        "WHEN MATCHED THEN UPDATE SET y = n.y",
        "DELETE FROM t WHERE ym = INTERVAL '14' MONTH",
    ):
        session.sql(statement)
        for n, query in enumerate(queries):
            found = session.table(f"v{n}")
            assert [f.dataType for f in found.schema] == [
                f.dataType for f in session.sql(query).schema.toNullable()
            ]
            assert texts(session, f"SELECT * FROM v{n}") == texts(session, query), query


def test_an_interval_of_months_is_a_key(session: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL TABLE u (m INTERVAL MONTH, n INT, PRIMARY KEY (m))")
    session.sql("INSERT INTO u VALUES (INTERVAL '1' MONTH, 1)")
    with pytest.raises(IncrementalError) as raised:
        session.sql("INSERT INTO u VALUES (INTERVAL '1' MONTH, 2)")
    assert raised.value.condition == "INCR_DUPLICATE_KEY"
    session.sql("DELETE FROM u WHERE m = INTERVAL '1' MONTH")
    assert session.table("u").count() == 0


def test_arrow_has_the_months(session: SparkSession) -> None:
    session.sql("CREATE INCREMENTAL TABLE u (m INTERVAL YEAR TO MONTH)")
    engine = spark_incr.engine(session)
    engine.commit({"u": {"insert": pa.table({"m": pa.array([14, None], pa.int32())})}})
    assert engine.table("u").to_arrow().column("m").to_pylist() == [14, None]
    assert texts(session, "SELECT * FROM u") == Counter(
        [repr(("INTERVAL '1-2' YEAR TO MONTH",)), repr((None,))]
    )
