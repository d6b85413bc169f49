-- Distinct counts and FILTER: several aggregates over different rows of the same groups, in one
-- stage. A value leaves count(DISTINCT ...) when its last row goes.
--
-- Look at: `visitors` of /home, which a second visit by the same person does not change, neither
-- when it comes nor when it goes; and the view's HAVING, which lets groups in and out.

CREATE INCREMENTAL TABLE visits (page STRING, person INT, seconds INT, paid BOOLEAN);

CREATE INCREMENTAL VIEW pages AS
SELECT page,
       count(*) AS hits,
       count(DISTINCT person) AS visitors,
       count(DISTINCT person) FILTER (WHERE paid) AS payers,
       sum(seconds) FILTER (WHERE NOT paid) AS free_seconds,
       count_if(seconds > 60) AS long_ones,
       bool_or(paid) AS any_paid
FROM visits
GROUP BY page;

CREATE INCREMENTAL VIEW popular AS
SELECT page, count(DISTINCT person) AS visitors
FROM visits
GROUP BY page
HAVING count(DISTINCT person) >= 2;

CREATE INCREMENTAL VIEW people AS
SELECT DISTINCT person FROM visits WHERE seconds >= 10;

INSERT INTO visits VALUES
  ('/home', 1, 5, false), ('/home', 1, 70, false), ('/home', 2, 12, true),
  ('/shop', 2, 300, true), ('/help', 3, 15, NULL);
SELECT * FROM pages ORDER BY page;
SELECT * FROM popular ORDER BY page;
SELECT * FROM people ORDER BY person;

DELETE FROM visits WHERE page = '/home' AND seconds = 5;
SELECT * FROM pages ORDER BY page;

UPDATE visits SET person = 4 WHERE page = '/home' AND paid;
INSERT INTO visits VALUES ('/shop', 1, 8, false);
DELETE FROM visits WHERE person = 1 AND page = '/home';
SELECT * FROM pages ORDER BY page;
SELECT * FROM popular ORDER BY page;
SELECT * FROM people ORDER BY person;

EXPLAIN INCREMENTAL VIEW pages;
