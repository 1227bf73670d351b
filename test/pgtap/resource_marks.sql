-- Resource marks: one mark for many rows and tables; every write under a name carries a token that is not below it.

\ir include/refusal.sql
SELECT plan(53);

CREATE TABLE orders (id int PRIMARY KEY, note text);
CREATE TABLE lines (order_id bigint, line int, note text);
CREATE TABLE settings (key text PRIMARY KEY, value text);
SELECT fencing.fence('orders', 'order:{id}', 'resource');
SELECT fencing.fence('lines', 'order:{order_id}', 'resource');
SELECT fencing.fence('settings', 'the settings', 'resource');
CREATE FUNCTION with_token(name text, token bigint, statement text) RETURNS text
LANGUAGE sql AS $$ SELECT outcome(format('SELECT fencing.present(%L, %s); %s; SET LOCAL fencing.tokens = %L', name, token, statement, '')) $$;
SELECT hasnt_column('orders', 'fence_token', 'no column is added');

-- every write needs a token, INSERT too
SELECT is(outcome(s), 'ZF002', s) FROM unnest(ARRAY[
	$$INSERT INTO orders VALUES (1, 'x')$$,
	$$INSERT INTO settings VALUES ('a', 'b')$$,
	$$INSERT INTO lines SELECT 1, 1, 'x'$$,
	$$MERGE INTO orders USING (VALUES (1)) s (id) ON s.id = orders.id WHEN NOT MATCHED THEN INSERT VALUES (1, 'x')$$]) AS s;
SELECT is(with_token('order:1', 10, $$INSERT INTO orders VALUES (1, 'x')$$), 'ok', 'the first write');
SELECT is(fencing.mark('order:1'), 10::bigint, 'makes the mark');
SELECT is(outcome(s), 'ZF002', s) FROM unnest(ARRAY[
	$$UPDATE orders SET note = 'y'$$,
	$$DELETE FROM orders$$,
	$$INSERT INTO orders VALUES (1, 'x') ON CONFLICT DO NOTHING$$,
	$$INSERT INTO orders VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET note = 'z'$$,
	$$WITH x AS (DELETE FROM orders RETURNING *) SELECT * FROM x$$,
	$$MERGE INTO orders USING (VALUES (1)) s (id) ON s.id = orders.id WHEN MATCHED THEN UPDATE SET note = 'y'$$]) AS s;
-- the mark is of the resource, not of the table
SELECT is(with_token('order:1', 9, $$INSERT INTO lines VALUES (1, 1, 'x')$$), 'ZF001', 'stale in another table of the resource');
SELECT is(with_token('order:1', 10, $$INSERT INTO lines VALUES (1, 1, 'x')$$), 'ok', 'equal there');
SELECT is(with_token('order:1', 11, $$INSERT INTO lines VALUES (1, 2, 'x')$$), 'ok', 'a larger one there');
SELECT is(with_token('order:1', 10, $$UPDATE orders SET note = 'y'$$), 'ZF001', 'makes the first stale here');
SELECT is(with_token('order:1', 10, $$DELETE FROM orders$$), 'ZF001', 'for deletes too');
SELECT is(with_token('order:1', 10, $$INSERT INTO orders VALUES (1, 'x') ON CONFLICT DO NOTHING$$), 'ZF001', 'and for inserts that would do nothing');
SELECT is(with_token('order:1', 11, $$UPDATE orders SET note = 'y'$$), 'ok', 'the new holder writes');
SELECT is(with_token('order:1', 11, $$DELETE FROM orders$$), 'ok', 'and deletes');
SELECT is(fencing.mark('order:1'), 11::bigint, 'the mark outlives the rows');
SELECT is(with_token('order:1', 10, $$INSERT INTO orders VALUES (1, 'x')$$), 'ZF001', 'so an older writer cannot bring one back');

-- many rows of many resources
SELECT is(outcome($$SELECT fencing.present(ARRAY['order:1', 'order:2', 'order:3'], ARRAY[12, 1, 1]);
	INSERT INTO orders SELECT g, 'm' FROM generate_series(1, 3) g; SET LOCAL fencing.tokens = ''$$), 'ok', 'each row by its own token');
SELECT set_eq('SELECT resource, token FROM fencing.marks', $$VALUES ('order:1', 12::bigint), ('order:2', 1), ('order:3', 1)$$, 'each resource its own mark');
SELECT is((r).message, 'stale token for resource "order:1"', 'one that is stale stops all') FROM
	refusal($$SELECT fencing.present(ARRAY['order:1', 'order:2', 'order:3'], ARRAY[11, 5, 5]); UPDATE orders SET note = 'n'$$) AS r;
SELECT is((SELECT count(*) FROM orders WHERE note = 'm'), 3::bigint, 'and nothing is written');
SELECT is(fencing.mark('order:2') + fencing.mark('order:3'), 2::bigint, 'nor any mark raised');
SELECT is((r).detail, 'Resource "order:3": no token, mark 1.', 'one for which there is no token too') FROM
	refusal($$SELECT fencing.present(ARRAY['order:1', 'order:2'], ARRAY[12, 5]); UPDATE orders SET note = 'n'$$) AS r;

-- a constant template: one token for the table
SELECT is(with_token('the settings', 5, $$INSERT INTO settings VALUES ('a', '1'), ('b', '2')$$), 'ok', 'a constant template');
SELECT is(with_token('the settings', 4, $$UPDATE settings SET value = '3' WHERE key = 'a'$$), 'ZF001', 'covers every row');
SELECT is(with_token('the settings', 6, $$UPDATE settings SET key = 'c' WHERE key = 'a'$$), 'ok', 'whose keys may change');
SELECT is(fencing.mark('the settings'), 6::bigint, 'under the one name');

-- a row that moves to another resource
SELECT is(with_token('order:1', 12, $$UPDATE lines SET order_id = 2$$), 'ZF002', 'from one resource to another: a token for the old one alone');
SELECT is(with_token('order:2', 12, $$UPDATE lines SET order_id = 2$$), 'ZF002', 'for the new one alone');
SELECT is(outcome($$SELECT fencing.present(ARRAY['order:1', 'order:2'], ARRAY[11, 12]); UPDATE lines SET order_id = 2$$), 'ZF001', 'a stale one for the old one');
SELECT is(outcome($$SELECT fencing.present(ARRAY['order:1', 'order:2'], ARRAY[12, 12]); UPDATE lines SET order_id = 2; SET LOCAL fencing.tokens = ''$$), 'ok', 'both');
SELECT is(fencing.mark('order:2'), 12::bigint, 'raise both marks');
SELECT is(outcome($$SELECT fencing.present(ARRAY['order:1', 'order:2'], ARRAY[11, 12]); UPDATE lines SET order_id = 1$$), 'ZF001', 'a stale one for the new one');
SELECT is((SELECT count(*) FROM lines WHERE order_id = 2), 2::bigint, 'the rows are where they were sent');
SELECT is(with_token('order:2', 12, $$UPDATE lines SET order_id = order_id$$), 'ok', 'the same name written again is no move');

-- the token column of row marks means nothing here
CREATE TABLE wide (id int, fence_token bigint);
SELECT fencing.fence('wide', 'wide:{id}', 'resource');
SELECT is(outcome('INSERT INTO wide VALUES (1, 5)'), 'ZF002', 'a column by the name of fence_token carries nothing');
SELECT is(with_token('wide:1', 6, 'INSERT INTO wide VALUES (1, 5)'), 'ok', 'a presented token');
SELECT is((SELECT fence_token FROM wide), 5::bigint, 'is not stamped into it');

-- skip
SELECT fencing.fence('orders', 'order:{id}', 'resource', on_stale => 'skip');
SELECT fencing.fence('lines', 'order:{order_id}', 'resource', on_stale => 'skip');
BEGIN;
SELECT fencing.present(ARRAY['order:1', 'order:2', 'order:3'], ARRAY[13, 11, 13]);
SELECT results_eq('UPDATE orders SET note = ''k'' RETURNING id', 'VALUES (1), (3)', 'skip: rows of a stale resource are left alone');
SELECT is_empty('INSERT INTO lines VALUES (2, 9, ''k'') RETURNING line', 'skip: nor are rows of it inserted');
SELECT is_empty('UPDATE lines SET order_id = 1 WHERE order_id = 2 RETURNING line', 'skip: nor moved away');
SELECT is(outcome('UPDATE orders SET note = ''k'' WHERE id = 2'), 'ok', 'skip: without an error');
COMMIT;
SELECT set_eq($$SELECT resource, token FROM fencing.marks WHERE resource LIKE 'order:%'$$, $$VALUES ('order:1', 13::bigint), ('order:2', 12), ('order:3', 13)$$,
	'skip: the mark of a skipped row is not moved');
SELECT is((SELECT note FROM orders WHERE id = 2), 'm', 'skip: nor the row');
SELECT is(outcome('UPDATE orders SET note = ''k'' WHERE id = 2'), 'ZF002', 'skip: a missing token is refused');
CREATE TABLE outside (id int);
CREATE FUNCTION writes_orders() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE orders SET note = 't' WHERE id = NEW.id; RETURN NULL; END $$;
CREATE TRIGGER after_it AFTER INSERT ON outside FOR EACH ROW EXECUTE FUNCTION writes_orders();
SELECT is(with_token('order:2', 11, 'INSERT INTO outside VALUES (2)'), 'ZF001', 'skip: below another trigger it is an error');
SELECT is(with_token('order:2', 12, 'INSERT INTO outside VALUES (2)'), 'ok', 'unless it is not stale');
SELECT * FROM finish();
