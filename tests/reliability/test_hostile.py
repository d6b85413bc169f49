"""Names, texts and values that were made to do harm: they are data and stay data."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from spark_incr.engine import Engine
from tests.sources.streams import bag, bag_of, put, reopened, run

NAMES = [
    "it's \"quoted\"",
    "a`b``c",
    "dots.in.it",
    "../../etc/passwd",
    "/absolute/path",
    "C:\\back\\slash",
    "sp ace\ttab",
    "héllo wörld 表 🙂 ‮",
    "'; DROP TABLE t; --",
    "{\"$segment\":[\"data-00000000000000000001-00000000.arrow\",0,8,0]}",
    "%s {0} ${jndi:x} $1",
    "n" * 500,
]  # fmt: skip


def ticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def test_names(engine: Engine, tmp_path: Path) -> None:
    inbox = tmp_path / "in 'box' %20 #1"
    before = {path for path in tmp_path.rglob("*") if engine.path not in path.parents}
    inbox.mkdir()
    put(inbox, [{"k": 1}])
    path = str(inbox).replace("\\", "\\\\").replace("'", "\\'")
    for number, name in enumerate(NAMES):
        table, view = ticked(name), ticked(name + "v")
        run(engine, f"CREATE INCREMENTAL TABLE {table} ({table} BIGINT, x BIGINT)")
        run(
            engine,
            f"CREATE INCREMENTAL VIEW {view} AS SELECT {table} AS {view}, count(*) AS n FROM {table} GROUP BY {table}",
        )
        run(engine, f"INSERT INTO {table} VALUES ({number}, 1), ({number}, 2)")
        if number < 4:
            source = ticked(name + "s")
            run(
                engine,
                f"CREATE INCREMENTAL SOURCE {source} (k BIGINT) USING json OPTIONS (path '{path}') ON ERROR QUARANTINE",
            )
    engine.process_available()
    engine = reopened(engine)
    for number, name in enumerate(NAMES):
        assert run(engine, f"SELECT * FROM {ticked(name + 'v')}") == [(number, 2)], name
        assert len(run(engine, f"SHOW CREATE INCREMENTAL VIEW {ticked(name + 'v')}")) == 1
        if number < 4:
            assert run(engine, f"SELECT * FROM {ticked(name + 's')}") == [(1,)]
            assert run(engine, f"SELECT * FROM {ticked(name + 's__rejected')}") == []
    after = {path for path in tmp_path.rglob("*") if engine.path not in path.parents}
    assert {p.name for p in after - before - {inbox}} == {
        "part" + p.name[4:] for p in inbox.iterdir()
    }
    assert all("/" not in entry and entry.isascii() for entry in os.listdir(engine.path))
    for name in NAMES:
        run(engine, f"DROP INCREMENTAL TABLE {ticked(name)} CASCADE")
    assert {r.kind for r in engine.relations} <= {"source", "table"}


def test_long_texts_wide_rows_and_long_values(engine: Engine) -> None:
    run(engine, "CREATE INCREMENTAL TABLE t (k BIGINT, s STRING)")
    long = "x" * (1 << 20)
    run(engine, f"CREATE INCREMENTAL VIEW v AS SELECT k, '{long}' AS s FROM t")
    run(
        engine,
        "CREATE INCREMENTAL VIEW lengths AS SELECT length(s) AS n, count(*) AS c FROM t GROUP BY length(s)",
    )
    huge = "y" * 100_000_000
    for rows in ([(1, huge)], [(2, "a")]):
        keys, texts = zip(*rows, strict=True)
        engine.commit({"t": {"insert": pa.table({"k": pa.array(keys, pa.int64()), "s": texts})}})
    engine = reopened(engine)
    assert bag(engine.view("lengths").to_arrow()) == bag_of((100_000_000, 1), (1, 1))
    assert [len(s) for s in engine.view("v").to_arrow()["s"].to_pylist()] == [1 << 20] * 2
    engine.commit({"t": {"delete": pa.table({"k": pa.array([1], pa.int64()), "s": [huge]})}})
    assert bag(engine.view("lengths").to_arrow()) == bag_of((1, 1))


def test_two_thousand_columns(engine: Engine) -> None:
    columns = ", ".join(f"c{i} BIGINT" for i in range(2_000))
    run(engine, f"CREATE INCREMENTAL TABLE wide ({columns})")
    run(engine, "CREATE INCREMENTAL VIEW w AS SELECT * FROM wide WHERE c1999 > 0")
    rows = pa.table({f"c{i}": pa.array([i, -i], pa.int64()) for i in range(2_000)})
    engine.commit({"wide": {"insert": rows}})
    assert engine.view("w").to_arrow().to_pylist() == rows.slice(0, 1).to_pylist()


def test_a_name_is_refused_before_anything_is_made(engine: Engine) -> None:
    for statement in (
        "CREATE INCREMENTAL TABLE __incr_t (k INT)",
        "CREATE INCREMENTAL TABLE t (__incr_w BIGINT)",
        "CREATE INCREMENTAL TABLE `` (k INT)",
    ):
        with pytest.raises(Exception, match="INCR_"):
            run(engine, statement)
    assert engine.version == 0
