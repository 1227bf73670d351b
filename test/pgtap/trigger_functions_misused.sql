-- 39P01: the guards of a fence, attached or called in any way but that of fencing.fence, refuse and let nothing through.

\ir include/refusal.sql
SELECT plan(17);

CREATE TABLE t (id int PRIMARY KEY, fence_token bigint);
CREATE FUNCTION attached(trigger text, statement text DEFAULT 'INSERT INTO t VALUES (1, 5)') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE 'CREATE TRIGGER g ' || trigger;
	result := outcome(statement);
	DROP TRIGGER g ON t;
	RETURN result;
END
$$;
SELECT is(attached(a), '39P01', a) FROM (VALUES
	($$AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION fencing.guard('mark=row', 'resource=t:{id}', 'token_column=fence_token')$$),
	($$BEFORE INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION fencing.guard('mark=row', 'resource=t:{id}', 'token_column=fence_token')$$),
	($$AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION fencing.guard('mark=row', 'resource=t:{id}', 'token_column=fence_token')$$),
	($$BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fencing.guard_recheck()$$),
	($$AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION fencing.guard_recheck()$$),
	($$BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fencing.guard_truncate()$$),
	($$BEFORE INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION fencing.guard_truncate()$$)) AS v(a);
SELECT is(attached('AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION fencing.guard_recheck()',
	'INSERT INTO t VALUES (7, 5); UPDATE t SET fence_token = 6'), '39P01', 'the recheck on UPDATE');
SELECT is(attached($$BEFORE TRUNCATE ON t FOR EACH STATEMENT EXECUTE FUNCTION fencing.guard('mark=row', 'resource=t:{id}', 'token_column=fence_token')$$,
	'TRUNCATE t'), '39P01', 'the guard on TRUNCATE');
CREATE VIEW v AS SELECT * FROM t;
CREATE TRIGGER g INSTEAD OF INSERT ON v FOR EACH ROW EXECUTE FUNCTION fencing.guard('mark=row', 'resource=t:{id}', 'token_column=fence_token');
SELECT is(outcome('INSERT INTO v VALUES (1, 5)'), '39P01', 'the guard of a view');
SELECT isnt(outcome(s), 'ok', s) FROM (VALUES
	('SELECT fencing.guard()'),
	('SELECT fencing.guard_recheck()'),
	('SELECT fencing.guard_truncate()')) AS v(s);
SELECT is((SELECT count(*) FROM t), 0::bigint, 'no row got in');
SELECT isnt(obj_description('fencing.guard()'::regprocedure, 'pg_proc'), NULL, 'guard has a comment');
SELECT isnt(obj_description('fencing.guard_recheck()'::regprocedure, 'pg_proc'), NULL, 'guard_recheck has a comment');
SELECT isnt(obj_description('fencing.guard_truncate()'::regprocedure, 'pg_proc'), NULL, 'guard_truncate has a comment');
SELECT * FROM finish();
