"""One writer: a live one is named, a dead one is forgotten, readers never ask."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from spark_incr.errors import IncrementalError
from spark_incr.runtime.store import Store

HOLDER = """
import sys, time
from spark_incr.runtime.store import Store
store = Store.open(sys.argv[1])
with store.begin() as transaction:
    transaction.commit({"by": "holder"})
print("ready", flush=True)
time.sleep(600)
"""


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the lock."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def refusal(path: Path) -> IncrementalError:
    with pytest.raises(IncrementalError) as caught:
        Store.open(path)
    return caught.value


def test_a_live_writer_is_named_and_a_killed_one_is_followed(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        refused = refusal(tmp_path)
        assert refused.condition == "INCR_STATE_LOCKED"
        assert f"process {process.pid}" in refused.message
        assert "started 20" in refused.detail
        with Store.open(tmp_path, read_only=True) as reader:
            assert reader.manifest.body == {"by": "holder"}
        process.send_signal(signal.SIGKILL)
        process.wait()
        with Store.open(tmp_path) as store:
            assert store.manifest.body == {"by": "holder"}
            assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "state"):
        assert "it is a file, or in one" in refusal(path).message


def test_twice_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("a live owner is not waited for"))
    with Store.open(tmp_path):
        refused = refusal(tmp_path)
        assert refused.condition == "INCR_STATE_LOCKED"
        assert f"process {os.getpid()}" in refused.message
    Store.open(tmp_path).close()


def test_what_the_file_says_does_not_lock(tmp_path: Path) -> None:
    for text in ('{"pid": 1, "host": "elsewhere", "started": null}', "", "\xff{", "[]"):
        (tmp_path / "lock").write_text(text, encoding="latin-1")
        Store.open(tmp_path).close()


def test_a_lock_on_its_way_from_a_dead_owner_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    owner = {"pid": gone.pid, "host": socket.gethostname(), "started": 0.0}
    (tmp_path / "lock").write_text(json.dumps(owner))
    descriptor = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert f"process {gone.pid}" in refusal(tmp_path).message
    monkeypatch.setattr("time.sleep", lambda _: fcntl.flock(descriptor, fcntl.LOCK_UN))
    Store.open(tmp_path).close()
    os.close(descriptor)


def test_a_failed_opening_lets_go(tmp_path: Path) -> None:
    (tmp_path / f"manifest-{1:020d}.json").write_text("damaged")
    for _ in range(2):
        assert refusal(tmp_path).condition == "INCR_STATE_CORRUPT"


def test_a_forked_child_neither_writes_nor_holds(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    transaction = store.begin()
    transaction.write(pa.table({"n": [1]}))
    released, release = os.pipe()
    refused, report = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store.close()
            store.begin()
        except IncrementalError:
            os.write(report, b"refused")
        os.read(released, 1)
        os._exit(0)
    try:
        assert os.read(refused, 7) == b"refused"
        assert len(list(tmp_path.glob("data-*"))) == 1
        assert refusal(tmp_path).condition == "INCR_STATE_LOCKED"
        store.close()
        Store.open(tmp_path).close()
    finally:
        os.write(release, b".")
        os.waitpid(child, 0)
        for descriptor in (released, release, refused, report):
            os.close(descriptor)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "state"):
        assert refusal(path).condition == "INCR_STATE_READ_ONLY"


@pytest.mark.parametrize("step", ["create directory", "lock"])
def test_a_file_system_that_refuses(tmp_path: Path, step: str) -> None:
    def refuse(name: str) -> None:
        if name == step:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with pytest.raises(IncrementalError, match="Read-only file system") as caught:
        Store.open(tmp_path / "state", fault=refuse)
    assert caught.value.condition == "INCR_STATE_READ_ONLY"
