--
-- COPY follows the rules of INSERT
--
CREATE TABLE stock (id int PRIMARY KEY, quantity int);
SELECT fencing.fence('stock', 'sku:{id}');
CREATE TABLE orders (id int, note text);
SELECT fencing.fence('orders', 'order:{id}', mark => 'resource');
-- rows without a token, rows with one in the column, rows with a presented one
COPY stock (id, quantity) FROM stdin;
1	10
2	20
\.
COPY stock FROM stdin;
3	30	5
4	40	0
\.
BEGIN;
SELECT fencing.present('sku:6', 9);
COPY stock FROM stdin;
5	50	7
6	60	7
\.
COMMIT;
SELECT * FROM stock ORDER BY id;
-- one stale row among several: a tombstone stops all
BEGIN;
SELECT fencing.present('sku:6', 12);
DELETE FROM stock WHERE id = 6;
COMMIT;
COPY stock FROM stdin;
7	70	5
6	60	11
8	80	5
\.
-- nor may one without a token pass
COPY stock (id, quantity) FROM stdin;
7	70
6	60
\.
-- in skip mode it is left out, and not counted
SELECT fencing.fence('stock', 'sku:{id}', on_stale => 'skip');
\set QUIET off
COPY stock FROM stdin;
7	70	5
6	60	11
8	80	5
\.
\set QUIET on
COPY stock FROM stdin WHERE id > 6;
6	60	1
9	90	5
\.
SELECT * FROM stock WHERE id > 5 ORDER BY id;
-- resource marks
COPY orders FROM stdin;
1	a
\.
SET fencing.tokens = 'order:1=5, order:2=6';
COPY orders FROM stdin;
1	a
2	b
1	c
\.
COPY orders FROM stdin;
2	b
3	c
\.
SET fencing.tokens = 'order:1=4, order:2=6';
COPY orders FROM stdin;
2	b
1	c
\.
SELECT * FROM orders ORDER BY id, note;
SELECT resource, token FROM fencing.marks ORDER BY resource;
RESET fencing.tokens;
-- a partitioned table
CREATE TABLE events (id int, day int, PRIMARY KEY (id, day)) PARTITION BY LIST (day);
CREATE TABLE events_1 PARTITION OF events FOR VALUES IN (1);
CREATE TABLE events_2 (day int NOT NULL, id int NOT NULL);
ALTER TABLE events ATTACH PARTITION events_2 FOR VALUES IN (2);
SELECT fencing.fence('events', 'event:{id}:{day}');
SET fencing.tokens = 'event:2:2=8';
COPY events (id, day, fence_token) FROM stdin;
1	1	3
1	2	4
2	2	5
\.
RESET fencing.tokens;
SELECT tableoid::regclass, id, day, fence_token FROM events ORDER BY id, day;
-- COPY TO shows the marks
COPY (SELECT * FROM stock ORDER BY id LIMIT 3) TO stdout;
DROP TABLE stock, orders, events;
DELETE FROM fencing.marks;
