-- The view fencing.fences: every fence of the database, read from the catalog, for everybody.

\ir include/refusal.sql
SELECT plan(16);

SELECT isnt(obj_description('fencing.fences'::regclass, 'pg_class'), NULL, 'the view has a comment');
SELECT columns_are('fencing', 'fences', ARRAY['relation', 'resource', 'mark', 'token_column', 'accept_column', 'on_stale',
	'strict', 'max_step', 'issuer', 'tombstones', 'shadow', 'enabled']);
SELECT is_empty('SELECT * FROM fencing.fences', 'no fence at first');

CREATE TABLE a (id int PRIMARY KEY);
CREATE TABLE b (id int PRIMARY KEY);
CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (10);
SELECT fencing.fence('a');
SELECT fencing.fence('b', 'b', 'resource', max_step => 9223372036854775807);
SELECT fencing.fence('p');
SELECT set_eq('SELECT relation::text, resource FROM fencing.fences', $$VALUES ('a', 'a:{id}'), ('b', 'b'), ('p', 'p:{id}')$$,
	'one row for a fence, however many partitions it covers');
SELECT is((SELECT max_step FROM fencing.fences WHERE relation = 'b'::regclass), 9223372036854775807, 'numbers of any size');

-- values that look like the syntax around them
CREATE TABLE c ("a=b" int, "it's" int, "k" int, "back\slash" int, PRIMARY KEY ("a=b", "it's"));
SELECT fencing.fence('c', E'mark=resource,''{it''s}'':\\{a=b}:{{}}"{back\\slash}', token_column => 'tok=en, "x"');
SELECT is((SELECT resource FROM fencing.fences WHERE relation = 'c'::regclass), E'mark=resource,''{it''s}'':\\{a=b}:{{}}"{back\\slash}',
	'quotes, commas, equals signs, braces and backslashes in a template come back');
SELECT is((SELECT token_column FROM fencing.fences WHERE relation = 'c'::regclass), 'tok=en, "x"'::name, 'and in a column''s name');
SELECT is(outcome(E'SELECT fencing.present(E''mark=resource,\\''2\\'':\\\\1:{}"4'', 7); INSERT INTO c VALUES (1, 2, 3, 4)'), 'ok', 'such a fence works');
SELECT is((SELECT "tok=en, ""x""" FROM c), 7::bigint, 'and keeps its token');

-- what the view says of a weakened fence
ALTER TABLE a DISABLE TRIGGER zzz_fencing_guard;
SELECT is((SELECT enabled FROM fencing.fences WHERE relation = 'a'::regclass), false, 'a disabled guard');
ALTER TABLE a ENABLE ALWAYS TRIGGER zzz_fencing_guard;
SELECT is((SELECT enabled FROM fencing.fences WHERE relation = 'a'::regclass), true, 'one that fires always');
CREATE TABLE d (id int PRIMARY KEY);
CREATE TRIGGER bad BEFORE INSERT ON d FOR EACH ROW EXECUTE FUNCTION fencing.guard('no such key=1');
SELECT results_eq($$SELECT relation, resource, mark FROM fencing.fences WHERE relation = 'd'::regclass$$,
	$$VALUES ('d'::regclass, NULL::text, NULL::text)$$, 'a fence that cannot be read is listed with NULLs');

-- everybody may look, whatever the search_path
CREATE ROLE fences_reader;
SET ROLE fences_reader;
SELECT is((SELECT count(*) FROM fencing.fences), 5::bigint, 'an ordinary role sees all');
CREATE TEMP TABLE pg_trigger (tgrelid oid);
SET search_path = pg_temp, public;
SELECT is((SELECT count(*) FROM fencing.fences), 5::bigint, 'a temporary pg_trigger has no effect');
RESET search_path;
SELECT ok(NOT has_table_privilege('fencing.fences', 'INSERT, UPDATE, DELETE'), 'nobody writes it');
RESET ROLE;
DROP OWNED BY fences_reader;
DROP ROLE fences_reader;
DROP TABLE a, p;
SELECT is((SELECT count(*) FROM fencing.fences), 3::bigint, 'a dropped table''s fence is gone');
SELECT * FROM finish();
