-- A copy of a fenced table is another table: without a fence until it is given one, and then with marks of its own.

\ir include/refusal.sql
SELECT plan(14);

CREATE TABLE t (id int PRIMARY KEY, v text);
SELECT fencing.fence('t');
INSERT INTO t VALUES (1, 'a', 10);
CREATE TABLE t2 (LIKE t INCLUDING ALL);
CREATE TABLE t3 AS TABLE t;
INSERT INTO t2 TABLE t;
SELECT is((SELECT string_agg(relation::text, ',') FROM fencing.fences), 't', 'LIKE and CREATE TABLE AS copy no fence');
SELECT is(outcome('UPDATE t2 SET v = ''b'''), 'ok', 'a copy is not fenced');
-- swapped by name: the view tells
BEGIN;
ALTER TABLE t RENAME TO t_old;
ALTER TABLE t2 RENAME TO t;
COMMIT;
SELECT is((SELECT string_agg(relation::text, ',') FROM fencing.fences), 't_old', 'after a swap the view has the old table');
SELECT is(outcome('UPDATE t SET v = ''c'''), 'ok', 'the new one is not fenced');
SELECT is(outcome('UPDATE t_old SET v = ''c'''), 'ZF002', 'the old one is');
SELECT fencing.fence('t');
SELECT is(outcome('UPDATE t SET v = ''c'''), 'ZF002', 'until it is declared');
SELECT is(outcome('UPDATE t SET v = ''c'', fence_token = 9'), 'ZF001', 'with the marks that were copied');
-- inheritance
CREATE TABLE child () INHERITS (t);
SELECT is(outcome('SELECT fencing.fence(''t'')'), '42809', 'a child that came later: the parent''s fence is not declared again');
SELECT is(outcome('UPDATE ONLY t SET v = ''d'''), 'ZF002', 'but the parent''s own rows are fenced as before');
-- a table rewritten in place keeps fence and marks
DROP TABLE child;
ALTER TABLE t ALTER v TYPE varchar(10);
SELECT is(outcome('UPDATE t SET v = ''e'', fence_token = 9'), 'ZF001', 'ALTER TABLE that rewrites the table');
VACUUM FULL t;
SELECT is(outcome('UPDATE t SET v = ''e'', fence_token = 9'), 'ZF001', 'VACUUM FULL');
CLUSTER t USING t2_pkey;
SELECT is(outcome('UPDATE t SET v = ''e'', fence_token = 9'), 'ZF001', 'CLUSTER');
-- DDL in the session that has written before
ALTER TABLE t ADD note text, DROP v;
SELECT is(outcome('UPDATE t SET note = ''e'', fence_token = 9'), 'ZF001', 'columns come and go');
SELECT is(outcome('UPDATE t SET note = ''e'', fence_token = 11'), 'ok', 'and the holder writes');
SELECT * FROM finish();
