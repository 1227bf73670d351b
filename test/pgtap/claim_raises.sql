-- fencing.claim: presents tokens and raises the marks now, by the rule; both forms.

\ir include/refusal.sql
SELECT plan(35);

SELECT is(pg_get_function_arguments('fencing.claim(text,bigint,timestamptz)'::regprocedure),
	'resource text, token bigint, deadline timestamp with time zone DEFAULT NULL::timestamp with time zone',
	'the documented arguments for one resource');
SELECT is(pg_get_function_arguments('fencing.claim(text[],bigint[],timestamptz)'::regprocedure),
	'resources text[], tokens bigint[], deadline timestamp with time zone DEFAULT NULL::timestamp with time zone',
	'the documented arguments for several resources');
SELECT function_returns('fencing', 'claim', ARRAY['text', 'bigint', 'timestamp with time zone'], 'void');
SELECT function_returns('fencing', 'claim', ARRAY['text[]', 'bigint[]', 'timestamp with time zone'], 'void');
SELECT isnt(obj_description('fencing.claim(text,bigint,timestamptz)'::regprocedure, 'pg_proc'), NULL, 'the first form has a comment');
SELECT isnt(obj_description('fencing.claim(text[],bigint[],timestamptz)'::regprocedure, 'pg_proc'), NULL, 'the second form has a comment');
SELECT ok(has_function_privilege('public', 'fencing.claim(text,bigint,timestamptz)', 'EXECUTE')
	AND has_function_privilege('public', 'fencing.claim(text[],bigint[],timestamptz)', 'EXECUTE'), 'everybody may claim');

BEGIN;
SELECT fencing.claim('a', 5);
SELECT is(fencing.mark('a'), 5::bigint, 'the mark is raised at once');
SELECT results_eq('SELECT * FROM fencing.presented()', $$VALUES ('a', 5::bigint)$$, 'and the token presented');
COMMIT;
SELECT is(fencing.mark('a'), 5::bigint, 'the mark is there after COMMIT');
SELECT is_empty('SELECT * FROM fencing.presented()', 'the token is presented no longer');
BEGIN;
SELECT fencing.claim('a', 6);
ROLLBACK;
SELECT is(fencing.mark('a'), 5::bigint, 'ROLLBACK takes the mark back');

-- the rule
SELECT is(outcome($$SELECT fencing.claim('a', 5)$$), 'ok', 'an equal token is accepted');
SELECT throws_ok($$SELECT fencing.claim('a', 4)$$, 'ZF001', 'stale token for resource "a"', 'a lower one is stale');
SELECT unnest(ARRAY[
	is((r).detail, 'Resource "a": token 4 is lower than mark 5.', 'its numbers are in DETAIL'),
	isnt((r).hint, '', 'there is a hint'),
	is((r).schema_name || (r).table_name || (r).column_name, '', 'no table was written')])
FROM refusal($$SELECT fencing.claim('a', 4)$$) AS r;
SELECT is(fencing.mark('a'), 5::bigint, 'the mark is as before');
BEGIN;
SELECT is(outcome($$SELECT fencing.claim('a', 4)$$), 'ZF001', 'stale');
SELECT is_empty('SELECT * FROM fencing.presented()', 'a stale token is not presented');
COMMIT;
SELECT is(outcome($$SELECT fencing.claim('a', 9223372036854775807)$$), 'ok', 'claim alone knows no max_step');

-- arrays
BEGIN;
SELECT fencing.claim(ARRAY['z', 'y', 'x'], ARRAY[3, 2, 1], '2200-01-01 00:00+00');
SELECT set_eq($$SELECT resource, token FROM fencing.marks WHERE resource IN ('x', 'y', 'z')$$,
	$$VALUES ('x', 1::bigint), ('y', 2), ('z', 3)$$, 'the array form raises all');
SELECT set_eq('SELECT * FROM fencing.presented()', $$VALUES ('x', 1::bigint), ('y', 2), ('z', 3)$$, 'and presents all');
SELECT is(current_setting('fencing.deadline')::timestamptz, '2200-01-01 00:00+00'::timestamptz, 'and sets the deadline');
COMMIT;
SELECT is(outcome($$SELECT fencing.claim(ARRAY['new', 'y', 'z'], ARRAY[9, 1, 9])$$), 'ZF001', 'one stale among several');
SELECT set_eq($$SELECT resource, token FROM fencing.marks WHERE resource IN ('new', 'x', 'y', 'z')$$,
	$$VALUES ('x', 1::bigint), ('y', 2), ('z', 3)$$, 'raises none');
SELECT is(outcome($$SELECT fencing.claim('{}'::text[], '{}')$$), 'ok', 'empty arrays');

-- claim again in the same transaction
BEGIN;
SELECT fencing.claim('again', 10);
SELECT is(outcome($$SELECT fencing.claim('again', 10)$$), 'ok', 'the same token again');
SELECT is(outcome($$SELECT fencing.claim('again', 9)$$), 'ZF001', 'a lower one is stale within the transaction too');
SELECT is(outcome($$SELECT fencing.claim('again', 20)$$), 'ok', 'a larger one raises');
SELECT is(outcome($$SELECT fencing.claim('again', 10)$$), 'ZF001', 'and the first is stale then');
SELECT results_eq('SELECT * FROM fencing.presented()', $$VALUES ('again', 20::bigint)$$, 'what is presented is the newest');
COMMIT;
SELECT is(fencing.mark('again'), 20::bigint, 'the mark is the newest');

-- where nothing can be written
BEGIN READ ONLY;
SELECT is((refusal($$SELECT fencing.claim('a', 5)$$)).state, '25006', 'a read-only transaction cannot claim');
ROLLBACK;
SELECT ok((SELECT updated_at BETWEEN clock_timestamp() - interval '1 hour' AND clock_timestamp()
	FROM fencing.marks WHERE resource = 'again'), 'the mark knows when it was raised');
SELECT * FROM finish();
