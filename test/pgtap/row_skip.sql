-- on_stale => 'skip': a stale write leaves the row alone, without an error; the row is not counted, not returned, and
-- nothing of it is changed.  Everything else is refused as always.

\ir include/refusal.sql
SELECT plan(44);

CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
SELECT fencing.fence('t', token_column => 'tok', on_stale => 'skip', max_step => 1000);
INSERT INTO t VALUES (1, 'a', 10), (2, 'a', 10), (3, 'a', 50);
CREATE FUNCTION affected(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE statement;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n;
END
$$;
SELECT is(affected('UPDATE t SET v = ''b'', tok = 9 WHERE id = 1'), 0::bigint, 'a stale UPDATE: 0 rows');
SELECT is_empty('UPDATE t SET v = ''b'', tok = 9 WHERE id = 1 RETURNING tok', 'RETURNING gives none');
SELECT is(affected('UPDATE t SET v = ''b'', tok = 20'), 2::bigint, 'one stale among three: 2 rows');
SELECT results_eq('SELECT id, v, tok FROM t ORDER BY id', $$VALUES (1, 'b'::text, 20::bigint), (2, 'b', 20), (3, 'a', 50)$$, 'the stale one is left alone');
SELECT results_eq('UPDATE t SET v = ''c'', tok = 21 RETURNING id', 'VALUES (1), (2)', 'RETURNING gives the two');
BEGIN;
SELECT fencing.present('t:3', 49);
SELECT is(affected('DELETE FROM t WHERE id = 3'), 0::bigint, 'a stale DELETE');
COMMIT;
SELECT is((SELECT count(*) FROM t WHERE id = 3), 1::bigint, 'the row is there');
SELECT is(fencing.mark('t:3'), 0::bigint, 'without a tombstone');
SELECT is(affected('INSERT INTO t VALUES (3, ''n'', 40) ON CONFLICT (id) DO UPDATE SET v = excluded.v, tok = excluded.tok'), 0::bigint, 'a stale ON CONFLICT DO UPDATE');
SELECT is(affected('MERGE INTO t USING (VALUES (3)) s (id) ON s.id = t.id WHEN MATCHED THEN UPDATE SET tok = 40'), 0::bigint, 'a stale MERGE');
SELECT is(affected('WITH x AS (UPDATE t SET tok = 40 WHERE id = 3 RETURNING *) SELECT * FROM x'), 0::bigint, 'a stale writable CTE');
SELECT results_eq('SELECT v, tok FROM t WHERE id = 3', $$VALUES ('a'::text, 50::bigint)$$, 'nothing has changed');

-- tombstones: a stale INSERT is left out
SELECT is(outcome($$SELECT fencing.present('t:2', 30); DELETE FROM t WHERE id = 2$$), 'ok', 'a row is deleted');
SELECT is(affected('INSERT INTO t VALUES (2, ''n'', 29)'), 0::bigint, 'a stale INSERT: 0 rows');
SELECT is(affected('INSERT INTO t VALUES (2, ''n'', 29), (5, ''n'', 29)'), 1::bigint, 'others of the statement go in');
SELECT is((SELECT count(*) FROM t WHERE id = 2), 0::bigint, 'the row is not there');
-- the fallback of ORMs, UPDATE then INSERT, never makes a second row
SELECT is(outcome('INSERT INTO t VALUES (3, ''n'', 40)'), '23505', 'an INSERT after a skipped UPDATE is a duplicate');

-- a change of name whose old or new name is stale
SELECT is(affected('UPDATE t SET id = 6, tok = 49 WHERE id = 3'), 0::bigint, 'a stale old name');
SELECT is(affected('UPDATE t SET id = 2, tok = 29 WHERE id = 1'), 0::bigint, 'a stale new name');
SELECT is((SELECT string_agg(id::text, ',' ORDER BY id) FROM t), '1,3,5', 'the rows have the names they had');
SELECT set_eq('SELECT resource, token FROM fencing.marks', $$VALUES ('t:2', 30::bigint)$$, 'and no tombstone was left');

-- only stale writes are skipped
SELECT is(outcome('UPDATE t SET v = ''x'''), 'ZF002', 'a missing token is refused');
SELECT is(outcome('DELETE FROM t'), 'ZF002', 'also for a DELETE');
SELECT is(outcome('INSERT INTO t VALUES (2, ''x'')'), 'ZF002', 'also for an INSERT over a tombstone');
SELECT is(outcome('UPDATE t SET tok = 5000 WHERE id = 1'), 'ZF006', 'a jump above max_step is refused');
SELECT is(outcome('UPDATE t SET tok = 0'), '22023', 'an invalid token is refused');

-- below another trigger or a foreign key's action it raises
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE cascading (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE nulling (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE SET NULL);
CREATE TABLE defaulting (id int PRIMARY KEY, parent int DEFAULT 9 REFERENCES parent ON DELETE SET DEFAULT);
SELECT fencing.fence(c, on_stale => 'skip') FROM unnest(ARRAY['cascading', 'nulling', 'defaulting']::regclass[]) AS c;
INSERT INTO parent VALUES (1), (2), (3), (4), (9);
INSERT INTO cascading VALUES (1, 1, 10), (4, 4, 10);
INSERT INTO nulling VALUES (1, 2, 10);
INSERT INTO defaulting VALUES (1, 3, 10);
SELECT is(outcome($$SELECT fencing.present('cascading:1', 9); DELETE FROM parent WHERE id = 1$$), 'ZF001', 'ON DELETE CASCADE');
SELECT is(outcome($$SELECT fencing.present('nulling:1', 9); DELETE FROM parent WHERE id = 2$$), 'ZF001', 'ON DELETE SET NULL');
SELECT is(outcome($$SELECT fencing.present('defaulting:1', 9); DELETE FROM parent WHERE id = 3$$), 'ZF001', 'ON DELETE SET DEFAULT');
SELECT is(outcome($$SELECT fencing.present('cascading:4', 9); UPDATE parent SET id = 5 WHERE id = 4$$), 'ZF001', 'ON UPDATE CASCADE');
SELECT is((SELECT count(*) FROM parent), 5::bigint, 'no parent is gone');
SELECT is((SELECT count(*) FROM cascading) + (SELECT count(*) FROM nulling WHERE parent = 2) + (SELECT count(*) FROM defaulting WHERE parent = 3),
	4::bigint, 'and no child is an orphan');
SELECT is(outcome('DELETE FROM parent WHERE id = 1'), 'ZF002', 'a foreign key''s action carries no token of its own');
SELECT is(outcome($$SELECT fencing.present('cascading:1', 10); DELETE FROM parent WHERE id = 1$$), 'ok', 'but the one that is presented');
SELECT is(fencing.mark('cascading:1'), 10::bigint, 'and leaves a tombstone');
SELECT is(outcome($$SELECT fencing.present('nulling:1', 11); DELETE FROM parent WHERE id = 2$$), 'ok', 'ON DELETE SET NULL with a token');
SELECT results_eq('SELECT parent, fence_token FROM nulling', 'VALUES (NULL::int, 11::bigint)', 'stamps it');

CREATE TABLE outside (id int);
CREATE FUNCTION writes_t() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET tok = NEW.id WHERE id = 3; RETURN NEW; END $$;
CREATE TRIGGER before_one BEFORE INSERT ON outside FOR EACH ROW EXECUTE FUNCTION writes_t();
SELECT is(outcome('INSERT INTO outside VALUES (40)'), 'ZF001', 'below a BEFORE trigger');
DROP TRIGGER before_one ON outside;
CREATE TRIGGER after_one AFTER INSERT ON outside FOR EACH ROW EXECUTE FUNCTION writes_t();
SELECT is(outcome('INSERT INTO outside VALUES (40)'), 'ZF001', 'below an AFTER trigger');
SELECT is(outcome('INSERT INTO outside VALUES (51)'), 'ok', 'not stale: no matter');
SELECT is((SELECT tok FROM t WHERE id = 3), 51::bigint, 'accepted');
-- within a function, which is no trigger, it is skipped
CREATE FUNCTION plain() RETURNS bigint LANGUAGE sql AS $$ SELECT affected('UPDATE t SET tok = 40 WHERE id = 3') $$;
SELECT is(plain(), 0::bigint, 'a function is not a trigger');
-- with stale_aborts a skipped write is no error that was caught
SET fencing.stale_aborts = on;
BEGIN;
UPDATE t SET v = 'k', tok = 40;
COMMIT;
RESET fencing.stale_aborts;
SELECT is((SELECT v FROM t WHERE id = 1), 'k', 'a transaction with a skipped write commits');
-- the count
SELECT is(affected('UPDATE t SET tok = 40 WHERE id IN (1, 3)'), 1::bigint, 'the count is that of the rows written');
SELECT * FROM finish();
