-- accept_column => false: the token column carries no statement's token; only a presented one counts and is stamped.

\ir include/refusal.sql
SELECT plan(16);

CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
SELECT fencing.fence('t', token_column => 'tok', accept_column => false);
SELECT is(outcome('INSERT INTO t VALUES (1, ''a'')'), 'ok', 'a new row without a token');
SELECT is(outcome('INSERT INTO t VALUES (2, ''a'', 5)'), 'ZF002', 'no mark can be written into the column');
SELECT is(outcome($$SELECT fencing.present('t:2', 7); INSERT INTO t VALUES (2, 'a', 5)$$), 'ok', 'a presented token');
SELECT is((SELECT tok FROM t WHERE id = 2), 7::bigint, 'is stamped over it');
SELECT is(outcome('UPDATE t SET tok = 8 WHERE id = 2'), 'ZF002', 'UPDATE with the token in the column');
SELECT is(outcome('UPDATE t SET tok = tok WHERE id = 2'), 'ZF002', 'or with the mark written back');
SELECT is(outcome('UPDATE t SET tok = NULL WHERE id = 2'), 'ZF002', 'or with NULL');
SELECT is(outcome('UPDATE t SET tok = 6 WHERE id = 2'), 'ZF002', 'a lower number is no token either, so it is not stale');
SELECT is(outcome($$SELECT fencing.present('t:2', 9); UPDATE t SET v = 'b', tok = 3 WHERE id = 2$$), 'ok', 'a presented token');
SELECT results_eq('SELECT v, tok FROM t WHERE id = 2', $$VALUES ('b'::text, 9::bigint)$$, 'is stamped whatever the column is set to');
SELECT is(outcome($$SELECT fencing.present('t:2', 8); UPDATE t SET tok = 10 WHERE id = 2$$), 'ZF001', 'a stale one is stale whatever the column is set to');
SELECT is(outcome($$INSERT INTO t VALUES (2, 'a', 10) ON CONFLICT (id) DO UPDATE SET tok = excluded.tok$$), 'ZF002', 'ON CONFLICT');
SELECT is(outcome($$UPDATE t SET id = 3, tok = 10 WHERE id = 2$$), 'ZF002', 'a change of name');
SELECT is(outcome($$SELECT fencing.present('t:2', 9); UPDATE t SET id = 3, tok = 10 WHERE id = 2$$), 'ok', 'with a token for the old name');
SELECT is((SELECT tok FROM t WHERE id = 3), 0::bigint, 'the column gives the new name none');
SELECT is(fencing.mark('t:2'), 9::bigint, 'and the old name''s tombstone is what was presented');
SELECT * FROM finish();
