-- A command in two steps, for an effect outside of the database: accepted is not completed, a late worker is stale.

\ir include/refusal.sql
SELECT plan(36);
CREATE PROCEDURE wait_until(t timestamptz) LANGUAGE plpgsql AS $$
BEGIN WHILE clock_timestamp() < t LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;

-- accepted
SELECT * FROM fencing.begin_command('pay', 'k', '{"amount": 5}', takeover => '200 ms') \gset
SELECT is(:'state'::text, 'new', 'the first caller is told that it is new');
SELECT unnest(ARRAY[is(b.state, 'pending', 'a second one that it is pending'), is(b.outcome, NULL, 'without an outcome'), is(b.token, NULL, 'or a token'),
	is(b.provider_key, :'provider_key'::uuid, 'with the same provider key')])
FROM fencing.begin_command('pay', 'k', '{"amount": 5}', takeover => '1 hour') AS b;
SELECT is((fencing.begin_command('pay', 'k')).state, 'pending', 'also when it would do it in one step');
SELECT is((fencing.find_command('pay', 'k')).state, 'pending', 'find_command tells the same');
SELECT is(outcome($$SELECT fencing.begin_command('pay', 'k', '{"amount": 6}')$$), 'ZF007', 'another request is refused');
SELECT results_eq($$SELECT state, overdue, attempts, finished_at IS NULL FROM fencing.commands WHERE key = 'k'$$,
	$$VALUES ('pending' COLLATE "C", false, 1, true)$$, 'the view shows it');
SELECT ok(age BETWEEN interval '0' AND interval '10 s', 'and its age') FROM fencing.commands WHERE key = 'k';
SELECT takeover_at FROM fencing.commands WHERE key = 'k' \gset

-- taken over
CALL wait_until(:'takeover_at');
SELECT is(overdue, true, 'then it is overdue') FROM fencing.commands WHERE key = 'k';
SELECT is((fencing.find_command('pay', 'k')).state, 'pending', 'looking takes nothing over');
SELECT is(outcome($$SELECT fencing.begin_command('pay', 'k', '{"amount": 6}', takeover => '1 hour')$$), 'ZF007', 'nor does another request');
SELECT state AS s, token AS t, provider_key AS p, attempts AS a FROM fencing.begin_command('pay', 'k', '{"amount": 5}', takeover => '1 hour') \gset
SELECT is(:'s'::text, 'new', 'the next caller takes it over');
SELECT ok(:t > :token, 'with a larger token');
SELECT is(:'p'::uuid, :'provider_key'::uuid, 'and the same provider key');
SELECT is(:a, 2, 'as the second attempt');
SELECT is(outcome(format($$SELECT fencing.finish_command('pay', 'k', '"first"', %s)$$, :token)), 'ZF001', 'the first worker''s finish is stale');
SELECT is((fencing.begin_command('pay', 'k', takeover => '1 hour')).state, 'pending', 'it is not taken over twice');
SELECT is(fencing.finish_command('pay', 'k', '"second"', :t), true, 'the second worker''s is not');
SELECT is((fencing.begin_command('pay', 'k', takeover => '1 us')).outcome, '"second"'::jsonb, 'its outcome is the outcome');
SELECT is(outcome(format($$SELECT fencing.finish_command('pay', 'k', '"second"', %s)$$, :token)), 'ZF001', 'the first worker''s token stays stale');
SELECT is(fencing.finish_command('pay', 'k', '"second"', :t), false, 'a replayed finish says that it was');
SELECT is(outcome(format($$SELECT fencing.finish_command('pay', 'k', '"third"', %s)$$, :t)), 'ZF007', 'and does not change it');

-- taken over in one step
SELECT token AS first, takeover_at FROM fencing.begin_command('pay', 'one', takeover => '50 ms'), LATERAL (SELECT clock_timestamp() + interval '60 ms' AS takeover_at) AS x \gset
CALL wait_until(:'takeover_at');
BEGIN;
SELECT state AS s, token AS t FROM fencing.begin_command('pay', 'one') \gset
SELECT is(:'s'::text, 'new', 'a caller in one step takes over too');
SELECT is(outcome($$SELECT fencing.begin_command('pay', 'one')$$), 'ZF008', 'and is at it');
SELECT is(fencing.finish_command('pay', 'one', '1', :t), true, 'it finishes');
COMMIT;
SELECT is(outcome(format($$SELECT fencing.finish_command('pay', 'one', '1', %s)$$, :first)), 'ZF001', 'and the first worker is stale');
SELECT token AS first, takeover_at FROM fencing.begin_command('pay', 'undone', takeover => '50 ms'), LATERAL (SELECT clock_timestamp() + interval '60 ms' AS takeover_at) AS x \gset
CALL wait_until(:'takeover_at');
BEGIN; SELECT fencing.begin_command('pay', 'undone'); ROLLBACK;
SELECT is(fencing.finish_command('pay', 'undone', '1', :first), true, 'a takeover that was rolled back leaves the first worker in its right');

-- the same transaction
BEGIN;
SELECT token AS t FROM fencing.begin_command('pay', 'both', takeover => '1 hour') \gset
SELECT is(fencing.finish_command('pay', 'both', '1', :t), true, 'both steps in one transaction');
COMMIT;
SELECT is((fencing.find_command('pay', 'both')).state, 'done', 'are done');
BEGIN; SELECT fencing.begin_command('pay', 'gone', takeover => '1 hour'); ROLLBACK;
SELECT is((fencing.find_command('pay', 'gone')).state, NULL, 'a first step that was rolled back is not known');

-- forgotten
SELECT fencing.begin_command('pay', 'open', takeover => '1 hour');
SELECT fencing.begin_command('pay', 'late', takeover => '1 us');
SELECT is(fencing.purge_commands('1 hour'), 0::bigint, 'nothing is an hour old');
SELECT is(fencing.purge_commands('0', 3), 3::bigint, 'so many at a time');
SELECT is(fencing.purge_commands('0'), 1::bigint, 'until all that is done is gone');
SELECT is(ARRAY(SELECT key FROM fencing.commands ORDER BY key), ARRAY['late', 'open'], 'pending ones stay, overdue ones too');
SELECT * FROM finish();
