-- The values in a resource's name: the columns' text output whatever the session's settings, escaped so that different
-- keys have different names, 1 to 512 bytes, no NULL.

\ir include/refusal.sql
SELECT plan(86);

CREATE FUNCTION name_of(statement text) RETURNS text
LANGUAGE sql AS $$ SELECT substring((refusal(statement)).detail FROM '^Resource "(.*)": no token, mark 0\.$') $$;

-- one column: as it is
CREATE TABLE one (v text);
SELECT fencing.fence('one', 'one:{v}', 'resource');
SELECT is(name_of(format('INSERT INTO one VALUES (%L)', v)), 'one:' || v, 'one column is not escaped: ' || v)
FROM unnest(ARRAY['x', 'a:b', E'a\\b', '{v}', '"', '''', 'a,b=c', ' ']) AS v;
SELECT is(name_of($$INSERT INTO one VALUES ('')$$), 'one:', 'an empty value');

-- two columns: ':' and '\' are escaped
CREATE TABLE two (a text, b text);
SELECT fencing.fence('two', 'two:{a}:{b}', 'resource');
SELECT is(name_of(format('INSERT INTO two VALUES (%L, %L)', a, b)), name, format('(%s, %s)', a, b)) FROM (VALUES
	('a:b', 'c', E'two:a\\:b:c'),
	('a', 'b:c', E'two:a:b\\:c'),
	(E'a\\', 'b', E'two:a\\\\:b'),
	('a', E'\\b', E'two:a:\\\\b'),
	(E'\\:', '::', E'two:\\\\\\::\\:\\:'),
	('', '', 'two::'),
	('{', '}', 'two:{:}')) AS v(a, b, name);
SELECT is((SELECT count(DISTINCT name_of(format('INSERT INTO two VALUES (%L, %L)', a, b))) FROM
	unnest(ARRAY['', ':', E'\\', '::', E'\\:', E':\\', 'a', 'a:', ':a', E'a\\']) AS a,
	unnest(ARRAY['', ':', E'\\', '::', E'\\:', E':\\', 'a', 'a:', ':a', E'a\\']) AS b), 100::bigint, 'no two of a hundred pairs share a name');
CREATE TABLE keyed (a text, b text, PRIMARY KEY (a, b));
SELECT fencing.fence('keyed', 'k:{a}:{b}');
INSERT INTO keyed VALUES ('a:b', 'c', 9), ('a', 'b:c', 3);
SELECT is(outcome($$UPDATE keyed SET fence_token = 4 WHERE a = 'a'$$), 'ok', 'two rows whose values read the same when joined are two resources');
SELECT is(outcome($$SELECT fencing.present(E'k:a:b\\:c', 5); UPDATE keyed SET a = a WHERE a = 'a'$$), 'ok', 'the token is presented by the escaped name');

-- NULL, empty and long names
SELECT unnest(ARRAY[
	is((r).state, '22004', 'NULL in a template column'), matches((r).message, '"b"', 'names the column'), isnt((r).hint, '', 'has a hint'),
	is((r).table_name || '.' || (r).column_name, 'two.b', 'has the fields')])
FROM refusal($$SELECT fencing.present('two:a:', 5); INSERT INTO two VALUES ('a', NULL)$$) AS r;
CREATE TABLE bare (v text);
SELECT fencing.fence('bare', '{v}', 'resource');
SELECT is(outcome($$INSERT INTO bare VALUES ('')$$), '22023', 'an empty name');
SELECT is(outcome($$INSERT INTO bare VALUES (repeat('x', 513))$$), '22023', 'a name of 513 bytes');
SELECT is(outcome($$INSERT INTO bare VALUES (repeat('é', 257))$$), '22023', 'a name of 257 characters in 514 bytes');
SELECT is(name_of($$INSERT INTO bare VALUES (repeat('é', 256))$$), repeat('é', 256), 'a name of 512 bytes');
SELECT is(outcome($$SELECT fencing.present(repeat('é', 256), 5); INSERT INTO bare VALUES (repeat('é', 256))$$), 'ok', 'can be written');
SELECT is(outcome($$INSERT INTO bare VALUES (repeat('x', 1000000))$$), '22023', 'a value of a megabyte');
SELECT is(outcome($$INSERT INTO two VALUES (repeat(':', 254), 'x')$$), '22023', 'a name that escapes make too long');
SELECT is((SELECT count(*) FROM bare) + (SELECT count(*) FROM two), 1::bigint, 'no refused row was written');

-- a type for each: the text, and that no setting has a part in it
CREATE TYPE mood AS ENUM ('sad', 'so:so');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN birthday AS date;
CREATE SCHEMA hidden;
CREATE TABLE hidden.named (id int);
CREATE TYPE pair AS (d date, f float8);
CREATE FUNCTION name_for(type text, literal text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN name_of(format('INSERT INTO %I VALUES (%s)', 'typed ' || type, literal));
END
$$;
CREATE TABLE types (type text, literal text, name text);
INSERT INTO types VALUES
	('int2', '-32768', '-32768'), ('int4', '-2147483648', '-2147483648'), ('int8', '-9223372036854775808', '-9223372036854775808'),
	('bool', 'true', 't'), ('text', '''x''', 'x'), ('char(5)', '''ab''', 'ab   '), ('varchar(5)', '''ab''', 'ab'), ('"char"', '''x''', 'x'),
	('name', '''x''', 'x'), ('mood', '''so:so''', 'so:so'), ('positive', '7', '7'), ('numeric', '1.50', '1.50'), ('numeric(5,1)', '1.25', '1.3'),
	('uuid', '''A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11''', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'),
	('float8', '0.1::float8 + 0.2', '0.30000000000000004'), ('float4', '0.1', '0.1'),
	('bytea', '''\xdeadbeef''', '\xdeadbeef'), ('date', 'make_date(2024, 2, 3)', '2024-02-03'), ('birthday', 'make_date(2024, 2, 3)', '2024-02-03'),
	('timestamp', 'make_timestamp(2024, 2, 3, 4, 5, 6.5)', '2024-02-03 04:05:06.5'),
	('timestamptz', 'make_timestamptz(2024, 2, 3, 4, 5, 6.5, ''UTC'')', '2024-02-03 04:05:06.5+00'),
	('interval', 'make_interval(months => 14, days => -2, hours => 3)', '1 year 2 mons -2 days +03:00:00'),
	('regclass', '''hidden.named''::regclass', 'hidden.named'), ('date[]', 'ARRAY[make_date(2024, 2, 3)]', '{2024-02-03}'),
	('tstzrange', 'tstzrange(make_timestamptz(2024, 2, 3, 4, 5, 6, ''UTC''), NULL)', '["2024-02-03 04:05:06+00",)'),
	('pair', 'ROW(make_date(2024, 2, 3), 0.1::float8 + 0.2)::pair', '(2024-02-03,0.30000000000000004)');
SELECT format('CREATE TABLE %I (v %s)', 'typed ' || type, type), format('SELECT fencing.fence(%L, %L, %L)', format('%I', 'typed ' || type), '{v}', 'resource')
FROM types \gexec
SELECT is(name_for(type, literal), name, type) FROM types;
SET DateStyle = 'SQL, DMY';
SET TimeZone = 'Asia/Kolkata';
SET IntervalStyle = 'sql_standard';
SET bytea_output = 'escape';
SET extra_float_digits = -10;
SET search_path = public, hidden;
SELECT is(name_for(type, literal), name, type || ' with other settings') FROM types;
SELECT is(current_setting('DateStyle') || current_setting('TimeZone') || current_setting('IntervalStyle') || current_setting('bytea_output')
	|| current_setting('extra_float_digits') || current_setting('search_path'),
	'SQL, DMYAsia/Kolkatasql_standardescape-10public, hidden', 'the session''s settings are as they were');
RESET ALL;

-- two sessions with different settings mean the same row
CREATE TABLE daily (day date, at timestamptz, PRIMARY KEY (day, at));
SELECT fencing.fence('daily', 'd:{day}:{at}');
SET TimeZone = 'Asia/Tokyo';
SET DateStyle = 'German';
INSERT INTO daily VALUES (make_date(2024, 2, 3), make_timestamptz(2024, 2, 3, 4, 5, 6, 'UTC'), 5);
SELECT is(outcome($$SELECT fencing.present(E'd:2024-02-03:2024-02-03 04\\:05\\:06+00', 8); DELETE FROM daily$$), 'ok', 'one session deletes');
SET TimeZone = 'America/New_York';
SET DateStyle = 'SQL, MDY';
SELECT is(outcome($$INSERT INTO daily VALUES (make_date(2024, 2, 3), make_timestamptz(2024, 2, 3, 4, 5, 6, 'UTC'), 7)$$), 'ZF001',
	'the other meets its tombstone');
SELECT * FROM finish();
