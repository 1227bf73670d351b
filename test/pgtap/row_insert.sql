-- Row marks, INSERT: the token, if any, becomes the first mark of the row.

\ir include/refusal.sql
SELECT plan(22);

CREATE TABLE stock (id int PRIMARY KEY, qty int);
SELECT fencing.fence('stock', 'sku:{id}');
SELECT is(outcome('INSERT INTO stock VALUES (1, 1)'), 'ok', 'a new row needs no token');
SELECT is((SELECT fence_token FROM stock WHERE id = 1), 0::bigint, 'and has no mark then');
SELECT is(outcome('INSERT INTO stock VALUES (2, 1, 7)'), 'ok', 'a token in the column');
SELECT is((SELECT fence_token FROM stock WHERE id = 2), 7::bigint, 'is its mark');
SELECT is(outcome($$SELECT fencing.present('sku:3', 8); INSERT INTO stock VALUES (3, 1)$$), 'ok', 'a presented token');
SELECT is((SELECT fence_token FROM stock WHERE id = 3), 8::bigint, 'is stamped into the column');
SELECT is(outcome($$SELECT fencing.present('sku:4', 8); INSERT INTO stock VALUES (4, 1, 3), (5, 1, 3)$$), 'ok', 'a presented token wins over the column');
SELECT results_eq('SELECT fence_token FROM stock WHERE id IN (4, 5) ORDER BY id', 'VALUES (8::bigint), (3)', 'of its own row alone');
SELECT is(outcome('INSERT INTO stock VALUES (6, 1, 0)'), 'ok', '0 is no token');
SELECT is(outcome('INSERT INTO stock VALUES (7, 1, -1)'), '22023', 'a negative number is not a token');
SELECT is(outcome('INSERT INTO stock VALUES (7, 1, -9223372036854775808)'), '22023', 'the lowest bigint neither');
SELECT is(outcome('INSERT INTO stock VALUES (7, 1, 9223372036854775807)'), 'ok', 'the largest one is');
SELECT is(outcome('INSERT INTO stock VALUES (7, 1, 7)'), '23505', 'a second row of the name is a duplicate, no stale token');
SELECT is((SELECT count(*) FROM fencing.marks), 0::bigint, 'row marks are in the rows alone');
SELECT results_eq('INSERT INTO stock VALUES (20, 1, DEFAULT), (21, 2, 3) RETURNING id, qty, fence_token',
	'VALUES (20, 1, 0::bigint), (21, 2, 3)', 'RETURNING shows the mark');
BEGIN;
SELECT fencing.present('sku:22', 4);
SELECT results_eq('INSERT INTO stock VALUES (22, 1) RETURNING fence_token', 'VALUES (4::bigint)', 'also one that was stamped');
COMMIT;
SELECT is(outcome('INSERT INTO stock SELECT 100 + g, g, g FROM generate_series(1, 50) g'), 'ok', 'INSERT … SELECT');
SELECT is((SELECT count(*) FROM stock WHERE id > 100 AND fence_token = qty), 50::bigint, 'each row with its own token');
-- names are made from what is stored
CREATE TABLE serial (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, code text DEFAULT 'x' UNIQUE);
SELECT fencing.fence('serial');
SELECT is(outcome($$SELECT fencing.present('serial:1', 6); INSERT INTO serial DEFAULT VALUES$$), 'ok', 'a key that the table gives');
SELECT is((SELECT fence_token FROM serial), 6::bigint, 'is known to the guard');
-- a failed insert leaves nothing
SELECT is(outcome($$SELECT fencing.present('sku:1', 50); INSERT INTO stock VALUES (1, 1)$$), '23505', 'an insert that fails');
SELECT is((SELECT fence_token FROM stock WHERE id = 1), 0::bigint, 'leaves the mark of the row that is there');
SELECT * FROM finish();
