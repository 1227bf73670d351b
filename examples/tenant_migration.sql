-- A migration has a tenant for itself, in every table.
--
-- A tenant's data is moved to a new format by a job that must not meet another
-- run of itself, nor the application's own writes.  The lease is on the tenant,
-- and the fence on each of its tables says so: tenant:{tenant_id}.
--
--	psql -v ON_ERROR_STOP=1 -f tenant_migration.sql
--
-- Everything happens in a schema of its own, which is made anew each time.

\set QUIET on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
DROP SCHEMA IF EXISTS fencing_tenants CASCADE;
CREATE SCHEMA fencing_tenants;
SET search_path = fencing_tenants;

CREATE TABLE customers (
	tenant_id   int NOT NULL,
	customer_id int NOT NULL,
	name        text NOT NULL,
	PRIMARY KEY (tenant_id, customer_id)
);
CREATE TABLE invoices (
	tenant_id  int NOT NULL,
	invoice_id int NOT NULL,
	cents      bigint NOT NULL,
	format     int NOT NULL DEFAULT 1,
	PRIMARY KEY (tenant_id, invoice_id)
);
INSERT INTO customers
SELECT t, c, 'customer ' || c FROM generate_series(1, 2) AS t, generate_series(1, 3) AS c;
INSERT INTO invoices
SELECT t, i, 1000 * i FROM generate_series(1, 2) AS t, generate_series(1, 5) AS i;

-- The same template on every table that has the tenant in it.
SELECT fencing.fence(t, 'tenant:{tenant_id}', mark => 'resource')
FROM unnest('{customers,invoices}'::regclass[]) AS t \g /dev/null

-- Each server of the application works with a token per tenant too, that of
-- its last lease.  Writers with the same token do not wait for each other.
SELECT fencing.next_token('tenant:1') AS app_1,
	fencing.next_token('tenant:2') AS app_2 \gset
BEGIN;
SELECT fencing.present('tenant:1', :app_1) \g /dev/null
UPDATE customers SET name = 'Ann' WHERE tenant_id = 1 AND customer_id = 1;
COMMIT;
\echo 'The application writes (token' :app_1')'

-- The migration of tenant 1 begins.  The claim does two things before anything
-- is read.  It waits for the transactions of the application that are under
-- way, which hold the mark until they end.  And once it has the mark, none of
-- theirs can begin: what the migration reads stays as it is.
--
-- Committed at once, it also ends the run before this one, should that still
-- be alive somewhere.
SELECT fencing.next_token('tenant:1') AS migration \gset
BEGIN;
SELECT fencing.claim('tenant:1', :migration) \g /dev/null
COMMIT;
\echo 'The migration of tenant 1 begins (token' :migration')'

-- In steps, each in a transaction of its own, each presenting the token.
BEGIN;
SELECT fencing.present('tenant:1', :migration) \g /dev/null
UPDATE invoices SET cents = cents * 100, format = 2
WHERE tenant_id = 1 AND format = 1 AND invoice_id <= 3;
COMMIT;

-- The application writes to tenant 1 meanwhile, with the token that it has had
-- all along, to a table that the migration has not come to yet.
SELECT set_config('example.app_1', :'app_1', false),
	set_config('example.app_2', :'app_2', false) \g /dev/null
DO $$
BEGIN
	PERFORM fencing.present('tenant:1', current_setting('example.app_1')::bigint);
	INSERT INTO customers VALUES (1, 4, 'too late');
	RAISE 'the application wrote into the migration';
EXCEPTION
	WHEN SQLSTATE 'ZF001' THEN
		NULL;
END
$$;
\echo 'The application writes to tenant 1: refused, ZF001'

-- Other tenants do not notice.
BEGIN;
SELECT fencing.present('tenant:2', :app_2) \g /dev/null
INSERT INTO customers VALUES (2, 4, 'Ben');
COMMIT;
\echo 'The application writes to tenant 2: accepted'

-- A statement that forgets its WHERE is refused as well: it meets rows of
-- tenants whose token it does not have.  Nothing of it is done.
DO $$
BEGIN
	PERFORM fencing.present('tenant:2', current_setting('example.app_2')::bigint);
	UPDATE invoices SET cents = 0;
	RAISE 'one tenant''s writer reached another tenant';
EXCEPTION
	WHEN SQLSTATE 'ZF002' THEN
		NULL;
END
$$;
\echo 'The writer of tenant 2 forgets its WHERE: refused, ZF002'

-- The rest of the migration.
BEGIN;
SELECT fencing.present('tenant:1', :migration) \g /dev/null
UPDATE invoices SET cents = cents * 100, format = 2
WHERE tenant_id = 1 AND format = 1;
COMMIT;

-- The application goes on with a new lease, and so a newer token.
SELECT fencing.next_token('tenant:1') AS app_1 \gset
BEGIN;
SELECT fencing.present('tenant:1', :app_1) \g /dev/null
INSERT INTO customers VALUES (1, 4, 'in time');
COMMIT;
\echo 'After the migration the application writes again (token' :app_1')'

DO $$
DECLARE
	state text;
BEGIN
	SELECT string_agg(x.line, '; ' ORDER BY x.line) INTO state FROM (
		SELECT 'tenant ' || tenant_id || ' format ' || format || ': ' || sum(cents) AS line
		FROM invoices GROUP BY tenant_id, format) AS x;
	ASSERT state = 'tenant 1 format 2: 1500000; tenant 2 format 1: 15000', state;
	ASSERT (SELECT count(*) FROM customers) = 8, 'customers';
END
$$;
\echo 'Tenant 1 is migrated, tenant 2 is as it was'
