"""Between any two steps of a commit the process may die, the disk may fail, or Ctrl-C may come.

After a crash the directory opens at the version before, or at the one after if the rename was
done, and holds nothing else. After a failure the same store goes on from the version before, and
after an interrupt from the one that others see.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from spark_incr.errors import IncrementalError
from spark_incr.runtime import datafile, directory, interrupts
from spark_incr.runtime import store as store_module
from spark_incr.runtime.store import Manifest, Segment, Store
from tests.interrupting import Lines

RETAIN = 2
STEPS = [
    "create data",
    "write data",
    "write data",
    "write data",
    "flush data",
    "fsync data",
    "write manifest",
    "fsync manifest",
    "rename manifest",
    "fsync directory",
    "delete manifest",
    "delete data",
]
COMMITTED = STEPS.index("rename manifest") + 1
DURABLE = STEPS.index("fsync directory") + 1


class Crash(BaseException):
    """The process ends here: nothing of the store may run after it."""


class Faults:
    """Fails at the steps whose places, counted from the last `arm`, are chosen."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._fails: Callable[[int], bool] = lambda _: False
        self._failure: BaseException = Crash()

    def arm(self, failure: BaseException, fails: Callable[[int], bool]) -> None:
        self.seen, self._failure, self._fails = [], failure, fails

    def disarm(self) -> None:
        self._fails = lambda _: False

    def __call__(self, step: str) -> None:
        self.seen.append(step)
        if self._fails(len(self.seen) - 1):
            raise self._failure


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def number(value: int) -> pa.Table:
    return pa.table({"n": [value]})


def commit(store: Store) -> Manifest:
    """A version with two tables that tell its number and one that is carried from the last."""
    with_carry = [Segment.from_json(run) for run in runs(store.manifest)[:1]]
    transaction = store.begin()
    written = [transaction.write(number(transaction.version * k)) for k in (1, -1)]
    carried = transaction.carry(with_carry).values()
    return transaction.commit({"runs": [s.to_json() for s in (*written, *carried)]})


def commit_or_abort(store: Store) -> None:
    """The same, by a caller that outlives what is raised."""
    try:
        commit(store)
    except BaseException:
        store.abort()
        raise


def runs(manifest: Manifest) -> list[dict[str, object]]:
    found = manifest.body.get("runs", [])
    assert isinstance(found, list)
    return found


def check(store: Store, path: Path, version: int) -> None:
    """The store is at the version, every kept version is whole, and nothing else is on disk."""
    assert store.manifest.version == version
    kept = list(range(max(1, version - RETAIN + 1), version + 1))
    assert store.versions() == kept
    expected = {"lock"}
    for v in kept:
        expected.add(f"manifest-{v:020d}.json")
        segments = [Segment.from_json(run) for run in runs(store.manifest_at(v))]
        expected |= {segment.file for segment in segments}
        values = [store.read(segment).column(0)[0].as_py() for segment in segments]
        assert values == ([v, -v, v - 1] if v > 1 else [v, -v])
    assert set(os.listdir(path)) == expected


def prepared(path: Path) -> tuple[Store, Faults]:
    """A store whose next commit goes through every kind of step, the deletions too."""
    faults = Faults()
    store = Store.open(path, retain_versions=RETAIN, fault=faults)
    for _ in range(3):
        commit(store)
    return store, faults


def die(store: Store) -> None:
    """What the kernel does for a process that ends."""
    assert store._lock is not None
    store._lock.release()


def test_a_commit_has_these_steps(tmp_path: Path) -> None:
    store, faults = prepared(tmp_path)
    faults.arm(Crash(), lambda _: False)
    commit(store)
    assert faults.seen == STEPS
    check(store, tmp_path, 4)
    store.close()


@pytest.mark.parametrize("place", range(len(STEPS)), ids=lambda i: f"{i}-{STEPS[i]}")
def test_a_crash_before_any_step(tmp_path: Path, place: int) -> None:
    store, faults = prepared(tmp_path)
    faults.arm(Crash(), lambda i: i == place)
    with pytest.raises(Crash):
        commit(store)
    die(store)
    version = 4 if place >= COMMITTED else 3
    with Store.open(tmp_path, read_only=True) as reader:
        assert reader.manifest.version == version
    with Store.open(tmp_path, retain_versions=RETAIN) as recovered:
        check(recovered, tmp_path, version)
        commit(recovered)
        check(recovered, tmp_path, version + 1)


def test_a_crash_in_recovery(tmp_path: Path) -> None:
    """Recovery is begun again until it is done."""
    store, faults = prepared(tmp_path)
    faults.arm(Crash(), lambda i: i == DURABLE)
    with pytest.raises(Crash):
        commit(store)
    die(store)
    (tmp_path / f"manifest-{5:020d}.json.tmp").write_bytes(b"{")
    (tmp_path / f"data-{5:020d}-00000000.arrow").write_bytes(b"\xff")
    for place in range(2, 100):
        again = Faults()
        again.arm(Crash(), lambda i, place=place: i == place)  # type: ignore[misc]
        try:
            recovered = Store.open(tmp_path, retain_versions=RETAIN, fault=again)
        except Crash:
            continue
        check(recovered, tmp_path, 4)
        recovered.close()
        assert place > 4
        return


@pytest.mark.parametrize("place", range(len(STEPS)), ids=lambda i: f"{i}-{STEPS[i]}")
def test_a_full_disk_at_any_step(tmp_path: Path, place: int) -> None:
    store, faults = prepared(tmp_path)
    faults.arm(full(), lambda i: i == place)
    if place < DURABLE:
        with pytest.raises(IncrementalError, match="No space left on device") as caught:
            commit(store)
        assert caught.value.condition == "INCR_STATE_WRITE"
        check(store, tmp_path, 3)
        commit(store)
    else:
        commit(store)
        faults.disarm()
        commit(store)
        check(store, tmp_path, 5)
        return
    check(store, tmp_path, 4)
    store.close()
    with Store.open(tmp_path, retain_versions=RETAIN) as reopened:
        check(reopened, tmp_path, 4)


@pytest.mark.parametrize("place", range(len(STEPS)), ids=lambda i: f"{i}-{STEPS[i]}")
def test_a_disk_that_stays_full_from_any_step_on(tmp_path: Path, place: int) -> None:
    """Even the undoing fails: the version before is served, and reopening finds a whole one."""
    store, faults = prepared(tmp_path)
    faults.arm(full(), lambda i: i >= place)
    if place < DURABLE:
        with pytest.raises(IncrementalError) as caught:
            commit(store)
        assert caught.value.condition == "INCR_STATE_WRITE"
        assert store.manifest.version == 3
        assert store.read(Segment.from_json(runs(store.manifest)[0])).equals(number(3))
    else:
        commit(store)
    faults.disarm()
    renamed = place >= COMMITTED
    if renamed and place < DURABLE:
        with pytest.raises(IncrementalError, match="could not be taken back") as caught:
            store.begin()
        assert caught.value.condition == "INCR_STATE_WRITE"
    store.close()
    with Store.open(tmp_path, retain_versions=RETAIN) as reopened:
        check(reopened, tmp_path, 4 if renamed else 3)


def seen_by_others(path: Path) -> int:
    with Store.open(path, read_only=True) as reader:
        for run in runs(reader.manifest):
            reader.read(Segment.from_json(run))
        return reader.manifest.version


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("place", range(len(STEPS)), ids=lambda i: f"{i}-{STEPS[i]}")
def test_an_interrupt_before_any_step(
    tmp_path: Path, place: int, interrupt: type[BaseException]
) -> None:
    store, faults = prepared(tmp_path)
    faults.arm(interrupt(), lambda i: i == place)
    with pytest.raises(interrupt):
        commit_or_abort(store)
    version = 4 if place >= COMMITTED else 3
    assert store.manifest.version == seen_by_others(tmp_path) == version
    commit_or_abort(store)
    check(store, tmp_path, version + 1)
    store.close()
    with Store.open(tmp_path, retain_versions=RETAIN) as reopened:
        check(reopened, tmp_path, version + 1)


@pytest.mark.parametrize("place", range(COMMITTED, DURABLE + 2))
def test_an_interrupt_while_a_failure_is_undone(tmp_path: Path, place: int) -> None:
    """The directory cannot be made durable, and Ctrl-C comes as the rename is taken back."""
    store, faults = prepared(tmp_path)

    def before_each(step: str) -> None:
        faults.seen.append(step)
        if len(faults.seen) - 1 == place:
            raise KeyboardInterrupt
        if step == "fsync directory":
            raise full()

    faults.seen = []
    store._directory = directory.Directory(tmp_path, before_each)
    with pytest.raises(KeyboardInterrupt):
        commit_or_abort(store)
    store._directory = directory.Directory(tmp_path, faults)
    assert store.manifest.version == seen_by_others(tmp_path)
    commit_or_abort(store)
    check(store, tmp_path, store.manifest.version)
    store.close()


def test_ctrl_c_at_any_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it leaves is the version before or the one after, for the store as for others."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    lines = Lines(store_module, directory, datafile, interrupts)
    store, _ = prepared(tmp_path)
    moved = 0
    for place in range(10_000):
        before = store.manifest.version
        interrupted = lines.interrupt(place, lambda: commit_or_abort(store))
        after = store.manifest.version
        assert after == seen_by_others(tmp_path), place
        assert after in ((before, before + 1) if interrupted else (before + 1,)), place
        moved += after - before
        if not interrupted:
            break
    assert 50 < moved < place
    version = store.manifest.version
    store.close()
    with Store.open(tmp_path, retain_versions=RETAIN) as reopened:
        check(reopened, tmp_path, version)


def test_a_manifest_that_may_come_back_keeps_its_data(tmp_path: Path) -> None:
    """Neither the rename nor its undoing was made durable: a crash may show either."""
    store, faults = prepared(tmp_path)
    lost = tmp_path / f"manifest-{4:020d}.json"
    copies: list[bytes] = []

    def keep_copy(place: int) -> bool:
        if faults.seen[place] != "fsync directory":
            return False
        if lost.exists():
            copies.append(lost.read_bytes())
        return True

    faults.arm(full(), keep_copy)
    with pytest.raises(IncrementalError):
        commit(store)
    faults.disarm()
    assert not lost.exists()
    die(store)
    lost.write_bytes(copies[0])
    with Store.open(tmp_path, retain_versions=RETAIN) as recovered:
        check(recovered, tmp_path, 4)


def test_doubt_ends_with_the_next_commit(tmp_path: Path) -> None:
    store, faults = prepared(tmp_path)
    faults.arm(full(), lambda i: faults.seen[i] == "fsync directory")
    with pytest.raises(IncrementalError):
        commit(store)
    faults.disarm()
    commit(store)
    check(store, tmp_path, 4)
    store.close()


def test_nothing_is_named_before_it_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order that the law needs, as the operating system is asked for it."""
    store, _ = prepared(tmp_path)
    log: list[str] = []
    durable: dict[str, int] = {}
    fsync, rename = os.fsync, os.rename

    def logged_fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        paths = [tmp_path, *tmp_path.iterdir()]
        name = next(p.name[:4] for p in paths if p.stat().st_ino == status.st_ino)
        fsync(descriptor)
        durable[name] = status.st_size
        log.append(f"sync {name}")

    def logged_rename(source: Path, target: Path) -> None:
        log.append(f"rename {source.suffix} {target.name[:4]}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(os, "rename", logged_rename)
    manifest = commit(store)
    store.close()
    assert durable["data"] == sum(Segment.from_json(run).length for run in runs(manifest))
    assert durable["mani"] == (tmp_path / f"manifest-{4:020d}.json").stat().st_size
    assert sorted(log[:2]) == ["sync data", "sync mani"]
    assert log[2:] == ["rename .tmp mani", "sync " + tmp_path.name[:4]]


def test_data_that_cannot_be_made_durable_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = prepared(tmp_path)
    data, fsync = tmp_path.glob, os.fsync

    def failing(descriptor: int) -> None:
        inode = os.fstat(descriptor).st_ino
        if any(path.stat().st_ino == inode for path in data("data-*")):
            raise full()
        fsync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        with pytest.raises(IncrementalError, match="INCR_STATE_WRITE"):
            commit(store)
    check(store, tmp_path, 3)
    commit(store)
    check(store, tmp_path, 4)
    store.close()


def test_a_write_that_really_fails_half_way(tmp_path: Path) -> None:
    """The limit on file sizes makes the kernel accept a part and then refuse."""
    store, _ = prepared(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    transaction = store.begin()
    large = pa.table({"n": pa.array(range(100_000), pa.int64())})
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(IncrementalError) as caught:
            transaction.write(large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.condition == "INCR_STATE_WRITE"
    check(store, tmp_path, 3)
    commit(store)
    check(store, tmp_path, 4)
    store.close()


ENDLESS = """
import sys, pyarrow as pa
from spark_incr.runtime.store import Store
store = Store.open(sys.argv[1], retain_versions=2)
while True:
    with store.begin() as t:
        segments = [t.write(pa.table({"n": [t.version * k] * 1000})) for k in (1, -1)]
        t.commit({"runs": [s.to_json() for s in segments]})
    print(store.manifest.version, flush=True)
"""


def test_kill_at_any_moment(tmp_path: Path) -> None:
    """No version that was reported is lost, and the one that is found is whole."""
    chance = random.Random(1)
    for _ in range(4):
        command = [sys.executable, "-c", ENDLESS, str(tmp_path)]
        root = Path(__file__).parents[2]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
            assert process.stdout is not None
            reported = int(process.stdout.readline())
            time.sleep(chance.uniform(0, 0.05))
            process.kill()
            reported = max([reported, *(int(line) for line in process.stdout)])
        with Store.open(tmp_path, retain_versions=2) as store:
            version = store.manifest.version
            assert version in (reported, reported + 1)
            tables = [store.read(Segment.from_json(run)) for run in runs(store.manifest)]
            assert [set(t["n"].to_pylist()) for t in tables] == [{version}, {-version}]
            kinds = Counter(name.split("-")[0] for name in os.listdir(tmp_path))
            kept = min(version, 2)
            assert kinds == {"lock": 1, "manifest": kept, "data": kept}
