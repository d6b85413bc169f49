"""The reference runtime: the SQL texts of a plan, run by Spark literally.

It is what the Arrow operators are held to. A batch assigns the texts of each operator, inputs first;
what they have in common is computed once, the rest of an operator by one query, in which the texts
that it is made of stand as common table expressions.
Rows stay with Spark from text to text and from batch to batch, so no way of theirs to Python and back
can change them. Sums of doubles are plain here, so they may differ from exact ones as Spark's own do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyspark.sql.functions as F
import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession

from spark_incr.frames import computed, held, offered, without_rows
from spark_incr.plan.change_texts import (
    HOMOMORPHISM,
    REDERIVED,
    WEIGHT,
    StageTexts,
    Text,
    changes_of,
)
from spark_incr.plan.nodes import Node, Scan, walk
from spark_incr.plan.texts import FIRST_BATCH, OUTPUT, batch_of, print_text, texts_of
from spark_incr.plan.types import Field, Schema, arrow_schema, as_string, type_sql
from spark_incr.serve.session_functions import register_collation_key
from spark_incr.sql.dialect import quoted

_NAME = "__incr_relation"
_WEIGHT = Field(WEIGHT, T.LongType())

# Batches are small: planning anew between stages costs more than it saves, and so does a job that
# broadcasts one side of a join.
_CONFS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


def change_frame(spark: SparkSession, schema: Schema, rows: pa.Table) -> DataFrame:
    """A relation's change, its rows with their weights, as `Reference.apply` reads it."""
    struct = _struct((*schema, _WEIGHT))
    return offered(spark, rows.select(struct.names), struct)


class Reference:
    """A plan's texts and their states, after the batches applied so far."""

    def __init__(self, spark: SparkSession, plan: Node) -> None:
        register_collation_key(spark)
        self._spark = spark
        self._stages = texts_of(plan)
        self._bodies = {
            id(text): print_text(text.query) for stage in self._stages for text in stage.texts
        }
        self._types = {s.name: _struct(s.schema) for stage in self._stages for s in stage.states}
        self._states = {name: without_rows(spark, type_) for name, type_ in self._types.items()}
        self._change = changes_of(self._stages[-2].name)
        self._types[self._change] = self._types[OUTPUT]
        self._unchanged = {
            name: without_rows(spark, _struct((*schema, _WEIGHT)))
            for name, schema in _scanned(plan).items()
        }
        self._started = False

    def apply(self, changes: Mapping[str, DataFrame]) -> DataFrame:
        """Maintain all states for the changes of relations; returns the change of the view."""
        if self._started and not changes.keys() & self._unchanged.keys():
            return self._states[OUTPUT].limit(0)
        with _Relations(self._spark, self._types) as relations:
            for name, unchanged in self._unchanged.items():
                relations.name(batch_of(name), changes.get(name, unchanged))
            first = f"SELECT 1L AS {WEIGHT} WHERE {str(not self._started).upper()}"
            relations.name(FIRST_BATCH, self._spark.sql(first))
            for name, rows in self._states.items():
                relations.name(name, rows)
            for stage in self._stages:
                self._run(stage, relations)
            self._started = True
            self._states = {name: relations.named[name] for name in self._states}
            return relations.named[self._change]

    def _run(self, stage: StageTexts, relations: _Relations) -> None:
        """Assign the texts of an operator; its states and its change are computed, if it has state."""
        shared = [text.name for text in stage.texts if text.purpose in (HOMOMORPHISM, REDERIVED)]
        for text in stage.texts:
            relations.assign(text, self._bodies[id(text)])
            if shared and text.name == shared[-1]:
                relations.compute(shared)
        if stage.states:
            change = self._change if stage.name == OUTPUT else changes_of(stage.name)
            relations.compute([*(state.name for state in stage.states), change])

    def rows(self) -> pa.Table:
        """The rows of the view with their weights."""
        fields = self._types[OUTPUT].fields
        schema = arrow_schema(tuple(Field(f.name, f.dataType) for f in fields))
        return computed(self._states[OUTPUT]).cast(schema)


class _Relations:
    """The relations of one batch: rows with a name, and texts that await being computed.

    `types` says of some what their rows are cast to. A text that has been passed over when states
    were computed is not read any more, or it reads no state: it means the same before and after.
    """

    def __init__(self, spark: SparkSession, types: Mapping[str, T.StructType]) -> None:
        self.named: dict[str, DataFrame] = {}
        self._spark = spark
        self._types = types
        self._texts: dict[str, tuple[Text, str]] = {}

    def __enter__(self) -> _Relations:
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
        for name in self.named:
            self._spark.catalog.dropTempView(name)

    def name(self, name: str, frame: DataFrame) -> None:
        # In one partition, where few rows need no shuffle.
        frame.coalesce(1).createOrReplaceTempView(quoted(name))
        self.named[name] = frame

    def assign(self, text: Text, body: str) -> None:
        self._texts[text.name] = text, body

    def compute(self, names: Sequence[str]) -> None:
        """Compute relations by one query, in which each is a column of structs; they are named."""
        names = [name for name in names if name in self._texts]
        texts = (f"{quoted(name)} AS ({self._texts[name][1]})" for name in self._needed(names))
        rows = held(
            self._spark.sql(
                f"WITH {', '.join(texts)} "
                + " UNION ALL ".join(self._column(name, names) for name in names)
            )
        )
        for name in names:
            del self._texts[name]
            own = rows.where(F.col(_NAME) == name)
            self.name(name, own.select(F.col(f"{quoted(name)}.*")))

    def _needed(self, names: Sequence[str]) -> list[str]:
        """The texts that some relations are made of, in their order."""
        needed = set(names)
        for name, (text, _) in reversed(self._texts.items()):
            if name in needed:
                needed.update(text.reads)
        return [name for name in self._texts if name in needed]

    def _column(self, name: str, names: Sequence[str]) -> str:
        row = "STRUCT(*)"
        if name in self._types:
            row = f"CAST({row} AS {type_sql(self._types[name])})"
        columns = [f"{row if n == name else 'NULL'} AS {quoted(n)}" for n in names]
        return f"SELECT '{name}' AS {_NAME}, {', '.join(columns)} FROM {quoted(name)}"


def _struct(schema: Schema) -> T.StructType:
    struct = T.StructType([T.StructField(f.name, as_string(f.type)) for f in schema])
    return struct.toNullable()


def _scanned(plan: Node) -> dict[str, Schema]:
    """The relations that a plan scans, with the columns that it reads."""
    result: dict[str, dict[str, Field]] = {}
    for node in walk(plan):
        if isinstance(node, Scan):
            known = result.setdefault(node.relation, {})
            for name, field in zip(node.columns, node.schema, strict=True):
                known[name] = Field(name, field.type)
    return {relation: tuple(fields.values()) for relation, fields in result.items()}
