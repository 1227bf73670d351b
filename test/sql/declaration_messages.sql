--
-- What a user reads when a declaration is refused
--
CREATE TABLE stock (id int PRIMARY KEY, quantity int NOT NULL);
CREATE TABLE orders (id int, note text);
SELECT fencing.fence('orders');
SELECT fencing.fence('orders', 'order:{id}');
SELECT fencing.fence('orders', 'order:{number}', mark => 'resource');
SELECT fencing.fence('orders', 'order:{id', mark => 'resource');
SELECT fencing.fence('orders', 'order', mark => 'table');
SELECT fencing.fence('stock', token_column => 'quantity');
SELECT fencing.fence('fencing.fences');
SELECT fencing.unfence('pg_class');
DROP TABLE stock, orders;
