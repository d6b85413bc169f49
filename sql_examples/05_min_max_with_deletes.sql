-- min and max have no inverse: when the maximum is deleted, the next one must be known. The view
-- keeps the values of each group with their weights, so no table is read again.
--
-- Look at: `top` after each DELETE, the tie that a single delete does not end, the group that
-- becomes empty and comes back, and the tier `multiset` in EXPLAIN.

CREATE INCREMENTAL TABLE bids (lot INT, bidder STRING, bid DECIMAL(9,2), at TIMESTAMP);

CREATE INCREMENTAL VIEW standing AS
SELECT lot, max(bid) AS top, min(bid) AS opening, max_by(bidder, bid) AS leader,
       median(bid) AS middle, count(*) AS bids
FROM bids
GROUP BY lot;

INSERT INTO bids VALUES
  (1, 'ada', 10.00, TIMESTAMP'2024-05-01 10:00:00'),
  (1, 'bob', 12.50, TIMESTAMP'2024-05-01 10:01:00'),
  (1, 'cyd', 15.00, TIMESTAMP'2024-05-01 10:02:00'),
  (2, 'ada', 99.00, TIMESTAMP'2024-05-01 10:03:00'),
  (2, 'ada', 99.00, TIMESTAMP'2024-05-01 10:03:00');
SELECT * FROM standing ORDER BY lot;

DELETE FROM bids WHERE bidder = 'cyd';
SELECT * FROM standing ORDER BY lot;

INSERT INTO bids VALUES (2, 'ada', 99.00, TIMESTAMP'2024-05-01 10:04:00');
DELETE FROM bids WHERE lot = 2 AND at = TIMESTAMP'2024-05-01 10:04:00';
SELECT * FROM standing ORDER BY lot;

DELETE FROM bids WHERE lot = 1;
SELECT * FROM standing ORDER BY lot;

INSERT INTO bids VALUES (1, 'dan', 1.00, TIMESTAMP'2024-05-02 09:00:00');
SELECT * FROM standing ORDER BY lot;

EXPLAIN INCREMENTAL VIEW standing;
