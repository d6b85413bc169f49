"""The reference runtime: the SQL texts of a plan, run by Spark literally.

It is what the Arrow operators are held to. A batch assigns the texts of each operator to temporary
views, inputs first; what they have in common is computed once, the rest of an operator by one query.
Sums of doubles are plain here, so they may differ from exact ones as Spark's own do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as F
import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession

from spark_incr.frames import computed, offered
from spark_incr.plan.change_texts import HOMOMORPHISM, REDERIVED, WEIGHT, StageTexts, changes_of
from spark_incr.plan.collations import COLLATION_KEY
from spark_incr.plan.nodes import Node, Scan, walk
from spark_incr.plan.texts import FIRST_BATCH, OUTPUT, batch_of, print_text, texts_of
from spark_incr.plan.types import Field, Schema, arrow_schema, as_string
from spark_incr.serve.session_functions import register_collation_key
from spark_incr.sql.dialect import quoted

_NAME = "__incr_relation"

# Batches are small: planning anew between stages costs more than it saves.
_CONFS = {"spark.sql.adaptive.enabled": "false"}


class Reference:
    """A plan's texts and their states, after the batches applied so far."""

    def __init__(self, spark: SparkSession, plan: Node) -> None:
        self._spark = spark
        self._stages = texts_of(plan)
        self._bodies = {
            id(text): print_text(text.query) for stage in self._stages for text in stage.texts
        }
        self._schemas = {s.name: s.schema for stage in self._stages for s in stage.states}
        self._states = {
            name: arrow_schema(schema).empty_table() for name, schema in self._schemas.items()
        }
        self._change = changes_of(self._stages[-2].name)
        self._scanned = _scanned(plan)
        self._started = False

    def apply(self, changes: Mapping[str, pa.Table]) -> pa.Table:
        """Maintain all states for change batches of relations; returns the change of the view."""
        if self._started and not any(change.num_rows for change in changes.values()):
            return self._states[OUTPUT].slice(0, 0)
        weight = Field(WEIGHT, T.LongType())
        with _Views(self._spark) as views:
            for name, schema in self._scanned.items():
                views.assign_rows(batch_of(name), (*schema, weight), changes.get(name))
            first = None if self._started else pa.table({WEIGHT: [1]})
            views.assign_rows(FIRST_BATCH, (weight,), first)
            for name, rows in self._states.items():
                views.assign_rows(name, self._schemas[name], rows)
            results: dict[str, pa.Table] = {}
            for stage in self._stages:
                results |= self._run(stage, views)
        self._started = True
        self._states = {
            name: results[name].cast(rows.schema) for name, rows in self._states.items()
        }
        return results[self._change].cast(self._states[OUTPUT].schema)

    def _run(self, stage: StageTexts, views: _Views) -> dict[str, pa.Table]:
        """Run the texts of an operator; returns its states and its change, if it has state."""
        shared = [text.name for text in stage.texts if text.purpose in (HOMOMORPHISM, REDERIVED)]
        for text in stage.texts:
            views.assign(text.name, self._bodies[id(text)])
            if shared and text.name == shared[-1]:
                views.settle(shared)
        states = [state.name for state in stage.states]
        if stage.name == OUTPUT:
            return views.compute([*states, self._change])
        return views.settle([*states, changes_of(stage.name)]) if states else {}

    def rows(self) -> pa.Table:
        """The rows of the view with their weights."""
        return self._states[OUTPUT]


class _Views:
    """Temporary views of one batch."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._frames: dict[str, DataFrame] = {}

    def __enter__(self) -> _Views:
        self._confs = {key: self._spark.conf.get(key, None) for key in _CONFS}
        for key, value in _CONFS.items():
            self._spark.conf.set(key, value)
        return self

    def __exit__(self, *failure: object) -> None:
        for key, value in self._confs.items():
            if value is None:
                self._spark.conf.unset(key)
            else:
                self._spark.conf.set(key, value)
        for name in self._frames:
            self._spark.catalog.dropTempView(name)

    def _name(self, name: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(quoted(name))
        self._frames[name] = frame

    def assign(self, name: str, query: str) -> None:
        if COLLATION_KEY in query:
            register_collation_key(self._spark)
        self._name(name, self._spark.sql(query))

    def assign_rows(self, name: str, schema: Schema, rows: pa.Table | None) -> None:
        if rows is None:
            rows = arrow_schema(schema).empty_table()
        fields = [T.StructField(f.name, as_string(f.type)) for f in schema]
        struct = T.StructType(fields).toNullable()
        self._name(name, offered(self._spark, rows.select(struct.names), struct))

    def compute(self, names: Sequence[str]) -> dict[str, pa.Table]:
        """The rows of relations by one query, in which each is a column of structs."""
        types = {name: _nullable(self._frames[name].schema) for name in names}
        parts = [
            self._frames[name].select(
                F.lit(name).alias(_NAME), F.struct("*").cast(type_).alias(name)
            )
            for name, type_ in types.items()
        ]
        union = parts[0]
        for part in parts[1:]:
            union = union.unionByName(part, allowMissingColumns=True)
        table = computed(union)
        results: dict[str, pa.Table] = {}
        for name, type_ in types.items():
            schema = arrow_schema(tuple(Field(f.name, f.dataType) for f in type_.fields))
            own = table.filter(pc.equal(table.column(_NAME), name)).column(name)
            results[name] = schema.empty_table()
            if len(own):
                rows = pa.table(own.combine_chunks().flatten(), names=schema.names)
                results[name] = rows.cast(schema)
        return results

    def settle(self, names: Sequence[str]) -> dict[str, pa.Table]:
        """Compute relations that are read more than once; they are read as rows from here on."""
        results = self.compute(names)
        for name, rows in results.items():
            fields = self._frames[name].schema.fields
            self.assign_rows(name, tuple(Field(f.name, f.dataType) for f in fields), rows)
        return results


def _nullable(struct: T.StructType) -> T.StructType:
    return T.StructType([T.StructField(f.name, f.dataType) for f in struct.fields])


def _scanned(plan: Node) -> dict[str, Schema]:
    """The relations that a plan scans, with the columns that it reads."""
    result: dict[str, dict[str, Field]] = {}
    for node in walk(plan):
        if isinstance(node, Scan):
            known = result.setdefault(node.relation, {})
            for name, field in zip(node.columns, node.schema, strict=True):
                known[name] = Field(name, field.type)
    return {relation: tuple(fields.values()) for relation, fields in result.items()}
