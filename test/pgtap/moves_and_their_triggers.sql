-- A row that changes partition keeps its mark, whatever other triggers do and
-- whatever was begun and rolled back before.
\ir include/refusal.sql
SELECT plan(11);

CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200);
SELECT fencing.fence('p', 'p:{id}');

-- a trigger of the destination that changes the token
CREATE FUNCTION zero() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.fence_token := 0; RETURN NEW; END$$;
CREATE TRIGGER a_zero BEFORE INSERT ON p2 FOR EACH ROW EXECUTE FUNCTION zero();
INSERT INTO p VALUES (1, 'a', 50);
SELECT is(outcome($$SELECT fencing.present(ARRAY['p:1', 'p:101'], ARRAY[60, 60]); UPDATE p SET id = 101 WHERE id = 1$$), 'ok', 'a row moves');
SELECT is((SELECT fence_token FROM p WHERE id = 101), 60::bigint, 'the presented token is its mark, whatever the trigger wrote');
SELECT is(outcome($$SELECT fencing.present('p:101', 3); UPDATE p SET v = 'stale' WHERE id = 101$$), 'ZF001', 'an older writer is refused');
DROP TRIGGER a_zero ON p2;

-- skip never loses a row whose delete has been done
CREATE TABLE h (id int, part int, v text, fence_token bigint NOT NULL DEFAULT 0) PARTITION BY LIST (part);
CREATE TABLE h1 PARTITION OF h (PRIMARY KEY (id)) FOR VALUES IN (1);
CREATE TABLE h2 PARTITION OF h (PRIMARY KEY (id)) FOR VALUES IN (2);
SELECT fencing.fence('h1', 'h:{id}', on_stale => 'skip'), fencing.fence('h2', 'h:{id}', on_stale => 'skip');
INSERT INTO h VALUES (1, 1, 'a', 50);
CREATE FUNCTION five() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.fence_token := 5; RETURN NEW; END$$;
CREATE TRIGGER a_five BEFORE INSERT ON h2 FOR EACH ROW EXECUTE FUNCTION five();
SELECT is(outcome('UPDATE h SET part = 2, fence_token = 60 WHERE id = 1'), 'ZF001', 'skip: an insert that ends a move raises');
SELECT results_eq('SELECT id, part, fence_token FROM h', $$VALUES (1, 1, 50::bigint)$$, 'the row is where it was');
SELECT is(outcome('INSERT INTO h VALUES (2, 2, ''b'', 0)'), 'ok', 'an insert that is none goes its way');

-- a move that was rolled back says nothing of the next statement
CREATE TABLE feed (id int, newid int, gone bool, tok bigint);
INSERT INTO p SELECT i, 'a', 50 FROM generate_series(2, 60) i;
INSERT INTO feed VALUES (2, 2, false, 60), (3, 70, false, 60);
PREPARE m AS MERGE INTO p USING feed s ON p.id = s.id
	WHEN MATCHED AND s.gone THEN DELETE
	WHEN MATCHED THEN UPDATE SET id = s.newid, fence_token = s.tok;
CREATE PROCEDURE twice() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 4 LOOP
		UPDATE feed SET gone = false, tok = 60;
		COMMIT;
		EXECUTE 'EXECUTE m';
		ROLLBACK;
		UPDATE feed SET gone = true, tok = NULL WHERE id = 3;
		COMMIT;
		BEGIN
			EXECUTE 'EXECUTE m';
			RAISE EXCEPTION 'a delete without a token passed in round %', i;
		EXCEPTION WHEN SQLSTATE 'ZF002' THEN
			NULL;
		END;
		COMMIT;
	END LOOP;
END
$$;
CALL twice();
SELECT is((SELECT fence_token FROM p WHERE id = 3), 50::bigint, 'the row is there, with its mark');
UPDATE feed SET gone = false, tok = 60;
BEGIN;
EXECUTE m;
ROLLBACK;
UPDATE feed SET gone = true, tok = NULL WHERE id = 3;
\set ON_ERROR_STOP off
\set ON_ERROR_ROLLBACK on
BEGIN;
SAVEPOINT s;
UPDATE feed SET id = id;
ROLLBACK TO s;
SELECT is(outcome('EXECUTE m'), 'ZF002', 'nor in the transaction after it');
COMMIT;
SELECT is(fencing.mark('p:3'), 0::bigint, 'no tombstone was left');

-- guards refuse what fence() refuses
CREATE TEMP TABLE mine (id int);
CREATE TRIGGER g BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION fencing.guard('mark=resource', 'resource=p:{id}');
SELECT is(outcome($$SELECT fencing.present('p:9', 9223372036854775807); INSERT INTO mine VALUES (9)$$), 'ZF009', 'a guard on a temporary table');
SELECT is(fencing.mark('p:9'), 0::bigint, 'raised no mark');

SELECT * FROM finish();
