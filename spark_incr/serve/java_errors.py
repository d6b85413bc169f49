"""Python's failures as exceptions of Spark, for calls that come from the JVM.

What a client sees is the condition and its text, at every door the same. Stack traces stay in the
log: an exception made here has none.
"""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from spark_incr.errors import IncrementalError, error

_log = logging.getLogger(__name__)


def java_error(gateway: Any, failure: Exception) -> Py4JJavaError:
    """What to raise in a call from the JVM, so that Spark throws the same condition."""
    if isinstance(failure, Py4JJavaError):
        return failure
    if isinstance(failure, PySparkException):
        return _thrown(gateway, _text(failure), failure.getCondition(), failure.getSqlState())
    if not isinstance(failure, IncrementalError):
        _log.error("a call from the JVM failed", exc_info=failure)
        failure = error("INCR_INTERNAL", what=f"{type(failure).__name__}: {failure}")
    return _thrown(gateway, str(failure), failure.condition, failure.sqlstate)


def spark_error(failure: CapturedException) -> Py4JJavaError:
    """Spark's own exception again, where the interface that is called allows it."""
    return Py4JJavaError("Spark's parser refuses the text", failure._origin)


def _text(failure: PySparkException) -> str:
    message = failure.getMessage() if not isinstance(failure, CapturedException) else failure._desc
    return str(message)


def _thrown(
    gateway: Any, message: str, condition: str | None, sqlstate: str | None
) -> Py4JJavaError:
    """A SparkRuntimeException with a text of its own: its constructor for that is not public."""
    jvm = gateway.jvm
    none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    nothing = getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
    contexts = gateway.new_array(jvm.org.apache.spark.QueryContext, 0)
    runtime = jvm.java.lang.Class.forName("org.apache.spark.SparkRuntimeException")
    (constructor,) = (
        c
        for c in runtime.getDeclaredConstructors()
        if [t.getSimpleName() for t in c.getParameterTypes()][:3] == ["String", "Option", "Option"]
    )
    constructor.setAccessible(True)
    option = jvm.scala.Option.apply
    given = [message, none, option(condition), nothing, contexts, option(sqlstate)]
    given = given[: constructor.getParameterCount()]  # not every release takes a SQLSTATE
    values = gateway.new_array(jvm.java.lang.Object, len(given))
    for place, value in enumerate(given):
        values[place] = value
    thrown = constructor.newInstance(values)
    thrown.setStackTrace(gateway.new_array(jvm.java.lang.StackTraceElement, 0))
    return Py4JJavaError("the statement fails", thrown)
