-- Row marks on rows that have no token yet: NULL is no mark and no token.

\ir include/refusal.sql
SELECT plan(25);

CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint);
INSERT INTO t VALUES (1, 'a'), (2, 'a'), (3, 'a'), (4, 'a');
SELECT fencing.fence('t', token_column => 'tok', max_step => 100);
SELECT col_is_null('t', 'tok', 'a column that is there is left as it is');
-- on a NULL row
SELECT is(outcome('UPDATE t SET v = ''b'' WHERE id = 1'), 'ZF002', 'a write without a token');
SELECT is(outcome('UPDATE t SET v = ''b'', tok = NULL WHERE id = 1'), 'ZF002', 'NULL over NULL is without a token');
SELECT is(outcome('UPDATE t SET v = ''b'', tok = 0 WHERE id = 1'), '22023', '0 is no token');
SELECT is(outcome('DELETE FROM t WHERE id = 1'), 'ZF002', 'a delete without a token');
SELECT is(outcome('UPDATE t SET v = ''b'', tok = 101 WHERE id = 1'), 'ZF006', 'max_step counts from 0');
SELECT is(outcome('UPDATE t SET v = ''b'', tok = 5 WHERE id = 1'), 'ok', 'the first token is accepted');
SELECT is((SELECT tok FROM t WHERE id = 1), 5::bigint, 'and sticks');
SELECT is(outcome('UPDATE t SET v = ''c'', tok = 4 WHERE id = 1'), 'ZF001', 'it is a mark like any');
SELECT is(outcome($$SELECT fencing.present('t:2', 5); UPDATE t SET v = 'b' WHERE id = 2$$), 'ok', 'the first token presented');
SELECT is((SELECT tok FROM t WHERE id = 2), 5::bigint, 'is stamped');
SELECT is(outcome($$SELECT fencing.present('t:3', 5); UPDATE t SET v = 'b', tok = NULL WHERE id = 3$$), 'ok', 'with NULL in the SET list');
SELECT is((SELECT tok FROM t WHERE id = 3), 5::bigint, 'it is stamped too');
SELECT is(outcome($$SELECT fencing.present('t:4', 5); DELETE FROM t WHERE id = 4$$), 'ok', 'the first token deletes');
SELECT is(fencing.mark('t:4'), 5::bigint, 'and leaves its tombstone');
-- NULL over a number
SELECT is(outcome('UPDATE t SET tok = NULL WHERE id = 1'), 'ZF002', 'NULL over a number is refused');
SELECT is((SELECT tok FROM t WHERE id = 1), 5::bigint, 'and the mark kept');
-- INSERT
SELECT is(outcome('INSERT INTO t VALUES (10, ''n'', NULL)'), 'ok', 'a new row with NULL has no token');
SELECT is(coalesce((SELECT tok FROM t WHERE id = 10), 0), 0::bigint, 'and no mark');
SELECT is(outcome('INSERT INTO t VALUES (4, ''n'', NULL)'), 'ZF002', 'NULL is no token for a tombstone');
SELECT is(outcome($$SELECT fencing.present('t:11', 7); INSERT INTO t VALUES (11, 'n', NULL)$$), 'ok', 'a presented token');
SELECT is((SELECT tok FROM t WHERE id = 11), 7::bigint, 'is stamped over NULL');
SELECT is(outcome('INSERT INTO t VALUES (1, ''n'', NULL) ON CONFLICT (id) DO UPDATE SET tok = excluded.tok'), 'ZF002', 'ON CONFLICT with NULL');
-- a table of another type
CREATE TABLE small (id int PRIMARY KEY, tok int NOT NULL DEFAULT 0);
SELECT is(outcome($$SELECT fencing.fence('small', token_column => 'tok')$$), '22023', 'a column of type int cannot keep tokens');
-- a mark of 0 is no mark
SELECT fencing.fence('t', token_column => 'tok', strict => true);
SELECT is(outcome('UPDATE t SET tok = 1 WHERE id = 10'), 'ok', 'strict: the first token is above no mark');
SELECT * FROM finish();
