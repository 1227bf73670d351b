--
-- A fence is its triggers and their arguments, which a person can read in \d
--
CREATE TABLE stock (id int PRIMARY KEY, quantity int NOT NULL);
SELECT fencing.fence('stock');
\d stock
-- with options
SELECT fencing.fence('stock', 'warehouse 1, sku {id}', token_column => 'lock_version', accept_column => false,
	on_stale => 'skip', strict => true, max_step => 1000, issuer => 'database', tombstones => false, shadow => true);
\d stock
-- a resource mark, and names that need quotes
CREATE TABLE "Order lines" (order_id int, "it's" text, PRIMARY KEY (order_id, "it's"));
SELECT fencing.fence('"Order lines"', 'order:{order_id}:{it''s}', mark => 'resource');
\d "Order lines"
-- partitions have the same
CREATE TABLE events (id int, day int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
SELECT fencing.fence('events');
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (366);
\d events_1
-- and nothing of it is left
SELECT fencing.unfence('stock');
\d stock
DROP TABLE stock, "Order lines", events;
