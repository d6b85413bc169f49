"""Relations as temporary views of one session: what `spark_incr.enable` gives a session.

Nothing of a session that others share is touched, so that two engines may work in one Spark
application. Temporary views have no schema: *shop.orders* is read as `` `shop.orders` ``.
"""

from __future__ import annotations

import weakref
from typing import Any

import pyspark.sql.functions as F
import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession

from spark_incr.errors import IncrementalError, error
from spark_incr.plan.scope import folded
from spark_incr.sql.dialect import quoted
from spark_incr.sql.names import name_parts

# They stay when an engine leaves a session: other views may be defined over them.
_own: weakref.WeakKeyDictionary[SparkSession, set[str]] = weakref.WeakKeyDictionary()


class TempViews:
    """A shelf in the session's own catalog."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._own = _own.setdefault(spark, set())
        self._unshown: dict[str, T.StructType] = {}

    def admit(self, name: str) -> str:
        """The name under which a relation that is to be created is kept."""
        if len(name_parts(name)) > 1:
            raise no_schema(name, "Use a plain name")
        session: Any = self._spark._jsparkSession
        if folded(name) not in self._own and session.catalog().tableExists(_quoted(name)):
            hint = "It is a view or a table of Spark's: drop it, or choose another name."
            raise error("INCR_RELATION_EXISTS", name=name, hint=hint)
        return name

    def announce(self, name: str, schema: T.StructType, comment: str, kind: str) -> None:
        self._own.add(folded(name))
        self._unshown[name] = schema

    def list_all(self) -> None:
        """Have a view for each relation, also for those that nobody has read yet."""
        for name, schema in list(self._unshown.items()):
            # Spark leaves out columns that a query does not need and filters that exclude each
            # other, so the error is in both.
            unread = F.raise_error(F.lit(f"{name} was read past the session"))
            columns = [unread.cast(f.dataType).alias(f.name) for f in schema.fields]
            frame = self._spark.range(1).where(unread.cast("boolean")).select(*columns)
            self.show(name, frame)

    def show(self, name: str, frame: DataFrame) -> None:
        self._unshown.pop(name, None)
        # The JVM's own call: Python's is refused under the names of relations.
        frame._jdf.createOrReplaceTempView(_quoted(name))

    def remove(self, name: str) -> None:
        self._own.discard(folded(name))
        self._unshown.pop(name, None)
        # The JVM's own call, for the same reason.
        session: Any = self._spark._jsparkSession
        session.catalog().dropTempView(_identifier(name))


def no_schema(name: str, instead: str) -> IncrementalError:
    """The refusal of a name with a schema, and what is to be written instead of it."""
    return error(
        "INCR_NAME_UNUSABLE",
        name=name,
        what="the session keeps relations as temporary views, which have no schema",
        hint=f"{instead}, or use `spark-incr serve`, where schemas are known.",
    )


def _identifier(name: str) -> str:
    return ".".join(name_parts(name))


def _quoted(name: str) -> str:
    return quoted(_identifier(name))
