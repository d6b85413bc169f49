-- The join-group-by of the benchmarks: an average over a many-to-many join. A new row meets the
-- rows that the other table holds already, and the new ones of the same batch once.
--
-- Look at: EXPLAIN. The join keeps both tables indexed by the join key; the average above it never
-- sees a joined row again once its weight is added.

CREATE INCREMENTAL TABLE s1 (a INT, b INT);
CREATE INCREMENTAL TABLE s2 (c INT, d INT);

CREATE INCREMENTAL VIEW mean_by_a AS
SELECT s1.a, avg(s2.d) AS mean
FROM s1 JOIN s2 ON s1.b = s2.c
GROUP BY s1.a;

INSERT INTO s1 SELECT CAST(id % 40 AS INT), CAST(id % 25 AS INT) FROM range(500);
SELECT count(*) AS keys FROM mean_by_a;

INSERT INTO s2 SELECT CAST(id % 30 AS INT), CAST(id * 31 % 1000 AS INT) FROM range(300);
SELECT * FROM mean_by_a ORDER BY a LIMIT 5;

DELETE FROM s2 WHERE c = 7;
UPDATE s1 SET a = a + 100 WHERE b = 3;
SELECT * FROM mean_by_a ORDER BY a DESC LIMIT 5;

EXPLAIN INCREMENTAL VIEW mean_by_a;
