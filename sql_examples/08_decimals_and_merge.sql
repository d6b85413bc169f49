-- Money: decimal sums are exact up to 38 digits, and MERGE brings a ledger up to date with a feed
-- of corrections in one version: all views show it, or none.
--
-- Look at: `balance` to the last digit, the precision of avg, and the account that the MERGE
-- deletes, updates and inserts.

CREATE INCREMENTAL TABLE accounts (
  id BIGINT, owner STRING NOT NULL, currency STRING, balance DECIMAL(38,10), PRIMARY KEY (id)
);

CREATE INCREMENTAL VIEW holdings AS
SELECT currency, count(*) AS accounts, sum(balance) AS balance,
       avg(CAST(balance AS DECIMAL(24,4))) AS mean
FROM accounts
GROUP BY currency;

CREATE INCREMENTAL VIEW in_debt AS
SELECT id, owner, -balance AS owed FROM accounts WHERE balance < 0;

INSERT INTO accounts VALUES
  (1, 'ada', 'EUR', 1000000000000000000.0000000001),
  (2, 'bob', 'EUR', -0.0000000003),
  (3, 'cyd', 'USD', 12.3456789012),
  (4, 'dan', 'USD', NULL);
SELECT * FROM holdings ORDER BY currency;
SELECT * FROM in_debt;

MERGE INTO accounts USING (
  SELECT * FROM VALUES (2, 'bob', 'EUR', 50.0, false), (3, 'cyd', 'USD', 0.0, true),
                       (5, 'eve', 'BRL', 7.77, false) AS f(id, owner, currency, balance, closed)
) AS feed
ON accounts.id = feed.id
WHEN MATCHED AND feed.closed THEN DELETE
WHEN MATCHED THEN UPDATE SET balance = accounts.balance + feed.balance
WHEN NOT MATCHED THEN INSERT (id, owner, currency, balance)
  VALUES (feed.id, feed.owner, feed.currency, feed.balance);
SELECT * FROM accounts ORDER BY id;
SELECT * FROM holdings ORDER BY currency;
SELECT * FROM in_debt;

EXPLAIN INCREMENTAL VIEW holdings;
