-- The extension's own objects: in its schema, commented, with their search_path pinned where they run as the owner.

SELECT plan(14);

SELECT is_empty($$SELECT pg_describe_object(classid, objid, 0) FROM pg_depend
	WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'fencing') AND deptype = 'e'
	AND classid IN ('pg_proc'::regclass, 'pg_class'::regclass)
	AND (pg_identify_object(classid, objid, 0)).schema IS DISTINCT FROM 'fencing'$$, 'every table and function is in the schema fencing');
SELECT is_empty($$SELECT pg_describe_object(classid, objid, 0) FROM pg_depend
	WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'fencing') AND deptype = 'e'
	AND classid IN ('pg_proc'::regclass, 'pg_class'::regclass)
	AND obj_description(objid, CASE classid WHEN 'pg_proc'::regclass THEN 'pg_proc' ELSE 'pg_class' END) IS NULL$$,
	'every table and function has a comment');
SELECT is_empty($$SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'fencing'::regnamespace AND prosecdef
	AND (proconfig IS NULL OR NOT 'search_path=pg_catalog, pg_temp' = ANY (proconfig))$$, 'every definer function has its search_path pinned');
SELECT set_eq($$SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'fencing'::regnamespace
	AND NOT has_function_privilege('public', oid, 'EXECUTE')$$,
	$$VALUES ('fencing.set_mark(text,bigint,text)'), ('fencing.compact(interval)'), ('fencing.revoke(text)'), ('fencing.purge_leases(interval)'),
	('fencing.purge_commands(interval,bigint)'), ('fencing.stat_reset(regclass)'), ('fencing.refusals()')$$,
	'the administrator''s functions and the refusals alone are not for everybody');
SELECT set_eq($$SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'fencing'::regnamespace AND relkind IN ('r', 'v')
	AND NOT has_table_privilege('public', oid, 'SELECT')$$, $$VALUES ('fencing.recent_refusals'), ('fencing.commands'), ('fencing.command_records')$$,
	'every table and view but the refusals and the commands can be read by everybody');
SELECT is_empty($$SELECT a.attrelid::regclass, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
	WHERE c.relnamespace = 'fencing'::regnamespace AND c.relkind = 'v' AND c.relname NOT IN ('fences', 'leases', 'commands') AND a.attnum > 0
	AND col_description(a.attrelid, a.attnum) IS NULL$$, 'every column of the views for watching has a comment');
SELECT is_empty($$SELECT oid::regclass FROM pg_class WHERE relnamespace = 'fencing'::regnamespace AND relkind IN ('r', 'v', 'S')
	AND CASE relkind WHEN 'S' THEN has_sequence_privilege('public', oid, 'UPDATE, USAGE')
		ELSE has_table_privilege('public', oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER, REFERENCES') END$$, 'and written by nobody');
SELECT is(trusted, true, 'the extension is trusted') FROM pg_available_extension_versions WHERE name = 'fencing' AND installed;
SELECT is(relocatable, false, 'it is not relocatable') FROM pg_available_extension_versions WHERE name = 'fencing' AND installed;
SELECT is(requires, NULL, 'it depends on nothing') FROM pg_available_extension_versions WHERE name = 'fencing' AND installed;
SELECT set_eq($$SELECT c::regclass::text FROM pg_extension, unnest(extconfig) c WHERE extname = 'fencing'$$,
	$$VALUES ('fencing.marks'), ('fencing.issued'), ('fencing.command_records'), ('fencing.token_sequence')$$, 'its tables and its sequence are dumped');
SELECT fencing.presented();
SELECT set_eq($$SELECT name FROM pg_settings WHERE name LIKE 'fencing.%'$$,
	$$VALUES ('fencing.tokens'), ('fencing.deadline'), ('fencing.stale_aborts'), ('fencing.enforcement'),
	('fencing.track'), ('fencing.stat_max_fences'), ('fencing.recent_max_refusals')$$, 'its settings');
SELECT is_empty($$SELECT name FROM pg_settings WHERE name LIKE 'fencing.%' AND short_desc = ''$$, 'each of which says what it is for');
SELECT throws_ok($$CREATE EXTENSION fencing SCHEMA public$$, '42710', NULL, 'there is one in a database');
SELECT * FROM finish();
