-- A fence on a partitioned table covers all its partitions, now and later, whatever the order of their columns.

\ir include/refusal.sql
SELECT plan(50);

CREATE TABLE p (region text, id int, v text, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE p_eu PARTITION OF p FOR VALUES IN ('eu');
-- one whose columns are in another order, with a hole among them
CREATE TABLE p_us (v text, gone int, id int NOT NULL, extra int, region text NOT NULL);
ALTER TABLE p_us DROP gone, DROP extra;
ALTER TABLE p ATTACH PARTITION p_us FOR VALUES IN ('us');
-- and one with partitions of its own
CREATE TABLE p_as PARTITION OF p FOR VALUES IN ('as') PARTITION BY RANGE (id);
CREATE TABLE p_as_1 PARTITION OF p_as FOR VALUES FROM (0) TO (100);
SELECT fencing.fence('p', token_column => 'tok');
SELECT is((SELECT count(*) FROM fencing.fences), 1::bigint, 'one fence');
-- made and attached after the fence
CREATE TABLE p_af PARTITION OF p FOR VALUES IN ('af');
CREATE TABLE p_as_2 PARTITION OF p_as FOR VALUES FROM (100) TO (200);
CREATE TABLE p_oc (tok bigint NOT NULL DEFAULT 0, v text, id int NOT NULL, region text NOT NULL);
ALTER TABLE p ATTACH PARTITION p_oc FOR VALUES IN ('oc');

CREATE TABLE places (partition text, region text, id int);
INSERT INTO places VALUES ('p_eu', 'eu', 1), ('p_us', 'us', 1), ('p_as_1', 'as', 1), ('p_af', 'af', 1), ('p_as_2', 'as', 101), ('p_oc', 'oc', 1);
CREATE FUNCTION checks(partition text, r text, i int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	name text := format('p:%s:%s', r, i);
	rec record;
BEGIN
	PERFORM set_config('fencing.tokens', '', true);
	RETURN NEXT is(outcome(format('INSERT INTO p (region, id, v, tok) VALUES (%L, %s, ''a'', 10)', r, i)), 'ok', partition || ': insert');
	RETURN NEXT is(outcome(format('UPDATE p SET v = ''b'' WHERE (region, id) = (%L, %s)', r, i)) || outcome(format('UPDATE %I SET v = ''b''', partition)),
		'ZF002ZF002', 'no token, by way of the table and of the partition');
	RETURN NEXT is(outcome(format('UPDATE p SET v = ''b'', tok = 9 WHERE (region, id) = (%L, %s)', r, i)) || outcome(format('UPDATE %I SET tok = 9', partition)),
		'ZF001ZF001', 'a stale one');
	SELECT * INTO rec FROM refusal(format('UPDATE %I SET tok = 9', partition));
	RETURN NEXT is(rec.message || rec.table_name || rec.column_name, format('stale token for resource "%s"%stok', name, partition),
		'the error names resource, partition and column');
	PERFORM fencing.present(name, 11);
	RETURN NEXT is(outcome(format('UPDATE %I SET v = ''c''', partition)), 'ok', 'a presented one');
	RETURN NEXT is((SELECT v || tok FROM p WHERE region = r AND id = i), 'c11', 'is stamped');
	DELETE FROM p WHERE region = r AND id = i;
	PERFORM set_config('fencing.tokens', '', true);
	RETURN NEXT is(fencing.mark(name), 11::bigint, 'a delete leaves a tombstone');
	RETURN NEXT is(outcome(format('INSERT INTO %I (region, id, tok) VALUES (%L, %s, 10)', partition, r, i)), 'ZF001', 'which guards direct inserts');
END
$$;
SELECT checks(partition, region, id) FROM places;
SELECT is(outcome('INSERT INTO p (region, id, tok) SELECT region, id + 10, 5 FROM places'), 'ok', 'one statement over all partitions');
SELECT * FROM finish();
