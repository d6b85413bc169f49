"""The store gives back what was committed, or says by name why it cannot."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_incr.errors import IncrementalError
from spark_incr.runtime import manifest as manifest_module
from spark_incr.runtime.directory import Directory
from spark_incr.runtime.store import Manifest, Segment, Store


def number(value: int, rows: int = 1) -> pa.Table:
    return pa.table({"n": pa.array([value] * rows, pa.int64())})


def commit(store: Store, *tables: pa.Table, keep: Iterable[Segment] = ()) -> list[Segment]:
    """One version that names the kept segments and the given tables."""
    with store.begin() as transaction:
        segments = [*keep, *(transaction.write(table) for table in tables)]
        transaction.commit({"runs": [segment.to_json() for segment in segments]})
    return segments


def named(manifest: Manifest) -> list[Segment]:
    runs = manifest.body["runs"]
    assert isinstance(runs, list)
    return [Segment.from_json(run) for run in runs]


def data_files(path: Path) -> list[str]:
    return sorted(p.name for p in path.glob("data-*"))


def condition(caught: pytest.ExceptionInfo[IncrementalError]) -> str:
    return caught.value.condition


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of many commits, where durability is not the subject."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


# Mapped files


def test_descriptors_are_not_kept(tmp_path: Path, no_fsync: None) -> None:
    descriptors = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    with Store.open(tmp_path, retain_versions=50) as store:
        before = len(os.listdir(descriptors))
        segments = [commit(store, number(i))[0] for i in range(50)]
        assert [store.read(s).column(0)[0].as_py() for s in segments] == list(range(50))
        assert len(os.listdir(descriptors)) == before


def test_tables_outlive_the_store_and_the_file(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        [segment] = commit(store, number(3, rows=100_000))
        table = store.read(segment)
    (tmp_path / segment.file).unlink()
    assert table.equals(number(3, rows=100_000))


# Versions


def test_reopening_shows_the_last_version(tmp_path: Path) -> None:
    body: dict[str, object] = {
        "text": "\ud800 \u2028 \"{'",
        "nested": [{"a": [1, 1.5, None, True]}],
    }
    with Store.open(tmp_path / "a" / "b") as store:
        assert store.manifest == Manifest(0, 0, {})
        assert store.versions() == []
        with store.begin() as transaction:
            assert transaction.version == 1
            body["run"] = transaction.write(number(1)).to_json()
            committed = transaction.commit(body)
        assert store.manifest is committed
    for read_only in (False, True):
        with Store.open(tmp_path / "a" / "b", read_only=read_only) as store:
            assert store.manifest == committed == store.manifest_at(1)
            assert store.versions() == [1]


def test_without_segments_there_is_no_data_file(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        commit(store)
        assert data_files(tmp_path) == []
        with store.begin() as transaction:
            transaction.write(number(1))
            transaction.commit({})
        assert data_files(tmp_path) == []


def test_an_abandoned_transaction_leaves_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        segments = commit(store, number(1))
        before = sorted(os.listdir(tmp_path))
        with store.begin() as transaction:
            transaction.write(number(2, rows=100_000))
        with pytest.raises(AttributeError), store.begin() as transaction:
            transaction.carry([*segments, None])  # type: ignore[list-item]
        with store.begin() as transaction, pytest.raises(ValueError, match="not JSON compliant"):
            transaction.commit({"x": float("nan")})
        with pytest.raises(RuntimeError, match="over"):
            transaction.write(number(2))
        assert sorted(os.listdir(tmp_path)) == before
        assert named(store.manifest) == segments
        store.begin().write(number(2))
        with pytest.raises(RuntimeError, match="open"):
            store.begin()
    assert sorted(os.listdir(tmp_path)) == before


def test_a_segment_is_read_after_its_commit(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store.begin() as transaction:
        segment = transaction.write(number(1))
        for early in (lambda: store.read(segment), lambda: transaction.carry([segment])):
            with pytest.raises(ValueError, match="once it is committed"):
                early()
        transaction.commit({"runs": [segment.to_json()]})
        assert store.read(segment).equals(number(1))


def test_timestamps_never_go_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path) as store:
        commit(store)
        first = store.manifest.timestamp_ms
        monkeypatch.setattr("time.time_ns", lambda: 0)
        commit(store)
        assert store.manifest.timestamp_ms == first > 0


def test_retention_and_pins(tmp_path: Path) -> None:
    with Store.open(tmp_path, retain_versions=3) as store:
        segments = [commit(store, number(i))[0] for i in range(1, 4)]
        with store.pin(2) as pinned, store.pin() as current:
            assert (pinned.version, current.version) == (2, 3)
            for i in range(4, 10):
                commit(store, number(i))
            assert store.versions() == [2, 3, 7, 8, 9]
            assert store.read(named(pinned)[0]).equals(number(2))
            assert store.manifest_at(2) == pinned
            assert len(data_files(tmp_path)) == 5
        commit(store, number(10))
        assert store.versions() == [8, 9, 10]
        assert len(data_files(tmp_path)) == 3
        for gone in (lambda: store.manifest_at(2), lambda: store.read(segments[1])):
            with pytest.raises(IncrementalError) as caught:
                gone()
            assert condition(caught) == "INCR_STATE_GONE"
        with pytest.raises(IncrementalError) as caught, store.pin(2):
            pass
        assert condition(caught) == "INCR_STATE_GONE"


def test_a_file_lives_as_long_as_one_version_names_it(tmp_path: Path) -> None:
    with Store.open(tmp_path, retain_versions=2) as store:
        kept = commit(store, number(1))
        for i in range(2, 8):
            commit(store, number(i), keep=kept)
        assert store.read(kept[0]).equals(number(1))
        assert kept[0].file in data_files(tmp_path)
        assert len(data_files(tmp_path)) == 3


def test_fewer_or_more_versions_on_reopening(tmp_path: Path) -> None:
    with Store.open(tmp_path, retain_versions=5) as store:
        for i in range(1, 8):
            commit(store, number(i))
    with Store.open(tmp_path, retain_versions=2) as store:
        assert store.versions() == [6, 7]
        assert len(data_files(tmp_path)) == 2
    with Store.open(tmp_path, retain_versions=5) as store:
        assert store.versions() == [6, 7]
        assert store.read(named(store.manifest_at(6))[0]).equals(number(6))


# Readers


def test_a_reader_elsewhere_survives_the_deletion_of_its_files(tmp_path: Path) -> None:
    with Store.open(tmp_path, retain_versions=2) as store:
        commit(store, number(1), number(11))
        commit(store, number(2))
        with Store.open(tmp_path, read_only=True) as reader, reader.pin(1) as older:
            for i in range(3, 8):
                commit(store, number(i))
            assert store.versions() == [6, 7] == reader.versions()
            assert [reader.read(s).column(0)[0].as_py() for s in named(older)] == [1, 11]
            assert reader.manifest.version == 2
            assert reader.read(named(reader.manifest)[0]).equals(number(2))
            lost = named(reader.manifest)[0]
            assert reader.refresh().version == 7
            assert reader.read(named(reader.manifest)[0]).equals(number(7))
            assert reader.read(named(older)[0]).equals(number(1))
            for gone in (lambda: reader.manifest_at(2), lambda: reader.read(lost)):
                with pytest.raises(IncrementalError) as caught:
                    gone()
                assert condition(caught) == "INCR_STATE_GONE"
            with pytest.raises(IncrementalError) as caught:
                reader.begin()
            assert condition(caught) == "INCR_STATE_READ_ONLY"


def test_a_reader_needs_a_directory(tmp_path: Path) -> None:
    assert Store.open(tmp_path, read_only=True).manifest.version == 0
    with pytest.raises(IncrementalError) as caught:
        Store.open(tmp_path / "typo", read_only=True)
    assert condition(caught) == "INCR_STATE_NOT_FOUND"
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize("moment", ["versions", "load"])
def test_a_reader_takes_the_next_version_if_its_files_go_as_it_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The writer goes on after the directory was listed, or after the manifest was read."""
    original = getattr(Directory, moment)
    with Store.open(tmp_path, retain_versions=1) as store:
        commit(store, number(1))

        def overtaken(*arguments: object) -> object:
            answer = original(*arguments)
            if store.manifest.version < 3:
                commit(store, number(store.manifest.version + 1))
            return answer

        monkeypatch.setattr(Directory, moment, overtaken)
        with Store.open(tmp_path, read_only=True) as reader:
            assert reader.manifest.version == 3
            assert reader.read(named(reader.manifest)[0]).equals(number(3))


def test_readers_race_with_the_writer(tmp_path: Path, no_fsync: None) -> None:
    """Every version that a reader gets is whole, however often its files are deleted under it."""
    failures: list[BaseException] = []
    done = threading.Event()
    rounds = [0, 0]

    def check(store: Store, manifest: Manifest) -> None:
        values = [store.read(segment).column(0)[0].as_py() for segment in named(manifest)]
        assert values == [manifest.version, -manifest.version]

    def inside() -> None:
        while not done.is_set():
            with store.pin() as manifest:
                check(store, manifest)
            rounds[0] += 1

    def outside() -> None:
        with Store.open(tmp_path, read_only=True) as reader:
            while not done.is_set():
                check(reader, reader.refresh())
                rounds[1] += 1

    def guarded(work: object) -> None:
        try:
            assert callable(work)
            work()
        except BaseException as failure:
            failures.append(failure)

    with Store.open(tmp_path, retain_versions=1) as store:
        commit(store, number(1), number(-1))
        threads = [threading.Thread(target=guarded, args=[work]) for work in (inside, outside)]
        for thread in threads:
            thread.start()
        for version in range(2, 300):
            commit(store, number(version), number(-version))
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert min(rounds) > 0


# Garbage


def test_a_large_mostly_dead_file_is_named(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        [kept, _] = commit(store, number(1, rows=1_000), number(2, rows=200_000))
        assert store.mostly_dead() == []
        commit(store, keep=[kept])
        assert store.mostly_dead() == [kept]
        with store.begin() as transaction:
            moved = transaction.carry(store.mostly_dead())
            transaction.commit({"runs": [moved[kept].to_json()]})
        assert store.mostly_dead() == []
        assert moved[kept].checksum == kept.checksum
        assert store.read(moved[kept]).equals(number(1, rows=1_000))


def test_a_damaged_segment_stays_damaged_when_carried(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        [segment] = commit(store, number(1))
        path = tmp_path / segment.file
        path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
        with store.begin() as transaction:
            moved = transaction.carry([segment])[segment]
            transaction.commit({"runs": [moved.to_json()]})
        with pytest.raises(IncrementalError) as caught:
            store.read(moved)
        assert condition(caught) == "INCR_STATE_CORRUPT"


def test_soak_stays_bounded(tmp_path: Path, no_fsync: None) -> None:
    """Some segments never change, some live long, most die at once."""
    held: dict[int, tuple[Segment, int]] = {}
    most_files = written = carried = 0
    with Store.open(tmp_path) as store:
        for version in range(1, 2_001):
            with store.begin() as transaction:
                slots = [0, 1 + version % 97] + ([1_000 + version] if version % 5 == 0 else [])
                moved = transaction.carry(store.mostly_dead())
                held = {slot: (moved.get(s, s), value) for slot, (s, value) in held.items()}
                for slot in slots:
                    held[slot] = transaction.write(number(version)), version
                transaction.commit({"slots": [s.to_json() for s, _ in held.values()]})
            carried += sum(segment.length for segment in moved.values())
            written += sum(held[slot][0].length for slot in slots)
            most_files = max(most_files, len(os.listdir(tmp_path)))
        assert len(held) == 498
        for segment, value in held.values():
            assert store.read(segment).equals(number(value))
    assert most_files < 120
    assert carried < 5 * written


# Damage


def damage_is_found(path: Path) -> bool:
    try:
        with Store.open(path) as store:
            for segment in named(store.manifest):
                store.read(segment)
    except IncrementalError as failure:
        return failure.condition == "INCR_STATE_CORRUPT"
    return False


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a state with two versions, all of whose bytes are live."""
    path = tmp_path_factory.mktemp("intact")
    with Store.open(path) as store:
        commit(store, number(1))
        commit(store, number(2, rows=20), keep=named(store.manifest))
    return {p.name: p.read_bytes() for p in sorted(path.iterdir()) if p.name != "lock"}


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_flipped_bit_or_cut_is_found(data: st.DataObject, intact: dict[str, bytes]) -> None:
    victim = data.draw(st.sampled_from(list(intact)))
    content = bytearray(intact[victim])
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[place:]
    with tempfile.TemporaryDirectory() as path:
        for name, original in intact.items():
            Path(path, name).write_bytes(original)
        assert not damage_is_found(Path(path))
        Path(path, victim).write_bytes(content)
        assert damage_is_found(Path(path))


def test_a_missing_file_is_found_on_opening(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        [segment] = commit(store, number(1))
    (tmp_path / segment.file).unlink()
    for read_only in (False, True):
        with pytest.raises(IncrementalError, match=segment.file) as caught:
            Store.open(tmp_path, read_only=read_only)
        assert condition(caught) == "INCR_STATE_CORRUPT"


def test_an_older_version_that_is_not_whole_is_given_up(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        segments = [commit(store, number(i))[0] for i in (1, 2, 3)]
    (tmp_path / segments[1].file).unlink()
    with Store.open(tmp_path) as store:
        assert store.versions() == [1, 3]
        assert data_files(tmp_path) == [segments[0].file, segments[2].file]
        with pytest.raises(IncrementalError) as caught:
            store.manifest_at(2)
        assert condition(caught) == "INCR_STATE_GONE"


def test_a_manifest_under_the_name_of_another_is_found(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        commit(store, number(1))
    first = tmp_path / manifest_module.manifest_name(1)
    first.rename(tmp_path / manifest_module.manifest_name(2))
    with pytest.raises(IncrementalError, match="it holds version 1") as caught:
        Store.open(tmp_path)
    assert condition(caught) == "INCR_STATE_CORRUPT"


def test_a_newer_format_is_refused_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path, retain_versions=1) as store:
        commit(store, number(1))
        monkeypatch.setattr(manifest_module, "FORMAT", 3)
        commit(store, number(2))
        monkeypatch.undo()
    (tmp_path / "data-00000000000000000009-00000000.arrow").write_bytes(b"of the newer version")
    before = sorted(os.listdir(tmp_path))
    for read_only in (False, True):
        with pytest.raises(IncrementalError, match="format 3") as caught:
            Store.open(tmp_path, read_only=read_only)
        assert condition(caught) == "INCR_STATE_FORMAT"
    assert sorted(os.listdir(tmp_path)) == before


# Names


def test_names_from_outside_are_no_paths(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (tmp_path / "secret.arrow").write_bytes(b"secret")
    with Store.open(state) as store:
        for file in ("../secret.arrow", "/etc/passwd", "lock", "data-1-x.arrow"):
            segment = Segment(file, 0, 6, 0)
            with pytest.raises(ValueError, match="not a data file"):
                store.read(segment)
            with pytest.raises(ValueError, match="not a segment"):
                Segment.from_json(segment.to_json())
            with pytest.raises(ValueError, match="not a data file"), store.begin() as transaction:
                transaction.carry([segment])


def test_a_body_may_only_name_what_is_there(tmp_path: Path) -> None:
    segment = Segment("data-00000000000000000001-0a1b2c3d.arrow", 0, 8, 0)
    refused = pytest.raises(ValueError, match=segment.file)
    with Store.open(tmp_path) as store, store.begin() as transaction, refused:
        transaction.commit({"run": segment.to_json()})


def test_text_that_looks_like_a_segment_is_text(tmp_path: Path) -> None:
    segment = Segment("data-00000000000000000001-0a1b2c3d.arrow", 0, 8, 0)
    lookalike = manifest_module.encode_body(segment.to_json())
    body: dict[str, object] = {"comment": lookalike, "$segment": "x", lookalike: ["{", "$segment"]}
    with Store.open(tmp_path) as store, store.begin() as transaction:
        transaction.commit(body)
    assert Store.open(tmp_path, read_only=True).manifest.body == body


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    foreign = ["notes.txt", "data.arrow", "manifest.json", "data-1-x.arrow", "manifest-1.json.tmp"]
    for name in foreign:
        (tmp_path / name).write_text("mine")
    for _ in range(2):
        with Store.open(tmp_path, retain_versions=1) as store:
            commit(store, number(1))
    assert set(foreign) < set(os.listdir(tmp_path))
