-- With an empty search_path, as dumps set it, everything works: writes, tombstones, functions, declarations, names.

\ir include/refusal.sql
SELECT plan(14);

CREATE SCHEMA "Fence X";
CREATE TYPE "Fence X".state AS ENUM ('new', 'old');
CREATE TABLE "Fence X"."T" (id int, s "Fence X".state, v text, PRIMARY KEY (id, s));
CREATE TABLE "Fence X".orders (id int, s "Fence X".state, v text);
-- the statements run with the empty path, the test functions with their own
CREATE FUNCTION without_path(statement text) RETURNS text LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
	EXECUTE statement;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END
$$;
SELECT is(without_path($$SELECT fencing.fence('"Fence X"."T"')$$), 'ok', 'fence with a row mark');
SELECT is(without_path($$SELECT fencing.fence('"Fence X".orders', 'order:{id}:{s}', 'resource')$$), 'ok', 'with a resource mark');
SELECT is(without_path($$INSERT INTO "Fence X"."T" VALUES (1, 'new', 'x', 5)$$), 'ok', 'INSERT');
SELECT is(without_path($$SELECT fencing.present('T:1:new', 6); UPDATE "Fence X"."T" SET v = 'y'; DELETE FROM "Fence X"."T"$$), 'ok', 'UPDATE and DELETE');
SELECT is(fencing.mark('T:1:new'), 6::bigint, 'the tombstone');
SELECT is(without_path($$INSERT INTO "Fence X"."T" VALUES (1, 'new', 'x', 5)$$), 'ZF001 stale token for resource "T:1:new"', 'is found');
SELECT is(without_path($$SELECT fencing.claim('order:1:old', 7); INSERT INTO "Fence X".orders VALUES (1, 'old', 'x')$$), 'ok', 'claim and a resource mark');
SELECT is(without_path($$SELECT fencing.next_token('n')$$), 'ok', 'next_token');
SELECT is(without_path($$SELECT fencing.mark('n'), fencing.presented(), * FROM fencing.fences$$), 'ok', 'mark, presented, fences');
SELECT is(without_path($$SELECT fencing.set_mark('order:1:old', 1, 'x')$$), 'ok', 'set_mark');
SELECT is(without_path($$SELECT fencing.set_mark('T:1:new', 0, 'x'), fencing.set_mark('order:1:old', 0, 'x'), fencing.compact('0')$$), 'ok', 'compact');
SELECT is(without_path($$REINDEX TABLE fencing.marks$$), 'ok', 'REINDEX of the marks');
SELECT is(without_path($$SELECT fencing.unfence('"Fence X"."T"')$$), 'ok', 'unfence');
SELECT is((SELECT count(*) FROM fencing.fences), 1::bigint, 'one fence is left');
SELECT * FROM finish();
