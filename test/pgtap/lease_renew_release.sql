-- fencing.renew and release: by resource and token, for who holds the lease and for nobody else.

\ir include/refusal.sql
SELECT plan(38);
CREATE PROCEDURE wait_until(t timestamptz) LANGUAGE plpgsql AS $$
BEGIN WHILE clock_timestamp() < t LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;

SELECT function_returns('fencing', 'renew', ARRAY['text', 'bigint', 'interval'], 'fencing.lease');
SELECT function_returns('fencing', 'release', ARRAY['text', 'bigint'], 'boolean');

-- renew
SELECT * FROM fencing.acquire('a', '1 min', holder => 'h') \gset
SELECT * FROM fencing.renew('a', :token, '1 hour') \gset new_
SELECT is(:new_token::bigint, :token::bigint, 'renew keeps the token');
SELECT is(:'new_holder'::text, 'h', 'and the holder');
SELECT is(:'new_acquired_at'::timestamptz, :'acquired_at', 'and when it was acquired');
SELECT ok(:'new_expires_at'::timestamptz BETWEEN clock_timestamp() + interval '59 min 50 s' AND clock_timestamp() + interval '1 hour', 'the time to live counts from now');
SELECT is(expires_at, :'new_expires_at'::timestamptz, 'the view shows it') FROM fencing.leases WHERE resource = 'a';
SELECT ok((fencing.renew('a', :token, '1 s')).expires_at < :'new_expires_at', 'it may get shorter');
SELECT ok((fencing.renew('a', :token)).expires_at > clock_timestamp() + interval '29 s', 'by default it is 30 s, as of acquire');
SELECT is((fencing.renew('a', :token, '1 hour')).token, :token::bigint, 'and renewed again');

-- not held
SELECT ok(fencing.renew('a', :token + 1, '1 hour') IS NULL, 'another token renews nothing');
SELECT ok(fencing.renew('b', :token, '1 hour') IS NULL, 'nor that of another resource');
SELECT is(count(*), 0::bigint, 'nothing is made of it') FROM fencing.issued WHERE resource = 'b';
SELECT is(fencing.release('a', :token + 1), false, 'another token releases nothing');
SELECT is(fencing.release('b', :token), false, 'nor that of another resource');
SELECT is(count(*), 1::bigint, 'the lease is as it was') FROM fencing.leases WHERE resource = 'a' AND token = :token AND NOT expired;
SELECT is(count(*), 0::bigint, 'a renewal that was refused left no lock')
	FROM pg_locks WHERE locktype = 'object' AND classid = 'fencing.issued'::regclass;

-- release
SELECT is(fencing.release('a', :token), true, 'the holder releases it');
SELECT is(count(*), 0::bigint, 'it is gone') FROM fencing.leases WHERE resource = 'a';
SELECT is(fencing.release('a', :token), false, 'a replayed release is false');
SELECT ok(fencing.renew('a', :token, '1 hour') IS NULL, 'what was released is not renewed');
SELECT ok((fencing.try_acquire('a')).token > :token, 'but acquired anew, with a larger token');

-- lapsed
SELECT * FROM fencing.acquire('l', '50 ms', holder => 'h') \gset
CALL wait_until(:'expires_at');
SELECT ok(fencing.renew('l', :token, '1 hour') IS NULL, 'a lapsed lease is not revived, though nobody has taken it');
SELECT is(fencing.release('l', :token), false, 'nor released');
SELECT is(expired, true, 'it is shown as expired') FROM fencing.leases WHERE resource = 'l';
SELECT ok((fencing.try_acquire('l', '1 hour', 'h')).token > :token, 'it can be acquired');

-- taken over
SELECT * FROM fencing.acquire('o', '50 ms', holder => 'h') \gset
CALL wait_until(:'expires_at');
SELECT * FROM fencing.acquire('o', '1 hour', holder => 'other') \gset other_
SELECT ok(fencing.renew('o', :token, '2 hours') IS NULL, 'after a takeover the old holder renews nothing');
SELECT is(fencing.release('o', :token), false, 'and releases nothing');
SELECT results_eq($$SELECT holder, token, expires_at FROM fencing.leases WHERE resource = 'o'$$,
	format('VALUES (%L, %s::bigint, %L::timestamptz)', 'other', :other_token, :'other_expires_at'), 'the new lease is untouched');

-- in a transaction
SELECT * FROM fencing.acquire('t', '1 hour', holder => 'h') \gset
BEGIN;
SELECT fencing.release('t', :token);
SELECT ok(fencing.try_acquire('t') IS NOT NULL, 'who released it may acquire it in the same transaction');
ROLLBACK;
SELECT is(token, :token::bigint, 'a release that is rolled back did not happen') FROM fencing.leases WHERE resource = 't';
BEGIN;
SAVEPOINT s;
SELECT fencing.release('t', :token);
ROLLBACK TO s;
SELECT is((fencing.renew('t', :token, '1 hour')).token, :token::bigint, 'nor one of a savepoint');
COMMIT;

-- what the warnings say
SELECT is((r).state, 'ok', 'a warning is no error') FROM (SELECT outcome($$SELECT fencing.release('none', 1)$$) AS state) AS r;
SET client_min_messages = error;
SELECT * FROM fencing.acquire('v', '1 hour', holder => 'h') \gset
CREATE FUNCTION warned(statement text, OUT hits int) LANGUAGE plpgsql AS $$ BEGIN EXECUTE statement; hits := 1; END $$;
SELECT is(hits, 1, 'a statement goes on after it') FROM warned($$SELECT fencing.renew('none', 1, '1 s')$$);
SELECT is(fencing.release('v', :token), true, 'the right token');

-- revoked
SELECT * FROM fencing.acquire('x', '1 hour', holder => 'h') \gset
SELECT fencing.revoke('x') AS mark \gset
SELECT ok(:mark > :token, 'revoke raises the mark above the token');
SELECT is(fencing.mark('x'), :mark::bigint, 'and returns it');
SELECT ok(fencing.renew('x', :token, '1 hour') IS NULL AND NOT fencing.release('x', :token), 'the holder has lost the lease');
SELECT * FROM finish();
