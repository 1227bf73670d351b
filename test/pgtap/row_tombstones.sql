-- Row marks outlive their rows: a deleted row's mark goes to fencing.marks, and an INSERT of that name must carry a
-- token that the rule accepts against it.

\ir include/refusal.sql
SELECT plan(37);

CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
SELECT fencing.fence('t', token_column => 'tok');
INSERT INTO t VALUES (1, 'a', 44), (2, 'a', 44), (3, 'a', 0);
SELECT is(outcome($$SELECT fencing.present('t:1', 40); DELETE FROM t WHERE id = 1$$), 'ZF001', 'a stale delete');
SELECT is(outcome($$SELECT fencing.present('t:2', 45); DELETE FROM t WHERE id = 1$$), 'ZF002', 'a delete with another row''s token');
SELECT is_empty('SELECT * FROM fencing.marks', 'leaves no tombstone');
SELECT is(outcome($$SELECT fencing.present('t:1', 45); DELETE FROM t WHERE id = 1$$), 'ok', 'the holder deletes');
SELECT set_eq('SELECT resource, token FROM fencing.marks', $$VALUES ('t:1', 45::bigint)$$, 'the token of the delete is kept under the row''s name');
SELECT is(outcome('INSERT INTO t VALUES (1, ''x'', 43)'), 'ZF001', 'an older writer cannot bring the row back');
SELECT unnest(ARRAY[
	is((r).detail, 'Resource "t:1": token 43 is lower than mark 45.', 'DETAIL has the tombstone''s mark'),
	is((r).table_name, 't', 'table'), is((r).column_name, 'tok', 'column')])
FROM refusal('INSERT INTO t VALUES (1, ''x'', 43)') AS r;
SELECT is(outcome($$SELECT fencing.present('t:1', 43); INSERT INTO t VALUES (1, 'x', 99)$$), 'ZF001', 'nor by presenting, whatever the column says');
SELECT is(outcome('INSERT INTO t VALUES (1, ''x'')'), 'ZF002', 'nor can one without a token');
SELECT is(outcome('INSERT INTO t VALUES (1, ''x'', 43) ON CONFLICT DO NOTHING'), 'ZF001', 'nor with ON CONFLICT DO NOTHING');
SELECT is(outcome('MERGE INTO t USING (VALUES (1)) s (id) ON s.id = t.id WHEN NOT MATCHED THEN INSERT VALUES (1, ''x'', 43)'), 'ZF001', 'nor with MERGE');
SELECT is((SELECT count(*) FROM t WHERE id = 1), 0::bigint, 'the row is not there');
SELECT is(outcome('INSERT INTO t VALUES (1, ''x'', 45)'), 'ok', 'the same holder can');
SELECT is((SELECT tok FROM t WHERE id = 1), 45::bigint, 'with its token');

-- delete and insert again and again
SELECT is(outcome($$SELECT fencing.present('t:1', 46); DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 'y')$$), 'ok', 'delete and insert in one transaction');
SELECT is((SELECT tok FROM t WHERE id = 1), 46::bigint, 'with the presented token');
SELECT is(outcome($$SELECT fencing.present('t:1', 46); DELETE FROM t WHERE id = 1; DELETE FROM t WHERE id = 1$$), 'ok', 'deleted again');
SELECT is(fencing.mark('t:1'), 46::bigint, 'the tombstone has risen');
SELECT is(outcome('INSERT INTO t VALUES (1, ''x'', 50)'), 'ok', 'a newer holder inserts');
SELECT is(outcome($$SELECT fencing.present('t:1', 47); DELETE FROM t WHERE id = 1$$), 'ZF001', 'then the row''s mark counts');
SELECT is(outcome($$SELECT fencing.present('t:1', 50); DELETE FROM t WHERE id = 1$$), 'ok', 'deleted');
SELECT is(fencing.mark('t:1'), 50::bigint, 'a tombstone never falls');

-- rolled back with its delete
BEGIN;
SAVEPOINT s;
SELECT fencing.present('t:2', 60);
DELETE FROM t WHERE id = 2;
ROLLBACK TO s;
COMMIT;
SELECT is(fencing.mark('t:2'), 0::bigint, 'a rolled back delete leaves no tombstone');
SELECT is((SELECT tok FROM t WHERE id = 2), 44::bigint, 'but the row');

-- a row without a mark needs a token too
SELECT is(outcome('DELETE FROM t WHERE id = 3'), 'ZF002', 'a delete without a token');
SELECT is(outcome($$SELECT fencing.present('t:3', 1); DELETE FROM t WHERE id = 3$$), 'ok', 'with any token');
SELECT is(fencing.mark('t:3'), 1::bigint, 'which is the tombstone');

-- a claimed name is a mark for the first insert too
SELECT fencing.claim('t:9', 20);
SELECT is(outcome('INSERT INTO t VALUES (9, ''x'', 19)'), 'ZF001', 'a mark that was claimed before the row exists counts');
SELECT is(outcome('INSERT INTO t VALUES (9, ''x'', 20)'), 'ok', 'for an equal token too');

-- strict
SELECT fencing.fence('t', token_column => 'tok', strict => true);
SELECT is(outcome('INSERT INTO t VALUES (1, ''x'', 50)'), 'ZF001', 'strict: an equal token is stale against a tombstone');
SELECT is(outcome('INSERT INTO t VALUES (1, ''x'', 51)'), 'ok', 'a larger one is not');

-- without tombstones
CREATE TABLE forgetful (id int PRIMARY KEY);
SELECT fencing.fence('forgetful', tombstones => false);
INSERT INTO forgetful VALUES (1, 44);
SELECT is(outcome($$SELECT fencing.present('forgetful:1', 45); DELETE FROM forgetful$$), 'ok', 'tombstones => false');
SELECT is(fencing.mark('forgetful:1'), 0::bigint, 'leaves none');
SELECT is(outcome('INSERT INTO forgetful VALUES (1, 43)'), 'ok', 'and asks for none');
SELECT is(outcome($$SELECT fencing.present('forgetful:1', 42); DELETE FROM forgetful$$), 'ZF001', 'the row''s mark counts all the same');
SELECT * FROM finish();
