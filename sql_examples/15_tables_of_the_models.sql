-- The tables that the model files in sql_examples/models read:
--   spark-incr sql sql_examples/15_tables_of_the_models.sql --state ./models
--   spark-incr run sql_examples/models --state ./models
CREATE INCREMENTAL TABLE customers (id BIGINT, country STRING, PRIMARY KEY (id));
CREATE INCREMENTAL TABLE orders (
  id BIGINT, customer_id BIGINT, ordered_at TIMESTAMP, amount DECIMAL(10,2), status STRING, PRIMARY KEY (id));

INSERT INTO customers VALUES (1, 'FR'), (2, 'DE'), (3, 'FR');
INSERT INTO orders VALUES
  (1, 1, TIMESTAMP '2024-05-01 10:00:00', 12.50, 'paid'),
  (2, 2, TIMESTAMP '2024-05-01 11:30:00', 99.00, 'paid'),
  (3, 3, TIMESTAMP '2024-05-02 09:15:00', 0.50, 'paid'),
  (4, 1, TIMESTAMP '2024-05-03 18:45:00', 40.00, 'returned');

CREATE INCREMENTAL VIEW spent AS
SELECT c.country, count(*) AS orders, sum(o.amount) AS amount
FROM orders AS o JOIN customers AS c ON c.id = o.customer_id GROUP BY c.country;
UPDATE orders SET status = 'returned' WHERE id = 2;
DELETE FROM orders WHERE id = 4;

SELECT * FROM spent ORDER BY country;
