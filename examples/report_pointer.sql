-- A long job publishes what it has made by moving a pointer.
--
-- A report takes an hour.  Its rows go to a place of their own, where a late job
-- does no harm; only the last step, "this run is current", must not be taken by
-- a job that has been overtaken meanwhile.  So the fence is on the pointer.  The
-- lease is on the report as a whole and has one name, a constant.
--
--	psql -v ON_ERROR_STOP=1 -f report_pointer.sql
--
-- Everything happens in a schema of its own, which is made anew each time.

\set QUIET on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
DROP SCHEMA IF EXISTS fencing_reports CASCADE;
CREATE SCHEMA fencing_reports;
SET search_path = fencing_reports;

-- One row that says which run is current, none before the first.
CREATE TABLE current_report (
	only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
	run      bigint NOT NULL,
	as_of    date NOT NULL
);
CREATE TABLE report_rows (
	run     bigint NOT NULL,      -- the token of the job that made them
	product text NOT NULL,
	amount  int NOT NULL,
	PRIMARY KEY (run, product)
);

SELECT fencing.fence('current_report', 'report:daily', mark => 'resource') \g /dev/null

-- Job A begins.  It claims before it reads anything, in a transaction of its
-- own: from now on no run before it can publish, whatever it still has under way.
-- Without the claim the mark would rise only when A publishes, an hour later.
SELECT fencing.next_token('report:daily') AS token_a \gset
BEGIN;
SELECT fencing.claim('report:daily', :token_a) \g /dev/null
COMMIT;
INSERT INTO report_rows VALUES (:token_a, 'kettle', 10), (:token_a, 'toaster', 7);
\echo 'A makes its report (token' :token_a')'

-- A hangs and is taken for dead.  Job B does the work again, by now with
-- corrected figures for the same day, and publishes.
SELECT fencing.next_token('report:daily') AS token_b \gset
BEGIN;
SELECT fencing.claim('report:daily', :token_b) \g /dev/null
COMMIT;
INSERT INTO report_rows VALUES (:token_b, 'kettle', 12), (:token_b, 'toaster', 9);
BEGIN;
SELECT fencing.present('report:daily', :token_b) \g /dev/null
INSERT INTO current_report (run, as_of) VALUES (:token_b, '2025-06-02')
ON CONFLICT (only_one) DO UPDATE SET run = excluded.run, as_of = excluded.as_of;
COMMIT;
\echo 'B makes and publishes its report (token' :token_b')'

-- A comes back and publishes.  A condition on the date would not have caught
-- it: the day is the same.
SELECT set_config('example.token', :'token_a', false) \g /dev/null
DO $$
DECLARE
	token bigint := current_setting('example.token');
BEGIN
	PERFORM fencing.present('report:daily', token);
	INSERT INTO current_report (run, as_of) VALUES (token, '2025-06-02')
	ON CONFLICT (only_one) DO UPDATE SET run = excluded.run, as_of = excluded.as_of;
	RAISE 'an old report replaced a newer one';
EXCEPTION
	WHEN SQLSTATE 'ZF001' THEN
		NULL;
END
$$;
\echo 'A publishes its report: refused, ZF001'

-- A program that was forgotten when the fence came.
DO $$
BEGIN
	UPDATE current_report SET as_of = current_date;
	RAISE 'the pointer was moved without a token';
EXCEPTION
	WHEN SQLSTATE 'ZF002' THEN
		NULL;
END
$$;
\echo 'An UPDATE without a token: refused, ZF002'

-- What A left behind is known by its run, and nobody reads it.
DELETE FROM report_rows AS r USING current_report AS c WHERE r.run < c.run;

DO $$
DECLARE
	state text;
BEGIN
	SELECT c.as_of || ', kettles ' || r.amount INTO state
	FROM current_report AS c JOIN report_rows AS r USING (run)
	WHERE r.product = 'kettle';
	ASSERT state = '2025-06-02, kettles 12', state;
	ASSERT (SELECT count(*) FROM report_rows) = 2, 'rows of A';
END
$$;
\echo 'The report is that of B'
