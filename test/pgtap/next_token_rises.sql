-- fencing.next_token: tokens rise for each resource and across all, are above the resource's mark, and are never
-- handed out again, whatever is rolled back or deleted.

\ir include/refusal.sql
SELECT plan(36);

SELECT is(pg_get_function_arguments('fencing.next_token(text)'::regprocedure), 'resource text', 'the documented argument');
SELECT function_returns('fencing', 'next_token', ARRAY['text'], 'bigint');
SELECT isnt(obj_description('fencing.next_token(text)'::regprocedure, 'pg_proc'), NULL, 'next_token has a comment');
SELECT ok(has_function_privilege('public', 'fencing.next_token(text)', 'EXECUTE'), 'everybody may take one');
SELECT volatility_is('fencing', 'next_token', ARRAY['text'], 'volatile');

SELECT fencing.next_token('a') AS first \gset
SELECT ok(:first >= 1, 'the first token is 1 or more');
SELECT fencing.next_token('a') AS second \gset
SELECT ok(:second > :first, 'the next for the same resource is larger');
SELECT fencing.next_token('b') AS third \gset
SELECT ok(:third > :second, 'so is the next for another');
SELECT is(fencing.mark('a'), 0::bigint, 'a token that was handed out raises no mark yet');
SELECT ok(:third < 9007199254740992, 'JavaScript reads it exactly');

BEGIN;
SELECT fencing.next_token('a') AS lost \gset
ROLLBACK;
SELECT fencing.next_token('a') AS fourth \gset
SELECT ok(:fourth > :lost AND :lost > :third, 'a token that was rolled back is not handed out again');
BEGIN;
SAVEPOINT s;
SELECT fencing.next_token('new') AS lost \gset
ROLLBACK TO s;
SELECT ok(fencing.next_token('new') > :lost, 'nor one of a rolled back savepoint');
COMMIT;

-- above the mark
SELECT fencing.claim('a', 1000000);
SELECT ok(fencing.next_token('a') > 1000000, 'a token is above a mark that came from elsewhere');
SELECT ok(fencing.next_token('b') > 1000000, 'and tokens of other resources go on from there');
BEGIN;
SELECT fencing.claim('a', 2000000);
SELECT ok(fencing.next_token('a') > 2000000, 'also above a mark of this very transaction');
ROLLBACK;

-- a hand delete is harmless
SELECT fencing.next_token('job') AS before \gset
DELETE FROM fencing.issued;
SELECT ok(fencing.next_token('job') > :before, 'deleting the record of issued tokens takes no number back');

-- the end of the numbers
SELECT fencing.claim('full', 9223372036854775807);
SELECT throws_ok($$SELECT fencing.next_token('full')$$, 'ZF006', 'no token is left for resource "full"', 'no token above the largest bigint');
SELECT unnest(ARRAY[
	isnt((r).hint, '', 'with a hint'),
	matches((r).detail, 'Resource "full".* 9223372036854775807', 'and the number in DETAIL')])
FROM refusal($$SELECT fencing.next_token('full')$$) AS r;
SELECT ok(fencing.next_token('b') < 9007199254740992, 'other resources go on');
SELECT fencing.set_mark('full', 10, 'test');
SELECT ok(fencing.next_token('full') > 10, 'and so does this one once its mark is lowered');

-- arguments
SELECT is(outcome(s), '22023', s) FROM (VALUES
	('SELECT fencing.next_token(NULL)'),
	($$SELECT fencing.next_token('')$$),
	($$SELECT fencing.next_token(repeat('x', 513))$$)) AS v(s);
SELECT is(outcome($$SELECT fencing.next_token(repeat('x', 512))$$), 'ok', 'a name of 512 bytes');

-- where nothing can be written
BEGIN READ ONLY;
SELECT is(outcome($$SELECT fencing.next_token('a')$$), '25006', 'a read-only transaction gets none');
COMMIT;
CREATE ROLE token_taker;
SET ROLE token_taker;
SELECT ok(fencing.next_token('a') > 0, 'an ordinary role gets one');
RESET ROLE;
DROP ROLE token_taker;
-- above a number from elsewhere
SELECT fencing.next_token('counter') AS before \gset
SELECT ok(fencing.next_token('counter', :before + 1000) > :before + 1000, 'a token is above the number given');
SELECT is(fencing.next_token('counter', 1) - fencing.next_token('counter', 0), -1::bigint, 'one that is lower changes nothing');
SELECT ok(fencing.next_token('other') > :before + 1000, 'and all tokens go on from there');
SELECT is(outcome('SELECT fencing.next_token(''counter'', NULL)'), '22023', 'NULL');
SELECT is(outcome('SELECT fencing.next_token(''counter'', -1)'), '22023', 'negative');
SELECT is(outcome('SELECT fencing.next_token(''counter'', 9007199254740992)'), 'ZF006', 'too high to move all tokens above it');
SELECT is(outcome('SELECT fencing.next_token(''counter'', 9223372036854775807)'), 'ZF006', 'the largest number');
SELECT ok(fencing.next_token('counter') < 9007199254740992, 'which changes nothing');
SELECT ok(fencing.next_token('counter', 9007199254740991) > 9007199254740991, 'the highest that does');
SELECT * FROM finish();
