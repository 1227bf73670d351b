-- What the functions of leases do not take: each refusal has its SQLSTATE, names the argument, and leaves nothing behind.

\ir include/refusal.sql
SELECT plan(79);

SELECT * FROM fencing.acquire('held', '1 hour', holder => 'h') \gset

-- names
SELECT is(outcome(format(f, quote_nullable(n))), '22023', format('%s with name %s', f, left(quote_nullable(n), 8)))
FROM unnest(ARRAY['SELECT fencing.acquire(%s)', 'SELECT fencing.try_acquire(%s)', 'SELECT fencing.renew(%s, 1, ''1 s'')',
	'SELECT fencing.release(%s, 1)', 'SELECT fencing.revoke(%s)']) AS f,
	unnest(ARRAY[NULL, '', repeat('x', 513), repeat('é', 257), repeat('x', 1000000)]) AS n;
SELECT is((fencing.acquire(n)).resource, n, format('a name of %s bytes', octet_length(n)))
FROM unnest(ARRAY[repeat('x', 512), repeat('é', 256), ' ', E'a\nb', 'a"b', '{}', '50%off', 'x=y, z', '😀']) AS n;

-- lengths of time
SELECT is(outcome(format(f, quote_nullable(t))), '22023', format('%s with %s', f, quote_nullable(t)))
FROM unnest(ARRAY['SELECT fencing.acquire(''new'', %s)', 'SELECT fencing.try_acquire(''new'', %s)',
	format('SELECT fencing.renew(''held'', %s, %%s)', :token)]) AS f,
	unnest(ARRAY[NULL, '0', '-1 s', '0.4 us', '1 month -31 days', '300 years', '100 years 1 us', '178000000 years']) AS t;
SELECT is(outcome(format('SELECT fencing.acquire(''new'', ''1 s'', %s)', quote_nullable(t))), '22023', format('wait of %s', quote_nullable(t)))
FROM unnest(ARRAY[NULL, '-1 us', '-1 month', '300 years']) AS t;
SELECT is(count(*), 0::bigint, 'no lease came of it') FROM fencing.leases WHERE resource = 'new';
SELECT ok(expires_at > clock_timestamp() + interval '59 min', 'and none was changed') FROM fencing.leases WHERE resource = 'held';

-- tokens
SELECT is(outcome(format(f, t)), '22023', format('%s with %s', f, t))
FROM unnest(ARRAY['SELECT fencing.renew(''held'', %s, ''1 s'')', 'SELECT fencing.release(''held'', %s)']) AS f,
	unnest(ARRAY['NULL', '0', '-1']) AS t;
SELECT is(fencing.release('held', 9223372036854775807), false, 'the largest number is a token that nobody has');

-- holders
SELECT is(outcome(format('SELECT fencing.acquire(''new'', holder => %L)', h)), '22023', format('a holder of %s bytes', octet_length(h)))
FROM unnest(ARRAY['', repeat('x', 513), repeat('x', 1000000)]) AS h;
SELECT is((fencing.try_acquire('new', holder => repeat('é', 256))).holder, repeat('é', 256), 'one of 512');
SELECT matches((r).message, 'argument "ttl" is zero', 'the message names the argument') FROM refusal('SELECT fencing.acquire(''x'', ''0'')') AS r;

-- short and long ones that are right
SELECT is(expires_at - acquired_at < interval '1 s', true, 'a microsecond') FROM fencing.acquire('short', '1 us');
SELECT ok(expires_at BETWEEN clock_timestamp() + interval '29 days' AND clock_timestamp() + interval '30 days', 'a month has 30 days') FROM fencing.acquire('month', '1 month');
SELECT ok(expires_at > clock_timestamp() + interval '98 years', 'a hundred years') FROM fencing.acquire('century', '100 years');
SELECT * FROM finish();
