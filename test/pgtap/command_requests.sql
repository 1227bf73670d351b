-- One key, one request: requests are the same exactly if they are equal as jsonb.

\ir include/refusal.sql
CREATE FUNCTION same(a jsonb, b jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	key text := gen_random_uuid();
	c record;
BEGIN
	SELECT * INTO c FROM fencing.begin_command('requests', key, a);
	PERFORM fencing.finish_command('requests', key, '1', c.token);
	SELECT * INTO c FROM fencing.begin_command('requests', key, b);
	RETURN c.state;
EXCEPTION WHEN SQLSTATE 'ZF007' THEN
	RETURN 'another';
END $$;
SELECT plan(4 + (24 * 24));

-- every pair of these
CREATE TABLE r (n serial, j jsonb);
INSERT INTO r (j) VALUES
	('{"a": 1, "b": 2}'), ('{"b":2,"a":1}'), ('{"a": 1.0, "b": 2}'), ('{"a": 1, "b": 3}'), ('{"a": "1", "b": 2}'),
	('9007199254740993'), ('9007199254740992'), ('"\u00e9"'), ('"e\u0301"'), ('[[1], 2]'), ('[[1, 2]]'), ('[1, 2]'), ('[2, 1]'),
	('null'), ('[null]'), ('{}'), ('[]'), ('1E3'), ('1000.00'),
	('true'), ('false'), ('[true]'), ('[false]'), ('"t"');
SELECT is(same(a.j, b.j), CASE WHEN a.j = b.j THEN 'done' ELSE 'another' END, format('%s and %s', a.j, b.j))
FROM r a, r b ORDER BY a.n, b.n;
SELECT is(same(NULL, '1'), 'done', 'a request that was not given is like every other');
SELECT is(same('1', NULL), 'done', 'so is one that is not given');
SELECT is(same(NULL, NULL), 'done', 'on both sides');
SELECT is(same(to_jsonb(repeat('x', 5000000)), to_jsonb(repeat('x', 4999999) || 'y')), 'another', 'at the end of 5 MB');
SELECT * FROM finish();
