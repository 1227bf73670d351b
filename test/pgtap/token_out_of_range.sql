-- ZF006 token_out_of_range: a jump above max_step, a token that this database never issued, no token left.

\ir include/refusal.sql
SELECT plan(49);

CREATE SCHEMA shop;
CREATE TABLE shop.stock (id int PRIMARY KEY, qty int);
CREATE TABLE shop.orders (id int, note text);
SELECT fencing.fence('shop.stock', 'sku:{id}', max_step => 10);
SELECT fencing.fence('shop.orders', 'order:{id}', 'resource', max_step => 10);
CREATE FUNCTION write(name text, token bigint, statement text) RETURNS text
LANGUAGE sql AS $$ SELECT outcome(format('SELECT fencing.present(%L, %s); %s', name, token, statement)) $$;

-- max_step, row marks
SELECT is(outcome('INSERT INTO shop.stock VALUES (1, 1, 11)'), 'ZF006', 'the first token of a row may not be above max_step');
SELECT is(outcome('INSERT INTO shop.stock VALUES (1, 1, 10)'), 'ok', 'but may be max_step');
SELECT is(outcome('UPDATE shop.stock SET fence_token = 21'), 'ZF006', 'a jump of max_step + 1');
SELECT is(outcome('UPDATE shop.stock SET fence_token = 9223372036854775807'), 'ZF006', 'the largest bigint');
SELECT is(write('sku:1', 21, 'DELETE FROM shop.stock'), 'ZF006', 'for a delete too');
SELECT is((SELECT fence_token FROM shop.stock), 10::bigint, 'nothing happened');
SELECT is(outcome('UPDATE shop.stock SET fence_token = 20'), 'ok', 'a jump of max_step');
SELECT is(outcome('UPDATE shop.stock SET fence_token = 20'), 'ok', 'no jump');
SELECT is(write('sku:1', 30, 'DELETE FROM shop.stock'), 'ok', 'a delete within max_step');
SELECT is(outcome('INSERT INTO shop.stock VALUES (1, 1, 41)'), 'ZF006', 'the jump is measured from the tombstone');
SELECT is(outcome('INSERT INTO shop.stock VALUES (1, 1, 40)'), 'ok', 'and accepted up to max_step');

-- max_step, resource marks
SELECT is(write('order:1', 11, $$INSERT INTO shop.orders VALUES (1, 'x')$$), 'ZF006', 'the first token of a resource may not be above max_step');
SELECT is(fencing.mark('order:1'), 0::bigint, 'and leaves no mark');
SELECT is(write('order:1', 10, $$INSERT INTO shop.orders VALUES (1, 'x')$$), 'ok', 'but may be max_step');
SELECT is(write('order:1', 21, $$INSERT INTO shop.orders VALUES (1, 'x')$$), 'ZF006', 'a jump of max_step + 1');
SELECT is(fencing.mark('order:1'), 10::bigint, 'raises no mark');
SELECT is(write('order:1', 20, $$INSERT INTO shop.orders VALUES (1, 'x')$$), 'ok', 'a jump of max_step');
SELECT is(fencing.mark('order:1'), 20::bigint, 'raises it');

-- a max_step that the difference of two tokens could not overflow
SELECT fencing.fence('shop.stock', 'sku:{id}', max_step => 9223372036854775807);
SELECT is(outcome('UPDATE shop.stock SET fence_token = 9223372036854775807'), 'ok', 'the largest max_step accepts the largest token');

-- what the error says
SELECT fencing.fence('shop.stock', 'sku:{id}', token_column => 'tok', max_step => 5);
UPDATE shop.stock SET tok = 4;
SELECT unnest(ARRAY[
	is((r).state, 'ZF006', 'max_step'),
	is((r).message, 'token for resource "sku:1" is too far above the mark', 'message'),
	is((r).detail, 'Resource "sku:1": token 10, mark 4, max_step 5.', 'DETAIL has the numbers'),
	isnt((r).hint, '', 'HINT'),
	is((r).schema_name, 'shop', 'schema'), is((r).table_name, 'stock', 'table'), is((r).column_name, 'tok', 'column')])
FROM refusal('UPDATE shop.stock SET tok = 10') AS r;
SELECT unnest(ARRAY[
	is((r).state, 'ZF006', 'max_step of a resource mark'),
	is((r).schema_name, 'shop', 'schema'), is((r).table_name, 'orders', 'table'), is((r).column_name, '', 'no column')])
FROM refusal($$SELECT fencing.present('order:1', 90); INSERT INTO shop.orders VALUES (1, 'x')$$) AS r;

-- issuer => 'database'
CREATE TABLE shop.jobs (id int PRIMARY KEY, qty int);
CREATE TABLE shop.tasks (id int, note text);
SELECT fencing.fence('shop.jobs', 'job:{id}', issuer => 'database');
SELECT fencing.fence('shop.tasks', 'task:{id}', 'resource', issuer => 'database');
SELECT is(outcome('INSERT INTO shop.jobs VALUES (1, 1, 1)'), 'ZF006', 'before any token was issued');
SELECT is(write('task:1', 1, $$INSERT INTO shop.tasks VALUES (1, 'x')$$), 'ZF006', 'by a resource mark too');
SELECT fencing.next_token('job:1') AS job \gset
SELECT is(outcome('INSERT INTO shop.jobs VALUES (1, 1, ' || :job + 1 || ')'), 'ZF006', 'one above the last token issued');
SELECT is(outcome('INSERT INTO shop.jobs VALUES (1, 1, ' || :job || ')'), 'ok', 'an issued token');
SELECT fencing.next_token('task:1') AS task \gset
SELECT is(write('task:1', :task + 1, $$INSERT INTO shop.tasks VALUES (1, 'x')$$), 'ZF006', 'one above the last token issued');
SELECT is(fencing.mark('task:1'), 0::bigint, 'leaves no mark');
SELECT is(write('task:1', :task, $$INSERT INTO shop.tasks VALUES (1, 'x')$$), 'ok', 'an issued token');
SELECT is(write('task:1', 9223372036854775807, $$INSERT INTO shop.tasks VALUES (1, 'x')$$), 'ZF006', 'the largest bigint locks nobody out');
SELECT is(write('task:1', fencing.next_token('task:1'), $$INSERT INTO shop.tasks VALUES (1, 'x')$$), 'ok', 'the next holder writes');
SELECT fencing.next_token('task:1') AS task \gset
SELECT unnest(ARRAY[
	is((r).state, 'ZF006', 'never issued'),
	is((r).message, 'token for resource "task:1" was never issued', 'message'),
	matches((r).detail, 'Resource "task:1": token 9007199254740993, .*\m' || :task || '\M', 'DETAIL has the token and the last one issued'),
	isnt((r).hint, '', 'HINT'),
	is((r).table_name, 'tasks', 'table')])
FROM refusal($$SELECT fencing.present('task:1', 9007199254740993); INSERT INTO shop.tasks VALUES (1, 'x')$$) AS r;

-- a mark that somebody raised past the issuer by a claim is no licence for its token
SELECT fencing.claim('task:2', 9007199254740993);
SELECT is(write('task:2', 9007199254740993, $$INSERT INTO shop.tasks VALUES (2, 'x')$$), 'ZF006', 'equal to the mark, but never issued');
BEGIN;
SELECT fencing.claim('task:3', 9007199254740993);
SELECT is(outcome($$INSERT INTO shop.tasks VALUES (3, 'x')$$), 'ZF006', 'nor within the transaction of the claim');
ROLLBACK;

-- max_step within the transaction of a claim
BEGIN;
SELECT fencing.claim('order:3', 100);
SELECT is(outcome($$INSERT INTO shop.orders VALUES (3, 'x')$$), 'ok', 'max_step measures from the mark, which claim has raised');
ROLLBACK;
SELECT is((SELECT count(*) FROM shop.tasks), 2::bigint, 'refused rows are not there');

-- no token left
SELECT fencing.claim('full', 9223372036854775807);
SELECT is(outcome($$SELECT fencing.next_token('full')$$), 'ZF006', 'next_token above the largest bigint');
SELECT * FROM finish();
