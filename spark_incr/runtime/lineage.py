"""The lineage of a bag: the columns by which its rows are looked up.

Where Spark groups, joins and partitions, -0.0 is 0.0 and every NaN is one value; a row keeps the
value that it has. So a key that holds floats gets a column of its own, with the value that counts; where keys are
exact, that is the value itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from spark_incr.plan.nodes import Node
from spark_incr.plan.types import has_several_forms
from spark_incr.runtime.columns import arrays, single, taken
from spark_incr.runtime.keys import canonical, group_rows

_KEY = "__incr_key_{}"


class Lineage:
    """The columns `names` that stand for the keys of a node's rows."""

    def __init__(self, node: Node, keys: Sequence[str], exact: bool = False) -> None:
        self._own = {
            key: _KEY.format(i)
            for i, key in enumerate(keys)
            if not exact and has_several_forms(node.type_of(key))
        }
        self.names = tuple(self._own.get(key, key) for key in keys)

    def extended(self, schema: pa.Schema) -> pa.Schema:
        """The schema of rows with their lineage."""
        for key, name in self._own.items():
            schema = schema.append(pa.field(name, schema.field(key).type))
        return schema

    def with_lineage(self, rows: pa.Table) -> pa.Table:
        """The rows with the columns of their lineage."""
        for key, name in self._own.items():
            rows = rows.append_column(name, canonical(single(rows.column(key))))
        return rows


def touched_keys(changes: pa.Table, names: Sequence[str]) -> tuple[list[pa.Array], int]:
    """The keys of a batch, each once, and how many there are; without columns there is one."""
    columns = arrays(changes, names)
    groups = group_rows(columns, changes.num_rows)
    return [taken(c, groups.first) for c in columns], groups.count if names else 1
