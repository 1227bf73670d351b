-- fencing.fence: the documented arguments and defaults; it adds the token column where that is missing, makes the
-- triggers, fences what it names, and when called again replaces the declaration.

\ir include/refusal.sql
SELECT plan(40);

SELECT is(
	pg_get_function_arguments('fencing.fence(regclass,text,text,name,boolean,text,boolean,bigint,text,boolean,boolean)'::regprocedure),
	'relation regclass, resource text DEFAULT NULL::text, mark text DEFAULT ''row''::text,'
	' token_column name DEFAULT ''fence_token''::name, accept_column boolean DEFAULT true,'
	' on_stale text DEFAULT ''error''::text, strict boolean DEFAULT false, max_step bigint DEFAULT NULL::bigint,'
	' issuer text DEFAULT ''any''::text, tombstones boolean DEFAULT true, shadow boolean DEFAULT false',
	'fence has the documented arguments and defaults');
SELECT function_returns('fencing', 'fence',
	ARRAY['regclass', 'text', 'text', 'name', 'boolean', 'text', 'boolean', 'bigint', 'text', 'boolean', 'boolean'],
	'void');
SELECT isnt(obj_description('fencing.fence(regclass,text,text,name,boolean,text,boolean,bigint,text,boolean,boolean)'::regprocedure, 'pg_proc'),
	NULL, 'fence has a comment');
SELECT ok(has_function_privilege('public', 'fencing.fence(regclass,text,text,name,boolean,text,boolean,bigint,text,boolean,boolean)', 'EXECUTE'),
	'the owner of a table needs no right on fence');

-- the defaults
CREATE TABLE stock (id int PRIMARY KEY, qty int);
INSERT INTO stock VALUES (1, 10), (2, 20);
SELECT fencing.fence('stock');
SELECT results_eq(
	$$SELECT relation, resource, mark, token_column, accept_column, on_stale, strict, max_step, issuer, tombstones, shadow, enabled
	  FROM fencing.fences$$,
	$$VALUES ('stock'::regclass, 'stock:{id}', 'row', 'fence_token'::name, true, 'error', false, NULL::bigint, 'any', true, false, true)$$,
	'a fence with defaults');
SELECT col_type_is('stock', 'fence_token', 'bigint', 'the token column is added as bigint');
SELECT col_not_null('stock', 'fence_token', 'the token column is NOT NULL');
SELECT col_default_is('stock', 'fence_token', '0', 'the token column has default 0');
SELECT results_eq('SELECT DISTINCT fence_token FROM stock', 'VALUES (0::bigint)', 'rows from before have no mark');
SELECT throws_ok('UPDATE stock SET qty = 1', 'ZF002', 'write to fenced table "stock" carries no token',
	'a declared fence is in force');

-- every argument has its effect in the view
SELECT fencing.fence('stock', 'sku:{id}', token_column => 'tok', accept_column => false, on_stale => 'skip',
	strict => true, max_step => 7, issuer => 'database', tombstones => false, shadow => true);
SELECT results_eq(
	$$SELECT relation, resource, mark, token_column, accept_column, on_stale, strict, max_step, issuer, tombstones, shadow, enabled
	  FROM fencing.fences$$,
	$$VALUES ('stock'::regclass, 'sku:{id}', 'row', 'tok'::name, false, 'skip', true, 7::bigint, 'database', false, true, true)$$,
	'a second call replaces the declaration');
SELECT has_column('stock', 'tok', 'a second call adds the newly named column');
SELECT has_column('stock', 'fence_token', 'a column named before stays');

SELECT fencing.fence('stock');
SELECT results_eq(
	$$SELECT resource, token_column, accept_column, on_stale, strict, max_step, issuer, tombstones, shadow FROM fencing.fences$$,
	$$VALUES ('stock:{id}', 'fence_token'::name, true, 'error', false, NULL::bigint, 'any', true, false)$$,
	'arguments that are left out return to their defaults');

SELECT fencing.fence('stock', 'wh:{id}', 'resource');
SELECT results_eq(
	$$SELECT resource, mark, token_column, accept_column, tombstones FROM fencing.fences$$,
	$$VALUES ('wh:{id}', 'resource', NULL::name, NULL::boolean, NULL::boolean)$$,
	'a row mark can be replaced by a resource mark, to which the options of row marks do not apply');
SELECT is(outcome($$SELECT fencing.present('stock:1', 5); UPDATE stock SET qty = 2 WHERE id = 1$$), 'ZF002',
	'the replaced declaration is in force no more');
SELECT is(outcome($$SELECT fencing.present('wh:1', 5); UPDATE stock SET qty = 2 WHERE id = 1$$), 'ok',
	'the new declaration is');

-- the template
CREATE TABLE "Line: items" (order_id int, "Line" int, PRIMARY KEY ("Line", order_id));
SELECT fencing.fence('"Line: items"');
SELECT is((SELECT resource FROM fencing.fences WHERE relation = '"Line: items"'::regclass),
	'Line: items:{Line}:{order_id}', 'the default template is the table and the columns of its primary key');
CREATE TABLE "a{b}" (id int PRIMARY KEY);
SELECT fencing.fence('"a{b}"');
SELECT lives_ok($$SELECT fencing.present('a{b}:1', 5); INSERT INTO "a{b}" VALUES (1); UPDATE "a{b}" SET fence_token = 0$$,
	'braces in a table''s name are literal in its default template');
SELECT is((SELECT fence_token FROM "a{b}"), 5::bigint, 'its rows are known by the plain name');
CREATE TABLE uq (a int, b int, c int, UNIQUE (a, b));
SELECT is(outcome($$SELECT fencing.fence('uq', 'uq:{a}:{b}')$$), 'ok', 'any unique key will do for a row mark');
SELECT is(outcome($$SELECT fencing.fence('uq', 'uq:{c}:{a}:{b}')$$), 'ok', 'so will more columns than the key has');

-- a unique key must be total, immediate, valid and within the template
CREATE TABLE part_key (a int);
CREATE UNIQUE INDEX ON part_key (a) WHERE a > 0;
CREATE TABLE late_key (a int UNIQUE DEFERRABLE);
CREATE TABLE expr_key (a int);
CREATE UNIQUE INDEX ON expr_key ((a + 1));
CREATE TABLE wide_key (a int, b int, UNIQUE (a, b));
CREATE TABLE plain_key (a int);
CREATE INDEX ON plain_key (a);
SELECT is((r).state || ' ' || ((r).hint LIKE '%mark => ''resource''%') || ' ' || (r).table_name,
	'22023 true ' || t, 'no unique key for a row mark: ' || t)
FROM unnest(ARRAY['part_key', 'late_key', 'expr_key', 'wide_key', 'plain_key']) AS t,
	 refusal(format('SELECT fencing.fence(%L, %L)', t, 'x:{a}')) AS r;
SELECT hasnt_column('part_key', 'fence_token', 'a refused fence adds no column');
SELECT is((SELECT count(*) FROM fencing.fences WHERE relation IN ('part_key'::regclass, 'plain_key'::regclass)), 0::bigint,
	'nor triggers');
SELECT is(outcome($$SELECT fencing.fence('plain_key', 'x:{a}', 'resource')$$), 'ok', 'a resource mark needs no unique key');
SELECT is(outcome($$SELECT fencing.fence('part_key', 'all of it', 'resource')$$), 'ok',
	'nor a column in its template');
CREATE TABLE no_pk (a int UNIQUE);
SELECT is((refusal($$SELECT fencing.fence('no_pk')$$)).state, '42809', 'without a primary key there is no default template');

-- what a fence is made of follows the table
ALTER TABLE "Line: items" RENAME TO lines;
CREATE SCHEMA elsewhere;
ALTER TABLE lines SET SCHEMA elsewhere;
SELECT is((SELECT resource FROM fencing.fences WHERE relation = 'elsewhere.lines'::regclass), 'Line: items:{Line}:{order_id}',
	'a renamed and moved table stays fenced under the names it had');
SELECT is(outcome($$SELECT fencing.present('Line: items:1:2', 5); INSERT INTO elsewhere.lines VALUES (2, 1, 5)$$), 'ok',
	'and can be written');
SELECT is((SELECT fence_token FROM elsewhere.lines), 5::bigint, 'with its token');

-- somebody else's trigger by our name is not replaced
CREATE TABLE taken (id int PRIMARY KEY);
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER zzz_fencing_guard BEFORE INSERT ON taken FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT is(outcome($$SELECT fencing.fence('taken')$$), '42710', 'a trigger of somebody else by the guard''s name is not replaced');
SELECT trigger_is('public', 'taken', 'zzz_fencing_guard', 'public', 'nothing', 'it stays');

-- a renamed guard is still the table's guard
ALTER TRIGGER zzz_fencing_guard ON stock RENAME TO zzzz;
SELECT fencing.fence('stock', 'sku:{id}');
SELECT is((SELECT count(*) FROM fencing.fences WHERE relation = 'stock'::regclass), 1::bigint,
	'a fence whose trigger was renamed is replaced, not doubled');

-- where nothing can be written
BEGIN READ ONLY;
SELECT is(outcome($$SELECT fencing.fence('stock')$$), '25006', 'a read-only transaction cannot declare');
COMMIT;
SELECT is((SELECT resource FROM fencing.fences WHERE relation = 'stock'::regclass), 'sku:{id}', 'the declaration is as before');
SELECT * FROM finish();
