"""Spark as the authority on queries, types and values.

Types are asked of Spark by analysing expressions over an empty relation. Answers are remembered,
and the memory can be stored with a view, so that opening a state asks Spark nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, fields
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from spark_incr.errors import Position, error, without_plan
from spark_incr.frames import (
    FEW_ROWS,
    columns_for,
    columns_of,
    computed,
    in_type,
    named,
    offered,
    rejected,
    without_rows,
)
from spark_incr.plan.collations import COLLATION_KEY
from spark_incr.plan.context import ALL_GROUPS, LEFT_GROUPS, Read, SessionFunction
from spark_incr.plan.functions import CLOCK
from spark_incr.plan.generators import generated_columns
from spark_incr.plan.nodes import RELATION
from spark_incr.plan.types import (
    Field,
    Schema,
    arrow_type,
    as_string,
    read_type,
    type_sql,
    type_text,
    unkept,
)
from spark_incr.runtime.columns import single
from spark_incr.runtime.expressions import Settings
from spark_incr.serve.questions import unlogged
from spark_incr.serve.same_plans import SamePlans
from spark_incr.serve.session_functions import Call, SessionFunctions, register_collation_key
from spark_incr.serve.settings import (
    CASE_SENSITIVE,
    FIXED,
    FRACTION_FIRST,
    RAW_LITERALS,
    settings_of,
    under,
)
from spark_incr.serve.spark_names import keywords_as_names, name_places
from spark_incr.serve.spark_plans import (
    expressions,
    havings_below_windows,
    is_query,
    names_in,
    nodes,
    read_clock_in,
    unstable_in,
    variables_in,
    with_comparable_rows,
)
from spark_incr.serve.written_relations import relations_in
from spark_incr.sql.dialect import bracketed, identifiers_in, parse_query, print_sql, quoted
from spark_incr.sql.written_names import NAMES, Name, known_names

_ONE_PARTITION = 100_000
_RECOMPUTED = "RECOMPUTED BECAUSE"
_HAVING = "HAVING OVER WINDOWS OF SETS"
_PROGRAM = re.compile(r"\bUSING\s*['\"]", re.IGNORECASE)


class SparkAnalysis:
    """Answers of one session; `memory` maps questions to types as JSON.

    `counted` tells the rows of a relation, or the distinct values of one of its columns.
    """

    def __init__(
        self,
        spark: SparkSession,
        memory: Mapping[str, str] | None = None,
        confs: Mapping[str, str] | None = None,
        counted: Callable[[str, str | None], int] = lambda relation, column: 0,
    ) -> None:
        self.spark = spark
        self._counted = counted
        self.memory: dict[str, str] = dict(memory or {})
        self.confs = dict(confs or settings_of(spark))
        self._functions = SessionFunctions(spark)
        self._calls: dict[Call, SessionFunction] = {}
        self._at_hand: dict[str, DataFrame] = {}
        self.settings = Settings(
            ansi=self.confs["spark.sql.ansi.enabled"] == "true",
            time_zone=self.confs["spark.sql.session.timeZone"],
            whole_digits_first=self.confs.get(FRACTION_FIRST) != "true",
        )

    @property
    def case_sensitive(self) -> bool:
        return self.confs.get(CASE_SENSITIVE) == "true"

    def _as_created(self) -> AbstractContextManager[None]:
        """The session with the confs under which the view was created."""
        return under(self.spark, self.confs)

    # Types

    def types(self, schema: Schema, expressions: Sequence[exp.Expr]) -> list[T.DataType]:
        found = self.known_types(schema, expressions)
        for expression, type_ in zip(expressions, found, strict=True):
            if type_ is None:
                raise error("INCR_UNSUPPORTED", what=print_sql(expression))
        return [type_ for type_ in found if type_ is not None]

    def known_types(
        self, schema: Schema, expressions: Sequence[exp.Expr]
    ) -> list[T.DataType | None]:
        own = {field.name: field.type for field in schema}
        source = _columns_text(schema)
        texts = [print_sql(e) for e in expressions]
        unknown = [
            text
            for text, e in zip(texts, expressions, strict=True)
            if not (isinstance(e, exp.Column) and e.name in own)
            and f"{text} OVER {source}" not in self.memory
        ]
        for text, type_ in zip(unknown, self._ask(schema, unknown), strict=True):
            self.memory[f"{text} OVER {source}"] = "" if type_ is None else type_.json()
        return [
            own[e.name]
            if isinstance(e, exp.Column) and e.name in own
            else _from_memory(self.memory[f"{text} OVER {source}"])
            for text, e in zip(texts, expressions, strict=True)
        ]

    def _ask(self, schema: Schema, texts: Sequence[str]) -> list[T.DataType | None]:
        if not texts:
            return []
        try:
            self._register(texts)
            with unlogged(), self._as_created():
                frame = self._empty(schema).selectExpr(
                    *(f"{t} AS c{i}" for i, t in enumerate(texts))
                )
                return [field.type for field in columns_of(frame)]
        except PySparkException:
            if len(texts) == 1:
                return [None]
            return [type_ for text in texts for type_ in self._ask(schema, [text])]

    def _empty(self, schema: Schema) -> DataFrame:
        return without_rows(self.spark, columns_for(schema))

    def comparison_type(self, left: T.DataType, right: T.DataType) -> T.DataType:
        for side in (left, right):
            if arrow_type(side) is None:
                raise unkept(Field("key", side))
        left, right = as_string(left), as_string(right)
        question = f"{type_text(left)} = {type_text(right)}"
        if question not in self.memory:
            nulls = (f"CAST(NULL AS {type_sql(t)})" for t in (left, right))
            frame = self.spark.range(0).selectExpr(" = ".join(nulls) + " AS c")
            analyzed: Any = frame._jdf.queryExecution().analyzed()
            equality = analyzed.projectList().head().child()
            self.memory[question] = equality.left().dataType().json()
        return _known(self.memory[question])

    def union_type(self, left: T.DataType, right: T.DataType) -> T.DataType:
        question = f"{type_text(left)} UNION {type_text(right)}"
        if question not in self.memory:
            frames = [self._empty((Field("c", t),)) for t in (left, right)]
            (found,) = columns_of(frames[0].unionAll(frames[1]))
            self.memory[question] = found.type.json()
        return _known(self.memory[question])

    def integer(self, expression: exp.Expr) -> int:
        question = f"VALUE OF {print_sql(expression)}"
        if question not in self.memory:
            self.memory[question] = str(single(self.run(f"SELECT {print_sql(expression)}")[0])[0])
        return int(self.memory[question])

    def generated(self, schema: Schema, generator: exp.Expr) -> Schema:
        question = f"{print_sql(generator)} GENERATES OVER {_columns_text(schema)}"
        if question not in self.memory:
            query = print_sql(generated_columns(generator))
            with self._as_created(), self._named({RELATION: self._empty(schema)}):
                found = columns_of(self.spark.sql(query))
            self.memory[question] = _struct(found).json()
        return _fields(self.memory[question])

    def rows(self, relation: str) -> int:
        return self._count(f"ROWS OF {relation}", relation, None)

    def distinct(self, relation: str, column: str) -> int:
        return self._count(f"VALUES OF {column} IN {relation}", relation, column)

    def _count(self, question: str, relation: str, column: str | None) -> int:
        if question not in self.memory:
            self.memory[question] = str(self._counted(relation, column))
        return int(self.memory[question])

    # Functions

    def session_function(self, name: str, arguments: int) -> SessionFunction | None:
        # A state may hold an answer that says something else than is asked here.
        asked = ", ".join(f.name for f in fields(SessionFunction))
        question = f"FUNCTION {name} OF {arguments}: {asked}"
        if question not in self.memory:
            found = self._functions.find((name, arguments))
            if found is not None and found.returns:
                self._check_reading(name, found)
            self.memory[question] = "" if found is None else json.dumps(asdict(found))
        answer = self.memory[question]
        if not answer:
            return None
        return self._calls.setdefault((name, arguments), SessionFunction(**json.loads(answer)))

    def _check_reading(self, name: str, function: SessionFunction) -> None:
        """The query of a function has to be read as Spark reads it."""
        inputs = _known(function.inputs)
        assert isinstance(inputs, T.StructType)
        nulls = [f"CAST(NULL AS {type_sql(f.dataType)}) AS {quoted(f.name)}" for f in inputs.fields]
        row = f"(SELECT {', '.join(nulls or ['1'])}) AS {quoted(name)}"
        if function.gives_rows:
            text = f"SELECT __incr_q.* FROM {row}, LATERAL ({function.body}) AS __incr_q"
        else:
            text = f"SELECT {function.body} AS __incr_v FROM {row}"
        tree = parse_query(text)
        if not self.same_query(text, print_sql(bracketed(tree))):
            raise error("INCR_READING_DIFFERS", detail=f"Read as: {print_sql(tree)}")

    # Queries

    def query_schema(self, text: str) -> Schema:
        """The output of a query, or Spark's error about it."""
        return columns_of(self._accepted(text))

    @contextmanager
    def analysed(self, text: str, place: Position) -> Iterator[Schema]:
        """The output of a query whose plan is kept at hand while it is compiled.

        Spark's errors about it point to its place in a statement.
        """
        placed = "\n" * (place.line - 1) + " " * (place.column - 1) + text
        self._check_query(placed)
        frame = self._accepted(placed)
        self._at_hand = {text: frame}
        try:
            yield columns_of(frame)
        finally:
            self._at_hand = {}

    def _check_query(self, text: str) -> None:
        """Refuse what is no query: Spark carries out a command as soon as it is asked about it."""
        try:
            found = is_query(self.spark, text)
        except Py4JJavaError as failure:
            raise rejected(failure) from None
        if not found:
            raise error("INCR_SYNTAX", what="a view is made of one query", position=Position(1, 1))

    def _accepted(self, text: str) -> DataFrame:
        try:
            frame = self.spark.sql(text)
        except Py4JJavaError as failure:
            raise rejected(failure) from None
        self._check_variables(text, frame)
        return frame

    def _read(self, text: str) -> Any:
        """The frame of a query."""
        return self._at_hand.get(text) or self.spark.sql(text)

    def _plan(self, text: str) -> Any:
        """Spark's plan of a query, analysed."""
        return self._read(text)._jdf.queryExecution().analyzed()

    def check_clock(self, text: str) -> None:
        """Refuse a query that gives other rows on another day, by casts that do not look so."""
        for what in read_clock_in(self._read(text)):
            raise error("INCR_NONDETERMINISTIC", what=what, hint=CLOCK)

    def _check_variables(self, text: str, frame: DataFrame) -> None:
        """Refuse a query that reads variables, as Spark does where it creates a view."""
        session: Any = self.spark._jsparkSession
        if session.sessionState().catalogManager().tempVariableManager().isEmpty():
            return
        for read in (frame, *(self._saying(text[slice(*p)]) for p in identifiers_in(text))):
            for name in variables_in(read._jdf.queryExecution().analyzed()):
                raise error("INCR_SESSION_VARIABLE", name=name)

    def check_settings(self, text: str) -> None:
        """Refuse a query under settings that only Spark knows how to follow."""
        if "\\" in text and self.spark.conf.get(RAW_LITERALS) == "true":
            hint = "Turn the setting off and double the backslashes."
            raise error("INCR_UNSUPPORTED", what=f"a backslash under {RAW_LITERALS}", hint=hint)
        for key, value in FIXED.items():
            if self.spark.conf.get(key, value) != value:
                hint = f"SET {key} = {value}, its default."
                raise error("INCR_UNSUPPORTED", what=f"a query under {key}", hint=hint)

    def check_programs(self, text: str) -> None:
        """Refuse a query that pipes rows through a program, which may do anything."""
        if not _PROGRAM.search(text):
            return
        if any(node.nodeName() == "ScriptTransformation" for node in nodes(self._plan(text))):
            hint = (
                "Write the program as a function of Python, register it by spark.udtf.register, "
                "declared deterministic, and call it by LATERAL."
            )
            raise error("INCR_UNSUPPORTED", what="a program (TRANSFORM ... USING)", hint=hint)

    def functions_in(self, text: str) -> set[str]:
        """What Spark's plan of a query is made of, by name."""
        return {expression.prettyName() for expression in expressions(self._plan(text))}

    def names(self, text: str) -> tuple[Name, ...]:
        return known_names(text, self.memory)

    def same_reading(self, text: str, tree: exp.Expr) -> bool:
        """Whether a tree is what Spark reads in a text.

        The tree is written with every name in quotes and every operation in parentheses, and that
        is the same query for Spark. Were a word in it a name to Spark and a clause to the tree, the
        two would still agree; so no name may be left that is a keyword.
        """
        written = print_sql(bracketed(tree), identify=True)
        return self.same_query(text, written) and not keywords_as_names(self.spark, written)

    def learn_identifiers(self, text: str) -> None:
        """Let Spark say which names a query says by expressions."""
        said = [(*place, self._said(text[slice(*place)])) for place in identifiers_in(text)]
        if said:
            self.memory[NAMES + text] = json.dumps(said)

    def _said(self, call: str) -> str:
        """What IDENTIFIER(...) says, if that is the same each time; else nothing."""
        frame = self._saying(call)
        if any(unstable_in(frame._jdf.queryExecution().analyzed())):
            return ""
        (row,) = frame.collect()
        return str(row[0])

    def _saying(self, call: str) -> DataFrame:
        """The text that IDENTIFIER(...) is given."""
        return self.spark.sql(f"SELECT {call[call.index('(') :]}")

    def learn_names(self, text: str) -> None:
        """Let Spark say where a query writes names: it has more of them than sqlglot finds."""
        said = [name for name in self.names(text) if name[2]]
        self.memory[NAMES + text] = json.dumps([*name_places(self.spark, text), *said])

    def learn_havings(self, text: str, number: int) -> None:
        """Let Spark say whether the windows of a query's SELECTs with GROUPING SETS see the groups that
        HAVING leaves, or all."""
        if number:
            below = havings_below_windows(self._plan(text))
            self.memory[_HAVING] = {0: ALL_GROUPS, number: LEFT_GROUPS}.get(below, "")

    def windows_see(self) -> str:
        return self.memory.get(_HAVING, LEFT_GROUPS)

    # Queries that are computed anew

    @property
    def recomputed(self) -> str:
        return self.memory.get(_RECOMPUTED, "")

    def recompute_because(self, reason: str) -> None:
        """Let the query be computed anew with each batch."""
        self.memory[_RECOMPUTED] = reason

    def take_whole(self, text: str) -> None:
        """Refuse a query that gives other rows each time; any other is Spark's, under all settings."""
        for what in unstable_in(self._plan(text)):
            raise error("INCR_NONDETERMINISTIC", what=what)
        self.check_clock(text)
        self.confs = settings_of(self.spark)

    def reads(self, text: str) -> list[Read]:
        question = f"READS OF {text}"
        if question not in self.memory:
            found = relations_in(self.spark, text)
            self.memory[question] = json.dumps([asdict(read) for read in found])
        return [
            Read(read["start"], read["stop"], tuple(read["parts"]), read["hidden"])
            for read in json.loads(self.memory[question])
        ]

    def output(self, query: str, relations: Mapping[str, Schema]) -> Schema:
        known = "; ".join(f"{name} ({_columns_text(s)})" for name, s in relations.items())
        question = f"OUTPUT OF {query} OVER {known}"
        if question not in self.memory:
            frames = {name: self._empty(schema) for name, schema in relations.items()}
            with self._as_created(), self._named(frames):
                try:
                    frame = self.spark.sql(query)
                except PySparkException as failure:
                    detail = f"Read as: {query}\n{without_plan(str(failure))}"
                    raise error("INCR_READING_DIFFERS", detail=detail) from None
                unread = set(names_in(frame)) - relations.keys()
            for name in unread:
                raise error("INCR_UNSUPPORTED", what=f"a function that reads {name}")
            self.memory[question] = _struct(columns_of(frame)).json()
        return _fields(self.memory[question])

    def same_query(self, text: str, other: str) -> bool:
        """Whether Spark understands two texts as one query.

        The analysed plans are compared, with CTEs in place and constants folded: each reading
        numbers its CTEs anew, and a literal may be written as a cast. Constants that hold a map are
        the same as they are written: Spark does not compare maps.
        """
        try:
            with unlogged():
                plans = [self._plan(t) for t in (text, other)]
        except PySparkException:
            return False
        pairs = []
        for folded in (False, True):
            one, two = (self._simplified(plan, folded) for plan in plans)
            if one.sameResult(two):
                return True
            pairs.append((one, two))
        gateway = self.spark.sparkContext._gateway
        return any(SamePlans(gateway).same(*pair) for pair in pairs)

    def _simplified(self, plan: Any, folded: bool) -> Any:
        jvm: Any = self.spark._jvm
        optimizer = jvm.org.apache.spark.sql.catalyst.optimizer
        plan = self._inline_ctes.apply(plan)
        for package, rule in (
            (jvm.org.apache.spark.sql.catalyst.expressions, "EliminatePipeOperators$"),
            *([(optimizer, "ConstantFolding$")] if folded else []),
            (optimizer, "BooleanSimplification$"),
            (optimizer, "RemoveNoopOperators$"),
            (optimizer, "CollapseProject$"),
        ):
            plan = getattr(getattr(package, rule), "MODULE$").apply(plan)
        return with_comparable_rows(plan, jvm)

    @cached_property
    def _inline_ctes(self) -> Any:
        """Spark's rule that puts CTEs in place, always; its other flags vary with the release."""
        jvm: Any = self.spark._jvm
        gateway: Any = self.spark.sparkContext._gateway
        name = "org.apache.spark.sql.catalyst.optimizer.InlineCTE"
        constructor = jvm.java.lang.Class.forName(name).getConstructors()[0]
        flags = gateway.new_array(jvm.java.lang.Object, constructor.getParameterCount())
        for i in range(len(flags)):
            flags[i] = i == 0
        return constructor.newInstance(flags)

    # Values

    def start_anew(self) -> None:
        self._functions.forget()

    def check_functions(self) -> None:
        if self._calls:
            with self._as_created():
                self._functions.check(self._calls)

    def run(self, query: str) -> pa.Table:
        with self._as_created():
            return computed(self.spark.sql(query))

    def constants(self, expressions: Sequence[exp.Expr]) -> list[pa.Scalar] | None:
        try:
            with unlogged():
                row = self.run("SELECT " + ", ".join(print_sql(e) for e in expressions))
        except PySparkException:
            return None
        return [single(column)[0] for column in row.columns]

    def query_rows(
        self, query: str, relations: Mapping[str, tuple[Schema, pa.Table]], schema: pa.Schema
    ) -> pa.Table:
        self._register([query])
        return self._rows_of(
            query, {n: self._frame(*typed) for n, typed in relations.items()}, schema
        )

    def recompute(
        self, query: str, relations: Mapping[str, tuple[Schema, pa.Table]], schema: pa.Schema
    ) -> pa.Table:
        frames = {
            name: named(self._frame(columns, rows), columns_for(columns))
            for name, (columns, rows) in relations.items()
        }
        return self._rows_of(query, frames, schema)

    def _rows_of(self, query: str, frames: Mapping[str, DataFrame], schema: pa.Schema) -> pa.Table:
        with self._as_created(), self._named(frames):
            result = computed(self.spark.sql(query))
        pairs = zip(result.columns, schema, strict=True)
        columns = [in_type(single(column), field.type) for column, field in pairs]
        return pa.Table.from_arrays(columns, schema=schema)

    def _register(self, texts: Sequence[str]) -> None:
        """Let the session know the key of a collation, which Spark has and gives no name."""
        if any(COLLATION_KEY in text for text in texts):
            register_collation_key(self.spark)

    @contextmanager
    def _named(self, frames: Mapping[str, DataFrame]) -> Iterator[None]:
        """The session with frames that a query may read by name."""
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        try:
            yield
        finally:
            for name in frames:
                self.spark.catalog.dropTempView(name)

    def _frame(self, schema: Schema, rows: pa.Table) -> DataFrame:
        """Rows for Spark; not too many in one partition, where a query needs no shuffle."""
        frame = self._offered(schema, rows)
        return frame.coalesce(1) if rows.num_rows <= _ONE_PARTITION else frame

    def _offered(self, schema: Schema, rows: pa.Table) -> DataFrame:
        fields = [T.StructField(f.name, as_string(f.type)) for f in schema]
        kinds = T.StructType(fields).toNullable()
        return offered(self.spark, rows.select(kinds.names), kinds)

    def evaluate(
        self,
        expressions: Sequence[exp.Expr],
        types: Sequence[T.DataType],
        schema: Schema,
        rows: pa.Table,
    ) -> list[pa.Array]:
        if rows.num_rows == 0:
            return [pa.array([], arrow_type(t)) for t in types]
        index = "__incr_row"
        numbered = rows.append_column(index, pa.array(range(rows.num_rows), pa.int64()))
        # What Spark's own functions make of a few rows is known when it is planned, without a job.
        framed = self._frame if self._calls or rows.num_rows > FEW_ROWS else self._offered
        frame = framed((*schema, Field(index, T.LongType())), numbered)
        texts = [f"{print_sql(e)} AS __incr_c{i}" for i, e in enumerate(expressions)]
        self._register(texts)
        with self._as_created():
            result = computed(frame.selectExpr(*texts, index)).sort_by(index)
        return [in_type(single(result.column(i)), arrow_type(t)) for i, t in enumerate(types)]


def _struct(schema: Schema) -> T.StructType:
    return T.StructType([T.StructField(f.name, f.type) for f in schema])


def _fields(text: str) -> Schema:
    """The columns of a struct that is written as JSON."""
    known = _known(text)
    assert isinstance(known, T.StructType)
    return tuple(Field(f.name, f.dataType) for f in known.fields)


def _columns_text(schema: Schema) -> str:
    return ", ".join(f"{quoted(f.name)} {type_text(f.type)}" for f in schema)


def _from_memory(text: str) -> T.DataType | None:
    return _known(text) if text else None


def _known(text: str) -> T.DataType:
    return read_type(json.loads(text))
