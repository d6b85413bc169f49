"""What may stand in a view and how it is maintained, as a document made from the registries.

`python -m spark_incr.support` prints docs/sql-support.md. The tiers of the constructs are what the
compiler says of the examples; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spark_incr.plan.aggregates import FUNCTIONS, OTHER_AGGREGATES
from spark_incr.plan.functions import UNSTABLE
from spark_incr.plan.generators import NAMES as GENERATORS
from spark_incr.plan.window_functions import FUNCTIONS as WINDOW_FUNCTIONS
from spark_incr.runtime.expressions import KERNELS
from spark_incr.sql import statements

STATEMENTS: dict[type, str] = {
    statements.CreateTable: "CREATE [OR REPLACE] INCREMENTAL TABLE [IF NOT EXISTS] t (columns, [PRIMARY KEY (...)])",
    statements.CreateSource: "CREATE INCREMENTAL SOURCE s [(columns)] USING format OPTIONS (...) [CHANGES ...]",
    statements.CreateView: "CREATE [OR REPLACE] INCREMENTAL VIEW [IF NOT EXISTS] v [(columns)] AS query",
    statements.Drop: "DROP INCREMENTAL {TABLE | VIEW | SOURCE} [IF EXISTS] name [CASCADE]",
    statements.Refresh: "REFRESH INCREMENTAL VIEW v [FULL]",
    statements.AlterView: "ALTER INCREMENTAL VIEW v {SET ... | SUSPEND | RESUME}",
    statements.ShowViews: "SHOW INCREMENTAL VIEWS [LIKE pattern]",
    statements.ShowTables: "SHOW INCREMENTAL TABLES [LIKE pattern]",
    statements.ShowSources: "SHOW INCREMENTAL SOURCES [LIKE pattern]",
    statements.ShowCreate: "SHOW CREATE INCREMENTAL {TABLE | VIEW} name",
    statements.ShowProperties: "SHOW TBLPROPERTIES name [(key)]",
    statements.Describe: "DESCRIBE [EXTENDED] INCREMENTAL {TABLE | VIEW} name",
    statements.DescribeHistory: "DESCRIBE HISTORY INCREMENTAL VIEW v",
    statements.Explain: "EXPLAIN [SQL | EXTENDED] INCREMENTAL VIEW v",
    statements.ExplainCreate: "EXPLAIN [SQL | EXTENDED] CREATE INCREMENTAL VIEW v AS query",
}


@dataclass(frozen=True)
class Construct:
    """A construct of SQL, a query that has it, and the tiers of the plan of that query."""

    what: str
    example: str
    tiers: tuple[str, ...]


CONSTRUCTS: tuple[Construct, ...] = (
    Construct("projection and filter", "SELECT a + 1 AS b FROM t WHERE k > 2", ("linear",)),
    Construct("UNION ALL", "SELECT a FROM t UNION ALL SELECT b FROM u", ("linear",)),
    Construct("UNION", "SELECT a FROM t UNION SELECT b FROM u", ("homomorphic", "linear")),
    Construct("INTERSECT, EXCEPT, with and without ALL", "SELECT a FROM t EXCEPT ALL SELECT b FROM u", ("homomorphic", "linear")),
    Construct("inner join on equal keys", "SELECT t.a, u.b FROM t JOIN u ON t.k = u.k", ("bilinear", "linear")),
    Construct("left, right, full, semi, anti join", "SELECT t.a, u.b FROM t FULL JOIN u ON t.k = u.k", ("bilinear", "linear")),
    Construct("outer join on any condition", "SELECT t.a, u.b FROM t LEFT JOIN u ON t.k = u.k AND t.a < u.b", ("bilinear", "linear")),
    Construct("joins and subqueries in any nesting, subqueries in ON", "SELECT t.a FROM (t JOIN u ON t.k = u.k AND u.b IN (SELECT a FROM t))", ("bilinear", "linear")),
    Construct("USING, NATURAL", "SELECT k, a, b FROM t JOIN u USING (k)", ("bilinear", "linear")),
    Construct("LATERAL subquery", "SELECT a, q.m FROM t, LATERAL (SELECT max(b) AS m FROM u WHERE u.k = t.k) AS q", ("bilinear", "homomorphic", "linear", "multiset")),
    Construct("scalar subquery", "SELECT a, (SELECT sum(b) FROM u WHERE u.k = t.k) AS s FROM t", ("bilinear", "homomorphic", "linear")),
    Construct("EXISTS, IN, NOT IN", "SELECT a FROM t WHERE k NOT IN (SELECT k FROM u)", ("bilinear", "linear")),
    Construct("GROUP BY, HAVING", "SELECT k, sum(a) AS s FROM t GROUP BY k HAVING count(*) > 1", ("homomorphic", "linear")),
    Construct("GROUPING SETS, ROLLUP, CUBE", "SELECT k, sum(a) AS s FROM t GROUP BY ROLLUP (k)", ("homomorphic", "linear")),
    Construct("DISTINCT", "SELECT DISTINCT k FROM t", ("homomorphic", "linear")),
    Construct("DISTINCT and ordered aggregates", "SELECT k, count(DISTINCT a) AS d, max(a) AS m FROM t GROUP BY k", ("linear", "multiset")),
    Construct("any other aggregate", "SELECT k, skewness(a) AS s FROM t GROUP BY k", ("affected", "linear")),
    Construct("window functions, named windows", "SELECT a, rank() OVER w AS r FROM t WINDOW w AS (PARTITION BY k ORDER BY a)", ("affected", "linear")),
    Construct("QUALIFY", "SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY a) = 1", ("affected", "linear")),
    Construct("PIVOT", "SELECT * FROM t PIVOT (sum(a) FOR k IN (1, 2))", ("homomorphic", "linear", "multiset")),
    Construct("UNPIVOT", "SELECT * FROM t UNPIVOT (v FOR name IN (a, k))", ("linear",)),
    Construct("LATERAL VIEW, explode in SELECT", "SELECT k, e FROM u LATERAL VIEW explode(xs) AS e", ("linear",)),
    Construct("windows of time", "SELECT window.start, count(*) AS n FROM (SELECT timestamp_seconds(a) AS ts FROM t) GROUP BY window(ts, '1 hour')", ("homomorphic", "linear")),
    Construct("sessions", "SELECT session_window.start, k, count(*) AS n FROM (SELECT k, timestamp_seconds(a) AS ts FROM t) GROUP BY k, session_window(ts, '5 minutes')", ("affected", "homomorphic", "linear")),
    Construct("ORDER BY with LIMIT and OFFSET", "SELECT a FROM t ORDER BY a LIMIT 3", ("head", "linear")),
    Construct("LIMIT in a correlated subquery", "SELECT a, (SELECT b FROM u WHERE u.k = t.k ORDER BY b LIMIT 1) AS b FROM t", ("affected", "bilinear", "homomorphic", "linear", "multiset")),
    Construct("CTEs, subqueries in FROM", "WITH w AS (SELECT k FROM t) SELECT k FROM (SELECT k FROM w) AS q", ("linear",)),
    Construct("WITH RECURSIVE", "WITH RECURSIVE r(n) AS (SELECT a FROM t UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r", ("affected", "linear")),
    Construct("VALUES, table functions, no FROM", "SELECT id FROM range(3) UNION ALL SELECT 1", ("linear",)),
    Construct("table functions of Python over partitions", "SELECT * FROM f(TABLE(t) PARTITION BY k ORDER BY a)", ("affected", "linear")),
    Construct("table functions of Python over all rows", "SELECT * FROM f(TABLE(t) WITH SINGLE PARTITION)", ("affected", "linear")),
    Construct("pipes with steps of every kind", "FROM t |> WHERE a > 1 |> SET k = a + 1 |> DROP a", ("linear",)),
)  # fmt: skip
"""Over the tables t(a INT, k INT) and u(k INT, b INT, xs ARRAY<INT>), and a table function f."""

TIERS: dict[str, str] = {
    "linear": "the batch alone",
    "bilinear": "look-ups in the indexed rows of both sides",
    "homomorphic": "sums that can be undone, per key",
    "multiset": "value → weight, per key",
    "head": "the first rows and a few more",
    "affected": "the rows of the touched keys or partitions are evaluated again",
    "full": "the whole query, by Spark; only under REFRESH POLICY AUTO or FULL",
}


def document() -> str:
    """The document as Markdown."""
    return "\n".join(
        [
            "# SQL support",
            "",
            "Made by `python -m spark_incr.support`; a test fails when it is out of date.",
            "",
            "A view may hold any query that Spark accepts and that is deterministic. What follows says",
            "how each part is maintained. `EXPLAIN INCREMENTAL VIEW v` says it of one view.",
            "",
            *_section("Tiers", ("tier", "a batch costs"), TIERS.items()),
            *_section("Statements", ("statement",), ((f"`{s}`",) for s in STATEMENTS.values())),
            *_section(
                "Constructs",
                ("construct", "example", "tiers"),
                (
                    (c.what, f"`{c.example}`".replace("|", "\\|"), ", ".join(c.tiers))
                    for c in CONSTRUCTS
                ),
            ),
            "A bare ORDER BY of the whole query says in which order the view is read, as far as its keys",
            "are columns of the view. That of a subquery, a CTE or a view decides what a LIMIT above it",
            "takes, where nothing but columns, conditions and UNION ALL stand between them: its rows come",
            "side by side, those of the first first. Where the keys tie, and where there are none, all",
            "columns of the row decide, so that the result depends on the rows alone. Lists",
            "(`collect_list`) are in an order of their own, whatever a subquery says.",
            "",
            *_section("Aggregate functions", ("function", "tier"), _aggregates()),
            "Over DISTINCT rows the tier is multiset. Aggregates that users register, pandas UDFs among",
            "them, are `affected`. With one `affected` function in a SELECT, all of its groups are.",
            "",
            *_section(
                "Window functions by kernels",
                ("function", "for"),
                sorted(WINDOW_FUNCTIONS.items()),
            ),
            "Every other window function and frame is evaluated by Spark for the touched partitions.",
            "",
            "## Generator functions",
            "",
            f"{', '.join(f'`{name}`' for name in sorted(GENERATORS))}: linear. explode and posexplode of",
            "arrays have kernels, and so has window() with durations that are literals; the others are",
            "Spark's, on the batch, and so are table functions of Python. One of SQL is maintained as the",
            "query that it is made of.",
            "",
            "A table function of Python that reads a relation, `f(TABLE(t) PARTITION BY k)`, is given the",
            "touched partitions again: as they were, to take back what it made of them, and as they are.",
            "Their rows come in an order that depends on the rows alone. Without PARTITION BY it is given all",
            "rows. So it is where what it gives may not depend on the rows of a partition alone: where k is a",
            "TIMESTAMP, a TIME, an interval, a map or a string with a collation, which Python compares otherwise",
            "than Spark; where rows hold maps or variants, which have no order; where it is called with a",
            "subquery or a struct, or with rows in batches of Arrow. EXPLAIN says why.",
            "",
            *_section(
                "Scalar functions and operators by kernels",
                ("node or function", "for"),
                sorted(KERNELS.items(), key=lambda pair: pair[0].lower()),
            ),
            "Every other scalar function, user-defined ones included, is evaluated by Spark on the batch,",
            "once per operator; `EXPLAIN` marks it *by Spark*.",
            "",
            *_section(
                "Refused",
                ("function or clause", "what to do instead"),
                [
                    *((f"`{name}`", hint) for name, hint in sorted(UNSTABLE.items())),
                    ("`unix_timestamp()` without argument", UNSTABLE["now"]),
                    ("`TABLESAMPLE`", "Choose rows by a condition on their columns."),
                    (
                        "`first`, `last` of what the group does not determine",
                        "Use min_by or max_by.",
                    ),
                    (
                        "variables of the session, in `IDENTIFIER()` too",
                        "Write the value, or keep it in a table of one row.",
                    ),
                    (
                        "functions that are not declared deterministic",
                        "Declare them, or store their values.",
                    ),
                ],
            ),
            "What cannot be taken apart is refused as well, unless the view says REFRESH POLICY AUTO: then",
            "Spark computes the whole query anew with each batch that touches what it reads, and CREATE and",
            "EXPLAIN say so.",
            "",
            *_section(
                "Computed anew under REFRESH POLICY AUTO",
                ("construct", "what to do instead"),
                [
                    (
                        "`TRANSFORM ... USING`, which runs a program",
                        "Write it as a table function of Python, and call that by LATERAL.",
                    ),
                    (
                        "the negation of a column that is computed by `IN (subquery)`, outside of WHERE and HAVING,"
                        " or above a LIMIT or the outer side of a join",
                        "Write NOT IN, or NOT EXISTS with the comparison in WHERE, where it is computed; or CASE WHEN"
                        " without NOT.",
                    ),
                    (
                        "subqueries in PARTITION BY and ORDER BY of TABLE arguments",
                        "Join the value to the rows in a query: `TABLE(SELECT ...)`.",
                    ),
                    (
                        "`window()`, `session_window()` in QUALIFY, ORDER BY, SORT BY, DISTRIBUTE BY",
                        "Make a column of the window in a subquery of FROM.",
                    ),
                    (
                        "INTERSECT, EXCEPT and PIVOT of columns of `session_window()`",
                        "Group by the session in a subquery, and take its start and end.",
                    ),
                    (
                        "some correlated subqueries over strings of several collations, and such strings in"
                        " structs that have two fields of one name as keys",
                        "Compare by lower(), or by the strings without their collation.",
                    ),
                    (
                        "INTERSECT, EXCEPT and joins by `<=>` of NULLs without a type",
                        "Cast them to a type.",
                    ),
                    (
                        "CHAR beside a computed constant, in `decode`, `equal_null`",
                        "Write a literal, or cast the column to STRING.",
                    ),
                    (
                        "`IDENTIFIER()` of the time",
                        "Write the name.",
                    ),
                    (
                        "NATURAL JOIN of items without an alias that hold subqueries of CTEs, outer columns,"
                        " or columns of USING by their relation",
                        "Give each item an alias.",
                    ),
                    (
                        "settings of Spark that change how queries are read, such as"
                        " `spark.sql.groupByOrdinal`",
                        "Leave them as they are by default.",
                    ),
                ],
            ),
        ]
    )


def _aggregates() -> list[tuple[str, str]]:
    tiers = dict(FUNCTIONS)
    tiers |= dict.fromkeys(OTHER_AGGREGATES - {"grouping", "grouping_id"}, "affected")
    return [(f"`{name}`", tier) for name, tier in sorted(tiers.items())]


def _section(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"## {title}", "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


if __name__ == "__main__":
    print(document(), end="")
