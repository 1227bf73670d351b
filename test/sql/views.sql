--
-- The views that a user looks at
--
CREATE TABLE stock (id int PRIMARY KEY, quantity int NOT NULL);
CREATE TABLE orders (id int, note text);
CREATE TABLE events (id int, day int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (366);
SELECT fencing.fence('stock', 'sku:{id}', on_stale => 'skip', max_step => 1000);
SELECT fencing.fence('orders', 'order:{id}', mark => 'resource', strict => true);
SELECT fencing.fence('events');
ALTER TABLE events DISABLE TRIGGER zzz_fencing_guard;
\x on
SELECT * FROM fencing.fences ORDER BY relation::text;
\x off
-- marks: resource marks and tombstones, not the marks that are in rows
INSERT INTO stock VALUES (1, 10, 5), (2, 10, 6);
BEGIN;
SELECT fencing.present(ARRAY['order:1', 'sku:2', 'an order, "quoted"'], ARRAY[7, 8, 9]);
INSERT INTO orders VALUES (1, 'a');
DELETE FROM stock WHERE id = 2;
SELECT * FROM fencing.presented() ORDER BY resource COLLATE "C";
SHOW fencing.tokens;
COMMIT;
SELECT resource, token FROM fencing.marks ORDER BY resource;
SELECT fencing.mark('order:1'), fencing.mark('sku:2'), fencing.mark('sku:1'), fencing.mark('unknown');
SHOW fencing.tokens;
SHOW fencing.deadline;
SHOW fencing.stale_aborts;
SHOW fencing.enforcement;
DROP TABLE stock, orders, events;
DELETE FROM fencing.marks;
