"""50-views: fifty different views on one table of sales, maintained by one commit.

The mix is what dashboards ask of such a table: totals by one key or two, extremes, distinct
counts, HAVING, filters that keep little or much, projections, joins with a small table of stores,
DISTINCT, UNION ALL, aggregates of aggregates. None may need a Spark job.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.workload import Bar, Benchmark, Draw, Input

SALES = (
    "customer INT, product INT, store INT, channel STRING, sold DATE, quantity INT, "
    "price DECIMAL(8,2), returned BOOLEAN"
)
STORES = "store INT, city STRING, country STRING, area INT, PRIMARY KEY (store)"
STORE_COUNT = 200
CHANNELS = ["web", "shop", "phone", "partner", None]
COUNTRIES = ["AT", "BR", "CL", "DK", "EE", "FR", "GR", "IN", "JP", "KE"]
FIRST_DAY = datetime.date(2024, 1, 1)

_JOIN = "FROM sales s JOIN stores t ON s.store = t.store"

QUERIES = (
    # Totals by one key
    "SELECT customer, count(*) AS n FROM sales GROUP BY customer",
    "SELECT customer, sum(quantity) AS items, sum(price) AS paid FROM sales GROUP BY customer",
    "SELECT product, count(*) AS n, avg(quantity) AS mean FROM sales GROUP BY product",
    "SELECT product, sum(quantity * price) AS revenue FROM sales GROUP BY product",
    "SELECT store, count(*) AS n, sum(price) AS paid FROM sales GROUP BY store",
    "SELECT channel, count(*) AS n, sum(quantity) AS items FROM sales GROUP BY channel",
    "SELECT sold, count(*) AS n, sum(price * quantity) AS revenue FROM sales GROUP BY sold",
    "SELECT returned, count(*) AS n, avg(quantity) AS mean FROM sales GROUP BY returned",
    "SELECT count(*) AS n, sum(quantity) AS items, avg(quantity) AS mean FROM sales",
    "SELECT quantity, count(*) AS n FROM sales GROUP BY quantity",
    # By several keys and expressions
    "SELECT store, product, count(*) AS n FROM sales GROUP BY store, product",
    "SELECT store, channel, sum(price) AS paid FROM sales GROUP BY store, channel",
    "SELECT store, sold, count(*) AS n, sum(quantity) AS items FROM sales GROUP BY store, sold",
    "SELECT month(sold) AS m, channel, sum(quantity) AS items FROM sales GROUP BY month(sold), channel",
    "SELECT product % 10 AS line, count(*) AS n FROM sales GROUP BY product % 10",
    "SELECT CASE WHEN quantity > 10 THEN 'bulk' ELSE 'single' END AS kind, count(*) AS n, "
    "sum(price) AS paid FROM sales GROUP BY CASE WHEN quantity > 10 THEN 'bulk' ELSE 'single' END",
    "SELECT coalesce(channel, 'unknown') AS way, count(*) AS n FROM sales "
    "GROUP BY coalesce(channel, 'unknown')",
    # Spread, conditions
    "SELECT store, stddev_samp(quantity) AS spread FROM sales GROUP BY store",
    "SELECT product, var_pop(quantity) AS spread FROM sales GROUP BY product",
    "SELECT store, count(*) FILTER (WHERE returned) AS back, count(*) AS n FROM sales GROUP BY store",
    "SELECT product, sum(quantity) FILTER (WHERE channel = 'web') AS web, "
    "sum(quantity) FILTER (WHERE channel = 'shop') AS shop FROM sales GROUP BY product",
    "SELECT store, bool_or(returned) AS any_back, bool_and(returned) AS all_back "
    "FROM sales GROUP BY store",
    # Extremes and distinct values
    "SELECT customer, min(sold) AS first_day, max(sold) AS last_day FROM sales GROUP BY customer",
    "SELECT product, min(price) AS low, max(price) AS high FROM sales GROUP BY product",
    "SELECT store, max(quantity) AS most FROM sales GROUP BY store",
    "SELECT channel, min(price) AS low, max(price) AS high FROM sales GROUP BY channel",
    "SELECT store, count(DISTINCT customer) AS customers FROM sales GROUP BY store",
    "SELECT sold, count(DISTINCT product) AS products FROM sales GROUP BY sold",
    "SELECT customer, count(DISTINCT store) AS stores FROM sales GROUP BY customer",
    "SELECT product, max(price) AS high, count(DISTINCT customer) AS customers "
    "FROM sales WHERE NOT returned GROUP BY product",
    # HAVING
    "SELECT customer, count(*) AS n FROM sales GROUP BY customer HAVING count(*) > 25",
    "SELECT product, sum(quantity) AS items FROM sales GROUP BY product HAVING sum(quantity) > 5300",
    "SELECT store, product, max(quantity) AS most FROM sales GROUP BY store, product "
    "HAVING max(quantity) < 5",
    # Filters and projections
    "SELECT customer, product, price FROM sales WHERE price > 990",
    "SELECT customer, store, sold FROM sales WHERE returned AND quantity >= 19",
    "SELECT customer, quantity * price AS total FROM sales WHERE channel = 'partner' AND quantity > 15",
    "SELECT product, 'by ' || channel AS way, sold FROM sales WHERE product < 50",
    "SELECT customer, product FROM sales WHERE channel IS NULL AND price BETWEEN 10 AND 30",
    "SELECT store, customer, quantity FROM sales WHERE store IN (3, 14, 159)",
    # DISTINCT, UNION ALL
    "SELECT DISTINCT store, channel FROM sales",
    "SELECT DISTINCT customer FROM sales WHERE returned",
    "SELECT customer, price FROM sales WHERE price < 5 UNION ALL "
    "SELECT customer, price FROM sales WHERE price > 995",
    # Joins with the stores
    f"SELECT t.country, count(*) AS n, sum(s.price) AS paid {_JOIN} GROUP BY t.country",
    f"SELECT t.city, avg(s.quantity) AS mean {_JOIN} GROUP BY t.city",
    f"SELECT t.country, s.product, sum(s.quantity) AS items {_JOIN} GROUP BY t.country, s.product",
    f"SELECT t.country, max(s.price) AS high, count(DISTINCT s.product) AS products {_JOIN} "
    "WHERE s.returned GROUP BY t.country",
    f"SELECT t.city, s.customer, s.price {_JOIN} WHERE t.area > 900 AND s.price > 900",
    f"SELECT t.country, sum(s.price) AS paid {_JOIN} WHERE s.quantity > t.area / 100 GROUP BY t.country",
    # Aggregates of aggregates
    "SELECT n, count(*) AS customers FROM "
    "(SELECT customer, count(*) AS n FROM sales GROUP BY customer) AS c GROUP BY n",
    "SELECT max(paid) AS best, min(paid) AS worst FROM "
    "(SELECT store, sum(price) AS paid FROM sales GROUP BY store) AS p",
)
assert len(set(QUERIES)) == 50


def sales(customers: int, products: int) -> Draw:
    def draw(random: np.random.Generator, count: int) -> pa.Table:
        cents = pa.array(random.integers(100, 100_000, count)).cast(pa.decimal128(19, 0))
        prices = pc.multiply(cents, pa.scalar(Decimal("0.01"), pa.decimal128(3, 2)))
        days = np.datetime64(FIRST_DAY) + random.integers(0, 365, count)
        channels = pa.array(CHANNELS).take(pa.array(random.integers(0, len(CHANNELS), count)))
        return pa.table(
            {
                "customer": random.integers(0, customers, count, dtype=np.int32),
                "product": random.integers(0, products, count, dtype=np.int32),
                "store": random.integers(0, STORE_COUNT, count, dtype=np.int32),
                "channel": channels,
                "sold": pa.array(days.astype("datetime64[D]")),
                "quantity": random.integers(1, 21, count, dtype=np.int32),
                "price": prices.cast(pa.decimal128(8, 2)),
                "returned": pa.array(random.random(count) < 0.05),
            }
        )

    return draw


def stores(random: np.random.Generator, count: int) -> pa.Table:
    names = [f"city {number}" for number in random.integers(0, count // 2, count)]
    return pa.table(
        {
            "store": np.arange(count, dtype=np.int32),
            "city": pa.array(names),
            "country": pa.array(COUNTRIES).take(pa.array(random.integers(0, 10, count))),
            "area": random.integers(50, 1_000, count, dtype=np.int32),
        }
    )


def benchmarks(divisor: int = 1) -> tuple[Benchmark, ...]:
    draw = sales(max(50_000 // divisor, 10), max(2_000 // divisor, 10))
    batch = 5_000 // divisor
    inputs = {
        "sales": Input(SALES, draw, 1_000_000 // divisor, batch, batch),
        "stores": Input(STORES, stores, STORE_COUNT),
    }
    views = {f"v{number:02d}": query for number, query in enumerate(QUERIES, 1)}
    return (Benchmark("50-views", inputs, views, (Bar("Spark", 20),)),)
