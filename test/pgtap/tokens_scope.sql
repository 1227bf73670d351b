-- How long a presented token counts: as long as any setting does.  Savepoints, exceptions, functions with SET clauses,
-- roles and databases with defaults.

\ir include/refusal.sql
SELECT plan(27);

CREATE TABLE stock (id int PRIMARY KEY, qty int);
SELECT fencing.fence('stock', 'sku:{id}');
INSERT INTO stock VALUES (1, 10, 5);

-- one transaction
BEGIN;
SELECT fencing.present('sku:1', 6);
UPDATE stock SET qty = 1;
UPDATE stock SET qty = 2;
COMMIT;
SELECT results_eq('SELECT qty, fence_token FROM stock', 'VALUES (2, 6::bigint)', 'every statement of the transaction carries it');
SELECT is(outcome('UPDATE stock SET qty = 3'), 'ZF002', 'the next transaction does not');

-- SET LOCAL and SET
BEGIN;
SET LOCAL fencing.tokens = 'sku:1=7';
SELECT is(outcome('UPDATE stock SET qty = 3'), 'ok', 'SET LOCAL');
COMMIT;
SELECT is(outcome('UPDATE stock SET qty = 3'), 'ZF002', 'lasts for the transaction');
SET fencing.tokens = 'sku:1=7';
SELECT is(outcome('UPDATE stock SET qty = 4'), 'ok', 'SET');
SELECT is(outcome('UPDATE stock SET qty = 5'), 'ok', 'lasts for the session');
BEGIN;
SELECT fencing.present('sku:1', 8);
SELECT is(outcome('UPDATE stock SET qty = 6'), 'ok', 'present goes before it');
COMMIT;
SELECT is(outcome('UPDATE stock SET qty = 7'), 'ZF001', 'and afterwards the session''s token is what it was: stale now');
RESET fencing.tokens;

-- savepoints
BEGIN;
SELECT fencing.present('sku:1', 9);
SAVEPOINT s;
SELECT fencing.present(ARRAY['sku:1', 'sku:2'], ARRAY[20, 20]);
ROLLBACK TO s;
SELECT results_eq('SELECT * FROM fencing.presented()', $$VALUES ('sku:1', 9::bigint)$$, 'ROLLBACK TO takes back what was presented since');
SAVEPOINT s2;
SELECT fencing.present('sku:2', 9);
RELEASE s2;
SELECT set_eq('SELECT * FROM fencing.presented()', $$VALUES ('sku:1', 9::bigint), ('sku:2', 9)$$, 'RELEASE keeps it');
UPDATE stock SET qty = 8 WHERE id = 1;
SELECT is((SELECT fence_token FROM stock), 9::bigint, 'and writes go by what is left');
COMMIT;

-- an exception takes back what its block presented
DO $$
BEGIN
	PERFORM fencing.present('sku:1', 10);
	BEGIN
		PERFORM fencing.present('sku:1', 11);
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		UPDATE stock SET qty = 9;
	END;
END
$$;
SELECT is((SELECT fence_token FROM stock), 10::bigint, 'an exception block');

-- functions
CREATE FUNCTION presenting() RETURNS void LANGUAGE plpgsql SET fencing.tokens = 'sku:1=11' AS $$ BEGIN UPDATE stock SET qty = 10; END $$;
SELECT is(outcome('SELECT presenting()'), 'ok', 'a function''s SET clause presents');
SELECT is((SELECT fence_token FROM stock), 11::bigint, 'its token');
BEGIN;
SELECT presenting();
SELECT is_empty('SELECT * FROM fencing.presented()', 'while the function runs');
SELECT fencing.present('other', 1);
SELECT presenting();
SELECT results_eq('SELECT * FROM fencing.presented()', $$VALUES ('other', 1::bigint)$$, 'and what was presented before comes back');
COMMIT;
CREATE FUNCTION hiding() RETURNS bigint LANGUAGE sql SET fencing.tokens = '' AS 'SELECT count(*) FROM fencing.presented()';
BEGIN;
SELECT fencing.present('sku:1', 12);
SELECT is(hiding(), 0::bigint, 'a SET clause hides the caller''s tokens');
SELECT is((SELECT count(*) FROM fencing.presented()), 1::bigint, 'for its own time');
COMMIT;
CREATE FUNCTION adding() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM fencing.present('sku:1', 12); END $$;
BEGIN;
SELECT adding();
SELECT is(outcome('UPDATE stock SET qty = 11'), 'ok', 'what a function without a SET clause presents stays');
ROLLBACK;
CREATE FUNCTION adding_within() RETURNS bigint LANGUAGE plpgsql SET fencing.tokens = 'a=1' AS $$
BEGIN
	PERFORM fencing.present('b', 2);
	RETURN (SELECT sum(token) FROM fencing.presented());
END
$$;
BEGIN;
SELECT is(adding_within(), 3::bigint, 'present within a SET clause adds to it');
SELECT is_empty('SELECT * FROM fencing.presented()', 'and ends with it');
COMMIT;

-- procedures: each of their transactions for itself
CREATE PROCEDURE two_transactions() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fencing.present('sku:1', 13);
	UPDATE stock SET qty = 12;
	COMMIT;
	UPDATE stock SET qty = 13;
END
$$;
\set ON_ERROR_STOP off
\set VERBOSITY terse
CALL two_transactions();
SELECT is(:'SQLSTATE'::text, 'ZF002', 'a token does not outlive COMMIT in a procedure');
\set ON_ERROR_STOP on
SELECT results_eq('SELECT qty, fence_token FROM stock', 'VALUES (12, 13::bigint)', 'the first transaction had it');

-- a prepared plan looks at the token of the time
PREPARE write AS UPDATE stock SET qty = 14;
BEGIN;
SELECT fencing.present('sku:1', 14);
EXECUTE write;
COMMIT;
SELECT is(outcome('EXECUTE write'), 'ZF002', 'a prepared statement does not keep a token');
BEGIN;
SELECT fencing.present('sku:1', 15);
EXECUTE write;
COMMIT;
SELECT is((SELECT fence_token FROM stock), 15::bigint, 'but takes the one that is presented');

-- a cursor and its tokens
BEGIN;
SELECT fencing.present('sku:1', 16);
DECLARE c CURSOR FOR SELECT * FROM stock FOR UPDATE;
FETCH c;
UPDATE stock SET qty = 15 WHERE CURRENT OF c;
COMMIT;
SELECT is((SELECT fence_token FROM stock), 16::bigint, 'WHERE CURRENT OF');

-- and everything ends with RESET ALL
SET fencing.tokens = 'sku:1=16';
RESET ALL;
SELECT is(outcome('UPDATE stock SET qty = 16'), 'ZF002', 'RESET ALL');
SELECT * FROM finish();
