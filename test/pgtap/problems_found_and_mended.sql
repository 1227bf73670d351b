-- The view fencing.problems: each kind of problem that a database can have is listed, by one row that names the object, and is gone
-- after the statements of its remedy, without leaving another.  (Those of the server are in a TAP script.)

\ir include/refusal.sql
SELECT plan(158);

-- What there is, but for what the server of these tests lacks.
CREATE VIEW found AS SELECT problem, object, detail, remedy FROM fencing.problems WHERE problem <> 'not_preloaded';
CREATE FUNCTION mend() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	statement text;
BEGIN
	FOR statement IN SELECT line FROM (SELECT * FROM found OFFSET 0) AS f, regexp_split_to_table(f.remedy, ';?\n') AS line LOOP
		EXECUTE statement;
	END LOOP;
END
$$;
CREATE FUNCTION check_problem(made text, problem text, object text, detail text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE made;
	RETURN NEXT results_eq('SELECT f.problem, f.object FROM found AS f', format('VALUES (%L, %L)', problem, object), problem || ' is found: ' || object);
	RETURN NEXT alike((SELECT f.detail FROM found AS f LIMIT 1), detail, problem || ': the detail says what');
	RETURN NEXT is(outcome('SELECT mend()'), 'ok', problem || ': the remedy runs');
	RETURN NEXT is_empty('SELECT * FROM found', problem || ': it is gone, and there is no other');
END
$$;

CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE orders (id int, v text);
CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
CREATE TABLE p_2_1 PARTITION OF p_2 FOR VALUES FROM (10) TO (15);
SELECT fencing.fence('t', 'sku:{id}', max_step => 1000000, strict => true);
SELECT fencing.fence('orders', 'order:{id}', 'resource', on_stale => 'skip');
SELECT fencing.fence('p');
SELECT is_empty('SELECT * FROM found', 'no problem where all is well');
CREATE TEMP TABLE declared AS SELECT * FROM fencing.fences;

-- triggers
SELECT check_problem('ALTER TABLE t DISABLE TRIGGER zzz_fencing_guard', 'trigger_disabled', 'public.t', 'Trigger zzz_fencing_guard does not fire.');
SELECT check_problem('ALTER TABLE t DISABLE TRIGGER zzz_fencing_recheck', 'trigger_disabled', 'public.t', 'Trigger zzz_fencing_recheck does not fire.');
SELECT check_problem('ALTER TABLE orders DISABLE TRIGGER zzz_fencing_truncate', 'trigger_disabled', 'public.orders', 'Trigger zzz_fencing_truncate does not fire.');
SELECT check_problem('ALTER TABLE t ENABLE REPLICA TRIGGER zzz_fencing_guard', 'trigger_disabled', 'public.t', '%not fire on the origin.');
SELECT check_problem('ALTER TABLE ONLY p_1 DISABLE TRIGGER zzz_fencing_guard', 'trigger_disabled', 'public.p_1', 'Trigger zzz_fencing_guard does not fire.');
SELECT check_problem($$CREATE OR REPLACE TRIGGER zzz_fencing_guard BEFORE INSERT OR UPDATE ON t FOR EACH ROW
	EXECUTE FUNCTION fencing.guard('mark=row', 'resource=sku:{id}', 'token_column=fence_token', 'max_step=1000000', 'strict=true')$$,
	'trigger_altered', 'public.t', '%does not fire for every INSERT, UPDATE and DELETE.');
SELECT check_problem($$CREATE OR REPLACE TRIGGER zzz_fencing_guard BEFORE INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW WHEN (false)
	EXECUTE FUNCTION fencing.guard('mark=resource', 'resource=order:{id}', 'on_stale=skip')$$,
	'trigger_altered', 'public.orders', '%does not fire for every%');
SELECT check_problem('DROP TRIGGER zzz_fencing_recheck ON t', 'recheck_missing', 'public.t', '%tombstone%');
SELECT check_problem('DROP TRIGGER zzz_fencing_truncate ON orders', 'truncate_unguarded', 'public.orders', 'TRUNCATE is not refused.');
SELECT check_problem('CREATE TABLE p_3 PARTITION OF p FOR VALUES FROM (20) TO (30)', 'truncate_unguarded', 'public.p_3', '%added after the fence.');
SELECT check_problem('CREATE TABLE p_2_2 PARTITION OF p_2 FOR VALUES FROM (15) TO (20)', 'truncate_unguarded', 'public.p_2_2', '%added after the fence.');

CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
SELECT check_problem('CREATE TRIGGER "zzzz Late" BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION other()',
	'trigger_after_guard', 'public.t', 'Trigger "zzzz Late" fires after the fence%');
SELECT check_problem('CREATE TRIGGER zzzz BEFORE INSERT ON p_2_1 FOR EACH ROW EXECUTE FUNCTION other()',
	'trigger_after_guard', 'public.p_2_1', 'Trigger zzzz fires after the fence%');
CREATE TABLE u (id int PRIMARY KEY, fence_token bigint NOT NULL DEFAULT 0);
SELECT fencing.fence('u');
SELECT check_problem('CREATE OR REPLACE TRIGGER zzz_fencing_truncate BEFORE TRUNCATE ON u EXECUTE FUNCTION other()',
	'trigger_replaced', 'public.u', 'Trigger zzz_fencing_truncate calls public.other(), not the fence.');
SELECT check_problem($$CREATE OR REPLACE FUNCTION fencing.guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'$$,
	'function_replaced', 'fencing.guard()', '%');
SELECT is(outcome('UPDATE t SET v = ''x'''), 'ok', 'an empty table has nothing to refuse');
INSERT INTO t VALUES (1, 'a', 5);
SELECT is(outcome('UPDATE t SET v = ''x'''), 'ZF002', 'the function is the extension''s again');

-- the declaration and what it is about
SELECT check_problem('CREATE OR REPLACE TRIGGER zzz_fencing_guard BEFORE INSERT OR UPDATE OR DELETE ON u FOR EACH ROW EXECUTE FUNCTION fencing.guard(''mark=none'')',
	'declaration_broken', 'public.u', '%cannot be read%');
SELECT check_problem('ALTER TABLE t RENAME id TO "sku Id"', 'column_missing', 'public.t', 'Column id of template ''sku:{id}'' does not exist%');
SELECT is((SELECT resource FROM fencing.fences WHERE relation = 't'::regclass), 'sku:{sku Id}', 'the renamed column is found');
SELECT check_problem('ALTER TABLE t RENAME "sku Id" TO id', 'column_missing', 'public.t', 'Column "sku Id" of%');
SELECT check_problem('ALTER TABLE t RENAME fence_token TO tok', 'token_column_missing', 'public.t', 'Token column fence_token does not exist%');
SELECT is((SELECT token_column FROM fencing.fences WHERE relation = 't'::regclass), 'tok', 'the renamed token column is found');
SELECT is((SELECT tok FROM t), 5::bigint, 'with its marks');
SELECT check_problem('ALTER TABLE t RENAME tok TO fence_token', 'token_column_missing', 'public.t', 'Token column tok does not exist%');
SELECT check_problem('ALTER TABLE u DROP COLUMN fence_token', 'token_column_missing', 'public.u', 'Token column fence_token does not exist%');
SELECT check_problem('ALTER TABLE t ALTER fence_token DROP NOT NULL, ALTER fence_token DROP DEFAULT; INSERT INTO t VALUES (2, ''b'', NULL)',
	'token_column_nullable', 'public.t', 'Token column fence_token can be NULL%');
SELECT check_problem('ALTER TABLE t DROP CONSTRAINT t_pkey', 'key_missing', 'public.t', 'No valid, immediate unique key%');
ALTER TABLE t ADD PRIMARY KEY (id);
SELECT check_problem('ALTER TABLE t SET UNLOGGED', 'unlogged', 'public.t', 'A crash empties it%');
SELECT check_problem('SELECT fencing.fence(''t'', ''sku:{id}'', max_step => 1000000, strict => true, shadow => true)', 'shadow', 'public.t', 'The fence refuses nothing.');
SELECT results_eq('SELECT * FROM fencing.fences WHERE relation = ''t''::regclass', 'SELECT * FROM declared WHERE relation = ''t''::regclass',
	'after all that the declaration is as at first');
SELECT check_problem('SELECT fencing.claim(''far'', 9223372036854775807)', 'mark_out_of_reach', 'far', 'Mark 9223372036854775807 is above%');

-- tables beside fenced ones
SELECT check_problem('ALTER TABLE p DETACH PARTITION p_1', 'guard_missing', 'public.p_1', '%was it a partition?');
SELECT fencing.unfence('p_1');
ALTER TABLE p ATTACH PARTITION p_1 FOR VALUES FROM (0) TO (10);
SELECT fencing.fence('p');
SELECT check_problem('CREATE TABLE t2 (LIKE t INCLUDING ALL)', 'copy_unfenced', 'public.t2', 'It has token column fence_token, but no fence, and the columns of fenced table public.t.%');
SELECT check_problem('CREATE TABLE t3 (LIKE t)', 'copy_unfenced', 'public.t3', '%and the columns of fenced table public.t.%');
SELECT check_problem('CREATE TABLE t4 (LIKE t INCLUDING ALL); DROP TABLE t, t2, t3; ALTER TABLE t4 RENAME TO t',
	'copy_unfenced', 'public.t', 'It has token column fence_token, but no fence%');
SELECT check_problem('CREATE TABLE child () INHERITS (u)', 'inheritance_child', 'public.child', 'It inherits from fenced table public.u%');
CREATE TABLE q (id int PRIMARY KEY, tok bigint NOT NULL DEFAULT 0) PARTITION BY RANGE (id);
CREATE TABLE q_1 PARTITION OF q FOR VALUES FROM (0) TO (10);
CREATE TABLE q_2 PARTITION OF q FOR VALUES FROM (10) TO (20);
SELECT check_problem('SELECT fencing.fence(''q_1'', token_column => ''tok'')', 'partition_unfenced', 'public.q_2', 'Partition public.q_1 beside it is fenced.');
CREATE TABLE r (nr int PRIMARY KEY, tok bigint NOT NULL DEFAULT 0, note text);
CREATE TABLE s AS SELECT * FROM u;
SELECT is_empty('SELECT * FROM found', 'another table with such a column, or a backup of a table, is no problem');

-- settings
SELECT check_problem('SET fencing.enforcement = shadow', 'enforcement', 'this session', 'fencing.enforcement is shadow: fences refuse nothing.');
SELECT check_problem('SET session_replication_role = replica', 'replication_role', 'this session', '%fences do not fire.');
CREATE ROLE problems_role;
SELECT check_problem('ALTER ROLE problems_role SET fencing.enforcement = ''off''', 'enforcement', 'role problems_role', 'fencing.enforcement is off%');
SELECT check_problem(format('ALTER DATABASE %I SET fencing.enforcement = ''off''', current_database()), 'enforcement', 'database ' || quote_ident(current_database()), '%');
SELECT check_problem(format('ALTER ROLE problems_role IN DATABASE %I SET session_replication_role = replica', current_database()),
	'replication_role', 'role problems_role in database ' || quote_ident(current_database()), '%');
ALTER ROLE problems_role IN DATABASE postgres SET fencing.enforcement = off;
SELECT is_empty('SELECT * FROM found', 'what is set for another database is none of ours');

-- it waits for nobody, and everybody may look
SET ROLE problems_role;
SELECT lives_ok('SELECT * FROM fencing.problems', 'an ordinary role may look');
RESET ROLE;
DROP OWNED BY problems_role;
ALTER ROLE problems_role IN DATABASE postgres RESET ALL;
DROP ROLE problems_role;
SELECT * FROM finish();
