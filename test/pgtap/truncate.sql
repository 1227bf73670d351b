-- TRUNCATE of a fenced table is refused while enforcement is on: it carries no token and would forget marks.

\ir include/refusal.sql
SET client_min_messages = warning;
SELECT plan(21);

CREATE TABLE t (id int PRIMARY KEY);
CREATE TABLE orders (id int);
CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t);
CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);
CREATE TABLE p_1_1 PARTITION OF p_1 FOR VALUES FROM (0) TO (10);
CREATE TABLE plain (id int);
SELECT fencing.fence('t'), fencing.fence('orders', 'order:{id}', 'resource'), fencing.fence('p');
CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (10) TO (20);
INSERT INTO t VALUES (1, 5);
INSERT INTO p VALUES (1, 5), (11, 5);
INSERT INTO plain VALUES (1);
SELECT unnest(ARRAY[
	is((r).state, 'ZF002', 'a row mark'), is((r).message, 'cannot truncate fenced table "t"', 'message'), isnt((r).hint, '', 'HINT'),
	is((r).schema_name || '.' || (r).table_name, 'public.t', 'fields')])
FROM refusal('TRUNCATE t, child') AS r;
SELECT is(outcome('TRUNCATE orders'), 'ZF002', 'a resource mark');
SELECT is(outcome('TRUNCATE plain, orders'), 'ZF002', 'one among several tables');
SELECT is((SELECT count(*) FROM plain), 1::bigint, 'stops all of them');
SELECT is(outcome('TRUNCATE t CASCADE'), 'ZF002', 'with CASCADE');
SELECT is(outcome('TRUNCATE p'), 'ZF002', 'a partitioned table');
SELECT is(outcome('TRUNCATE ONLY p'), '42809', 'of which there is no ONLY');
SELECT is(outcome('TRUNCATE p_1'), 'ZF002', 'a partition');
SELECT is(outcome('TRUNCATE p_1_1'), 'ZF002', 'a sub-partition');
SELECT is(outcome('SELECT fencing.present(''t:1'', 9); TRUNCATE t, child'), 'ZF002', 'presented tokens are not for TRUNCATE');
SELECT fencing.fence('p');
SELECT is(outcome('TRUNCATE p_2'), 'ZF002', 'a partition that came later, after fence() was called again');
SELECT is((SELECT count(*) FROM t) + (SELECT count(*) FROM p), 3::bigint, 'every row is there');
CREATE TABLE parent (id int PRIMARY KEY);
ALTER TABLE t ADD parent int REFERENCES parent;
SELECT is(outcome('TRUNCATE parent CASCADE'), 'ZF002', 'a table that references one that is truncated with CASCADE');
-- shadow and off
SELECT fencing.fence('orders', 'order:{id}', 'resource', shadow => true);
SELECT is(outcome('TRUNCATE orders'), 'ok', 'a fence in shadow mode lets it pass');
SELECT fencing.fence('p', shadow => true);
SELECT is(outcome('TRUNCATE p'), 'ok', 'also of a partitioned table');
SELECT fencing.fence('p');
SET fencing.enforcement = shadow;
SELECT is(outcome('TRUNCATE p_1'), 'ok', 'so does a session in shadow mode');
SET fencing.enforcement = off;
SELECT is(outcome('TRUNCATE t, child'), 'ok', 'and enforcement off');
RESET fencing.enforcement;
SELECT is((SELECT count(*) FROM t), 0::bigint, 'which empties the table');
SELECT * FROM finish();
