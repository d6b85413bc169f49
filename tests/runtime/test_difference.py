"""The difference of two stored versions equals the difference of their rows, whatever was merged."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.bag import add_to_bag, bag_layout
from spark_incr.runtime.changes import WEIGHT, consolidate, repeated
from spark_incr.runtime.contents import Output
from spark_incr.runtime.difference import stored_difference
from spark_incr.runtime.persistence import Entries
from spark_incr.runtime.store import Store

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.string())])


def bag(rows: pa.Table) -> Counter[Any]:
    return Counter((row["k"], row["x"]) for row in repeated(rows).to_pylist())


def test_any_two_versions(tmp_path: Path) -> None:
    chance = random.Random(3)
    arrangement = Arrangement(bag_layout(SCHEMA, ("k",)))
    output, entries = Output.of_bag(arrangement), Entries()
    with Store.open(tmp_path, retain_versions=3) as store:
        stored: dict[int, tuple[list[Any], Counter[Any]]] = {0: ([], Counter())}
        rows: Counter[Any] = Counter()
        merges = 0
        for version in range(1, 120):
            arrangement.begin(version)
            change: Counter[Any] = Counter()
            for _ in range(chance.choice([0, 1, 5, 200])):
                change[chance.randrange(40), chance.choice("abc")] += 1
            for row in list(rows):
                if chance.random() < 0.2:
                    change[row] -= chance.randint(1, rows[row])
            batch = [{"k": k, "x": x, WEIGHT: w} for (k, x), w in change.items()]
            wanted = SCHEMA.append(pa.field(WEIGHT, pa.int64()))
            before = len(arrangement.runs)
            add_to_bag(arrangement, consolidate(pa.Table.from_pylist(batch, schema=wanted)))
            merges += len(arrangement.runs) <= before
            for row, weight in change.items():
                rows[row] += weight
            rows = +rows
            with store.begin() as transaction:
                entries.move(transaction.carry(store.mostly_dead()))
                saved = entries.save(arrangement, transaction)
                transaction.commit({"runs": saved})
            entries.committed([arrangement])
            stored[version] = (saved, Counter(rows))
            for older in range(max(0, version - 2), version + 1):
                found = stored_difference(output, store, stored[older][0], saved)
                actual = Counter({(r["k"], r["x"]): r[WEIGHT] for r in found.to_pylist()})
                expected = Counter(rows)
                expected.subtract(stored[older][1])
                assert actual == Counter({row: w for row, w in expected.items() if w}), version
        assert merges > 20
