-- A fence beside a table's other triggers: the guard fires after the other BEFORE ROW triggers and sees what they made.

\ir include/refusal.sql
SELECT plan(23);

CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
SELECT fencing.fence('t', token_column => 'tok');
INSERT INTO t VALUES (1, 'a', 10);

-- one that writes the token column
CREATE FUNCTION raises_token() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.tok := 99; RETURN NEW; END $$;
CREATE TRIGGER a_raises BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION raises_token();
SELECT is(outcome('UPDATE t SET v = ''b'''), 'ZF002', 'a number that another trigger writes is no token of the statement');
SELECT is(outcome($$SELECT fencing.present('t:1', 11); UPDATE t SET v = 'b'$$), 'ok', 'a presented token');
SELECT results_eq('SELECT v, tok FROM t', $$VALUES ('b'::text, 11::bigint)$$, 'is stamped over it');
SELECT is(outcome($$SELECT fencing.present('t:1', 10); UPDATE t SET v = 'c'$$), 'ZF001', 'and stale if it is');
DROP TRIGGER a_raises ON t;
-- one that writes NULL or the old value into it
CREATE FUNCTION resets_token() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.tok := NULL; RETURN NEW; END $$;
CREATE TRIGGER a_resets BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION resets_token();
SELECT is(outcome('UPDATE t SET tok = 12'), 'ZF002', 'a token that another trigger takes away is none');
SELECT is(outcome($$SELECT fencing.present('t:1', 12); UPDATE t SET v = 'd'$$), 'ok', 'one that was presented counts');
SELECT is((SELECT tok FROM t), 12::bigint, 'and is stamped');
DROP TRIGGER a_resets ON t;
-- one that changes the key
CREATE FUNCTION changes_key() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := NEW.id + 1; RETURN NEW; END $$;
CREATE TRIGGER a_key BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION changes_key();
SELECT is(outcome($$SELECT fencing.present('t:6', 5); INSERT INTO t VALUES (5, 'x')$$), 'ok', 'the name is that of the row as it will be stored');
SELECT is((SELECT tok FROM t WHERE id = 6), 5::bigint, 'and its token the one of that name');
DROP TRIGGER a_key ON t;
-- one that leaves the row out
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER a_nothing BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT is(outcome('UPDATE t SET v = ''n'', tok = 1'), 'ok', 'a row that another trigger leaves out is not written');
SELECT is(outcome('DELETE FROM t'), 'ok', 'nor deleted');
SELECT is((SELECT count(*) FROM t), 2::bigint, 'it is there');
SELECT is_empty('SELECT * FROM fencing.marks', 'and no tombstone was made');
DROP TRIGGER a_nothing ON t;

-- AFTER triggers and triggers that write other fenced tables
CREATE TABLE log (id int GENERATED ALWAYS AS IDENTITY, tok bigint);
SELECT fencing.fence('log', 'log', 'resource');
CREATE FUNCTION logs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log (tok) VALUES (NEW.tok); RETURN NULL; END $$;
CREATE TRIGGER after_it AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION logs();
SELECT is(outcome('UPDATE t SET tok = 20 WHERE id = 1'), 'ZF002', 'a fenced table that a trigger writes needs its own token');
SELECT is(outcome($$SELECT fencing.present('log', 1); UPDATE t SET tok = 20 WHERE id = 1$$), 'ok', 'and takes the one presented');
SELECT results_eq('SELECT tok FROM log', 'VALUES (20::bigint)', 'AFTER triggers see the mark');
BEGIN;
SELECT fencing.present(ARRAY['log', 't:1'], ARRAY[1, 21]);
UPDATE t SET v = 'e' WHERE id = 1;
COMMIT;
SELECT results_eq('SELECT tok FROM log ORDER BY id', 'VALUES (20::bigint), (21)', 'also one that was stamped');
DROP TRIGGER after_it ON t;

-- a trigger that updates the same row again in an AFTER trigger
CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF NEW.v = 'first' THEN UPDATE t SET v = 'second' WHERE id = NEW.id; END IF; RETURN NULL; END $$;
CREATE TRIGGER after_again AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION again();
SELECT is(outcome('UPDATE t SET v = ''first'', tok = 30 WHERE id = 1'), 'ZF002', 'an UPDATE within a trigger is a statement of its own, without a token in the column');
SELECT is(outcome($$SELECT fencing.present('t:1', 30); UPDATE t SET v = 'first' WHERE id = 1$$), 'ok', 'a presented one counts for both');
SELECT results_eq('SELECT v, tok FROM t WHERE id = 1', $$VALUES ('second'::text, 30::bigint)$$, 'both writes are there');
DROP TRIGGER after_again ON t;

-- a trigger that fires after the guard is told of; it is not replaced, nor does it stop the fence
CREATE TRIGGER zzzz_late BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION raises_token();
SET client_min_messages = error;
SELECT is(outcome($$SELECT fencing.fence('t', token_column => 'tok')$$), 'ok', 'a later trigger is no reason to refuse');
RESET client_min_messages;
SELECT has_trigger('t', 'zzzz_late', 'it stays');
SELECT is(outcome('UPDATE t SET tok = 29 WHERE id = 1'), 'ZF001', 'the fence stands');
SELECT * FROM finish();
