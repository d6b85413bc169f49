"""Relations as tables of Spark's session catalog: what servers show to all their sessions.

The catalog has a name, the columns and a comment, so that SHOW TABLES, DESCRIBE and the metadata
calls of BI tools find a relation. Its rows are given per session: Spark keeps, in each session, the
plan that stands for a table once it has been resolved, and `attach` puts there the plan over the
last version. Should Spark ever ask the catalog itself for rows, it finds a file that is no
Parquet, and fails: no reader is given old rows or none without being told.

Rows are a projection over the relation, which Spark refuses to insert into.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyspark.sql.types as T
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_incr.errors import error
from spark_incr.plan.scope import folded
from spark_incr.sql.names import name_parts, quote, without_default

_CATALOG = "spark_catalog"
_GUARD = "This file stands for rows that are read by way of spark_incr.\n"
_CATALOGUED = {
    *(T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType),
    *(T.DoubleType, T.DecimalType, T.StringType, T.BinaryType, T.DateType, T.TimestampType),
}
_USABLE = re.compile(r"[A-Za-z0-9_]+")


class CatalogTables:
    """A shelf in the catalog that all sessions of an application share."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._guard = directory.absolute() / "read-by-spark_incr"
        self._plans: dict[str, Any] = {}
        self._announced: set[str] = set()
        directory.mkdir(parents=True, exist_ok=True)
        self._guard.write_text(_GUARD, encoding="utf-8")

    def admit(self, name: str) -> str:
        """The name under which a relation that is to be created is kept."""
        name = without_default(name)
        *schema, table = name_parts(name)
        if len(schema) > 1 or not all(_USABLE.fullmatch(part) for part in (*schema, table)):
            what = "Spark's catalog takes schema.table, of letters, digits and underscores"
            raise error("INCR_NAME_UNUSABLE", name=name, what=what)
        if schema and not self._spark.catalog.databaseExists(schema[0]):
            raise error(
                "INCR_NAME_UNUSABLE",
                name=name,
                what=f"there is no schema {schema[0]}",
                hint="CREATE SCHEMA makes one.",
            )
        if folded(name) not in self._announced and self._spark.catalog.tableExists(_sql_name(name)):
            detail = "It is a table or a view of Spark's own."
            hint = "Use another name, or drop it first."
            raise error("INCR_RELATION_EXISTS", name=name, detail=detail, hint=hint)
        return name

    def announce(self, name: str, schema: T.StructType, comment: str, kind: str) -> None:
        if not all(_USABLE.fullmatch(part) for part in name_parts(name)):
            return  # made by another door; Spark's catalog cannot hold it
        *database, _ = name_parts(name)
        for part in database:
            self._run(f"CREATE DATABASE IF NOT EXISTS {quote(part)}")
        self._run(f"DROP TABLE IF EXISTS {_sql_name(name)}")
        try:
            self._enter(name, schema, comment, kind)
        except PySparkException:
            # A type that the catalog refuses is entered as text; what is read has its own type.
            self._enter(name, _plain(schema), comment, kind)
        self._announced.add(folded(name))

    def _enter(self, name: str, schema: T.StructType, comment: str, kind: str) -> None:
        self._spark.catalog.createTable(
            _sql_name(name),
            source="parquet",
            schema=schema,
            description=comment,
            path=f"file:{self._guard}",
            incremental=kind,
        )

    def show(self, name: str, frame: DataFrame) -> None:
        plan: Any = frame.select("*")._jdf.queryExecution().analyzed()
        self._plans[folded(name)] = plan

    def remove(self, name: str) -> None:
        self._plans.pop(folded(name), None)
        if folded(name) in self._announced:
            self._announced.discard(folded(name))
            self._run(f"DROP TABLE IF EXISTS {_sql_name(name)}")

    def attach(self, session: Any, names: Iterable[str]) -> None:
        """Let a session of the JVM read these relations as they are shown."""
        jvm: Any = self._spark._jvm
        catalog = session.sessionState().catalog()
        for name in names:
            plan = self._plans.get(folded(name))
            if plan is not None:
                database, table = _database_and_table(name)
                place = jvm.org.apache.spark.sql.catalyst.QualifiedTableName(
                    _CATALOG, database, table
                )
                catalog.cacheTable(place, plan)

    def _run(self, text: str) -> None:
        """Run a statement past the injected parser, which keeps such statements from users."""
        jvm: Any = self._spark._jvm
        plan = jvm.org.apache.spark.sql.execution.SparkSqlParser().parsePlan(text)
        jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark._jsparkSession, plan)


def _database_and_table(name: str) -> tuple[str, str]:
    *database, table = name_parts(name.lower())
    return (database[0] if database else "default"), table


def _sql_name(name: str) -> str:
    return ".".join(f"`{part}`" for part in (_CATALOG, *_database_and_table(name)))


def _plain(schema: T.StructType) -> T.StructType:
    return T.StructType(
        [
            T.StructField(f.name, f.dataType if type(f.dataType) in _CATALOGUED else T.StringType())
            for f in schema.fields
        ]
    )
