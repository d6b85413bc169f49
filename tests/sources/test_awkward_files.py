"""Files that no reader likes, and statements about sources that look right: each is told, none is silent."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from spark_incr.engine import Engine
from spark_incr.errors import IncrementalError
from tests.sources.streams import bag, bag_of, put, reopened, run


def source(engine: Engine, directory: Path, name: str, columns: str, rest: str = "") -> None:
    directory.mkdir(exist_ok=True)
    format_, _, clauses = rest.partition(" ") if rest else ("json", "", "")
    run(
        engine,
        f"CREATE INCREMENTAL SOURCE {name} ({columns}) USING {format_}"
        f" OPTIONS (path '{directory}') {clauses}",
    )


def rejected(engine: Engine, name: str) -> list[str]:
    rows = engine.spark.sql(f"SELECT reason FROM {name}__rejected").collect()
    return sorted(str(row[0]) for row in rows)


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_a_file_that_cannot_be_read_is_one_bad_row(
    engine: Engine, inbox: Path, tmp_path: Path, format_: str
) -> None:
    source(engine, inbox, "s", "a INT, b STRING", f"{format_} ON ERROR QUARANTINE")
    source(engine, tmp_path / "other", "other", "a INT")
    (inbox / "bad").write_bytes(b"no such format")
    good = pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]})
    wide = pa.table({"a": pa.array([2**40], pa.int64()), "b": ["y"]})
    write = pq.write_table if format_ == "parquet" else pyarrow.orc.write_table
    write(good, inbox / "good")
    write(wide, inbox / "wide")
    put(tmp_path / "other", [{"a": 7}])
    engine.process_available()
    assert bag(engine.relation_named("other", "source").contents.to_arrow()) == bag_of((7,))
    assert bag(engine.relation_named("s", "source").contents.to_arrow()) == bag_of((1, "x"))
    assert len(rejected(engine, "s")) == 2


def test_a_file_that_cannot_be_read_holds_up_its_source_alone(
    engine: Engine, inbox: Path, tmp_path: Path
) -> None:
    source(engine, inbox, "s", "a INT", "parquet")
    (inbox / "bad").write_bytes(b"no such format")
    directory = tmp_path / "streamed"
    directory.mkdir()
    put(directory, [{"a": 7}])
    engine.stream("t", engine.spark.readStream.schema("a INT").json(str(directory)))
    with pytest.raises(IncrementalError, match="the file cannot be read"):
        engine.process_available()
    assert bag(engine.relation_named("t", "source").contents.to_arrow()) == bag_of((7,))


def test_bytes_that_are_no_text_are_a_bad_row(engine: Engine, inbox: Path) -> None:
    source(engine, inbox, "s", "a INT, b STRING", "json ON ERROR QUARANTINE")
    (inbox / "mixed").write_bytes(b'{"a": 1, "b": "\xff\xfe"}\n{"a": 2, "b": "ok"}\n')
    engine.process_available()
    assert bag(engine.relation_named("s", "source").contents.to_arrow()) == bag_of((2, "ok"))
    assert len(rejected(engine, "s")) == 1


def test_a_weight_that_no_sum_could_hold_is_a_bad_row(engine: Engine, inbox: Path) -> None:
    source(engine, inbox, "s", "a INT", "json CHANGES (WEIGHT w) ON ERROR QUARANTINE")
    put(inbox, [{"a": 1, "w": 2**62}, {"a": 2, "w": -(2**63)}, {"a": 3, "w": 2}])
    engine.process_available()
    assert bag(engine.relation_named("s", "source").contents.to_arrow()) == bag_of((3,), (3,))
    assert rejected(engine, "s") == ["the weight is beyond 2147483647"] * 2


def test_a_source_keeps_its_name_in_other_letters(engine: Engine, inbox: Path) -> None:
    source(engine, inbox, "clicks", "a INT")
    put(inbox, [{"a": 1}])
    engine.process_available()
    run(
        engine,
        "CREATE OR REPLACE INCREMENTAL SOURCE Clicks (a INT, b INT) USING json"
        f" OPTIONS (path '{inbox}')",
    )
    run(engine, "CREATE INCREMENTAL VIEW v AS SELECT count(*) AS n FROM CLICKS")
    engine = reopened(engine)
    put(inbox, [{"a": 2, "b": 3}])
    engine.process_available()
    assert bag(engine.view("v").to_arrow()) == bag_of((2,))


def test_an_envelope_is_not_declared(engine: Engine, inbox: Path) -> None:
    image = "STRUCT<a: INT>"
    for columns in (
        f"before {image}, after {image}, op STRING",
        f"payload STRUCT<before: {image}, after: {image}, op: STRING>",
    ):
        with pytest.raises(IncrementalError, match="declare those of the row"):
            source(engine, inbox, "s", columns, "json CHANGES (DEBEZIUM)")


def test_a_payload_has_a_sequence(engine: Engine, inbox: Path) -> None:
    image = "STRUCT<a: INT, b: STRING>"
    payload = f"payload STRUCT<before: {image}, after: {image}, op: STRING, ts_ms: BIGINT>"
    frame = engine.spark.readStream.schema(payload).json(str(inbox))
    engine.stream("s", frame, changes="DEBEZIUM", key=["a"], sequence_by="ts_ms")
    late = {"after": {"a": 1, "b": "new"}, "op": "u", "ts_ms": 2}
    early = {"after": {"a": 1, "b": "old"}, "op": "c", "ts_ms": 1}
    put(inbox, [{"payload": late}, {"payload": early}])
    engine.process_available()
    assert bag(engine.relation_named("s", "source").contents.to_arrow()) == bag_of((1, "new"))


def test_only_an_envelope_lends_its_members(engine: Engine, inbox: Path) -> None:
    with pytest.raises(IncrementalError, match="there is no column at"):
        source(engine, inbox, "s", "k INT, payload STRUCT<at: INT>", "json KEY (k) SEQUENCE BY at")
