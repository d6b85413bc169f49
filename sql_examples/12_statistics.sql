-- Statistics and collections: variance, covariance and correlation from sums that merge, exact
-- percentiles and sets from the values that are there.
--
-- Look at: `r` when the outlier is deleted; no residue of it is left in any column.

CREATE INCREMENTAL TABLE trials (lab STRING, dose DOUBLE, effect DOUBLE, tag STRING);

CREATE INCREMENTAL VIEW summary AS
SELECT lab,
       count(*) AS n,
       avg(effect) AS mean,
       stddev_samp(effect) AS deviation,
       var_pop(dose) AS dose_variance,
       covar_samp(dose, effect) AS covariance,
       corr(dose, effect) AS r,
       percentile(effect, array(0.25, 0.5, 0.75)) AS quartiles,
       min_by(tag, effect) AS weakest,
       sort_array(collect_set(tag)) AS tags
FROM trials
GROUP BY lab;

CREATE INCREMENTAL VIEW spread AS
SELECT count(*) AS labs, max(mean) - min(mean) AS distance, sum(DISTINCT n) AS sizes FROM summary;

INSERT INTO trials VALUES
  ('x', 1.0, 2.5, 'low'), ('x', 2.0, 4.5, 'mid'), ('x', 3.0, 6.5, 'high'), ('x', 4.0, 8.5, 'high'),
  ('y', 1.0, 3.0, 'low'), ('y', 5.0, 1.0, 'high');
SELECT * FROM summary ORDER BY lab;
SELECT * FROM spread;

INSERT INTO trials VALUES ('x', 2.5, 1e15, 'outlier'), ('z', 1.0, 1.0, 'low');
SELECT * FROM summary ORDER BY lab;
SELECT * FROM spread;

DELETE FROM trials WHERE tag = 'outlier';
SELECT * FROM summary ORDER BY lab;
SELECT * FROM spread;

EXPLAIN INCREMENTAL VIEW summary;
