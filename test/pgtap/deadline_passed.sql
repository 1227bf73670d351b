-- ZF003 deadline_passed: a transaction that presented tokens does not commit after its deadline.

\ir include/refusal.sql
\set ON_ERROR_STOP off
\set VERBOSITY terse
SELECT plan(23);

CREATE TABLE stock (id int PRIMARY KEY, qty int);
CREATE TABLE plain (id int);
SELECT fencing.fence('stock', 'sku:{id}');
INSERT INTO stock VALUES (1, 10, 5);

BEGIN;
SELECT fencing.present('sku:1', 6, '2000-01-01');
UPDATE stock SET qty = 1;
COMMIT;
SELECT is(:'SQLSTATE'::text, 'ZF003', 'presented with a deadline that is over');
SELECT is(:'LAST_ERROR_MESSAGE'::text, 'transaction cannot commit after its deadline', 'the message');
SELECT results_eq('SELECT qty, fence_token FROM stock', 'VALUES (10, 5::bigint)', 'nothing is committed');

BEGIN;
SELECT fencing.claim('res', 6, '2000-01-01');
COMMIT;
SELECT is(:'SQLSTATE'::text, 'ZF003', 'claimed with a deadline that is over');
SELECT is(fencing.mark('res'), 0::bigint, 'the claim is undone');

BEGIN;
SELECT fencing.present(ARRAY['sku:1', 'sku:2'], ARRAY[6, 6], '2000-01-01');
INSERT INTO plain VALUES (1);
COMMIT;
SELECT is(:'SQLSTATE'::text, 'ZF003', 'whatever was written');
SELECT is_empty('TABLE plain', 'plain tables included');

BEGIN;
SET LOCAL fencing.deadline = '2000-01-01 00:00+00';
SET LOCAL fencing.tokens = 'sku:1=6';
UPDATE stock SET qty = 1;
COMMIT;
SELECT is(:'SQLSTATE'::text, 'ZF003', 'deadline and token as settings');

BEGIN;
SET LOCAL fencing.deadline = '2000-01-01 00:00+00';
UPDATE stock SET qty = 1, fence_token = 6;
COMMIT;
SELECT is(:'SQLSTATE'::text, 'ZF003', 'the token in the column');

-- it passes while the transaction runs
BEGIN;
SELECT fencing.present('sku:1', 6, clock_timestamp() + interval '300 ms');
UPDATE stock SET qty = 1;
SELECT pg_sleep(0.5);
SELECT is((SELECT qty FROM stock), 1, 'before the commit the transaction goes on');
COMMIT;
SELECT is(:'SQLSTATE'::text, 'ZF003', 'the server''s clock decides, not the beginning of the transaction');

BEGIN;
SELECT fencing.present('sku:1', 6, '2200-01-01');
SELECT fencing.present('sku:1', 6, '2000-01-01');
SELECT fencing.present('sku:1', 6, '2200-01-01');
COMMIT;
SELECT is(:'SQLSTATE'::text, 'ZF003', 'the earliest deadline wins');

BEGIN;
SELECT fencing.present('sku:1', 6, '-infinity');
COMMIT;
SELECT is(:'SQLSTATE'::text, 'ZF003', 'always over');

SELECT fencing.present('sku:1', 6, '2000-01-01');
SELECT is(:'SQLSTATE'::text, 'ZF003', 'a statement by itself is a transaction too');

-- a commit inside a procedure
CREATE PROCEDURE work(deadline timestamptz) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fencing.present('sku:1', 6, deadline);
	UPDATE stock SET qty = 2;
	COMMIT;
	PERFORM fencing.present('sku:1', 6);
	UPDATE stock SET qty = 3;
	COMMIT;
END
$$;
CALL work('2000-01-01');
SELECT is(:'SQLSTATE'::text, 'ZF003', 'COMMIT in a procedure');
CALL work('2200-01-01');
SELECT is((SELECT qty FROM stock), 3, 'a procedure in time commits');

-- what does commit
BEGIN;
SELECT fencing.present('sku:1', 7, '2200-01-01');
UPDATE stock SET qty = 4;
COMMIT;
SELECT results_eq('SELECT qty, fence_token FROM stock', 'VALUES (4, 7::bigint)', 'before the deadline');
BEGIN;
SELECT fencing.present('sku:1', 7, 'infinity');
UPDATE stock SET qty = 5;
COMMIT;
SELECT is((SELECT qty FROM stock), 5, 'infinity is never over');
BEGIN;
SET LOCAL fencing.deadline = '2000-01-01 00:00+00';
INSERT INTO plain VALUES (2);
COMMIT;
SELECT is((SELECT count(*) FROM plain), 1::bigint, 'a transaction that presented no token has no deadline');
BEGIN;
SAVEPOINT s;
SELECT fencing.present('sku:1', 7, '2000-01-01');
ROLLBACK TO s;
SELECT fencing.present('sku:1', 7);
UPDATE stock SET qty = 6;
COMMIT;
SELECT is((SELECT qty FROM stock), 6, 'a deadline goes with its savepoint');
BEGIN;
SELECT fencing.present('sku:1', 7, '2000-01-01');
ROLLBACK;
SELECT is((SELECT qty FROM stock), 6, 'ROLLBACK is always possible');
BEGIN;
SELECT fencing.present('sku:1', 7, '2000-01-01');
SELECT is((SELECT current_setting('fencing.deadline')::timestamptz), '2000-01-01'::timestamptz, 'the deadline can be read');
ROLLBACK;
SELECT is(current_setting('fencing.deadline'), '', 'and is gone after the transaction');
SELECT * FROM finish();
