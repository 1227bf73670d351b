-- A row that moves to another partition is one write: one check.  Its old name gets a tombstone because it changed.

\ir include/refusal.sql
SELECT plan(41);

CREATE TABLE p (region text, id int, v text, tok bigint NOT NULL DEFAULT 0, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE p_eu PARTITION OF p FOR VALUES IN ('eu');
CREATE TABLE p_us (tok bigint NOT NULL DEFAULT 0, v text, gone int, id int NOT NULL, region text NOT NULL);
ALTER TABLE p_us DROP gone;
ALTER TABLE p ATTACH PARTITION p_us FOR VALUES IN ('us');
CREATE TABLE p_as PARTITION OF p FOR VALUES IN ('as') PARTITION BY RANGE (id);
CREATE TABLE p_as_1 PARTITION OF p_as FOR VALUES FROM (0) TO (100);
CREATE TABLE p_as_2 PARTITION OF p_as FOR VALUES FROM (100) TO (200);
SELECT fencing.fence('p', token_column => 'tok');
INSERT INTO p VALUES ('eu', 1, 'a', 10);

SELECT is(outcome($$UPDATE p SET region = 'us'$$), 'ZF002', 'without a token');
SELECT is(outcome($$UPDATE p SET region = 'us', tok = 9$$), 'ZF001', 'with a stale one');
SELECT is((SELECT tableoid::regclass::text FROM p), 'p_eu', 'the row has not moved');
SELECT is_empty('SELECT * FROM fencing.marks', 'and left no tombstone');

SELECT is(outcome($$UPDATE p SET region = 'us', tok = 11$$), 'ok', 'with the token in the column');
SELECT results_eq('SELECT tableoid::regclass::text, region, id, v, tok FROM p', $$VALUES ('p_us', 'us', 1, 'a', 11::bigint)$$, 'the row has moved with its mark');
SELECT set_eq('SELECT resource, token FROM fencing.marks', $$VALUES ('p:eu:1', 11::bigint)$$, 'the old name has a tombstone, the new one none');

SELECT is(outcome($$SELECT fencing.present('p:us:1', 12); UPDATE p SET region = 'as'$$), 'ok', 'with a token presented for the old name');
SELECT results_eq('SELECT tableoid::regclass::text, tok FROM p', 'VALUES (''p_as_1'', 0::bigint)', 'the row is new under its new name');
SELECT is(fencing.mark('p:us:1'), 12::bigint, 'the old one has a tombstone');
SELECT is(outcome($$SELECT fencing.present(ARRAY['p:as:1', 'p:as:101'], ARRAY[13, 14]); UPDATE p SET id = 101$$), 'ok', 'between sub-partitions, with both tokens');
SELECT results_eq('SELECT tableoid::regclass::text, tok FROM p', 'VALUES (''p_as_2'', 14::bigint)', 'the row has the token of its new name');
SELECT is(fencing.mark('p:as:1'), 13::bigint, 'the tombstone that of the old one');
SELECT is(fencing.mark('p:as:101'), 0::bigint, 'and the new name has none');

-- to a name with a tombstone
SELECT is(outcome($$UPDATE p SET region = 'eu', id = 1, tok = 15$$), 'ok', 'a token above the new name''s tombstone');
SELECT is(outcome($$SELECT fencing.present('p:eu:1', 16); UPDATE p SET region = 'us'$$), 'ZF002', 'a new name with a tombstone needs a token');
SELECT is(outcome($$SELECT fencing.present(ARRAY['p:eu:1', 'p:us:1'], ARRAY[16, 11]); UPDATE p SET region = 'us'$$), 'ZF001', 'that is not stale');
SELECT is((SELECT tableoid::regclass::text FROM p), 'p_eu', 'else the row does not move');
SELECT is(outcome($$SELECT fencing.present(ARRAY['p:eu:1', 'p:us:1'], ARRAY[16, 17]); UPDATE p SET region = 'us' RETURNING tok$$), 'ok', 'with both');

-- other statements that move rows
SELECT is(outcome($$MERGE INTO p USING (VALUES ('us', 1)) s (region, id) ON (s.region, s.id) = (p.region, p.id)
	WHEN MATCHED THEN UPDATE SET region = 'eu', tok = 18$$), 'ok', 'MERGE');
SELECT is(outcome($$WITH x AS (UPDATE p SET region = 'us', tok = 19 RETURNING *) SELECT * FROM x$$), 'ok', 'a writable CTE');
SELECT is(outcome($$UPDATE p SET region = s.region, tok = 20 FROM (VALUES ('eu')) s (region)$$), 'ok', 'UPDATE … FROM');
SELECT results_eq('SELECT region, tok FROM p', $$VALUES ('eu', 20::bigint)$$, 'the row is where it was sent');

-- many rows, some of them moving
INSERT INTO p SELECT 'as', g, 'm', 5 FROM generate_series(2, 150) g WHERE NOT g BETWEEN 90 AND 110;
SELECT is(outcome($$UPDATE p SET id = id + 20, tok = 30 WHERE region = 'as' AND id BETWEEN 81 AND 89$$), 'ok', 'many rows move');
SELECT is((SELECT count(*) FROM p_as_2 WHERE tok = 30 AND id BETWEEN 101 AND 109), 9::bigint, 'with their marks');
SELECT is((SELECT count(*) FROM fencing.marks WHERE token = 30), 9::bigint, 'and one tombstone each');

-- after a move a delete and an insert are checked as always
SELECT is(outcome($$UPDATE p SET region = 'us', tok = 40 WHERE region = 'eu'; DELETE FROM p WHERE region = 'us'$$), 'ZF002', 'a delete after a move in one transaction');
SELECT is(outcome($$WITH m AS (UPDATE p SET region = 'us', tok = 40 WHERE region = 'eu' RETURNING *), d AS (DELETE FROM p WHERE region = 'as' AND id = 2) SELECT * FROM m$$),
	'ZF002', 'a delete beside a move in one statement');
SELECT is(outcome($$WITH m AS (UPDATE p SET region = 'us', tok = 40 WHERE region = 'eu' RETURNING *) INSERT INTO p SELECT 'eu', 1, 'x', 39 FROM m$$),
	'ZF001', 'an insert beside a move in one statement meets the tombstone');
SELECT is((SELECT count(*) FROM p WHERE region = 'eu'), 1::bigint, 'none of these has moved a row');

-- skip
SELECT fencing.fence('p', token_column => 'tok', on_stale => 'skip');
SELECT is_empty($$UPDATE p SET region = 'us', tok = 9 WHERE region = 'eu' RETURNING id$$, 'skip: a stale move moves nothing');
SELECT is((SELECT count(*) FROM p_eu), 1::bigint, 'the row is where it was');
SELECT is_empty($$UPDATE p SET id = 81, region = 'as', tok = 25 WHERE region = 'eu' RETURNING id$$, 'skip: nor one whose new name has a higher tombstone');
SELECT is((SELECT count(*) FROM p_eu), 1::bigint, 'the row is where it was');

-- a fence on one partition alone: the row keeps its name where it goes
CREATE TABLE q (id int, part int, v text, fence_token bigint NOT NULL DEFAULT 0) PARTITION BY LIST (part);
CREATE TABLE q_1 PARTITION OF q (PRIMARY KEY (id)) FOR VALUES IN (1);
CREATE TABLE q_2 PARTITION OF q (PRIMARY KEY (id)) FOR VALUES IN (2);
SELECT fencing.fence('q_1', 'q:{id}'), fencing.fence('q_2', 'q:{id}');
INSERT INTO q VALUES (1, 1, 'a', 10);
SELECT is(outcome('UPDATE q SET part = 2'), 'ZF002', 'two fenced partitions: without a token');
SELECT is(outcome('UPDATE q SET part = 2, fence_token = 11'), 'ok', 'with one');
SELECT results_eq('SELECT tableoid::regclass::text, fence_token FROM q', $$VALUES ('q_2', 11::bigint)$$, 'the row has moved with its mark');
SELECT is(fencing.mark('q:1'), 11::bigint, 'a row that leaves its fence leaves its mark behind, wherever it goes');
-- which matters when it goes to a partition without a fence
SELECT fencing.unfence('q_2');
INSERT INTO q VALUES (2, 1, 'a', 10);
SELECT is(outcome('UPDATE q SET part = 2, fence_token = 11 WHERE id = 2'), 'ok', 'out of the fence');
SELECT is(outcome('INSERT INTO q VALUES (2, 1, ''a'', 10)'), 'ZF001', 'an older writer does not bring the row back in its place');
SELECT is(outcome('UPDATE q SET part = 1, fence_token = 10 WHERE id = 2'), 'ZF001', 'nor into the fence');
SELECT * FROM finish();
