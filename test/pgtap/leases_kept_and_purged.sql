-- Resources are forgotten by an administrator's call alone, never while a lease is in force; tokens rise whatever is deleted.

\ir include/refusal.sql
SELECT plan(25);
CREATE PROCEDURE wait_until(t timestamptz) LANGUAGE plpgsql AS $$
BEGIN WHILE clock_timestamp() < t LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;

SELECT function_returns('fencing', 'purge_leases', ARRAY['interval'], 'bigint');
SELECT ok(NOT has_function_privilege('public', 'fencing.purge_leases(interval)', 'EXECUTE'), 'not everybody may purge');
SELECT is(outcome(format('SELECT fencing.purge_leases(%s)', quote_nullable(t))), '22023', format('older than %s', quote_nullable(t)))
FROM unnest(ARRAY[NULL, '-1 s', '300 years']) AS t;

-- one of each kind
SELECT * FROM fencing.acquire('lapsed', '10 ms') \gset
SELECT fencing.acquire('held', '1 hour');
SELECT fencing.next_token('token');
SELECT fencing.release('released', (fencing.acquire('released')).token);
SELECT token AS marked FROM fencing.acquire('marked') \gset
SELECT fencing.claim('marked', :marked), fencing.release('marked', :marked);
SELECT max(token) AS last FROM fencing.issued \gset
CALL wait_until(:'expires_at');

SELECT is(fencing.purge_leases('1 hour'), 0::bigint, 'nothing is an hour old');
SELECT is(fencing.purge_leases('0'), 3::bigint, 'lapsed, released, and a token without a lease');
SELECT is(ARRAY(SELECT resource FROM fencing.issued ORDER BY 1), ARRAY['held', 'marked'], 'what is held, or has a mark, stays');
SELECT ok((fencing.acquire('lapsed')).token > :last, 'tokens go on rising');
SELECT ok((fencing.acquire('released')).token > :last, 'for each of them');

-- by hand
SELECT max(token) AS last FROM fencing.issued \gset
DELETE FROM fencing.issued;
SELECT is(count(*), 0::bigint, 'rows deleted by hand are no leases') FROM fencing.leases;
SELECT ok((fencing.acquire('held')).token > :last, 'and tokens go on rising after that too');
SELECT ok((fencing.acquire('marked', '10 ms')).token > :last, 'also above the mark');

-- rows copied by hand, or by a dump, from elsewhere
UPDATE fencing.issued SET origin = origin + 1 WHERE resource = 'held';
SELECT is(count(*), 0::bigint, 'a lease granted elsewhere is not in force here') FROM fencing.leases WHERE resource = 'held';
SELECT ok(fencing.try_acquire('held') IS NOT NULL, 'so it can be acquired');

-- compact
DELETE FROM fencing.issued; DELETE FROM fencing.marks;
SELECT token AS early FROM fencing.acquire('early', '1 hour', '0', 'h') \gset
SELECT token AS busy FROM fencing.acquire('busy', '1 hour', '0', 'h') \gset
SELECT fencing.claim('busy', :busy);
SELECT fencing.next_token('late') AS late \gset
SELECT fencing.claim('late', :late);
SELECT token AS newest FROM fencing.acquire('newest', '1 hour', '0', 'h') \gset
SELECT is(fencing.compact('0'), 1::bigint, 'compact takes the mark without a lease');
SELECT is(token, :late::bigint, 'the floor is that mark') FROM fencing.marks WHERE resource = '';
SELECT is(fencing.mark('busy'), :busy::bigint, 'a mark under a lease stays');
SELECT is(fencing.mark('early'), 0::bigint, 'a lease with an older token is not under the floor');
SELECT is(fencing.mark('newest'), :late::bigint, 'one with a newer token may be');
SELECT lives_ok(format('SELECT fencing.claim(''early'', %s)', :early), 'so its token is still good');
SELECT lives_ok(format('SELECT fencing.claim(''newest'', %s)', :newest), 'as that of the newer one');
SELECT is(ARRAY(SELECT resource FROM fencing.leases ORDER BY 1), ARRAY['busy', 'early', 'newest'], 'the leases are as they were');
SELECT fencing.release('early', :early), fencing.release('busy', :busy), fencing.release('newest', :newest);
SELECT is(fencing.compact('0'), 3::bigint, 'once they are released, their marks go too');
SELECT results_eq('SELECT count(*) FROM fencing.marks', ARRAY[1::bigint], 'and the floor is left');
SELECT * FROM finish();
