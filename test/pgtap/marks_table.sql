-- The table fencing.marks: readable by all, writable by nobody but the functions.

\ir include/refusal.sql
SELECT plan(21);

SELECT isnt(obj_description('fencing.marks'::regclass, 'pg_class'), NULL, 'the table has a comment');
SELECT columns_are('fencing', 'marks', ARRAY['resource', 'token', 'updated_at', 'raised_by']);
SELECT col_type_is('fencing', 'marks', 'resource', 'text', 'resource is text');
SELECT is((SELECT collname FROM pg_attribute a JOIN pg_collation c ON c.oid = attcollation
	WHERE attrelid = 'fencing.marks'::regclass AND attname = 'resource'), 'C', 'in the order of its bytes');
SELECT col_type_is('fencing', 'marks', 'token', 'bigint', 'token is bigint');
SELECT col_type_is('fencing', 'marks', 'updated_at', 'timestamp with time zone', 'updated_at is timestamptz');
SELECT col_is_pk('fencing', 'marks', 'resource', 'one row for a resource');
SELECT is((SELECT relpersistence FROM pg_class WHERE oid = 'fencing.marks'::regclass), 'p', 'it is logged');
SELECT ok('fencing.marks'::regclass = ANY (extconfig), 'pg_dump carries it') FROM pg_extension WHERE extname = 'fencing';

-- a role with rights on its own table alone
CREATE ROLE marks_writer;
CREATE TABLE stock (id int PRIMARY KEY, qty int);
SELECT fencing.fence('stock', 'sku:{id}', 'resource');
GRANT SELECT, INSERT, UPDATE, DELETE ON stock TO marks_writer;
SET ROLE marks_writer;
SELECT is(outcome($$SELECT fencing.present('sku:1', 10); INSERT INTO stock VALUES (1, 1)$$), 'ok',
	'a writer needs no right on the table of marks');
SELECT is((SELECT token FROM fencing.marks WHERE resource = 'sku:1'), 10::bigint, 'and may read it');
SELECT is(outcome(s), '42501', s) FROM (VALUES
	($$INSERT INTO fencing.marks VALUES ('x', 1, now())$$),
	($$UPDATE fencing.marks SET token = 1$$),
	($$DELETE FROM fencing.marks$$),
	($$TRUNCATE fencing.marks$$),
	($$SELECT * FROM fencing.marks FOR UPDATE$$),
	($$INSERT INTO fencing.issued VALUES ('x', 1, now())$$),
	($$DELETE FROM fencing.issued$$),
	($$SELECT nextval('fencing.token_sequence')$$),
	($$SELECT setval('fencing.token_sequence', 1)$$)) AS v(s);
RESET ROLE;
SELECT is(fencing.mark('sku:1'), 10::bigint, 'the mark is as before');
DROP OWNED BY marks_writer;
DROP ROLE marks_writer;
SELECT * FROM finish();
