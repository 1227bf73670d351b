-- MERGE: each WHEN clause carries a token only if it sets the token column itself; what another clause sets is none.

\ir include/refusal.sql
SELECT plan(22);

CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
CREATE TABLE p (id int, v text, tok bigint NOT NULL DEFAULT 0, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p_2 (tok bigint NOT NULL DEFAULT 0, gone int, v text, id int NOT NULL);
ALTER TABLE p_2 DROP gone;
ALTER TABLE p ATTACH PARTITION p_2 FOR VALUES FROM (10) TO (20);
CREATE TABLE source (id int, kind text, tok bigint);
SELECT fencing.fence('t', token_column => 'tok'), fencing.fence('p', token_column => 'tok');

CREATE FUNCTION checks(target regclass, row_id int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	two_clauses text := format('MERGE INTO %s AS m USING source s ON s.id = m.id
		WHEN MATCHED AND s.kind = ''with'' THEN UPDATE SET v = ''with'', tok = s.tok
		WHEN MATCHED AND s.kind = ''delete'' THEN DELETE
		WHEN MATCHED AND s.kind = ''without'' THEN UPDATE SET v = ''without''
		WHEN NOT MATCHED THEN INSERT (id, v, tok) VALUES (s.id, ''new'', s.tok)', target);
	found text;
BEGIN
	PERFORM set_config('fencing.tokens', '', true);
	TRUNCATE source;
	INSERT INTO source VALUES (row_id, 'with', 10);
	RETURN NEXT is(outcome(two_clauses), 'ok', target || ': a new row');
	UPDATE source SET kind = 'without';
	RETURN NEXT is(outcome(two_clauses), 'ZF002', 'a clause without the column, beside one with it');
	UPDATE source SET kind = 'with', tok = 9;
	RETURN NEXT is(outcome(two_clauses), 'ZF001', 'a stale token in the other');
	UPDATE source SET tok = 11;
	RETURN NEXT is(outcome(two_clauses), 'ok', 'a newer one');
	EXECUTE format('SELECT v || tok FROM %s', target) INTO found;
	RETURN NEXT is(found, 'with11', 'is the mark');
	UPDATE source SET kind = 'delete';
	RETURN NEXT is(outcome(two_clauses), 'ZF002', 'a DELETE has no column');
	PERFORM fencing.present(format('%s:%s', target, row_id), 12);
	UPDATE source SET kind = 'without';
	RETURN NEXT is(outcome(two_clauses), 'ok', 'a presented token is that of every clause');
	EXECUTE format('SELECT v || tok FROM %s', target) INTO found;
	RETURN NEXT is(found, 'without12', 'and is stamped');
	UPDATE source SET kind = 'delete';
	RETURN NEXT is(outcome(two_clauses), 'ok', 'also for a DELETE');
	RETURN NEXT is(fencing.mark(format('%s:%s', target, row_id)), 12::bigint, 'with its tombstone');
	RETURN NEXT is(outcome('SET LOCAL fencing.tokens = ''''; ' || two_clauses), 'ZF001', 'which an INSERT with a lower token meets');
END
$$;
SELECT checks('t', 1);
SELECT checks('p', 11);
SELECT * FROM finish();
