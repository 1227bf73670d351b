-- fencing_redis: leases from Redis, taken inside the transaction
--
-- The one SQL script that is edited.  The build makes the versioned one from
-- it; the version number stands in fencing_redis.control.

\echo Use "CREATE EXTENSION fencing_redis" to load this file. \quit

-- ---------------------------------------------------------------------------
-- Servers
-- ---------------------------------------------------------------------------

CREATE FUNCTION fencing_redis.validator(options text[], catalog oid)
RETURNS void
LANGUAGE C STRICT
AS 'MODULE_PATHNAME', 'fencing_redis_validator';

COMMENT ON FUNCTION fencing_redis.validator(text[], oid) IS
	'checks the options of servers and user mappings';

CREATE FOREIGN DATA WRAPPER fencing_redis VALIDATOR fencing_redis.validator;

COMMENT ON FOREIGN DATA WRAPPER fencing_redis IS
	'Redis servers that leases come from';

-- ---------------------------------------------------------------------------
-- Leases
-- ---------------------------------------------------------------------------

CREATE FUNCTION fencing_redis.acquire(
	resource text,
	ttl      interval DEFAULT '30 s',
	wait     interval DEFAULT '0',
	holder   text     DEFAULT NULL,
	server   name     DEFAULT pg_catalog.current_setting('fencing_redis.server', true),
	scope    text     DEFAULT 'session',
	floor    bigint   DEFAULT 0)
RETURNS fencing.lease
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_redis_acquire';

COMMENT ON FUNCTION fencing_redis.acquire(text, interval, interval, text, name, text, bigint) IS
	'acquire a lease on a resource from Redis, waiting for it if need be; fails with 55P03 when it is busy';

CREATE FUNCTION fencing_redis.try_acquire(
	resource text,
	ttl      interval DEFAULT '30 s',
	holder   text     DEFAULT NULL,
	server   name     DEFAULT pg_catalog.current_setting('fencing_redis.server', true),
	scope    text     DEFAULT 'session',
	floor    bigint   DEFAULT 0)
RETURNS fencing.lease
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_redis_try_acquire';

COMMENT ON FUNCTION fencing_redis.try_acquire(text, interval, text, name, text, bigint) IS
	'acquire a lease on a resource from Redis; NULL when it is busy';

CREATE FUNCTION fencing_redis.renew(
	resource text,
	token    bigint,
	ttl      interval DEFAULT '30 s',
	server   name     DEFAULT pg_catalog.current_setting('fencing_redis.server', true),
	holder   text     DEFAULT NULL)
RETURNS fencing.lease
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_redis_renew';

COMMENT ON FUNCTION fencing_redis.renew(text, bigint, interval, name, text) IS
	'let a lease end later; NULL and a warning when it is not held any more';

CREATE FUNCTION fencing_redis.release(
	resource text,
	token    bigint,
	server   name     DEFAULT pg_catalog.current_setting('fencing_redis.server', true),
	holder   text     DEFAULT NULL)
RETURNS boolean
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_redis_release';

COMMENT ON FUNCTION fencing_redis.release(text, bigint, name, text) IS
	'end a lease now; false and a warning when it is not held';

-- ---------------------------------------------------------------------------
-- What can be seen
-- ---------------------------------------------------------------------------

CREATE FUNCTION fencing_redis.held(
	OUT server      text,
	OUT resource    text,
	OUT token       bigint,
	OUT holder      text,
	OUT scope       text,
	OUT acquired_at timestamptz,
	OUT expires_at  timestamptz)
RETURNS SETOF record
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_redis_held';

COMMENT ON FUNCTION fencing_redis.held() IS
	'leases that this session acquired, and that are neither released nor over';

CREATE FUNCTION fencing_redis.connections(
	OUT server  text,
	OUT role    text,
	OUT node    text,
	OUT state   text,
	OUT problem text)
RETURNS SETOF record
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_redis_connections';

COMMENT ON FUNCTION fencing_redis.connections() IS
	'connections of this session to Redis, and their state';

CREATE FUNCTION fencing_redis.disconnect(server name DEFAULT NULL)
RETURNS integer
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_redis_disconnect';

COMMENT ON FUNCTION fencing_redis.disconnect(name) IS
	'close the connections of this session to a server, or to all; they are opened again when needed';

CREATE FUNCTION fencing_redis.ping(
	server name DEFAULT pg_catalog.current_setting('fencing_redis.server', true),
	OUT node             text,
	OUT reachable        boolean,
	OUT role             text,
	OUT version          text,
	OUT round_trip       interval,
	OUT maxmemory_policy text,
	OUT clock_offset     interval,
	OUT problem          text,
	OUT warning          text)
RETURNS SETOF record
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'fencing_redis_ping';

COMMENT ON FUNCTION fencing_redis.ping(name) IS
	'the state of each node of a server, and what makes its leases weaker';

-- ---------------------------------------------------------------------------
-- Rights
-- ---------------------------------------------------------------------------

-- Who may use a server is what GRANT USAGE ON FOREIGN SERVER says.
GRANT USAGE ON SCHEMA fencing_redis TO PUBLIC;
