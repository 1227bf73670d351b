-- A partition that is detached is not fenced any more; one that is attached is, whatever was written to it meanwhile.

\ir include/refusal.sql
SELECT plan(15);

CREATE TABLE p (id int, v text, tok bigint NOT NULL DEFAULT 0, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (100);
SELECT fencing.fence('p', token_column => 'tok');
INSERT INTO p VALUES (1, 'a', 50);
SELECT is(outcome('UPDATE p_1 SET v = ''b'''), 'ZF002', 'a partition is fenced');
ALTER TABLE p DETACH PARTITION p_1;
SELECT is(outcome('UPDATE p_1 SET v = ''b'', tok = 7'), 'ok', 'detached it is not');
SELECT is(outcome('DELETE FROM p_1 WHERE id = 99'), 'ok', 'nor its deletes');
SELECT is(outcome('TRUNCATE p_1'), 'ok', 'nor TRUNCATE');
INSERT INTO p_1 VALUES (1, 'b', 7);
ALTER TABLE p ATTACH PARTITION p_1 FOR VALUES FROM (0) TO (100);
SELECT is(outcome('UPDATE p_1 SET v = ''c'''), 'ZF002', 'attached again it is');
SELECT is(outcome('UPDATE p_1 SET v = ''c'', tok = 6'), 'ZF001', 'with the marks that its rows have');
SELECT is(outcome('UPDATE p SET v = ''c'', tok = 7'), 'ok', 'by way of the table too');
-- a table with a fence of its own, attached to a fenced one
CREATE TABLE alone (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
SELECT fencing.fence('alone', 'alone:{id}', token_column => 'tok');
SELECT isnt(outcome('ALTER TABLE p ATTACH PARTITION alone FOR VALUES FROM (100) TO (200)'), 'ok', 'a table with a fence of its own cannot be attached');
SELECT fencing.unfence('alone');
SELECT is(outcome('ALTER TABLE p ATTACH PARTITION alone FOR VALUES FROM (100) TO (200)'), 'ok', 'without it can');
SELECT is(outcome('INSERT INTO alone VALUES (100, ''x'', 5); UPDATE alone SET tok = 4'), 'ZF001', 'and has the fence of the table');
-- a table with a fence of its own becomes a partition of an unfenced table
CREATE TABLE unfenced (id int NOT NULL, v text, tok bigint NOT NULL DEFAULT 0) PARTITION BY RANGE (id);
CREATE TABLE member (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
SELECT fencing.fence('member', token_column => 'tok');
ALTER TABLE unfenced ATTACH PARTITION member FOR VALUES FROM (0) TO (10);
SELECT is(outcome('INSERT INTO unfenced VALUES (1, ''x'', 5); UPDATE unfenced SET tok = 4'), 'ZF001', 'a partition''s own fence holds for writes through the table');
SELECT is(outcome($$SELECT fencing.fence('unfenced', 'member:{id}', 'resource')$$), '42809', 'the table cannot be fenced over it');
SELECT fencing.unfence('member');
SELECT is(outcome($$SELECT fencing.fence('unfenced', 'member:{id}', 'resource')$$), 'ok', 'but without it');
SELECT is(outcome($$INSERT INTO member VALUES (2, 'x', 1)$$), 'ZF002', 'and then covers it');
SELECT is((SELECT count(*) FROM fencing.fences), 2::bigint, 'two fences are left');
SELECT * FROM finish();
