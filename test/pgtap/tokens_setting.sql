-- The setting fencing.tokens: its syntax, what it refuses, and that present() writes any name into it and gets it back.

-- Set before the library is loaded: a value that is not well formed is dropped then.
SET client_min_messages = error;
SET fencing.tokens = 'no equals sign';
\ir include/refusal.sql
SELECT plan(111);
SELECT is_empty('SELECT * FROM fencing.presented()', 'a malformed value from before the library was loaded presents nothing');
SELECT is(current_setting('fencing.tokens'), '', 'it is dropped');
RESET client_min_messages;

CREATE FUNCTION tokens(value text) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('fencing.tokens', value, true);
	RETURN (SELECT coalesce(jsonb_object_agg(resource, token::text), '{}') FROM fencing.presented());
END
$$;

-- well formed
SELECT is(tokens(v), t::jsonb, v) FROM (VALUES
	('', '{}'),
	(E' \t\n ', '{}'),
	('a=1', '{"a": "1"}'),
	('a=1,b=2', '{"a": "1", "b": "2"}'),
	(E'  a = 1 ,\n\tb=  2  ', '{"a": "1", "b": "2"}'),
	('sku:42=34, order:1042=7', '{"sku:42": "34", "order:1042": "7"}'),
	('"a b"=1', '{"a b": "1"}'),
	('"a,b"=1,"c=d"=2', '{"a,b": "1", "c=d": "2"}'),
	('"say ""hi"""=1', '{"say \"hi\"": "1"}'),
	('""""=1', '{"\"": "1"}'),
	('"plain"=1', '{"plain": "1"}'),
	('" "=1', '{" ": "1"}'),
	(E'"line\nbreak"=1', '{"line\nbreak": "1"}'),
	('a=1, A=2', '{"a": "1", "A": "2"}'),
	('a=1, a=1', '{"a": "1"}'),
	('a=1, "a"=1', '{"a": "1"}'),
	('a=01', '{"a": "1"}'),
	('{}=1, ''=2, \=3, ;=4, %s=5, :=6, +=7', '{"{}": "1", "''": "2", "\\": "3", ";": "4", "%s": "5", ":": "6", "+": "7"}'),
	('🔒é=1', '{"🔒é": "1"}'),
	('a=9223372036854775807', '{"a": "9223372036854775807"}'),
	('a=9007199254740993', '{"a": "9007199254740993"}')) AS w(v, t);
SELECT is(tokens(repeat('x', 512) || '=1'), jsonb_build_object(repeat('x', 512), '1'), 'a name of 512 bytes');
SELECT is(tokens('"' || repeat('""', 512) || '"=1'), jsonb_build_object(repeat('"', 512), '1'), 'a name of 512 quotes');

-- malformed: 22023 and the old value stays
SET fencing.tokens = 'old=7';
SELECT is(outcome(format('SET fencing.tokens = %L', v)), '22023', 'malformed: ' || v) FROM unnest(ARRAY[
	'a', '=1', 'a=', 'a=,b=1', 'a=1,', ',a=1', 'a=1,,b=2', 'a=1 b=2', 'a=1;b=2', 'a==1', 'a=1=2', 'a=x', 'a=1x', 'a=0', 'a=00', 'a=-1', 'a=+1', 'a=1.0',
	'a=1e3', 'a=0x10', 'a=NULL', 'a=''1''', 'a="1"', 'a=9223372036854775808', 'a=99999999999999999999999999', 'a=18446744073709551617',
	'""=1', '"a', '"a=1', '"a"b=1', 'a"b"=1', '"a""=1', 'a b=1', 'a=1, a=2', 'a=1, b=1, "a"=2', '"a" "b"=1', 'a=1 000', E'a=1\u00a0']) AS v;
SELECT is(outcome(format('SET fencing.tokens = %L', repeat('x', 513) || '=1')), '22023', 'a name of 513 bytes');
SELECT is(outcome(format('SET fencing.tokens = %L', '"' || repeat('é', 257) || '"=1')), '22023', 'a name of 257 characters in 514 bytes');
SELECT is(current_setting('fencing.tokens'), 'old=7', 'the old value is kept');
SELECT results_eq('SELECT * FROM fencing.presented()', $$VALUES ('old', 7::bigint)$$, 'and in force');
SELECT isnt((refusal('SET fencing.tokens = ''a''')).detail, '', 'the error says what is wrong');
SELECT is(outcome('CREATE FUNCTION bad() RETURNS int LANGUAGE sql SET fencing.tokens = ''a'' AS ''SELECT 1'''), '22023', 'a function''s SET clause is checked');
SELECT is(outcome(format('ALTER DATABASE %I SET fencing.tokens = ''a=0''', current_database())), '22023', 'so is a database''s');
RESET fencing.tokens;

-- round trips: what present() writes can be read, by itself and by SET
CREATE FUNCTION round_trip(names text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	setting text;
BEGIN
	PERFORM set_config('fencing.tokens', '', true);
	FOR i IN 1 .. cardinality(names) LOOP
		PERFORM fencing.present(names[i], i);
	END LOOP;
	setting := current_setting('fencing.tokens');
	IF (SELECT count(*) FILTER (WHERE names[token] = resource) FROM fencing.presented()) <> cardinality(names) THEN
		RETURN false;
	END IF;
	PERFORM set_config('fencing.tokens', '', true);
	PERFORM set_config('fencing.tokens', setting, true);
	RETURN (SELECT count(*) FILTER (WHERE names[token] = resource) FROM fencing.presented()) = cardinality(names);
END
$$;
CREATE TABLE nasty (name text);
INSERT INTO nasty VALUES (' '), ('stock 1'), ('50%off'), ('a%sb'), ('x{y}z'), ('{}'), ('a}b{c'), ('🔒'), (E'trailing\n'), (E'\nleading'), ('"'), ('""'),
	('"quoted"'), ('a"'), ('"a'), (','), ('='), ('a=1, b=2'), (''''), (E'\\'), (E'\\"'), (E'\t'), (E'\v\f\r'), (E'\u0001'), (E'\u00a0'), ('A'), ('a'),
	(E'\u00e9'), (E'e\u0301'), (repeat('x', 512)), (repeat('"', 512)), (repeat('🔒', 128)), (repeat(' ', 512)), ('1'), ('-1'), ('NULL'), ('$user'), ('default');
SELECT ok(round_trip(ARRAY[name]), 'round trip of ' || to_json(left(name, 20))) FROM nasty WHERE octet_length(name) < 512;
SELECT ok(round_trip(ARRAY[name]), 'round trip of 512 bytes') FROM nasty WHERE octet_length(name) = 512;
SELECT ok(round_trip(array_agg(name)), 'all of them at once') FROM nasty;
-- the same names as resources with marks
BEGIN;
SELECT fencing.claim(array_agg(name ORDER BY name), array_agg(7::bigint)) FROM nasty;
SELECT set_eq('SELECT resource, token FROM fencing.marks', 'SELECT name, 7::bigint FROM nasty', 'each has its mark');
SELECT set_eq('SELECT resource, token FROM fencing.presented()', 'SELECT name, 7::bigint FROM nasty', 'and is presented');
COMMIT;
SELECT * FROM finish();
