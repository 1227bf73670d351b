-- fencing.presented: the tokens that the current transaction presents, whichever way they came.

-- set before the library is loaded
SET fencing.tokens = 'early=1';
\ir include/refusal.sql
SELECT plan(11);

SELECT is(pg_get_function_result('fencing.presented()'::regprocedure), 'SETOF record', 'a set');
SELECT is(pg_get_function_arguments('fencing.presented()'::regprocedure), 'OUT resource text, OUT token bigint', 'of resource and token');
SELECT isnt(obj_description('fencing.presented()'::regprocedure, 'pg_proc'), NULL, 'presented has a comment');
SELECT ok(has_function_privilege('public', 'fencing.presented()', 'EXECUTE'), 'everybody may ask');
SELECT results_eq('SELECT * FROM fencing.presented()', $$VALUES ('early', 1::bigint)$$, 'a token from before the library was loaded');
RESET fencing.tokens;
SELECT is_empty('SELECT * FROM fencing.presented()', 'nothing after RESET');
SET fencing.tokens = 'b=2, a=1';
SELECT set_eq('SELECT resource, token FROM fencing.presented()', $$VALUES ('a', 1::bigint), ('b', 2)$$, 'tokens of the setting');
BEGIN;
SELECT fencing.present('c', 3);
SELECT fencing.claim('d', 4);
SELECT set_eq('SELECT resource, token FROM fencing.presented()', $$VALUES ('a', 1::bigint), ('b', 2), ('c', 3), ('d', 4)$$,
	'of present and of claim');
COMMIT;
SELECT set_eq('SELECT resource, token FROM fencing.presented()', $$VALUES ('a', 1::bigint), ('b', 2)$$, 'of the transaction alone');
RESET fencing.tokens;
SELECT is_empty('SELECT * FROM fencing.presented()', 'none after RESET');
SET fencing.tokens = 'a=1';
RESET ALL;
SELECT is_empty('SELECT * FROM fencing.presented()', 'none after RESET ALL');
SELECT * FROM finish();
