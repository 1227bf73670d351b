-- Resource marks: what a transaction has checked is not checked again for each row, and that never lets a stale token
-- through: not after a newer claim, a rolled back savepoint, or thousands of other resources.

\ir include/refusal.sql
SELECT plan(40);

CREATE TABLE t (r text, v int);
SELECT fencing.fence('t', 'r:{r}', 'resource');

-- a newer token in the same transaction
BEGIN;
SELECT fencing.claim('r:a', 10);
SELECT is(outcome($$INSERT INTO t VALUES ('a', 1)$$), 'ok', 'claimed 10');
SELECT fencing.claim('r:a', 20);
SELECT is(outcome($$INSERT INTO t VALUES ('a', 2)$$), 'ok', 'raised to 20');
SELECT fencing.present('r:a', 10);
SELECT is(outcome($$INSERT INTO t VALUES ('a', 3)$$), 'ZF001', 'presenting 10 again is stale');
SELECT is(outcome($$UPDATE t SET v = 9$$), 'ZF001', 'for every write');
SELECT fencing.present('r:a', 20);
SELECT is(outcome($$INSERT INTO t VALUES ('a', 4)$$), 'ok', 'and 20 is not');
COMMIT;
SELECT is((SELECT string_agg(v::text, ',' ORDER BY v) FROM t), '1,2,4', 'the stale ones are not there');

-- savepoints: what was raised in one is lowered with it, and known to be
BEGIN;
SELECT fencing.present('r:b', 10);
INSERT INTO t VALUES ('b', 1);
SAVEPOINT s;
SELECT fencing.present('r:b', 20);
INSERT INTO t VALUES ('b', 2);
SELECT is(fencing.mark('r:b'), 20::bigint, 'raised within a savepoint');
ROLLBACK TO s;
SELECT is(fencing.mark('r:b'), 10::bigint, 'taken back with it');
SELECT is(outcome($$INSERT INTO t VALUES ('b', 3)$$), 'ok', 'the token from before is accepted');
SELECT is(outcome($$SELECT fencing.present('r:b', 20); INSERT INTO t VALUES ('b', 4)$$), 'ok', 'the token of the savepoint is checked anew');
SELECT is(fencing.mark('r:b'), 20::bigint, 'and raises the mark again');
COMMIT;
SELECT is(fencing.mark('r:b'), 20::bigint, 'which is there after COMMIT');

-- first use within a savepoint that is rolled back
BEGIN;
SAVEPOINT s;
SELECT fencing.present('r:c', 5);
INSERT INTO t VALUES ('c', 1);
ROLLBACK TO s;
SELECT is(fencing.mark('r:c'), 0::bigint, 'no mark is left');
SELECT fencing.present('r:c', 5);
INSERT INTO t VALUES ('c', 2);
SELECT is(fencing.mark('r:c'), 5::bigint, 'the same token makes it again');
COMMIT;
SELECT is(fencing.mark('r:c'), 5::bigint, 'for good');

-- released savepoints, nested ones
BEGIN;
SAVEPOINT outer_one;
SAVEPOINT inner_one;
SELECT fencing.present('r:d', 5);
INSERT INTO t VALUES ('d', 1);
RELEASE inner_one;
INSERT INTO t VALUES ('d', 2);
ROLLBACK TO outer_one;
SELECT is(fencing.mark('r:d'), 0::bigint, 'a released savepoint goes with the one around it');
SELECT fencing.present('r:d', 4);
INSERT INTO t VALUES ('d', 3);
COMMIT;
SELECT is(fencing.mark('r:d'), 4::bigint, 'and its check with it');

-- exception blocks
DO $$
BEGIN
	PERFORM fencing.present('r:e', 10);
	INSERT INTO t VALUES ('e', 1);
	FOR i IN 1 .. 3 LOOP
		BEGIN
			PERFORM fencing.present('r:e', 10 + i);
			INSERT INTO t VALUES ('e', 1 + i);
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
			INSERT INTO t VALUES ('e', 100 + i);
		END;
	END LOOP;
END
$$;
SELECT is(fencing.mark('r:e'), 10::bigint, 'raises in exception blocks are undone');
SELECT is((SELECT count(*) FROM t WHERE r = 'e'), 4::bigint, 'and the handlers wrote with the token from before');
DO $$
BEGIN
	PERFORM fencing.present('r:f', 10);
	BEGIN
		INSERT INTO t VALUES ('f', 1);
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
	PERFORM fencing.present('r:f', 9);
	BEGIN
		INSERT INTO t VALUES ('f', 2);
	EXCEPTION WHEN SQLSTATE 'ZF001' THEN
		INSERT INTO t VALUES ('f', 3);
	END;
EXCEPTION WHEN SQLSTATE 'ZF001' THEN
	NULL;
END
$$;
SELECT is(fencing.mark('r:f'), 0::bigint, 'a stale token stays stale in the handler, which undoes all');

-- a caught refusal leaves what was accepted
BEGIN;
SELECT fencing.claim('r:g', 10);
SELECT is(outcome($$SELECT fencing.present('r:g', 9); INSERT INTO t VALUES ('g', 1)$$), 'ZF001', 'refused and caught');
SELECT is(outcome($$INSERT INTO t VALUES ('g', 2)$$), 'ok', 'the token that was presented before counts again');
COMMIT;
SELECT is(fencing.mark('r:g'), 10::bigint, 'with its mark');

-- a rolled back raise and the same token in the next transaction
BEGIN;
SELECT fencing.claim('r:h', 50);
ROLLBACK;
SELECT is(outcome($$SELECT fencing.present('r:h', 40); INSERT INTO t VALUES ('h', 1)$$), 'ok', 'a lower token after a rolled back claim');

-- more resources than any memory of them holds
BEGIN;
SELECT fencing.present((SELECT array_agg('r:' || g) FROM generate_series(1, 3000) g), (SELECT array_agg(10::bigint) FROM generate_series(1, 3000)));
INSERT INTO t SELECT g::text, 0 FROM generate_series(1, 3000) g;
SELECT is((SELECT count(*) FROM fencing.marks WHERE resource ~ '^r:\d+$' AND token = 10), 3000::bigint, '3000 marks in one statement');
UPDATE t SET v = 1 WHERE r IN ('1', '1500', '3000');
SELECT is((SELECT count(*) FROM t WHERE v = 1 AND r ~ '\d'), 3::bigint, 'the first of them again');
UPDATE t SET v = 2 WHERE r ~ '\d';
SELECT is((SELECT count(*) FROM t WHERE v = 2 AND r ~ '\d'), 3000::bigint, 'and all of them');
SELECT fencing.present((SELECT array_agg('r:' || g) FROM generate_series(1, 3000) g), (SELECT array_agg(CASE g WHEN 1 THEN 9 ELSE 10 END::bigint) FROM generate_series(1, 3000) g));
SELECT is((r).message, 'stale token for resource "r:1"', 'one of 3000 that is stale is found') FROM refusal('UPDATE t SET v = 3 WHERE r ~ ''\d''') AS r;
COMMIT;

-- strict: once in a transaction, however many rows it has, and never again
SELECT fencing.fence('t', 'r:{r}', 'resource', strict => true);
SELECT is(outcome($$SELECT fencing.present('r:a', 20); UPDATE t SET v = 5 WHERE r = 'a'$$), 'ZF001', 'strict: an equal token');
BEGIN;
SELECT fencing.present('r:a', 21);
UPDATE t SET v = 5 WHERE r = 'a';
SELECT is((SELECT count(*) FROM t WHERE r = 'a' AND v = 5), 3::bigint, 'strict: one statement over many rows');
SELECT is(outcome($$UPDATE t SET v = 6 WHERE r = 'a'$$), 'ok', 'strict: another statement of the transaction');
SAVEPOINT s;
SELECT is(outcome($$UPDATE t SET v = 7 WHERE r = 'a'$$), 'ok', 'strict: within a savepoint');
ROLLBACK TO s;
SELECT is(outcome($$UPDATE t SET v = 8 WHERE r = 'a'$$), 'ok', 'strict: and after it was rolled back');
COMMIT;
SELECT is(outcome($$SELECT fencing.present('r:a', 21); UPDATE t SET v = 9 WHERE r = 'a'$$), 'ZF001', 'strict: the next transaction with the same token is stale');
SELECT is((SELECT count(*) FROM t WHERE r = 'a' AND v = 8), 3::bigint, 'strict: and writes nothing');
BEGIN;
SELECT fencing.present((SELECT array_agg('r:' || g) FROM generate_series(1, 3000) g), (SELECT array_agg(11::bigint) FROM generate_series(1, 3000)));
UPDATE t SET v = 3 WHERE r ~ '\d';
UPDATE t SET v = 4 WHERE r ~ '\d';
COMMIT;
SELECT is((SELECT count(*) FROM t WHERE v = 4 AND r ~ '\d'), 3000::bigint, 'strict: 3000 resources, twice in a transaction');
SELECT is(outcome($$SELECT fencing.present('r:1', 11); UPDATE t SET v = 5 WHERE r = '1'$$), 'ZF001', 'strict: the next one is stale');
-- a check on one fence counts for another only as far as that one's rule goes
CREATE TABLE loose (r text);
SELECT fencing.fence('loose', 'r:{r}', 'resource');
CREATE TABLE stepped (r text);
SELECT fencing.fence('stepped', 'r:{r}', 'resource', max_step => 5);
BEGIN;
SELECT fencing.present('r:a', 21);
SELECT is(outcome($$INSERT INTO loose VALUES ('a')$$), 'ok', 'an equal token on a fence that is not strict');
SELECT is(outcome($$UPDATE t SET v = 9 WHERE r = 'a'$$), 'ZF001', 'is stale on one that is');
COMMIT;
SELECT is(outcome($$SELECT fencing.present('r:new', 6); INSERT INTO stepped VALUES ('new')$$), 'ZF006', 'max_step of a fence');
SELECT * FROM finish();
