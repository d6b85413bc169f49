-- A graph: paths of two edges and triangles are self-joins, where one new edge is news on both
-- sides at once, and may join itself.
--
-- Look at: the loop (5, 5), which is a path of its own; the triangle that one DELETE opens; and
-- the three scans of one table in EXPLAIN.

CREATE INCREMENTAL TABLE edges (src INT, dst INT);

CREATE INCREMENTAL VIEW two_steps AS
SELECT a.src, b.dst, count(*) AS ways
FROM edges a JOIN edges b ON a.dst = b.src
GROUP BY a.src, b.dst;

CREATE INCREMENTAL VIEW triangles AS
SELECT a.src AS x, b.src AS y, c.src AS z
FROM edges a
JOIN edges b ON a.dst = b.src
JOIN edges c ON b.dst = c.src AND c.dst = a.src
WHERE a.src < b.src AND a.src < c.src;

CREATE INCREMENTAL VIEW steeper AS
SELECT a.src, a.dst AS low, b.dst AS high
FROM edges a JOIN edges b ON a.src = b.src AND a.dst < b.dst;

INSERT INTO edges VALUES (1, 2), (2, 3), (3, 1), (1, 3), (3, 4), (5, 5);
SELECT * FROM two_steps ORDER BY src, dst;
SELECT * FROM triangles ORDER BY x, y, z;
SELECT * FROM steeper ORDER BY src, low, high;

INSERT INTO edges VALUES (4, 1), (1, 2);
SELECT * FROM two_steps ORDER BY src, dst;
SELECT * FROM triangles ORDER BY x, y, z;

DELETE FROM edges WHERE src = 3 AND dst = 1;
SELECT * FROM triangles ORDER BY x, y, z;

UPDATE edges SET dst = 5 WHERE src = 2;
SELECT * FROM two_steps ORDER BY src, dst;
SELECT * FROM steeper ORDER BY src, low, high;

EXPLAIN INCREMENTAL VIEW triangles;
