-- A first view: one row per customer, kept exact by every INSERT, UPDATE and DELETE.
-- Run it with: spark-incr sql sql_examples/01_group_by.sql --state /tmp/examples_01
--
-- Look at: the view's rows after each change; bob leaves the view with his last order.

CREATE INCREMENTAL TABLE orders (
  id BIGINT, customer STRING, amount DECIMAL(10,2), PRIMARY KEY (id)
);

CREATE INCREMENTAL VIEW revenue AS
SELECT customer, count(*) AS n, sum(amount) AS total, avg(amount) AS mean, max(amount) AS top
FROM orders
GROUP BY customer;

INSERT INTO orders VALUES (1, 'ada', 10.00), (2, 'bob', 5.50), (3, 'ada', 2.25);
SELECT * FROM revenue ORDER BY customer;

UPDATE orders SET amount = amount + 1 WHERE customer = 'ada';
SELECT * FROM revenue ORDER BY customer;

DELETE FROM orders WHERE id = 2;
SELECT * FROM revenue ORDER BY customer;

SHOW INCREMENTAL VIEWS;
