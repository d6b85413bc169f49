"""A parser for Spark, in Python, through which every session of an application hears us.

Each JDBC or Connect connection is a session of its own, where nothing of Python is known but the
parser that was injected before the first session was made. Law: nothing happens while a text is
parsed, for Spark may parse it more than once; a statement that changes something becomes a command
that Spark runs once. Statements that only look become the rows that they show.

Every other text goes to Spark's parser, after the relations that it may read have been brought up
to date for the session that asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from pyspark.errors.exceptions.captured import CapturedException
from pyspark.java_gateway import ensure_callback_server_started

from spark_incr.serve.java_errors import java_error, spark_error

_STATEMENTS = ("parsePlan", "parsePlanWithParameters", "parseQuery")
_NAMES = ("parseMultipartIdentifier", "parseTableIdentifier")


class Listener(Protocol):
    """What stands behind the parser; `session` is a SparkSession of the JVM."""

    def plan(self, session: Any, text: str) -> tuple[str, Any] | None:
        """What becomes of a text of ours: ("rows", a plan) or ("command", None)."""

    def run(self, session: Any, text: str) -> list[str]:
        """Carry out a statement that changes something."""

    def prepare(self, session: Any, text: str) -> str:
        """Bring what a text may read up to date; the text, in words that Spark knows."""

    def check_name(self, session: Any, name: str) -> None:
        """Refuse a name under which Spark is about to write."""


def inject_parser(gateway: Any, listener: Callable[[], Listener | None]) -> Any:
    """A builder of sessions whose parser hears our statements.

    The listener may come later than the first session, which it is made with.
    """
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    # What a call raises in the JVM is then the exception itself, not the text of a trace.
    gateway.python_parameters.propagate_java_exceptions = True
    builder = gateway.jvm.org.apache.spark.sql.classic.SparkSession.builder()
    return builder.withExtensions(_Extensions(gateway, listener))


class _Proxy:
    """What lands in plans of Spark has to be comparable and printable."""

    def equals(self, other: object) -> bool:
        return self is other

    def hashCode(self) -> int:  # noqa: N802, Java's name
        return id(self) & 0x7FFFFFFF

    def toString(self) -> str:  # noqa: N802, Java's name
        return type(self).__name__


class _Extensions(_Proxy):
    class Java:
        implements: ClassVar = ["scala.Function1"]

    def __init__(self, gateway: Any, listener: Callable[[], Listener | None]) -> None:
        self._gateway, self._listener = gateway, listener

    def apply(self, extensions: Any) -> None:
        extensions.injectParser(_Builder(self._gateway, self._listener))


class _Builder(_Proxy):
    class Java:
        implements: ClassVar = ["scala.Function2"]

    def __init__(self, gateway: Any, listener: Callable[[], Listener | None]) -> None:
        self._gateway, self._listener = gateway, listener

    def apply(self, session: Any, delegate: Any) -> _Parser:
        return _Parser(self._gateway, self._listener, session, delegate)


class _Parser(_Proxy):
    class Java:
        implements: ClassVar = ["org.apache.spark.sql.catalyst.parser.ParserInterface"]

    def __init__(
        self,
        gateway: Any,
        listener: Callable[[], Listener | None],
        session: Any,
        delegate: Any,
    ) -> None:
        self._gateway, self._listener = gateway, listener
        self._session, self._delegate = session, delegate

    def parsePlan(self, text: str) -> Any:  # noqa: N802, Spark's name
        return self._plan(text) or self._prepared("parsePlan", text)

    def parsePlanWithParameters(self, text: str, parameters: Any) -> Any:  # noqa: N802
        whole = text if parameters.params().isEmpty() else self._with_values(text, parameters)
        return self._plan(whole) or self._prepared("parsePlanWithParameters", text, parameters)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*values: Any) -> Any:
            return self._prepared(name, *values)

        return call

    def _with_values(self, text: str, parameters: Any) -> str:
        """A text with literals in the place of its parameters, as Spark writes them."""
        handler = self._gateway.jvm.org.apache.spark.sql.catalyst.parser.ParameterHandler
        try:
            return str(handler.substituteParameters(text, parameters)._1())
        except CapturedException as failure:
            raise java_error(self._gateway, failure) from failure

    def _plan(self, text: str) -> Any:
        """The plan of a statement that is ours, None for any other."""
        listener = self._listener()
        if listener is None:
            return None
        try:
            heard = listener.plan(self._session, text)
            if heard is None:
                return None
            kind, plan = heard
            return plan if kind == "rows" else self._command(listener, text)
        except Exception as failure:
            raise java_error(self._gateway, failure) from failure

    def _command(self, listener: Listener, text: str) -> Any:
        jvm = self._gateway.jvm
        nothing = getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
        runner = _Runner(self._gateway, listener, self._session)
        command = jvm.org.apache.spark.sql.execution.command.ExternalCommandExecutor
        return command(runner, text, nothing)

    def _prepared(self, method: str, *values: Any) -> Any:
        """Spark's own parser on a text, with what the text reads brought up to date."""
        listener = self._listener()
        try:
            if listener is not None and values and isinstance(values[0], str):
                if method in _NAMES:
                    listener.check_name(self._session, values[0])
                prepared = listener.prepare(self._session, values[0])
                if method in _STATEMENTS:
                    values = (prepared, *values[1:])
        except Exception as failure:
            raise java_error(self._gateway, failure) from failure
        try:
            return getattr(self._delegate, method)(*values)
        except CapturedException as failure:
            raise spark_error(failure) from failure


class _Runner(_Proxy):
    class Java:
        implements: ClassVar = ["org.apache.spark.sql.connector.ExternalCommandRunner"]

    def __init__(self, gateway: Any, listener: Listener, session: Any) -> None:
        self._gateway, self._listener, self._session = gateway, listener, session

    def executeCommand(self, text: str, options: Any) -> Any:  # noqa: N802, Spark's name
        try:
            lines = self._listener.run(self._session, text)
        except Exception as failure:
            raise java_error(self._gateway, failure) from failure
        result = self._gateway.new_array(self._gateway.jvm.java.lang.String, len(lines))
        for place, line in enumerate(lines):
            result[place] = line
        return result
