-- ZF002 missing_token: a fenced write that carried none.  The error says which table, which resource, which mark, and
-- how to present a token.

\ir include/refusal.sql
SELECT plan(33);

CREATE SCHEMA shop;
CREATE TABLE shop.stock (id int PRIMARY KEY, qty int);
CREATE TABLE shop.strict_column (id int PRIMARY KEY, qty int);
CREATE TABLE shop.orders (id int, note text);
SELECT fencing.fence('shop.stock', 'it''s sku:{id}', token_column => 'tok');
SELECT fencing.fence('shop.strict_column', 'sc:{id}', accept_column => false);
SELECT fencing.fence('shop.orders', 'order:{id}', 'resource');
INSERT INTO shop.stock VALUES (1, 10, 7);
INSERT INTO shop.strict_column VALUES (1, 10);
SELECT fencing.claim('order:1', 9);

CREATE FUNCTION missing_checks(statement text, name text, mark text, tab text, col text, column_hint boolean) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	SELECT * INTO r FROM refusal(statement);
	RETURN NEXT is(r.state, 'ZF002', statement);
	RETURN NEXT is(r.message, format('write to fenced table "%s" carries no token', tab), 'message');
	RETURN NEXT matches(r.detail, name || '.*\m' || mark || '\M', 'DETAIL has resource and mark');
	RETURN NEXT ok(strpos(r.hint, format('fencing.present(%L', name)) > 0, 'HINT shows the call, ready to be used');
	RETURN NEXT is(strpos(r.hint, format('"%s"', nullif(col, ''))) > 0, column_hint,
		'HINT names the column exactly where that may carry the token');
	RETURN NEXT is(ROW(r.schema_name, r.table_name, r.column_name)::text, ROW('shop'::text, tab, col)::text, 'fields');
END
$$;
SELECT missing_checks('UPDATE shop.stock SET qty = 1', 'it''s sku:1', '7', 'stock', 'tok', true);
SELECT missing_checks('DELETE FROM shop.stock', 'it''s sku:1', '7', 'stock', 'tok', false);
SELECT missing_checks('UPDATE shop.strict_column SET qty = 1', 'sc:1', '0', 'strict_column', 'fence_token', false);
SELECT missing_checks($$INSERT INTO shop.orders VALUES (1, 'x')$$, 'order:1', '9', 'orders', '', false);
SELECT missing_checks($$INSERT INTO shop.orders VALUES (2, 'x')$$, 'order:2', '0', 'orders', '', false);
SELECT is((SELECT count(*) FROM shop.orders), 0::bigint, 'no row was written');
SELECT is((SELECT qty FROM shop.stock), 10, 'nor changed, nor deleted');
SELECT is(outcome('TRUNCATE shop.stock'), 'ZF002', 'TRUNCATE carries no token either');
SELECT * FROM finish();
