"""`spark.catalog` of a session that knows incremental relations: calls see what statements see.

What statements may not do to a relation, calls may not do either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog

_BY_NAME = ("cacheTable", "getTable", "isCached", "listColumns", "refreshTable", "tableExists")


class CatalogCalls(Catalog):
    """Spark's catalog; before a call, all relations are listed or the named one is current."""

    def __init__(
        self,
        spark: SparkSession,
        list_all: Callable[[], None],
        read: Callable[[str], None],
        require_droppable: Callable[[str], None],
    ) -> None:
        super().__init__(spark)
        self._list_all, self._read, self._require_droppable = list_all, read, require_droppable

    def listTables(self, *values: Any, **named: Any) -> Any:  # noqa: N802, Spark's name
        self._list_all()
        return super().listTables(*values, **named)

    def dropTempView(self, viewName: str) -> bool:  # noqa: N802, N803, Spark's names
        self._require_droppable(viewName)
        return super().dropTempView(viewName)

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name not in _BY_NAME:
            return value

        def call(tableName: str, *values: Any, **named: Any) -> Any:  # noqa: N803, Spark's name
            self._read(tableName)
            return value(tableName, *values, **named)

        return call
