"""A few hundred commits of the soak; `python -m tests.reliability.soak` runs 10,000."""

from __future__ import annotations

from pathlib import Path

from spark_incr.engine import Engine
from spark_incr.inspection import check_views
from tests.reliability.soak import Soak, prepare
from tests.sources.streams import reopened

RETAIN = 10


def test_files_and_manifests_stay_bounded(engine: Engine, tmp_path: Path) -> None:
    engine.versions.store._retain_versions = RETAIN
    prepare(engine, tmp_path / "in")
    soak = Soak(engine, tmp_path / "in")
    soak.run(250)
    first = soak.run(50)
    soak.run(50)
    last = soak.run(50)
    # Young files, a crowd of small ones, and the kept manifests: docs/state-format.md, "Garbage"
    assert last.files <= 6 * RETAIN + 16 + RETAIN + 10
    assert last.files <= first.files * 1.5
    assert last.manifest_bytes <= first.manifest_bytes * 1.5
    assert last.megabytes <= first.megabytes * 2
    engine = reopened(engine)
    assert not [finding for finding in check_views(engine) if finding.problem]
