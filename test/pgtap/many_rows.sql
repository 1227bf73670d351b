-- One stale row among a thousand: in error mode nothing is written and the error names the row; in skip mode all the
-- others are.

\ir include/refusal.sql
SELECT plan(14);

CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
SELECT fencing.fence('t', token_column => 'tok');
INSERT INTO t SELECT g, 'a', CASE g WHEN 500 THEN 50 ELSE 5 END FROM generate_series(1, 1000) g;
SELECT is((r).state || ' ' || (r).message, 'ZF001 stale token for resource "t:500"', 'the error names the row''s resource')
FROM refusal('UPDATE t SET v = ''x'', tok = 10') AS r;
SELECT is((SELECT count(*) FROM t WHERE v = 'a' AND tok = CASE id WHEN 500 THEN 50 ELSE 5 END), 1000::bigint, 'nothing is changed');
-- a savepoint for each row, as batches of clients do
CREATE FUNCTION one_by_one() RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	done int := 0;
BEGIN
	FOR i IN 1 .. 1000 LOOP
		BEGIN
			UPDATE t SET v = 'x', tok = 10 WHERE id = i;
			done := done + 1;
		EXCEPTION WHEN SQLSTATE 'ZF001' THEN
			NULL;
		END;
	END LOOP;
	RETURN done;
END
$$;
SELECT is(one_by_one(), 999, 'row by row, 999 are changed');
SELECT is((SELECT count(*) FROM t WHERE v = 'x' AND tok = 10), 999::bigint, 'and are as told');
SELECT results_eq('SELECT v, tok FROM t WHERE id = 500', $$VALUES ('a'::text, 50::bigint)$$, 'the stale one is as it was');
-- skip
SELECT fencing.fence('t', token_column => 'tok', on_stale => 'skip');
WITH x AS (UPDATE t SET v = 'y', tok = 11 RETURNING id) SELECT count(*) AS changed, count(*) FILTER (WHERE id = 500) AS stale FROM x \gset
SELECT is(:changed, 999, 'skip: RETURNING says 999');
SELECT is(:stale, 0, 'without the stale one');
UPDATE t SET v = 'z', tok = 12;
SELECT is(:ROW_COUNT, 999, 'so does the command tag');
SELECT results_eq('SELECT v, tok FROM t WHERE id = 500', $$VALUES ('a'::text, 50::bigint)$$, 'the stale one is as it was');
-- presented tokens for a thousand rows
SELECT fencing.fence('t', token_column => 'tok');
BEGIN;
SELECT fencing.present((SELECT array_agg('t:' || g) FROM generate_series(1, 1000) g), (SELECT array_agg(100 + g::bigint) FROM generate_series(1, 1000) g));
UPDATE t SET v = 'p';
COMMIT;
SELECT is((SELECT count(*) FROM t WHERE tok = 100 + id AND v = 'p'), 1000::bigint, 'each row is stamped with its own token');
BEGIN;
SELECT fencing.present((SELECT array_agg('t:' || g) FROM generate_series(1, 1000) g), (SELECT array_agg(1100 - g::bigint) FROM generate_series(1, 1000) g));
SELECT is((r).message, 'stale token for resource "t:501"', 'one for which the presented token is too low is found') FROM refusal('UPDATE t SET v = ''q'' WHERE id <= 501') AS r;
SELECT is(outcome('UPDATE t SET v = ''q'' WHERE id <= 500'), 'ok', 'the others are accepted');
COMMIT;
BEGIN;
SELECT fencing.present((SELECT array_agg('t:' || g) FROM generate_series(1, 1000) g), (SELECT array_agg(5000::bigint) FROM generate_series(1, 1000) g));
DELETE FROM t;
COMMIT;
SELECT is((SELECT count(*) FROM fencing.marks WHERE token = 5000), 1000::bigint, 'a thousand tombstones');
SELECT is(outcome('INSERT INTO t SELECT g, ''b'', CASE g WHEN 777 THEN 4999 ELSE 5000 END FROM generate_series(1, 1000) g'), 'ZF001', 'one of which stops a bulk load that is stale in one row');
SELECT * FROM finish();
