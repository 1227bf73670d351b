-- fencing.set_mark: an administrator lowers a mark that a wrong token raised; it returns the mark as it was, never
-- raises one, and wants a reason.

\ir include/refusal.sql
SELECT plan(33);

SELECT is(pg_get_function_arguments('fencing.set_mark(text,bigint,text)'::regprocedure),
	'resource text, token bigint, reason text', 'the documented arguments');
SELECT function_returns('fencing', 'set_mark', ARRAY['text', 'bigint', 'text'], 'bigint');
SELECT isnt(obj_description('fencing.set_mark(text,bigint,text)'::regprocedure, 'pg_proc'), NULL, 'set_mark has a comment');
SELECT ok(NOT has_function_privilege('public', 'fencing.set_mark(text,bigint,text)', 'EXECUTE'), 'it is not granted to PUBLIC');

CREATE TABLE stock (id int PRIMARY KEY, qty int);
SELECT fencing.fence('stock', 'sku:{id}', 'resource');
SELECT fencing.claim('sku:1', 9223372036854775807);
SELECT is(outcome($$SELECT fencing.present('sku:1', 12); INSERT INTO stock VALUES (1, 1)$$), 'ZF001', 'before: locked out');
SELECT is(fencing.set_mark('sku:1', 10, 'a wrong token'), 9223372036854775807, 'set_mark returns the mark as it was');
SELECT is(fencing.mark('sku:1'), 10::bigint, 'and lowers it');
SELECT is(outcome($$SELECT fencing.present('sku:1', 9); INSERT INTO stock VALUES (1, 1)$$), 'ZF001', 'a token below is stale still');
SELECT is(outcome($$SELECT fencing.present('sku:1', 12); INSERT INTO stock VALUES (1, 1)$$), 'ok', 'a token above is accepted');
SELECT is(fencing.set_mark('sku:1', 12, 'no change'), 12::bigint, 'the mark itself may be given');
SELECT is(fencing.mark('sku:1'), 12::bigint, 'and changes nothing');
SELECT is(fencing.set_mark('sku:1', 0, 'begin again'), 12::bigint, '0 is no mark');
SELECT is(fencing.mark('sku:1'), 0::bigint, 'as if there had been none');
SELECT is(outcome($$SELECT fencing.claim('sku:1', 1)$$), 'ok', 'the lowest token is accepted then');

-- what a transaction has checked is not believed after the mark was set
BEGIN;
SELECT fencing.claim('sku:2', 50);
SELECT fencing.set_mark('sku:2', 20, 'within a transaction');
SELECT is(outcome($$SELECT fencing.claim('sku:2', 30)$$), 'ok', 'a token between is accepted in the same transaction');
SELECT is(fencing.mark('sku:2'), 30::bigint, 'and becomes the mark');
ROLLBACK;
BEGIN;
SELECT fencing.claim('sku:2', 50);
SELECT fencing.set_mark('sku:2', 20, 'within a transaction');
SELECT is(outcome($$SELECT fencing.claim('sku:2', 50)$$), 'ok', 'the token checked before is accepted again');
SELECT is(fencing.mark('sku:2'), 50::bigint, 'and raises the mark again');
COMMIT;
BEGIN;
SELECT fencing.set_mark('sku:2', 1, 'rolled back');
ROLLBACK;
SELECT is(fencing.mark('sku:2'), 50::bigint, 'ROLLBACK takes it back');

-- refusals
SELECT is(outcome(s), '22023', s) FROM (VALUES
	($$SELECT fencing.set_mark('sku:2', 51, 'up')$$),
	($$SELECT fencing.set_mark('sku:2', -1, 'negative')$$),
	($$SELECT fencing.set_mark('sku:2', NULL, 'null')$$),
	($$SELECT fencing.set_mark('sku:2', 1, NULL)$$),
	($$SELECT fencing.set_mark('sku:2', 1, '')$$),
	($$SELECT fencing.set_mark('sku:2', 1, E' \t\n')$$),
	($$SELECT fencing.set_mark(NULL, 1, 'null')$$),
	($$SELECT fencing.set_mark('', 0, 'the floor')$$),
	($$SELECT fencing.set_mark(repeat('x', 513), 0, 'long')$$)) AS v(s);
SELECT is(outcome($$SELECT fencing.set_mark('unknown', 0, 'why')$$), '42704', 'a name without a mark');
SELECT set_eq('SELECT resource, token FROM fencing.marks', $$VALUES ('sku:1', 1::bigint), ('sku:2', 50)$$, 'no refusal changed a mark');
CREATE ROLE set_mark_stranger;
SET ROLE set_mark_stranger;
SELECT is(outcome($$SELECT fencing.set_mark('sku:2', 1, 'why')$$), '42501', 'an ordinary role may not');
RESET ROLE;
BEGIN READ ONLY;
SELECT is(outcome($$SELECT fencing.set_mark('sku:2', 1, 'why')$$), '25006', 'nor can a read-only transaction');
COMMIT;
SELECT is(fencing.mark('sku:2'), 50::bigint, 'the mark is as before');
DROP ROLE set_mark_stranger;
SELECT * FROM finish();
