-- fencing.unfence: removes the fence of a table and of its partitions; the token column and the marks stay.

\ir include/refusal.sql
SELECT plan(23);

SELECT is(pg_get_function_arguments('fencing.unfence(regclass)'::regprocedure), 'relation regclass', 'the documented argument');
SELECT function_returns('fencing', 'unfence', ARRAY['regclass'], 'void');
SELECT isnt(obj_description('fencing.unfence(regclass)'::regprocedure, 'pg_proc'), NULL, 'unfence has a comment');

CREATE TABLE stock (id int PRIMARY KEY, qty int);
SELECT fencing.fence('stock');
INSERT INTO stock VALUES (1, 10, 7), (2, 10, 7);
SELECT is(outcome($$SELECT fencing.present('stock:2', 8); DELETE FROM stock WHERE id = 2$$), 'ok', 'a row leaves a tombstone');
SELECT is(outcome('UPDATE stock SET qty = 1'), 'ZF002', 'before: fenced');
SELECT lives_ok($$SELECT fencing.unfence('stock')$$, 'unfence');
SELECT is((SELECT count(*) FROM fencing.fences), 0::bigint, 'the fence is gone from the view');
SELECT is((SELECT count(*) FROM pg_trigger WHERE tgrelid = 'stock'::regclass), 0::bigint, 'no trigger is left');
SELECT is((SELECT fence_token FROM stock), 7::bigint, 'the token column and its marks stay');
SELECT is(fencing.mark('stock:2'), 8::bigint, 'tombstones stay');
SELECT is(outcome('UPDATE stock SET qty = 1'), 'ok', 'writes need no token any more');
SELECT is(outcome('TRUNCATE stock'), 'ok', 'nor does TRUNCATE');

SELECT is((refusal($$SELECT fencing.unfence('stock')$$)).state, '42704', 'a table that is not fenced is refused');
SELECT throws_ok($$SELECT fencing.unfence('stock')$$, '42704', 'table "stock" is not fenced', 'and named');
SELECT is((refusal($$SELECT fencing.unfence(NULL)$$)).state, '22023', 'NULL is refused');

-- partitions
CREATE TABLE log (id int, day int, PRIMARY KEY (id, day)) PARTITION BY LIST (day);
CREATE TABLE log_1 PARTITION OF log FOR VALUES IN (1);
SELECT fencing.fence('log');
SELECT is((refusal($$SELECT fencing.unfence('log_1')$$)).state, '42809', 'the fence of a partition belongs to its parent');
SELECT is(outcome($$INSERT INTO log VALUES (1, 1, 5); UPDATE log_1 SET day = 1$$), 'ZF002', 'the partition stays fenced');
SELECT lives_ok($$SELECT fencing.unfence('log')$$, 'unfence of a partitioned table');
SELECT is((SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('log'::regclass, 'log_1'::regclass)), 0::bigint,
	'no trigger is left on table or partition');

-- rights
CREATE ROLE unfence_stranger;
SELECT fencing.fence('stock');
SET ROLE unfence_stranger;
SELECT is(outcome($$SELECT fencing.unfence('public.stock')$$), '42501', 'only the owner removes a fence');
RESET ROLE;
SELECT is(outcome('INSERT INTO stock VALUES (2, 10)'), 'ZF002', 'after the refusal the table is fenced as before');

BEGIN READ ONLY;
SELECT is(outcome($$SELECT fencing.unfence('stock')$$), '25006', 'a read-only transaction cannot remove one');
COMMIT;

-- broken fences must be removable
ALTER TABLE stock DROP COLUMN fence_token;
SELECT is(outcome($$SELECT fencing.unfence('stock')$$), 'ok', 'a broken fence can be removed');
DROP ROLE unfence_stranger;
SELECT * FROM finish();
