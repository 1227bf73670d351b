-- The extension dropped and created again in one session: nothing of the former one is remembered.

\ir include/refusal.sql
SET client_min_messages = warning;
SELECT plan(16);

CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE orders (id int);
SELECT fencing.fence('t', issuer => 'database');
SELECT fencing.fence('orders', 'order:{id}', 'resource', issuer => 'database');
SELECT fencing.next_token('x'), fencing.next_token('x'), fencing.next_token('x');
SELECT is(outcome('INSERT INTO t VALUES (1, ''a'', 3)'), 'ok', 'an issued token');
SELECT is(outcome($$SELECT fencing.claim('order:1', 3); INSERT INTO orders VALUES (1)$$), 'ok', 'by a resource mark');
SELECT is(outcome('DROP EXTENSION fencing'), '2BP01', 'fences depend on the extension');
DROP EXTENSION fencing CASCADE;
SELECT is((SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('t'::regclass, 'orders'::regclass)), 0::bigint, 'CASCADE drops the fences');
SELECT is(outcome('UPDATE t SET v = ''b'''), 'ok', 'so the tables can be written');
SELECT is((SELECT fence_token FROM t), 3::bigint, 'row marks stay in their tables');
CREATE EXTENSION fencing;
SELECT is_empty('SELECT * FROM fencing.fences', 'no fence');
SELECT is_empty('SELECT * FROM fencing.marks', 'no mark');
SELECT is(outcome('UPDATE t SET v = ''b'''), 'ok', 'no guard');
SELECT fencing.fence('t', issuer => 'database');
SELECT fencing.fence('orders', 'order:{id}', 'resource', issuer => 'database');
SELECT is(outcome('UPDATE t SET v = ''c'''), 'ZF002', 'a new fence is in force');
SELECT is(outcome('UPDATE t SET v = ''c'', fence_token = 3'), 'ZF006', 'a token that the former extension issued was not issued by this one');
SELECT is(outcome('UPDATE t SET v = ''c'', fence_token = 2'), 'ZF001', 'the row mark counts');
SELECT is(outcome($$SELECT fencing.present('order:1', 3); INSERT INTO orders VALUES (1)$$), 'ZF006', 'nor by a resource mark');
SELECT fencing.next_token('order:1') AS token \gset
SELECT is(outcome(format('SELECT fencing.present(%L, %s); INSERT INTO orders VALUES (1)', 'order:1', :token)), 'ok', 'a new token is accepted');
SELECT is(fencing.mark('order:1'), :token::bigint, 'and is the mark');
-- several times, with writes between
DO $$
BEGIN
	FOR i IN 1 .. 3 LOOP
		DROP EXTENSION fencing CASCADE;
		CREATE EXTENSION fencing;
		EXECUTE 'SELECT fencing.fence(''orders'', ''order:{id}'', ''resource'')';
		EXECUTE format('SELECT fencing.present(''order:1'', %s)', 5 - i);
		INSERT INTO orders VALUES (1);
	END LOOP;
END
$$;
SELECT is(fencing.mark('order:1'), 2::bigint, 'within one transaction too: each begins without marks');
SELECT * FROM finish();
