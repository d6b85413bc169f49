-- Views without any state of their own: WHERE and expressions are linear, so the change of such a
-- view is the view of the change. A view is a bag: equal rows are kept as often as they occur.
--
-- Look at: EXPLAIN (no operator has state), and the equal rows of `monthly_class`.

CREATE INCREMENTAL TABLE readings (sensor STRING, taken DATE, celsius DOUBLE);

CREATE INCREMENTAL VIEW hot
COMMENT 'readings above 30 degrees, in Fahrenheit'
AS
SELECT upper(sensor) AS sensor, taken, celsius * 9 / 5 + 32 AS fahrenheit
FROM readings
WHERE celsius > 30;

CREATE INCREMENTAL VIEW monthly_class AS
SELECT year(taken) AS y, month(taken) AS m,
       CASE WHEN celsius < 0 THEN 'frost' WHEN celsius > 30 THEN 'heat' ELSE 'mild' END AS class
FROM readings
WHERE celsius IS NOT NULL;

INSERT INTO readings VALUES
  ('roof', DATE'2024-07-01', 31.5), ('roof', DATE'2024-07-02', 35.0),
  ('cellar', DATE'2024-07-01', 14.0), ('gate', DATE'2024-01-09', -7.25),
  ('gate', DATE'2024-01-10', NULL);
SELECT * FROM hot ORDER BY taken;
SELECT * FROM monthly_class ORDER BY y, m, class;

UPDATE readings SET celsius = 30.0 WHERE sensor = 'roof' AND taken = DATE'2024-07-01';
SELECT * FROM hot ORDER BY taken;
SELECT * FROM monthly_class ORDER BY y, m, class;

EXPLAIN INCREMENTAL VIEW hot;
DESCRIBE INCREMENTAL VIEW EXTENDED hot;
