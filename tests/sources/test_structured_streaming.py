"""Any stream of Structured Streaming as a source: exactly once over restarts and repetitions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from spark_incr.engine import Engine
from spark_incr.errors import IncrementalError
from tests.sources.streams import bag, bag_of, put, reopened, run

COLUMNS = "k STRING, x BIGINT, op STRING"


def stream(engine: Engine, inbox: Path, columns: str = COLUMNS) -> DataFrame:
    return engine.spark.readStream.schema(columns).json(str(inbox))


def test_a_stream_is_taken_in_once(engine: Engine, inbox: Path) -> None:
    def attach() -> None:
        engine.stream("s", stream(engine, inbox), changes="OP op, DELETE WHEN 'd'")

    attach()
    run(engine, "CREATE INCREMENTAL VIEW v AS SELECT k, sum(x) AS t FROM s GROUP BY k")
    put(inbox, [{"k": "a", "x": 1, "op": "i"}, {"k": "a", "x": 2, "op": "i"}])
    engine.process_available()
    put(inbox, [{"k": "a", "x": 1, "op": "d"}, {"k": "b", "x": 5, "op": "i"}])
    engine.process_available()
    expected = bag_of(("a", 2), ("b", 5))
    assert bag(engine.view("v").to_arrow()) == expected
    # Spark forgets that the last micro-batch was done, as if it had died before noting it.
    relation = engine.relation_named("s", "source")
    version, last = engine.version, relation.offsets["batch"]
    (commits,) = (engine.path / "checkpoints").glob("*/0/commits")
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    engine = reopened(engine)
    attach()
    engine.process_available()
    assert (engine.version, bag(engine.view("v").to_arrow())) == (version, expected)
    put(inbox, [{"k": "b", "x": 5, "op": "d"}])
    engine.start(interval=0.05)
    assert engine.await_version(version + 1, timeout=60)
    engine.stop()
    assert bag(engine.view("v").to_arrow()) == bag_of(("a", 2))
    # Another checkpoint would count its micro-batches from 0.
    engine = reopened(engine)
    shutil.rmtree(engine.path / "checkpoints")
    attach()
    put(inbox, [{"k": "c", "x": 1, "op": "i"}])
    with pytest.raises(Exception, match="INCR_SOURCE_OFFSETS"):
        engine.process_available()
    version = engine.version
    run(engine, "REFRESH INCREMENTAL SOURCE s FULL")
    assert bag(engine.view("v").to_arrow()) == bag_of(("a", 2), ("c", 1))
    assert engine.version == version + 1


def test_reading_anew_is_one_version_or_nothing(engine: Engine, inbox: Path) -> None:
    engine.stream("s", stream(engine, inbox), changes="OP op, DELETE WHEN 'd'")
    run(engine, "CREATE INCREMENTAL VIEW v AS SELECT k, sum(x) AS t FROM s GROUP BY k")
    put(inbox, [{"k": "a", "x": 1, "op": "i"}])
    engine.process_available()
    before, version = bag(engine.view("v").to_arrow()), engine.version
    bad = put(inbox, [{"k": "b", "x": 1, "op": "d"}])
    with pytest.raises(IncrementalError, match="the row to delete is not there"):
        run(engine, "REFRESH INCREMENTAL SOURCE s FULL")
    assert (bag(engine.view("v").to_arrow()), engine.version) == (before, version)
    bad.unlink()
    put(inbox, [{"k": "c", "x": 3, "op": "i"}])
    run(engine, "REFRESH INCREMENTAL SOURCE s FULL")
    assert (bag(engine.view("v").to_arrow()), engine.version) == (
        before + bag_of(("c", 3)),
        version + 1,
    )
    engine.start(interval=0.05)
    put(inbox, [{"k": "d", "x": 4, "op": "i"}])
    assert engine.await_version(version + 2, timeout=60)
    run(engine, "REFRESH INCREMENTAL SOURCE s FULL")
    put(inbox, [{"k": "e", "x": 5, "op": "i"}])
    assert engine.await_version(version + 4, timeout=60)
    engine.stop()
    assert bag(engine.view("v").to_arrow()) == before + bag_of(("c", 3), ("d", 4), ("e", 5))


def test_two_streams_and_bad_rows(engine: Engine, inbox: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    columns = "k STRING, x BIGINT"
    frames = stream(engine, inbox, columns), stream(engine, gone, columns)
    engine.stream("s", frames[0], deletes=frames[1])
    put(inbox, [{"k": "a", "x": 1}, {"k": "b", "x": 2}])
    engine.process_available()
    put(gone, [{"k": "c", "x": 1}])
    with pytest.raises(IncrementalError, match="the row to delete is not there"):
        engine.process_available()
    put(inbox, [{"k": "c", "x": 1}])
    # The micro-batch that failed is fixed by now: Spark repeats it as it was.
    with pytest.raises(IncrementalError, match="the row to delete is not there"):
        engine.process_available()
    assert bag(engine.source("s").to_arrow()) == bag_of(("a", 1), ("b", 2))


def test_what_is_refused(engine: Engine, inbox: Path) -> None:
    static = engine.spark.createDataFrame([(1,)], "x INT")
    with pytest.raises(IncrementalError, match="not a stream"):
        engine.stream("s", static)
    engine.stream("s", stream(engine, inbox, "k STRING, x BIGINT"), key=["k"])
    with pytest.raises(IncrementalError) as caught:
        engine.stream("s", stream(engine, inbox, "k STRING"), key=["k"])
    assert caught.value.condition == "INCR_SOURCE_CHANGED"
    engine = reopened(engine)
    with pytest.raises(IncrementalError) as caught:
        run(engine, "REFRESH INCREMENTAL SOURCE s")
    assert caught.value.condition == "INCR_SOURCE_DETACHED"
