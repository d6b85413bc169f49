"""Types that PySpark or Arrow have no form of, or one of their own: carried as Spark has them.

TIME is written by its nanoseconds; intervals of all units by the texts that Spark gives them; VOID
by BOOLEAN.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import spark_incr
from spark_incr.errors import IncrementalError
from spark_incr.serve import snapshots
from tests.oracle import check, delete, insert, together, update

UTC = dt.timezone.utc
SECOND = 10**9


def clock(hour: int, minute: int, second: int, micros: int = 0) -> int:
    return ((hour * 60 + minute) * 60 + second) * SECOND + micros * 1000


# Python has times of microseconds, and so has the oracle.
LATE, EARLY, NOON = clock(23, 59, 59, 999_999), clock(1, 2, 3, 123_456), clock(12, 0, 0)
TABLES = {
    "t": "id INT, k STRING, x TIME(6), y TIME(9), z TIME(0), ts TIMESTAMP, n TIMESTAMP_NTZ",
    "u": "id INT, k STRING, x TIME(6)",
}
ROWS = (
    (1, "a", EARLY, EARLY, clock(1, 2, 3), dt.datetime(2020, 1, 31, 1, tzinfo=UTC), None),
    (2, "a", 0, 0, 0, dt.datetime(2021, 3, 14, 7, tzinfo=UTC), dt.datetime(1900, 1, 31)),
    (2, "a", 0, 0, 0, dt.datetime(2021, 3, 14, 7, tzinfo=UTC), dt.datetime(1900, 1, 31)),
    (3, None, None, None, None, None, None),
    (4, "b", LATE, LATE, NOON, dt.datetime(2024, 2, 29, tzinfo=UTC), dt.datetime(2024, 2, 29)),
)
BATCHES = (
    together(
        insert("t", *ROWS),
        insert("u", (1, "a", 0), (2, "b", EARLY), (3, None, None), (3, "b", NOON)),
    ),
    together(
        update("t", (ROWS[0], (1, "b", clock(4, 0, 0), None, 0, None, None))),
        delete("u", (2, "b", EARLY)),
    ),
    delete("t", ROWS[1], ROWS[2], ROWS[3]),
    insert("t", ROWS[1], ROWS[3]),
)

TIMES = (
    "SELECT id, x, y, z, CAST(y AS STRING) AS s, typeof(y) AS a, typeof(z) AS b FROM t",
    "SELECT k, min(x) AS a, max(y) AS b, count(DISTINCT x) AS c, max_by(id, z) AS e, mode(z) AS m FROM t GROUP BY k",
    "SELECT x, z, count(*) AS n FROM t GROUP BY x, z",
    "SELECT t.id, u.id AS other FROM t JOIN u ON t.y = u.x",
    "SELECT x, t.id, u.id AS other FROM t FULL JOIN u USING (x)",
    "SELECT t.id, u.id AS other FROM t LEFT JOIN u ON t.x <=> u.x",
    "SELECT id FROM t WHERE x NOT IN (SELECT x FROM u WHERE id < 3)",
    "SELECT z FROM t UNION SELECT x FROM u",
    "SELECT x FROM t EXCEPT ALL SELECT x FROM u",
    "SELECT id, s FROM (SELECT id, struct(x, array(y)) AS s FROM t) ORDER BY s DESC, id LIMIT 2",
    "SELECT id, lag(x) OVER w AS p, max(y) OVER w AS m, rank() OVER w AS r FROM t WINDOW w AS (PARTITION BY k ORDER BY x, id)",
    "SELECT k, collect_list(x) AS l, min_by(x, id) AS a, approx_count_distinct(x) AS n FROM t GROUP BY k",
    "SELECT id, (SELECT max(u.x) FROM u WHERE u.id = t.id) AS m FROM t",
    "SELECT id, coalesce(x, TIME'00:00:01') AS c, CASE WHEN id > 2 THEN x ELSE y END AS d, nullif(x, y) AS e, greatest(x, y) AS g FROM t",
    "SELECT id, e FROM t LATERAL VIEW explode(array(x, y, NULL)) AS e",
    "SELECT s, count(*) AS n FROM (SELECT struct(x, array(y)) AS s FROM t) GROUP BY s",
    "SELECT id, x < TIME'12:00:00' AS a, x BETWEEN TIME'00:00:00' AND TIME'02:00:00' AS b, x = y AS c, x <=> y AS d,"
    " x IN (TIME'00:00:00', TIME'12:00:00') AS e FROM t",
    "SELECT id, hour(x) AS a, second(y) AS c, extract(SECOND FROM y) AS d, time_trunc('HOUR', x) AS f, x - y AS g FROM t",
    "SELECT id, CAST(x AS TIME(3)) AS a, CAST('10:11:12' AS TIME) AS c, CAST(x AS INT) AS d, CAST(x AS DECIMAL(20, 6)) AS e, hash(y) AS h FROM t",
    "SELECT * FROM (SELECT k, x, id FROM t) PIVOT (max(x) FOR k IN ('a', 'b'))",
)

EVERY = "make_interval(0, id, 0, 2 * id, id, 0, 0.5)"
INTERVALS = (
    f"SELECT id, ts + {EVERY} AS a, n - {EVERY} AS b, ts + CAST('1 month 2 days' AS INTERVAL) AS c FROM t",
    f"SELECT id, {EVERY} AS i, typeof({EVERY}) AS t, CAST({EVERY} AS STRING) AS s FROM t",
    f"SELECT i, count(*) AS c FROM (SELECT {EVERY} AS i FROM t) GROUP BY i",
    f"SELECT k, count(DISTINCT {EVERY}) AS c, max_by({EVERY}, id) AS m FROM t GROUP BY k",
    f"SELECT k, collect_list({EVERY}) AS l FROM t GROUP BY k",
    f"SELECT t.id, u.i FROM t LEFT JOIN (SELECT *, {EVERY} AS i FROM u) AS u ON t.id = u.id",
    f"SELECT id, {EVERY} AS i FROM t UNION SELECT id, {EVERY} AS i FROM u",
    f"SELECT id, array({EVERY}) AS a, struct({EVERY} AS x) AS s, map(id, {EVERY}) AS m FROM t",
    f"SELECT id, e FROM t LATERAL VIEW explode(array({EVERY}, NULL)) AS e",
    f"SELECT id, lag({EVERY}) OVER (PARTITION BY k ORDER BY id) AS p FROM t",
    f"SELECT id, {EVERY} AS i FROM t ORDER BY id DESC, k LIMIT 2",
    f"SELECT id, coalesce({EVERY}, make_interval(1)) AS c, (SELECT max_by({EVERY}, id) FROM u) AS m FROM t",
    f"SELECT id, {EVERY} * 2 AS b, -{EVERY} AS c, {EVERY} + {EVERY} AS d, extract(MONTH FROM {EVERY}) AS f FROM t",
)

TWICE = "struct(k AS a, id AS a)"
NAMES = (
    f"SELECT id, {TWICE} AS s, named_struct('a', id, 'b', k, 'a', k, 'a_2', 1) AS o FROM t",
    f"SELECT s, count(*) AS c FROM (SELECT {TWICE} AS s FROM t) GROUP BY s",
    f"SELECT k, max({TWICE}) AS m, collect_list({TWICE}) AS l, min_by({TWICE}, id) AS b FROM t GROUP BY k",
    f"SELECT l.s, r.id FROM (SELECT {TWICE} AS s FROM t) AS l JOIN (SELECT {TWICE} AS s, id FROM u) AS r ON l.s = r.s",
    f"SELECT s FROM (SELECT {TWICE} AS s FROM t) ORDER BY s DESC LIMIT 2",
    f"SELECT id, array({TWICE}) AS x, map(id, {TWICE}) AS m, struct({TWICE} AS b, 1 AS b) AS z FROM t",
    f"SELECT {TWICE} AS s FROM t UNION SELECT struct(k AS a, id AS b) FROM u",
    f"SELECT {TWICE} AS s FROM t EXCEPT SELECT {TWICE} FROM u",
    f"SELECT e.s, CAST(s AS STRING) AS w FROM t LATERAL VIEW explode(array({TWICE})) e AS s",
    "SELECT p, q FROM t LATERAL VIEW inline(array(struct(id AS a, k AS a))) e AS p, q",
    f"SELECT id, row_number() OVER (PARTITION BY z ORDER BY {TWICE}) AS r FROM t WHERE id <> 2",
    "SELECT y.id FROM (SELECT id, id AS z, k AS z FROM t) AS y",
    f"SELECT p, q FROM (SELECT s.* FROM (SELECT {TWICE} AS s FROM t)) AS y(p, q)",
    "SELECT b, hash(s.*) AS h FROM (SELECT s.*, s FROM (SELECT named_struct('a', id, 'A', k, 'b', z) AS s FROM t))",
    "SELECT count(*) AS c FROM (SELECT id, id, k AS id FROM t)",
    "WITH w(p, q) AS (SELECT id, id FROM t) SELECT p, q FROM w",
    "SELECT max(c) AS m FROM (SELECT 1 AS a, 2 AS a, id AS c FROM t UNION ALL SELECT 3, 4, id FROM u)",
)

VOIDS = (
    "SELECT id, array(NULL, NULL) AS a, array(array(), array(NULL)) AS b, map('a', NULL) AS m, struct(NULL AS x) AS s FROM t",
    "SELECT id, map() AS m, array(map(), NULL) AS am, NULL AS n FROM t",
    "SELECT id, m FROM (SELECT id, map(make_interval(0, 1, id), named_struct('a', NULL, 'A', id)) AS m FROM t)",
    "SELECT id, explode(map(make_interval(0, 1, id), array())) AS (i, v) FROM t",
    "SELECT id, explode(m) AS (i, v) FROM (SELECT id, map(make_interval(0, 1, id), k) AS m FROM t)",
    "SELECT id, map_keys(m)[0] AS a FROM (SELECT id, map(make_ym_interval(1, id), NULL) AS m FROM t)",
    "SELECT m, count(*) AS c FROM (SELECT map(make_dt_interval(1, id), array()) AS m FROM t) GROUP BY m",
    "SELECT k, collect_list(NULL) AS a, max(array(NULL, NULL)) AS b, count(DISTINCT array()) AS c FROM t GROUP BY k",
    "SELECT DISTINCT array(NULL) AS a, named_struct('x', NULL, 'y', array()) AS s FROM t",
    "SELECT array() AS a FROM t UNION SELECT array(NULL, NULL) FROM u",
    "SELECT array(NULL) AS a FROM t EXCEPT SELECT array(NULL) FROM u",
    "SELECT t.id, r.n, e FROM t LEFT JOIN (SELECT NULL AS n, array() AS e, id FROM u) AS r ON t.id = r.id + 1",
    "SELECT t.id, u.id AS j FROM t JOIN u ON array(NULL, t.k) = array(NULL, u.k)",
    "SELECT id, CAST(NULL AS VOID) AS v, CAST(array() AS ARRAY<VOID>) AS e, void FROM (SELECT id, k AS void FROM t)",
    "SELECT id, CAST(struct(NULL, id) AS STRUCT<a: VOID, void: INT>) AS s FROM t",
    "SELECT struct(NULL AS a, id AS b) AS s FROM t UNION ALL SELECT struct(NULL AS a, 5L AS b) FROM u",
    "SELECT id, inline(array(struct(NULL AS a, id AS b), NULL)) FROM t",
    "SELECT id, explode(array()) AS e FROM t",
    "SELECT id, posexplode(array(NULL, NULL)) AS (p, e) FROM t",
    "SELECT id, explode(map()) AS (a, b) FROM t",
    "SELECT id, explode_outer(map()) AS (a, b) FROM t",
    "SELECT id, e FROM t LATERAL VIEW explode(array()) AS e",
    "SELECT * FROM explode(array(NULL, NULL)) AS e(m) JOIN t",
)


@pytest.fixture
def spark_with_times(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield spark
    spark.conf.unset("spark.sql.timeType.enabled")


@pytest.mark.parametrize("part", range(2))
def test_times_equal_recompute(spark_with_times: SparkSession, part: int) -> None:
    check(spark_with_times, TABLES, TIMES[part::2], BATCHES, reference=part == 0, unordered=["l"])


def test_intervals_of_all_units_equal_recompute(spark_with_times: SparkSession) -> None:
    check(spark_with_times, TABLES, INTERVALS, BATCHES, unordered=["l"])


def test_names_that_are_there_twice_equal_recompute(spark_with_times: SparkSession) -> None:
    check(spark_with_times, TABLES, NAMES, BATCHES, unordered=["l"])


def test_what_has_no_type_equals_recompute(spark_with_times: SparkSession) -> None:
    check(spark_with_times, TABLES, VOIDS, BATCHES)


def test_they_survive_a_restart(spark_with_times: SparkSession) -> None:
    queries = [TIMES[0], TIMES[1], INTERVALS[1], INTERVALS[2], NAMES[0], NAMES[1], *VOIDS[:3]]
    check(spark_with_times, TABLES, queries, BATCHES, created_after=1, reopen=True)


ZONED = (
    "SELECT id, ts, CAST(ts AS STRING) AS a, CAST(ts AS DATE) AS b, CAST(ts AS TIMESTAMP_NTZ) AS c,"
    " CAST(n AS TIMESTAMP) AS d, CAST(d AS TIMESTAMP) AS e, CAST(s AS TIMESTAMP) AS f, ts::time AS g FROM z",
    "SELECT id, hour(ts) AS a, day(ts) AS b, date_trunc('DAY', ts) AS c, trunc(ts, 'MM') AS e, to_date(ts) AS f FROM z",
    "SELECT id, ts + INTERVAL '1' DAY AS a, ts + INTERVAL '24' HOUR AS b, ts - INTERVAL '1' MONTH AS c,"
    " d + INTERVAL '1' HOUR AS e, ts + make_interval(0, 0, 0, 1) AS f, date_add(ts, 1) AS g FROM z",
    "SELECT id, ts > DATE'2021-03-14' AS a, ts = d AS b, ts >= TIMESTAMP'2021-03-14 03:00:00' AS c, n < ts AS e,"
    " ts IN (TIMESTAMP'2021-11-07 01:30:00') AS f, ts - n AS g, datediff(ts, d) AS h FROM z",
    "SELECT CAST(ts AS DATE) AS x, hour(ts) AS h, count(*) AS c, max(ts) AS m FROM z GROUP BY ALL",
    "SELECT window(ts, '1 day') AS w, count(*) AS c FROM z GROUP BY window(ts, '1 day')",
    "SELECT l.id, r.id AS o FROM z AS l JOIN z AS r ON to_date(l.ts) = r.d",
    "SELECT l.id, r.id AS o FROM z AS l LEFT JOIN z AS r ON l.n = r.ts",
    "SELECT ts AS x FROM z UNION SELECT d FROM z",
    "SELECT id, count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW) AS c FROM z",
    "SELECT id FROM z WHERE ts >= '2021-03-14 02:00:00' AND ts < '2021-11-07' ORDER BY hour(ts), id LIMIT 2",
)


def moment(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


def test_times_of_another_zone_equal_recompute(spark_with_times: SparkSession) -> None:
    """Around the hours that are left out and that come twice in New York."""
    tables = {"z": "id INT, ts TIMESTAMP, n TIMESTAMP_NTZ, d DATE, s STRING"}
    spring, autumn = dt.date(2021, 3, 14), dt.date(2021, 11, 7)
    rows = (
        (
            1,
            moment(2021, 3, 14, 6, 59, 59),
            dt.datetime(2021, 3, 14, 2, 30),
            spring,
            "2021-03-14 02:30:00",
        ),
        (2, moment(2021, 3, 14, 7), dt.datetime(2021, 11, 7, 1, 30), autumn, "2021-11-07 01:30:00"),
        (
            3,
            moment(2021, 11, 7, 5, 30),
            dt.datetime(1883, 11, 18, 12),
            dt.date(1883, 11, 18),
            "1883-11-18",
        ),
        (
            4,
            moment(2021, 11, 7, 6, 30),
            dt.datetime(2021, 11, 7),
            autumn,
            "2021-11-07T01:30:00-05:00",
        ),
        (5, None, None, None, None),
        (
            6,
            moment(1900, 1, 1),
            dt.datetime(1970, 1, 1),
            dt.date(1970, 1, 1),
            "1970-01-01 00:00:00",
        ),
    )
    batches = (insert("z", *rows), delete("z", rows[1], rows[4]), insert("z", rows[1], rows[1]))
    zone = "spark.sql.session.timeZone"
    before = spark_with_times.conf.get(zone)
    spark_with_times.conf.set(zone, "America/New_York")
    try:
        check(spark_with_times, tables, ZONED, batches)
    finally:
        spark_with_times.conf.set(zone, before)


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    own = spark.newSession()
    own.conf.set("spark.sql.timeType.enabled", "true")
    enabled = spark_incr.enable(own, tmp_path / "state")
    enabled.sql("CREATE INCREMENTAL TABLE t (x TIME(9), y TIME(3), id INT, PRIMARY KEY (x))")
    enabled.sql("SELECT TIME'12:00:00' AS x, 'noon' AS w").createOrReplaceTempView("static")
    yield enabled
    spark_incr.disable(enabled)


def texts(session: SparkSession, query: str) -> Counter[str]:
    frame = session.sql(query)
    shown = frame.selectExpr(*(f"CAST(`{name}` AS STRING)" for name in frame.columns))
    return Counter(repr(tuple(row)) for row in shown.collect())


@pytest.mark.parametrize("rows_kept_local", [0, snapshots.LOCAL_ROWS])
def test_a_session_reads_and_writes_times(
    session: SparkSession, rows_kept_local: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LOCAL_ROWS", rows_kept_local)
    queries = (
        "SELECT * FROM t",
        "SELECT y, max(x) AS m, count(*) AS n FROM t GROUP BY y",
        "SELECT t.id, w FROM t JOIN static ON t.x = static.x",
        f"SELECT x, struct(id AS a, y AS a) AS s, {EVERY} AS i FROM t",
        f"SELECT x, {EVERY} AS i, map(coalesce({EVERY}, make_interval()), y) AS m FROM t",
        "SELECT x, NULL AS n, array(NULL, map()) AS a FROM t",
    )
    for n, query in enumerate(queries):
        session.sql(f"CREATE INCREMENTAL VIEW v{n} AS {query}")
    for statement in (
        "INSERT INTO t VALUES (TIME'00:00:00.123456', CAST('12:00:00.9' AS TIME(3)), 1), (TIME'12:00:00', NULL, 2),"
        " (CAST('23:59:59.123456789' AS TIME(9)), CAST('12:00:00.9' AS TIME(3)), NULL)",
        "UPDATE t SET y = CAST(x AS TIME(3)) WHERE id IS NULL",
        "MERGE INTO t USING static ON t.x = static.x WHEN MATCHED THEN UPDATE SET x = static.x, y = CAST(static.x AS TIME(0))",
        "DELETE FROM t WHERE x < TIME'00:00:01'",
    ):
        session.sql(statement)
        for n, query in enumerate(queries):
            found = session.table(f"v{n}")
            wanted = session.sql(query).schema.toNullable()
            assert [f.dataType for f in found.schema] == [f.dataType for f in wanted]
            assert texts(session, f"SELECT * FROM v{n}") == texts(session, query), query
    assert texts(session, "SELECT x, y FROM t WHERE id IS NULL") == Counter(
        [repr(("23:59:59.123456789", "23:59:59.123"))]
    )


def test_times_of_arrow_are_cut_to_the_digits_of_their_column(session: SparkSession) -> None:
    engine = spark_incr.engine(session)
    times = pa.array([LATE + 999], pa.time64("ns"))
    engine.commit({"t": {"insert": pa.table({"x": times, "y": times, "id": [1]})}})
    assert texts(session, "SELECT * FROM t") == Counter(
        [repr(("23:59:59.999999999", "23:59:59.999", "1"))]
    )
    with pytest.raises(IncrementalError) as raised:
        session.sql("INSERT INTO t SELECT x, NULL, 2 FROM t")
    assert raised.value.condition == "INCR_DUPLICATE_KEY"
    session.sql(
        "CREATE INCREMENTAL TABLE inside (a ARRAY<TIME(3)>, m MAP<TIME(0), STRUCT<t: TIME(6)>>)"
    )
    session.sql(
        "CREATE INCREMENTAL VIEW flat AS SELECT get(a, 0) AS a, get(map_values(m), 0).t AS t FROM inside"
    )
    kind = pa.struct([("t", pa.time64("ns"))])
    rows = pa.table(
        {
            "a": pa.array([None, [LATE + 999, None], []], pa.list_(pa.time64("ns"))),
            "m": pa.array([[(LATE, {"t": LATE + 999})], None, []], pa.map_(pa.time64("ns"), kind)),
        }
    )
    rows = pa.concat_tables([rows, rows]).combine_chunks().slice(1)
    engine.commit({"inside": {"insert": rows}})
    assert (
        texts(session, "SELECT * FROM inside")[repr((None, "{23:59:59 -> {23:59:59.999999}}"))] == 1
    )
    assert texts(session, "SELECT * FROM inside")[repr(("[23:59:59.999, null]", None))] == 2
    assert texts(session, "SELECT * FROM flat WHERE t = TIME'23:59:59.999999'").total() == 1


def refusal(session: SparkSession, statement: str, what: str | None = None) -> str:
    with pytest.raises(IncrementalError, match=what) as raised:
        session.sql(statement)
    assert what or raised.value.hint or raised.value.condition == "INCR_SPARK_ERROR"
    return raised.value.condition


def test_a_time_of_today_is_refused(session: SparkSession) -> None:
    for policy in ("INCREMENTAL STRICT", "AUTO"):
        create = f"CREATE INCREMENTAL VIEW v REFRESH POLICY {policy} AS "
        for value in (
            "CAST(x AS TIMESTAMP)",
            "CAST(TIME'01:00:00' AS TIMESTAMP_NTZ)",
            "CAST(array(x) AS ARRAY<TIMESTAMP>)",
            "(SELECT max(CAST(y AS TIMESTAMP)) FROM t)",
        ):
            query = f"SELECT id, {value} AS a FROM t"
            assert refusal(session, create + query) == "INCR_NONDETERMINISTIC"
    session.sql("CREATE INCREMENTAL VIEW v AS SELECT CAST(id AS TIMESTAMP) AS a, x FROM t")


def test_a_type_that_is_switched_off_is_refused_where_it_is_declared(session: SparkSession) -> None:
    session.conf.unset("spark.sql.timeType.enabled")
    for statement in (
        "CREATE INCREMENTAL TABLE u (x ARRAY<TIME>)",
        "CREATE INCREMENTAL SOURCE u (x TIME) USING json OPTIONS (path '/nowhere')",
    ):
        with pytest.raises(AnalysisException, match="UNSUPPORTED_TIME_TYPE"):
            session.sql(statement)


def test_a_type_that_pyspark_cannot_read_is_named_where_it_would_be_kept(
    session: SparkSession,
) -> None:
    query = "SELECT CAST(id AS TIMESTAMP(9)) AS y FROM t"
    assert refusal(session, f"CREATE INCREMENTAL VIEW v AS {query}") == "INCR_SPARK_ERROR"
    table = "CREATE INCREMENTAL TABLE u (x TIMESTAMP_NTZ(9))"
    assert refusal(session, table) == "INCR_SPARK_ERROR"
    session.conf.set("spark.sql.timestampNanosTypes.enabled", "true")
    static = "SELECT 1 AS id, CAST('2020-01-01' AS TIMESTAMP(9)) AS y, 7 AS n"
    session.sql(static).createOrReplaceTempView("nanos")
    for query in (
        "SELECT CAST(CAST(id AS TIMESTAMP) AS TIMESTAMP(9)) AS y FROM t",
        "SELECT count(*) AS c FROM t GROUP BY CAST(CAST(id AS TIMESTAMP) AS TIMESTAMP(9))",
        "SELECT t.id, array(nanos.y) AS y FROM t JOIN nanos ON t.id = nanos.id",
    ):
        statement = f"CREATE INCREMENTAL VIEW v AS {query}"
        assert refusal(session, statement) == "INCR_TYPE_UNSUPPORTED"
    assert refusal(session, table) == "INCR_TYPE_UNSUPPORTED"
    query = (
        "SELECT t.id, n, CAST(CAST(CAST(t.id AS TIMESTAMP) AS TIMESTAMP(9)) AS STRING) AS s "
        "FROM t JOIN nanos ON t.id = nanos.id"
    )
    session.sql(f"CREATE INCREMENTAL VIEW v AS {query}")
    session.sql("INSERT INTO t VALUES (TIME'12:00:00', NULL, 1)")
    assert texts(session, "SELECT * FROM v") == texts(session, query) != Counter()
    session.sql("CREATE INCREMENTAL TABLE w (id INT, ts TIMESTAMP, s STRING, d DATE)")
    nanos = "(SELECT id, y FROM nanos) AS q ON w.id = q.id"
    for statement in (
        "INSERT INTO w SELECT id, y, 'a', NULL FROM nanos",
        "UPDATE w SET ts = CAST('2020-01-01' AS TIMESTAMP(9))",
        f"MERGE INTO w USING {nanos} WHEN NOT MATCHED THEN INSERT (id, ts) VALUES (id, y)",
    ):
        assert refusal(session, statement, "CANNOT_SAFELY_CAST") == "INCR_SCHEMA_MISMATCH"
    for statement in (
        "INSERT INTO w SELECT id, CAST(y AS TIMESTAMP), y, y FROM nanos",
        "UPDATE w SET s = CAST('2020-01-01' AS TIMESTAMP(9)) WHERE ts < CAST('2021-01-01' AS TIMESTAMP(9))",
        f"MERGE INTO w USING {nanos} WHEN MATCHED THEN UPDATE SET d = y",
    ):
        session.sql(statement)
    assert texts(session, "SELECT s, d FROM w") == Counter(
        [repr(("2020-01-01 00:00:00", "2020-01-01"))]
    )


@pytest.mark.parametrize("rows_kept_local", [0, snapshots.LOCAL_ROWS])
def test_columns_of_a_view_may_differ_by_case(
    session: SparkSession, rows_kept_local: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LOCAL_ROWS", rows_kept_local)
    session.conf.set("spark.sql.caseSensitive", "true")
    session.sql("SELECT 1 AS a, 2 AS A, 'x' AS B").createOrReplaceTempView("either")
    queries = {
        "v1": "SELECT id, id + 1 AS ID, y, max(x) AS Y FROM t GROUP BY id, y",
        "v2": "SELECT id, max(ID) AS Id, count(Y) AS iD FROM v1 GROUP BY id",
        "v3": "SELECT t.id, either.a, either.A, B FROM t JOIN either ON t.id = either.A",
        "v4": "SELECT ID, id FROM v1 ORDER BY ID DESC, id LIMIT 2",
        "v5": "SELECT * FROM v1 AS V JOIN (SELECT id AS iD FROM t) AS v ON V.id = v.iD",
        "v6": "SELECT struct(id, ID) AS s, s.ID AS q, s.id AS Q FROM v1",
    }
    for name, query in queries.items():
        session.sql(f"CREATE INCREMENTAL VIEW {name} AS {query}")
    for statement in (
        "INSERT INTO t VALUES (TIME'01:00:00', NULL, 1), (TIME'02:00:00', NULL, 2), (TIME'03:00:00', NULL, NULL)",
        "UPDATE t SET y = CAST('01:00:00' AS TIME(3)) WHERE id = 2",
        "DELETE FROM t WHERE id = 1",
    ):
        session.sql(statement)
        for name, query in queries.items():
            found = Counter(map(repr, session.sql(f"SELECT * FROM {name}").collect()))
            assert found == Counter(map(repr, session.sql(query).collect())), query
    session.conf.set("spark.sql.caseSensitive", "false")
    create = "CREATE INCREMENTAL VIEW v7 AS SELECT id, id AS ID FROM t"
    assert refusal(session, create) == "INCR_DUPLICATE_COLUMN"
