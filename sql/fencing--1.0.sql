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

CREATE TABLE fencing.issued (
	resource   text COLLATE "C" NOT NULL,
	token      bigint NOT NULL,
	updated_at timestamptz NOT NULL,
	CONSTRAINT issued_pkey PRIMARY KEY (resource)
) WITH (fillfactor = 50,
		autovacuum_vacuum_scale_factor = 0.02,
		autovacuum_vacuum_threshold = 200,
		autovacuum_vacuum_cost_delay = 0);

COMMENT ON TABLE fencing.issued IS
	'The last token that fencing.next_token has handed out for each resource. Written by the functions of the extension alone.';

CREATE SEQUENCE fencing.token_sequence AS bigint NO CYCLE CACHE 1;

COMMENT ON SEQUENCE fencing.token_sequence IS
	'Source of the tokens of fencing.next_token. Its value is the last token handed out.';

SELECT pg_catalog.pg_extension_config_dump('fencing.marks', '');
SELECT pg_catalog.pg_extension_config_dump('fencing.issued', '');
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
LANGUAGE C VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'fencing_next_token';

COMMENT ON FUNCTION fencing.next_token(text) IS
	'a new token for a resource, larger than every one before it';

-- ---------------------------------------------------------------------------
-- Rights
-- ---------------------------------------------------------------------------

GRANT USAGE ON SCHEMA fencing TO PUBLIC;
GRANT SELECT ON fencing.marks, fencing.issued, fencing.fences TO PUBLIC;
GRANT SELECT ON SEQUENCE fencing.token_sequence TO PUBLIC;

REVOKE ALL ON FUNCTION fencing.set_mark(text, bigint, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fencing.compact(interval) FROM PUBLIC;
