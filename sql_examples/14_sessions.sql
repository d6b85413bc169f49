-- A demanding one: daily figures of a web shop from three tables. A CTE per visit, a join with
-- the orders of the visit, and two aggregates above each other, all maintained at once.
--
-- Look at: how a single late event changes one day and one channel, and nothing else; the view of
-- funnels, in which every column is an aggregate over its own condition.

CREATE INCREMENTAL TABLE events (visit BIGINT, person STRING, kind STRING, at TIMESTAMP);
CREATE INCREMENTAL TABLE purchases (id BIGINT, visit BIGINT, amount DECIMAL(10,2), PRIMARY KEY (id));
CREATE INCREMENTAL TABLE sources (visit BIGINT, channel STRING, PRIMARY KEY (visit));

CREATE INCREMENTAL VIEW visits AS
SELECT visit,
       min(at) AS began,
       max(at) AS ended,
       count(*) AS events,
       count(DISTINCT kind) AS kinds,
       count_if(kind = 'cart') > 0 AS carted
FROM events
GROUP BY visit;

CREATE INCREMENTAL VIEW daily AS
WITH paid AS (
  SELECT visit, count(*) AS orders, sum(amount) AS amount FROM purchases GROUP BY visit
), known AS (
  SELECT v.visit, CAST(v.began AS DATE) AS day, v.events, s.channel
  FROM visits v JOIN sources s ON v.visit = s.visit
)
SELECT k.day, k.channel, count(*) AS buying_visits, sum(p.orders) AS orders,
       sum(p.amount) AS amount, max(p.amount) AS largest, avg(k.events) AS events_each
FROM known k JOIN paid p ON k.visit = p.visit
GROUP BY k.day, k.channel;

CREATE INCREMENTAL VIEW funnel AS
SELECT s.channel,
       count(*) AS visits,
       count(*) FILTER (WHERE v.events > 1) AS engaged,
       count(*) FILTER (WHERE v.carted) AS carted,
       max(v.ended) AS last_seen
FROM visits v JOIN sources s ON v.visit = s.visit
GROUP BY s.channel;

INSERT INTO sources VALUES (1, 'mail'), (2, 'search'), (3, 'search'), (4, 'mail');
INSERT INTO events VALUES
  (1, 'ada', 'view', TIMESTAMP'2024-06-01 09:00:00'), (1, 'ada', 'cart', TIMESTAMP'2024-06-01 09:02:00'),
  (2, 'bob', 'view', TIMESTAMP'2024-06-01 11:00:00'), (2, 'bob', 'view', TIMESTAMP'2024-06-01 11:05:00'),
  (3, 'cyd', 'view', TIMESTAMP'2024-06-02 00:10:00'), (3, 'cyd', 'cart', TIMESTAMP'2024-06-02 00:12:00'),
  (4, 'ada', 'view', TIMESTAMP'2024-06-02 20:00:00');
INSERT INTO purchases VALUES (100, 1, 25.00), (101, 1, 5.50), (102, 3, 80.00);
SELECT * FROM daily ORDER BY day, channel;
SELECT * FROM funnel ORDER BY channel;

-- an event that comes late moves visit 3 to the day before
INSERT INTO events VALUES (3, 'cyd', 'view', TIMESTAMP'2024-06-01 23:58:00');
SELECT * FROM daily ORDER BY day, channel;

-- returned goods, a corrected channel, a visit that was a robot's
DELETE FROM purchases WHERE id = 101;
UPDATE sources SET channel = 'mail' WHERE visit = 3;
DELETE FROM events WHERE visit = 2;
SELECT * FROM daily ORDER BY day, channel;
SELECT * FROM funnel ORDER BY channel;

EXPLAIN INCREMENTAL VIEW daily;
