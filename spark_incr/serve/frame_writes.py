"""Frames that are written, or registered, under the name of an incremental relation.

Law: they are refused before anything happens. Left alone, Spark would put a table or a view of its
own in the relation's place, report success, and the rows would be lost to the engine.

Python's own calls are refused as they are made (`guard_frames`). In a server, Spark asks the
injected parser for the parts of a name, whether it reads or writes it: which of both is known by
who asks, and so by the stack of the call (`writing_call`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrameWriter, SparkSession
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_incr.errors import IncrementalError
from spark_incr.relation import Relation
from spark_incr.serve.hearing import not_applicable

_REGISTER = "a temporary view of that name"
# What Spark's classes do with a name, in the words of who called them.
_CALLS = {
    "org.apache.spark.sql.classic.DataFrameWriter.saveAsTable": "df.write.saveAsTable",
    "org.apache.spark.sql.classic.DataFrameWriter.insertInto": "df.write.insertInto",
    "org.apache.spark.sql.classic.DataFrameWriterV2.<init>": "df.writeTo",
    "org.apache.spark.sql.classic.MergeIntoWriter.<init>": "df.mergeInto",
    "org.apache.spark.sql.classic.DataStreamWriter.toTable": "df.writeStream.toTable",
    "SparkConnectPlanner.transformCreateViewCommand": _REGISTER,
}
_GUARDED = (
    (DataFrameWriter, "saveAsTable", "df.write.saveAsTable"),
    (DataFrameWriter, "insertInto", "df.write.insertInto"),
    (DataStreamWriter, "toTable", "df.writeStream.toTable"),
    (DataFrame, "writeTo", "df.writeTo"),
    (DataFrame, "mergeInto", "df.mergeInto"),
    (DataFrame, "createTempView", _REGISTER),
    (DataFrame, "createOrReplaceTempView", _REGISTER),
)

Find = Callable[[SparkSession, str], Relation | None]


def refusal(relation: Relation, call: str) -> IncrementalError:
    """Why a call does not write to a relation, and what does."""
    if call == _REGISTER:
        return not_applicable(relation, call, "Give the view another name.")
    if relation.kind != "table":
        return not_applicable(relation, call)
    name = relation.name
    return not_applicable(
        relation,
        call,
        f"After df.createOrReplaceTempView('rows'), INSERT INTO {name} SELECT * FROM rows adds the "
        "rows; INSERT OVERWRITE puts them in place of all that are there.",
    )


def writing_call(jvm: Any) -> str | None:
    """The call of a user that the current thread of the JVM is in, if it writes under a name."""
    stack = str(jvm.org.apache.spark.util.Utils.exceptionString(jvm.java.lang.Throwable()))
    return next((call for method, call in _CALLS.items() if method in stack), None)


def guard_frames(find: Find) -> None:
    """Let Python's calls be refused under the names that `find` finds for a session."""
    for owner, method, call in _GUARDED:
        plain = getattr(owner, method)
        if not hasattr(plain, "__wrapped__"):
            setattr(owner, method, _guarded(plain, call, find))


def _guarded(plain: Callable[..., Any], call: str, find: Find) -> Callable[..., Any]:
    @functools.wraps(plain)
    def guarded(written: Any, name: str, *values: Any, **named: Any) -> Any:
        # A frame takes an attribute that it has not for a column, and reads its types.
        frame = vars(written).get("_df", written)
        relation = find(frame.sparkSession, name)
        if relation is not None:
            raise refusal(relation, call)
        return plain(written, name, *values, **named)

    return guarded
