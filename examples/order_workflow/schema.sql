-- The tables of the order workflow, and their fences.
--
--	psql -v ON_ERROR_STOP=1 -f schema.sql -f functions.sql
--
-- Everything is in a schema of its own, which is made anew each time.  The story
-- is told in docs/order-workflow.md.

\set QUIET on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
DROP SCHEMA IF EXISTS order_workflow CASCADE;
CREATE SCHEMA order_workflow;
SET search_path = order_workflow;

-- What can still be reserved.  Whatever else goes wrong, never below zero.
CREATE TABLE items (
	sku       text PRIMARY KEY,
	available int NOT NULL CHECK (available >= 0)
);

CREATE TABLE orders (
	order_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	customer text NOT NULL,
	status   text NOT NULL DEFAULT 'new'
);

CREATE TABLE order_lines (
	order_id bigint NOT NULL REFERENCES orders,
	line     int NOT NULL,
	sku      text NOT NULL REFERENCES items,
	quantity int NOT NULL CHECK (quantity > 0),
	PRIMARY KEY (order_id, line)
);

-- One row for each line of an order: a line cannot be reserved twice.
CREATE TABLE reservations (
	order_id   bigint NOT NULL,
	line       int NOT NULL,
	state      text NOT NULL CHECK (state IN ('held', 'sold', 'returned')),
	held_until timestamptz NOT NULL,
	PRIMARY KEY (order_id, line),
	FOREIGN KEY (order_id, line) REFERENCES order_lines
);

CREATE TABLE payments (
	payment_id text PRIMARY KEY,
	order_id   bigint NOT NULL REFERENCES orders,
	amount     numeric NOT NULL CHECK (amount > 0)
);

-- A ledger: points are granted once for a payment, and taken back once.
CREATE TABLE rewards (
	payment_id text NOT NULL REFERENCES payments,
	reason     text NOT NULL CHECK (reason IN ('earned', 'refunded')),
	order_id   bigint NOT NULL REFERENCES orders,
	points     int NOT NULL,
	PRIMARY KEY (payment_id, reason)
);

CREATE TABLE refunds (
	payment_id      text PRIMARY KEY REFERENCES payments,
	order_id        bigint NOT NULL REFERENCES orders,
	provider_refund text NOT NULL UNIQUE
);

-- What the rest of the company shall hear of, written in the transaction that
-- makes it true.  It is only appended to; what was sent is noted elsewhere, so
-- that the sender needs no order's token.
CREATE TABLE outbox (
	event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	order_id bigint NOT NULL REFERENCES orders,
	topic    text NOT NULL,
	payload  jsonb NOT NULL
);

CREATE TABLE outbox_sent (
	event_id bigint PRIMARY KEY REFERENCES outbox,
	sent_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- ---------------------------------------------------------------------------
-- Fences
-- ---------------------------------------------------------------------------

-- A worker leases an order, not a row: all that belongs to order 1042 has one
-- resource, order:1042, and its mark is kept for the resource.  That covers the
-- rows that do not exist yet, an event of the outbox for one.
SELECT fencing.fence(t, 'order:{order_id}', mark => 'resource')
FROM unnest(ARRAY['orders', 'order_lines', 'reservations', 'payments',
				  'rewards', 'refunds', 'outbox']::regclass[]) AS t \g /dev/null

-- An item is one row, and is fenced by it: item:kettle, with the mark in the
-- row's own column.  Selling needs no lease on the item, since a conditional
-- UPDATE decides and writes in one; it just takes the next token.  That makes
-- anybody late who has read the row before, as one who counts the shelf.
SELECT fencing.fence('items', 'item:{sku}') \g /dev/null

-- ---------------------------------------------------------------------------
-- Legal transitions
-- ---------------------------------------------------------------------------

CREATE TABLE legal_transitions (
	from_status text NOT NULL,
	to_status   text NOT NULL,
	PRIMARY KEY (from_status, to_status)
);

INSERT INTO legal_transitions VALUES
	('new', 'reserved'),
	('reserved', 'new'),            -- the reservation was over
	('reserved', 'confirmed'),
	('confirmed', 'refunding'),
	('refunding', 'refunded'),
	('refunding', 'confirmed');     -- the provider has declined

CREATE FUNCTION check_transition() RETURNS trigger
LANGUAGE plpgsql SET search_path = order_workflow, pg_temp AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM legal_transitions
				   WHERE from_status = OLD.status AND to_status = NEW.status)
	THEN
		RAISE EXCEPTION 'order % cannot go from "%" to "%"',
			OLD.order_id, OLD.status, NEW.status
			USING ERRCODE = 'OW001';
	END IF;
	RETURN NEW;
END $$;

CREATE TRIGGER legal_transition BEFORE UPDATE OF status ON orders
FOR EACH ROW EXECUTE FUNCTION check_transition();
