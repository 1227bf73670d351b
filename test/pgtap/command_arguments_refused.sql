-- What the functions of commands do not take: each refusal has its SQLSTATE, and leaves nothing behind.

\ir include/refusal.sql
SELECT plan(55);

SELECT is(outcome(format(f, quote_nullable(n))), '22023', format('%s with %s', f, left(quote_nullable(n), 8)))
FROM unnest(ARRAY['SELECT fencing.begin_command(%s, ''k'')', 'SELECT fencing.begin_command(''s'', %s)',
	'SELECT fencing.finish_command(%s, ''k'', ''1'', 1)', 'SELECT fencing.finish_command(''s'', %s, ''1'', 1)',
	'SELECT fencing.find_command(%s, ''k'')', 'SELECT fencing.find_command(''s'', %s)']) AS f,
	unnest(ARRAY[NULL, '', repeat('x', 513), repeat('é', 257)]) AS n;
SELECT is(outcome(format('SELECT fencing.begin_command(''s'', ''k'', takeover => %L)', t)), '22023', format('takeover %s', t))
FROM unnest(ARRAY['0', '-1 s', '0.4 us', '300 years', '100 years 1 us']) AS t;
SELECT is(outcome('SELECT fencing.begin_command(''s'', ''k'', nowait => NULL)'), '22023', 'nowait NULL');
SELECT is(outcome(format('SELECT fencing.begin_command(''s'', ''k'', resource => %s, resource_token => %s)', quote_nullable(r), coalesce(t::text, 'NULL'))), '22023',
	format('resource %s with token %s', quote_nullable(r), t))
FROM (VALUES ('r', NULL::bigint), (NULL, 1), ('', 1), ('r', 0), ('r', -1)) AS v(r, t);
SELECT is(outcome(format('SELECT fencing.finish_command(''s'', ''k'', ''1'', %s)', t)), '22023', format('finish with token %s', t))
FROM unnest(ARRAY['NULL', '0', '-1']) AS t;
SELECT is(outcome('SELECT fencing.finish_command(''s'', ''k'', NULL, 1)'), '22023', 'finish without an outcome');
SELECT is(outcome(format('SELECT fencing.purge_commands(%s)', quote_nullable(t))), '22023', format('purge %s', quote_nullable(t)))
FROM unnest(ARRAY[NULL, '-1 s', '300 years']) AS t;
SELECT is(outcome(format('SELECT fencing.purge_commands(''0'', %s)', t)), '22023', format('purge at most %s', t)) FROM unnest(ARRAY['NULL', '0', '-1']) AS t;
SELECT is(count(*), 0::bigint, 'nothing came of it') FROM fencing.command_records;
SELECT is((fencing.find_command(repeat('é', 256), repeat('x', 512))).state, NULL, '512 bytes will do');
SELECT is(outcome($$SELECT fencing.begin_command('s', 'k', '"\u0000"')$$), '22P05', 'text that jsonb does not take is refused by jsonb');

-- nothing to write in
BEGIN READ ONLY;
SELECT is(outcome(q), '25006', q || ' in a read-only transaction') FROM unnest(ARRAY[
	$$SELECT fencing.begin_command('s', 'k')$$, $$SELECT fencing.begin_command(NULL, 'k')$$, $$SELECT fencing.finish_command('s', 'k', '1', 1)$$,
	$$SELECT fencing.purge_commands('0')$$]) AS q;
SELECT is((fencing.find_command('s', 'k')).state, NULL, 'looking is allowed');
COMMIT;

-- what is said
SELECT is((r).message, 'command "k" of scope "s" does not exist', 'the message names key and scope') FROM refusal($$SELECT fencing.finish_command('s', 'k', '1', 1)$$) AS r;
SELECT matches((r).hint, 'begin_command', 'the hint says what to do') FROM refusal($$SELECT fencing.finish_command('s', 'k', '1', 1)$$) AS r;
SELECT * FROM finish();
