-- fencing.present: presents tokens for the rest of the transaction, adds to what is presented, replaces the token of
-- a name, and changes nothing when it refuses.  Both forms.

\ir include/refusal.sql
SELECT plan(35);

SELECT is(pg_get_function_arguments('fencing.present(text,bigint,timestamptz)'::regprocedure),
	'resource text, token bigint, deadline timestamp with time zone DEFAULT NULL::timestamp with time zone',
	'the documented arguments for one resource');
SELECT is(pg_get_function_arguments('fencing.present(text[],bigint[],timestamptz)'::regprocedure),
	'resources text[], tokens bigint[], deadline timestamp with time zone DEFAULT NULL::timestamp with time zone',
	'the documented arguments for several resources');
SELECT function_returns('fencing', 'present', ARRAY['text', 'bigint', 'timestamp with time zone'], 'void');
SELECT function_returns('fencing', 'present', ARRAY['text[]', 'bigint[]', 'timestamp with time zone'], 'void');
SELECT isnt(obj_description('fencing.present(text,bigint,timestamptz)'::regprocedure, 'pg_proc'), NULL, 'the first form has a comment');
SELECT isnt(obj_description('fencing.present(text[],bigint[],timestamptz)'::regprocedure, 'pg_proc'), NULL, 'the second form has a comment');
SELECT ok(has_function_privilege('public', 'fencing.present(text,bigint,timestamptz)', 'EXECUTE')
	AND has_function_privilege('public', 'fencing.present(text[],bigint[],timestamptz)', 'EXECUTE'), 'everybody may present');

-- the transaction is the scope
BEGIN;
SELECT fencing.present('sku:1', 5);
SELECT results_eq('SELECT * FROM fencing.presented()', $$VALUES ('sku:1', 5::bigint)$$, 'one token presented');
SELECT fencing.present('sku:2', 6);
SELECT fencing.present(ARRAY['sku:4', 'sku:3'], ARRAY[8, 7]);
SELECT set_eq('SELECT * FROM fencing.presented()', $$VALUES ('sku:1', 5::bigint), ('sku:2', 6), ('sku:3', 7), ('sku:4', 8)$$,
	'tokens add up');
SELECT fencing.present('sku:1', 9);
SELECT fencing.present(ARRAY['sku:2', 'sku:4'], ARRAY[10, 1]);
SELECT set_eq('SELECT * FROM fencing.presented()', $$VALUES ('sku:1', 9::bigint), ('sku:2', 10), ('sku:3', 7), ('sku:4', 1)$$,
	'a token replaces an older one for the same name, larger or not');
SELECT is((SELECT count(*) FROM fencing.marks), 0::bigint, 'presenting raises no mark');
COMMIT;
SELECT is_empty('SELECT * FROM fencing.presented()', 'COMMIT ends it');
SELECT is(current_setting('fencing.tokens'), '', 'the setting is empty again');
BEGIN;
SELECT fencing.present('sku:1', 5);
ROLLBACK;
SELECT is_empty('SELECT * FROM fencing.presented()', 'ROLLBACK ends it');
SELECT fencing.present('sku:1', 5);
SELECT is_empty('SELECT * FROM fencing.presented()', 'so does the end of a statement by itself');

-- what is there before comes back
SET fencing.tokens = 'session=3';
BEGIN;
SELECT fencing.present('sku:1', 5);
SELECT set_eq('SELECT * FROM fencing.presented()', $$VALUES ('session', 3::bigint), ('sku:1', 5)$$, 'present adds to the session''s tokens');
COMMIT;
SELECT results_eq('SELECT * FROM fencing.presented()', $$VALUES ('session', 3::bigint)$$, 'which are left alone');
RESET fencing.tokens;

-- arrays
BEGIN;
SELECT fencing.present('{}'::text[], '{}');
SELECT is_empty('SELECT * FROM fencing.presented()', 'empty arrays present nothing');
SELECT fencing.present(ARRAY['a', 'b', 'a'], ARRAY[1, 2, 1]);
SELECT set_eq('SELECT * FROM fencing.presented()', $$VALUES ('a', 1::bigint), ('b', 2)$$, 'the same name with the same token twice is fine');
SELECT fencing.present((SELECT array_agg('r' || i) FROM generate_series(1, 5000) i), (SELECT array_agg(i::bigint) FROM generate_series(1, 5000) i));
SELECT is((SELECT count(*) FROM fencing.presented()), 5002::bigint, 'thousands of tokens');
SELECT is((SELECT token FROM fencing.presented() WHERE resource = 'r4711'), 4711::bigint, 'each with its number');
ROLLBACK;
BEGIN;
SELECT fencing.present('[5:6]={x,y}'::text[], '[0:1]={3,4}'::bigint[]);
SELECT set_eq('SELECT * FROM fencing.presented()', $$VALUES ('x', 3::bigint), ('y', 4)$$, 'arrays may begin at any subscript');
ROLLBACK;

-- limits
BEGIN;
SELECT fencing.present('min', 1);
SELECT fencing.present('max', 9223372036854775807);
SELECT set_eq('SELECT * FROM fencing.presented()', $$VALUES ('min', 1::bigint), ('max', 9223372036854775807)$$, 'tokens from 1 to the largest bigint');
ROLLBACK;

-- the deadline: the earliest wins
BEGIN;
SELECT fencing.present('a', 1, '2200-01-01 00:00+00');
SELECT is(current_setting('fencing.deadline')::timestamptz, '2200-01-01 00:00+00'::timestamptz, 'the deadline is set');
SELECT fencing.present('a', 1, '2200-01-02 00:00+00');
SELECT is(current_setting('fencing.deadline')::timestamptz, '2200-01-01 00:00+00'::timestamptz, 'a later one does not replace it');
SELECT fencing.present('a', 1);
SELECT is(current_setting('fencing.deadline')::timestamptz, '2200-01-01 00:00+00'::timestamptz, 'nor does NULL');
SELECT fencing.present(ARRAY['b'], ARRAY[1], '2199-12-31 23:59:59.5+00');
SELECT is(current_setting('fencing.deadline')::timestamptz, '2199-12-31 23:59:59.5+00'::timestamptz, 'an earlier one does');
SELECT fencing.present('a', 1, 'infinity');
SELECT is(current_setting('fencing.deadline')::timestamptz, '2199-12-31 23:59:59.5+00'::timestamptz, 'infinity is later than all');
COMMIT;
SELECT is(current_setting('fencing.deadline'), '', 'the deadline ends with the transaction');
SET TimeZone = 'America/New_York';
SET DateStyle = 'German';
BEGIN;
SELECT fencing.present('a', 1, '2200-01-01 00:00+00');
SET LOCAL TimeZone = 'Asia/Tokyo';
SET LOCAL DateStyle = 'SQL, DMY';
SELECT fencing.present('a', 1, '2200-01-01 00:00:01+00');
SET LOCAL DateStyle = 'ISO, MDY';
SELECT is(current_setting('fencing.deadline')::timestamptz, '2200-01-01 00:00+00'::timestamptz, 'the deadline means one moment in every time zone and style');
COMMIT;
RESET ALL;

-- a refusal changes nothing
BEGIN;
SELECT fencing.present(ARRAY['a', 'b'], ARRAY[1, 2], '2200-01-01 00:00+00');
SELECT is(outcome(s), '22023', s) FROM (VALUES
	($$SELECT fencing.present('c', 0, '2100-01-01')$$),
	($$SELECT fencing.present(ARRAY['a', 'c', ''], ARRAY[5, 5, 5], '2100-01-01')$$),
	($$SELECT fencing.present(ARRAY['a', 'c', 'c'], ARRAY[5, 5, 6], '2100-01-01')$$)) AS v(s);
SELECT set_eq('SELECT * FROM fencing.presented()', $$VALUES ('a', 1::bigint), ('b', 2)$$, 'the tokens are as before');
SELECT is(current_setting('fencing.deadline')::timestamptz, '2200-01-01 00:00+00'::timestamptz, 'so is the deadline');
COMMIT;
SELECT * FROM finish();
