-- The syntax of templates: columns in braces, doubled braces for literal ones, everything else as it is.

\ir include/refusal.sql
SELECT plan(50);

CREATE TABLE t (id int PRIMARY KEY, a text DEFAULT 'A', "b c" text DEFAULT 'B', "Up" text DEFAULT 'U', "é" text DEFAULT 'E', ":" text DEFAULT 'C');

-- malformed
SELECT is((r).state || ' ' || ((r).hint <> '') || ' ' || ((r).message LIKE '%' || tmpl || '%'), '22023 true true', 'malformed: ' || tmpl)
FROM unnest(ARRAY['{', '}', '{}', 'x{', 'x}', '{id', 'id}', '{id}}', '{{id}', '{id}{', '{id}}x', '{id}:{}', '{a{id}}', '{id}{a}', 'x{id}{a}y',
	'{{{', '}}}', '{id}:{a}{b c}']) AS tmpl,
	 refusal(format('SELECT fencing.fence(%L, %L, %L)', 't', tmpl, 'resource')) AS r;
SELECT is_empty('SELECT * FROM fencing.fences', 'no fence was made');
SELECT is(outcome(format('SELECT fencing.fence(%L, %L, %L)', 't', '{' || repeat('x', 64) || '}', 'resource')), '22023', 'a column name that cannot be one');

-- what names come of well-formed ones: a write is accepted with the token of that name alone
CREATE FUNCTION name_is(tmpl text, name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fencing.fence('t', tmpl, 'resource');
	PERFORM set_config('fencing.tokens', '', true);
	PERFORM fencing.present(name, 5);
	RETURN is((refusal('INSERT INTO t VALUES (1); DELETE FROM t')).detail, NULL, tmpl || ' makes ' || name);
END
$$;
SELECT name_is('{id}', '1');
SELECT name_is('sku:{id}', 'sku:1');
SELECT name_is('{id}:sku', '1:sku');
SELECT name_is('constant', 'constant');
SELECT name_is(' ', ' ');
SELECT name_is('{{', '{');
SELECT name_is('}}', '}');
SELECT name_is('{{}}', '{}');
SELECT name_is('{{{{', '{{');
SELECT name_is('{{id}}', '{id}');
SELECT name_is('{{{id}}}', '{1}');
SELECT name_is('}}{id}{{', '}1{');
SELECT name_is('{id}}}', '1}');
SELECT name_is('{id}{{{a}', '1{A');
SELECT name_is('{a}-{id}-{a}', 'A-1-A');
SELECT name_is('{b c}', 'B');
SELECT name_is('{Up}', 'U');
SELECT name_is('{é}', 'E');
SELECT name_is('{:}', 'C');
SELECT name_is('%s %d 50%off', '%s %d 50%off');
SELECT name_is(E'it''s "quoted", a=b, back\\slash', E'it''s "quoted", a=b, back\\slash');
SELECT name_is(E'line\nbreak\ttab {id}\n', E'line\nbreak\ttab 1\n');
SELECT name_is('🔒:{id}', '🔒:1');
SELECT name_is(repeat('x', 511) || '{id}', repeat('x', 511) || '1');
SELECT name_is(repeat('x', 512), repeat('x', 512));
SELECT name_is(repeat('{{', 512), repeat('{', 512));

-- names that differ in case or in Unicode form only are different
SELECT fencing.fence('t', 'é:{id}', 'resource');
SELECT is(outcome(E'SELECT fencing.present(E''\u00e9:1'', 5); INSERT INTO t VALUES (1)'), 'ok', 'the same bytes');
SELECT is(outcome(E'SELECT fencing.present(E''e\u0301:2'', 5); INSERT INTO t VALUES (2)'), 'ZF002', 'another Unicode form');
SELECT is(outcome(E'SELECT fencing.present(E''\u00c9:2'', 5); INSERT INTO t VALUES (2)'), 'ZF002', 'another case');
SELECT is(outcome(E'SELECT fencing.present(E''\u00e9:2 '', 5); INSERT INTO t VALUES (2)'), 'ZF002', 'a space more');
SELECT * FROM finish();
