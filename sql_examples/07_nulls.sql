-- NULL, NaN and infinities, as Spark has them: NULL keys form one group, NULL values are left out
-- of aggregates, NULL never equals NULL in a join, and a sum that met NaN recovers when it goes.
--
-- Look at: the group NULL; `total` of 'b' before and after its NaN is deleted; the joined rows.

CREATE INCREMENTAL TABLE points (k STRING, v DOUBLE);
CREATE INCREMENTAL TABLE labels (k STRING, label STRING);

CREATE INCREMENTAL VIEW totals AS
SELECT k, count(*) AS n, count(v) AS present, sum(v) AS total, max(v) AS top
FROM points
GROUP BY k;

CREATE INCREMENTAL VIEW whole AS
SELECT count(*) AS n, sum(v) AS total, min(k) AS first_key FROM points;

CREATE INCREMENTAL VIEW labelled AS
SELECT p.k, l.label, p.v FROM points p JOIN labels l ON p.k = l.k;

CREATE INCREMENTAL VIEW labelled_null_safe AS
SELECT coalesce(l.label, 'none') AS label, count(*) AS n
FROM points p JOIN labels l ON p.k <=> l.k
GROUP BY coalesce(l.label, 'none');

SELECT * FROM whole;

INSERT INTO points VALUES
  ('a', 1.5), ('a', NULL), (NULL, 2.0), (NULL, NULL), ('b', double('NaN')), ('b', 0.1),
  ('c', double('Infinity')), ('c', NULL);
INSERT INTO labels VALUES ('a', 'alpha'), (NULL, 'nobody'), ('b', NULL);
SELECT * FROM totals ORDER BY k;
SELECT * FROM whole;
SELECT * FROM labelled ORDER BY k, v;
SELECT * FROM labelled_null_safe ORDER BY label;

DELETE FROM points WHERE isnan(v) OR v = double('Infinity');
SELECT * FROM totals ORDER BY k;
SELECT * FROM whole;

DELETE FROM points WHERE k IS NULL;
UPDATE points SET v = NULL WHERE k = 'a';
SELECT * FROM totals ORDER BY k;

DELETE FROM points;
SELECT * FROM whole;
