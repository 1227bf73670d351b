-- ZF001 stale_token: a token lower than the mark, or equal to it where the fence is strict.  The error names table,
-- schema and column in its fields, the numbers in DETAIL, and a way out in HINT.

\ir include/refusal.sql
SELECT plan(36);

CREATE SCHEMA shop;
CREATE TABLE shop.stock (id int PRIMARY KEY, qty int);
CREATE TABLE shop.orders (id int, note text);
CREATE TABLE shop.strict_stock (id int PRIMARY KEY, qty int);
CREATE TABLE shop.strict_orders (id int, note text);
SELECT fencing.fence('shop.stock', 'sku:{id}', token_column => 'tok');
SELECT fencing.fence('shop.orders', 'order:{id}', 'resource');
SELECT fencing.fence('shop.strict_stock', 'strict sku:{id}', strict => true);
SELECT fencing.fence('shop.strict_orders', 'strict order:{id}', 'resource', strict => true);
INSERT INTO shop.stock VALUES (1, 10, 9007199254740993);
INSERT INTO shop.strict_stock VALUES (1, 10, 7);
SELECT fencing.claim('order:1', 9007199254740993), fencing.claim('strict order:1', 7);

CREATE FUNCTION stale_checks(statement text, name text, token text, mark text, tab text, col text) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	SELECT * INTO r FROM refusal(statement);
	RETURN NEXT is(r.state, 'ZF001', statement);
	RETURN NEXT is(r.message, format('stale token for resource "%s"', name), 'message');
	RETURN NEXT is(ARRAY(SELECT m[1] FROM regexp_matches(replace(r.detail, name, ''), '\d+', 'g') AS m), ARRAY[token, mark],
		'DETAIL has token and mark as numbers');
	RETURN NEXT matches(r.detail, name, 'DETAIL has the resource');
	RETURN NEXT isnt(r.hint, '', 'HINT');
	RETURN NEXT is(ROW(r.schema_name, r.table_name, r.column_name)::text, ROW('shop'::text, tab, col)::text, 'fields');
END
$$;
SELECT stale_checks('UPDATE shop.stock SET qty = 1, tok = 9007199254740992 WHERE id = 1', 'sku:1', '9007199254740992',
	'9007199254740993', 'stock', 'tok');
SELECT stale_checks($$SELECT fencing.present('sku:1', 1); DELETE FROM shop.stock WHERE id = 1$$, 'sku:1', '1',
	'9007199254740993', 'stock', 'tok');
SELECT stale_checks($$SELECT fencing.present('order:1', 9007199254740992); INSERT INTO shop.orders VALUES (1, 'x')$$, 'order:1',
	'9007199254740992', '9007199254740993', 'orders', '');
SELECT stale_checks('UPDATE shop.strict_stock SET qty = 1, fence_token = 7 WHERE id = 1', 'strict sku:1', '7', '7',
	'strict_stock', 'fence_token');
SELECT stale_checks($$SELECT fencing.present('strict order:1', 7); INSERT INTO shop.strict_orders VALUES (1, 'x')$$, 'strict order:1',
	'7', '7', 'strict_orders', '');
SELECT is((SELECT count(*) FROM shop.stock WHERE qty = 10 AND tok = 9007199254740993), 1::bigint, 'nothing was written');
SELECT is(outcome('UPDATE shop.stock SET qty = 1, tok = 9007199254740993 WHERE id = 1'), 'ok', 'an equal token is accepted where not strict');
SELECT is(outcome($$SELECT fencing.present('order:1', 9007199254740993); INSERT INTO shop.orders VALUES (1, 'x')$$), 'ok', 'also by a resource mark');
SELECT is(outcome('UPDATE shop.strict_stock SET qty = 1, fence_token = 8 WHERE id = 1'), 'ok', 'a larger one is accepted where strict');
SELECT is(outcome($$SELECT fencing.present('strict order:1', 8); INSERT INTO shop.strict_orders VALUES (1, 'x')$$), 'ok', 'also by a resource mark');
SELECT is((SELECT count(*) FROM shop.strict_orders) + (SELECT count(*) FROM shop.orders), 2::bigint, 'refused rows are not there');
SELECT * FROM finish();
