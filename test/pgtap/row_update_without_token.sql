-- Row marks: a write that does not itself carry a token is refused, however the statement is put, and never taken for
-- one with the row's own token.  A stale one is refused the same ways.

\ir include/refusal.sql
SELECT plan(70);

CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
CREATE TABLE source (id int, v text, tok bigint);
SELECT fencing.fence('t', token_column => 'tok');
INSERT INTO t VALUES (1, 'a', 11);
INSERT INTO source VALUES (1, 's', 9);
CREATE VIEW simple AS SELECT id, v, tok FROM t;
CREATE VIEW renamed AS SELECT tok AS version, v AS text, id AS key FROM t WHERE id > 0;
CREATE VIEW without AS SELECT id, v FROM t;

CREATE FUNCTION unchanged() RETURNS boolean LANGUAGE sql AS $$ SELECT array_agg(t::text) = '{"(1,a,11)"}' FROM t $$;
CREATE FUNCTION check_outcome(statement text, expected text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN NEXT is(outcome(statement), expected, statement);
	RETURN NEXT ok(unchanged(), 'and nothing is written');
	-- for the next one
	SET LOCAL fencing.enforcement = off;
	DELETE FROM t;
	INSERT INTO t VALUES (1, 'a', 11);
	RESET fencing.enforcement;
END
$$;
-- none
SELECT check_outcome(s, 'ZF002') FROM unnest(ARRAY[
	$$UPDATE t SET v = 'b' WHERE id = 1$$,
	$$UPDATE t SET v = v$$,
	$$INSERT INTO t VALUES (1, 'c', 9) ON CONFLICT (id) DO UPDATE SET v = excluded.v$$,
	$$INSERT INTO t VALUES (1, 'c', 12) ON CONFLICT (id) DO UPDATE SET v = excluded.v$$,
	$$MERGE INTO t USING source s ON s.id = t.id WHEN MATCHED THEN UPDATE SET v = s.v$$,
	$$MERGE INTO t USING source s ON s.id = t.id WHEN MATCHED THEN DELETE$$,
	$$MERGE INTO t USING source s ON s.id = t.id WHEN MATCHED AND s.tok = 9 THEN UPDATE SET v = s.v WHEN MATCHED THEN UPDATE SET v = s.v, tok = s.tok$$,
	$$MERGE INTO t USING source s ON s.id = t.id WHEN MATCHED AND s.tok = 9 THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, s.tok)$$,
	$$UPDATE t SET v = source.v FROM source WHERE source.id = t.id$$,
	$$WITH x AS (UPDATE t SET v = 'b' RETURNING *) SELECT * FROM x$$,
	$$UPDATE simple SET v = 'b'$$,
	$$UPDATE renamed SET text = 'b'$$,
	$$UPDATE without SET v = 'b'$$,
	$$DELETE FROM t$$,
	$$DELETE FROM simple$$,
	$$DELETE FROM t USING source WHERE source.id = t.id$$,
	$$WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x$$,
	$$INSERT INTO without VALUES (1, 'c') ON CONFLICT (id) DO UPDATE SET v = excluded.v$$,
	$$UPDATE t SET v = 'b', tok = NULL$$]) AS s;
-- stale
SELECT check_outcome(s, 'ZF001') FROM unnest(ARRAY[
	$$UPDATE t SET v = 'b', tok = 10 WHERE id = 1$$,
	$$UPDATE t SET (v, tok) = ROW ('b', 10)$$,
	$$UPDATE t SET tok = tok - 1$$,
	$$INSERT INTO t VALUES (1, 'c', 9) ON CONFLICT (id) DO UPDATE SET v = excluded.v, tok = excluded.tok$$,
	$$MERGE INTO t USING source s ON s.id = t.id WHEN MATCHED THEN UPDATE SET v = s.v, tok = s.tok$$,
	$$UPDATE t SET v = source.v, tok = source.tok FROM source WHERE source.id = t.id$$,
	$$WITH x AS (UPDATE t SET v = 'b', tok = 10 RETURNING *) SELECT * FROM x$$,
	$$UPDATE simple SET v = 'b', tok = 10$$,
	$$UPDATE renamed SET version = 10$$,
	$$SELECT fencing.present('t:1', 10); DELETE FROM t$$,
	$$SELECT fencing.present('t:1', 10); MERGE INTO t USING source s ON s.id = t.id WHEN MATCHED THEN DELETE$$,
	$$SELECT fencing.present('t:1', 10); UPDATE t SET v = 'b', tok = 12$$]) AS s;
-- not a token
SELECT check_outcome(s, '22023') FROM unnest(ARRAY[
	$$UPDATE t SET tok = 0$$,
	$$UPDATE t SET tok = DEFAULT$$,
	$$UPDATE t SET tok = -1$$,
	$$UPDATE t SET tok = -9223372036854775808$$]) AS s;
SELECT * FROM finish();
