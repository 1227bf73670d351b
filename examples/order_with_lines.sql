-- One lease protects an order and its lines.
--
-- Nobody leases a single line: a worker takes the lease of "order:1042" and
-- then changes the order, adds lines, drops lines.  So the mark cannot be kept
-- in a row.  It is kept for the resource (mark => 'resource'), and both tables
-- name the same one.
--
--	psql -v ON_ERROR_STOP=1 -f order_with_lines.sql
--
-- Everything happens in a schema of its own, which is made anew each time.

\set QUIET on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
DROP SCHEMA IF EXISTS fencing_orders CASCADE;
CREATE SCHEMA fencing_orders;
SET search_path = fencing_orders;

CREATE TABLE orders (
	order_id bigint PRIMARY KEY,
	status   text NOT NULL DEFAULT 'open',
	total    numeric NOT NULL DEFAULT 0
);
CREATE TABLE order_lines (
	order_id bigint NOT NULL REFERENCES orders,
	line     int NOT NULL,
	item     text NOT NULL,
	price    numeric NOT NULL,
	PRIMARY KEY (order_id, line)
);

-- What is there before the fence needs no token.
INSERT INTO orders VALUES (1042);

-- One template, two tables: {order_id} is a column of both.
SELECT fencing.fence('orders', 'order:{order_id}', mark => 'resource') \g /dev/null
SELECT fencing.fence('order_lines', 'order:{order_id}', mark => 'resource') \g /dev/null

-- Any source of rising numbers will do for the tokens.  This one is the
-- database's own; a worker with a lease from Redis brings that lease's number.
SELECT fencing.next_token('order:1042') AS token_a \gset

-- Worker A, the holder, reads and adds a line.  It claims before it reads: once
-- the claim is committed, nothing older can come between this read and the
-- writes that are decided by it.
BEGIN;
SELECT fencing.claim('order:1042', :token_a) \g /dev/null
COMMIT;
SELECT count(*) + 1 AS next_line FROM order_lines WHERE order_id = 1042 \gset
BEGIN;
SELECT fencing.present('order:1042', :token_a) \g /dev/null
INSERT INTO order_lines VALUES (1042, :next_line, 'kettle', 30);
UPDATE orders SET total = total + 30 WHERE order_id = 1042;
COMMIT;
\echo 'A adds a kettle (token' :token_a')'

-- A is paused, its lease ends, B takes over.  B claims, reads and bills.  The
-- claim is committed first here as well: inside a longer transaction it could
-- deadlock with an older writer that has its row already and waits for the mark.
SELECT fencing.next_token('order:1042') AS token_b \gset
BEGIN;
SELECT fencing.claim('order:1042', :token_b) \g /dev/null
COMMIT;
SELECT total FROM orders WHERE order_id = 1042 \g /dev/null
BEGIN;
SELECT fencing.present('order:1042', :token_b) \g /dev/null
UPDATE orders SET status = 'billed' WHERE order_id = 1042;
COMMIT;
\echo 'B bills the order (token' :token_b')'

-- A wakes up and adds one more line.  B has not touched order_lines at all, and
-- no row of it could tell that A is late: it is a new row.  The mark of the
-- order can.
SELECT set_config('example.token', :'token_a', false) \g /dev/null
DO $$
BEGIN
	PERFORM fencing.present('order:1042', current_setting('example.token')::bigint);
	INSERT INTO order_lines VALUES (1042, 2, 'toaster', 45);
	RAISE 'a line was added to an order that is billed';
EXCEPTION
	WHEN SQLSTATE 'ZF001' THEN
		NULL;
END
$$;
\echo 'A adds a toaster: refused, ZF001'

-- Somebody who knows nothing of tokens, with psql or an old program.
DO $$
BEGIN
	DELETE FROM order_lines WHERE order_id = 1042;
	RAISE 'lines were deleted without a token';
EXCEPTION
	WHEN SQLSTATE 'ZF002' THEN
		NULL;
END
$$;
\echo 'A DELETE without a token: refused, ZF002'

-- The order and its lines still agree.
DO $$
DECLARE
	state text;
BEGIN
	SELECT o.status || ', total ' || o.total || ', lines ' ||
		(SELECT sum(l.price) FROM order_lines AS l WHERE l.order_id = o.order_id)
	INTO state FROM orders AS o WHERE o.order_id = 1042;
	ASSERT state = 'billed, total 30, lines 30', state;
END
$$;
\echo 'The order is billed, its total is that of its lines'
