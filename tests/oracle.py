"""The oracle: after every batch a view equals its query, computed by Spark from scratch.

`check` keeps its own model of the tables, a bag of Python rows, and gives Spark plain temporary
views of it: nothing that Spark sees went through the engine. Results are compared as bags. The
recomputations of all steps are one Spark query, since Spark's price is per query.

Values are compared as `tests/bags.py` says. Where a sum cancels, Spark's own result
is noise below ε times the numbers that were added; so floats may also differ by ε · n · m, where n
is the number of rows in the tables and m the greatest number added: by default the greatest finite
float in the tables, else `magnitude` as the test says (m² for a variance). The SQL texts sum squares
as plain doubles, so for them it is m² in any case.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyspark.sql.functions as F
import pyspark.sql.types as T
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_incr.engine import Engine
from spark_incr.errors import IncrementalError
from spark_incr.frames import columns_for, computed, offered
from spark_incr.plan.types import Field, Schema, arrow_schema
from spark_incr.reference import Reference, change_frame
from spark_incr.runtime.changes import WEIGHT, repeated
from spark_incr.runtime.tables import TableDefinition
from spark_incr.runtime.views import View
from spark_incr.sql.parse import parse_statement
from spark_incr.sql.statements import CreateView
from tests.bags import compare_bags

VIEW = "__oracle_view_{}"
EPSILON = 2.0**-52
_STEP = "__oracle_step"
_REFERENCE = "SQL texts"

Rows: TypeAlias = pa.Table | Sequence[tuple[Any, ...]]
Batch = Mapping[str, Mapping[str, Rows]]
Columns = str | Schema


def insert(table: str, *rows: tuple[Any, ...]) -> Batch:
    """A batch that inserts rows."""
    return {table: {"insert": list(rows)}}


def delete(table: str, *rows: tuple[Any, ...]) -> Batch:
    """A batch that deletes rows."""
    return {table: {"delete": list(rows)}}


def update(table: str, *pairs: tuple[tuple[Any, ...], tuple[Any, ...]]) -> Batch:
    """A batch that turns rows into others."""
    return {table: {"delete": [old for old, _ in pairs], "insert": [new for _, new in pairs]}}


def undo(batch: Batch) -> Batch:
    """The batch that takes a batch back."""
    other = {"insert": "delete", "delete": "insert"}
    return {name: {other[s]: rows for s, rows in sides.items()} for name, sides in batch.items()}


def together(*batches: Batch) -> Batch:
    """Batches of different tables as one."""
    return {name: sides for batch in batches for name, sides in batch.items()}


NOTHING: Batch = {}


def check(
    spark: SparkSession,
    tables: Mapping[str, Columns],
    query: str | Sequence[str],
    batches: Sequence[Batch],
    *,
    views: Mapping[str, str] | None = None,
    static: Mapping[str, pa.Table] | None = None,
    keys: Mapping[str, tuple[str, ...]] | None = None,
    unordered: Iterable[str] = (),
    magnitude: float | None = None,
    created_after: int = 0,
    reopen: bool = False,
    reference: int = 0,
    policy: str = "INCREMENTAL STRICT",
) -> None:
    """Maintain a query over batches and compare it with Spark's before the first and after each.

    Several queries are maintained side by side, each as a view of its own.
    `tables` maps names to columns, as DDL or as a schema; `views` are incremental views that the
    query may read; `static` are tables of Spark alone; `keys` are primary keys. Columns named in
    `unordered` hold lists whose order is free. The views are created after `created_after` batches,
    from the rows that are there. With `reopen` the engine is closed and opened after each batch;
    with a `reference` of n the SQL texts of the plan are run beside it, for the rows that are there and
    after every n batches for the sum of these and after the last, and have to give the same. A batch for which Spark's query fails
    has to fail here too, and to leave everything as it was. Where Spark fails for the rows that are
    there when a view is created, or breaks down, `SparkFailsError` is raised.
    """
    model = {
        name: Model.of(spark, name, columns, (keys or {}).get(name, ()))
        for name, columns in tables.items()
    }
    queries = [query] if isinstance(query, str) else list(query)
    targets = {VIEW.format(i): text for i, text in enumerate(queries)}
    with tempfile.TemporaryDirectory() as directory, _temporary_views(spark) as named:
        run = _Run(
            spark, directory, model, (views or {}, targets), named, static or {}, reference, policy
        )
        try:
            for name, rows in (static or {}).items():
                named(name, spark.createDataFrame(rows))
            for table in model.values():
                run.engine.create_table(table.definition)
            for number, batch in enumerate(batches):
                if number == created_after:
                    run.create_views()
                run.commit(batch)
                if reopen:
                    run.reopen()
            if created_after >= len(batches):
                run.create_views()
            run.refer()
        finally:
            run.engine.close()
        run.compare(Tolerance(frozenset(unordered), magnitude))


class SparkFailsError(Exception):
    """Spark cannot run a query: the view could not be created either, or Spark itself breaks down, by
    a failure of Java's that is no error of the query."""


@dataclass
class Model:
    """A table as the oracle knows it: each row with the number of its copies."""

    definition: TableDefinition
    rows: dict[Any, tuple[dict[str, Any], int]] = field(default_factory=dict)

    @staticmethod
    def of(spark: SparkSession, name: str, columns: Columns, key: tuple[str, ...]) -> Model:
        schema = parse_schema(spark, columns) if isinstance(columns, str) else columns
        return Model(TableDefinition(name, schema, key, frozenset(), f"-- {name}"))

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.definition.schema)

    def table(self, rows: Rows) -> pa.Table:
        if isinstance(rows, pa.Table):
            return rows
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self.schema)
        return pa.table(
            [pa.array(list(c), f.type) for c, f in zip(columns, self.schema, strict=True)],
            schema=self.schema,
        )

    def changed(self, sides: Mapping[str, Rows]) -> Model:
        """The table after a batch."""
        rows = dict(self.rows)
        for side, sign in (("delete", -1), ("insert", 1)):
            for row in self.table(sides.get(side, ())).cast(self.schema).to_pylist():
                row_key = frozen(row)
                count = rows.get(row_key, (row, 0))[1] + sign
                assert count >= 0, f"the test deletes a row that is not there: {row}"
                rows[row_key] = (row, count)
        return Model(self.definition, {k: v for k, v in rows.items() if v[1]})

    def to_arrow(self) -> pa.Table:
        rows = [row for row, count in self.rows.values() for _ in range(count)]
        return pa.Table.from_pylist(rows, schema=self.schema)

    def greatest(self) -> float:
        """The greatest finite float in the table."""
        return max(
            (abs(x) for row, _ in self.rows.values() for x in _floats(row) if math.isfinite(x)),
            default=0.0,
        )

    def count(self) -> int:
        return sum(count for _, count in self.rows.values())


@dataclass(frozen=True)
class Tolerance:
    """How results may differ."""

    unordered: frozenset[str] = frozenset()
    magnitude: float | None = None

    def absolute(self, models: Iterable[Model], squared: bool) -> float:
        models = list(models)
        size = self.magnitude
        if size is None:
            size = max((m.greatest() for m in models), default=0.0)
            size = max(size, size * size) if squared else size
        return EPSILON * size * sum(m.count() for m in models)


@dataclass
class _Step:
    """What is known after a batch: the tables, what the engine has, and what Spark will say."""

    label: str
    models: Mapping[str, Model]
    expected: Mapping[str, DataFrame]
    actual: dict[str, dict[str, pa.Table]] = field(default_factory=dict)
    failure: Exception | None = None


@dataclass(frozen=True)
class _Recomputed:
    """A query of Spark's over the tables that it reads, as they are."""

    frame: DataFrame
    read: Mapping[str, Model]

    def holds(self, models: Mapping[str, Model]) -> bool:
        return all(models[name] is model for name, model in self.read.items())


class _Run:
    """An engine, the model beside it, and the steps so far."""

    def __init__(
        self,
        spark: SparkSession,
        directory: str,
        models: dict[str, Model],
        definitions: tuple[Mapping[str, str], Mapping[str, str]],
        named: Any,
        static: Mapping[str, pa.Table],
        reference: int,
        policy: str,
    ) -> None:
        self.spark = spark
        self.directory = directory
        self.models: Mapping[str, Model] = models
        self.targets = definitions[1]
        self.definitions = {**definitions[0], **definitions[1]}
        self.named = named
        self.reference = reference
        self.policy = policy
        self.created = False
        self.references: dict[str, Reference] = {}
        self.unreferred: dict[str, list[pa.Table]] = {}
        self.static: Mapping[str, pa.Table] = static
        self.steps: list[_Step] = []
        self.offered: dict[str, Model] = {}
        self.recomputed: dict[str, _Recomputed] = {}
        self.engine = Engine(spark, directory)

    def create_views(self) -> None:
        expected = self.recomputation(self.models)
        for name, query in self.definitions.items():
            text = f"CREATE INCREMENTAL VIEW {name} REFRESH POLICY {self.policy} AS {query}"
            statement = parse_statement(text)
            assert isinstance(statement, CreateView)
            try:
                self.engine.create_view(statement, text)
            except (IncrementalError, PySparkException) as failure:
                if name in expected and _fails(expected[name]):
                    raise SparkFailsError from failure
                raise
            if self.reference:
                relation = self.engine.find(name)
                assert relation is not None
                assert isinstance(relation.state, View)
                self.references[name] = Reference(self.spark, relation.state.dataflow.plan)
        self.created = True
        self.steps.append(_Step("creation", self.models, expected, self.results("Arrow runtime")))
        rows = {name: model.to_arrow() for name, model in self.models.items()} | dict(self.static)
        self.unreferred = {name: [_weighted(table, 1)] for name, table in rows.items()}
        if self.reference == 1 or any(table.num_rows for table in rows.values()):
            self.refer()

    def commit(self, batch: Batch) -> None:
        changed = {
            name: model.changed(batch[name]) if name in batch else model
            for name, model in self.models.items()
        }
        rows = {
            name: {side: self.models[name].table(rows) for side, rows in sides.items()}
            for name, sides in batch.items()
        }
        label = f"batch {len(self.steps)}"
        expected = self.recomputation(changed) if self.created else None
        try:
            self.engine.commit(rows, strict=True)
        except (IncrementalError, PySparkException) as failure:
            if expected is None:
                raise
            self.steps.append(_Step(label, changed, expected, failure=failure))
            before = self.recomputation(self.models)
            results = self.results("Arrow runtime after the failure")
            self.steps.append(_Step(label, self.models, before, results))
            return
        self.models = changed
        if expected is not None:
            self.steps.append(_Step(label, changed, expected, self.results("Arrow runtime")))
            for name, sides in rows.items():
                self.unreferred.setdefault(name, []).extend(
                    _weighted(table.cast(changed[name].schema), 1 if side == "insert" else -1)
                    for side, table in sides.items()
                )
            if self.reference and len(self.steps) % self.reference == 0:
                self.refer()

    def results(self, who: str) -> dict[str, dict[str, pa.Table]]:
        return {who: {name: self.engine.view(name).to_arrow() for name in self.targets}}

    def refer(self) -> None:
        """Run the SQL texts, if there are any, for what has changed since they were run last."""
        changes = {
            name: self.change(name, pa.concat_tables(tables))
            for name, tables in self.unreferred.items()
            if self.references and tables
        }
        self.unreferred = {}
        if not changes:
            return
        results = {}
        for name, reference in self.references.items():
            names = [*(f.name for f in self.engine.view(name).schema), WEIGHT]
            changes[name] = reference.apply(changes).toDF(*names)
            if name in self.targets:
                results[name] = repeated(reference.rows().rename_columns(names))
        self.steps[-1].actual[_REFERENCE] = results

    def change(self, name: str, rows: pa.Table) -> DataFrame:
        if name in self.models:
            return change_frame(self.spark, self.models[name].definition.schema, rows)
        return self.spark.createDataFrame(rows)

    def reopen(self) -> None:
        self.engine.close()
        self.engine = Engine(self.spark, self.directory)
        if self.created:
            self.steps[-1].actual.update(self.results("Arrow runtime, reopened"))

    def recomputation(self, models: Mapping[str, Model]) -> dict[str, DataFrame]:
        """The queries over the model; they hold on to these rows whatever the names mean later.

        A query none of whose tables has changed is the frame that it was.
        """
        for name, model in models.items():
            if self.offered.get(name) is not model:
                columns = columns_for(model.definition.schema)
                self.named(name, offered(self.spark, model.to_arrow(), columns))
                self.offered[name] = model
        for name, query in self.definitions.items():
            known = self.recomputed.get(name)
            if known is not None and known.holds(models):
                continue
            frame = self.spark.sql(query)
            read = known.read if known is not None else _read(frame, models)
            if name not in self.targets:
                self.named(name, frame)
            self.recomputed[name] = _Recomputed(
                _nullable(frame), {table: models[table] for table in read}
            )
        return {name: self.recomputed[name].frame for name in self.targets}

    def compare(self, tolerance: Tolerance) -> None:
        succeeded = [step for step in self.steps if step.failure is None]
        for name, query in self.targets.items():
            frames = [step.expected[name] for step in succeeded]
            expectations = zip(succeeded, self.expectations(succeeded, frames), strict=True)
            for step, expected in expectations:
                self.compare_step(step, name, query, expected, tolerance)
        for step in self.steps:
            if step.failure is not None:
                self.compare_failure(step)

    def compare_step(
        self, step: _Step, name: str, query: str, expected: pa.Table, tolerance: Tolerance
    ) -> None:
        fields = step.expected[name].schema.fields
        wanted = arrow_schema(tuple(Field(f.name, f.dataType) for f in fields))
        which = f" of {query}" if len(self.targets) > 1 else ""
        for who, results in step.actual.items():
            actual = results[name]
            absolute = tolerance.absolute(step.models.values(), squared=who == _REFERENCE)
            assert actual.schema.equals(wanted), f"{who}: {actual.schema} is not {wanted}{which}"
            difference = compare_bags(expected, actual, tolerance.unordered, absolute)
            if difference:
                message = f"{step.label}: {who} differs from Spark{which}\n{difference}"
                raise AssertionError(message)

    def compare_failure(self, step: _Step) -> None:
        """One of the queries has to fail in Spark, too."""
        try:
            results = [computed(frame).to_pylist() for frame in step.expected.values()]
        except PySparkException:
            return
        raise AssertionError(
            f"{step.label}: failed here, not in Spark, which gives {results}"
        ) from step.failure

    def expectations(self, steps: Sequence[_Step], frames: Sequence[DataFrame]) -> list[pa.Table]:
        """What Spark gives for each step, by one query if it can."""
        places = {id(frame): i for i, frame in reversed([*enumerate(frames)])}
        numbered = [
            frame.select("*", F.lit(i).alias(_STEP))
            for i, frame in enumerate(frames)
            if places[id(frame)] == i
        ]
        try:
            result = computed(reduce(DataFrame.unionAll, numbered))
        except (PySparkException, Py4JJavaError, pa.ArrowInvalid):
            # One of them fails, or Spark itself does: it cannot merge some plans of a union.
            pairs = zip(steps, frames, strict=True)
            return [self.expectation(step, frame) for step, frame in pairs]
        numbers = result.column(_STEP).to_pylist()
        return [
            result.take(
                pa.array([at for at, n in enumerate(numbers) if n == places[id(frame)]], pa.int64())
            ).drop_columns([_STEP])
            for frame in frames
        ]

    def expectation(self, step: _Step, frame: DataFrame) -> pa.Table:
        try:
            return computed(frame)
        except PySparkException as failure:
            if failure.getCondition() is None:
                raise SparkFailsError from failure
            raise AssertionError(f"{step.label}: Spark fails, this does not") from failure


def _read(frame: DataFrame, names: Iterable[str]) -> list[str]:
    """Those of the names that stand in Spark's plan of a query."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    text = plan.toString().lower()
    return [name for name in names if f"`{name.replace('`', '``').lower()}`" in text]


def _fails(frame: DataFrame) -> bool:
    try:
        computed(frame)
    except PySparkException:
        return True
    return False


def _nullable(frame: DataFrame) -> DataFrame:
    """The frame with NULL allowed within its values: else PySpark cannot read a struct that is NULL."""
    schema = frame.schema.toNullable()
    if [f.dataType for f in schema] == [f.dataType for f in frame.schema]:
        return frame
    # By position: structs may have two fields of one name.
    numbered = frame.toDF(*map(str, range(len(schema))))
    pairs = zip(numbered.columns, schema, strict=True)
    return numbered.select([numbered[n].cast(f.dataType).alias(f.name) for n, f in pairs])


@contextlib.contextmanager
def _temporary_views(spark: SparkSession) -> Iterator[Any]:
    """A function that names a frame in Spark; the names are gone afterwards."""
    names: set[str] = set()

    def named(name: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(name)
        names.add(name)

    try:
        yield named
    finally:
        for name in names:
            spark.catalog.dropTempView(name)


def parse_schema(spark: SparkSession, ddl: str) -> Schema:
    """Columns written as in CREATE TABLE."""
    parsed = T._parse_datatype_string(f"struct<{ddl}>" if ":" in ddl.split(" ")[0] else ddl)
    assert isinstance(parsed, T.StructType)
    return tuple(Field(f.name, f.dataType) for f in parsed.fields)


def _weighted(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column(WEIGHT, pa.array([weight] * rows.num_rows, pa.int64()))


def frozen(value: Any) -> Any:
    """A value as a key: floats by their text, so that NaN is itself and -0.0 is not 0.0."""
    if isinstance(value, float):
        return ("float", repr(value))
    if isinstance(value, dict):
        return ("struct", tuple((k, frozen(v)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        return ("array", tuple(frozen(v) for v in value))
    return (type(value).__name__, value)


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from _floats(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _floats(v)
