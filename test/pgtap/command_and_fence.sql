-- A command that names a resource is begun by its holder, not by a stale one; record, effect and mark are one.

\ir include/refusal.sql
SELECT plan(24);

CREATE TABLE orders (id int PRIMARY KEY, status text);
SELECT fencing.fence('orders', 'order:{id}', mark => 'resource');
SELECT fencing.claim('order:1', 7);

BEGIN;
SELECT token FROM fencing.begin_command('s', 'c1', resource => 'order:1', resource_token => 7) \gset
SELECT is((SELECT p.token FROM fencing.presented() p WHERE resource = 'order:1'), 7::bigint, 'the token is presented');
SELECT lives_ok($$INSERT INTO orders VALUES (1, 'new')$$, 'so the effect is fenced with it');
SELECT fencing.finish_command('s', 'c1', '1', :token);
COMMIT;

-- another holder
BEGIN;
SELECT token FROM fencing.begin_command('s', 'c2', resource => 'order:1', resource_token => 8) \gset
SELECT is(fencing.mark('order:1'), 8::bigint, 'a newer holder raises the mark');
SELECT fencing.finish_command('s', 'c2', '2', :token);
COMMIT;
SELECT is((fencing.begin_command('s', 'c1', resource => 'order:1', resource_token => 7)).outcome, '1'::jsonb, 'the old one gets outcomes that are known');
SELECT is(outcome($$SELECT fencing.begin_command('s', 'c3', resource => 'order:1', resource_token => 7)$$), 'ZF001', 'but begins nothing');
SELECT is((fencing.find_command('s', 'c3')).state, NULL, 'which leaves no record');
SELECT is(outcome($$SELECT fencing.begin_command('s', 'c4', resource => 'order:1', resource_token => 7, takeover => '1 hour')$$), 'ZF001', 'in two steps neither');
SELECT is((fencing.find_command('s', 'c4')).state, NULL, 'nor that');
SELECT is((r).detail, 'Resource "order:1": token 7 is lower than mark 8.', 'the detail has both tokens')
	FROM refusal($$SELECT fencing.begin_command('s', 'c3', resource => 'order:1', resource_token => 7)$$) AS r;
SELECT is((fencing.find_command('s', 'c2')).outcome, '2'::jsonb, 'outcomes need no token');

-- refused and caught: the key is free
BEGIN;
SELECT is(outcome($$SELECT fencing.begin_command('s', 'c5', resource => 'order:1', resource_token => 7)$$), 'ZF001', 'refused');
SELECT is((SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND pid = pg_backend_pid()), 0::bigint, 'nothing is held');
SELECT token FROM fencing.begin_command('s', 'c5', resource => 'order:1', resource_token => 8) \gset
SELECT is(fencing.finish_command('s', 'c5', '5', :token), true, 'the holder begins it in the same transaction');
COMMIT;

-- all of it or nothing
BEGIN;
SELECT token FROM fencing.begin_command('s', 'c6', resource => 'order:1', resource_token => 9) \gset
UPDATE orders SET status = 'paid' WHERE id = 1;
SELECT fencing.finish_command('s', 'c6', '6', :token);
ROLLBACK;
SELECT is((fencing.find_command('s', 'c6')).state, NULL, 'rolled back: no record');
SELECT is(fencing.mark('order:1'), 8::bigint, 'no mark');
SELECT is(status, 'new', 'no effect') FROM orders WHERE id = 1;

-- pending ones
SELECT token FROM fencing.begin_command('s', 'p', resource => 'order:1', resource_token => 8, takeover => '1 us') \gset
SELECT is(outcome($$SELECT fencing.begin_command('s', 'p', resource => 'order:1', resource_token => 7, takeover => '1 hour')$$), 'ZF001', 'a stale holder takes nothing over');
SELECT is(attempts, 1, 'nor counts as an attempt') FROM fencing.commands WHERE key = 'p';
SELECT is((fencing.begin_command('s', 'p', resource => 'order:1', resource_token => 8, takeover => '1 hour')).attempts, 2, 'the holder does');
SELECT is(outcome(format($$SELECT fencing.finish_command('s', 'p', '1', %s)$$, :token)), 'ZF001', 'and the one before is stale');

-- rights
CREATE ROLE fencing_command_app;
SET ROLE fencing_command_app;
SELECT is((fencing.begin_command('s', 'c1')).outcome, '1'::jsonb, 'a writer needs no right on the tables');
SELECT is(outcome('SELECT * FROM fencing.command_records'), '42501', 'and has none to read them');
SELECT is(outcome('SELECT * FROM fencing.commands'), '42501', 'nor the view');
SELECT is(outcome('SELECT fencing.purge_commands(''0'')'), '42501', 'nor to purge');
RESET ROLE;
DROP ROLE fencing_command_app;
SELECT * FROM finish();
