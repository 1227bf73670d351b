-- fencing.acquire and try_acquire: a lease has one holder, a token to fence with, and an end that counts from the grant.

\ir include/refusal.sql
-- pg_sleep_until() can end a little early: it counts from the transaction's start
CREATE PROCEDURE wait_until(t timestamptz) LANGUAGE plpgsql AS $$
BEGIN WHILE clock_timestamp() < t LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;
SELECT plan(50);

SELECT is(pg_get_function_arguments('fencing.acquire(text,interval,interval,text)'::regprocedure),
	'resource text, ttl interval DEFAULT ''00:00:30''::interval, wait interval DEFAULT ''00:00:00''::interval, holder text DEFAULT NULL::text',
	'the documented arguments of acquire');
SELECT is(pg_get_function_arguments('fencing.try_acquire(text,interval,text)'::regprocedure),
	'resource text, ttl interval DEFAULT ''00:00:30''::interval, holder text DEFAULT NULL::text', 'and of try_acquire');
SELECT function_returns('fencing', 'acquire', ARRAY['text', 'interval', 'interval', 'text'], 'fencing.lease');
SELECT function_returns('fencing', 'try_acquire', ARRAY['text', 'interval', 'text'], 'fencing.lease');
SELECT is(string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum),
	'resource text, token bigint, holder text, acquired_at timestamp with time zone, expires_at timestamp with time zone',
	'what a lease consists of') FROM pg_attribute WHERE attrelid = 'fencing.lease'::regclass AND attnum > 0;

-- a grant
SELECT clock_timestamp() AS before \gset
SELECT * FROM fencing.acquire('a', '1 hour', holder => 'worker 1') \gset
SELECT is(:'resource'::text, 'a', 'the resource is the one asked for');
SELECT ok(:token >= 1, 'there is a token');
SELECT is(:'holder'::text, 'worker 1', 'the holder is the one named');
SELECT ok(:'acquired_at'::timestamptz BETWEEN :'before' AND clock_timestamp(), 'acquired at the server''s clock');
SELECT is(:'expires_at'::timestamptz - :'acquired_at'::timestamptz < interval '1 hour 1 s', true, 'it ends an hour later, not more');
SELECT is(:'expires_at'::timestamptz - :'acquired_at'::timestamptz >= interval '1 hour', true, 'and not less');
SELECT is(fencing.mark('a'), 0::bigint, 'the token raises no mark until it is claimed or written with');
SELECT lives_ok(format('SELECT fencing.claim(''a'', %s)', :token), 'it can be claimed');

-- busy
SELECT is(outcome($$SELECT fencing.acquire('a')$$), '55P03', 'another holder finds it busy');
SELECT is((r).message, 'lease on resource "a" is busy', 'which the message says') FROM refusal($$SELECT fencing.acquire('a')$$) AS r;
SELECT matches((r).detail, format('^Resource "a": token %s, holder "worker 1", until .*\.$', :token), 'and the detail who has it')
	FROM refusal($$SELECT fencing.acquire('a', holder => 'worker 2')$$) AS r;
SELECT matches((r).hint, 'wait', 'and the hint what to do') FROM refusal($$SELECT fencing.acquire('a')$$) AS r;
SELECT is(outcome($$SELECT fencing.acquire('a', holder => 'Worker 1')$$), '55P03', 'a holder in other case is another');
SELECT is(outcome($$SELECT fencing.acquire('a', holder => NULL)$$), '55P03', 'a holder without a name is another');
SELECT ok(fencing.try_acquire('a') IS NULL, 'try_acquire gives NULL');
BEGIN;
SELECT ok(fencing.try_acquire('a') IS NULL, 'busy in a transaction');
SELECT is((fencing.try_acquire('b', '1 hour', 'h')).holder, 'h', 'which goes on: another resource is free');
COMMIT;
SELECT ok(fencing.try_acquire('b') IS NULL, 'and is held after the commit');

-- the same holder
SELECT is((fencing.acquire('a', '2 hours', holder => 'worker 1')).token, :token::bigint, 'the same holder gets the same token');
SELECT is((fencing.try_acquire('a', '3 hours', 'worker 1')).token, :token::bigint, 'by try_acquire as well');
SELECT is(acquired_at, :'acquired_at'::timestamptz, 'holding it since the first time') FROM fencing.leases WHERE resource = 'a';
SELECT ok(expires_at > clock_timestamp() + interval '2 hours 59 min', 'to a new end') FROM fencing.leases WHERE resource = 'a';
SELECT is((fencing.acquire('a', '1 min', holder => 'worker 1')).expires_at < clock_timestamp() + interval '2 min', true, 'also to an earlier one');

-- a holder that is made up
SELECT matches((fencing.acquire('c')).holder, '^[0-9a-f]{32}$', 'without a name the holder gets a random one');
SELECT isnt((fencing.acquire('d')).holder, (fencing.acquire('e')).holder, 'each time another');

-- takeover
SELECT * FROM fencing.acquire('t', '100 ms', holder => 'first') \gset
SELECT ok(fencing.try_acquire('t') IS NULL, 'not before the end of the lease');
CALL wait_until(:'expires_at');
SELECT ok((fencing.try_acquire('t', '1 hour', 'second')).token > :token, 'after it another holder gets it, with a larger token');
SELECT is(outcome($$SELECT fencing.acquire('t', holder => 'first')$$), '55P03', 'the first one is out');
SELECT * FROM fencing.acquire('own', '50 ms', holder => 'first') \gset
CALL wait_until(:'expires_at');
SELECT ok((fencing.try_acquire('own', '1 hour', 'first')).token > :token, 'a lapsed lease is new even for the same holder');

-- times are not the transaction's
BEGIN;
SELECT pg_sleep(0.3);
SELECT * FROM fencing.acquire('long', '200 ms') \gset
SELECT ok(:'expires_at'::timestamptz > clock_timestamp(), 'in a long transaction the time to live counts from the grant');
SELECT ok(fencing.try_acquire('long') IS NULL, 'the transaction itself finds it busy');
CALL wait_until(:'expires_at');
SELECT ok((fencing.try_acquire('long')).token > :token, 'and sees the end of it come');
COMMIT;

-- waiting
SELECT * FROM fencing.acquire('w', '300 ms', holder => 'first') \gset
SELECT clock_timestamp() AS before \gset
SELECT is(outcome($$SELECT fencing.acquire('w', wait => '100 ms')$$), '55P03', 'a wait that is too short');
SELECT ok(clock_timestamp() - :'before' BETWEEN interval '100 ms' AND interval '200 ms', 'takes what it may take');
SELECT matches((r).hint, '^"wait" has ended', 'and its hint says so') FROM refusal($$SELECT fencing.acquire('w', wait => '1 ms')$$) AS r;
SELECT acquired_at AS acquired2, expires_at AS expires2, token AS token2 FROM fencing.acquire('w', '1 hour', '10 s', 'second') \gset
SELECT ok(:'acquired2'::timestamptz BETWEEN :'expires_at' AND :'expires_at'::timestamptz + interval '100 ms', 'a long one ends with the lease');
SELECT ok(:'expires2'::timestamptz >= :'acquired2'::timestamptz + interval '1 hour', 'the new one counts from its grant');
SELECT ok(:token2 > :token, 'with a larger token');

-- rollback and savepoints
BEGIN;
SELECT * FROM fencing.acquire('r') \gset
ROLLBACK;
SELECT ok((fencing.try_acquire('r')).token > :token, 'a lease that was rolled back is free, and its token is not handed out again');
BEGIN;
SAVEPOINT s;
SELECT * FROM fencing.acquire('s', '1 hour', '0', 'h') \gset
ROLLBACK TO s;
SELECT is(count(*), 0::bigint, 'a savepoint takes the lease along') FROM fencing.leases WHERE resource = 's';
SELECT ok((fencing.acquire('s', '1 hour', '0', 'h')).token > :token, 'not the token');
RELEASE s;
COMMIT;
SELECT is(count(*), 1::bigint, 'the other one stays') FROM fencing.leases WHERE resource = 's' AND token > :token;

-- isolation levels
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM fencing.issued;
SELECT is((fencing.acquire('rr', '1 hour', '0', 'h')).holder, 'h', 'in REPEATABLE READ');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT ok(fencing.try_acquire('rr') IS NULL, 'in SERIALIZABLE');
COMMIT;

-- what the caller's settings do
SET search_path = ''; SET "TimeZone" = 'Asia/Tokyo'; SET "DateStyle" = 'German'; SET "IntervalStyle" = 'sql_standard';
SELECT l.expires_at OPERATOR(pg_catalog.-) pg_catalog.clock_timestamp() AS rest FROM fencing.acquire('styles', '60 s') AS l \gset
RESET ALL;
SET "IntervalStyle" = 'sql_standard';
SELECT ok(:'rest'::interval BETWEEN '59 s' AND '60 s', 'styles, time zones and paths change nothing');
RESET ALL;
SELECT * FROM finish();
