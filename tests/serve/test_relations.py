"""What Spark reads under a relation's name is the last version, bit for bit, in either form."""

from __future__ import annotations

import datetime as dt
import gc
import struct
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_incr.errors import IncrementalError
from spark_incr.plan.types import Field, Schema, arrow_schema
from spark_incr.serve import relations as freshness
from spark_incr.serve import snapshots as module
from spark_incr.serve.relations import Relations

NUMBERS: Schema = (Field("x", T.LongType()),)

NESTED = T.StructType(
    [
        T.StructField("a b", T.IntegerType()),
        T.StructField("c.d", T.ArrayType(T.StringType())),
        T.StructField("`", T.DoubleType()),
    ]
)
UTC = dt.timezone.utc
# name, type, a value; every column also holds NULL
KINDS: list[tuple[str, T.DataType, object]] = [
    ("plain", T.LongType(), -(2**63)),
    ("with space", NESTED, {"a b": 1, "c.d": ["x", None, "ü"], "`": float("nan")}),
    ("do.t", T.DecimalType(38, 10), Decimal("-1234567890123456789012345678.1234567891")),
    ("tick`s", T.TimestampType(), dt.datetime(1500, 1, 1, 12, 0, 0, 1, tzinfo=UTC)),
    ("ünï😀", T.TimestampNTZType(), dt.datetime(1, 1, 1, 0, 0, 0, 5)),
    (
        "a;,{}()=\t\n'\"",
        T.MapType(T.StringType(), NESTED),
        [("k", {"a b": None, "c.d": [], "`": -0.0})],
    ),
    ("SELECT", T.DayTimeIntervalType(), dt.timedelta(microseconds=-5)),
    ("byte", T.ByteType(), -128),
    ("short", T.ShortType(), -32768),
    ("int", T.IntegerType(), 2**31 - 1),
    ("float", T.FloatType(), float("nan")),
    ("double", T.DoubleType(), -0.0),
    ("small decimal", T.DecimalType(5, 2), Decimal("-999.99")),
    ("middle decimal", T.DecimalType(18, 0), Decimal(10**18 - 1)),
    ("decimals", T.ArrayType(T.DecimalType(9, 3)), [Decimal("0.001"), None]),
    ("date", T.DateType(), dt.date(1, 1, 1)),
    ("bool", T.BooleanType(), False),
    ("binary", T.BinaryType(), b"\x00\xff"),
    ("string", T.StringType(), "\x00 ünï 😀"),
    ("void", T.NullType(), None),
]


class Source:
    """A relation whose rows a test sets; counts how often they are taken."""

    def __init__(self, schema: Schema, rows: pa.Table) -> None:
        self.schema = schema
        self.version = 1
        self.rows = rows
        self.taken = 0

    def set(self, rows: pa.Table) -> None:
        self.rows = rows
        self.version += 1

    def take(self) -> pa.Table:
        self.taken += 1
        return self.rows

    def declare(self, relations: Relations, name: str) -> None:
        relations.declare(name, self.schema, lambda: self.version, self.take)


def numbers(*values: int | None) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def ordered(frame: DataFrame) -> list[Any]:
    return sorted(row[0] for row in frame.collect())


@pytest.fixture(params=["local", "file"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways in which rows are handed over, whatever their number."""
    monkeypatch.setattr(module, "LOCAL_ROWS", 10**9 if request.param == "local" else -1)
    monkeypatch.setattr(module, "LOCAL_BYTES", 10**9)
    return str(request.param)


@pytest.fixture
def relations(spark: SparkSession, tmp_path: Path) -> Iterator[Relations]:
    result = Relations(spark, tmp_path / "snapshots")
    yield result
    for name in result.names():
        result.forget(name)


def collect_garbage(spark: SparkSession) -> None:
    gc.collect()
    jvm: Any = spark._jvm
    jvm.java.lang.System.gc()
    time.sleep(0.2)  # cleared references are queued by a thread of their own


def bits(value: object) -> object:
    """A value by which NaN equals itself and -0.0 differs from 0.0."""
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, dict):
        return {key: bits(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [bits(inner) for inner in value]
    return value


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_rows_and_schema_come_through_unchanged(
    spark: SparkSession, relations: Relations, form: str, zone: str, count: int
) -> None:
    schema = tuple(Field(name, type_) for name, type_, _ in KINDS)
    columns = [
        pa.array([value, None, value][:count], field.type)
        for (_, _, value), field in zip(KINDS, arrow_schema(schema), strict=True)
    ]
    rows = pa.table(columns, schema=arrow_schema(schema))
    Source(schema, rows).declare(relations, "odd `name`")
    usual = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        relations.refresh()
        frame = spark.sql("SELECT * FROM `odd ``name```")
        assert frame.schema == T.StructType([T.StructField(f.name, f.type) for f in schema])
        seen = frame.toArrow().cast(rows.schema)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(usual))
    for name in rows.column_names:
        assert bits(seen[name].to_pylist()) == bits(rows[name].to_pylist()), name


class Store:
    """Two relations of equal rows, and a commit that comes while the rows of the second are taken."""

    def __init__(self) -> None:
        self.version = 1
        self.commit = lambda: None

    def freeze(self) -> Store:
        frozen = Store()
        frozen.version, frozen.commit = self.version, self.commit
        return frozen

    def holds(self, name: str) -> bool:
        return True

    def changed(self, name: str) -> int:
        return self.version

    def to_arrow(self, name: str) -> pa.Table:
        if name == "second":
            self.commit()
        return numbers(self.version)


def test_relations_that_are_read_together_show_one_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also where another thread shows one of them in a newer version meanwhile."""
    store, seen = Store(), []
    relations = Relations(spark, tmp_path / "snapshots", freeze=store.freeze)
    for name in ("first", "second"):
        Source((Field("x", T.LongType()),), numbers()).declare(relations, name)

    def commit() -> None:
        store.commit = lambda: None
        store.version += 1
        relations.refresh(["first"])

    store.commit = commit
    names = ["first", "second"]
    relations.refresh(names, lambda: seen.extend(ordered(spark.table(n)) for n in names))
    assert seen == [[2], [2]]
    for name in names:
        relations.forget(name)


def test_nested_types_allow_null_in_either_form(
    spark: SparkSession, relations: Relations, form: str
) -> None:
    declared = T.ArrayType(T.StructType([T.StructField("a", T.IntegerType(), False)]), False)
    schema = (Field("s", declared),)
    rows = pa.table({"s": pa.array([[{"a": 1}]], arrow_schema(schema).field(0).type)})
    Source(schema, rows).declare(relations, "nested")
    relations.refresh()
    assert spark.table("nested").schema["s"].dataType.simpleString() == "array<struct<a:int>>"
    inner = spark.table("nested").schema["s"].dataType
    assert isinstance(inner, T.ArrayType)
    assert inner.containsNull
    assert spark.table("nested").collect()[0][0][0]["a"] == 1


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_filters_on_floats_keep_what_spark_keeps(
    spark: SparkSession, relations: Relations, form: str, zero: float
) -> None:
    values = [1.0, float("nan"), zero, -5.0, None]
    schema = (Field("x", T.DoubleType()),)
    Source(schema, pa.table({"x": pa.array(values, pa.float64())})).declare(relations, "floats")
    relations.refresh()
    # The exchange keeps Spark from evaluating the filter while it plans.
    oracle = spark.createDataFrame([(v,) for v in values], "x double").repartition(1)
    for condition in ("x > 100", "x = 0.0", "x = -0.0", "x >= 0.0", "x = double('NaN')"):
        seen = spark.sql(f"SELECT x FROM floats WHERE {condition}").collect()
        expected = oracle.where(condition).collect()
        assert expected, condition
        assert sorted(map(repr, seen)) == sorted(map(repr, expected)), condition


def test_every_read_after_refresh_sees_the_last_version(
    spark: SparkSession, relations: Relations, form: str
) -> None:
    source = Source(NUMBERS, numbers(1, 2, 2))
    source.declare(relations, "Revenue")
    for rows in (numbers(1, 2, 2), numbers(), numbers(7, None)):
        source.set(rows)
        relations.refresh(["revenue"])
        size = rows.num_rows
        assert spark.table("revenue").count() == size
        assert spark.read.table("REVENUE").count() == size
        assert spark.sql("SELECT count(*) FROM Revenue").collect() == [(size,)]
        assert spark.sql(
            "SELECT (SELECT count(*) FROM revenue), count(*) FROM revenue a, revenue b"
        ).collect() == [(size, size * size)]


def test_large_relations_take_a_file_and_small_ones_do_not(
    spark: SparkSession, relations: Relations, tmp_path: Path
) -> None:
    source = Source(NUMBERS, numbers(*range(10)))
    source.declare(relations, "r")
    relations.refresh()
    assert not list((tmp_path / "snapshots").iterdir())
    source.set(numbers(*range(module.LOCAL_ROWS + 1)))
    relations.refresh()
    assert len(list((tmp_path / "snapshots").iterdir())) == 1
    total = module.LOCAL_ROWS * (module.LOCAL_ROWS + 1) // 2
    assert spark.sql("SELECT sum(x) FROM r WHERE x >= 0").collect() == [(total,)]


def test_work_is_done_only_for_what_is_read_and_changed(
    spark: SparkSession, relations: Relations
) -> None:
    read, unread = Source(NUMBERS, numbers(1)), Source(NUMBERS, numbers(1))
    read.declare(relations, "read")
    unread.declare(relations, "unread")
    for _ in range(3):
        relations.refresh(["read"])
    assert (read.taken, unread.taken) == (1, 0)
    for value in range(5):
        read.set(numbers(value))
    relations.refresh(relations.mentioned("SELECT * FROM read"))
    assert (read.taken, unread.taken) == (2, 0)
    assert ordered(spark.table("read")) == [4]
    relations.refresh()
    assert (read.taken, unread.taken) == (2, 1)


def test_declaring_again_keeps_what_spark_has(spark: SparkSession, relations: Relations) -> None:
    source = Source(NUMBERS, numbers(1))
    source.declare(relations, "r")
    relations.refresh()
    source.declare(relations, "r")
    relations.refresh()
    assert source.taken == 1
    wider = (*NUMBERS, Field("y", T.StringType()))
    rows = pa.table({"x": pa.array([1], pa.int64()), "y": pa.array(["a"])})
    Source(wider, rows).declare(relations, "r")
    relations.refresh()
    assert spark.table("r").collect() == [(1, "a")]


def test_a_frame_shows_the_version_of_its_making(
    spark: SparkSession, relations: Relations, form: str
) -> None:
    source = Source(NUMBERS, numbers(0))
    source.declare(relations, "r")
    relations.refresh()
    before = spark.sql("SELECT x FROM r")
    for value in range(1, 4):
        collect_garbage(spark)
        source.set(numbers(value))
        relations.refresh()
    assert ordered(before) == [0]
    assert ordered(spark.table("r")) == [3]
    relations.forget("r")
    assert ordered(before) == [0]


def test_files_go_when_no_plan_reads_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCAL_ROWS", -1)
    monkeypatch.setattr(module, "UNCOLLECTED_BYTES", 1)
    relations = Relations(spark, tmp_path)
    source = Source(NUMBERS, numbers(0))
    source.declare(relations, "r")
    relations.refresh()
    held = spark.table("r").where("x >= 0")
    first = tmp_path / "00000000.parquet"

    def until(done: Callable[[], bool]) -> bool:
        """Make versions until it is so; Spark lets go of a plan some time after its query."""
        for value in range(50):
            collect_garbage(spark)
            source.set(numbers(value))
            relations.refresh()
            if done():
                return True
        return False

    made = 6
    for value in range(made):
        source.set(numbers(value))
        relations.refresh()
    spark.sql("SELECT a.x FROM r a JOIN r b ON a.x = b.x").collect()
    assert until(lambda: len(list(tmp_path.iterdir())) < made)
    assert first.exists()
    assert ordered(held) == [0]
    del held
    assert until(lambda: not first.exists())
    assert spark.table("r").count() == 1
    relations.forget("r")


@pytest.mark.parametrize("folder", ["k=v", "[a]*?{b,c}", "100%20 : ü#", ".hidden/_too", "back\\s"])
def test_any_directory_will_do_and_is_cleaned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setattr(module, "LOCAL_ROWS", -1)
    directory = tmp_path / folder
    directory.mkdir(parents=True)
    (directory / "00000000.parquet").write_bytes(b"left by a crash")
    relations = Relations(spark, directory)
    assert not list(directory.iterdir())
    Source(NUMBERS, numbers(1, 2)).declare(relations, "r")
    relations.refresh()
    assert spark.table("r").columns == ["x"]
    assert ordered(spark.table("r")) == [1, 2]
    relations.forget("r")


def test_a_directory_that_cannot_be_written_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(IncrementalError, match="INCR_STATE_READ_ONLY"):
        Relations(spark, tmp_path / "taken")
    relations = Relations(spark, tmp_path / "full")
    source = Source(NUMBERS, numbers(1))
    source.declare(relations, "r")

    def full(table: pa.Table, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(module, "LOCAL_ROWS", -1)
        broken.setattr(module, "_write", full)
        with pytest.raises(IncrementalError, match="No space left"):
            relations.refresh()
    assert not list((tmp_path / "full").iterdir())
    relations.refresh()
    assert ordered(spark.table("r")) == [1]
    relations.forget("r")


@pytest.mark.parametrize(
    "type_",
    [
        T.StructType([]),
        T.ArrayType(
            T.StructType([T.StructField("a", T.IntegerType()), T.StructField("A", T.IntegerType())])
        ),
    ],
    ids=lambda t: t.simpleString(),
)
def test_types_that_no_file_can_hold_are_read_all_the_same(
    spark: SparkSession, relations: Relations, form: str, type_: T.DataType
) -> None:
    schema = (Field("s", type_), *NUMBERS)
    nulls = pa.nulls(2, arrow_schema(schema).field(0).type)
    rows = pa.table([nulls, pa.array([1, 2], pa.int64())], schema=arrow_schema(schema))
    Source(schema, rows).declare(relations, "r")
    relations.refresh()
    assert spark.table("r").schema["s"].dataType == type_
    assert ordered(spark.table("r").select("x")) == [1, 2]


def test_forgetting_takes_the_view_away(spark: SparkSession, relations: Relations) -> None:
    source = Source(NUMBERS, numbers(1))
    source.declare(relations, "`a.b`")
    relations.forget("`a.b`")
    source.declare(relations, "`a.b`")
    relations.refresh()
    assert spark.sql("SELECT x FROM `a.b`").collect() == [(1,)]
    relations.forget("`A.B`")
    assert relations.names() == set()
    assert not spark.catalog.tableExists("`a.b`")
    relations.forget("`a.b`")


def test_spark_views_functions_and_caches_over_a_relation_are_current(
    spark: SparkSession, relations: Relations, form: str
) -> None:
    source = Source(NUMBERS, numbers(1))
    source.declare(relations, "base")

    def sql(text: str) -> DataFrame:
        relations.refresh(relations.mentioned(text))
        return spark.sql(text)

    sql("CREATE OR REPLACE TEMP VIEW `over it` AS SELECT sum(x) AS s FROM base")
    sql("CREATE OR REPLACE TEMP VIEW twice AS SELECT 2 * s AS s FROM `over it`")
    sql(
        "CREATE OR REPLACE TEMPORARY FUNCTION total() RETURNS BIGINT RETURN SELECT sum(x) FROM base"
    )
    sql("CACHE TABLE base")
    sql("CACHE TABLE kept AS SELECT x FROM base")
    try:
        for value in (1, 5, 6):
            source.set(numbers(value))
            assert sql("SELECT s FROM twice").collect() == [(2 * value,)]
            source.set(numbers(value + 10))
            assert sql("SELECT total()").collect() == [(value + 10,)]
            source.set(numbers(value + 20))
            assert sql("SELECT * FROM kept").collect() == [(value + 20,)]
            source.set(numbers(value + 30))
            assert sql("SELECT * FROM base").collect() == [(value + 30,)]
            source.set(numbers(value + 40))
            found = sql("EXECUTE IMMEDIATE 'SELECT * FROM ' || 'ba' || 'se'").collect()
            assert found == [(value + 40,)]
    finally:
        spark.sql("UNCACHE TABLE IF EXISTS kept")
        spark.sql("DROP TEMPORARY FUNCTION IF EXISTS total")
        for view in ("kept", "twice", "over it"):
            spark.catalog.dropTempView(view)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", set()),
        ("SELECT * FROM revenue", {"revenue"}),
        ("select * from REVENUE r", {"revenue"}),
        ("SELECT * FROM`revenue`r", {"revenue"}),
        ("SELECT*FROM(SELECT 1)JOIN/**/revenue,orders", {"revenue", "Orders"}),
        ("SELECT * FROM revenues", set()),
        ("SELECT * FROM my_revenue", set()),
        ("SELECT * FROM `My Table`", {"my table"}),
        ("SELECT * FROM `tick``s`", {"`tick``s`"}),
        ('SELECT * FROM "tick`s"', {"`tick``s`"}),
        ("SELECT * FROM `dot.ted`", {"`dot.ted`"}),
        ("SELECT * FROM ÜMSATZ", {"ümsatz"}),
        ("SELECT * FROM IDENTIFIER('rev' || 'enue')", ...),
        ("EXECUTE IMMEDIATE q", ...),
        ("SELECT identifier FROM orders", {"Orders"}),
        ("SELECT 'not closed", set()),
    ],
)
def test_mentioned_finds_every_name(relations: Relations, text: str, expected: Any) -> None:
    source = Source(NUMBERS, numbers())
    for name in ("revenue", "Orders", "my table", "`tick``s`", "`dot.ted`", "ümsatz"):
        source.declare(relations, name)
    assert relations.mentioned(text) == (relations.names() if expected is ... else expected)


def test_relations_that_are_read_together_agree(spark: SparkSession, relations: Relations) -> None:
    left, right = Source(NUMBERS, numbers(1)), Source(NUMBERS, numbers(1))
    left.declare(relations, "l")

    def commit_meanwhile() -> pa.Table:
        if right.taken == 0:
            left.set(numbers(2))
            right.set(numbers(2))
        return right.take()

    relations.declare("r", NUMBERS, lambda: right.version, commit_meanwhile)
    relations.refresh()
    assert spark.sql("SELECT l.x, r.x FROM l, r").collect() == [(2, 2)]


def test_an_overtaken_reader_does_not_bring_old_rows_back(
    spark: SparkSession, relations: Relations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "ATTEMPTS", 1)
    source = Source(NUMBERS, numbers(1))

    def be_overtaken() -> pa.Table:
        rows = source.take()
        if source.taken == 1:
            source.set(numbers(2))
            relations.refresh()
        return rows

    relations.declare("r", NUMBERS, lambda: source.version, be_overtaken)
    relations.refresh()
    assert ordered(spark.table("r")) == [2]
