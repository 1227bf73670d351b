-- Leases need no right on the extension's tables, and give none.

\ir include/refusal.sql
SELECT plan(16);

CREATE ROLE fencing_lease_app;
CREATE ROLE fencing_lease_admin;
GRANT EXECUTE ON FUNCTION fencing.revoke(text), fencing.purge_leases(interval) TO fencing_lease_admin;
SELECT fencing.claim('high', 1000000);

SET ROLE fencing_lease_app;
-- names that are somebody else's must not be met
CREATE TEMP TABLE issued (resource text, token bigint);
CREATE TEMP TABLE marks (resource text, token bigint);
SET search_path = pg_temp, public;
SELECT ok(fencing.next_token('high') > 1000000, 'anybody gets a token, also where the sequence has to be moved');
SELECT is(current_user::text, 'fencing_lease_app', 'and is who he was');
SELECT * FROM fencing.acquire('a', '1 hour', '0', 'h') \gset
SELECT ok(:token > 1000000, 'anybody acquires');
SELECT is((fencing.renew('a', :token, '1 hour')).token, :token::bigint, 'renews');
SELECT is(holder, 'h', 'reads') FROM fencing.leases WHERE resource = 'a';
SELECT is(fencing.release('a', :token), true, 'releases');
SELECT is(outcome($$SELECT fencing.revoke('a')$$), '42501', 'but does not revoke');
SELECT is(outcome($$SELECT fencing.purge_leases('0')$$), '42501', 'nor purge');
SELECT is(outcome($$INSERT INTO fencing.issued VALUES ('b', 1, now())$$), '42501', 'nor write a lease');
SELECT is(outcome($$UPDATE fencing.issued SET holder = 'me'$$), '42501', 'or take one');
SELECT is(outcome($$DELETE FROM fencing.issued$$), '42501', 'or delete one');
SELECT is(outcome($$SELECT resource FROM fencing.issued FOR UPDATE$$), '42501', 'or lock one');
SELECT is(outcome($$SELECT nextval('fencing.token_sequence')$$), '42501', 'or touch the sequence');
SELECT is((SELECT count(*) FROM pg_temp.issued) + (SELECT count(*) FROM pg_temp.marks), 0::bigint, 'nothing went to his own tables');

RESET ROLE;
SET ROLE fencing_lease_admin;
SET search_path = public;
SELECT ok(fencing.revoke('a') > :token, 'who was granted it revokes');
SELECT is(fencing.purge_leases('0'), 0::bigint, 'and purges');
RESET ROLE;
DROP OWNED BY fencing_lease_app, fencing_lease_admin;
DROP ROLE fencing_lease_app, fencing_lease_admin;
SELECT * FROM finish();
