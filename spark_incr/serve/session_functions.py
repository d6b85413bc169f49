"""Functions that users register: what a plan must know of one, and whether it is still the same.

A batch is evaluated alone. Were a function another one than that which the rows before went
through, the view would be what neither of them gives; so the change of a function is an error until
the view is computed anew. A function that is registered again as it was is no change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.util import PythonEvalType

from spark_incr.errors import error
from spark_incr.plan.collations import COLLATION_KEY
from spark_incr.plan.context import SessionFunction
from spark_incr.serve.questions import unlogged
from spark_incr.serve.spark_plans import expressions, items
from spark_incr.sql.dialect import quoted

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"

Call = tuple[str, int]
"""The name of a function and the number of its arguments."""


def register_collation_key(spark: SparkSession) -> None:
    """Name an expression of Spark's in a session, if it has no name there."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    registry = session.sessionState().functionRegistry()
    if session.catalog().functionExists(COLLATION_KEY):
        return
    kind = jvm.java.lang.Class.forName(f"{_EXPRESSIONS}.CollationKey")
    tag = _module(jvm.scala.reflect, "ClassTag").apply(kind)
    registries = _module(jvm.org.apache.spark.sql.catalyst.analysis, "FunctionRegistryBase")
    made = registries.build(COLLATION_KEY, _module(jvm.scala, "None"), tag)
    registry.createOrReplaceTempFunction(COLLATION_KEY, made._2(), "built-in")


def _module(package: Any, name: str) -> Any:
    """An object of Scala."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


class SessionFunctions:
    """The functions of one session, as one view has met them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._met: dict[Call, str] = {}
        self._registered: dict[Call, Any] = {}

    @cached_property
    def _names(self) -> frozenset[str]:
        rows = self._spark.sql("SHOW USER FUNCTIONS").collect()
        return frozenset(str(row[0]).split(".")[-1].lower() for row in rows)

    def find(self, call: Call) -> SessionFunction | None:
        """What a call means if it is of a user's function."""
        if call[0] not in self._names:
            return None
        plan, aggregates = self._plan(call)
        if plan is None:
            return None
        leaves = [leaf.nodeName() for leaf in items(plan.collectLeaves())]
        reads = leaves != ["OneRowRelation"] or not plan.subqueriesAll().isEmpty()
        body, inputs, returns, gives_rows = self._written(call[0], reads)
        deterministic = bool(plan.deterministic())
        in_batches = any(
            "PythonUDTF" in e.getClass().getSimpleName()
            and e.evalType() == PythonEvalType.SQL_ARROW_UDTF
            for e in expressions(plan)
        )
        return SessionFunction(
            aggregates, deterministic, body, inputs, returns, gives_rows, in_batches
        )

    def check(self, calls: Mapping[Call, SessionFunction]) -> None:
        """Refuse to go on with a function that is not the one that was met first.

        One that has not been registered again since is the same. The query of a function of SQL may
        be part of the plan, which stays as it is.
        """
        for call, known in calls.items():
            registered = self._registration(call[0])
            if call in self._registered and registered.equals(self._registered[call]):
                continue
            if known.returns:
                if self.find(call) != known:
                    hint = "CREATE OR REPLACE INCREMENTAL VIEW takes the function as it is now."
                    raise error("INCR_FUNCTION_CHANGED", name=call[0], hint=hint)
            else:
                content = self._content(call)
                if self._met.setdefault(call, content) != content:
                    raise error("INCR_FUNCTION_CHANGED", name=call[0])
            if registered is not None:
                self._registered[call] = registered

    def forget(self) -> None:
        """Let all be computed anew, with the functions as they are now."""
        self._met.clear()
        self._registered.clear()

    def _registration(self, name: str) -> Any:
        """What Spark's catalog holds of a function: another object each time it is registered."""
        catalog: Any = self._spark._jsparkSession.sessionState().catalog()
        return catalog.lookupFunctionInfo(self._identifier(name))

    @cached_property
    def _identifier(self) -> Any:
        jvm: Any = self._spark._jvm
        return jvm.org.apache.spark.sql.catalyst.FunctionIdentifier

    def _plan(self, call: Call) -> tuple[Any, bool]:
        """The plan of a call over nothing, and whether the function aggregates."""
        name, arguments = call
        text = f"{quoted(name)}({', '.join(['NULL'] * arguments)})"
        plan = self._analyzed(f"SELECT {text} AS c")
        if plan is not None:
            return plan, "Aggregate" in plan.nodeName()
        plan = self._analyzed(f"SELECT * FROM {text}") or self._table_function(name)
        if plan is not None:
            return plan, False
        return self._analyzed(f"SELECT {text} OVER () AS c"), True

    def _table_function(self, name: str) -> Any:
        """A call of a table function that is not analysed: `analyze` of Python may refuse NULL."""
        jvm: Any = self._spark._jvm
        catalog: Any = self._spark._jsparkSession.sessionState().catalog()
        nothing = jvm.org.apache.spark.api.python.PythonUtils.toSeq([])
        try:
            found = catalog.resolveBuiltinOrTempTableFunction(name, nothing)
        except (PySparkException, Py4JError):
            return None
        return found.get() if found.isDefined() else None

    def _analyzed(self, text: str) -> Any:
        try:
            with unlogged():
                frame: Any = self._spark.sql(text)
        except PySparkException:
            return None
        return frame._jdf.queryExecution().analyzed()

    def _written(self, name: str, reads: bool) -> tuple[str, str, str, bool]:
        """The text of a function of SQL, its parameters, its columns if the query is to be part of
        the plan, and whether it gives rows."""
        jvm: Any = self._spark._jvm
        state: Any = self._spark._jsparkSession.sessionState()
        catalyst = jvm.org.apache.spark.sql.catalyst
        info = self._registration(name)
        if not str(info.getClassName()).startswith("sqlFunction."):
            return "", "", "", False
        made = catalyst.catalog.SQLFunction.fromExpressionInfo(info, state.sqlParser())
        types = jvm.org.apache.spark.sql.types
        value, inputs, gives_rows = made.exprText(), made.inputParam(), bool(made.isTableFunc())
        body = value.get() if value.isDefined() else made.queryText().get()
        if not (gives_rows or value.isDefined()):
            body = f"({body})"
        parameters = (inputs.get() if inputs.isDefined() else types.StructType()).json()
        if not (gives_rows or reads):
            return body, parameters, "", False
        self._check_settings(name, json.loads(info.getUsage()))
        if gives_rows:
            return body, parameters, made.getTableFuncReturnCols().json(), True
        column = types.StructType().add(name, made.getScalarFuncReturnType())
        return body, parameters, column.json(), False

    def _check_settings(self, name: str, properties: Mapping[str, str]) -> None:
        """Refuse a function whose query means what it meant under other settings."""
        for key, value in properties.items():
            setting = key.removeprefix("sqlConfig.")
            if setting != key and self._spark.conf.get(setting, value) != value:
                what = f"the function {name}, which was created under {setting} = {value},"
                hint = "Create the function anew, or the view under that setting."
                raise error("INCR_UNSUPPORTED", what=what, hint=hint)

    def _content(self, call: Call) -> str:
        """What the function does, as far as it can be told."""
        plan, _ = self._plan(call)
        if plan is None:
            return ""
        made_of = []
        for expression in expressions(plan):
            kind = str(expression.getClass().getSimpleName())
            if "PythonUD" in kind:
                made_of.append(f"{kind} {expression.func().command().hashCode()}")
            elif kind == "ScalaUDF":
                made_of.append(str(expression.function().getClass().getName()))
        return "\n".join(made_of) or str(plan.canonicalized().hashCode())
