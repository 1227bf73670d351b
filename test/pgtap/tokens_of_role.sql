-- Tokens that a role, a database or a connection brings along count like tokens set in the session.

\ir include/refusal.sql
\set owner :USER
CREATE TABLE stock (id int PRIMARY KEY, qty int);
SELECT fencing.fence('stock', 'sku:{id}');
INSERT INTO stock VALUES (1, 10, 5);
CREATE ROLE tokens_of_role LOGIN;
GRANT ALL ON stock TO tokens_of_role;
ALTER ROLE tokens_of_role SET fencing.tokens = 'sku:1=6';
\c - tokens_of_role
CREATE TEMP TABLE results AS SELECT 'role' AS source, outcome('UPDATE stock SET qty = 1') AS got, (SELECT fence_token FROM stock) AS mark;
SELECT string_agg(source || ' ' || got, ',') AS of_role FROM results \gset
\c -reuse-previous=on "options='-c fencing.tokens=sku:1=7'"
SELECT outcome('UPDATE stock SET qty = 2') AS of_connection \gset
SELECT token AS connection_token FROM fencing.presented() \gset
\c -reuse-previous=on "options='-c fencing.tokens=sku:1='"
SET client_min_messages = error;
SELECT outcome('UPDATE stock SET qty = 3') AS of_malformed \gset
\c -reuse-previous=on "options=''"
SELECT token AS role_token FROM fencing.presented() \gset
SELECT outcome('UPDATE stock SET qty = 4') AS of_older \gset
\c - :owner
SELECT plan(7);
SELECT is(:'of_role'::text, 'role ok', 'a token of ALTER ROLE … SET');
SELECT is(:'of_connection'::text, 'ok', 'a token of the connection''s options');
SELECT is(:connection_token, 7, 'goes before that of the role');
SELECT is(:'of_malformed'::text, 'ZF002', 'a malformed one is dropped, and counts as none');
SELECT is(:role_token, 6, 'the role''s token is there again without it');
SELECT is(:'of_older'::text, 'ZF001', 'and stale by now');
SELECT results_eq('SELECT qty, fence_token FROM stock', 'VALUES (2, 7::bigint)', 'what was accepted is written');
DROP OWNED BY tokens_of_role;
DROP ROLE tokens_of_role;
SELECT * FROM finish();
