-- fencing.enforcement: on, shadow or off; for superusers and whom they grant it to.  Off looks at nothing.

\ir include/refusal.sql
SELECT plan(26);

CREATE TABLE t (id int PRIMARY KEY, v text, tok bigint NOT NULL DEFAULT 0);
CREATE TABLE orders (id int, v text);
SELECT fencing.fence('t', token_column => 'tok');
SELECT fencing.fence('orders', 'order:{id}', 'resource');
INSERT INTO t VALUES (1, 'a', 10);
SELECT fencing.claim('order:1', 10);
SELECT is(current_setting('fencing.enforcement'), 'on', 'the default is on');
SELECT is((SELECT context FROM pg_settings WHERE name = 'fencing.enforcement'), 'superuser', 'it is not an ordinary user''s');

SET fencing.enforcement = off;
SELECT is(outcome('UPDATE t SET v = ''b'''), 'ok', 'off: no token is asked for');
SELECT is(outcome('UPDATE t SET tok = 3'), 'ok', 'off: the column is a column');
SELECT is((SELECT tok FROM t), 3::bigint, 'and has what was written');
SELECT is(outcome('INSERT INTO orders VALUES (1, ''x'')'), 'ok', 'off: resource marks are not asked for');
SELECT is(outcome($$SELECT fencing.present('order:1', 12); INSERT INTO orders VALUES (1, 'x')$$), 'ok', 'off: nor raised');
SELECT is(fencing.mark('order:1'), 10::bigint, 'the mark is as before');
SELECT is(outcome('INSERT INTO orders VALUES (NULL, ''x'')'), 'ok', 'off: a NULL key is no matter');
ALTER TABLE orders RENAME id TO no;
SELECT is(outcome('INSERT INTO orders VALUES (1, ''x'')'), 'ok', 'off: nor is a fence that does not fit');
ALTER TABLE orders RENAME no TO id;
SELECT is(outcome('TRUNCATE orders'), 'ok', 'off: TRUNCATE');
SELECT is(outcome('DELETE FROM t'), 'ok', 'off: DELETE');
SELECT is(outcome('INSERT INTO t VALUES (1, ''a'', 10)'), 'ok', 'off: INSERT');
SELECT is(outcome($$SELECT fencing.claim('order:1', 9)$$), 'ZF001', 'a claim is not a write of a fenced table: the rule holds');

RESET fencing.enforcement;
SELECT is(outcome('UPDATE t SET v = ''b'''), 'ZF002', 'on again');
SELECT is(outcome('SET fencing.enforcement = maybe'), '22023', 'another word is refused');
BEGIN;
SET LOCAL fencing.enforcement = off;
SELECT is(outcome('UPDATE t SET v = ''c'''), 'ok', 'for one transaction');
COMMIT;
SELECT is(outcome('UPDATE t SET v = ''d'''), 'ZF002', 'it ends with it');

CREATE ROLE enforcement_user;
GRANT ALL ON t TO enforcement_user;
SET ROLE enforcement_user;
SELECT is(outcome('SET fencing.enforcement = off'), '42501', 'an ordinary role cannot');
SELECT is(outcome('SET fencing.enforcement = shadow'), '42501', 'nor shadow it');
SELECT is(outcome('SELECT set_config(''fencing.enforcement'', ''off'', true)'), '42501', 'nor in other words');
SELECT is(outcome('UPDATE t SET v = ''e'''), 'ZF002', 'the fence stands');
RESET ROLE;
GRANT SET ON PARAMETER fencing.enforcement TO enforcement_user;
SET ROLE enforcement_user;
SELECT is(outcome('SET LOCAL fencing.enforcement = off; UPDATE t SET v = ''e'''), 'ok', 'to whom it is granted, can');
RESET ROLE;
REVOKE SET ON PARAMETER fencing.enforcement FROM enforcement_user;
SELECT is((SELECT v FROM t), 'e', 'and writes');
-- settings of ours that do not exist are not set silently
SELECT is(outcome('SET fencing.enforcment = off'), '42602', 'a misspelt setting of the extension is refused');
SELECT is((SELECT count(*) FROM pg_settings WHERE name IN ('fencing.tokens', 'fencing.deadline', 'fencing.stale_aborts') AND context = 'user'), 3::bigint,
	'the other settings are any user''s');
REVOKE ALL ON t FROM enforcement_user;
DROP ROLE enforcement_user;
SELECT * FROM finish();
