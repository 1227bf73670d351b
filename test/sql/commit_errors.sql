--
-- What is refused at COMMIT
--
CREATE TABLE stock (id int PRIMARY KEY, quantity int NOT NULL);
SELECT fencing.fence('stock', 'sku:{id}');
INSERT INTO stock VALUES (1, 10, 5);
-- after the deadline (its moment and the present one are in DETAIL)
\set VERBOSITY terse
BEGIN;
SELECT fencing.present('sku:1', 6, '2000-01-01 00:00+00');
UPDATE stock SET quantity = 9;
SELECT * FROM stock;
COMMIT;
SELECT * FROM stock;
-- a deferred constraint is checked before, and a deadline after it
CREATE TABLE checked (id int PRIMARY KEY, other int REFERENCES stock DEFERRABLE INITIALLY DEFERRED);
BEGIN;
SELECT fencing.present('sku:1', 6, '2000-01-01 00:00+00');
INSERT INTO checked VALUES (1, 99);
COMMIT;
BEGIN;
SELECT fencing.present('sku:1', 6, '2000-01-01 00:00+00');
INSERT INTO checked VALUES (1, 1);
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
-- each transaction of a procedure
CREATE PROCEDURE work(deadline timestamptz) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fencing.present('sku:1', 6, deadline);
	UPDATE stock SET quantity = quantity - 1;
	COMMIT;
END
$$;
CALL work('2200-01-01 00:00+00');
CALL work('2000-01-01 00:00+00');
SELECT * FROM stock;
\set VERBOSITY default
-- a stale write whose error was caught
SET fencing.stale_aborts = on;
BEGIN;
SAVEPOINT s;
UPDATE stock SET quantity = 1, fence_token = 4;
ROLLBACK TO SAVEPOINT s;
UPDATE stock SET quantity = 1, fence_token = 7;
COMMIT;
SELECT * FROM stock;
RESET fencing.stale_aborts;
BEGIN;
SAVEPOINT s;
UPDATE stock SET quantity = 1, fence_token = 4;
ROLLBACK TO SAVEPOINT s;
UPDATE stock SET quantity = 1, fence_token = 7;
COMMIT;
SELECT * FROM stock;
DROP TABLE checked, stock;
DROP PROCEDURE work;
