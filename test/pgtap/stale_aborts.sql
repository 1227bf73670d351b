-- fencing.stale_aborts: once a write was refused as stale, the transaction cannot commit, even if the error was caught.
-- Off, the default, it can.

\ir include/refusal.sql
\set ON_ERROR_STOP off
\set VERBOSITY terse
SELECT plan(19);

CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
CREATE TABLE orders (id int, v text);
CREATE TABLE plain (note text);
SELECT fencing.fence('t', token_column => 'tok');
SELECT fencing.fence('orders', 'order:{id}', 'resource');
INSERT INTO t VALUES (1, 'a', 10);
SELECT fencing.claim('order:1', 10);
SELECT is(current_setting('fencing.stale_aborts'), 'off', 'the default is off');

BEGIN;
INSERT INTO plain VALUES ('off');
SELECT is(outcome('UPDATE t SET tok = 9'), 'ZF001', 'a stale write is caught');
COMMIT;
SELECT is((SELECT count(*) FROM plain WHERE note = 'off'), 1::bigint, 'off: the transaction commits');

SET fencing.stale_aborts = on;
BEGIN;
INSERT INTO plain VALUES ('row');
SELECT outcome('UPDATE t SET tok = 9');
COMMIT;
SELECT is(:'SQLSTATE'::text, 'ZF001', 'on: COMMIT fails as stale');
SELECT is(:'LAST_ERROR_MESSAGE'::text, 'transaction cannot commit: a write in it was refused as stale', 'and says why');
SELECT is((SELECT count(*) FROM plain WHERE note = 'row'), 0::bigint, 'nothing is committed');

BEGIN;
INSERT INTO plain VALUES ('resource');
SELECT fencing.present('order:1', 9);
SELECT outcome('INSERT INTO orders VALUES (1, ''x'')');
COMMIT;
SELECT is(:'SQLSTATE'::text, 'ZF001', 'a resource mark');

BEGIN;
INSERT INTO plain VALUES ('savepoint');
SAVEPOINT s;
UPDATE t SET tok = 9;
ROLLBACK TO s;
COMMIT;
SELECT is(:'SQLSTATE'::text, 'ZF001', 'a savepoint does not make it good');

CREATE PROCEDURE catches() LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO plain VALUES ('procedure');
	BEGIN
		UPDATE t SET tok = 9;
	EXCEPTION WHEN OTHERS THEN
		NULL;
	END;
	COMMIT;
END
$$;
CALL catches();
SELECT is(:'SQLSTATE'::text, 'ZF001', 'nor does an exception block in a procedure');
SELECT is((SELECT count(*) FROM plain WHERE note = 'procedure'), 0::bigint, 'nothing is committed');

SELECT outcome('UPDATE t SET tok = 9'), 'a statement by itself';
SELECT is(:'SQLSTATE'::text, 'ZF001', 'nor does a statement that catches it itself');

-- what is not stale does not abort
BEGIN;
INSERT INTO plain VALUES ('missing');
SELECT is(outcome('UPDATE t SET v = ''b'''), 'ZF002', 'a missing token is caught');
COMMIT;
SELECT is((SELECT count(*) FROM plain WHERE note = 'missing'), 1::bigint, 'and does not abort');
BEGIN;
SELECT fencing.present('order:1', 10);
INSERT INTO orders VALUES (1, 'y');
UPDATE t SET v = 'c', tok = 11;
COMMIT;
SELECT is((SELECT v FROM t), 'c', 'a transaction without a refusal commits');

-- the next transaction is free of it
BEGIN;
SELECT outcome('UPDATE t SET tok = 9');
ROLLBACK;
BEGIN;
INSERT INTO plain VALUES ('next');
COMMIT;
SELECT is((SELECT count(*) FROM plain WHERE note = 'next'), 1::bigint, 'after ROLLBACK the next transaction commits');

-- for one transaction
RESET fencing.stale_aborts;
BEGIN;
SET LOCAL fencing.stale_aborts = on;
SELECT outcome('UPDATE t SET tok = 9');
COMMIT;
SELECT is(:'SQLSTATE'::text, 'ZF001', 'SET LOCAL');
-- turned off again after the refusal
BEGIN;
SET LOCAL fencing.stale_aborts = on;
SELECT outcome('UPDATE t SET tok = 9');
SET LOCAL fencing.stale_aborts = off;
COMMIT;
SELECT is(:'SQLSTATE'::text, 'ZF001', 'turning it off after the refusal is too late');
BEGIN;
SELECT outcome('UPDATE t SET tok = 9');
COMMIT;
SELECT is(:'SQLSTATE'::text, '00000', 'and the transaction after it is free again');
SELECT is(outcome('SET fencing.stale_aborts = perhaps'), '22023', 'it is a boolean');
SELECT * FROM finish();
