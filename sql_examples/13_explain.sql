-- What the engine does for a query, before and after it is created: the plan with tier, lineage
-- and monoids of each stage, and the three SQL texts of a stage: homomorphism, merge and answer.
--
-- Look at: the merge, a FULL OUTER JOIN of the state with the homomorphism of the batch. The
-- answer is evaluated for the keys of the batch only. SHOW CREATE prints what is stored.

CREATE INCREMENTAL TABLE lines (
  order_id BIGINT, product STRING, quantity INT, price DECIMAL(8,2), sold DATE
);
CREATE INCREMENTAL TABLE products (product STRING, category STRING, PRIMARY KEY (product));

EXPLAIN CREATE INCREMENTAL VIEW sales AS
SELECT p.category, count(*) AS n, sum(l.quantity * l.price) AS revenue, max(l.sold) AS last_sold
FROM lines l JOIN products p ON l.product = p.product
WHERE l.quantity > 0
GROUP BY p.category;

CREATE INCREMENTAL VIEW sales
TBLPROPERTIES ('team' = 'reports')
REFRESH POLICY INCREMENTAL STRICT
AS
SELECT p.category, count(*) AS n, sum(l.quantity * l.price) AS revenue, max(l.sold) AS last_sold
FROM lines l JOIN products p ON l.product = p.product
WHERE l.quantity > 0
GROUP BY p.category;

INSERT INTO products VALUES ('pen', 'office'), ('desk', 'office'), ('lamp', 'home');
INSERT INTO lines VALUES
  (1, 'pen', 10, 1.20, DATE'2024-03-01'), (1, 'desk', 1, 249.00, DATE'2024-03-01'),
  (2, 'lamp', 2, 39.90, DATE'2024-03-05'), (3, 'pen', -10, 1.20, DATE'2024-03-07');
SELECT * FROM sales ORDER BY category;

EXPLAIN INCREMENTAL VIEW sales;
EXPLAIN SQL INCREMENTAL VIEW sales;
SHOW CREATE INCREMENTAL VIEW sales;
DESCRIBE INCREMENTAL VIEW EXTENDED sales;

CREATE OR REPLACE INCREMENTAL VIEW sales AS
SELECT product, sum(quantity) AS sold FROM lines GROUP BY product;
SELECT * FROM sales ORDER BY product;
REFRESH INCREMENTAL VIEW sales;
