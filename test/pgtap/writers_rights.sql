-- Writers need no right but that on the table, and nothing that they can make or set gets a write past the fence: not
-- tables, operators or functions of the extension's names, row-level security, or roles.

\ir include/refusal.sql
SELECT plan(39);

CREATE ROLE rights_app;
CREATE ROLE rights_other;
GRANT rights_other TO rights_app;
CREATE SCHEMA app AUTHORIZATION rights_app;
CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
CREATE TABLE orders (id int, v text);
SELECT fencing.fence('t', token_column => 'tok');
SELECT fencing.fence('orders', 'order:{id}', 'resource');
GRANT SELECT, INSERT, UPDATE, DELETE ON t, orders TO rights_app, rights_other;
GRANT TEMPORARY ON DATABASE :DBNAME TO rights_app;
REVOKE ALL ON SCHEMA fencing FROM PUBLIC;
SET ROLE rights_app;
SET search_path = public;
SET fencing.tokens = 't:1=10, order:1=10';
SELECT is(outcome('INSERT INTO t VALUES (1, ''a'')'), 'ok', 'a row mark, even without USAGE on the schema of the extension');
SELECT is(outcome('UPDATE t SET v = ''b'''), 'ok', 'its update');
SELECT is(outcome('DELETE FROM t'), 'ok', 'its tombstone');
SELECT is(outcome('INSERT INTO t VALUES (1, ''a'')'), 'ok', 'and the insert over it');
SELECT is(outcome('UPDATE t SET id = 2, tok = 10'), 'ok', 'a change of name');
SELECT is(outcome('INSERT INTO orders VALUES (1, ''a'')'), 'ok', 'a resource mark');
SELECT is(outcome('SET fencing.tokens = ''order:1=9''; INSERT INTO orders VALUES (1, ''a'')'), 'ZF001', 'is stale all the same');
RESET ROLE;
RESET fencing.tokens;
GRANT USAGE ON SCHEMA fencing TO PUBLIC;
SELECT is(fencing.mark('order:1') + fencing.mark('t:1'), 20::bigint, 'the marks are there');

-- shadowing everything that the extension could mean
SET ROLE rights_app;
SET search_path = app, public;
CREATE TEMP TABLE marks (resource text, token bigint, updated_at timestamptz);
CREATE TEMP TABLE issued (resource text, token bigint, updated_at timestamptz);
CREATE TEMP SEQUENCE token_sequence;
INSERT INTO marks VALUES ('order:1', 1, now());
CREATE TABLE app.marks AS TABLE marks;
CREATE FUNCTION app.always(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION app.never(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE FUNCTION app.lower(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR app.= (LEFTARG = text, RIGHTARG = text, FUNCTION = app.never);
CREATE OPERATOR app.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = app.always);
CREATE OPERATOR app.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = app.lower);
CREATE FUNCTION app.coalesce(bigint, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';
CREATE FUNCTION app.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz';
CREATE FUNCTION app.nextval(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
RESET search_path;
-- a value or an SQLSTATE, with the shadows first in the path
RESET ROLE;
CREATE FUNCTION shadowed(statement text) RETURNS text LANGUAGE plpgsql SET search_path = pg_temp, app, pg_catalog, public AS $$
DECLARE
	value text;
BEGIN
	IF starts_with(statement, 'SELECT') THEN
		EXECUTE statement INTO value;
		RETURN value;
	END IF;
	EXECUTE statement;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END
$$;
SET ROLE rights_app;
SELECT is(shadowed('SELECT ''a'' = ''a''::text'), 'false', 'the shadows are in force');
BEGIN;
SELECT fencing.present('order:1', 5);
SELECT is(shadowed('INSERT INTO orders VALUES (1, ''s'')'), 'ZF001', 'stale');
SELECT fencing.present('order:1', 10);
SELECT is(shadowed('INSERT INTO orders VALUES (1, ''s'')'), 'ok', 'an equal token passes');
COMMIT;
SELECT is(shadowed('INSERT INTO t VALUES (1, ''s'', 9)'), 'ZF001', 'a tombstone is found');
SELECT is(shadowed('SELECT fencing.mark(''order:1'')'), '10', 'mark() tells the true mark');
SELECT is(shadowed($$SELECT fencing.claim('order:1', 9)$$), 'ZF001', 'claim() compares with it');
SELECT is(shadowed($$SELECT fencing.claim('order:1', 11)$$), '', 'and raises it');
SELECT is(fencing.mark('order:1'), 11::bigint, 'there');
SELECT ok(shadowed($$SELECT fencing.next_token('order:1')$$)::bigint > 11, 'next_token() is above it');
SELECT is((SELECT count(*) FROM pg_temp.marks) + (SELECT count(*) FROM pg_temp.issued), 1::bigint, 'nothing was written into the shadows');
SELECT is((SELECT is_called FROM pg_temp.token_sequence), false, 'nor taken from them');
RESET ROLE;

-- the administrator's functions, with the same shadows
SELECT is(shadowed($$SELECT fencing.set_mark('order:1', 10, 'test')$$), '11', 'set_mark() looks at the true mark');
SELECT is(fencing.mark('order:1'), 10::bigint, 'and sets it');

-- row-level security of the table
ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
ALTER TABLE orders FORCE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON orders USING (true);
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
ALTER TABLE t FORCE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON t USING (true);
SET ROLE rights_app;
SELECT is(outcome($$SELECT fencing.present('order:1', 9); INSERT INTO orders VALUES (1, 'r')$$), 'ZF001', 'row-level security: stale');
SELECT is(outcome($$SELECT fencing.present('order:1', 10); INSERT INTO orders VALUES (1, 'r')$$), 'ok', 'row-level security: equal');
SELECT is(outcome('INSERT INTO t VALUES (1, ''r'', 9)'), 'ZF001', 'row-level security: a tombstone is found');
SELECT is(outcome('UPDATE t SET tok = 9'), 'ZF001', 'row-level security: a stale update');
RESET ROLE;

-- a role set within the transaction
BEGIN;
SET LOCAL ROLE rights_app;
SELECT fencing.present('order:1', 9);
SET LOCAL ROLE rights_other;
SELECT is(outcome('INSERT INTO orders VALUES (1, ''o'')'), 'ZF001', 'SET ROLE: a token presented before it counts: stale');
SELECT fencing.present('order:1', 12);
SET LOCAL ROLE rights_app;
SELECT is(outcome('INSERT INTO orders VALUES (1, ''o'')'), 'ok', 'SET ROLE: and a newer one raises the mark');
COMMIT;
SELECT is(fencing.mark('order:1'), 12::bigint, 'whoever wrote');

-- what an ordinary role cannot do
SET ROLE rights_app;
SELECT is(outcome(s), '42501', s) FROM unnest(ARRAY[
	$$SELECT fencing.fence('public.t')$$,
	$$SELECT fencing.unfence('public.t')$$,
	$$SELECT fencing.set_mark('order:1', 1, 'x')$$,
	$$SELECT fencing.compact('0')$$,
	$$ALTER TABLE public.t DISABLE TRIGGER ALL$$,
	$$DROP TRIGGER zzz_fencing_guard ON public.t$$,
	$$SET session_replication_role = replica$$,
	$$SET fencing.enforcement = off$$]) AS s;
SELECT is(outcome('DROP EXTENSION fencing CASCADE'), '42501', 'nor drop the extension');
-- a function that runs as its owner
RESET ROLE;
CREATE FUNCTION definer() RETURNS void LANGUAGE sql SECURITY DEFINER AS $$ INSERT INTO orders VALUES (1, 'd') $$;
SET ROLE rights_app;
SELECT is(outcome('SELECT definer()'), 'ZF002', 'a SECURITY DEFINER function is fenced as everybody');
SELECT is(outcome($$SELECT fencing.present('order:1', 12); SELECT definer()$$), 'ok', 'and takes the token its caller presents');
RESET ROLE;
DROP OWNED BY rights_app, rights_other CASCADE;
DROP ROLE rights_app, rights_other;
SELECT * FROM finish();
