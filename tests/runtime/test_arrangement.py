"""An arrangement is a map from identity to row: held against a dict through random histories.

The history mixes batches, failed batches that are rolled back, snapshots that are read much later,
and a reload of what was stored; hashes are narrowed so that most look-ups meet collisions.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_incr.runtime import keys
from spark_incr.runtime.arrangement import Arrangement, Layout, Snapshot, scatter
from spark_incr.runtime.bag import add_to_bag, bag_layout, merge_bag
from spark_incr.runtime.changes import WEIGHT, consolidate
from spark_incr.runtime.columns import arrays
from spark_incr.runtime.run import Run
from spark_incr.runtime.stored_run import loaded_kills, loaded_rows, stored_kills, stored_rows

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("v", pa.float64())])
MASKS = [0xFFFFFFFFFFFFFFFF, 0xF, 0x3 << 62, 0x3 << 40]
Model = dict[tuple[Any, ...], tuple[Any, ...]]
Key = tuple[Any, ...]

KEYS = st.sampled_from([None, *range(8)])
CLOSE = st.integers(-3, 7)
FAR = st.sampled_from([-(2**63), -1, 0, 1, 2, 2**63 - 1])
ASKED = [[None, *range(-3, 9)], list(range(-4, 9)), [-(2**63), -1, 0, 2, 5, 2**63 - 1]]
"""Lineages to look up: with NULL by their hashes alone, otherwise by the places of numbers too."""
TEXTS = st.sampled_from([None, "", "a", "ä"])
NUMBERS = st.sampled_from([None, 0.5, 1.0])
ROWS = st.tuples(KEYS, TEXTS, NUMBERS)


def table(rows: list[tuple[Any, ...]], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_arrays(
        [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(schema)], schema=schema
    )


def tuples(rows: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(r.values()) for r in rows.to_pylist()]


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, Any]]:
    keys = draw(st.sampled_from([KEYS, CLOSE, FAR, CLOSE | FAR]))
    parts = st.lists(st.lists(st.tuples(keys, TEXTS, NUMBERS), max_size=8), max_size=3)
    batch = st.tuples(st.just("batch"), parts)
    failed = st.tuples(st.just("failed"), parts)
    drop = st.tuples(st.just("drop"), st.lists(keys, max_size=4))
    other = st.sampled_from([("hold", None), ("reload", None)])
    return draw(st.lists(batch | failed | drop | other, min_size=1, max_size=12))


def replace(arrangement: Arrangement, rows: list[tuple[Any, ...]], model: Model) -> None:
    """Put rows in, in place of those of the same identity."""
    width = len(arrangement.layout.identity)
    latest = {row[:width]: row for row in rows}
    wanted = table(list(latest.values()))
    hashes = arrangement.layout.hashes(wanted)
    located = arrangement.snapshot().find(wanted, hashes)
    arrangement.replace(located, wanted, hashes)
    model.update(latest)


def drop(arrangement: Arrangement, lineages: list[Any], model: Model) -> None:
    """Take out all rows of some lineages."""
    distinct = list(dict.fromkeys(lineages))
    located = arrangement.snapshot().find_lineage([pa.array(distinct, pa.int64())], len(distinct))
    arrangement.replace(located, SCHEMA.empty_table(), np.zeros(0, np.uint64))
    for identity in [i for i in model if i[0] in distinct]:
        del model[identity]


def check(snapshot: Snapshot, model: Model) -> None:
    """All look-ups of a snapshot give what the model gives."""
    assert Counter(tuples(snapshot.rows())) == Counter(model.values())
    assert snapshot.count() == len(model)
    for lineages in ASKED:
        check_lineages(snapshot, model, lineages)
        check_identities(snapshot, model, lineages)


def check_lineages(snapshot: Snapshot, model: Model, lineages: list[Any]) -> None:
    probes = pa.array(lineages, pa.int64())
    located = snapshot.find_lineage([probes], len(lineages))
    columns = snapshot.gather(located, SCHEMA.names)
    found = [
        (lineages[probe], row)
        for probe, row in zip(
            located.probe.tolist(), zip(*(c.to_pylist() for c in columns), strict=True), strict=True
        )
    ]
    assert Counter(found) == Counter((r[0], r) for r in model.values() if r[0] in lineages)


def check_identities(snapshot: Snapshot, model: Model, lineages: list[Any]) -> None:
    layout = snapshot.layout
    width = len(layout.identity)
    known = [i for i in model if i[0] is not None or None in lineages]
    asked = [*known, *((k, "no")[:width] for k in lineages if (k, "no")[:width] not in model)]
    wanted = table([(*i, *(None,) * (3 - width)) for i in asked]).select(list(layout.identity))
    exact = snapshot.find(wanted, layout.hashes(wanted))
    aligned = snapshot.aligned(exact, SCHEMA.names, len(asked))
    for name, column, position in zip(SCHEMA.names, aligned, range(3), strict=True):
        column.validate(full=True)
        expected = [model[i][position] if i in model else None for i in asked]
        assert column.to_pylist() == expected, name


def reloaded(arrangement: Arrangement) -> Arrangement:
    """What a restart makes of the stored runs, through Arrow's own format."""

    def runs(run: Run) -> Any:
        rows, hashes = loaded_rows(through_a_file(stored_rows(run)), arrangement.layout)
        kills = loaded_kills(through_a_file(stored_kills(run.kills))) if run.kills else {}
        return run.number, rows, hashes, kills

    stored = [runs(run) for run in arrangement.runs]
    return Arrangement.restore(arrangement.layout, arrangement.version, stored)


def through_a_file(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_file(sink.getvalue()).read_all()


@pytest.mark.parametrize("identity", [("k",), ("k", "s")], ids=["lineage", "extended"])
@settings(max_examples=60)
@given(history=steps(), mask=st.sampled_from(MASKS))
def test_an_arrangement_is_a_map(
    identity: tuple[str, ...], history: list[tuple[str, Any]], mask: int
) -> None:
    with mock.patch.object(keys, "HASH_MASK", np.uint64(mask)):
        arrangement = Arrangement(Layout(SCHEMA, ("k",), identity))
        model: Model = {}
        held: list[tuple[Snapshot, Model]] = []
        version = 0
        for kind, data in history:
            if kind == "hold":
                held.append((arrangement.snapshot(), dict(model)))
                continue
            if kind == "reload":
                arrangement = reloaded(arrangement)
                check(arrangement.snapshot(), model)
                continue
            arrangement.begin(version + 1)
            after = dict(model)
            if kind == "drop":
                drop(arrangement, data, after)
            else:
                for part in data:
                    replace(arrangement, part, after)
                    check(arrangement.snapshot(), after)
            if kind == "failed":
                arrangement.rollback(version)
            else:
                version, model = version + 1, after
            check(arrangement.snapshot(), model)
            for snapshot, then in held:
                check(snapshot, then)


@given(
    batches=st.lists(
        st.lists(st.tuples(ROWS, st.integers(-2, 2)), max_size=8), min_size=1, max_size=6
    ),
    mask=st.sampled_from(MASKS),
    lineage=st.sampled_from([("k",), ("k", "s"), ("s", "k", "v"), ()]),
)
def test_a_bag_is_the_sum_of_its_batches(
    batches: list[list[tuple[Any, int]]], mask: int, lineage: tuple[str, ...]
) -> None:
    with mock.patch.object(keys, "HASH_MASK", np.uint64(mask)):
        bag = Arrangement(bag_layout(SCHEMA, lineage))
        model: Counter[Any] = Counter()
        for version, batch in enumerate(batches):
            bag.begin(version + 1)
            rows = table([r for r, _ in batch])
            changes = consolidate(
                rows.append_column(WEIGHT, pa.array([w for _, w in batch], pa.int64()))
            )
            before = [model[row] for row in tuples(changes.drop_columns([WEIGHT]))]
            weights = merge_bag(bag, changes)
            for row, weight in batch:
                model[row] += weight
            assert weights.before.tolist() == before
            assert weights.after.tolist() == [
                model[row] for row in tuples(changes.drop_columns([WEIGHT]))
            ]
            live = bag.snapshot().rows()
            found = {row[:-1]: row[-1] for row in tuples(live.select([*SCHEMA.names, WEIGHT]))}
            assert len(found) == live.num_rows
            assert found == {row: weight for row, weight in model.items() if weight}


@given(
    batches=st.lists(
        st.lists(st.tuples(ROWS, st.integers(-2, 2)), max_size=8), min_size=1, max_size=8
    ),
    mask=st.sampled_from(MASKS),
    lineage=st.sampled_from([("k",), ("k", "s"), ("s", "k", "v"), ()]),
)
def test_a_bag_that_is_added_to_is_the_sum_too(
    batches: list[list[tuple[Any, int]]], mask: int, lineage: tuple[str, ...]
) -> None:
    """Rows arrive without a look-up; each leaves as often as it is there, at most."""
    with mock.patch.object(keys, "HASH_MASK", np.uint64(mask)):
        bag = Arrangement(bag_layout(SCHEMA, lineage))
        model: Counter[Any] = Counter()
        held: list[tuple[Snapshot, Counter[Any]]] = []
        for version, batch in enumerate(batches):
            possible = [(r, w) for r, w in dict(batch).items() if model[r] + w >= 0]
            rows = table([r for r, _ in possible])
            bag.begin(version + 1)
            add_to_bag(
                bag, rows.append_column(WEIGHT, pa.array([w for _, w in possible], pa.int64()))
            )
            model.update(dict(possible))
            held.append((bag.snapshot(), Counter(model)))
            held.append((reloaded(bag).snapshot(), Counter(model)))
            for snapshot, then in held:
                found: Counter[Any] = Counter()
                for row in tuples(snapshot.rows().select([*SCHEMA.names, WEIGHT])):
                    found[row[:-1]] += row[-1]
                assert +found == +then


@pytest.mark.parametrize("columns", [SCHEMA, pa.schema([])], ids=["rows", "a number"])
def test_a_row_that_comes_again_and_again_is_one_entry(columns: pa.Schema) -> None:
    bag = Arrangement(bag_layout(columns, tuple(columns.names)))
    row = table([(1, "a", 0.5)]).select(columns.names)
    once = row.append_column(WEIGHT, pa.array([1], pa.int64()))
    for version in range(1, 3_001):
        bag.begin(version)
        add_to_bag(bag, once)
    assert bag.snapshot().count() == 1
    assert tuples(bag.snapshot().rows())[0][-1] == 3_000


def test_small_batches_leave_few_runs_and_do_not_rewrite_the_rest() -> None:
    arrangement = Arrangement(Layout(SCHEMA, ("k",), ("k",)))
    written = 0
    known: set[int] = set()
    for version in range(1, 201):
        arrangement.begin(version)
        rows = table([(version * 100 + i, "x", 1.0) for i in range(50)])
        hashes = arrangement.layout.hashes(rows)
        arrangement.replace(arrangement.snapshot().find(rows, hashes), rows, hashes)
        for run in arrangement.runs:
            if run.number not in known:
                known.add(run.number)
                written += len(run.hashes)
    assert arrangement.snapshot().count() == 200 * 50
    assert len(arrangement.runs) <= 8
    assert written <= 200 * 50 * 12


@given(
    present=st.lists(st.booleans(), max_size=10),
    type_=st.sampled_from(
        [pa.int64(), pa.bool_(), pa.string(), pa.list_(pa.int32()), pa.decimal128(38, 2)]
    ),
)
def test_scatter_puts_values_at_positions_and_null_elsewhere(
    present: list[bool], type_: pa.DataType
) -> None:
    pool: dict[Any, list[Any]] = {
        pa.int64(): [1, None, 3],
        pa.bool_(): [True, None, False],
        pa.string(): ["", None, "b"],
        pa.list_(pa.int32()): [[], None, [1]],
        pa.decimal128(38, 2): [None],
    }
    positions = np.flatnonzero(present)[::-1]
    data = [pool[type_][i % len(pool[type_])] for i in range(len(positions))]
    result = scatter(pa.array(data, type_), positions, len(present))
    result.validate(full=True)
    expected: list[Any] = [None] * len(present)
    for position, value in zip(positions.tolist(), data, strict=True):
        expected[position] = value
    assert result.to_pylist() == expected
    assert arrays(pa.table({"x": result}), ["x"])[0].type == type_
