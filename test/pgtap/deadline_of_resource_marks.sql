-- The deadline holds for a transaction that carried a token for a resource mark,
-- even when the setting does not show the token any more at its end.
\ir include/refusal.sql
SELECT plan(3);
CREATE TABLE r (v text);
SELECT fencing.fence('r', 'r', mark => 'resource');
CREATE FUNCTION w() RETURNS void LANGUAGE sql SET fencing.tokens = 'r=11' AS $$INSERT INTO r VALUES ('in a function')$$;
\set ON_ERROR_STOP off
BEGIN;
SET LOCAL fencing.deadline = '2020-01-01 00:00+00';
SET LOCAL fencing.tokens = 'r=10';
INSERT INTO r VALUES ('x');
SET LOCAL fencing.tokens = '';
\o /dev/null
\set QUIET on
COMMIT;
\o
SELECT is(:'LAST_ERROR_SQLSTATE'::text, 'ZF003'::text, 'tokens reset before the commit');
BEGIN;
SET LOCAL fencing.deadline = '2020-01-01 00:00+00';
SELECT w();
COMMIT;
SELECT is(:'LAST_ERROR_SQLSTATE'::text, 'ZF003'::text, 'tokens of a function''s SET clause');
SELECT is((SELECT count(*) FROM r), 0::bigint, 'nothing was written');
SELECT * FROM finish();
