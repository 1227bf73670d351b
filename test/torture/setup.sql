-- What the workers of the torture work on.  :guard says what protects it.

CREATE EXTENSION IF NOT EXISTS fencing;
DROP SCHEMA IF EXISTS torture, lockservice CASCADE;
CREATE SCHEMA torture;
CREATE TABLE torture.state (id int PRIMARY KEY, n bigint NOT NULL DEFAULT 0, value bigint NOT NULL DEFAULT 0);
CREATE TABLE torture.history (id int NOT NULL, n bigint NOT NULL, kind text NOT NULL, token bigint NOT NULL,
	worker text NOT NULL, value bigint NOT NULL, was bigint);
INSERT INTO torture.state (id) SELECT generate_series(1, :resources);

-- A lock server in two statements, as Redis' SET NX PX and INCR are.
CREATE SCHEMA lockservice;
CREATE TABLE lockservice.leases (id int PRIMARY KEY, holder text NOT NULL, expires_at timestamptz NOT NULL, token bigint NOT NULL);
CREATE FUNCTION lockservice.acquire(id int, holder text, ttl interval) RETURNS bigint LANGUAGE sql AS $$
	INSERT INTO lockservice.leases AS l VALUES ($1, $2, clock_timestamp() + $3, 1)
	ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at, token = l.token + 1
	WHERE l.expires_at <= clock_timestamp()
	RETURNING token
$$;
CREATE FUNCTION lockservice.release(id int, holder text) RETURNS void LANGUAGE sql AS $$
	UPDATE lockservice.leases AS l SET expires_at = '-infinity' WHERE l.id = $1 AND l.holder = $2
$$;

SELECT :'guard' = 'fence' AS fence, :'guard' = 'row' AS row, :'guard' IN ('where', 'plpgsql') AS token, :'guard' = 'plpgsql' AS plpgsql \gset
\if :fence
SELECT fencing.fence('torture.state', 'r:{id}', mark => 'resource');
SELECT fencing.fence('torture.history', 'r:{id}', mark => 'resource');
\endif
\if :row
SELECT fencing.fence('torture.state', 'r:{id}');
\endif
\if :token
ALTER TABLE torture.state ADD COLUMN fence_token bigint NOT NULL DEFAULT 0;
\endif
\if :plpgsql
CREATE FUNCTION torture.guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF new.fence_token < old.fence_token THEN
		RAISE EXCEPTION 'stale token';
	END IF;
	RETURN new;
END $$;
CREATE TRIGGER guard BEFORE UPDATE ON torture.state FOR EACH ROW EXECUTE FUNCTION torture.guard();
\endif
