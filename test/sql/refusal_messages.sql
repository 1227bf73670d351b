--
-- What a user reads when a write is refused
--
CREATE TABLE stock (id int PRIMARY KEY, quantity int NOT NULL);
CREATE TABLE orders (id int, note text);
SELECT fencing.fence('stock', 'sku:{id}');
SELECT fencing.fence('orders', 'order:{id}', mark => 'resource', max_step => 100);
INSERT INTO stock VALUES (42, 10, 34);
SELECT fencing.claim('order:1', 7);
-- by default
UPDATE stock SET quantity = 9, fence_token = 33 WHERE id = 42;
UPDATE stock SET quantity = 9 WHERE id = 42;
DELETE FROM stock WHERE id = 42;
INSERT INTO orders VALUES (1, 'too late');
BEGIN;
SELECT fencing.present('order:1', 6);
INSERT INTO orders VALUES (1, 'too late');
ROLLBACK;
BEGIN;
SELECT fencing.present('order:1', 1000);
INSERT INTO orders VALUES (1, 'too far');
ROLLBACK;
SELECT fencing.claim('order:1', 6);
TRUNCATE stock;
UPDATE stock SET fence_token = 0 WHERE id = 42;
INSERT INTO orders VALUES (NULL, 'nameless');
-- strict, and tokens of the database alone
SELECT fencing.fence('stock', 'sku:{id}', strict => true, issuer => 'database');
UPDATE stock SET quantity = 9, fence_token = 34 WHERE id = 42;
SELECT setval('fencing.token_sequence', 20);
UPDATE stock SET quantity = 9, fence_token = 35 WHERE id = 42;
-- a fence that does not fit any more
ALTER TABLE stock RENAME id TO sku;
UPDATE stock SET quantity = 9, fence_token = 35 WHERE sku = 42;
ALTER TABLE stock RENAME sku TO id;
-- the fields that programs read
\set SHOW_CONTEXT never
\set VERBOSITY sqlstate
UPDATE stock SET quantity = 9, fence_token = 33 WHERE id = 42;
UPDATE stock SET quantity = 9 WHERE id = 42;
UPDATE stock SET fence_token = 35 WHERE id = 42;
INSERT INTO orders VALUES (NULL, 'nameless');
\set VERBOSITY default
DROP TABLE stock, orders;
DELETE FROM fencing.marks;
