"""The dbt package with real dbt: over Thrift, by the session method, and beside our own runner."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_incr.models.run import load
from tests.calling import CommandLine
from tests.serving import Server, start, stop

PACKAGE = Path(__file__).parents[2] / "dbt"
REVENUE = "SELECT country, orders, CAST(revenue AS STRING) FROM shop.revenue_by_country ORDER BY 1"
# Runs dbt commands one after the other in one process, and changes files in between.
SCRIPT = """
import json, pathlib, sys
from dbt.cli.main import dbtRunner
found = []
for step in json.loads(sys.argv[1]):
    if isinstance(step, dict):
        path = pathlib.Path(step["file"])
        path.write_text(path.read_text().replace(step["old"], step["new"]))
        continue
    result = dbtRunner().invoke(["--quiet", "--no-use-colors", *step])
    rows = getattr(result.result, "results", None) or []
    found.append([result.success, {r.node.name: f"{r.status} {r.message}" for r in rows if hasattr(r, "node")}])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with its example, so that nothing is written into the repository."""
    folder = tmp_path_factory.mktemp("dbt")
    shutil.copytree(PACKAGE, folder / "package", ignore=shutil.ignore_patterns("target", "logs"))
    return folder / "package" / "example"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = start(tmp_path_factory.mktemp("server") / "state", "--connect-port", "none")
    yield started
    stop(started)


def dbt(project: Path, port: int, *steps: list[str] | dict[str, str]) -> list[Any]:
    changed = [
        {**step, "file": str(project / step["file"])} if isinstance(step, dict) else step
        for step in steps
    ]
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(changed)],
        cwd=project,
        env={**os.environ, "SHOP_PORT": str(port), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"},
        capture_output=True,
        text=True,
        timeout=400,
        stdin=subprocess.DEVNULL,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    results = json.loads(found.stdout.splitlines()[-1])
    return list(results)


def rows(server: Server, query: str) -> list[tuple[Any, ...]]:
    cursor = server.cursor()
    cursor.execute(query)
    return [tuple(row) for row in cursor.fetchall()]


def versions(server: Server) -> dict[str, int]:
    return {row[0]: row[4] for row in rows(server, "SHOW INCREMENTAL VIEWS")}


def test_dbt_over_thrift(project: Path, server: Server) -> None:
    deps, seed, first, second, tests, docs = dbt(
        project, server.thrift, ["deps"], ["seed"], ["run"], ["run"], ["test"], ["docs", "generate"]
    )
    assert deps[0]
    assert seed[0], seed
    assert first[0], first
    assert set(first[1]) == {"paid_orders", "revenue_by_country", "best_days"}
    assert second[0]
    assert all("unchanged" in message for message in second[1].values()), second
    assert tests[0], tests
    assert len(tests[1]) == 4
    assert docs[0]
    catalog = json.loads((project / "target" / "catalog.json").read_text(encoding="utf-8"))
    columns = catalog["nodes"]["model.shop.revenue_by_country"]["columns"]
    assert list(columns) == ["country", "orders", "revenue", "largest"]
    assert rows(server, REVENUE) == [("UK", 1, "10.00"), ("US", 3, "53.25")]

    # The views follow what others write.
    rows(server, "INSERT INTO shop.orders VALUES (6, 1, 100, 'paid', DATE '2026-01-04')")
    assert rows(server, REVENUE)[0] == ("UK", 2, "110.00")


def test_the_runner_writes_what_dbt_writes(project: Path, server: Server) -> None:
    models = load(project / "models", "shop", {})
    written = project / "target" / "run" / "shop" / "models"
    (run,) = dbt(project, server.thrift, ["run", "--full-refresh"])
    assert run[0], run
    for name, statement in models.statements.items():
        (path,) = written.rglob(f"{name}.sql")
        assert path.read_text(encoding="utf-8").strip() == statement.text


def test_changed_models_are_replaced_and_others_left_alone(project: Path, server: Server) -> None:
    before = versions(server)
    days = "models/marts/best_days.sql"
    third = {"file": days, "old": "shown = 2", "new": "shown = 3"}
    changed, failing, same, applied = dbt(
        project,
        server.thrift,
        third,
        ["run"],
        {"file": days, "old": "'apply'", "new": "'fail', meta={'comment': 'it\\'s new'}"},
        ["run", "--select", "best_days"],
        {"file": days, "old": "'fail'", "new": "'continue'"},
        ["run", "--select", "best_days"],
        {"file": days, "old": "'continue'", "new": "'apply'"},
        ["run", "--select", "best_days"],
    )
    assert changed[0], changed
    assert "unchanged" in changed[1]["paid_orders"]
    assert "unchanged" not in changed[1]["best_days"]
    assert not failing[0]
    assert same[0]
    assert "kept" in same[1]["best_days"]
    assert applied[0], applied
    after = versions(server)
    assert after["shop.paid_orders"] == before["shop.paid_orders"]
    assert after["shop.best_days"] > before["shop.best_days"]
    assert len(rows(server, "SELECT * FROM shop.best_days")) == 3
    assert "it\\'s new" in rows(server, "SHOW CREATE TABLE shop.best_days")[0][0]

    # A view that others read is replaced in place, and they follow.
    smaller = {"file": "models/staging/paid_orders.sql", "old": "<> 'returned'", "new": "<> 'void'"}
    (replaced,) = dbt(project, server.thrift, smaller, ["run", "--select", "paid_orders"])
    assert replaced[0], replaced
    assert rows(server, REVENUE)[0] == ("UK", 3, "112.25")


def test_seeds_again_and_full_refresh(project: Path, server: Server) -> None:
    seed, fresh, run = dbt(
        project, server.thrift, ["seed"], ["seed", "--full-refresh"], ["run", "--full-refresh"]
    )
    assert seed[0], seed
    assert fresh[0], fresh
    assert run[0], run
    assert rows(server, REVENUE) == [("UK", 2, "12.25"), ("US", 3, "53.25")]


def test_dbt_by_the_session_method(
    project: Path, tmp_path: Path, command_line: CommandLine
) -> None:
    settings = {"SHOP_TARGET": "session", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    for arguments, expected in (
        (["build"], "PASS=9"),
        (["run"], "unchanged shop.paid_orders"),
        (["run", "--full-refresh", "--select", "best_days"], "PASS=1"),
    ):
        command = ["dbt", "--state", str(tmp_path / "state"), "--", "--no-use-colors", *arguments]
        found = command_line(*command, cwd=project, **settings)
        assert found.returncode == 0, found.stdout + found.stderr
        assert expected in found.stdout
        assert "Deprecat" not in found.stdout
