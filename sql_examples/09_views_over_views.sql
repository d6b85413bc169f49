-- Views over views, and aggregates over aggregates: a view's change is a batch for the views that
-- read it. Correcting one order moves a customer from one class to another, and that is all that
-- the upper views hear of.
--
-- Look at: `classes` after each change, and what DROP ... CASCADE takes along.

CREATE INCREMENTAL TABLE orders (id BIGINT, customer STRING, amount DECIMAL(10,2), PRIMARY KEY (id));
CREATE INCREMENTAL TABLE customers (name STRING, country STRING, PRIMARY KEY (name));

CREATE INCREMENTAL VIEW spending AS
SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer;

CREATE INCREMENTAL VIEW classes AS
SELECT CASE WHEN total >= 100 THEN 'gold' WHEN total >= 20 THEN 'silver' ELSE 'new' END AS class,
       count(*) AS customers, max(total) AS best
FROM spending
GROUP BY CASE WHEN total >= 100 THEN 'gold' WHEN total >= 20 THEN 'silver' ELSE 'new' END;

CREATE INCREMENTAL VIEW by_country AS
SELECT c.country, count(*) AS buyers, avg(s.n) AS orders_each, max(s.total) AS best
FROM spending s JOIN customers c ON s.customer = c.name
GROUP BY c.country;

CREATE INCREMENTAL VIEW best_country AS
SELECT max(best) AS best, max_by(country, best) AS country FROM by_country;

INSERT INTO customers VALUES ('ada', 'FR'), ('bob', 'FR'), ('cyd', 'JP');
INSERT INTO orders VALUES
  (1, 'ada', 80.00), (2, 'ada', 15.00), (3, 'bob', 5.00), (4, 'cyd', 30.00), (5, 'cyd', 40.00);
SELECT * FROM spending ORDER BY customer;
SELECT * FROM classes ORDER BY class;
SELECT * FROM by_country ORDER BY country;
SELECT * FROM best_country;

UPDATE orders SET amount = 20.00 WHERE id = 2;
SELECT * FROM classes ORDER BY class;

DELETE FROM orders WHERE customer = 'ada';
UPDATE customers SET country = 'JP' WHERE name = 'bob';
SELECT * FROM classes ORDER BY class;
SELECT * FROM by_country ORDER BY country;
SELECT * FROM best_country;

SHOW INCREMENTAL VIEWS;
DROP INCREMENTAL VIEW by_country CASCADE;
SHOW INCREMENTAL VIEWS;
