-- fencing.revoke: the lease is free at once, and its holder is fenced.

\ir include/refusal.sql
SELECT plan(18);

SELECT function_returns('fencing', 'revoke', ARRAY['text'], 'bigint');
SELECT ok(NOT has_function_privilege('public', 'fencing.revoke(text)', 'EXECUTE'), 'not everybody may revoke');

CREATE TABLE line (id int PRIMARY KEY, v text);
SELECT fencing.fence('line', 'order:1', mark => 'resource');
SELECT * FROM fencing.acquire('order:1', '1 hour', holder => 'hung') \gset
BEGIN; SELECT fencing.present('order:1', :token); INSERT INTO line VALUES (1, 'hung'); COMMIT;

SELECT fencing.revoke('order:1') AS mark \gset
SELECT ok(:mark > :token, 'the mark is above the token of the lease');
SELECT is(fencing.mark('order:1'), :mark::bigint, 'it is the mark');
SELECT is(count(*), 0::bigint, 'there is no lease any more') FROM fencing.leases;
SELECT is(outcome(format($$SELECT fencing.present('order:1', %s); UPDATE line SET v = 'late'$$, :token)), 'ZF001', 'what its holder writes is stale');
SELECT is(v, 'hung', 'and not written') FROM line;
SELECT * FROM fencing.try_acquire('order:1', '1 hour', 'next') \gset next_
SELECT ok(:next_token > :mark, 'the next holder''s token is above it');
SELECT is(outcome(format($$SELECT fencing.present('order:1', %s); UPDATE line SET v = 'next'$$, :next_token)), 'ok', 'and accepted');

-- where nothing is held
SELECT fencing.revoke('none') AS mark \gset
SELECT is(fencing.mark('none'), :mark::bigint, 'a resource that nobody knows gets a mark');
SELECT is(fencing.next_token('none'), :mark + 1::bigint, 'by one token');
SELECT fencing.revoke('none') AS again \gset
SELECT ok(:again > :mark, 'revoking again raises it again');

-- a foreign mark
SELECT fencing.claim('foreign', 1000000);
SELECT ok(fencing.revoke('foreign') > 1000000, 'above a mark from elsewhere');

-- in a transaction
SELECT * FROM fencing.acquire('t', '1 hour', holder => 'h') \gset
BEGIN; SELECT fencing.revoke('t'); ROLLBACK;
SELECT is(token, :token::bigint, 'rolled back, the lease is there') FROM fencing.leases WHERE resource = 't';
SELECT is(fencing.mark('t'), 0::bigint, 'and no mark');

-- arguments
SELECT is(outcome('SELECT fencing.revoke(NULL)'), '22023', 'NULL');
SELECT is(outcome($$SELECT fencing.revoke('')$$), '22023', 'an empty name');
SELECT is(outcome($$BEGIN READ ONLY; SELECT fencing.revoke('t')$$) IN ('25006', '0A000'), true, 'read-only');
SELECT * FROM finish();
