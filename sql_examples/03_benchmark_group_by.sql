-- The group-by of the benchmarks: pairs of ints, an average per key. Here with 20,000 rows that
-- Spark makes up; benchmarks/group_by.py runs the same view with a million.
--
-- Look at: EXPLAIN. The average is kept as a sum and a count, whose merge is addition; only keys
-- that a batch touches are looked up, and only their averages are derived anew.

CREATE INCREMENTAL TABLE s (x INT, y INT);

INSERT INTO s
SELECT CAST(id * 7919 % 200 AS INT) AS x, CAST(id * 104729 % 10000 AS INT) AS y FROM range(20000);

CREATE INCREMENTAL VIEW mean_by_x AS
SELECT x, avg(y) AS mean FROM s GROUP BY x;

SELECT count(*) AS keys, min(mean) AS low, max(mean) AS high FROM mean_by_x;

INSERT INTO s SELECT CAST(id % 250 AS INT), CAST(id AS INT) FROM range(1000);
SELECT * FROM mean_by_x WHERE x IN (0, 1, 199, 249) ORDER BY x;

DELETE FROM s WHERE x >= 200;
SELECT count(*) AS keys, min(mean) AS low, max(mean) AS high FROM mean_by_x;

EXPLAIN INCREMENTAL VIEW mean_by_x;
