-- fencing.mark: the highest token accepted for a resource, 0 if none.

\ir include/refusal.sql
SELECT plan(13);

SELECT is(pg_get_function_arguments('fencing.mark(text)'::regprocedure), 'resource text', 'the documented argument');
SELECT function_returns('fencing', 'mark', ARRAY['text'], 'bigint');
SELECT isnt(obj_description('fencing.mark(text)'::regprocedure, 'pg_proc'), NULL, 'mark has a comment');
SELECT volatility_is('fencing', 'mark', ARRAY['text'], 'stable');
SELECT is(fencing.mark('a'), 0::bigint, 'no mark is 0');
SELECT fencing.claim('a', 5);
SELECT is(fencing.mark('a'), 5::bigint, 'the mark');
SELECT is(fencing.mark('A'), 0::bigint, 'names are case-sensitive');
SELECT is(fencing.mark('a '), 0::bigint, 'and taken byte for byte');
SELECT is(fencing.mark(NULL), NULL, 'NULL has none');
CREATE ROLE mark_reader;
SET ROLE mark_reader;
SELECT is(fencing.mark('a'), 5::bigint, 'everybody may read');
-- nothing of the caller's takes part
CREATE TEMP TABLE marks (resource text, token bigint);
INSERT INTO marks VALUES ('a', 99);
SET search_path = pg_temp, public;
SELECT is(fencing.mark('a'), 5::bigint, 'a temporary table of that name has no effect');
SET search_path = '';
SELECT fencing.mark('a') AS mark \gset
RESET search_path;
SELECT is(:mark, 5, 'nor has an empty search_path');
BEGIN READ ONLY;
SELECT is(fencing.mark('a'), 5::bigint, 'read-only is enough');
COMMIT;
RESET ROLE;
DROP OWNED BY mark_reader;
DROP ROLE mark_reader;
SELECT * FROM finish();
