-- What is not a table of one's own with rows that this server locks cannot be fenced; a refusal changes nothing.

\ir include/refusal.sql
SELECT plan(52);

CREATE TABLE plain (id int PRIMARY KEY, v text);
CREATE VIEW a_view AS SELECT * FROM plain;
CREATE MATERIALIZED VIEW a_matview AS SELECT * FROM plain;
CREATE FOREIGN DATA WRAPPER dummy;
CREATE SERVER nowhere FOREIGN DATA WRAPPER dummy;
CREATE FOREIGN TABLE a_foreign_table (id int) SERVER nowhere;
CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);
CREATE TABLE parted_1_1 PARTITION OF parted_1 FOR VALUES FROM (0) TO (5);
SELECT fencing.fence('parted');
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child () INHERITS (parent);
CREATE TABLE half_foreign (id int) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE half_foreign_1 PARTITION OF half_foreign FOR VALUES FROM (0) TO (10) SERVER nowhere;
CREATE TABLE half_fenced (id int PRIMARY KEY, fence_token bigint) PARTITION BY RANGE (id);
CREATE TABLE half_fenced_1 PARTITION OF half_fenced FOR VALUES FROM (0) TO (10);
SELECT fencing.fence('half_fenced_1');
CREATE TEMP TABLE a_temporary (id int PRIMARY KEY);
CREATE UNLOGGED TABLE an_unlogged (id int PRIMARY KEY);
CREATE SEQUENCE a_sequence;
CREATE INDEX an_index ON plain (v);
CREATE TYPE a_composite AS (id int);
CREATE ROLE refused_owner;
CREATE TABLE others (id int PRIMARY KEY);
GRANT ALL ON others TO refused_owner;
GRANT USAGE, CREATE ON SCHEMA public TO refused_owner;

CREATE TABLE columns_before AS SELECT attrelid, attname FROM pg_attribute;
CREATE TABLE triggers_before AS SELECT oid FROM pg_trigger;

CREATE FUNCTION refused(relation text, expected text DEFAULT '42809') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	m text;
	r record;
BEGIN
	FOREACH m IN ARRAY ARRAY['row', 'resource'] LOOP
		SELECT * INTO r FROM refusal(format('SELECT fencing.fence(%L, ''x:{id}'', %L)', relation, m));
		RETURN NEXT is(r.state, expected, format('%s, %s mark', relation, m));
	END LOOP;
	-- whatever the reason, it is told
	IF expected = '42809' THEN
		RETURN NEXT ok(r.detail <> '' AND r.hint <> '' AND r.message = format('cannot fence "%s"', r.table_name), relation || ': says why, and what to do');
	END IF;
END
$$;
SELECT refused(t) FROM unnest(ARRAY['a_view', 'a_matview', 'a_foreign_table', 'parted_1', 'parted_1_1', 'parent', 'half_foreign',
	'half_fenced', 'a_temporary', 'a_sequence', 'an_index', 'a_composite', 'pg_catalog.pg_class']) AS t;
SELECT is((refusal(format('SELECT fencing.fence(%L, ''x:{resource}'', ''resource'')', t))).state, '42809', t)
FROM unnest(ARRAY['fencing.marks', 'fencing.issued']) AS t;
SELECT is(outcome($$SELECT fencing.fence('an_unlogged')$$), '42809', 'a row mark of an unlogged table, which a crash would forget');
SET ROLE refused_owner;
SELECT is(outcome(format('SELECT fencing.fence(%L)', 'public.others')), '42501', 'a table of another owner');
RESET ROLE;
SELECT is_empty('SELECT attrelid::regclass, attname FROM pg_attribute WHERE attrelid >= 16384
	AND attrelid NOT IN (''columns_before''::regclass, ''triggers_before''::regclass)
	AND (SELECT relname NOT LIKE ''%tresults%'' AND relname NOT LIKE ''%tcache%'' FROM pg_class c WHERE c.oid = attrelid)
	EXCEPT SELECT attrelid::regclass, attname FROM columns_before', 'no column was added');
SELECT is_empty('SELECT oid FROM pg_trigger EXCEPT SELECT oid FROM triggers_before', 'no trigger was made');
SELECT is_empty('SELECT * FROM fencing.marks', 'no mark was made');

-- what can be fenced
SELECT is(outcome($$SELECT fencing.fence('an_unlogged', 'x', 'resource')$$), 'ok', 'an unlogged table by a resource mark');
SELECT is(outcome($$SELECT fencing.fence('child', 'child:{id}', 'resource')$$), 'ok', 'an inheritance child by itself');
CREATE TABLE mine (id int PRIMARY KEY);
ALTER TABLE mine OWNER TO refused_owner;
SET ROLE refused_owner;
SELECT is(outcome(format('SELECT fencing.fence(%L)', 'public.mine')), 'ok', 'an ordinary owner''s table');
SELECT is(outcome('INSERT INTO mine VALUES (1, 5); UPDATE mine SET fence_token = 4'), 'ZF001', 'is fenced for its owner too');
RESET ROLE;
DROP OWNED BY refused_owner;
DROP ROLE refused_owner;
SELECT is(outcome('SELECT fencing.fence(999999999)'), '42P01', 'an OID of nothing');
SELECT is(outcome('SELECT fencing.fence(NULL)'), '22023', 'NULL');
SELECT * FROM finish();
