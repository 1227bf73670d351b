-- fencing: fencing tokens checked inside the writing transaction
--
-- The one SQL script that is edited.  The build makes the versioned one from
-- it; the version number stands in fencing.control.

\echo Use "CREATE EXTENSION fencing" to load this file. \quit

-- ---------------------------------------------------------------------------
-- Tables
-- ---------------------------------------------------------------------------

-- Hot rows: each update changes token and updated_at alone, which no index
-- holds, so room in the page and early vacuuming keep the updates HOT and the
-- table as small as its number of resources.
CREATE TABLE fencing.marks (
	resource   text COLLATE "C" NOT NULL,
	token      bigint NOT NULL,
	updated_at timestamptz NOT NULL,
	raised_by  text,
	CONSTRAINT marks_pkey PRIMARY KEY (resource)
) WITH (fillfactor = 50,
		autovacuum_vacuum_scale_factor = 0.02,
		autovacuum_vacuum_threshold = 200,
		autovacuum_vacuum_cost_delay = 0);

COMMENT ON TABLE fencing.marks IS
	'The highest token accepted for each resource: resource marks, and the tombstones of row marks. Written by the functions of the extension alone.';
COMMENT ON COLUMN fencing.marks.resource IS
	'Name of the resource. The empty name is the floor that fencing.compact leaves: the mark of every resource without a row.';
COMMENT ON COLUMN fencing.marks.token IS 'The mark';
COMMENT ON COLUMN fencing.marks.updated_at IS
	'When the mark was set last, by the server''s clock';
COMMENT ON COLUMN fencing.marks.raised_by IS
	'application_name of the session that set the mark last';

-- One row for each resource that got a token here.  The lease stands in the
-- same row, so that one lock orders everything about a resource, and an
-- acquire writes one row.  A dump carries the rows for their tokens' sake; the
-- leases in them are not in force where lease_origin says otherwise.
CREATE TABLE fencing.issued (
	resource         text COLLATE "C" NOT NULL,
	token            bigint NOT NULL,
	updated_at       timestamptz NOT NULL,
	lease_token      bigint,
	holder           text,
	acquired_at      timestamptz,
	expires_at       timestamptz,
	pid              integer,
	application_name text,
	origin           bigint,
	CONSTRAINT issued_pkey PRIMARY KEY (resource)
) WITH (fillfactor = 50,
		autovacuum_vacuum_scale_factor = 0.02,
		autovacuum_vacuum_threshold = 200,
		autovacuum_vacuum_cost_delay = 0);

COMMENT ON TABLE fencing.issued IS
	'The last token that this database has handed out for each resource, and its lease (see view fencing.leases). Written by the functions of the extension alone.';
COMMENT ON COLUMN fencing.issued.token IS
	'The last token handed out, with a lease or by fencing.next_token';
COMMENT ON COLUMN fencing.issued.lease_token IS
	'Token of the lease, NULL if there is none or it was released';
COMMENT ON COLUMN fencing.issued.origin IS
	'The database that granted the lease: a copy of the row elsewhere is no lease';

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

CREATE SEQUENCE fencing.token_sequence AS bigint NO CYCLE CACHE 1;

COMMENT ON SEQUENCE fencing.token_sequence IS
	'Source of the tokens of fencing.next_token. Its value is the last token handed out.';

SELECT pg_catalog.pg_extension_config_dump('fencing.marks', '');
SELECT pg_catalog.pg_extension_config_dump('fencing.issued', '');
SELECT pg_catalog.pg_extension_config_dump('fencing.command_records', '');
SELECT pg_catalog.pg_extension_config_dump('fencing.token_sequence', '');

-- ---------------------------------------------------------------------------
-- Declaring fences
-- ---------------------------------------------------------------------------

CREATE FUNCTION fencing.fence(
	relation      regclass,
	resource      text    DEFAULT NULL,
	mark          text    DEFAULT 'row',
	token_column  name    DEFAULT 'fence_token',
	accept_column boolean DEFAULT true,
	on_stale      text    DEFAULT 'error',
	strict        boolean DEFAULT false,
	max_step      bigint  DEFAULT NULL,
	issuer        text    DEFAULT 'any',
	tombstones    boolean DEFAULT true,
	shadow        boolean DEFAULT false)
RETURNS void
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_fence';

COMMENT ON FUNCTION fencing.fence(regclass, text, text, name, boolean, text, boolean, bigint, text, boolean, boolean) IS
	'declare a table fenced: its writes must carry a token that is not lower than the mark';

CREATE FUNCTION fencing.unfence(relation regclass)
RETURNS void
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_unfence';

COMMENT ON FUNCTION fencing.unfence(regclass) IS
	'remove the fence of a table; its token column and marks stay';

CREATE FUNCTION fencing.guard()
RETURNS trigger
LANGUAGE C
AS 'MODULE_PATHNAME', 'fencing_guard';

COMMENT ON FUNCTION fencing.guard() IS
	'trigger of a fence: checks the token of a write against the mark';

CREATE FUNCTION fencing.guard_recheck()
RETURNS trigger
LANGUAGE C
AS 'MODULE_PATHNAME', 'fencing_guard_recheck';

COMMENT ON FUNCTION fencing.guard_recheck() IS
	'trigger of a fence: checks an inserted row against a tombstone that appeared meanwhile';

CREATE FUNCTION fencing.guard_truncate()
RETURNS trigger
LANGUAGE C
AS 'MODULE_PATHNAME', 'fencing_guard_truncate';

COMMENT ON FUNCTION fencing.guard_truncate() IS
	'trigger of a fence: refuses TRUNCATE';

CREATE FUNCTION fencing.declaration(
	trigger oid,
	relation regclass,
	OUT resource text,
	OUT mark text,
	OUT token_column name,
	OUT accept_column boolean,
	OUT on_stale text,
	OUT strict boolean,
	OUT max_step bigint,
	OUT issuer text,
	OUT tombstones boolean,
	OUT shadow boolean)
LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fencing_declaration';

COMMENT ON FUNCTION fencing.declaration(oid, regclass) IS
	'what the arguments of a guard trigger say; NULLs if they cannot be read';

CREATE VIEW fencing.fences AS
SELECT t.tgrelid::pg_catalog.regclass AS relation,
	   d.resource, d.mark, d.token_column, d.accept_column, d.on_stale,
	   d.strict, d.max_step, d.issuer, d.tombstones, d.shadow,
	   t.tgenabled OPERATOR(pg_catalog.<>) 'D' AS enabled
FROM pg_catalog.pg_trigger AS t
	 CROSS JOIN LATERAL fencing.declaration(t.oid, t.tgrelid) AS d
WHERE t.tgfoid OPERATOR(pg_catalog.=) 'fencing.guard()'::pg_catalog.regprocedure
  AND t.tgparentid OPERATOR(pg_catalog.=) 0::pg_catalog.oid;

COMMENT ON VIEW fencing.fences IS
	'Every fence of this database, read from the catalog';

-- ---------------------------------------------------------------------------
-- Presenting tokens
-- ---------------------------------------------------------------------------

CREATE FUNCTION fencing.present(
	resource text, token bigint, deadline timestamptz DEFAULT NULL)
RETURNS void
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_present_one';

COMMENT ON FUNCTION fencing.present(text, bigint, timestamptz) IS
	'present a token for a resource until the end of the transaction';

CREATE FUNCTION fencing.present(
	resources text[], tokens bigint[], deadline timestamptz DEFAULT NULL)
RETURNS void
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_present_many';

COMMENT ON FUNCTION fencing.present(text[], bigint[], timestamptz) IS
	'present tokens for several resources until the end of the transaction';

CREATE FUNCTION fencing.presented(OUT resource text, OUT token bigint)
RETURNS SETOF record
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_presented';

COMMENT ON FUNCTION fencing.presented() IS
	'tokens that the current transaction presents';

-- ---------------------------------------------------------------------------
-- Resource marks
-- ---------------------------------------------------------------------------

CREATE FUNCTION fencing.claim(
	resource text, token bigint, deadline timestamptz DEFAULT NULL)
RETURNS void
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_claim_one';

COMMENT ON FUNCTION fencing.claim(text, bigint, timestamptz) IS
	'present a token and raise the resource''s mark to it now';

CREATE FUNCTION fencing.claim(
	resources text[], tokens bigint[], deadline timestamptz DEFAULT NULL)
RETURNS void
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_claim_many';

COMMENT ON FUNCTION fencing.claim(text[], bigint[], timestamptz) IS
	'present tokens and raise the marks of their resources now, in the order of the names';

CREATE FUNCTION fencing.mark(resource text)
RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT COALESCE(
		(SELECT m.token FROM fencing.marks AS m WHERE m.resource OPERATOR(pg_catalog.=) $1),
		(SELECT m.token FROM fencing.marks AS m WHERE m.resource OPERATOR(pg_catalog.=) ''),
		0);
END;

COMMENT ON FUNCTION fencing.mark(text) IS
	'highest token accepted for a resource, 0 if none';

CREATE FUNCTION fencing.set_mark(resource text, token bigint, reason text)
RETURNS bigint
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_set_mark';

COMMENT ON FUNCTION fencing.set_mark(text, bigint, text) IS
	'lower a mark that a wrong token raised; returns the mark as it was';

CREATE FUNCTION fencing.compact(before interval)
RETURNS bigint
LANGUAGE C VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'fencing_compact';

COMMENT ON FUNCTION fencing.compact(interval) IS
	'replace marks older than this by one floor; returns how many';

-- ---------------------------------------------------------------------------
-- Tokens
-- ---------------------------------------------------------------------------

CREATE FUNCTION fencing.next_token(resource text)
RETURNS bigint
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_next_token';

COMMENT ON FUNCTION fencing.next_token(text) IS
	'a new token for a resource, larger than every one before it';

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
-- Rights
-- ---------------------------------------------------------------------------

GRANT USAGE ON SCHEMA fencing TO PUBLIC;
GRANT SELECT ON fencing.marks, fencing.issued, fencing.fences, fencing.leases TO PUBLIC;
GRANT SELECT ON SEQUENCE fencing.token_sequence TO PUBLIC;

REVOKE ALL ON FUNCTION fencing.set_mark(text, bigint, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fencing.compact(interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION fencing.revoke(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fencing.purge_leases(interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION fencing.purge_commands(interval, bigint) FROM PUBLIC;

-- Scopes separate tenants, so their commands are not for everybody to read.
GRANT SELECT ON fencing.commands TO pg_monitor;
