-- Shadow mode, of one fence or of the session: what would be refused passes, no mark is ever lowered by it, and what is
-- accepted raises marks as always.

\ir include/refusal.sql
SELECT plan(53);

CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
CREATE TABLE orders (id int, v text);
CREATE FUNCTION shadow_checks(label text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('fencing.tokens', '', true);
	DELETE FROM fencing.marks;
	-- row marks
	RETURN NEXT is(outcome('UPDATE t SET v = ''s'', tok = 9 WHERE id = 1'), 'ok', label || ': a stale UPDATE passes');
	RETURN NEXT is((SELECT v || tok FROM t WHERE id = 1), 's10', 'but does not lower the mark');
	RETURN NEXT is(outcome('UPDATE t SET v = ''m'' WHERE id = 1'), 'ok', 'one without a token passes');
	RETURN NEXT is((SELECT v || tok FROM t WHERE id = 1), 'm10', 'and leaves the mark');
	RETURN NEXT is(outcome('UPDATE t SET v = ''n'', tok = NULL WHERE id = 1'), 'ok', 'NULL passes');
	RETURN NEXT is((SELECT v || tok FROM t WHERE id = 1), 'n10', 'and leaves the mark');
	RETURN NEXT is(outcome('UPDATE t SET v = ''z'', tok = 0 WHERE id = 1'), 'ok', 'an invalid token passes');
	RETURN NEXT is((SELECT v || tok FROM t WHERE id = 1), 'z10', 'and leaves the mark');
	RETURN NEXT is(outcome('UPDATE t SET v = ''j'', tok = 1000000 WHERE id = 1'), 'ok', 'a token above max_step passes');
	RETURN NEXT is((SELECT v || tok FROM t WHERE id = 1), 'j10', 'and does not raise the mark');
	RETURN NEXT is(outcome('UPDATE t SET v = ''k'', tok = 11 WHERE id = 1'), 'ok', 'a token that is accepted');
	RETURN NEXT is((SELECT v || tok FROM t WHERE id = 1), 'k11', 'raises it');
	RETURN NEXT is(outcome('DELETE FROM t WHERE id = 1'), 'ok', 'a DELETE without a token passes');
	RETURN NEXT is(fencing.mark('t:1'), 11::bigint, 'and leaves the row''s mark as its tombstone');
	RETURN NEXT is(outcome('INSERT INTO t VALUES (1, ''i'', 5)'), 'ok', 'a stale INSERT passes');
	RETURN NEXT is((SELECT tok FROM t WHERE id = 1), 11::bigint, 'with the mark of the tombstone');
	RETURN NEXT is(outcome('UPDATE t SET id = 2 WHERE id = 1'), 'ok', 'a change of name passes');
	RETURN NEXT is((SELECT count(*) FROM t WHERE id = 2), 1::bigint, 'and is made');
	RETURN NEXT is(fencing.mark('t:1'), 11::bigint, 'the old name keeps its mark');
	-- resource marks
	RETURN NEXT is(outcome('SELECT fencing.claim(''order:1'', 10); INSERT INTO orders VALUES (1, ''x'')'), 'ok', 'a resource mark of 10');
	PERFORM set_config('fencing.tokens', '', true);
	RETURN NEXT is(outcome('INSERT INTO orders VALUES (1, ''x'')'), 'ok', 'a write without a token passes');
	RETURN NEXT is(outcome('SELECT fencing.present(''order:1'', 9); INSERT INTO orders VALUES (1, ''x'')'), 'ok', 'a stale one passes');
	RETURN NEXT is(outcome('SELECT fencing.present(''order:1'', 1000000); INSERT INTO orders VALUES (1, ''x'')'), 'ok', 'one above max_step passes');
	RETURN NEXT is(fencing.mark('order:1'), 10::bigint, 'the mark is as before');
	RETURN NEXT is(outcome('SELECT fencing.present(''order:1'', 11); INSERT INTO orders VALUES (1, ''x'')'), 'ok', 'a token that is accepted');
	RETURN NEXT is(fencing.mark('order:1'), 11::bigint, 'raises the mark');
END
$$;
-- of the fence
SELECT fencing.fence('t', token_column => 'tok', max_step => 100, shadow => true);
SELECT fencing.fence('orders', 'order:{id}', 'resource', max_step => 100, shadow => true);
INSERT INTO t VALUES (1, 'a', 10);
SELECT shadow_checks('fence');
-- of the session, with skip, which shadow mode does not do either
SELECT fencing.fence('t', token_column => 'tok', max_step => 100, on_stale => 'skip');
SELECT fencing.fence('orders', 'order:{id}', 'resource', max_step => 100, on_stale => 'skip');
SET fencing.enforcement = shadow;
TRUNCATE t;
DELETE FROM fencing.marks;
INSERT INTO t VALUES (1, 'a', 10);
SELECT shadow_checks('session');
-- on again
RESET fencing.enforcement;
SELECT is(outcome('UPDATE t SET v = ''m'''), 'ZF002', 'enforcement on refuses again');
SELECT * FROM finish();
