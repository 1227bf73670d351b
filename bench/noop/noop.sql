-- For bench/run, which reads this file.

CREATE FUNCTION bench.noop() RETURNS trigger
LANGUAGE C AS '$libdir/noop', 'bench_noop';

CREATE FUNCTION bench.cpu_ns() RETURNS bigint
LANGUAGE C VOLATILE AS '$libdir/noop', 'bench_cpu_ns';

-- The rule of a row mark, as it is written by hand.
CREATE FUNCTION bench.guard_plpgsql() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.fence_token IS NULL OR NEW.fence_token < 1 THEN
		RAISE EXCEPTION 'write to "%" carries no token', TG_TABLE_NAME;
	END IF;
	IF NEW.fence_token < OLD.fence_token THEN
		RAISE EXCEPTION 'stale token % for row % of "%", mark %',
			NEW.fence_token, NEW.id, TG_TABLE_NAME, OLD.fence_token;
	END IF;
	RETURN NEW;
END
$$;
