"""Table functions of Python, as users write them.

A worker of Spark's imports this module for each of them, at times only to ask for a schema, so it
imports nothing but what they are made of.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyspark.sql.types as T
from pyspark.sql import Row
from pyspark.sql.functions import arrow_udtf, udtf
from pyspark.sql.udtf import (
    AnalyzeArgument,
    AnalyzeResult,
    OrderingColumn,
    PartitioningColumn,
    SkipRestOfInputTableException,
)


class Repeated:
    """n rows of a text."""

    def eval(self, n: int | None, s: str | None = "x") -> Iterator[tuple[int, str | None]]:
        for i in range(n or 0):
            yield i, s


class Summed:
    """How many rows a partition has, and their first column in order.

    Spark breaks down where an instance without rows makes one in the end.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []

    def eval(self, row: Row) -> None:
        self.seen.append(str(row[0]))

    def terminate(self) -> Iterator[tuple[int, str]]:
        if self.seen:
            yield len(self.seen), ",".join(self.seen)


class Running:
    """The sums of ids so far, of those that are not too small."""

    def __init__(self) -> None:
        self.total = 0

    def eval(self, row: Row, least: int = 0) -> Iterator[tuple[int | None, int]]:
        if row["id"] >= least:
            self.total += row["id"]
            yield row["k"], self.total


class Wider:
    """The rows with other names and their numbers; a row of NULLs ends a partition."""

    def __init__(self) -> None:
        self.number, self.width = 0, 0

    @staticmethod
    def analyze(row: AnalyzeArgument) -> AnalyzeResult:
        if not row.isTable:
            raise ValueError("a table is wanted")
        fields = [T.StructField(f"{f.name}_", f.dataType) for f in row.dataType.fields]
        return AnalyzeResult(T.StructType([*fields, T.StructField("number", T.IntegerType())]))

    def eval(self, row: Row) -> Iterator[tuple[object, ...]]:
        self.number, self.width = self.number + 1, len(row)
        yield (*row, 0)

    def terminate(self) -> Iterator[tuple[object, ...]]:
        if self.number:
            yield (*[None] * self.width, self.number)


class Firsts:
    """The first two rows of a partition."""

    def __init__(self) -> None:
        self.count = 0

    def eval(self, row: Row) -> Iterator[tuple[int, str]]:
        self.count += 1
        if self.count > 2:
            raise SkipRestOfInputTableException("enough")
        yield row["id"], row["s"]


class InBatches:
    """The ids of rows, which come in batches."""

    def eval(self, rows: pa.RecordBatch) -> Iterator[pa.Table]:
        yield pa.table({"id": rows.column("id")})


class ByItself(Summed):
    """A function that says itself how it wants its rows."""

    @staticmethod
    def analyze(row: AnalyzeArgument) -> AnalyzeResult:
        wanted = {"partitionBy": [PartitioningColumn("k")], "orderBy": [OrderingColumn("id")]}
        return AnalyzeResult(
            T.StructType().add("n", T.IntegerType()).add("ids", T.StringType()), **wanted
        )


class AtOnce(Summed):
    """A function that wants all rows at once."""

    @staticmethod
    def analyze(row: AnalyzeArgument) -> AnalyzeResult:
        schema = T.StructType().add("n", T.IntegerType()).add("bs", T.StringType())
        return AnalyzeResult(schema, withSinglePartition=True)


OF_TABLES = {
    "summed": udtf(Summed, returnType="n INT, ids STRING"),
    "running": udtf(Running, returnType="k INT, total BIGINT"),
    "wider": udtf(Wider),
    "firsts": udtf(Firsts, returnType="id INT, s STRING"),
    "in_batches": arrow_udtf(InBatches, returnType="id INT"),
    "by_itself": udtf(ByItself),
    "at_once": udtf(AtOnce),
}
