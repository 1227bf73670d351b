-- Whatever text fencing.deadline takes, it means the moment that timestamptz makes of it, exactly; what it does not take
-- timestamptz refuses too, or its meaning depends on when it is read.  Thousands of texts, put together and damaged at random.

\ir include/refusal.sql
SELECT plan(5);

CREATE FUNCTION one_of(VARIADIC texts text[]) RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT texts[1 + floor(random() * cardinality(texts))::int]
$$;

CREATE FUNCTION random_moment() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	t text := one_of('2030-01-31', '20300131', 'Jan 31 2030', '31 January 0044', '1/31/2030', '2030.031', 'J2462530', '294276-12-31',
			'4713-01-01', '2030-W05', 'infinity', '-infinity', 'now', 'today', 'tomorrow', 'yesterday', 'epoch', 'allballs', '2030-02-30', '')
		|| one_of(' ', ' ', 'T', '  ', '')
		|| one_of('12:00', '12:00:00.123456', '24:00', '23:59:60', '12:00 PM', '040506.7', '25:00', '12:00:00.1234567', '00:00', '')
		|| one_of(' ', '', '')
		|| one_of('UTC', '+05:30', '-12', 'Europe/Berlin', 'EST', 'Z', '+15:59:59', 'PST8PDT', '+16', 'zulu', '')
		|| one_of('', '', '', ' BC', ' AD');
	at int;
BEGIN
	WHILE random() < 0.4 LOOP
		at := 1 + floor(random() * length(t))::int;
		t := overlay(t PLACING one_of('', '0', '9', ' ', ':', '-', '+', '.', '/', 'x', 'é', ',') FROM at FOR floor(random() * 2)::int);
	END LOOP;
	RETURN t;
END $$;

-- refused, taken, or what is wrong with it
CREATE FUNCTION verdict(t text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	taken boolean := true;
	moment timestamptz;
	result text;
BEGIN
	BEGIN
		moment := t::timestamptz;
	EXCEPTION WHEN OTHERS THEN
		NULL;
	END;
	BEGIN
		PERFORM set_config('fencing.deadline', t, true);
	EXCEPTION WHEN invalid_parameter_value THEN
		taken := false;
	END;
	IF NOT taken THEN
		RETURN CASE WHEN moment IS NULL THEN 'refused'
			WHEN t ~* 'now|today|tomorrow|yesterday|epoch' THEN 'depends'
			WHEN t !~ '[0-9]' THEN 'depends'
			ELSE 'timestamptz takes it' END;
	ELSIF t = '' THEN
		RETURN 'none';
	ELSIF moment IS NULL THEN
		RETURN 'timestamptz refuses it';
	END IF;
	-- The deadline is only ever lowered, which shows where it is; none of
	-- this may reach a commit.
	BEGIN
		PERFORM fencing.present('r', 1, moment);
		result := CASE WHEN current_setting('fencing.deadline') <> t THEN 'later' ELSE 'taken' END;
		IF result = 'taken' AND isfinite(moment) THEN
			PERFORM fencing.present('r', 1, moment - interval '1 microsecond');
			result := CASE WHEN current_setting('fencing.deadline') = t THEN 'earlier' ELSE 'taken' END;
		END IF;
		RAISE EXCEPTION USING errcode = 'UNDO1', message = result;
	EXCEPTION WHEN SQLSTATE 'UNDO1' THEN
		PERFORM set_config('fencing.deadline', '', true);
		RETURN SQLERRM;
	END;
END $$;

-- a setting is checked once the library is there
SELECT * FROM fencing.presented();
SELECT setseed(0.5);
CREATE TABLE tried AS SELECT t, verdict(t) AS v FROM (SELECT random_moment() AS t FROM generate_series(1, 6000)) s;
SELECT is((SELECT string_agg(format('%L: %s', t, v), E'\n') FROM tried WHERE v IN ('later', 'earlier')), NULL, 'what is taken means the same moment');
SELECT is((SELECT string_agg(format('%L', t), E'\n') FROM tried WHERE v = 'timestamptz refuses it'), NULL, 'nothing is taken that timestamptz refuses');
SELECT is((SELECT string_agg(format('%L', t), E'\n') FROM tried WHERE v = 'timestamptz takes it'), NULL, 'what is refused is no moment, or depends on when it is read');
SELECT cmp_ok((SELECT count(*) FROM tried WHERE v = 'taken'), '>', 500::bigint, 'hundreds were taken');
SELECT cmp_ok((SELECT count(*) FROM tried WHERE v = 'refused'), '>', 500::bigint, 'and hundreds refused');
SELECT * FROM finish();
