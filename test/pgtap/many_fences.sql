-- A session that writes more fenced tables than it keeps fences for, with tables altered in between, judges each write as the first.

\ir include/refusal.sql
SELECT plan(6);

DO $$
BEGIN
	FOR i IN 1 .. 540 LOOP
		EXECUTE format('CREATE TABLE m_%s (id int PRIMARY KEY, v text)', i);
		EXECUTE format('SELECT fencing.fence(%L)', 'm_' || i);
		EXECUTE format('INSERT INTO m_%s VALUES (1, ''a'', 5)', i);
		COMMIT;
	END LOOP;
END $$;

-- How many tables take a write with this token?
CREATE FUNCTION taking(token bigint) RETURNS TABLE (accepted int, stale int) LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	accepted := 0;
	stale := 0;
	FOR i IN 1 .. 540 LOOP
		answer := outcome(format('UPDATE m_%s SET v = ''b'', fence_token = %s WHERE id = 1', i, token));
		accepted := accepted + (answer = 'ok')::int;
		stale := stale + (answer = 'ZF001')::int;
	END LOOP;
	RETURN NEXT;
END $$;

SELECT is(taking(4)::text, '(0,540)', 'older tokens are refused in every table');
SELECT is(taking(6)::text, '(540,0)', 'newer ones taken');

-- every third fence is not valid any more, some tables are gone and one is new
DO $$
BEGIN
	FOR i IN 1 .. 540 BY 3 LOOP
		EXECUTE format('ALTER TABLE m_%s ADD COLUMN more int', i);
		EXECUTE format('ALTER TABLE m_%s DROP COLUMN v', i);
		EXECUTE format('ALTER TABLE m_%s ADD COLUMN v text', i);
		COMMIT;
	END LOOP;
END $$;
CREATE TABLE one_more (id int PRIMARY KEY, v text);
SELECT fencing.fence('one_more');
INSERT INTO one_more VALUES (1, 'a', 5);
SELECT is(outcome('UPDATE one_more SET v = ''b'', fence_token = 4'), 'ZF001', 'a new one is known');
SELECT is(taking(5)::text, '(0,540)', 'older tokens are refused after the tables were altered');
SELECT is(taking(7)::text, '(540,0)', 'newer ones taken');
SELECT is(taking(6)::text, '(0,540)', 'and what was accepted then counts');
SELECT * FROM finish();
