-- What a user reads about leases.

SELECT resource, token > 0 AS token, holder, expires_at > acquired_at AS lasts FROM fencing.acquire('report', '1 hour', holder => 'worker 1');
SELECT token AS token FROM fencing.leases WHERE resource = 'report' \gset
\set VERBOSITY terse
SELECT fencing.acquire('report');
SELECT fencing.acquire('report', wait => '10 ms');
SELECT fencing.renew('report', 1000000000, '1 min');
SELECT fencing.release('nothing', 1);
SELECT fencing.acquire('report', '0 s');
SELECT fencing.acquire('report', '-1 s');
SELECT fencing.acquire('report', NULL);
SELECT fencing.acquire('report', '101 years');
SELECT fencing.acquire('report', wait => '-1 s');
SELECT fencing.acquire('report', holder => '');
SELECT fencing.acquire('report', holder => repeat('x', 513));
SELECT fencing.release('report', 0);
SELECT fencing.release('report', NULL);
SELECT fencing.purge_leases('-1 day');
BEGIN READ ONLY;
SELECT fencing.acquire('report');
ROLLBACK;
\set VERBOSITY default
SELECT fencing.release('nothing', 1);
\set SHOW_CONTEXT never
DO $$
DECLARE hint text; state text;
BEGIN
	PERFORM fencing.acquire('report', wait => '10 ms');
EXCEPTION WHEN lock_not_available THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT, state = RETURNED_SQLSTATE;
	RAISE NOTICE '%: %', state, hint;
END $$;
SELECT fencing.release('report', :token);
SELECT resource, lease_token, holder FROM fencing.issued WHERE resource = 'report';
SELECT fencing.purge_leases('0') > 0 AS purged;
\d fencing.leases
