-- The setting fencing.deadline: a timestamp with a fixed meaning, or nothing.

\ir include/refusal.sql
SELECT plan(47);

SELECT fencing.present('load', 1);
SELECT is(current_setting('fencing.deadline'), '', 'the default is none');
CREATE FUNCTION moment(value text) RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('fencing.deadline', value, true);
	PERFORM fencing.present('x', 1, '2300-01-01 00:00+00');
	-- the earliest of the two is the setting's, or there was none
	RETURN current_setting('fencing.deadline')::timestamptz;
END
$$;
SET TimeZone = 'America/New_York';
SELECT is(moment(v), m, v) FROM (VALUES
	('2030-01-31 12:00:00+00', '2030-01-31 12:00:00+00'::timestamptz),
	('2030-01-31 12:00:00.123456+00', '2030-01-31 12:00:00.123456+00'),
	('2030-01-31T12:00:00Z', '2030-01-31 12:00:00+00'),
	('2030-01-31 12:00:00 Asia/Tokyo', '2030-01-31 03:00:00+00'),
	('2030-01-31 12:00:00+05:30', '2030-01-31 06:30:00+00'),
	('2030-01-31 12:00:00', '2030-01-31 17:00:00+00'),
	('2030-01-31', '2030-01-31 05:00:00+00'),
	('', '2300-01-01 00:00+00'),
	('infinity', '2300-01-01 00:00+00')) AS w(v, m);
SET fencing.deadline = '2030-01-31 12:00:00+00';
SELECT is(outcome(format('SET fencing.deadline = %L', v)), '22023', 'refused: "' || v || '"') FROM unnest(ARRAY[
	'now', 'NOW', 'today', 'tomorrow', 'yesterday', 'epoch', 'now + 1 hour', 'tomorrow 12:00', '12:00', '30 s', '1 hour', 'garbage', ' ', '0', '-1', '2030',
	'2030-13-01', '2030-02-30 00:00+00', '2030-01-31 25:00+00', '2030-01-31 12:00 Nowhere/Land', '2030-01-31 12:00+99', '300000-01-01', '2030-01-31 12:00+00 x',
	'infinity x', 'null', '2030-01-31; SELECT 1', repeat('9', 1000), '@']) AS v;
SELECT is(current_setting('fencing.deadline'), '2030-01-31 12:00:00+00', 'the old value is kept');
SELECT isnt((refusal('SET fencing.deadline = ''now''')).hint, '', 'the error has a hint');
RESET fencing.deadline;
-- scope
BEGIN;
SET LOCAL fencing.deadline = '2000-01-01 00:00+00';
SAVEPOINT s;
SET LOCAL fencing.deadline = '';
SELECT is(current_setting('fencing.deadline'), '', 'within a savepoint');
ROLLBACK TO s;
SELECT is(current_setting('fencing.deadline'), '2000-01-01 00:00+00', 'comes back');
COMMIT;
SELECT is(current_setting('fencing.deadline'), '', 'ends with the transaction');
CREATE FUNCTION dated() RETURNS text LANGUAGE sql SET fencing.deadline = '2000-01-01 00:00+00' AS $$ SELECT current_setting('fencing.deadline') $$;
SELECT is(dated(), '2000-01-01 00:00+00', 'in a function''s SET clause');
SELECT is(outcome($$CREATE FUNCTION bad() RETURNS int LANGUAGE sql SET fencing.deadline = 'now' AS 'SELECT 1'$$), '22023', 'which is checked');
-- the argument
SELECT is(outcome($$SELECT fencing.present('x', 1, NULL)$$), 'ok', 'NULL is no deadline');
-- a change of time zone does not move it
BEGIN;
SET LOCAL TimeZone = 'Asia/Tokyo';
SET LOCAL fencing.deadline = '2030-01-31 12:00:00';
SET LOCAL TimeZone = 'UTC';
SELECT fencing.present('x', 1, '2030-01-31 04:00:00+00');
SELECT is(current_setting('fencing.deadline'), '2030-01-31 12:00:00', 'a moment without a zone is that of the zone it was set in');
COMMIT;
SELECT * FROM finish();
