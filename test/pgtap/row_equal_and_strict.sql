-- Row marks, strict: an equal token is stale too, so each token changes a row once, as in UPDATE … WHERE tok < :token.

\ir include/refusal.sql
SELECT plan(17);

CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
SELECT fencing.fence('t', token_column => 'tok', strict => true);
INSERT INTO t VALUES (1, 'a', 10), (2, 'a', 10);
SELECT is(outcome('UPDATE t SET v = ''b'', tok = 10 WHERE id = 1'), 'ZF001', 'an equal token');
SELECT is(outcome('UPDATE t SET tok = tok'), 'ZF001', 'also by writing the column back');
SELECT is(outcome($$SELECT fencing.present('t:1', 10); UPDATE t SET v = 'b' WHERE id = 1$$), 'ZF001', 'also presented');
SELECT is(outcome($$SELECT fencing.present('t:1', 10); DELETE FROM t WHERE id = 1$$), 'ZF001', 'also for a delete');
SELECT is(outcome('UPDATE t SET v = ''b'', tok = 11'), 'ok', 'a larger one, for many rows');
SELECT is((SELECT count(*) FROM t WHERE tok = 11 AND v = 'b'), 2::bigint, 'changes each of them');
BEGIN;
SELECT fencing.present('t:1', 12);
SELECT is(outcome('UPDATE t SET v = ''c'' WHERE id = 1'), 'ok', 'once');
SELECT is(outcome('UPDATE t SET v = ''d'' WHERE id = 1'), 'ZF001', 'a second time in the transaction is an equal token');
COMMIT;
SELECT results_eq('SELECT v, tok FROM t WHERE id = 1', $$VALUES ('c'::text, 12::bigint)$$, 'the first stands');
SELECT is(outcome('INSERT INTO t VALUES (3, ''n'', 1)'), 'ok', 'a new row takes any token');
SELECT is(outcome('INSERT INTO t VALUES (3, ''n'', 1) ON CONFLICT (id) DO UPDATE SET tok = excluded.tok'), 'ZF001', 'ON CONFLICT meets an equal one');
SELECT is(outcome('INSERT INTO t VALUES (3, ''n'', 2) ON CONFLICT (id) DO UPDATE SET tok = excluded.tok'), 'ok', 'or a larger one');
SELECT is(outcome('INSERT INTO t VALUES (5, ''n'')'), 'ok', 'or none');
SELECT is(outcome('INSERT INTO t VALUES (4, ''n''); UPDATE t SET v = ''m'' WHERE id = 4'), 'ZF002', 'strict changes nothing about writes without a token');
-- strict and skip: seed SQL for everyone
SELECT fencing.fence('t', token_column => 'tok', strict => true, on_stale => 'skip');
SELECT results_eq('UPDATE t SET v = ''s'', tok = 12 WHERE id IN (1, 2) RETURNING id', 'VALUES (2)', 'strict with skip: only the row whose mark is lower');
SELECT results_eq('SELECT id, v, tok FROM t WHERE id IN (1, 2) ORDER BY id', $$VALUES (1, 'c'::text, 12::bigint), (2, 's', 12)$$, 'is changed');
SELECT is_empty('UPDATE t SET v = ''s'', tok = 12 WHERE id IN (1, 2) RETURNING id', 'and a second time none');
SELECT * FROM finish();
