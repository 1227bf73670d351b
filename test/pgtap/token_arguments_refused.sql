-- Arguments that fencing.present and fencing.claim refuse, in both forms: 22023, with a hint, and with nothing changed.

\ir include/refusal.sql
SELECT plan(93);

SELECT fencing.claim('a', 5);
SET fencing.tokens = 'before=1';
CREATE FUNCTION refused(arguments text, expected text DEFAULT '22023') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	f text;
	r record;
BEGIN
	FOREACH f IN ARRAY ARRAY['present', 'claim'] LOOP
		SELECT * INTO r FROM refusal(format('SELECT fencing.%I(%s)', f, arguments));
		RETURN NEXT is(r.state, expected, format('%s(%s)', f, left(arguments, 80)));
		RETURN NEXT isnt(r.hint, '', 'with a hint');
	END LOOP;
END
$$;
SELECT refused(a) FROM (VALUES
	($$NULL::text, 6$$),
	($$'a', NULL::bigint$$),
	($$'', 6$$),
	($$repeat('x', 513), 6$$),
	($$repeat('é', 257), 6$$),
	($$repeat('x', 1048576), 6$$),
	($$'a', 0$$),
	($$'a', -1$$),
	($$'a', -9223372036854775808$$),
	($$NULL::text[], ARRAY[6]$$),
	($$ARRAY['a'], NULL$$),
	($$ARRAY['a', NULL], ARRAY[6, 6]$$),
	($$ARRAY['a', 'b'], ARRAY[6, NULL]$$),
	($$ARRAY['a', ''], ARRAY[6, 6]$$),
	($$ARRAY['a', 'b'], ARRAY[6, 0]$$),
	($$ARRAY['a', 'b'], ARRAY[6]$$),
	($$ARRAY['a'], ARRAY[6, 7]$$),
	($$ARRAY['a'], '{}'$$),
	($$'{}'::text[], ARRAY[6]$$),
	($$ARRAY['a', 'b', 'a'], ARRAY[6, 6, 7]$$),
	($$ARRAY[['a', 'b'], ['c', 'd']], ARRAY[6, 6, 6, 6]$$),
	($$ARRAY['a', 'b'], ARRAY[[6, 6]]$$)) AS v(a);
SELECT is_empty($$SELECT * FROM fencing.marks WHERE resource <> 'a' OR token <> 5$$, 'no mark was raised');
SELECT results_eq('SELECT * FROM fencing.presented()', $$VALUES ('before', 1::bigint)$$, 'nothing was presented');
SELECT is(current_setting('fencing.deadline'), '', 'no deadline was set');
SELECT is(outcome($$SELECT fencing.present(repeat('é', 256), 6)$$), 'ok', 'a name of 512 bytes');
SELECT is(outcome($$SELECT fencing.claim('x', 6)$$), 'ok', 'a name of one');
SELECT * FROM finish();
