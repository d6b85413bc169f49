"""Constructs of Spark SQL as views: recursion, pivots, windows by name, names that hide names."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import pandas_udf, udf, udtf

import spark_incr
from spark_incr.engine import Engine
from spark_incr.errors import IncrementalError
from spark_incr.plan import explain
from spark_incr.plan.nodes import walk
from spark_incr.sql import statements
from spark_incr.sql.parse import parse_statement
from spark_incr.sql.statements import CreateView
from spark_incr.support import CONSTRUCTS, STATEMENTS, document
from tests.fuzz import interpreted
from tests.oracle import Batch, SparkFailsError, check

TABLES = {
    "t": "id INT, k INT, s STRING, x DOUBLE",
    "u": "k INT, b INT, d DATE, xs ARRAY<INT>",
}
NAN = float("nan")
DAY = dt.date(2024, 1, 1)

BATCHES: list[Batch] = [
    {
        "t": {"insert": [(1, 10, "a", 1.0), (2, 10, "b", 2.5), (3, 20, None, None),
                         (4, None, "a", -0.0), (4, None, "a", -0.0), (5, 30, "c", NAN)]},
        "u": {"insert": [(10, 1, DAY, [1, 2]), (20, 2, None, []), (None, 4, DAY, None),
                         (10, 7, DAY, [None, 3])]},
    },
    {
        "t": {"insert": [(1, 20, "a", 1.0), (3, 30, "z", 4.0)],
              "delete": [(1, 10, "a", 1.0), (3, 20, None, None), (4, None, "a", -0.0)]},
        "u": {"insert": [(30, None, DAY, [5]), (10, 3, None, [9])],
              "delete": [(None, 4, DAY, None)]},
    },
    {
        "t": {"delete": [(5, 30, "c", NAN)]},
        "u": {"delete": [(10, 1, DAY, [1, 2]), (10, 7, DAY, [None, 3]), (10, 3, None, [9])]},
    },
    {
        "t": {"insert": [(4, None, "a", 0.0), (9, 10, "b", 2.5), (9, 10, "b", 2.5)]},
        "u": {"insert": [(10, 5, DAY, [4])]},
    },
]  # fmt: skip

GROUPS: dict[str, list[str]] = {
    "columns of USING are the first of their relation": [
        "SELECT t.* FROM t JOIN u USING (k)",
        "SELECT t.*, q.* EXCEPT (k, id) FROM t RIGHT JOIN (SELECT b, id, k FROM u JOIN range(4) ON b = id) q USING (k, id)",
        "SELECT q.* FROM t FULL JOIN (SELECT b AS id, k, b + 1 AS c FROM u) q USING (k)",
        "SELECT q.* FROM t LEFT JOIN (SELECT b AS id, k, b + 1 AS c FROM u) q USING (k, id)",
        "SELECT q.* FROM t NATURAL FULL JOIN (SELECT b AS c, k, b AS id FROM u) q",
        "SELECT t.* FROM t FULL JOIN (SELECT b, k FROM u) q USING (k) LEFT JOIN (SELECT b AS c, k FROM u) r USING (k)",
        "SELECT q.* FROM (SELECT b AS c, k FROM u) r CROSS JOIN (t RIGHT JOIN (SELECT b, k FROM u) q USING (k))",
        "SELECT t.* FROM t LEFT SEMI JOIN u USING (k)",
        "SELECT t.* EXCEPT (k) FROM t RIGHT JOIN u USING (k)",
        "SELECT struct(t.*) AS z FROM t FULL JOIN u USING (k)",
    ],
    "joins in parentheses that begin with constant rows": [
        "SELECT r.id, t.id AS t FROM (range(3) AS r JOIN t ON r.id = t.id)",
        "SELECT r.id, q.x FROM t JOIN (range(4) AS r JOIN (SELECT id AS x FROM t) q ON r.id = q.x) ON t.id = r.id",
        "SELECT v.n, t.s FROM ((VALUES (1, 'x'), (4, 'y')) AS v(n, m) LEFT JOIN t ON v.n = t.id)",
        "SELECT e, b FROM (explode(array(1, 2)) AS g(e) LEFT JOIN u ON b = e)",
        "SELECT a FROM ((VALUES (1), (2)) AS v(a))",
        "SELECT * FROM t JOIN ((VALUES (10, 2), (20, 3)) AS v(a, c) CROSS JOIN range(2) AS g(i)) ON k = a",
        "SELECT * FROM VALUES (1, 2), (1, 3) AS v(a, c) PIVOT (sum(c) FOR a IN (1, 2))",
    ],
    "functions over rows of which no column is read": [
        "SELECT count(*) OVER () AS n FROM t",
        "SELECT sum(1) OVER (ORDER BY 1 ROWS 1 PRECEDING) AS n, row_number() OVER (ORDER BY 1) AS r FROM t",
        "SELECT lag(1) IGNORE NULLS OVER (ORDER BY 1) AS l, count(*) OVER () AS n FROM t",
        "SELECT listagg('a') AS l, approx_count_distinct(1) AS d, count(*) AS n FROM t",
        "SELECT mode(2, true) AS m, listagg(DISTINCT 'a') WITHIN GROUP (ORDER BY 'a') AS l FROM t WHERE id > 3",
        "SELECT count(*) OVER () AS n FROM (SELECT sum(id) AS s FROM t)",
        "SELECT id, q.r FROM t CROSS JOIN LATERAL (SELECT regr_count(1, 1) AS r FROM u) q",
    ],
    "structs that are NULL and whose fields are not": [
        "SELECT id, IF(k > 10, named_struct('a', 1, 'b', named_struct('c', id > 0)), NULL) AS v FROM t",
        "SELECT k, mode(IF(id > 1, named_struct('a', 1), NULL)) AS m FROM t GROUP BY k",
        "SELECT id, array(IF(k > 10, named_struct('a', 1), NULL)) AS v FROM t",
    ],
    "CTEs of subqueries": [
        "SELECT id, (WITH m AS (SELECT max(b) AS mb FROM u WHERE u.k = t.k) SELECT mb FROM m) AS f FROM t",
        "SELECT t.id FROM t JOIN (WITH q AS (SELECT k FROM u) SELECT k FROM q) z ON t.k = z.k "
        "JOIN (WITH q AS (SELECT k FROM t) SELECT k FROM q) y ON t.k = y.k",
        "WITH a AS (SELECT k FROM t) SELECT (WITH a AS (SELECT 5 AS k) SELECT max(k) FROM a) AS m, k FROM a",
        "SELECT id FROM t WHERE k IN (WITH u AS (SELECT k FROM u WHERE b > 1) SELECT k FROM u) "
        "AND id NOT IN (SELECT b FROM u WHERE b IS NOT NULL)",
    ],
    "functions of one order see one order": [
        "SELECT id, k, lead(id) OVER (ORDER BY k) AS n, "
        "sum(id) OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS z FROM t WHERE id > 3",
        "SELECT k, lead(k) OVER (ORDER BY id, k, s) AS n, row_number() OVER (ORDER BY id, k, s) AS r, "
        "sum(k) OVER (ORDER BY id, k, s ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS z FROM t",
    ],
    "aggregates WITHIN GROUP over windows": [
        "SELECT id, percentile_cont(0.25) WITHIN GROUP (ORDER BY id) OVER (PARTITION BY k) AS c FROM t",
        "SELECT id, listagg(s) WITHIN GROUP (ORDER BY s) OVER (PARTITION BY k) AS c FROM t",
        "SELECT k, sum(count(*)) FILTER (WHERE k > 10) OVER () AS c, "
        "mode() WITHIN GROUP (ORDER BY count(*)) OVER () AS m FROM t GROUP BY k",
        "SELECT id, row_number() OVER (ORDER BY id) AS r, sum(k) FILTER (WHERE k > 10) OVER (ORDER BY id) AS f "
        "FROM (SELECT DISTINCT id, k FROM t)",
    ],
    "ORDER BY ALL": [
        "SELECT id, k AS all FROM t ORDER BY ALL DESC NULLS LAST, id LIMIT 2",
        "SELECT id, k AS all FROM (SELECT DISTINCT id, k FROM t WHERE id < 3) ORDER BY ALL LIMIT 1",
        "SELECT id FROM (SELECT DISTINCT id, -id AS all FROM t) ORDER BY all LIMIT 2",
        "SELECT k, id FROM t ORDER BY ALL LIMIT 3",
        "SELECT k, count(*) AS n FROM t GROUP BY ALL ORDER BY ALL DESC NULLS LAST LIMIT 2",
    ],
    "the order of a subquery decides what LIMIT takes": [
        "SELECT * FROM (SELECT * FROM t ORDER BY id DESC, s) LIMIT 3",
        "SELECT s FROM (SELECT * FROM t ORDER BY id DESC, s) WHERE id < 5 LIMIT 2",
        "SELECT k + 1 AS k FROM (SELECT k FROM t ORDER BY id DESC, s) LIMIT 2 OFFSET 1",
        "WITH s AS (SELECT * FROM t ORDER BY -id, s) SELECT id, s FROM s LIMIT 2",
        "WITH s AS (SELECT * FROM t ORDER BY id DESC, s), r AS (SELECT * FROM s WHERE id < 5) "
        "SELECT r.id FROM (SELECT id FROM r LIMIT 2) r JOIN s ON r.id = s.id",
        "SELECT max(id) AS m, min(id) AS n FROM (SELECT * FROM (SELECT * FROM t ORDER BY id DESC, s) LIMIT 3)",
        "SELECT * FROM (SELECT id, s FROM t ORDER BY id DESC, s LIMIT 4) LIMIT 2",
        "(SELECT id, s FROM t ORDER BY id DESC, s) LIMIT 2",
        "SELECT * FROM ((SELECT id FROM t ORDER BY id DESC)) LIMIT 2",
        "SELECT * FROM (SELECT k, max(id) AS m FROM t GROUP BY k ORDER BY m DESC, k) LIMIT 2",
        "SELECT * FROM (SELECT DISTINCT id FROM t ORDER BY id DESC) LIMIT 2",
        "SELECT * FROM (SELECT id FROM t UNION SELECT b FROM u ORDER BY id DESC) LIMIT 2",
        "SELECT * FROM (FROM t |> ORDER BY id DESC, s |> SELECT id) LIMIT 2",
        "FROM (SELECT id, s FROM t ORDER BY id DESC, s) |> WHERE id < 5 |> LIMIT 2",
        "SELECT * FROM (FROM (SELECT id, s FROM t ORDER BY id DESC, s) |> SELECT id) LIMIT 2",
        "FROM t |> ORDER BY id |> WHERE id > 1 ORDER BY id DESC, s LIMIT 2",
        "SELECT id FROM t WHERE id IN (SELECT id FROM (SELECT id FROM t ORDER BY id DESC) LIMIT 2)",
        "(SELECT id FROM t ORDER BY id DESC) UNION ALL (SELECT k FROM u ORDER BY b DESC) LIMIT 7",
        "SELECT * FROM ((SELECT id, s FROM t ORDER BY id DESC, s LIMIT 2) UNION ALL (SELECT b, 'u' FROM u ORDER BY k DESC, b)"
        " UNION ALL (SELECT 0L, 'z')) LIMIT 3 OFFSET 1",
        "WITH s AS ((SELECT id FROM t ORDER BY id) UNION ALL (SELECT b FROM u ORDER BY b DESC)) SELECT id FROM s WHERE id < 4 LIMIT 5",
        "FROM t |> SELECT id |> ORDER BY id DESC |> UNION ALL (SELECT k FROM u ORDER BY b) |> WHERE id > 1 |> LIMIT 5",
    ],
    "aggregates of the outer query in a subquery of HAVING": [
        "SELECT k FROM t GROUP BY k HAVING EXISTS (SELECT 1 FROM u WHERE u.b < count(t.id))",
        "SELECT k FROM t GROUP BY k HAVING (SELECT max(b) FROM u WHERE u.b < sum(t.id)) > 1",
        "SELECT k, count(*) AS n FROM t GROUP BY k HAVING 1 IN (SELECT b FROM u WHERE u.b < max(t.id))",
    ],
    "items of SELECT in a subquery of HAVING": [
        "SELECT k + 1 AS j, count(*) AS n FROM t GROUP BY k + 1 HAVING n IN (SELECT b FROM u WHERE b < j)",
        "SELECT k, max(id) AS m, m + 1 AS p FROM t GROUP BY k HAVING (SELECT max(b) FROM u WHERE b < p AND b < u.k + m) > 1 AND m > 1",
        "SELECT struct(k, max(id) AS m) AS f, rank() OVER (ORDER BY max(id)) AS r FROM t GROUP BY ROLLUP (k)"
        " HAVING NOT EXISTS (SELECT 1 FROM u WHERE b = f.m)",
        "SELECT max(id) AS m FROM t HAVING EXISTS (SELECT 1 FROM u WHERE b < m)",
    ],
    "lists of NULLs": [
        "SELECT k, sort_array(collect_list(s) RESPECT NULLS) AS l FROM t GROUP BY k",
        "SELECT k, sort_array(collect_set(s) RESPECT NULLS) AS l, first(s) RESPECT NULLS IS NULL AS f "
        "FROM t WHERE id <> 9 GROUP BY k",
    ],
    "dates beyond the calendar of Python": [
        "SELECT k, rank() OVER (ORDER BY struct(date_add(d, 4000000))) AS m FROM u",
        "SELECT k, d IN (DATE '0000-01-01', DATE '2024-01-01') AS r FROM u",
    ],
    "some of the best": [
        "SELECT k, max_by(id, id, 2) AS m, min_by(s, id, 2) AS l FROM t WHERE id < 9 GROUP BY k",
    ],
    "VALUES as a query": [
        "VALUES (1, 'a'), (NULL, 'b')",
        "SELECT t.id FROM t JOIN VALUES (1, 'a'), (2, 'b') AS v(id, n) ON v.id = t.id",
    ],
    "EXCEPT of fields": [
        "SELECT to_json(struct(* EXCEPT (st.q))) AS j FROM (SELECT id, named_struct('p', k, 'q', s) AS st FROM t)",
        "SELECT * EXCEPT (st.q) FROM (SELECT id, q, IF(id > 1, st, NULL) AS st FROM "
        "(SELECT id, s AS q, named_struct('p', k, 'q', s, 'r', named_struct('x', x, 'y', id)) AS st FROM t))",
        "SELECT * EXCEPT (st.r.x, st.p) FROM "
        "(SELECT id, named_struct('p', k, 'q', s, 'r', named_struct('x', x, 'y', id)) AS st FROM t)",
        "SELECT st.* EXCEPT (p) FROM (SELECT id, named_struct('p', k, 'q', s) AS st FROM t)",
    ],
    "names that Spark derives": [
        "SELECT window.end, `count(1)` FROM (SELECT window(timestamp_seconds(id), '2 seconds'), count(*) FROM t GROUP BY ALL)",
        "WITH c AS (SELECT k, avg(id), max(s) FROM t GROUP BY k) SELECT c.`avg(id)`, `max(s)` FROM c WHERE `avg(id)` > 1",
        "SELECT `(id + 1)` AS a FROM (SELECT t.id + 1 FROM t)",
        "SELECT col0 FROM (SELECT stack(2, id, k) FROM t)",
        "SELECT * FROM (SELECT k, count(*) FROM t GROUP BY k) NATURAL JOIN (SELECT k, count(*) FROM u GROUP BY k)",
        "SELECT * FROM (SELECT k, count(*) FROM t GROUP BY k) NATURAL JOIN (SELECT k, sum(b) FROM u GROUP BY k)",
        "SELECT * FROM (SELECT id + 1 FROM t) NATURAL LEFT JOIN (SELECT b + 1 FROM u)",
        "SELECT * FROM (SELECT k, (SELECT 1) FROM t) NATURAL JOIN (SELECT k AS b FROM u)",
    ],
    "PIVOT and UNPIVOT behind joins": [
        "SELECT * FROM (SELECT id, k FROM t) CROSS JOIN (SELECT k AS q, b FROM u) PIVOT (sum(b) FOR q IN (10, 20))",
        "SELECT * FROM (SELECT id, k FROM t), (SELECT k AS q, b FROM u) PIVOT (sum(b) FOR q IN (10, 20)) AS p",
        "SELECT id, ten, xs FROM t JOIN (SELECT k, b FROM u) USING (k) PIVOT (sum(x) FOR k IN (10 AS ten)) JOIN u ON u.b = ten",
        "SELECT s, v, m FROM t LEFT JOIN u ON t.k = u.k UNPIVOT INCLUDE NULLS (v FOR m IN (id, b)) AS p WHERE v > 1",
        "SELECT * FROM (SELECT id, struct(k, s) AS r FROM t) PIVOT (count(*) FOR r IN ((10, 'a'), (10, 'b') AS other))",
    ],
    "what LATERAL reads": [
        "SELECT q.* FROM t, LATERAL (SELECT t.*, u.b FROM u WHERE u.k = t.k) AS q",
        "SELECT q.* FROM t, LATERAL (SELECT t.* EXCEPT (s, x), struct(t.*) AS r, u.b FROM u) AS q",
        "SELECT * FROM LATERAL (SELECT k, b FROM u)",
        "SELECT e, id FROM LATERAL explode(array(1, 2)) AS g(e) JOIN LATERAL (SELECT id FROM t WHERE k = 10)",
        "SELECT id, q.m FROM t, LATERAL (SELECT p.m FROM (SELECT k, min(b) AS m FROM u WHERE u.k = t.k GROUP BY k)"
        " AS o, LATERAL (SELECT o.m WHERE o.m < o.k) AS p) AS q",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM (SELECT k, b FROM u WHERE u.k = t.k) AS o"
        " LEFT JOIN LATERAL (SELECT o.b AS n WHERE o.b > 2) AS p WHERE n IS NULL)",
    ],
    "IN of one scalar subquery": [
        "SELECT id FROM t WHERE id NOT IN ((SELECT max(b) FROM u WHERE b > 5))",
        "SELECT id, id IN ((SELECT b FROM u WHERE b = 3)) AS i FROM t",
    ],
    "NULL without a type, aggregated": [
        "SELECT k, sum(NULL) AS a, avg(NULL) AS b, sum(DISTINCT NULL) AS c, bit_xor(NULL) AS d, "
        "count_if(NULL) AS e FROM t GROUP BY k",
        "SELECT bool_and(NULL) AS a, bit_or(NULL) AS b, median(NULL) AS c, percentile(NULL, 0.5) AS d FROM t",
    ],
    "Hive's name of grouping_id()": [
        "SELECT k, s, grouping__id, count(*) AS n FROM t GROUP BY CUBE(k, s) HAVING grouping__id > 0",
        "SELECT k, sum(id) AS n FROM t GROUP BY ROLLUP(k) ORDER BY GROUPING__ID DESC, k LIMIT 2",
        "SELECT grouping__id AS g, count(*) AS n FROM (SELECT k AS grouping__id FROM t) GROUP BY CUBE(grouping__id)",
    ],
    "recursion": [
        "WITH v AS (WITH RECURSIVE r(n, m) AS (SELECT id, 0 FROM t UNION ALL SELECT n + 1, m + 1 FROM r WHERE m < 1) "
        "SELECT n, m FROM r) SELECT array_sort(array(n, m)) AS a, nullif(n, 3) AS b, transform(array(n), e -> e + m) AS c FROM v",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
        "WITH RECURSIVE r(n) AS (SELECT min(id) FROM t UNION ALL SELECT n + 1 FROM r) SELECT id, n, m FROM t"
        " JOIN (SELECT q.n + 1 AS n FROM r AS q LIMIT 3) ON id < n, (SELECT n AS m FROM r LIMIT 2)",
        """WITH RECURSIVE r AS (SELECT k AS n, 1 AS d FROM u UNION ALL
             SELECT t.id AS n, d + 1 FROM r JOIN t ON t.k = r.n WHERE d < 3),
           z AS (SELECT n, count(*) AS c FROM r GROUP BY n)
           SELECT z.n, z.c, u.b FROM z LEFT JOIN u ON u.k = z.n""",
        """WITH RECURSIVE base AS (SELECT id, k FROM t WHERE id > 1),
           r(n, d) AS (SELECT id, 0 FROM base UNION ALL
             SELECT base.k, d + 1 FROM r, base WHERE base.id = r.n AND d < 2) SELECT * FROM r""",
        """WITH RECURSIVE r(n) MAX RECURSION LEVEL 3 AS
             (SELECT id FROM t WHERE id < 3 UNION ALL SELECT n + 2 FROM r WHERE n < 4) SELECT n FROM r""",
        """WITH RECURSIVE r(n) AS (SELECT min(id) FROM t UNION ALL SELECT n + 1 FROM r WHERE n < 4)
           SELECT id + 1 = (SELECT max(n) FROM r) AS a, id - 2 = (SELECT min(n) FROM r) AS b,
             k * 3 = (SELECT count(*) FROM r) AS c, k % 5 = (SELECT sum(n) FROM r) AS d,
             -id = (SELECT max(n) - 7 FROM r) AS e, k & 6 = (SELECT min(n) + 8 FROM r) AS f FROM t""",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT k, var_samp(x) AS a, size(array_agg(s)) AS b, "
        "max(substr(s, 1, 1)) AS c, sum(pow(id, 2)) AS d, max(nvl(s, 'e')) AS e, max(mod(id, 2)) AS f FROM t JOIN r ON id = n GROUP BY k",
    ],
    "columns named by their functions": [
        "SELECT `var_samp(id)` AS a, `pow(k, 2)` AS b FROM (SELECT k, var_samp(id), pow(k, 2) FROM t GROUP BY k)",
        "SELECT `mod(id, 2)` AS a, `substr(s, 1, 2)` AS b, `(id % 2)` AS c FROM (SELECT mod(id, 2), substr(s, 1, 2), id % 2 FROM t)",
    ],
    "VALUES in parentheses with what is joined to them": [
        "SELECT * FROM (VALUES (1), (2) AS v(a) JOIN t ON v.a = t.id) WHERE a > 0",
        "SELECT * FROM (VALUES (1), (4) JOIN t ON col1 = t.id)",
        "SELECT id, b FROM t JOIN (VALUES 1, 2 v(a) LEFT JOIN u ON a = u.b) ON a = id",
        "SELECT * FROM (VALUES 1, 2 UNION SELECT k FROM t)",
        "SELECT * FROM (VALUES (1, 2) v(a, b) PIVOT (sum(a) FOR b IN (1, 2))) JOIN t",
        "SELECT * FROM (VALUES (1, 2) JOIN t ON col1 = id PIVOT (sum(id) FOR col2 IN (1, 2)))",
    ],
    "maps in VALUES of subqueries": [
        "SELECT id, (SELECT max(m[1]) FROM VALUES (map(1, 2)), (map(1, 3)) AS q(m)) AS m FROM t",
        "SELECT id FROM t WHERE k IN (SELECT m['a'] FROM VALUES (map('a', 10)) AS q(m))",
        "SELECT id, q.m FROM t, LATERAL (SELECT * FROM VALUES (map('a', 10)), (map('a', 20)) AS q(m) WHERE m['a'] = k) AS q",
    ],
    "pivot": [
        "SELECT * FROM (SELECT id, k, s FROM t) PIVOT (sum(id) FOR s IN ('a', 'b', 'z'))",
        "SELECT * FROM (SELECT id, k, s FROM t) PIVOT (sum(id) AS su, count(*) AS c FOR s IN ('a' AS aa, 'b' AS bb))",
        "SELECT * FROM (SELECT id, k, s, x FROM t) PIVOT (sum(x) AS su FOR (s, k) IN (('a', 10) AS p, ('b', 10) AS q))",
        "SELECT * FROM (SELECT k, s, id FROM t) PIVOT (max(s) AS m, count(*) AS c FOR id IN (1, 2 AS two, 4))",
        "SELECT * FROM (SELECT s, id FROM t) PIVOT (count(*) FOR s IN ('a', 'b', NULL))",
        "SELECT * FROM (SELECT k, x, id FROM t) PIVOT (avg(x) + 1 AS m FOR id IN (1, 2))",
        "SELECT p.k, p.aa FROM (SELECT k, s, id FROM t) PIVOT (sum(id) FOR s IN ('a' AS aa)) AS p WHERE p.aa > 1",
        "SELECT * FROM (SELECT id, k FROM t) UNPIVOT (v FOR name IN (id, k))",
        "SELECT * FROM (SELECT id, k FROM t) UNPIVOT INCLUDE NULLS (v FOR name IN (id AS a, k AS b))",
        """SELECT * FROM (SELECT id, k, id + 1 AS i2, k + 1 AS k2 FROM t)
           UNPIVOT ((v, w) FOR name IN ((id, k) AS a, (i2, k2))) AS p""",
        "SELECT name, sum(v) AS s FROM t UNPIVOT (v FOR name IN (id, x)) AS p GROUP BY name",
    ],
    "windows": [
        "SELECT id, row_number() OVER w AS r, sum(id) OVER w AS q FROM t WINDOW w AS (PARTITION BY k ORDER BY id, s)",
        "SELECT id, rank() OVER (w) AS r FROM t WINDOW w AS (PARTITION BY k ORDER BY id)",
        "SELECT id, k FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY id) = 1",
        "SELECT x AS k, id FROM t QUALIFY row_number() OVER (ORDER BY k, id) < 3 AND k > 10",
        "SELECT k, sum(id) AS total FROM t GROUP BY k QUALIFY rank() OVER (ORDER BY total DESC) <= 2",
        "SELECT DISTINCT k, rank() OVER (ORDER BY k) AS r FROM t QUALIFY r > 1",
        "SELECT k FROM (SELECT k, id, row_number() OVER (PARTITION BY k ORDER BY id) AS r FROM t) WHERE k > 10 AND r = 1",
        "SELECT id, last_value(id) OVER (PARTITION BY k ORDER BY x) > 0 AS f FROM t",
        "SELECT id, sum(k) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s, rank() OVER (ORDER BY x) AS r FROM t",
    ],
    "correlated": [
        "SELECT id, (SELECT b FROM u WHERE u.k = t.k ORDER BY b LIMIT 1) AS b FROM t",
        "SELECT id, (SELECT b FROM u WHERE u.k = t.k ORDER BY b DESC LIMIT 1 OFFSET 1) AS b FROM t",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k LIMIT 1)",
        "SELECT id, q.b FROM t, LATERAL (SELECT b FROM u WHERE u.k = t.k ORDER BY b DESC LIMIT 2) AS q",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u FULL JOIN (SELECT 1 AS one) AS o ON true WHERE u.k = t.k)",
        "SELECT id, q.c FROM t, LATERAL (SELECT skewness(b) AS s, approx_count_distinct(b) AS c FROM u WHERE u.k = t.k) AS q",
        "SELECT k, q.e FROM u, LATERAL (SELECT explode(u.xs) AS e) AS q",
        "SELECT id, q.b FROM t, LATERAL (SELECT b FROM u WHERE u.b < t.id) AS q",
        "SELECT id, q.b FROM t JOIN LATERAL (SELECT b FROM u WHERE u.k = t.k AND u.b < t.id) AS q",
        "SELECT id, q.b FROM t JOIN LATERAL (SELECT b FROM u WHERE u.k = t.k) AS q ON q.b <> t.id",
        "SELECT id, q.a FROM t, LATERAL (SELECT a FROM VALUES (1), (4) AS v(a) WHERE a < t.id) AS q",
        """SELECT id FROM t WHERE (SELECT count(*) FROM u WHERE u.k = t.k AND u.b >
             (SELECT min(b) FROM u AS w WHERE w.k = u.k)) > 0""",
    ],
    "aggregated": [
        "SELECT k, sum((SELECT max(b) FROM u)) AS a FROM t GROUP BY k",
        "SELECT k, sum(id + (SELECT max(b) FROM u WHERE u.k = t.k)) AS a FROM t GROUP BY k",
        "SELECT k, count(CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.k = t.k) THEN 1 END) AS a FROM t GROUP BY k",
        "SELECT (SELECT max(b) FROM u WHERE u.k = t.k) AS m, count(*) AS n FROM t GROUP BY 1",
        "SELECT covar_pop(DISTINCT id, k) AS c, corr(DISTINCT id, k) AS d FROM t",
        "SELECT k, percentile(id, 0.5, 2) AS p FROM t GROUP BY k",
        "SELECT k, string_agg(s) AS p FROM t GROUP BY k, s",
        "SELECT k, count(*) AS n FROM t GROUP BY k HAVING n > (SELECT min(b) FROM u) ORDER BY n",
    ],
    "names": [
        "SELECT k AS x, count(*) AS n FROM t GROUP BY k HAVING x > 10",
        "SELECT k, max(id) AS id FROM t GROUP BY k HAVING id > 3",
        "SELECT k, max(id) AS id FROM t GROUP BY k HAVING max(id) > 3",
        "SELECT max(id) AS k, k AS id FROM t GROUP BY k HAVING k > 10 AND id > 10",
        "SELECT 1 + id AS a, count(*) AS n FROM t GROUP BY id + 1",
        "SELECT id * k AS a, k > 10 AS big, count(*) AS n FROM t GROUP BY k * id, 10 < k",
        "SELECT k, sum(id) AS a, a + 1 AS b FROM t GROUP BY k",
        "SELECT id + 1 AS a, a * 2 AS b, b - a AS c FROM t",
        "SELECT a, b FROM (SELECT k + 1 AS a, count(*) AS n, n * 2 AS b FROM t GROUP BY a)",
        "SELECT -id AS id FROM t ORDER BY id + 0, k LIMIT 2",
        "SELECT k, -max(id) AS m FROM t GROUP BY k ORDER BY max(id), k LIMIT 2",
        "SELECT k, -max(id) AS id FROM t GROUP BY k ORDER BY id + 1, k LIMIT 2",
        "SELECT f.* FROM (SELECT struct(id, k) AS f FROM t)",
        "SELECT q.id FROM IDENTIFIER('t') AS q JOIN u ON q.k = IDENTIFIER('u.k')",
        "SELECT IDENTIFIER('id') AS a, sum(IDENTIFIER('q.`k`')) AS b FROM (SELECT k AS id, id AS k FROM t) AS q GROUP BY ALL",
        "SELECT IDENTIFIER('i' || 'd'), IDENTIFIER(concat('t.', '`k`')) + 1 AS k FROM IDENTIFIER(lower('T'))",
        "SELECT IDENTIFIER('abs')(id) AS a, IDENTIFIER('m' || 'ax')(k) AS m FROM t GROUP BY 1 ORDER BY IDENTIFIER('a' || '') LIMIT 2",
        "SELECT IDENTIFIER('sum')(id) OVER (PARTITION BY IDENTIFIER(lower('K')) ORDER BY id) AS s FROM t",
        "WITH c AS (SELECT id AS `a b`, k AS select FROM t) SELECT IDENTIFIER('c.`a b`') AS x, IDENTIFIER('sel' || 'ect') AS y"
        " FROM IDENTIFIER(lower('C')) AS c",
    ],
    "names that are functions or keywords": [
        "SELECT current_date, max(k) AS user FROM (SELECT d AS current_date, k FROM u) GROUP BY current_date",
        "SELECT user, current_user, current_timestamp FROM "
        "(SELECT id AS user, s AS current_user, x AS current_timestamp FROM t) WHERE user > 1 AND current_user > ''",
        "SELECT rank() OVER (PARTITION BY session_user ORDER BY current_time) AS r FROM "
        "(SELECT k AS session_user, id AS current_time FROM t)",
        "SELECT id AS select, k order, s AS from FROM t AS left_ WHERE left_.id > 1",
        "FROM t SELECT id FROM",
        "SELECT DISTINCT distinct, all FROM (SELECT k AS distinct, s AS all FROM t)",
        "SELECT distinct FROM (SELECT id AS distinct FROM t)",
        "WITH select AS (SELECT id FROM t), order AS (SELECT id + 1 AS from FROM select) SELECT order.from FROM order",
        "SELECT CASE WHEN case > 1 THEN when ELSE end END AS then FROM (SELECT id AS case, k AS when, id AS end FROM t)",
        "SELECT interval, date + 1 AS timestamp FROM (SELECT s AS interval, k AS date FROM t) WHERE date IN (10, 20)",
        "SELECT id, sum(id) OVER order AS z FROM t AS where WINDOW order AS (PARTITION BY where.k)",
        "SELECT k AS select, order FROM u LATERAL VIEW explode(xs) AS order",
        "SELECT k, e FROM u LATERAL VIEW OUTER explode(xs) q e",
        "SELECT k, e FROM u, LATERAL explode(collection => xs) AS q(e)",
        "SELECT * FROM (SELECT k, s AS year, id FROM t) PIVOT (sum(id) FOR year IN ('a' AS left, 'b' AS end))",
        "SELECT k AS all, count(*) AS select FROM t GROUP BY ALL HAVING all > 10 ORDER BY ALL DESC LIMIT 2",
        "SELECT transform(array(k), end -> end + id) AS from, struct(id AS select).select AS as FROM t",
        "FROM t |> EXTEND id AS select, k AS left |> WHERE select > 1 |> AGGREGATE sum(select) AS order GROUP BY left",
    ],
    "grouping__id": [
        "SELECT k, s, grouping__id, count(*) AS n FROM t GROUP BY k, s WITH ROLLUP",
        "SELECT k, s, count(*) AS n FROM t GROUP BY GROUPING SETS ((k), (k, s), ()) HAVING GROUPING__ID + 1 > 1",
        "SELECT k, s, count(*) AS n FROM t GROUP BY CUBE (k, s) ORDER BY grouping__id, k, s LIMIT 3",
        "SELECT grouping__id, count(*) AS n FROM (SELECT k AS grouping__id, s FROM t) GROUP BY grouping__id, s WITH CUBE",
    ],
    "columns of USING in a semi join come first": [
        "SELECT * FROM t LEFT SEMI JOIN u USING (k)",
        "SELECT t.*, id + 1 AS i FROM t ANTI JOIN (SELECT k AS x, b AS k FROM u) USING (x, k)",
    ],
    "forms of a query": [
        "VALUES 3, 1, NULL ORDER BY 1 LIMIT 2",
        "SELECT id, v.* FROM t JOIN VALUES 1, 2 AS v(a) ON v.a = t.id",
        "SELECT id, k IN (VALUES 10, 20) AS i, EXISTS (TABLE u) AS e, (VALUES 1) AS v FROM t",
        "WITH a AS (TABLE t), b(p, q) AS (VALUES (1, 2), (2, NULL)) SELECT a.*, b.q FROM a LEFT JOIN b ON a.id = b.p",
        "TABLE t UNION ALL TABLE t",
        "SELECT * FROM t INTERSECT TABLE t",
        "(TABLE t EXCEPT SELECT * FROM t WHERE id = 1) ORDER BY id, s LIMIT 3",
        "SELECT q.id FROM (TABLE t) AS q WHERE EXISTS (FROM u SELECT 1 WHERE u.k = q.k)",
        "FROM t JOIN u ON t.k = u.k SELECT t.k, count(*) AS n WHERE u.b > 0 GROUP BY t.k HAVING n > 1",
        "FROM t SELECT id UNION ALL FROM u SELECT b",
        "WITH a AS (FROM t SELECT id) FROM a LATERAL VIEW explode(array(id, 1)) q AS e SELECT e",
    ],
    "steps of a pipe": [
        "FROM t |> SELECT t.id, t.k |> EXTEND t.id + 1 AS y, y * 2 AS z |> SET k = t.k + 1, y = k |> SELECT t.id, y, k, z",
        "FROM t |> SET id = id + 1, k = id * 10, id = id + 1 |> DROP s, x |> AS q |> WHERE q.k > 20",
        "FROM t |> WHERE id > 1 |> WHERE k IN (FROM u |> WHERE b > 1 |> SELECT k) |> SELECT DISTINCT k",
        "FROM t |> AGGREGATE sum(id) AS a, count(*) AS n GROUP BY k, id % 2 AS odd |> WHERE odd = 1 |> SELECT k, a",
        "FROM t |> AGGREGATE count(*) AS n GROUP BY 3, 2 |> AGGREGATE max(n) AS m",
        "FROM t |> AGGREGATE GROUP BY k",
        "FROM t |> SELECT k, max(id) AS m GROUP BY k |> EXTEND sum(m) OVER () AS z, rank() OVER (ORDER BY m, k) AS r"
        " |> WHERE r < 3 |> DROP r",
        "FROM t |> SELECT id, sum(id) OVER w AS z WINDOW w AS (PARTITION BY k)",
        "FROM t |> AS a |> JOIN u AS b ON a.k = b.k |> SELECT a.id, b.b |> LEFT JOIN t AS c ON c.id = b |> SELECT a.id, c.s",
        "FROM t |> LEFT JOIN LATERAL (SELECT b FROM u WHERE u.k = t.k) AS q ON true |> SELECT id, q.b",
        "FROM t |> LEFT ANTI JOIN u USING (k)",
        "FROM t |> ORDER BY k DESC, id, s |> EXTEND id + 1 AS y |> WHERE y > 2 |> SELECT id, y |> LIMIT 3 |> OFFSET 1",
        "FROM t |> ORDER BY id, k, s |> LIMIT 4 |> ORDER BY 1 DESC, s |> LIMIT 1 |> SELECT s",
        "FROM t |> ORDER BY id DESC |> SORT BY id |> WHERE id > 1 ORDER BY id, s LIMIT 2",
        "FROM t |> SELECT id |> UNION ALL SELECT b FROM u |> AGGREGATE count(*) AS n GROUP BY id",
        "FROM t |> SELECT id |> UNION SELECT b FROM u |> EXCEPT ALL VALUES (1), (2) |> INTERSECT (FROM t |> SELECT id)",
        "FROM t |> SELECT id UNION ALL SELECT b FROM u |> WHERE id > 1",
        "FROM t |> SELECT id |> UNION ALL SELECT b FROM u ORDER BY id DESC LIMIT 3",
        "FROM t |> SELECT id UNION ALL SELECT b FROM u ORDER BY id DESC LIMIT 3",
        "FROM t |> SELECT id |> UNION ALL (SELECT b FROM u ORDER BY b LIMIT 1) LIMIT 20",
        "FROM t |> SELECT k, s, id |> PIVOT (sum(id) FOR s IN ('a' AS aa, 'b' AS bb)) |> WHERE aa > 1",
        "FROM t |> SELECT id, k |> UNPIVOT (v FOR name IN (id, k)) |> AGGREGATE sum(v) AS s GROUP BY name",
        "FROM u |> EXTEND explode(xs) AS e |> AGGREGATE sum(e) AS s GROUP BY k",
        "FROM t, u |> WHERE t.k = u.k |> SELECT t.*, u.b |> EXTEND (SELECT max(b) FROM u AS v WHERE v.k = t.k) AS m",
        "WITH a AS (FROM t |> SELECT id, k), b AS (SELECT k FROM a |> WHERE k > 10) FROM b |> JOIN a USING (k)",
        "SELECT q.id, (FROM u |> WHERE u.k = q.k |> AGGREGATE count(*)) AS n FROM (FROM t |> WHERE id > 1) AS q",
        "VALUES (1, 2), (3, 4) AS v(a, b) |> SELECT a + b AS c",
    ],
    "operators, literals and types": [
        "SELECT id !> 2 AS p, id !< 2 AS q, X '1F' AS x, x\"ab\" AS y FROM t WHERE k !< 10",
        "SELECT -1::string AS d, -1.5::int AS e, -1L AS g, -k::string AS h FROM t WHERE k IS NOT NULL",
        "SELECT id, CAST(d AS TIMESTAMP WITHOUT TIME ZONE) AS n, CAST(d AS TIMESTAMP WITH LOCAL TIME ZONE) AS l "
        "FROM t JOIN u ON t.k = u.k",
        "SELECT CAST(s AS STRING COLLATE UTF8_LCASE) = 'A' AS a, s::STRING COLLATE UTF8_LCASE = 'B' AS b FROM t",
    ],
    "NULLs without a type": [
        "SELECT k, sum(NULL) AS a, avg(NULL) AS b, max(NULL) AS c, min(NULL) AS d, count(NULL) AS e FROM t GROUP BY k",
        "SELECT sum(v) AS a, avg(v) AS b, max(v) AS c, count(DISTINCT v) AS f FROM (SELECT NULL AS v FROM t)",
        "SELECT sum(DISTINCT NULL) AS a, try_sum(NULL) AS c, bool_and(NULL) AS d, some(NULL) AS e, bit_or(NULL) AS f,"
        " bit_and(NULL) AS g, bit_xor(NULL) AS h, sum(NULL) FILTER (WHERE id > 1) AS i FROM t",
        "SELECT k, bool_and(v) AS a, bool_or(v) AS b FROM (SELECT k, CAST(id > 1 AS STRING) AS v FROM t) GROUP BY k",
    ],
    "generators over groups": [
        "SELECT k, explode(collect_list(id)) AS e FROM t GROUP BY k HAVING e > 1",
        "SELECT k + 1 AS k, max(id) AS m, explode(collect_list(id)) AS e FROM t GROUP BY k HAVING m > 2 AND k > 11",
        "SELECT k, posexplode(sort_array(collect_list(id))) AS (p, e) FROM t GROUP BY k HAVING p > 0",
        "SELECT k, explode(collect_list(id)) AS e FROM t GROUP BY k HAVING EXISTS (SELECT 1 FROM u WHERE u.b = e)",
        "SELECT k, explode(collect_list(id)) AS e FROM t GROUP BY k "
        "QUALIFY row_number() OVER (PARTITION BY k ORDER BY e) = 1",
    ],
    "shapes": [
        "FROM t |> WHERE id > 1 |> SELECT id, k",
        "FROM t |> WHERE id > 1 |> EXTEND id * 2 AS y |> AGGREGATE sum(y) AS s GROUP BY k",
        "TABLE t",
        "(SELECT id FROM t) ORDER BY id LIMIT 2",
        "SELECT id FROM t UNION ALL (SELECT b FROM u ORDER BY b DESC LIMIT 2)",
        "SELECT id FROM t ORDER BY id LIMIT ALL",
        "SELECT k, b, e FROM u, LATERAL explode(xs) AS g(e)",
        "SELECT k, b, e FROM u LEFT JOIN LATERAL explode(xs) AS g(e) ON true",
        "SELECT k, posexplode(xs) AS (p, e) FROM u",
        "SELECT id, stack(2, id, k, k, id) AS (p, e) FROM t",
        "SELECT e, n FROM (SELECT b AS n, explode(xs) AS e FROM u) WHERE n > 1",
        "SELECT id, grouping_id() AS g, count(*) AS n FROM t GROUP BY id, ROLLUP(k, s)",
    ],
}  # fmt: skip


@pytest.mark.parametrize("group", GROUPS)
def test_constructs_follow_their_tables(spark: SparkSession, group: str) -> None:
    with interpreted(spark):
        # Spark runs each step of a recursion as a job of its own.
        batches = BATCHES[:3] if group == "recursion" else BATCHES
        check(spark, TABLES, GROUPS[group], batches, magnitude=100.0)


def test_every_keyword_is_a_name_as_it_is_to_spark(spark: SparkSession) -> None:
    # What sql_keywords() lists, without its question for each of them whether it is reserved.
    java: Any = spark._jvm
    utils = getattr(java.org.apache.spark.sql.catalyst.util, "SQLKeywordUtils$")
    words = getattr(utils, "MODULE$").keywords().mkString(" ").lower().split(" ")
    names = sorted({*words} - {"current_path"})  # a function, whatever columns there are
    assert len(names) > 300
    made = ", ".join(f"id + {number} AS {name}" for number, name in enumerate(names))
    query = f"SELECT {', '.join(f'q.{name}' for name in names)} FROM (SELECT {made} FROM t) AS q"
    check(spark, TABLES, query, BATCHES[:1], reopen=True)


def test_names_that_differ_by_case(spark: SparkSession) -> None:
    queries = [
        "SELECT X FROM (SELECT id AS x, k AS X FROM t)",
        "SELECT id % 2 AS ID, count(*) AS n FROM t GROUP BY ID",
        "SELECT ID + 1 AS a FROM (SELECT id, k AS ID FROM t) GROUP BY ID HAVING ID > 10",
        "SELECT T.id, t.k FROM t AS T JOIN t ON T.id < t.id AND T.k = t.k",
        "SELECT v.A FROM (SELECT named_struct('a', id, 'A', k) AS v FROM t)",
        "SELECT k AS ID, id AS b FROM t ORDER BY ID DESC NULLS LAST, s, b LIMIT 2",
        "SELECT id FROM (SELECT id, k AS K FROM t) NATURAL JOIN (SELECT DISTINCT k AS K FROM u)",
        "SELECT B, (SELECT count(*) FROM u WHERE b = B) AS m FROM (SELECT id AS B FROM t) AS q",
        "SELECT id, transform(array(1), ID -> ID + id) AS a FROM t",
        "SELECT id, row_number() OVER W AS r FROM t WINDOW w AS (ORDER BY id), W AS (ORDER BY id DESC)",
    ]
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with interpreted(spark):
            check(spark, TABLES, queries, BATCHES, reopen=True, reference=3)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_view_keeps_how_names_are_compared(spark: SparkSession, tmp_path: Path) -> None:
    spark_incr.enable(spark, state=str(tmp_path))
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        spark.sql("CREATE INCREMENTAL TABLE cased (a INT, b INT)")
        query = "SELECT s.A, X FROM (SELECT named_struct('a', a, 'A', b) AS s, a AS x, b AS X FROM cased)"
        spark.sql(f"CREATE INCREMENTAL VIEW kept AS {query}")
        spark.conf.unset("spark.sql.caseSensitive")
        spark.sql("INSERT INTO cased VALUES (1, 2)")
        assert spark.table("kept").collect() == [(2, 2)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
        spark_incr.disable(spark)


def test_recursion_and_keyed_limits_by_their_texts(spark: SparkSession) -> None:
    recursion = """WITH RECURSIVE r(n, m) AS (SELECT id, 0 FROM t UNION ALL
        SELECT n + 1, m + 1 FROM r WHERE m < 1) SELECT n FROM r"""
    queries = [
        recursion,
        "SELECT id, (SELECT b FROM u WHERE u.k = t.k ORDER BY b LIMIT 1) AS b FROM t",
    ]
    check(spark, TABLES, queries, BATCHES[:2], created_after=1, reference=True)
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r"
    with pytest.raises(SparkFailsError) as raised:
        check(spark, TABLES, endless, [])
    assert "RECURSION_LEVEL_LIMIT_EXCEEDED" in str(raised.value.__cause__)


def test_session_functions(spark: SparkSession) -> None:
    def doubled(v: pd.Series) -> pd.Series:  # type: ignore[type-arg]
        return v * 2.0

    def mean(v: pd.Series) -> float:  # type: ignore[type-arg]
        return float(v.mean()) if len(v) else 0.0

    spark.udf.register("plus_one", lambda v: None if v is None else v + 1, "int")
    spark.udf.register("pandas_doubled", pandas_udf(doubled, "double"))  # type: ignore[call-overload]
    spark.udf.register("pandas_mean", pandas_udf(mean, "double"))  # type: ignore[call-overload]
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION sql_plus(x INT) RETURNS INT RETURN x + 1")
    queries = [
        "SELECT plus_one(id) AS p, sql_plus(k) AS q FROM t WHERE plus_one(id) > 2",
        "SELECT k, sum(plus_one(id)) AS p FROM t GROUP BY k",
        "SELECT k, pandas_mean(id) AS m FROM t GROUP BY k",
        "SELECT pandas_doubled(x) AS p FROM t WHERE x IS NOT NULL",
        "SELECT pandas_mean(id) AS p FROM t",
        "SELECT id, pandas_mean(id) OVER (PARTITION BY k) AS p FROM t",
    ]
    check(spark, TABLES, queries, BATCHES)


# Refusals


@pytest.fixture(scope="module")
def engine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    engine = Engine(spark, tmp_path_factory.mktemp("refusals"))
    for name, columns in {"t": "a INT, k INT", "u": "k INT, b INT, xs ARRAY<INT>"}.items():
        from tests.oracle import Model

        engine.create_table(Model.of(spark, name, columns, ()).definition)
        spark.createDataFrame([], columns).createOrReplaceTempView(name)
    return engine


def compiled(engine: Engine, query: str, policy: str = "INCREMENTAL STRICT") -> set[str]:
    """The tiers of the plan of a query."""
    statement = parse_statement(f"CREATE INCREMENTAL VIEW v REFRESH POLICY {policy} AS {query}")
    assert isinstance(statement, CreateView)
    plan = engine.compile(statement)[0].plan
    return {explain.tier_of(node).split(" ")[0] for node in walk(plan)}


CLOCK, RANDOM = "Store the time", "Store the value"
# Spark shows the first 25 columns of a plan.
MANY = ", ".join(f"a + {i} AS c{i}" for i in range(30))


@pytest.mark.parametrize(
    ("query", "condition", "hint"),
    [
        ("SELECT rand() AS r FROM t", "INCR_NONDETERMINISTIC", RANDOM),
        ("SELECT randn(3) AS r FROM t", "INCR_NONDETERMINISTIC", RANDOM),
        ("SELECT uuid() AS r FROM t", "INCR_NONDETERMINISTIC", RANDOM),
        ("SELECT shuffle(xs) AS r FROM u", "INCR_NONDETERMINISTIC", RANDOM),
        ("SELECT a FROM t WHERE rand() < 0.5", "INCR_NONDETERMINISTIC", RANDOM),
        ("SELECT uniform(1, 5) AS s FROM t", "INCR_NONDETERMINISTIC", RANDOM),
        ("SELECT current_timestamp() AS r FROM t", "INCR_NONDETERMINISTIC", CLOCK),
        ("SELECT current_timestamp AS r FROM t", "INCR_NONDETERMINISTIC", CLOCK),
        ("SELECT now() AS r", "INCR_NONDETERMINISTIC", CLOCK),
        ("VALUES (current_date)", "INCR_NONDETERMINISTIC", CLOCK),
        ("SELECT a FROM t LIMIT year(current_date)", "INCR_NONDETERMINISTIC", CLOCK),
        ("SELECT a AS current_date, current_date AS r FROM t", "INCR_NONDETERMINISTIC", CLOCK),
        (
            "SELECT (SELECT current_date) AS r FROM (SELECT a AS current_date FROM t)",
            "INCR_NONDETERMINISTIC",
            CLOCK,
        ),
        ("SELECT user AS r FROM t", "INCR_NONDETERMINISTIC", "literal"),
        (
            "SELECT current_path AS r FROM (SELECT '' AS current_path FROM t)",
            "INCR_NONDETERMINISTIC",
            "literal",
        ),
        ("FROM t |> TABLESAMPLE (50 PERCENT)", "INCR_NONDETERMINISTIC", "condition"),
        ("SELECT current_date AS r FROM t", "INCR_NONDETERMINISTIC", CLOCK),
        ("SELECT curdate() AS r FROM t", "INCR_NONDETERMINISTIC", CLOCK),
        ("SELECT localtimestamp() AS r FROM t", "INCR_NONDETERMINISTIC", CLOCK),
        ("SELECT unix_timestamp() AS r FROM t", "INCR_NONDETERMINISTIC", CLOCK),
        ("SELECT DATE 'today' AS r FROM t", "INCR_NONDETERMINISTIC", CLOCK),
        ("SELECT to_date('today') AS r FROM t", "INCR_NONDETERMINISTIC", CLOCK),
        ("SELECT CAST('now' AS TIMESTAMP_NTZ) AS r FROM t", "INCR_NONDETERMINISTIC", CLOCK),
        (
            "SELECT coalesce(CAST(NULL AS DATE), 'today') AS r FROM t",
            "INCR_NONDETERMINISTIC",
            CLOCK,
        ),
        ("SELECT to_date('to' || 'day') AS r FROM t", "INCR_NONDETERMINISTIC", CLOCK),
        (
            f"SELECT {MANY}, CAST(concat('yesterday', '') AS DATE) AS r FROM t",
            "INCR_NONDETERMINISTIC",
            CLOCK,
        ),
        (
            f"SELECT a, (SELECT max(r) FROM (SELECT {MANY}, DATE'2024-01-01' < 'now' AS r FROM t))"
            " AS r FROM t",
            "INCR_NONDETERMINISTIC",
            CLOCK,
        ),
        ("SELECT current_user() AS r FROM t", "INCR_NONDETERMINISTIC", "literal"),
        ("SELECT session_user AS r FROM t", "INCR_NONDETERMINISTIC", "literal"),
        ("SELECT current_catalog() AS r FROM t", "INCR_NONDETERMINISTIC", "literal"),
        ("SELECT current_schema() AS r FROM t", "INCR_NONDETERMINISTIC", "literal"),
        ("SELECT current_timezone() AS r FROM t", "INCR_NONDETERMINISTIC", "literal"),
        ("SELECT version() AS r FROM t", "INCR_NONDETERMINISTIC", "literal"),
        ("SELECT input_file_name() AS r FROM t", "INCR_NONDETERMINISTIC", "column"),
        ("SELECT monotonically_increasing_id() AS r FROM t", "INCR_NONDETERMINISTIC", "row_number"),
        ("SELECT spark_partition_id() AS r FROM t", "INCR_NONDETERMINISTIC", "row_number"),
        (
            "SELECT aes_encrypt('a', 'abcdefghijklmnop') AS r FROM t",
            "INCR_NONDETERMINISTIC",
            "vector",
        ),
        ("SELECT a FROM t TABLESAMPLE (50 PERCENT)", "INCR_NONDETERMINISTIC", "condition"),
        ("SELECT a FROM t TABLESAMPLE (5 ROWS)", "INCR_NONDETERMINISTIC", "condition"),
        ("SELECT not_deterministic() AS r FROM t", "INCR_NONDETERMINISTIC", "Declare"),
        *(
            (
                f"SELECT t.a, (SELECT max(b) FROM (SELECT b FROM u WHERE {condition} ORDER BY b LIMIT 1)) AS m"
                " FROM t",
                "INCR_UNSUPPORTED",
                "outer FROM",
            )
            for condition in (
                "u.k = t.k || ''",
                "u.k <=> upper(t.k)",
                "NOT (u.k <> upper(t.k))",
                "u.b = CAST(t.a AS BIGINT)",
                "u.k = t.k AND u.b = t.a + 1",
                "u.b = t.a + 0 AND u.b <= t.a",
            )
        ),
        ("SELECT k, first(a) AS f FROM t GROUP BY k", "INCR_NONDETERMINISTIC", "min_by"),
        ("SELECT a FROM IDENTIFIER(left('t', year(now())))", "INCR_UNSUPPORTED", "Write the name"),
        (
            "SELECT TRANSFORM (a) USING 'cat' AS (b STRING) FROM t",
            "INCR_UNSUPPORTED",
            "udtf.register",
        ),
        ("FROM t MAP a USING 'cat' AS (b STRING)", "INCR_UNSUPPORTED", "udtf.register"),
        ("SELECT NULL AS z FROM t INTERSECT SELECT NULL FROM u", "INCR_UNSUPPORTED", "Cast"),
        (
            "SELECT p.a FROM (SELECT NULL AS z, a FROM t) AS p JOIN (SELECT NULL AS z FROM u) AS q"
            " ON p.z <=> q.z",
            "INCR_UNSUPPORTED",
            "Cast",
        ),
        (
            "SELECT k FROM t ORDER BY window(timestamp_seconds(a), '1 hour')",
            "INCR_UNSUPPORTED",
            "subquery",
        ),
        (
            "SELECT session_window(timestamp_seconds(a), '1 hour') AS s FROM t EXCEPT"
            " SELECT session_window(timestamp_seconds(a), '1 hour') AS s FROM t",
            "INCR_UNSUPPORTED",
            "",
        ),
        (
            "SELECT count(*) AS n FROM t GROUP BY CUBE (session_window(timestamp_seconds(a), '1 hour'))",
            "INCR_UNSUPPORTED",
            "each set",
        ),
    ],
)
def test_refusals_say_what_to_do(
    engine: Engine, spark: SparkSession, query: str, condition: str, hint: str
) -> None:
    spark.udf.register("not_deterministic", udf(lambda: 1, "int").asNondeterministic())
    with pytest.raises(IncrementalError) as failure:
        compiled(engine, query)
    assert failure.value.condition == condition
    assert hint in failure.value.hint


def test_variables_of_the_session_are_refused_as_in_views_of_spark(
    engine: Engine, spark: SparkSession
) -> None:
    spark.sql("DECLARE VARIABLE a_number INT DEFAULT 1")
    spark.sql("DECLARE VARIABLE a_name STRING DEFAULT 't'")
    try:
        for query in (
            "SELECT a + a_number AS r FROM t",
            "SELECT a FROM t LIMIT session.a_number",
            "SELECT a, (SELECT max(b) FROM u WHERE u.k = system.session.a_number) AS r FROM t",
            "SELECT a FROM IDENTIFIER(a_name || '')",
        ):
            for policy in ("INCREMENTAL STRICT", "AUTO"):
                with pytest.raises(IncrementalError, match="of one row") as failure:
                    compiled(engine, query, policy)
                assert failure.value.condition == "INCR_SESSION_VARIABLE"
    finally:
        spark.sql("DROP TEMPORARY VARIABLE a_number")
        spark.sql("DROP TEMPORARY VARIABLE a_name")


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("SELECT nosuch(a) AS r FROM t", "UNRESOLVED_ROUTINE"),
        ("SELECT nosuch FROM t", "UNRESOLVED_COLUMN"),
        ("SELECT a FROM nosuch", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT a FRM t WHERE", "PARSE_SYNTAX_ERROR"),
        ("SELECT a, count(*) AS n FROM t", "MISSING_GROUP_BY"),
        ("SELECT a FROM t UNION ALL BY NAME SELECT a FROM t", "PARSE_SYNTAX_ERROR"),
        ("SELECT a FROM t WHERE sum(a) > 1", "INVALID_WHERE_CONDITION"),
        ("SELECT a FROM t UNION SELECT k, b FROM u", "NUM_COLUMNS_MISMATCH"),
    ],
)
def test_what_spark_rejects_is_rejected_in_its_words(engine: Engine, query: str, word: str) -> None:
    with pytest.raises(Exception, match=word) as failure:
        compiled(engine, query)
    assert not isinstance(failure.value, IncrementalError)


class OfRows:
    """The first column of each row."""

    def eval(self, row):  # type: ignore[no-untyped-def]
        yield row[0]


def test_constructs_have_the_tiers_that_the_document_says(
    spark: SparkSession, engine: Engine
) -> None:
    spark.udtf.register("f", udtf(OfRows, returnType="a INT").asDeterministic())
    try:
        for construct in CONSTRUCTS:
            assert compiled(engine, construct.example) == set(construct.tiers), construct.what
    finally:
        spark.sql("DROP TEMPORARY FUNCTION f")


def test_every_statement_is_in_the_document() -> None:
    known = {
        part for kind in get_args(statements.Statement) for part in (get_args(kind) or (kind,))
    }
    assert known == set(STATEMENTS)


def test_the_document_is_up_to_date() -> None:
    path = Path(__file__).parent.parent / "docs" / "sql-support.md"
    assert path.read_text() == document(), "run: python -m spark_incr.support > docs/sql-support.md"


def test_a_view_is_read_in_the_order_of_its_query(spark: SparkSession, tmp_path: Path) -> None:
    spark_incr.enable(spark, state=str(tmp_path))
    try:
        spark.sql("CREATE INCREMENTAL TABLE sorted_rows (id INT, k INT, s STRING)")
        queries = {
            "by_name": "SELECT id, k, s FROM sorted_rows ORDER BY k DESC NULLS LAST, id",
            "by_star": "SELECT * FROM sorted_rows ORDER BY s, id DESC",
            "by_position": "SELECT k, count(*) AS n FROM sorted_rows GROUP BY k ORDER BY 2 DESC, 1",
            "by_item": "SELECT id % 3 AS m, id FROM sorted_rows ORDER BY id % 3, id LIMIT 6000",
            "by_union": "SELECT id FROM sorted_rows UNION ALL SELECT -id FROM sorted_rows ORDER BY id",
        }
        for name, query in queries.items():
            spark.sql(f"CREATE INCREMENTAL VIEW {name} AS {query}")
        for start, count in ((0, 10), (10, 9_000)):
            values = (
                f"SELECT (id * 7919) % {count} + {start}, CASE WHEN id % 5 > 0 THEN id % 7 END, s"
            )
            spark.sql(
                f"INSERT INTO sorted_rows {values} FROM range({count}) LATERAL VIEW explode(array('a', NULL)) AS s"
            )
            for name, query in queries.items():
                expected = spark.sql(query).collect()
                assert spark.sql(f"SELECT * FROM {name}").collect() == expected, name
                assert spark.table(name).collect() == expected, name
                read = spark_incr.engine(spark).view(name).to_arrow().to_pylist()
                assert read == [row.asDict() for row in expected], name
        (status,) = spark.sql(
            "CREATE INCREMENTAL VIEW partly AS SELECT k FROM sorted_rows ORDER BY k, id % 3"
        ).collect()
        note = "rows are read without ORDER BY id % 3: it is no column of the view"
        assert status[0] == f"created view partly; {note}"
        explained = spark.sql("EXPLAIN INCREMENTAL VIEW partly").collect()
        assert explained[-1][0] == f"order: {note}"
        ordered = [row.k for row in spark.table("partly").collect()]
        assert ordered == sorted(ordered, key=lambda k: (k is not None, k))
    finally:
        spark_incr.disable(spark)


def test_explain_says_what_goes_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    spark_incr.enable(spark, state=str(tmp_path))
    try:
        spark.sql("CREATE INCREMENTAL TABLE explained (id INT, s STRING)")
        create = "CREATE INCREMENTAL VIEW e AS SELECT id + 1 AS a, md5(s) AS m FROM explained"
        lines = [row.plan for row in spark.sql(f"EXPLAIN {create} WHERE s RLIKE 'a.b'").collect()]
        marked = [line.split("by Spark")[1].strip() for line in lines if "by Spark" in line]
        assert marked == ["`s` RLIKE 'a.b'", "MD5(`s`)"]
    finally:
        spark_incr.disable(spark)
