-- The functions of the order workflow: each is one transaction of a worker.
--
-- Those that may be repeated after a lost answer take a key, which the client
-- chooses once for what it wants and sends again with each retry.  Those that
-- work on an order take the token of its lease, and call begin_command with it:
-- a worker that is late begins nothing.  They all are plain PL/pgSQL with the
-- rights of their caller.
--
-- An outcome is what a retry shall get, and "sold out" is one.  An error is
-- not: it rolls everything back, the record of the command included, and the key
-- is free for another try.

\set QUIET on
SET search_path = order_workflow;

-- ---------------------------------------------------------------------------
-- place_order(key, customer, {"sku": quantity, ...})
-- ---------------------------------------------------------------------------

CREATE FUNCTION place_order(command_key text, the_customer text, lines jsonb)
RETURNS jsonb LANGUAGE plpgsql SET search_path = order_workflow, pg_temp AS $$
DECLARE
	command record;
	the_order bigint;
	answer jsonb;
BEGIN
	SELECT * INTO command
	FROM fencing.begin_command('place', command_key,
							   jsonb_build_array(the_customer, lines));
	IF command.state = 'done' THEN
		RETURN command.outcome;
	END IF;

	-- Nobody knows the new order yet, so it needs a token but no lease.
	the_order := nextval(pg_get_serial_sequence('orders', 'order_id'));
	PERFORM fencing.claim('order:' || the_order,
						  fencing.next_token('order:' || the_order));
	INSERT INTO orders (order_id, customer) OVERRIDING SYSTEM VALUE
	VALUES (the_order, the_customer);
	INSERT INTO order_lines
	SELECT the_order, row_number() OVER (ORDER BY l.key), l.key, l.value::int
	FROM jsonb_each_text(lines) AS l;

	answer := jsonb_build_object('order', the_order);
	PERFORM fencing.finish_command('place', command_key, answer, command.token);
	RETURN answer;
END $$;

-- ---------------------------------------------------------------------------
-- reserve_order(key, order, token, hold): all lines, or none
-- ---------------------------------------------------------------------------

CREATE FUNCTION reserve_order(command_key text, the_order bigint,
							  order_token bigint,
							  hold interval DEFAULT '15 min')
RETURNS jsonb LANGUAGE plpgsql SET search_path = order_workflow, pg_temp AS $$
DECLARE
	command record;
	l record;
	until timestamptz := clock_timestamp() + hold;
	answer jsonb := jsonb_build_object('reserved', true);
BEGIN
	SELECT * INTO command
	FROM fencing.begin_command('reserve', command_key, to_jsonb(the_order),
							   'order:' || the_order, order_token);
	IF command.state = 'done' THEN
		RETURN command.outcome;
	END IF;

	BEGIN
		UPDATE orders SET status = 'reserved' WHERE order_id = the_order;

		-- In the order of the names, so that two orders for the same items do
		-- not wait for each other in a circle.
		FOR l IN SELECT * FROM order_lines WHERE order_id = the_order ORDER BY sku
		LOOP
			UPDATE items
			SET available = available - l.quantity,
				fence_token = fencing.next_token('item:' || l.sku)
			WHERE sku = l.sku AND available >= l.quantity;
			IF NOT FOUND THEN
				RAISE SQLSTATE 'OW002' USING MESSAGE = l.sku;
			END IF;

			-- There is a row already if an earlier reservation was over.
			INSERT INTO reservations AS r
			VALUES (the_order, l.line, 'held', until)
			ON CONFLICT (order_id, line) DO UPDATE
			SET state = excluded.state, held_until = excluded.held_until
			WHERE r.state = 'returned';
		END LOOP;

		INSERT INTO outbox (order_id, topic, payload)
		VALUES (the_order, 'order.reserved', '{}');
	EXCEPTION WHEN SQLSTATE 'OW002' THEN
		-- The lines before this one are as they were.
		answer := jsonb_build_object('reserved', false, 'sold_out', SQLERRM);
	END;

	PERFORM fencing.finish_command('reserve', command_key, answer, command.token);
	RETURN answer;
END $$;

-- ---------------------------------------------------------------------------
-- confirm_order(key, order, token, payment, amount)
-- ---------------------------------------------------------------------------

CREATE FUNCTION confirm_order(command_key text, the_order bigint,
							  order_token bigint, payment text, paid numeric)
RETURNS jsonb LANGUAGE plpgsql SET search_path = order_workflow, pg_temp AS $$
DECLARE
	command record;
	answer jsonb := jsonb_build_object('confirmed', true);
BEGIN
	SELECT * INTO command
	FROM fencing.begin_command('confirm', command_key,
							   jsonb_build_array(the_order, payment, paid),
							   'order:' || the_order, order_token);
	IF command.state = 'done' THEN
		RETURN command.outcome;
	END IF;

	-- The claim keeps others from the order, so this is still true below.
	IF EXISTS (SELECT FROM reservations
			   WHERE order_id = the_order AND state <> 'sold' AND
					 (state = 'returned' OR held_until <= clock_timestamp()))
	THEN
		answer := jsonb_build_object('confirmed', false, 'reason', 'reservation is over');
	ELSE
		UPDATE orders SET status = 'confirmed' WHERE order_id = the_order;
		UPDATE reservations SET state = 'sold' WHERE order_id = the_order;
		INSERT INTO payments VALUES (payment, the_order, paid);
		PERFORM grant_rewards(payment, order_token);
		INSERT INTO outbox (order_id, topic, payload)
		VALUES (the_order, 'order.confirmed', jsonb_build_object('payment', payment));
	END IF;

	PERFORM fencing.finish_command('confirm', command_key, answer, command.token);
	RETURN answer;
END $$;

-- One point for each whole unit of money.  It needs no command: the ledger's
-- key says whether it was done.  Returns whether it was done now.
CREATE FUNCTION grant_rewards(payment text, order_token bigint)
RETURNS boolean LANGUAGE plpgsql SET search_path = order_workflow, pg_temp AS $$
DECLARE
	p payments;
BEGIN
	SELECT * INTO STRICT p FROM payments WHERE payment_id = payment;
	PERFORM fencing.present('order:' || p.order_id, order_token);
	INSERT INTO rewards VALUES (payment, 'earned', p.order_id, floor(p.amount))
	ON CONFLICT DO NOTHING;
	RETURN FOUND;
END $$;

-- ---------------------------------------------------------------------------
-- expire_order(order, token): gives back what was held for too long
-- ---------------------------------------------------------------------------

CREATE VIEW expired_orders AS
SELECT DISTINCT order_id FROM reservations
WHERE state = 'held' AND held_until <= clock_timestamp();

-- No command either: a reservation is returned once, since then it is not held
-- any more.  Returns the number of lines.
CREATE FUNCTION expire_order(the_order bigint, order_token bigint)
RETURNS int LANGUAGE plpgsql SET search_path = order_workflow, pg_temp AS $$
DECLARE
	l record;
	this_moment timestamptz;
	returned int := 0;
BEGIN
	PERFORM fencing.claim('order:' || the_order, order_token);

	-- One look at the clock for all lines: they were reserved together, and
	-- are returned together.
	this_moment := clock_timestamp();
	FOR l IN
		SELECT * FROM reservations JOIN order_lines USING (order_id, line)
		WHERE order_id = the_order AND state = 'held' AND held_until <= this_moment
		ORDER BY sku
	LOOP
		UPDATE reservations SET state = 'returned'
		WHERE order_id = the_order AND line = l.line;
		UPDATE items
		SET available = available + l.quantity,
			fence_token = fencing.next_token('item:' || l.sku)
		WHERE sku = l.sku;
		returned := returned + 1;
	END LOOP;
	IF returned > 0 THEN
		UPDATE orders SET status = 'new' WHERE order_id = the_order;
		INSERT INTO outbox (order_id, topic, payload)
		VALUES (the_order, 'reservation.expired', '{}');
	END IF;
	RETURN returned;
END $$;

-- ---------------------------------------------------------------------------
-- request_refund(payment, token, takeover), finish_refund(...)
-- ---------------------------------------------------------------------------

-- The provider is outside, so this is a command in two steps.  Its key is the
-- payment: two users who press the button get one refund.  Commit, then send
-- the provider the key that this returns; on 'pending' somebody else is at it.
CREATE FUNCTION request_refund(payment text, order_token bigint,
							   takeover interval DEFAULT '1 min',
							   OUT state text, OUT outcome jsonb,
							   OUT command_token bigint,
							   OUT provider_key uuid, OUT amount numeric)
LANGUAGE plpgsql SET search_path = order_workflow, pg_temp AS $$
DECLARE
	command record;
	p payments;
BEGIN
	SELECT * INTO STRICT p FROM payments WHERE payment_id = payment;
	SELECT * INTO command
	FROM fencing.begin_command('refund', payment, to_jsonb(p.amount),
							   'order:' || p.order_id, order_token, takeover);
	-- A later attempt finds the order as the first one left it.
	IF command.state = 'new' AND command.attempts = 1 THEN
		UPDATE orders SET status = 'refunding' WHERE order_id = p.order_id;
		INSERT INTO outbox (order_id, topic, payload)
		VALUES (p.order_id, 'refund.requested', jsonb_build_object('payment', payment));
	END IF;
	state := command.state;
	outcome := command.outcome;
	command_token := CASE WHEN command.state = 'new' THEN command.token END;
	provider_key := command.provider_key;
	amount := p.amount;
END $$;

-- The provider's answer: {"refund": "its number"} or {"declined": "why"}.  A
-- failure that is worth another try is no answer; leave the command pending.
CREATE FUNCTION finish_refund(payment text, order_token bigint,
							  command_token bigint, answer jsonb)
RETURNS jsonb LANGUAGE plpgsql SET search_path = order_workflow, pg_temp AS $$
DECLARE
	p payments;
BEGIN
	SELECT * INTO STRICT p FROM payments WHERE payment_id = payment;

	-- Stale (ZF001) if another worker has taken the command over; false if this
	-- very answer is recorded, and its effect with it.
	IF NOT fencing.finish_command('refund', payment, answer, command_token) THEN
		RETURN answer;
	END IF;

	PERFORM fencing.claim('order:' || p.order_id, order_token);
	IF answer ? 'refund' THEN
		UPDATE orders SET status = 'refunded' WHERE order_id = p.order_id;
		INSERT INTO refunds VALUES (payment, p.order_id, answer ->> 'refund');
		INSERT INTO rewards
		SELECT payment_id, 'refunded', order_id, -points
		FROM rewards WHERE payment_id = payment AND reason = 'earned';
	ELSE
		UPDATE orders SET status = 'confirmed' WHERE order_id = p.order_id;
	END IF;
	INSERT INTO outbox (order_id, topic, payload)
	VALUES (p.order_id, 'refund.finished', answer || jsonb_build_object('payment', payment));
	RETURN answer;
END $$;

-- ---------------------------------------------------------------------------
-- set_available(sku, token, number): somebody has counted the shelf
-- ---------------------------------------------------------------------------

-- The token is one that was taken before the counting began.  If anything was
-- sold or returned since then, the number is not true any more: ZF001.
CREATE FUNCTION set_available(the_sku text, item_token bigint, counted int)
RETURNS void LANGUAGE sql SET search_path = order_workflow, pg_temp
BEGIN ATOMIC
	UPDATE items SET available = counted, fence_token = item_token
	WHERE sku = the_sku;
END;

-- ---------------------------------------------------------------------------
-- The outbox
-- ---------------------------------------------------------------------------

-- One sender at a time, with a lease on "outbox": it reads this view in the
-- order of event_id, sends, and inserts into outbox_sent.  If it dies between
-- the two, an event is sent twice; receivers tell by event_id.
CREATE VIEW outbox_unsent AS
SELECT o.event_id, o.order_id, o.topic, o.payload
FROM outbox AS o
WHERE NOT EXISTS (SELECT FROM outbox_sent AS s WHERE s.event_id = o.event_id);
