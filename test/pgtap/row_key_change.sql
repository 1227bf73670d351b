-- Row marks: an UPDATE that gives a row another resource's name is a delete of the old name and an insert of the new.

\ir include/refusal.sql
\set VERBOSITY terse
SELECT plan(41);

CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
SELECT fencing.fence('t', token_column => 'tok');
INSERT INTO t VALUES (1, 'a', 44);
SELECT is(outcome('UPDATE t SET id = 2'), 'ZF002', 'without a token');
SELECT is(outcome('UPDATE t SET id = 2, tok = 43'), 'ZF001', 'with a stale one');
SELECT is(outcome($$SELECT fencing.present('t:2', 50); UPDATE t SET id = 2$$), 'ZF002', 'a token for the new name alone is none for the old one');
SELECT is_empty('SELECT * FROM fencing.marks', 'no refusal left a tombstone');

SELECT is(outcome('UPDATE t SET id = 2, tok = 45'), 'ok', 'the token in the column counts for both names');
SELECT results_eq('SELECT id, tok FROM t', 'VALUES (2, 45::bigint)', 'the row has its new name and the token');
SELECT set_eq('SELECT resource, token FROM fencing.marks', $$VALUES ('t:1', 45::bigint)$$, 'the old name has a tombstone, the new one has none');
SELECT is(outcome('INSERT INTO t VALUES (1, ''x'', 43)'), 'ZF001', 'which keeps older writers out');

-- back to a name with a tombstone
SELECT is(outcome($$SELECT fencing.present('t:2', 46); UPDATE t SET id = 1$$), 'ZF002', 'a new name with a tombstone needs a token');
SELECT is(outcome($$SELECT fencing.present(ARRAY['t:2', 't:1'], ARRAY[46, 44]); UPDATE t SET id = 1$$), 'ZF001', 'that is not stale');
SELECT is((SELECT (r).detail FROM refusal($$SELECT fencing.present(ARRAY['t:2', 't:1'], ARRAY[46, 44]); UPDATE t SET id = 1$$) AS r),
	'Resource "t:1": token 44 is lower than mark 45.', 'the error names the new name');
SELECT is(outcome($$SELECT fencing.present(ARRAY['t:2', 't:1'], ARRAY[46, 45]); UPDATE t SET id = 1$$), 'ok', 'with both');
SELECT results_eq('SELECT id, tok FROM t', 'VALUES (1, 45::bigint)', 'the row has the token of its new name');
SELECT is(fencing.mark('t:2'), 46::bigint, 'the old name''s tombstone the token of the old one');

-- a new name without any mark needs no token, as an insert
SELECT is(outcome($$SELECT fencing.present('t:1', 47); UPDATE t SET id = 5$$), 'ok', 'a token for the old name, none for the new one');
SELECT results_eq('SELECT id, tok FROM t', 'VALUES (5, 0::bigint)', 'a new row without a mark');
SELECT is(fencing.mark('t:1'), 47::bigint, 'the old name keeps its own');

-- the row's own name, written again
SELECT is(outcome('UPDATE t SET id = id, tok = 48'), 'ok', 'setting the key to what it is');
SELECT is(fencing.mark('t:5'), 0::bigint, 'is no change of name');

-- there and back in one transaction
BEGIN;
SELECT fencing.present(ARRAY['t:5', 't:6'], ARRAY[50, 50]);
UPDATE t SET id = 6;
UPDATE t SET id = 5;
COMMIT;
SELECT results_eq('SELECT id, tok FROM t', 'VALUES (5, 50::bigint)', 'there and back');
SELECT is(outcome('UPDATE t SET v = ''z'', tok = 50'), 'ok', 'the row can be written');
SELECT is(outcome('INSERT INTO t VALUES (6, ''x'', 49)'), 'ZF001', 'the name between has a tombstone');

-- a savepoint takes the tombstone back
BEGIN;
SAVEPOINT s;
UPDATE t SET id = 7, tok = 60;
ROLLBACK TO s;
COMMIT;
SELECT is(fencing.mark('t:5'), 50::bigint, 'rolled back: no new tombstone');
SELECT is((SELECT id FROM t), 5, 'and the old name');

-- many rows shift by one
DELETE FROM fencing.marks;
CREATE TABLE s (id int, v text, CONSTRAINT s_key PRIMARY KEY (id));
SELECT fencing.fence('s');
INSERT INTO s SELECT g, 'x', 7 FROM generate_series(1, 50) g;
SELECT is(outcome('UPDATE s SET id = id + 1000, fence_token = 8'), 'ok', 'many keys change in one statement');
SELECT is((SELECT count(*) FROM fencing.marks WHERE resource ~ '^s:\d+$' AND token = 8), 50::bigint, 'each old name has its tombstone');
SELECT is((SELECT count(*) FROM s WHERE fence_token = 8), 50::bigint, 'each row its token');

-- two columns, of which the name is made in another order
CREATE TABLE two (a text, b text, n int, PRIMARY KEY (a, b));
SELECT fencing.fence('two', '{b}/{a}');
INSERT INTO two VALUES ('x', 'y', 1, 5);
SELECT is(outcome($$UPDATE two SET a = 'y', b = 'x', fence_token = 6$$), 'ok', 'two columns change');
SELECT is(fencing.mark('y/x'), 6::bigint, 'the old name is made of the old values');

-- strict and max_step look at both names
SELECT fencing.fence('t', token_column => 'tok', strict => true, max_step => 10);
SELECT is(outcome('UPDATE t SET id = 8, tok = 50'), 'ZF001', 'strict: an equal token for the old name');
SELECT is(outcome('UPDATE t SET id = 8, tok = 61'), 'ZF006', 'max_step for the old name');
SELECT is(outcome('UPDATE t SET id = 8, tok = 51'), 'ZF006', 'max_step for the new name, which has no mark');
SELECT fencing.claim('t:8', 51);
SELECT is(outcome('UPDATE t SET id = 8, tok = 51'), 'ZF001', 'strict: an equal token for the new name');
SELECT is(outcome('UPDATE t SET id = 8, tok = 52'), 'ok', 'a token that suits both');

-- tombstones => false
SELECT fencing.fence('t', token_column => 'tok', tombstones => false);
SELECT is(outcome('UPDATE t SET id = 9, tok = 53'), 'ok', 'without tombstones');
SELECT is(fencing.mark('t:8'), 51::bigint, 'nothing is kept of the old name');
SELECT is(outcome('UPDATE t SET id = 10, tok = 52'), 'ZF001', 'the row''s mark counts');

-- ON CONFLICT and MERGE change keys too
SELECT fencing.fence('t', token_column => 'tok');
SELECT is(outcome('INSERT INTO t VALUES (9, ''m'', 54) ON CONFLICT (id) DO UPDATE SET id = 20'), 'ZF002', 'ON CONFLICT without a token');
SELECT is(outcome('INSERT INTO t VALUES (9, ''m'', 54) ON CONFLICT (id) DO UPDATE SET id = 20, tok = 54'), 'ok', 'and with one');
SELECT is(outcome('MERGE INTO t USING (VALUES (20)) s (id) ON s.id = t.id WHEN MATCHED THEN UPDATE SET id = 21, tok = 55'), 'ok', 'MERGE');
SELECT set_eq($$SELECT resource, token FROM fencing.marks WHERE resource IN ('t:9', 't:20', 't:21')$$,
	$$VALUES ('t:20', 55::bigint), ('t:9', 54)$$, 'both left their tombstones');
SELECT * FROM finish();
