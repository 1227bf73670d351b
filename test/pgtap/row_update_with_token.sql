-- Row marks: a write whose token is not below the row's mark is accepted, however the statement is put, and its token
-- becomes the mark.  Equal tokens pass: a holder writes many times.

\ir include/refusal.sql
SELECT plan(49);

CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
CREATE TABLE source (id int, v text, tok bigint);
SELECT fencing.fence('t', token_column => 'tok');
INSERT INTO t VALUES (1, 'a', 11);
INSERT INTO source VALUES (1, 's', 12), (2, 's2', 12);
CREATE VIEW simple AS SELECT id, v, tok FROM t;
CREATE VIEW renamed AS SELECT tok AS version, v AS text, id AS key FROM t WHERE id > 0;

CREATE FUNCTION rows_after(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	-- the statement is tried and taken back
	BEGIN
		EXECUTE statement;
		SELECT string_agg(t::text, ' ' ORDER BY id) INTO result FROM t;
		RAISE EXCEPTION USING ERRCODE = 'UNDO0', MESSAGE = coalesce(result, '');
	EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
		RETURN coalesce(result, '');
	WHEN OTHERS THEN
		RETURN SQLSTATE;
	END;
END
$$;
SELECT is(rows_after(s), expected, s) FROM (VALUES
	-- in the column
	($$UPDATE t SET v = 'b', tok = 11$$, '(1,b,11)'),
	($$UPDATE t SET v = 'b', tok = 12$$, '(1,b,12)'),
	($$UPDATE t SET tok = 12 WHERE id = 1 RETURNING *$$, '(1,a,12)'),
	($$UPDATE t SET tok = tok, v = 'b'$$, '(1,b,11)'),
	($$UPDATE t SET tok = tok + 1$$, '(1,a,12)'),
	($$UPDATE t SET (tok, v) = (SELECT tok, v FROM source WHERE id = 1)$$, '(1,s,12)'),
	($$UPDATE t SET tok = 9223372036854775807$$, '(1,a,9223372036854775807)'),
	($$INSERT INTO t VALUES (1, 'c', 12) ON CONFLICT (id) DO UPDATE SET v = excluded.v, tok = excluded.tok$$, '(1,c,12)'),
	($$INSERT INTO t (id, v) VALUES (1, 'c') ON CONFLICT (id) DO UPDATE SET v = excluded.v, tok = 12$$, '(1,c,12)'),
	($$INSERT INTO t VALUES (1, 'c', 5) ON CONFLICT DO NOTHING$$, '(1,a,11)'),
	($$INSERT INTO t VALUES (2, 'c', 5) ON CONFLICT (id) DO UPDATE SET v = excluded.v$$, '(1,a,11) (2,c,5)'),
	($$MERGE INTO t USING source s ON s.id = t.id WHEN MATCHED THEN UPDATE SET v = s.v, tok = s.tok$$, '(1,s,12)'),
	($$MERGE INTO t USING source s ON s.id = t.id WHEN MATCHED THEN UPDATE SET v = s.v, tok = s.tok WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, s.tok)$$,
	 '(1,s,12) (2,s2,12)'),
	($$MERGE INTO t USING source s ON s.id = t.id WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)$$, '(1,a,11) (2,s2,0)'),
	($$UPDATE t SET v = source.v, tok = source.tok FROM source WHERE source.id = t.id$$, '(1,s,12)'),
	($$WITH x AS (UPDATE t SET v = 'b', tok = 12 RETURNING *) SELECT * FROM x$$, '(1,b,12)'),
	($$WITH x AS (INSERT INTO t VALUES (2, 'x', 3) RETURNING *) UPDATE t SET v = x.v, tok = 12 FROM x WHERE t.id = 1$$, '(1,x,12) (2,x,3)'),
	($$UPDATE simple SET v = 'b', tok = 12$$, '(1,b,12)'),
	($$UPDATE renamed SET version = 12, text = 'b'$$, '(1,b,12)'),
	($$INSERT INTO renamed VALUES (3, 'r', 2)$$, '(1,a,11) (2,r,3)'),
	-- presented, and stamped into the column
	($$SELECT fencing.present('t:1', 12); UPDATE t SET v = 'b'$$, '(1,b,12)'),
	($$SELECT fencing.present('t:1', 11); UPDATE t SET v = 'b'$$, '(1,b,11)'),
	($$SELECT fencing.present('t:1', 12); UPDATE t SET v = 'b', tok = 11$$, '(1,b,12)'),
	($$SELECT fencing.present('t:1', 12); UPDATE t SET v = 'b', tok = 3$$, '(1,b,12)'),
	($$SELECT fencing.present('t:1', 12); UPDATE t SET v = 'b', tok = 99$$, '(1,b,12)'),
	($$SELECT fencing.present('t:1', 12); UPDATE t SET tok = NULL$$, '(1,a,12)'),
	($$SELECT fencing.present('t:1', 12); UPDATE t SET tok = DEFAULT$$, '(1,a,12)'),
	($$SELECT fencing.present('t:1', 12); UPDATE simple SET v = 'b'$$, '(1,b,12)'),
	($$SELECT fencing.present('t:1', 12); INSERT INTO t VALUES (1, 'c', 5) ON CONFLICT (id) DO UPDATE SET v = excluded.v$$, '(1,c,12)'),
	($$SELECT fencing.present('t:1', 12); INSERT INTO t VALUES (1, 'c') ON CONFLICT (id) DO UPDATE SET v = excluded.v$$, '(1,c,12)'),
	($$SELECT fencing.present('t:1', 12); MERGE INTO t USING source s ON s.id = t.id WHEN MATCHED THEN UPDATE SET v = s.v$$, '(1,s,12)'),
	($$SELECT fencing.present('t:1', 12); MERGE INTO t USING source s ON s.id = t.id WHEN MATCHED THEN DELETE$$, ''),
	($$SELECT fencing.present('t:1', 11); DELETE FROM t$$, ''),
	($$SELECT fencing.present('t:1', 12); DELETE FROM simple$$, ''),
	($$SELECT fencing.present('t:1', 12); WITH x AS (DELETE FROM t RETURNING *) INSERT INTO source SELECT * FROM x$$, ''),
	-- a token for another resource is not this row's
	($$SELECT fencing.present('t:2', 12); UPDATE t SET v = 'b'$$, 'ZF002'),
	($$SELECT fencing.present('t:2', 1); UPDATE t SET v = 'b', tok = 12$$, '(1,b,12)'),
	($$SELECT fencing.present('t:10', 12); UPDATE t SET v = 'b'$$, 'ZF002'),
	($$SELECT fencing.present('t:', 12); UPDATE t SET v = 'b'$$, 'ZF002')) AS v(s, expected);

-- the holder writes the same row twice, two rows, in two transactions; RETURNING shows the mark
SELECT results_eq($$UPDATE t SET tok = 20 RETURNING id, tok$$, 'VALUES (1, 20::bigint)', 'reading and claiming in one statement');
SELECT is(outcome('UPDATE t SET v = ''x'', tok = 20'), 'ok', 'again with the same token');
SELECT is(outcome('UPDATE t SET v = ''x'', tok = 19'), 'ZF001', 'the older token is stale from then on');
BEGIN;
SELECT fencing.present('t:1', 21);
SELECT results_eq($$UPDATE t SET v = 'y' RETURNING tok$$, 'VALUES (21::bigint)', 'RETURNING shows what was stamped');
SELECT results_eq($$UPDATE t SET v = 'z' RETURNING tok$$, 'VALUES (21::bigint)', 'twice');
COMMIT;
BEGIN;
UPDATE t SET tok = 30;
ROLLBACK;
SELECT is(outcome('UPDATE t SET tok = 29'), 'ok', 'ROLLBACK takes the mark back');
BEGIN;
SAVEPOINT s;
UPDATE t SET tok = 40;
ROLLBACK TO s;
SELECT is(outcome('UPDATE t SET tok = 39'), 'ok', 'so does a savepoint');
COMMIT;
-- a table whose columns were dropped and added
DROP VIEW simple, renamed;
ALTER TABLE t DROP v;
ALTER TABLE t ADD w text;
SELECT is(outcome('UPDATE t SET w = ''x'''), 'ZF002', 'dropped columns confuse nothing: none');
SELECT is(outcome('UPDATE t SET w = ''x'', tok = 38'), 'ZF001', 'stale');
SELECT is(outcome('UPDATE t SET w = ''x'', tok = 41'), 'ok', 'newer');
SELECT * FROM finish();
