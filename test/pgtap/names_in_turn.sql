-- The name of a row is made from that row: whatever was written before it, however many tokens are presented.

\ir include/refusal.sql
SELECT plan(36);

-- rows of several resources in turn, with a refusal between
CREATE TABLE r (a int, b bigint, c smallint, v text);
SELECT fencing.fence('r', 'r:{a}:{b}:{c}', 'resource');
BEGIN;
SELECT fencing.present(ARRAY['r:0:0:0', 'r:1:0:0', 'r:-1:-1:-1', 'r:1:1:1'], ARRAY[5, 5, 5, 5]);
SELECT is(outcome(format('INSERT INTO r VALUES (%s)', v)), expected, v) FROM (VALUES
	('1, 0, 0', 'ok'), ('NULL, 0, 0', '22004'), ('0, 0, 0', 'ok'), ('0, NULL, 0', '22004'), ('0, 0, 0', 'ok'), ('1, 0, 0', 'ok'),
	('2, 0, 0', 'ZF002'), ('1, 0, 0', 'ok'), ('1, 1, 0', 'ZF002'), ('1, 1, 1', 'ok'), ('-1, -1, -1', 'ok'), ('-1, -1, NULL', '22004'),
	('-1, -1, -1', 'ok'), ('-1, -1, 0', 'ZF002')) AS w(v, expected);
COMMIT;
SELECT set_eq('SELECT resource, token FROM fencing.marks', $$VALUES ('r:0:0:0', 5::bigint), ('r:1:0:0', 5), ('r:-1:-1:-1', 5), ('r:1:1:1', 5)$$,
	'each name has its mark');

-- row marks under templates of every form, among tokens of other names
CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
INSERT INTO t VALUES (12, 'a', 0);
CREATE FUNCTION among_others(tmpl text, name text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	UPDATE t SET tok = 0;
	PERFORM fencing.fence('t', tmpl, token_column => 'tok');
	PERFORM set_config('fencing.tokens', '', true);
	PERFORM fencing.present(ARRAY['!', '1', 'a', 'sku', 'sku:', 'sku:1', 'sku:13', 'sku:2', 'sku;', 'z', '~'], ARRAY[9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
	RETURN NEXT is(outcome('UPDATE t SET v = ''b'''), 'ZF002', tmpl || ': no token among eleven');
	PERFORM fencing.present(name, 5);
	RETURN NEXT is(outcome('UPDATE t SET v = ''b'''), 'ok', 'its own among twelve');
	RETURN NEXT is((SELECT tok FROM t), 5::bigint, 'is found');
	PERFORM fencing.unfence('t');
END
$$;
SELECT among_others('{id}', '12');
SELECT among_others('sku:{id}', 'sku:12');
SELECT among_others('{id}:sku', '12:sku');
SELECT among_others('a{id}', 'a12');
SELECT among_others('~~{id}', '~~12');
SELECT among_others('{{{id}}}', '{12}');

-- generated columns and indexes see the stamped token
CREATE TABLE g (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0, twice bigint GENERATED ALWAYS AS (tok * 2) STORED, CHECK (tok < 1000));
CREATE UNIQUE INDEX ON g (tok) WHERE tok > 0;
SELECT fencing.fence('g', token_column => 'tok');
SELECT is(outcome($$SELECT fencing.present('g:1', 7); INSERT INTO g (id) VALUES (1); SELECT fencing.present('g:1', 8); UPDATE g SET v = 'x'$$), 'ok', 'stamped');
SELECT results_eq('SELECT tok, twice FROM g WHERE tok = 8', 'VALUES (8::bigint, 16::bigint)', 'a generated column is made of the stamped token');
SELECT is(outcome($$SELECT fencing.present('g:1', 1000); UPDATE g SET v = 'x'$$), '23514', 'and constraints look at it');
SELECT * FROM finish();
