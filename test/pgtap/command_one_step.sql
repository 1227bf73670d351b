-- A command in one transaction: the first caller has the effect, every later one its outcome.

\ir include/refusal.sql
SELECT plan(46);

SELECT is(pg_get_function_result('fencing.begin_command(text,text,jsonb,text,bigint,interval,boolean)'::regprocedure),
	'fencing.command', 'begin_command answers with what is known of the command');
SELECT is(pg_get_function_identity_arguments('fencing.finish_command(text,text,jsonb,bigint)'::regprocedure),
	'scope text, key text, outcome jsonb, token bigint', 'the documented arguments of finish_command');

CREATE TABLE effect (n int);

-- the first
BEGIN;
SELECT * FROM fencing.begin_command('shop', 'k', '{"a": 1}') \gset
SELECT is(:'state'::text, 'new', 'the first caller is told that it is new');
SELECT ok(:token >= 1, 'and gets a token');
SELECT is(:attempts, 1, 'at the first attempt');
INSERT INTO effect VALUES (1);
SELECT is((fencing.find_command('shop', 'k')).state, NULL, 'nothing is known before it is finished');
SELECT is(fencing.finish_command('shop', 'k', '{"paid": true}', :token), true, 'it is finished');
COMMIT;

-- the others
SELECT state AS s, outcome AS o, token AS t, provider_key AS p, attempts AS a FROM fencing.begin_command('shop', 'k', '{"a": 1}') \gset
SELECT is(:'s'::text, 'done', 'a duplicate is told that it is done');
SELECT is(:'o'::jsonb, '{"paid": true}'::jsonb, 'and the outcome as it was stored');
SELECT is(:'p'::uuid, :'provider_key'::uuid, 'the provider key is the same');
SELECT is((fencing.begin_command('shop', 'k')).state, 'done', 'without a request nothing is compared');
SELECT is((fencing.find_command('shop', 'k', '{"a": 1}')).outcome, '{"paid": true}'::jsonb, 'find_command tells the same');
SELECT is((fencing.begin_command('shop', 'k', nowait => true)).state, 'done', 'so does the form that does not wait');
SELECT is((SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND pid = pg_backend_pid()), 0::bigint, 'and holds nothing');
BEGIN;
SELECT is((fencing.begin_command('shop', 'k')).state, 'done', 'in a transaction');
SELECT is((SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND pid = pg_backend_pid()), 0::bigint, 'it keeps no lock either');
COMMIT;

-- scopes and keys
SELECT is((fencing.find_command('other shop', 'k')).state, NULL, 'another scope knows nothing of it');
SELECT is((fencing.find_command('shop', 'K')).state, NULL, 'nor another key');
SELECT is((fencing.find_command('sho', 'pk')).state, NULL, 'nor one that is put together alike');
BEGIN;
SELECT token AS t2, provider_key AS p2 FROM fencing.begin_command('other shop', 'k', '{"b": 2}') \gset
SELECT isnt(:'p2'::uuid, :'provider_key'::uuid, 'it has another provider key');
SELECT fencing.finish_command('other shop', 'k', '1', :t2);
COMMIT;
SELECT is((fencing.find_command('shop', 'k')).outcome, '{"paid": true}'::jsonb, 'and leaves the first one alone');

-- finished again
SELECT is(fencing.finish_command('shop', 'k', '{"paid": true}', :token), false, 'finished again with the same outcome it says so');
SELECT is(outcome(format($$SELECT fencing.finish_command('shop', 'k', '{"paid": false}', %s)$$, :token)), 'ZF007', 'with another one it is refused');
SELECT is(outcome(format($$SELECT fencing.finish_command('shop', 'k', '{"paid": true}', %s)$$, :token + 1)), 'ZF001', 'and with a token that is not its');
SELECT is(outcome($$SELECT fencing.finish_command('shop', 'unknown', '1', 1)$$), '42704', 'what was never begun is not finished');

-- rolled back
BEGIN;
SELECT token AS lost FROM fencing.begin_command('shop', 'r') \gset
INSERT INTO effect VALUES (2);
SELECT fencing.finish_command('shop', 'r', '1', :lost);
ROLLBACK;
SELECT is((fencing.find_command('shop', 'r')).state, NULL, 'a command that was rolled back is not known');
BEGIN;
SELECT state AS s, token AS t FROM fencing.begin_command('shop', 'r') \gset
SELECT is(:'s'::text, 'new', 'the next caller is the first');
SELECT ok(:t > :lost, 'with a larger token');
ROLLBACK;
SELECT is((SELECT count(*) FROM effect), 1::bigint, 'its effect is gone too');

-- savepoints
BEGIN;
SAVEPOINT s;
SELECT token AS t FROM fencing.begin_command('shop', 's') \gset
SELECT fencing.finish_command('shop', 's', '1', :t);
ROLLBACK TO s;
SELECT token AS t, state AS s FROM fencing.begin_command('shop', 's') \gset
SELECT is(:'s'::text, 'new', 'begun and finished in a savepoint that is rolled back, it is new again');
SAVEPOINT s2;
SELECT fencing.finish_command('shop', 's', '1', :t);
SELECT is((fencing.begin_command('shop', 's')).state, 'done', 'finished in a savepoint it is done');
ROLLBACK TO s2;
SELECT is(outcome($$SELECT fencing.begin_command('shop', 's')$$), 'ZF008', 'and after its rollback in progress');
SAVEPOINT s3;
SELECT fencing.finish_command('shop', 's', '3', :t);
RELEASE s3;
COMMIT;
SELECT is((fencing.find_command('shop', 's')).outcome, '3'::jsonb, 'what was released counts');

-- not finished
BEGIN;
SELECT state AS s FROM fencing.begin_command('shop', 'u') \gset
SELECT is(outcome($$SELECT fencing.begin_command('shop', 'u')$$), 'ZF008', 'begun twice in a transaction is in progress');
SELECT is(outcome($$SELECT fencing.begin_command('shop', 'u', nowait => true)$$), 'ZF008', 'in either form');
ROLLBACK;
\set ON_ERROR_STOP 0
SELECT fencing.begin_command('shop', 'u');
SELECT is(:'LAST_ERROR_SQLSTATE'::text, '55000', 'a commit that leaves it unfinished is refused');
\set ON_ERROR_STOP 1
SELECT is((fencing.find_command('shop', 'u')).state, NULL, 'and nothing is known of it');
SELECT is(outcome($$DO 'BEGIN PERFORM fencing.begin_command(''shop'', ''u''); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN END'$$),
	'ok', 'one whose beginning was rolled back is none');

-- outcomes are anything
BEGIN;
SELECT token AS t FROM fencing.begin_command('shop', 'null') \gset
SELECT is(outcome(format($$SELECT fencing.finish_command('shop', 'null', NULL, %s)$$, :t)), '22023', 'an outcome is not NULL');
SELECT fencing.finish_command('shop', 'null', 'null', :t);
COMMIT;
SELECT is((fencing.begin_command('shop', 'null')).outcome, 'null'::jsonb, 'but may be null');
BEGIN;
SELECT token AS t FROM fencing.begin_command('shop', 'large') \gset
SELECT fencing.finish_command('shop', 'large', to_jsonb(repeat(md5('x'), 200000)), :t);
COMMIT;
SELECT is(length((fencing.begin_command('shop', 'large')).outcome #>> '{}'), 6400000, 'or large');
BEGIN;
SELECT token AS t FROM fencing.begin_command('shop', 'failed') \gset
SELECT fencing.finish_command('shop', 'failed', '{"error": "card declined"}', :t);
COMMIT;
SELECT is((fencing.begin_command('shop', 'failed')).outcome ->> 'error', 'card declined', 'or a failure');

-- isolation levels
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM fencing.commands;
SELECT is((fencing.begin_command('shop', 'k')).state, 'done', 'in REPEATABLE READ');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT token AS t FROM fencing.begin_command('shop', 'serializable') \gset
SELECT is(fencing.finish_command('shop', 'serializable', '1', :t), true, 'in SERIALIZABLE');
COMMIT;
-- the rows
SELECT is(count(*), 0::bigint, 'no request is stored') FROM fencing.command_records WHERE request IS NOT NULL AND length(request) <> 32;
SELECT is(count(*), 0::bigint, 'no command is pending') FROM fencing.commands WHERE state <> 'done' OR age IS NOT NULL OR overdue;
SELECT * FROM finish();
