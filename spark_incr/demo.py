"""A small shop whose views are maintained batch by batch and compared with recompute.

After every batch each view must equal its query, run from scratch by Spark over tables of its own
that know nothing of the engine; the table that is printed says so, with both times.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession

import spark_incr
from spark_incr.text_table import arrow_rows, text_table

TABLES = {
    "orders": "id BIGINT, customer BIGINT, product STRING, amount DECIMAL(10,2), PRIMARY KEY (id)",
    "customers": "id BIGINT, country STRING, PRIMARY KEY (id)",
}
# A query names what it reads in braces, so that the same text can be run over other tables.
VIEWS = {
    "revenue": "SELECT customer, count(*) AS n, sum(amount) AS total, avg(amount) AS mean "
    "FROM {orders} GROUP BY customer",
    "by_country": "SELECT c.country, count(*) AS n, sum(o.amount) AS total "
    "FROM {orders} o JOIN {customers} c ON o.customer = c.id GROUP BY c.country",
    "products": "SELECT product, max(amount) AS top, min(amount) AS low, "
    "count(DISTINCT customer) AS buyers FROM {orders} GROUP BY product",
    "pairs": "SELECT DISTINCT c.country, o.product "
    "FROM {orders} o JOIN {customers} c ON o.customer = c.id WHERE o.amount > 90",
    "good_customers": "SELECT c.country, count(*) AS customers, max(r.total) AS best "
    "FROM {revenue} r JOIN {customers} c ON r.customer = c.id WHERE r.n > 10 GROUP BY c.country",
}
_HEADER = ["view", "inserted", "deleted", "ours ms", "Spark ms", "equal"]
_COUNTRIES = np.array(["AT", "BR", "CL", "DK", "EE", "FR", "GR", "IN", "JP", "KE"])
_ORDERS = pa.schema(
    {
        "id": pa.int64(),
        "customer": pa.int64(),
        "product": pa.string(),
        "amount": pa.decimal128(10, 2),
    }
)
_CUSTOMERS = pa.schema({"id": pa.int64(), "country": pa.string()})

Changes = dict[str, dict[str, pa.Table]]


@dataclass
class Shop:
    """The tables as they should be, kept beside the engine."""

    orders: pa.Table
    customers: pa.Table
    random: np.random.Generator
    next_order: int

    @staticmethod
    def opened(rows: int) -> Shop:
        random = np.random.default_rng(7)
        count = max(rows // 20, 50)
        customers = pa.table(
            [pa.array(np.arange(count)), pa.array(random.choice(_COUNTRIES, count))],
            schema=_CUSTOMERS,
        )
        shop = Shop(_ORDERS.empty_table(), customers, random, 0)
        shop.orders = shop.new_orders(rows)
        return shop

    def new_orders(self, count: int) -> pa.Table:
        ids = np.arange(self.next_order, self.next_order + count)
        self.next_order += count
        return self.orders_of(ids, self.random.integers(0, self.customers.num_rows, count))

    def orders_of(self, ids: NDArray[np.int64], customers: NDArray[np.int64]) -> pa.Table:
        products = [f"product {number}" for number in self.random.integers(0, 200, len(ids))]
        amounts = [Decimal(int(cents)) / 100 for cents in self.random.integers(1, 10_000, len(ids))]
        return pa.table(
            [
                pa.array(ids),
                pa.array(customers),
                pa.array(products),
                pa.array(amounts, pa.decimal128(10, 2)),
            ],
            schema=_ORDERS,
        )

    def batches(self, size: int) -> Iterator[tuple[str, Changes]]:
        """What happens in the shop; the tables have changed when a batch is handed out."""
        new = self.new_orders(size)
        self.orders = pa.concat_tables([self.orders, new])
        yield f"{size} orders arrive", {"orders": {"insert": new}}

        old, rest = self._drawn(self.orders, size)
        changed = self.orders_of(old["id"].to_numpy(), old["customer"].to_numpy())
        self.orders = pa.concat_tables([rest, changed])
        yield f"{size} orders are changed", {"orders": {"delete": old, "insert": changed}}

        old, self.orders = self._drawn(self.orders, size)
        yield f"{size} orders are cancelled", {"orders": {"delete": old}}

        movers = max(size // 20, 1)
        old, rest = self._drawn(self.customers, movers)
        moved = pa.table(
            [old["id"], pa.array(self.random.choice(_COUNTRIES, movers))], schema=_CUSTOMERS
        )
        self.customers = pa.concat_tables([rest, moved])
        new = self.new_orders(size)
        self.orders = pa.concat_tables([self.orders, new])
        yield (
            f"{movers} customers move, {size} orders arrive",
            {"customers": {"delete": old, "insert": moved}, "orders": {"insert": new}},
        )

    def _drawn(self, table: pa.Table, count: int) -> tuple[pa.Table, pa.Table]:
        """Some rows of a table, and the others."""
        chosen = np.zeros(table.num_rows, bool)
        chosen[self.random.choice(table.num_rows, count, replace=False)] = True
        return table.filter(pa.array(chosen)), table.filter(pa.array(~chosen))


def run_demo(spark: SparkSession, rows: int) -> bool:
    """Load the shop, create its views, run the batches; whether every view was always right."""
    engine = spark_incr.engine(spark)
    shop = Shop.opened(rows)
    for name, columns in TABLES.items():
        spark.sql(f"CREATE INCREMENTAL TABLE {name} ({columns})")
    engine.commit({"orders": {"insert": shop.orders}, "customers": {"insert": shop.customers}})
    for name, query in VIEWS.items():
        began = time.perf_counter()
        text = query.format_map({name: name for name in [*TABLES, *VIEWS]})
        print(f"CREATE INCREMENTAL VIEW {name} AS\n  {text}", flush=True)
        spark.sql(f"CREATE INCREMENTAL VIEW {name} AS {text}")
        print(
            f"  -- filled from {rows} orders in {time.perf_counter() - began:.1f} s\n", flush=True
        )

    right = True
    recompute(spark, shop)
    for title, changes in shop.batches(max(rows // 100, 1)):
        commit = engine.commit(changes)
        expected = recompute(spark, shop)
        lines: list[list[object]] = []
        for name in VIEWS:
            equal = bag(engine.view(name).to_arrow()) == bag(expected[name].rows)
            right = right and equal
            change = commit.views[name]
            lines.append(
                [
                    name,
                    change.inserted,
                    change.deleted,
                    round(change.milliseconds, 1),
                    round(expected[name].milliseconds, 1),
                    "yes" if equal else "NO",
                ]
            )
        total = sum(found.milliseconds for found in expected.values())
        ours = commit.milliseconds
        lines.append(["all, durable", "", "", round(ours, 1), round(total, 1), ""])
        print(f"version {commit.version}: {title}; {total / ours:.0f} times faster than recompute")
        print(text_table(_HEADER, lines), end="\n\n", flush=True)
    print("every view equals recompute" if right else "A VIEW DIFFERS FROM RECOMPUTE")
    return right


@dataclass(frozen=True)
class Recomputed:
    rows: pa.Table
    milliseconds: float


def recompute(spark: SparkSession, shop: Shop) -> dict[str, Recomputed]:
    """Every view's query by Spark alone, over cached plain tables that it was not shown before."""
    frames = {"orders": shop.orders, "customers": shop.customers}
    for name, rows in frames.items():
        frame = spark.createDataFrame(rows).cache()
        frame.count()
        frame.createOrReplaceTempView(f"plain_{name}")
    names = {name: f"plain_{name}" for name in frames}
    found = {}
    for name, query in VIEWS.items():
        text = query.format_map(names)
        began = time.perf_counter()
        rows = spark.sql(text).toArrow()
        found[name] = Recomputed(rows, (time.perf_counter() - began) * 1e3)
        names[name] = f"({text})"
    for name in frames:
        spark.catalog.uncacheTable(f"plain_{name}")
        spark.catalog.dropTempView(f"plain_{name}")
    return found


def bag(table: pa.Table) -> Counter[tuple[object, ...]]:
    """The rows of a table with the number of times each occurs."""
    return Counter(arrow_rows(table))
