-- For the tests beside this directory: what a statement's error says.

-- All NULL when the statement succeeds.
CREATE FUNCTION refusal(statement text,
	OUT state text, OUT message text, OUT detail text, OUT hint text,
	OUT schema_name text, OUT table_name text, OUT column_name text)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS
		state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT,
		schema_name = SCHEMA_NAME, table_name = TABLE_NAME,
		column_name = COLUMN_NAME;
END
$$;

-- The SQLSTATE alone, or 'ok'.
CREATE FUNCTION outcome(statement text) RETURNS text
LANGUAGE sql AS $$ SELECT coalesce((refusal(statement)).state, 'ok') $$;
