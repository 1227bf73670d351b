-- fencing 1.0 to 1.1

\echo Use "ALTER EXTENSION fencing UPDATE TO '1.1'" to load this file. \quit

-- ---------------------------------------------------------------------------
-- What there was
-- ---------------------------------------------------------------------------

ALTER TABLE fencing.marks ADD COLUMN raised_by text;

COMMENT ON COLUMN fencing.marks.raised_by IS
	'application_name of the session that set the mark last';

ALTER TABLE fencing.issued
	ADD COLUMN lease_token bigint,
	ADD COLUMN holder text,
	ADD COLUMN acquired_at timestamptz,
	ADD COLUMN expires_at timestamptz,
	ADD COLUMN pid integer,
	ADD COLUMN application_name text,
	ADD COLUMN origin bigint;

COMMENT ON TABLE fencing.issued IS
	'The last token that this database has handed out for each resource, and its lease (see view fencing.leases). Written by the functions of the extension alone.';
COMMENT ON COLUMN fencing.issued.token IS
	'The last token handed out, with a lease or by fencing.next_token';
COMMENT ON COLUMN fencing.issued.lease_token IS
	'Token of the lease, NULL if there is none or it was released';
COMMENT ON COLUMN fencing.issued.origin IS
	'The database that granted the lease: a copy of the row elsewhere is no lease';

-- its arguments are others now
DROP VIEW fencing.fences;
DROP FUNCTION fencing.declaration(oid, regclass);

CREATE FUNCTION fencing.declaration(
	arguments bytea,
	OUT resource text,
	OUT mark text,
	OUT token_column name,
	OUT accept_column boolean,
	OUT on_stale text,
	OUT strict boolean,
	OUT max_step bigint,
	OUT issuer text,
	OUT tombstones boolean,
	OUT shadow boolean,
	OUT columns name[])
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fencing_read_declaration';

COMMENT ON FUNCTION fencing.declaration(bytea) IS
	'what the arguments of a guard trigger (pg_trigger.tgargs) say; NULLs if they cannot be read';

CREATE VIEW fencing.fences AS
SELECT t.tgrelid::pg_catalog.regclass AS relation,
	   d.resource, d.mark, d.token_column, d.accept_column, d.on_stale,
	   d.strict, d.max_step, d.issuer, d.tombstones, d.shadow,
	   t.tgenabled OPERATOR(pg_catalog.<>) 'D' AS enabled
FROM pg_catalog.pg_trigger AS t
	 CROSS JOIN LATERAL fencing.declaration(t.tgargs) AS d
WHERE t.tgfoid OPERATOR(pg_catalog.=) 'fencing.guard()'::pg_catalog.regprocedure
  AND t.tgparentid OPERATOR(pg_catalog.=) 0::pg_catalog.oid;

COMMENT ON VIEW fencing.fences IS
	'Every fence of this database, read from the catalog';

GRANT SELECT ON fencing.fences TO PUBLIC;

-- it does not need the owner's rights any more
CREATE OR REPLACE FUNCTION fencing.next_token(resource text)
RETURNS bigint
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_next_token';

-- ---------------------------------------------------------------------------
-- Tokens
-- ---------------------------------------------------------------------------

CREATE FUNCTION fencing.next_token(resource text, above bigint)
RETURNS bigint
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_next_token_above';

COMMENT ON FUNCTION fencing.next_token(text, bigint) IS
	'a new token for a resource, larger than every one before it and than a number from elsewhere';

-- ---------------------------------------------------------------------------
-- Leases
-- ---------------------------------------------------------------------------

CREATE TYPE fencing.lease AS (
	resource    text,
	token       bigint,
	holder      text,
	acquired_at timestamptz,
	expires_at  timestamptz);

COMMENT ON TYPE fencing.lease IS
	'a claim on a resource: token to fence writes with, holder, and the time at which it ends';

CREATE FUNCTION fencing.acquire(
	resource text,
	ttl      interval DEFAULT '30 s',
	wait     interval DEFAULT '0',
	holder   text     DEFAULT NULL)
RETURNS fencing.lease
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_acquire';

COMMENT ON FUNCTION fencing.acquire(text, interval, interval, text) IS
	'acquire a lease on a resource, waiting for it if need be; fails with 55P03 when it is busy';

CREATE FUNCTION fencing.try_acquire(
	resource text,
	ttl      interval DEFAULT '30 s',
	holder   text     DEFAULT NULL)
RETURNS fencing.lease
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_try_acquire';

COMMENT ON FUNCTION fencing.try_acquire(text, interval, text) IS
	'acquire a lease on a resource; NULL when it is busy';

CREATE FUNCTION fencing.renew(
	resource text,
	token    bigint,
	ttl      interval DEFAULT '30 s')
RETURNS fencing.lease
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_renew';

COMMENT ON FUNCTION fencing.renew(text, bigint, interval) IS
	'give a lease that is held a new time to live; NULL with a warning when it is not held';

CREATE FUNCTION fencing.release(resource text, token bigint)
RETURNS boolean
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_release';

COMMENT ON FUNCTION fencing.release(text, bigint) IS
	'end a lease at the commit; false with a warning when it is not held';

CREATE FUNCTION fencing.revoke(resource text)
RETURNS bigint
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_revoke';

COMMENT ON FUNCTION fencing.revoke(text) IS
	'end a lease, whoever holds it, and raise the mark above its token; returns the mark';

CREATE FUNCTION fencing.lease_origin()
RETURNS bigint
LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fencing_lease_origin';

COMMENT ON FUNCTION fencing.lease_origin() IS
	'this database, as the rows of fencing.issued name it whose leases it granted';

CREATE VIEW fencing.leases AS
SELECT i.resource, i.holder, i.lease_token AS token, i.acquired_at,
	   i.expires_at,
	   i.expires_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp() AS expired,
	   i.pid, i.application_name
FROM fencing.issued AS i
WHERE i.lease_token IS NOT NULL
  AND i.origin OPERATOR(pg_catalog.=) fencing.lease_origin();

COMMENT ON VIEW fencing.leases IS
	'Leases that were granted here and neither released nor revoked, the expired ones included';
COMMENT ON COLUMN fencing.leases.pid IS
	'Process that acquired the lease; it may be gone, or serve somebody else by now';
COMMENT ON COLUMN fencing.leases.application_name IS
	'application_name of the session that acquired the lease';

CREATE FUNCTION fencing.purge_leases(older_than interval)
RETURNS bigint
LANGUAGE C VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'fencing_purge_leases';

COMMENT ON FUNCTION fencing.purge_leases(interval) IS
	'forget resources without a mark whose last lease ended longer ago than this; returns how many';

-- ---------------------------------------------------------------------------
-- Commands
-- ---------------------------------------------------------------------------

CREATE TABLE fencing.command_records (
	id          uuid NOT NULL,
	token       bigint NOT NULL,
	changed_at  timestamptz NOT NULL,
	scope       text COLLATE "C" NOT NULL,
	key         text COLLATE "C" NOT NULL,
	state       text COLLATE "C" NOT NULL,
	request     bytea,
	outcome     jsonb,
	attempts    integer NOT NULL,
	begun_at    timestamptz NOT NULL,
	takeover_at timestamptz,
	CONSTRAINT command_records_pkey PRIMARY KEY (id)
);

COMMENT ON TABLE fencing.command_records IS
	'Commands and their outcomes. Written by the functions of the extension alone.';
COMMENT ON COLUMN fencing.command_records.id IS
	'Made of scope and key; the key to send to an external provider';
COMMENT ON COLUMN fencing.command_records.request IS
	'SHA-256 of the request, NULL if none was given';

SELECT pg_catalog.pg_extension_config_dump('fencing.command_records', '');

CREATE TYPE fencing.command AS (
	state        text,
	outcome      jsonb,
	token        bigint,
	provider_key uuid,
	attempts     integer);

COMMENT ON TYPE fencing.command IS
	'what is known of a command: its state (''new'', ''pending'', ''done''), its outcome, the token of who handles it';

CREATE FUNCTION fencing.begin_command(
	scope          text,
	key            text,
	request        jsonb    DEFAULT NULL,
	resource       text     DEFAULT NULL,
	resource_token bigint   DEFAULT NULL,
	takeover       interval DEFAULT NULL,
	nowait         boolean  DEFAULT false)
RETURNS fencing.command
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_begin_command';

COMMENT ON FUNCTION fencing.begin_command(text, text, jsonb, text, bigint, interval, boolean) IS
	'begin a command, or learn that it was handled: state ''new'', ''pending'' or ''done'' with the outcome';

CREATE FUNCTION fencing.finish_command(
	scope text, key text, outcome jsonb, token bigint)
RETURNS boolean
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_finish_command';

COMMENT ON FUNCTION fencing.finish_command(text, text, jsonb, bigint) IS
	'record the outcome of a command that was begun with this token; false if it was recorded before';

CREATE FUNCTION fencing.find_command(
	scope          text,
	key            text,
	request        jsonb DEFAULT NULL)
RETURNS fencing.command
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_find_command';

COMMENT ON FUNCTION fencing.find_command(text, text, jsonb) IS
	'what is known of a command, without beginning it; all NULL if nothing is';

CREATE VIEW fencing.commands AS
SELECT c.scope, c.key, c.state,
	   CASE WHEN c.state OPERATOR(pg_catalog.=) 'pending'
			THEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) c.begun_at
	   END AS age,
	   c.state OPERATOR(pg_catalog.=) 'pending' AND
			c.takeover_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp() AS overdue,
	   c.attempts, c.token,
	   CASE WHEN c.state OPERATOR(pg_catalog.=) 'done' THEN c.changed_at END AS finished_at,
	   c.begun_at, c.takeover_at
FROM fencing.command_records AS c;

COMMENT ON VIEW fencing.commands IS
	'Commands that were begun in two steps or finished, without requests and outcomes';
COMMENT ON COLUMN fencing.commands.age IS
	'For how long a pending command has been accepted and not finished';
COMMENT ON COLUMN fencing.commands.overdue IS
	'A pending command whose worker is late: the next begin_command takes it over';

CREATE FUNCTION fencing.purge_commands(
	older_than interval, at_most bigint DEFAULT 10000)
RETURNS bigint
LANGUAGE C VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'fencing_purge_commands';

COMMENT ON FUNCTION fencing.purge_commands(interval, bigint) IS
	'forget commands that were finished longer ago than this; returns how many';

-- ---------------------------------------------------------------------------
-- Watching
-- ---------------------------------------------------------------------------

-- The rest of this section is long queries, which read better with plain
-- operators: nothing but the system's own is found now.
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION fencing.stat_available()
RETURNS boolean
LANGUAGE C VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'fencing_stat_available';

COMMENT ON FUNCTION fencing.stat_available() IS
	'whether this server can keep statistics; a notice says why not, once a session';

CREATE FUNCTION fencing.stat_counters(
	OUT relation oid,
	OUT accepted bigint,
	OUT stale bigint,
	OUT missing bigint,
	OUT invalid bigint,
	OUT skipped bigint,
	OUT shadowed bigint,
	OUT last_refusal timestamptz,
	OUT since timestamptz)
RETURNS SETOF record
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 100
AS 'MODULE_PATHNAME', 'fencing_stat_counters';

COMMENT ON FUNCTION fencing.stat_counters() IS
	'counters of this database as they are kept, for the views stat_fences and stat_leases';

CREATE FUNCTION fencing.stat_memory(
	OUT available boolean,
	OUT fences integer,
	OUT max_fences integer,
	OUT evicted bigint,
	OUT max_refusals integer)
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_stat_memory';

COMMENT ON FUNCTION fencing.stat_memory() IS
	'how much of the memory for statistics is in use, by all databases';

CREATE FUNCTION fencing.stat_reset(relation regclass DEFAULT NULL)
RETURNS void
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_stat_reset';

COMMENT ON FUNCTION fencing.stat_reset(regclass) IS
	'set the counters of a fence to 0; without a fence, all of this database, and forget its recent refusals';

CREATE FUNCTION fencing.refusals(
	OUT at timestamptz,
	OUT outcome text,
	OUT sqlstate text,
	OUT relation oid,
	OUT resource text,
	OUT token bigint,
	OUT mark bigint,
	OUT pid integer,
	OUT role oid,
	OUT application_name text,
	OUT client_addr text,
	OUT raised_by text,
	OUT raised_at timestamptz)
RETURNS SETOF record
LANGUAGE C VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'fencing_refusals';

COMMENT ON FUNCTION fencing.refusals() IS
	'the last refusals in this database, newest first, for view recent_refusals';

-- Counters are kept under the table that was declared fenced; number 0 has the
-- claims, which write no table, and 1 the leases.
CREATE VIEW fencing.stat_fences AS
WITH fences AS (
	SELECT t.tgrelid AS relation
	FROM pg_trigger AS t
	WHERE t.tgfoid = 'fencing.guard()'::regprocedure AND t.tgparentid = 0
	UNION
	SELECT 0
)
SELECT NULLIF(f.relation, 0)::regclass AS relation,
	   COALESCE(c.accepted, 0) AS accepted,
	   COALESCE(c.stale, 0) AS stale,
	   COALESCE(c.missing, 0) AS missing,
	   COALESCE(c.invalid, 0) AS invalid,
	   COALESCE(c.skipped, 0) AS skipped,
	   COALESCE(c.shadowed, 0) AS shadowed,
	   date_trunc('second', c.last_refusal) AS last_refusal
FROM fences AS f LEFT JOIN fencing.stat_counters() AS c ON c.relation = f.relation
WHERE (SELECT fencing.stat_available())
  AND (f.relation <> 0 OR c.relation IS NOT NULL);

COMMENT ON VIEW fencing.stat_fences IS
	'What each fence has decided since the server started, or since the last fencing.stat_reset';
COMMENT ON COLUMN fencing.stat_fences.relation IS
	'The table that was declared fenced; NULL for the calls of fencing.claim';
COMMENT ON COLUMN fencing.stat_fences.accepted IS
	'Row writes accepted, in transactions that were committed';
COMMENT ON COLUMN fencing.stat_fences.stale IS
	'Writes refused because their token was stale (ZF001)';
COMMENT ON COLUMN fencing.stat_fences.missing IS
	'Writes refused because they carried no token (ZF002)';
COMMENT ON COLUMN fencing.stat_fences.invalid IS
	'Writes refused because of a token that cannot be right: above max_step, never issued, below 1 (ZF006, 22023)';
COMMENT ON COLUMN fencing.stat_fences.skipped IS
	'Stale rows left alone by on_stale => ''skip''';
COMMENT ON COLUMN fencing.stat_fences.shadowed IS
	'Writes let pass in shadow mode that would have been refused';
COMMENT ON COLUMN fencing.stat_fences.last_refusal IS
	'When a write was last refused, skipped, or let pass in shadow mode';

CREATE VIEW fencing.stat_leases AS
SELECT COALESCE(sum(c.accepted), 0)::bigint AS acquired,
	   COALESCE(sum(c.stale), 0)::bigint AS busy,
	   COALESCE(sum(c.missing), 0)::bigint AS expired,
	   COALESCE(sum(c.invalid), 0)::bigint AS lost,
	   COALESCE(sum(c.skipped), 0)::float8 / 1000000 AS wait_seconds,
	   date_trunc('second', min(c.since)) AS since
FROM fencing.stat_counters() AS c
WHERE c.relation = 1
HAVING (SELECT fencing.stat_available());

COMMENT ON VIEW fencing.stat_leases IS
	'What the leases of this database (fencing.acquire and its kin) have come to';
COMMENT ON COLUMN fencing.stat_leases.acquired IS
	'Leases granted, in transactions that were committed';
COMMENT ON COLUMN fencing.stat_leases.busy IS
	'Leases not granted because somebody else held them';
COMMENT ON COLUMN fencing.stat_leases.expired IS
	'Leases taken over because they had lapsed unreleased';
COMMENT ON COLUMN fencing.stat_leases.lost IS
	'Calls of renew and release by somebody who did not hold the lease any more (ZF004)';
COMMENT ON COLUMN fencing.stat_leases.wait_seconds IS
	'Time spent waiting for leases, whether they were granted or not';
COMMENT ON COLUMN fencing.stat_leases.since IS
	'Since when this has been counted; NULL if nothing has been';

CREATE VIEW fencing.recent_refusals AS
SELECT date_trunc('milliseconds', r.at) AS at, r.outcome, r.sqlstate,
	   r.relation::regclass AS relation, r.resource, r.token, r.mark,
	   r.pid, pg_get_userbyid(r.role) AS role, r.application_name,
	   r.client_addr::inet AS client_addr, r.raised_by,
	   date_trunc('milliseconds', r.raised_at) AS raised_at
FROM fencing.refusals() AS r;

COMMENT ON VIEW fencing.recent_refusals IS
	'The last refusals in this database, newest first. Resource names are the application''s data: for pg_read_all_stats, so for pg_monitor';
COMMENT ON COLUMN fencing.recent_refusals.at IS 'When, by the server''s clock';
COMMENT ON COLUMN fencing.recent_refusals.outcome IS
	'refused: an error. skipped: the row was left alone; shadowed: the write passed; of these two, the first in each minute for a table and application';
COMMENT ON COLUMN fencing.recent_refusals.sqlstate IS 'SQLSTATE of the refusal';
COMMENT ON COLUMN fencing.recent_refusals.relation IS
	'The table written to, a partition for example; NULL for a claim, or at commit';
COMMENT ON COLUMN fencing.recent_refusals.resource IS 'Name of the resource';
COMMENT ON COLUMN fencing.recent_refusals.token IS 'The token carried, NULL if none';
COMMENT ON COLUMN fencing.recent_refusals.mark IS 'The mark that it was compared with';
COMMENT ON COLUMN fencing.recent_refusals.pid IS 'Process of the session';
COMMENT ON COLUMN fencing.recent_refusals.role IS 'Role that the session belongs to';
COMMENT ON COLUMN fencing.recent_refusals.application_name IS
	'application_name of the session';
COMMENT ON COLUMN fencing.recent_refusals.client_addr IS
	'Address of the client, NULL if it came by a socket of the machine';
COMMENT ON COLUMN fencing.recent_refusals.raised_by IS
	'application_name of whoever had raised the mark, where that is known: marks in fencing.marks';
COMMENT ON COLUMN fencing.recent_refusals.raised_at IS
	'When the mark had been raised, where that is known';

-- Read from the catalogs alone.  No table is opened, so that it waits for no
-- lock.  Every part reads each catalog once, whatever the number of tables; the
-- planner, which takes the parts for small, would compare row by row, hence the
-- settings.  With this search_path names come out qualified.
CREATE FUNCTION fencing.find_problems(
	OUT problem text,
	OUT object text,
	OUT detail text,
	OUT remedy text)
RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_nestloop = off
SET jit = off
BEGIN ATOMIC
WITH RECURSIVE
-- The triggers of all fences.
triggers AS MATERIALIZED (
	SELECT t.oid, f.kind, t.tgrelid AS relid, t.tgname, t.tgparentid,
		   t.tgenabled, t.tgtype, t.tgargs,
		   t.tgqual IS NOT NULL OR t.tgattr::text <> '' AS narrowed
	FROM pg_trigger AS t
		 JOIN (VALUES ('fencing.guard()'::regprocedure::oid, 'guard'),
					  ('fencing.guard_recheck()'::regprocedure, 'recheck'),
					  ('fencing.guard_truncate()'::regprocedure, 'truncate'))
			  AS f(oid, kind) ON t.tgfoid = f.oid
),
-- One row for each relation with a guard.
guards AS MATERIALIZED (
	SELECT t.oid, t.relid, t.relid::regclass AS relation, t.tgname,
		   t.tgparentid, t.tgtype, t.narrowed,
		   c.relkind, c.relpersistence, c.relispartition, d.*,
		   concat(', resource => ' || quote_literal(d.resource),
				  CASE d.mark WHEN 'resource' THEN ', mark => ''resource''' END,
				  ', token_column => ' || quote_literal(NULLIF(d.token_column, 'fence_token')),
				  CASE WHEN NOT d.accept_column THEN ', accept_column => false' END,
				  ', on_stale => ' || quote_literal(NULLIF(d.on_stale, 'error')),
				  CASE WHEN d.strict THEN ', strict => true' END,
				  ', max_step => ' || d.max_step,
				  ', issuer => ' || quote_literal(NULLIF(d.issuer, 'any')),
				  CASE WHEN NOT d.tombstones THEN ', tombstones => false' END) AS arguments,
		   CASE WHEN d.shadow THEN ', shadow => true' ELSE '' END AS shadow_argument
	FROM triggers AS t
		 JOIN pg_class AS c ON c.oid = t.relid
		 CROSS JOIN LATERAL fencing.declaration(t.tgargs) AS d
	WHERE t.kind = 'guard'
),
-- Each guard, and the table whose declaration it carries.
owners AS MATERIALIZED (
	SELECT g.oid, g.relid, g.relid AS owner FROM guards AS g WHERE g.tgparentid = 0
	UNION ALL
	SELECT g.oid, g.relid, o.owner
	FROM owners AS o JOIN guards AS g ON g.tgparentid = o.oid
),
fences AS MATERIALIZED (
	SELECT g.*,
		   format('SELECT fencing.fence(%L%s%s)', g.relation, g.arguments, g.shadow_argument) AS again
	FROM guards AS g WHERE g.tgparentid = 0
),
-- The columns of fences as they are in the table now.
columns AS MATERIALIZED (
	SELECT f.relid, a.attname, a.attnum, a.attnotnull, a.atthasdef,
		   a.attgenerated, a.attname IS NOT DISTINCT FROM f.token_column AS is_token,
		   a.atttypid <> 'int8'::regtype OR a.attgenerated <> '' OR a.attidentity <> '' AS unfit
	FROM fences AS f
		 JOIN pg_attribute AS a
		 ON a.attrelid = f.relid AND a.attnum > 0 AND NOT a.attisdropped
			AND (a.attname = ANY (f.columns) OR a.attname = f.token_column)
),
-- Tables that look as if a fence belonged to them: they have a column for
-- tokens.
lookalikes AS MATERIALIZED (
	SELECT c.oid AS relid, c.oid::regclass AS relation, a.attname AS token_column,
		   c.relispartition
	FROM pg_attribute AS a
		 JOIN pg_class AS c ON c.oid = a.attrelid
	WHERE (a.attname = 'fence_token'
		   OR a.attname IN (SELECT f.token_column FROM fences AS f))
	  AND a.atttypid = 'int8'::regtype AND a.attnum > 0 AND NOT a.attisdropped
	  AND a.attnotnull AND a.attgenerated = '' AND a.attidentity = ''
	  AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
	  AND c.relnamespace <> 'fencing'::regnamespace
	  AND NOT EXISTS (SELECT FROM guards AS g WHERE g.relid = c.oid)
),
-- The columns of those and, if there are any, of fences, to compare them.
shapes AS MATERIALIZED (
	SELECT a.attrelid AS relid, array_agg(a.attname ORDER BY a.attname) AS names,
		   f.relid IS NOT NULL AS fenced
	FROM pg_attribute AS a
		 LEFT JOIN fences AS f ON f.relid = a.attrelid
	WHERE a.attnum > 0 AND NOT a.attisdropped
	  AND (f.relid IS NOT NULL OR a.attrelid IN (SELECT l.relid FROM lookalikes AS l))
	  AND EXISTS (SELECT FROM lookalikes)
	GROUP BY a.attrelid, f.relid
),
-- What is set, and for whom.  A function of the library loads it, and only
-- then the server knows its settings.
settings AS MATERIALIZED (
	SELECT s.name, lower(s.setting) AS value,
		   CASE WHEN s.source IN ('session', 'client', 'interactive')
				THEN 'this session' ELSE 'server' END AS place,
		   CASE WHEN s.source IN ('session', 'client', 'interactive')
				THEN format('SET %s = %s', s.name, s.boot_val)
				ELSE format(E'ALTER SYSTEM SET %s = %s;\nSELECT pg_reload_conf()', s.name, s.boot_val)
		   END AS remedy
	FROM (SELECT * FROM fencing.stat_memory() OFFSET 0) AS loaded
		 CROSS JOIN LATERAL (SELECT * FROM pg_settings WHERE loaded.available IS NOT NULL) AS s
	WHERE s.source NOT IN ('global', 'database', 'user', 'database user')
	  AND s.name IN ('fencing.enforcement', 'session_replication_role')
	UNION ALL
	SELECT split_part(x.setting, '=', 1), lower(split_part(x.setting, '=', 2)),
		   concat_ws(' in ', 'role ' || quote_ident(r.rolname), 'database ' || quote_ident(d.datname)),
		   CASE WHEN r.oid IS NULL AND d.oid IS NULL THEN 'ALTER ROLE ALL'
				WHEN r.oid IS NULL THEN format('ALTER DATABASE %I', d.datname)
				WHEN d.oid IS NULL THEN format('ALTER ROLE %I', r.rolname)
				ELSE format('ALTER ROLE %I IN DATABASE %I', r.rolname, d.datname)
		   END || ' RESET ' || split_part(x.setting, '=', 1)
	FROM pg_db_role_setting AS s
		 LEFT JOIN pg_roles AS r ON r.oid = s.setrole
		 LEFT JOIN pg_database AS d ON d.oid = s.setdatabase
		 CROSS JOIN LATERAL unnest(s.setconfig) AS x(setting)
	WHERE s.setdatabase = 0 OR d.datname = current_database()
)

SELECT 'trigger_disabled' AS problem, t.relid::regclass::text AS object,
	   format('Trigger %s does not fire%s.', quote_ident(t.tgname),
			  CASE t.tgenabled WHEN 'R' THEN ' on the origin' ELSE '' END) AS detail,
	   format('ALTER TABLE %s ENABLE TRIGGER %I', t.relid::regclass, t.tgname) AS remedy
FROM triggers AS t
WHERE t.tgenabled IN ('D', 'R')
  AND EXISTS (SELECT FROM guards AS g WHERE g.relid = t.relid)

UNION ALL
SELECT 'trigger_altered', f.relation::text,
	   format('Trigger %s does not fire for every INSERT, UPDATE and DELETE.', quote_ident(f.tgname)),
	   f.again
FROM fences AS f
WHERE f.mark IS NOT NULL AND (f.tgtype <> 31 OR f.narrowed)

UNION ALL
SELECT 'trigger_replaced', t.tgrelid::regclass::text,
	   format('Trigger %s calls %s, not the fence.', quote_ident(t.tgname), t.tgfoid::regprocedure),
	   format(E'DROP TRIGGER %I ON %s;\nSELECT fencing.fence(%L)', t.tgname, t.tgrelid::regclass, t.tgrelid::regclass)
FROM pg_trigger AS t
WHERE t.tgname IN ('zzz_fencing_guard', 'zzz_fencing_recheck', 'zzz_fencing_truncate')
  AND t.tgparentid = 0
  AND NOT EXISTS (SELECT FROM triggers AS o WHERE o.oid = t.oid)

UNION ALL
SELECT 'function_replaced', p.oid::regprocedure::text,
	   'The function is not the extension''s own any more.',
	   format('CREATE OR REPLACE FUNCTION %s RETURNS trigger LANGUAGE C AS %L, %L',
			  p.oid::regprocedure, '$libdir/fencing', f.symbol)
FROM (VALUES ('fencing.guard()'::regprocedure::oid, 'fencing_guard'),
			 ('fencing.guard_recheck()'::regprocedure, 'fencing_guard_recheck'),
			 ('fencing.guard_truncate()'::regprocedure, 'fencing_guard_truncate')) AS f(oid, symbol)
	 JOIN pg_proc AS p ON p.oid = f.oid
	 JOIN pg_language AS l ON l.oid = p.prolang
WHERE l.lanname <> 'c' OR p.prosrc <> f.symbol OR p.probin IS DISTINCT FROM '$libdir/fencing'

UNION ALL
SELECT 'guard_missing', t.relid::regclass::text,
	   format('It has trigger %s of a fence, but not the one that checks: was it a partition?', quote_ident(min(t.tgname::text))),
	   format(E'SELECT fencing.unfence(%L);\n', t.relid::regclass) ||
	   COALESCE((SELECT format('SELECT fencing.fence(%L%s)', t.relid::regclass,
							   ', token_column => ' || quote_literal(NULLIF(l.token_column, 'fence_token')))
				 FROM lookalikes AS l
				 WHERE l.relid = t.relid
				   AND EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = l.relid AND i.indisprimary)
				 ORDER BY l.token_column LIMIT 1), '-- declare it again with fencing.fence')
FROM triggers AS t
WHERE NOT EXISTS (SELECT FROM guards AS g WHERE g.relid = t.relid)
  AND NOT EXISTS (SELECT FROM pg_trigger AS o WHERE o.tgrelid = t.relid AND o.tgname = 'zzz_fencing_guard')
GROUP BY t.relid

UNION ALL
SELECT 'recheck_missing', g.relation::text,
	   'Nothing looks again for the tombstone of an inserted row.', f.again
FROM guards AS g
	 JOIN owners AS o ON o.oid = g.oid
	 JOIN fences AS f ON f.relid = o.owner
WHERE g.mark = 'row' AND g.tombstones
  AND NOT EXISTS (SELECT FROM triggers AS t WHERE t.relid = g.relid AND t.kind = 'recheck')
  AND NOT EXISTS (SELECT FROM pg_trigger AS o WHERE o.tgrelid = g.relid AND o.tgname = 'zzz_fencing_recheck')

UNION ALL
SELECT 'truncate_unguarded', g.relation::text,
	   CASE WHEN g.tgparentid <> 0
			THEN 'TRUNCATE of this partition alone is not refused: it was added after the fence.'
			ELSE 'TRUNCATE is not refused.' END,
	   f.again
FROM guards AS g
	 JOIN owners AS o ON o.oid = g.oid
	 JOIN fences AS f ON f.relid = o.owner
WHERE g.relkind IN ('r', 'p')
  AND NOT EXISTS (SELECT FROM triggers AS t WHERE t.relid = g.relid AND t.kind = 'truncate')
  AND NOT EXISTS (SELECT FROM pg_trigger AS o WHERE o.tgrelid = g.relid AND o.tgname = 'zzz_fencing_truncate')

UNION ALL
SELECT 'trigger_after_guard', t.tgrelid::regclass::text,
	   format('Trigger %s fires after the fence and can change what it has checked.', quote_ident(t.tgname)),
	   format('ALTER TRIGGER %I ON %s RENAME TO %I', t.tgname, t.tgrelid::regclass,
			  ('a_' || t.tgname)::name)
FROM guards AS g
	 JOIN pg_trigger AS t ON t.tgrelid = g.relid
WHERE t.tgtype & 3 = 3 AND t.oid <> g.oid AND t.tgparentid = 0
  AND t.tgenabled <> 'D'
  AND t.tgname::text COLLATE "C" > g.tgname::text COLLATE "C"

UNION ALL
SELECT 'declaration_broken', f.relation::text,
	   'The arguments of its trigger cannot be read; writes fail. The remedy declares the default.',
	   format('SELECT fencing.fence(%L)', f.relation)
FROM fences AS f
WHERE f.mark IS NULL

UNION ALL
-- A column of the template: if just one column of the primary key is not in
-- the template, it is likely to be the one, renamed.
SELECT 'column_missing', f.relation::text,
	   format('Column %s of template %L does not exist or is generated; writes fail.', quote_ident(m.missing), f.resource),
	   CASE WHEN k.renamed IS NOT NULL
			THEN format('SELECT fencing.fence(%L%s%s)', f.relation,
						replace(f.arguments, '{' || m.missing || '}', '{' || k.renamed || '}'), f.shadow_argument)
			ELSE format(E'SELECT fencing.unfence(%L);\n-- declare it again with fencing.fence', f.relation) END
FROM fences AS f
	 CROSS JOIN LATERAL unnest(f.columns) AS m(missing)
	 CROSS JOIN LATERAL (
		SELECT CASE count(*) WHEN 1 THEN min(a.attname::text) END AS renamed
		FROM pg_index AS i
			 JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
		WHERE i.indrelid = f.relid AND i.indisprimary AND a.attname <> ALL (f.columns)) AS k
WHERE NOT EXISTS (
	SELECT FROM columns AS c
	WHERE c.relid = f.relid AND c.attname = m.missing AND NOT c.is_token AND c.attgenerated = '')

UNION ALL
-- A new column would begin without the marks, so one that can be the old one
-- under another name is preferred.
SELECT 'token_column_missing', f.relation::text,
	   format('Token column %s does not exist or is not a plain bigint; writes fail.', quote_ident(f.token_column)),
	   format('SELECT fencing.fence(%L%s%s)', f.relation,
			  COALESCE(replace(f.arguments, concat(', token_column => ', quote_literal(f.token_column)), '')
					   || ', token_column => ' || quote_literal(k.renamed), f.arguments),
			  f.shadow_argument)
FROM fences AS f
	 CROSS JOIN LATERAL (
		SELECT CASE count(*) WHEN 1 THEN min(a.attname::text) END AS renamed
		FROM pg_attribute AS a
		WHERE a.attrelid = f.relid AND a.attnum > 0 AND NOT a.attisdropped
		  AND a.atttypid = 'int8'::regtype AND a.attnotnull AND a.atthasdef
		  AND a.attgenerated = '' AND a.attidentity = ''
		  AND a.attname <> ALL (f.columns)) AS k
WHERE f.mark = 'row'
  AND NOT EXISTS (SELECT FROM columns AS c WHERE c.relid = f.relid AND c.is_token AND NOT c.unfit)

UNION ALL
SELECT 'token_column_nullable', f.relation::text,
	   format('Token column %s can be NULL, which counts as no mark.', quote_ident(f.token_column)),
	   format(E'SET fencing.enforcement = off;\nUPDATE %s SET %I = 0 WHERE %2$I IS NULL;\n', f.relation, f.token_column)
	   || format(E'RESET fencing.enforcement;\nALTER TABLE %s ', f.relation)
	   || CASE WHEN c.atthasdef THEN '' ELSE format('ALTER COLUMN %I SET DEFAULT 0, ', f.token_column) END
	   || format('ALTER COLUMN %I SET NOT NULL', f.token_column)
FROM fences AS f
	 JOIN columns AS c ON c.relid = f.relid AND c.is_token
WHERE NOT c.attnotnull AND NOT c.unfit

UNION ALL
SELECT 'key_missing', f.relation::text,
	   format('No valid, immediate unique key lies within the columns of template %L; writes fail.', f.resource),
	   format('ALTER TABLE %s ADD UNIQUE (%s)', f.relation,
			  (SELECT string_agg(quote_ident(n), ', ') FROM unnest(f.columns) AS n))
FROM fences AS f
	 JOIN (SELECT c.relid, array_agg(c.attnum) AS attnums
		   FROM columns AS c WHERE NOT c.is_token GROUP BY c.relid) AS k ON k.relid = f.relid
WHERE f.mark = 'row' AND cardinality(k.attnums) = cardinality(f.columns)
  AND NOT EXISTS (
	SELECT FROM pg_index AS i
	WHERE i.indrelid = f.relid AND i.indisunique AND i.indimmediate
	  AND i.indisvalid AND i.indisready AND i.indpred IS NULL
	  AND (i.indkey::int2[])[0:i.indnkeyatts - 1] <@ k.attnums)

UNION ALL
SELECT 'unlogged', g.relation::text,
	   'A crash empties it, and forgets the marks of its rows.',
	   format('ALTER TABLE %s SET LOGGED', g.relation)
FROM guards AS g
WHERE g.mark = 'row' AND g.relpersistence = 'u' AND g.relkind = 'r'

UNION ALL
SELECT 'foreign_partition', g.relation::text,
	   'The partition is a foreign table, whose rows cannot be locked; writes to it fail.',
	   format('ALTER TABLE %s DETACH PARTITION %s', i.inhparent::regclass, g.relation)
FROM guards AS g
	 JOIN pg_inherits AS i ON i.inhrelid = g.relid
WHERE g.relkind = 'f'

UNION ALL
SELECT 'partition_unfenced', i.inhrelid::regclass::text,
	   format('Partition %s beside it is fenced.', min(f.relation::text)),
	   format('SELECT fencing.fence(%L%s)', i.inhrelid::regclass, min(f.arguments || f.shadow_argument))
FROM fences AS f
	 JOIN pg_inherits AS fi ON fi.inhrelid = f.relid
	 JOIN pg_inherits AS i ON i.inhparent = fi.inhparent
	 JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE f.relispartition AND c.relkind IN ('r', 'p')
  AND NOT EXISTS (SELECT FROM guards AS g WHERE g.relid = i.inhrelid)
GROUP BY i.inhrelid

UNION ALL
SELECT 'inheritance_child', i.inhrelid::regclass::text,
	   format('It inherits from fenced table %s, whose triggers do not fire for its rows.', f.relation),
	   CASE WHEN f.mark = 'row' AND NOT EXISTS (SELECT FROM pg_index AS x WHERE x.indrelid = i.inhrelid AND x.indisunique)
			THEN format(E'ALTER TABLE %s ADD UNIQUE (%s);\n', i.inhrelid::regclass,
						(SELECT string_agg(quote_ident(n), ', ') FROM unnest(f.columns) AS n))
			ELSE '' END
	   || format('SELECT fencing.fence(%L%s%s)', i.inhrelid::regclass, f.arguments, f.shadow_argument)
FROM fences AS f
	 JOIN pg_inherits AS i ON i.inhparent = f.relid
WHERE f.relkind = 'r'
  AND NOT EXISTS (SELECT FROM guards AS g WHERE g.relid = i.inhrelid)

UNION ALL
-- Copies: made by LIKE, or left over or put in place by a tool that rebuilds a
-- table.  The column is named fence_token, or the table has the same columns as
-- a fenced one.
SELECT 'copy_unfenced', l.relation::text,
	   concat(format('It has token column %s, but no fence', quote_ident(l.token_column)),
			  ', and the columns of fenced table ' || s.relation,
			  '. If none is meant, drop the column.'),
	   CASE WHEN s.relid IS NULL AND NOT k.has_primary
			THEN format('ALTER TABLE %s DROP COLUMN %I', l.relation, l.token_column)
			WHEN s.relid IS NULL
			THEN format('SELECT fencing.fence(%L)', l.relation)
			ELSE CASE WHEN k.has_unique THEN ''
					  ELSE format(E'ALTER TABLE %s ADD UNIQUE (%s);\n', l.relation,
								  (SELECT string_agg(quote_ident(n), ', ') FROM unnest(s.columns) AS n)) END
				 || format('SELECT fencing.fence(%L%s%s)', l.relation, s.arguments, s.shadow_argument)
	   END
FROM lookalikes AS l
	 CROSS JOIN LATERAL (
		SELECT count(*) FILTER (WHERE i.indisprimary) > 0 AS has_primary, count(*) > 0 AS has_unique
		FROM pg_index AS i WHERE i.indrelid = l.relid AND i.indisunique) AS k
	 LEFT JOIN LATERAL (
		SELECT min(o.relid::text)::oid AS relid
		FROM shapes AS o JOIN shapes AS own ON own.names = o.names
		WHERE own.relid = l.relid AND o.fenced) AS same ON true
	 LEFT JOIN fences AS s ON s.relid = same.relid AND s.token_column = l.token_column
WHERE (l.token_column = 'fence_token' OR s.relid IS NOT NULL)
  AND NOT l.relispartition
  AND NOT EXISTS (SELECT FROM triggers AS t WHERE t.relid = l.relid)
  AND NOT EXISTS (SELECT FROM pg_inherits AS i JOIN guards AS g ON g.relid IN (i.inhparent, i.inhrelid)
				  WHERE l.relid IN (i.inhrelid, i.inhparent))

UNION ALL
SELECT 'shadow', f.relation::text, 'The fence refuses nothing.',
	   format('SELECT fencing.fence(%L%s)', f.relation, f.arguments)
FROM fences AS f
WHERE f.shadow

UNION ALL
SELECT 'enforcement', s.place,
	   format('fencing.enforcement is %s: fences refuse nothing.', s.value), s.remedy
FROM settings AS s
WHERE s.name = 'fencing.enforcement' AND s.value <> 'on'

UNION ALL
SELECT 'replication_role', s.place,
	   'session_replication_role is replica: fences do not fire.', s.remedy
FROM settings AS s
WHERE s.name = 'session_replication_role' AND s.value = 'replica'

UNION ALL
(SELECT 'mark_out_of_reach', m.resource COLLATE "default",
		format('Mark %s is above all that fencing.next_token can reach.', m.token),
		format('SELECT fencing.set_mark(%L, %s, %L)', m.resource,
			   COALESCE((SELECT i.token FROM fencing.issued AS i WHERE i.resource = m.resource), 0),
			   'raised by a wrong token')
 FROM fencing.marks AS m
 WHERE m.token > 9007199254740991
   AND m.token > (SELECT q.last_value FROM fencing.token_sequence AS q)
   AND m.resource <> ''
 LIMIT 100)

UNION ALL
SELECT 'not_preloaded', 'server',
	   'Before PostgreSQL 17 statistics need fencing in shared_preload_libraries. Restart the server after the remedy.',
	   -- which only some may read
	   COALESCE((SELECT format('ALTER SYSTEM SET shared_preload_libraries = %s',
							   concat_ws(', ', NULLIF(p.setting, ''), 'fencing'))
				 FROM pg_settings AS p WHERE p.name = 'shared_preload_libraries'),
				'-- add fencing to shared_preload_libraries')
FROM fencing.stat_memory() AS s
WHERE NOT s.available AND current_setting('server_version_num')::int < 170000

UNION ALL
SELECT 'statistics_unavailable', 'server',
	   'There is no shared memory for statistics; the server log says why.',
	   '-- give the server more of it (/dev/shm), or lower fencing.stat_max_fences and fencing.recent_max_refusals'
FROM fencing.stat_memory() AS s
WHERE NOT s.available AND current_setting('server_version_num')::int >= 170000

UNION ALL
SELECT 'statistics_full', 'server',
	   format('There are more fences than fencing.stat_max_fences = %s: counters began again %s times. Restart the server after the remedy.',
			  s.max_fences, s.evicted),
	   format(E'SELECT fencing.stat_reset();\nALTER SYSTEM SET fencing.stat_max_fences = %s', s.max_fences * 2)
FROM fencing.stat_memory() AS s
WHERE s.evicted > 0;
END;

COMMENT ON FUNCTION fencing.find_problems() IS
	'what weakens a fence of this database now, for view problems';

CREATE VIEW fencing.problems AS
SELECT p.problem, p.object, p.detail, p.remedy FROM fencing.find_problems() AS p;

COMMENT ON VIEW fencing.problems IS
	'What weakens a fence of this database now, and the SQL that mends it. Empty when all is well';
COMMENT ON COLUMN fencing.problems.problem IS
	'A word that stays the same from release to release';
COMMENT ON COLUMN fencing.problems.object IS
	'The table, role, database, resource or function concerned';
COMMENT ON COLUMN fencing.problems.detail IS 'What is wrong';
COMMENT ON COLUMN fencing.problems.remedy IS
	'Statements that mend it, one a line, each to be run by itself';

-- ---------------------------------------------------------------------------
-- Rights
-- ---------------------------------------------------------------------------

GRANT SELECT ON fencing.leases TO PUBLIC;
GRANT SELECT ON fencing.stat_fences, fencing.stat_leases, fencing.problems TO PUBLIC;

-- names of resources are data of the application
REVOKE ALL ON FUNCTION fencing.refusals() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fencing.refusals() TO pg_read_all_stats;
GRANT SELECT ON fencing.recent_refusals TO pg_read_all_stats;

REVOKE ALL ON FUNCTION fencing.revoke(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fencing.purge_leases(interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION fencing.purge_commands(interval, bigint) FROM PUBLIC;

-- Scopes separate tenants, so their commands are not for everybody to read.
GRANT SELECT ON fencing.commands TO pg_monitor;
REVOKE ALL ON FUNCTION fencing.stat_reset(regclass) FROM PUBLIC;
