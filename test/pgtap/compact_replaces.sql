-- fencing.compact: old marks are replaced by one floor that stands for all of them, and only where every token came
-- from this database.

\ir include/refusal.sql
SELECT plan(37);

SELECT is(pg_get_function_arguments('fencing.compact(interval)'::regprocedure), 'before interval', 'the documented argument');
SELECT function_returns('fencing', 'compact', ARRAY['interval'], 'bigint');
SELECT isnt(obj_description('fencing.compact(interval)'::regprocedure, 'pg_proc'), NULL, 'compact has a comment');
SELECT ok(NOT has_function_privilege('public', 'fencing.compact(interval)', 'EXECUTE'), 'it is not granted to PUBLIC');
SELECT is(fencing.compact('0'), 0::bigint, 'nothing to compact');
SELECT is_empty('SELECT * FROM fencing.marks', 'leaves no floor');

SELECT fencing.claim('a', fencing.next_token('a'));
SELECT fencing.claim('b', fencing.next_token('b'));
SELECT fencing.next_token('c');
SELECT fencing.mark('a') AS a, fencing.mark('b') AS b \gset
SELECT is(fencing.compact('1 hour'), 0::bigint, 'marks that are not old enough stay');
SELECT is((SELECT count(*) FROM fencing.marks), 2::bigint, 'both');
SELECT is(fencing.compact('0'), 2::bigint, 'compact returns how many it replaced');
SELECT is((SELECT count(*) FROM fencing.marks), 1::bigint, 'one row is left');
SELECT is(fencing.mark('a'), :b::bigint, 'the floor stands for the lower mark');
SELECT is(fencing.mark('b'), :b::bigint, 'and for the higher one');
SELECT is(fencing.mark('never seen'), :b::bigint, 'and for every other resource');
SELECT is(outcome(format('SELECT fencing.claim(%L, %s)', 'a', :a)), 'ZF001', 'a token that was accepted before is stale below the floor');
SELECT is(outcome(format('SELECT fencing.claim(%L, %s)', 'b', :a)), 'ZF001', 'a stale token stays stale');
SELECT is(outcome(format('SELECT fencing.claim(%L, %s)', 'b', :b)), 'ok', 'a token equal to the floor is accepted');
SELECT is(outcome($$SELECT fencing.claim('n', fencing.next_token('n'))$$), 'ok', 'a new token is above the floor');

-- a second compaction
SELECT is(fencing.compact('0'), 2::bigint, 'compact again');
SELECT ok(fencing.mark('a') > :b, 'the floor rises');
SELECT is((SELECT count(*) FROM fencing.marks), 1::bigint, 'and stays one');
SELECT is(fencing.compact('0'), 0::bigint, 'the floor itself is not compacted');

-- fences know the floor
SELECT fencing.mark('x') AS floor \gset
CREATE TABLE stock (id int PRIMARY KEY);
SELECT fencing.fence('stock', 'sku:{id}');
CREATE TABLE orders (id int);
SELECT fencing.fence('orders', 'order:{id}', 'resource');
SELECT is(outcome('INSERT INTO stock VALUES (1)'), 'ZF002', 'a new row of a row mark needs a token now');
SELECT is(outcome(format('INSERT INTO stock VALUES (1, %s)', :floor - 1)), 'ZF001', 'that is not below the floor');
SELECT is(outcome(format('INSERT INTO stock VALUES (1, %s)', :floor)), 'ok', 'equal to it will do');
SELECT is(outcome(format('SELECT fencing.present(%L, %s); INSERT INTO orders VALUES (1)', 'order:1', :floor - 1)), 'ZF001',
	'a resource mark too is stale below the floor');
SELECT is(outcome($$SELECT fencing.present('order:1', fencing.next_token('order:1')); INSERT INTO orders VALUES (1)$$), 'ok',
	'and accepts what is above');

-- set_mark gives a compacted name a mark of its own again
SELECT is(fencing.set_mark('lowered', 1, 'test'), :floor::bigint, 'set_mark of a name below the floor');
SELECT is(fencing.mark('lowered'), 1::bigint, 'gives it a mark of its own');
SELECT is(fencing.mark('other'), :floor::bigint, 'the floor stays');

-- a token of somebody else
SELECT fencing.claim('foreign', 9007199254740993);
CREATE TABLE before AS SELECT * FROM fencing.marks;
SELECT throws_ok($$SELECT fencing.compact('0')$$, '55000', 'marks cannot be compacted: some tokens did not come from this database',
	'a mark that was not issued here forbids it');
SELECT matches((refusal($$SELECT fencing.compact('0')$$)).detail, '"foreign" \(9007199254740993\)', 'and is named');
SELECT set_eq('SELECT * FROM fencing.marks', 'SELECT * FROM before', 'nothing is changed');
-- arguments
SELECT is(outcome('SELECT fencing.compact(NULL)'), '22023', 'NULL');
SELECT is(outcome($$SELECT fencing.compact('-1 second')$$), '22023', 'a negative age');
SELECT set_eq('SELECT * FROM fencing.marks', 'SELECT * FROM before', 'nothing is changed');
CREATE ROLE compact_stranger;
SET ROLE compact_stranger;
SELECT is(outcome($$SELECT fencing.compact('0')$$), '42501', 'an ordinary role may not');
RESET ROLE;
DROP ROLE compact_stranger;
BEGIN READ ONLY;
SELECT is(outcome($$SELECT fencing.compact('0')$$), '25006', 'nor can a read-only transaction');
COMMIT;
SELECT * FROM finish();
