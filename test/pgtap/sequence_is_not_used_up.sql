-- One absurd token hurts its own resource alone: it does not drag the sequence
-- of tokens, which all resources share, to its end.
\ir include/refusal.sql
SELECT plan(5);
SELECT fencing.claim('absurd', 9223372036854775805);
SELECT is(outcome($$SELECT fencing.next_token('absurd')$$), 'ZF006', 'no token for the resource itself');
SELECT ok(fencing.next_token('other') < 1000000, 'tokens for others go on where they were');
SELECT fencing.set_mark('absurd', 0, 'a wrong token');
SELECT is(outcome($$SELECT fencing.next_token('absurd')$$), 'ok', 'the hint helps');
SELECT fencing.claim('large', 9007199254740991);
SELECT is(fencing.next_token('large'), 9007199254740992::bigint, 'a large mark is passed');
SELECT is(fencing.next_token('other'), 9007199254740993::bigint, 'and tokens still rise across all');
SELECT * FROM finish();
