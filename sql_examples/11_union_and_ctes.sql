-- UNION ALL and CTEs: two kinds of movements make one stock, a CTE that is used twice is read
-- twice, and types that differ are widened as Spark widens them.
--
-- Look at: `stock` when goods come and go in one statement after the other, and the share of each
-- item in its warehouse, where a total of the CTE is joined back to its parts.

CREATE INCREMENTAL TABLE arrivals (warehouse STRING, item STRING, pieces INT);
CREATE INCREMENTAL TABLE shipments (warehouse STRING, item STRING, pieces BIGINT);

CREATE INCREMENTAL VIEW stock AS
SELECT warehouse, item, sum(pieces) AS pieces, count(*) AS movements
FROM (
  SELECT warehouse, item, pieces FROM arrivals
  UNION ALL
  SELECT warehouse, item, -pieces FROM shipments
) AS movements
GROUP BY warehouse, item
HAVING sum(pieces) <> 0;

CREATE INCREMENTAL VIEW shares AS
WITH parts AS (
  SELECT warehouse, item, sum(pieces) AS pieces FROM arrivals GROUP BY warehouse, item
), totals AS (
  SELECT warehouse, sum(pieces) AS total, count(*) AS items FROM parts GROUP BY warehouse
)
SELECT p.warehouse, p.item, p.pieces, t.total, round(100.0 * p.pieces / t.total, 1) AS percent
FROM parts p JOIN totals t USING (warehouse)
WHERE t.total > 0;

INSERT INTO arrivals VALUES
  ('north', 'bolt', 500), ('north', 'nut', 300), ('south', 'bolt', 40), ('south', 'washer', NULL);
SELECT * FROM stock ORDER BY warehouse, item;
SELECT * FROM shares ORDER BY warehouse, item;

INSERT INTO shipments VALUES ('north', 'bolt', 500), ('north', 'nut', 20), ('south', 'cable', 3);
SELECT * FROM stock ORDER BY warehouse, item;

INSERT INTO arrivals VALUES ('south', 'cable', 13), ('north', 'bolt', 1);
DELETE FROM shipments WHERE item = 'nut';
SELECT * FROM stock ORDER BY warehouse, item;
SELECT * FROM shares ORDER BY warehouse, item;

EXPLAIN INCREMENTAL VIEW shares;
