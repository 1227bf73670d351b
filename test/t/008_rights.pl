# Who may write a table may write it under its fence, with no right on what the
# extension keeps; and nothing that an ordinary role can do lowers a mark,
# hides it, or writes one except by the rule.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(auth_extra => [ '--create-role', 'app,other,owner' ]);
$node->start;
$node->safe_psql(
	'postgres', q{
	CREATE ROLE app LOGIN;
	CREATE ROLE other LOGIN;
	CREATE ROLE owner LOGIN;
	GRANT other TO app;
	CREATE EXTENSION fencing;
	CREATE SCHEMA shop AUTHORIZATION owner;
	GRANT USAGE ON SCHEMA shop TO app, other;
	GRANT CREATE ON DATABASE postgres TO app;
	SET ROLE owner;
	CREATE TABLE shop.job (id int PRIMARY KEY, note text);
	CREATE TABLE shop.stock (id int PRIMARY KEY, n int, "Grund" text COLLATE "C");
	CREATE TABLE shop.priced (id int PRIMARY KEY, stock int, price int);
	SELECT fencing.fence('shop.job');
	SELECT fencing.fence('shop.stock', 'sku:{id}', mark => 'resource');
	SELECT fencing.fence('shop.priced', 'priced:{id}');
	INSERT INTO shop.priced VALUES (1, 1, 1);
	GRANT SELECT, INSERT, UPDATE, DELETE ON shop.job, shop.stock TO app, other;
	GRANT SELECT (id, stock), UPDATE (stock) ON shop.priced TO app;
});

my $admin = session($node);
my $app = session($node, user => 'app');

sub write_resource
{
	my ($token) = @_;

	return "BEGIN; SELECT fencing.present('sku:1', $token);"
	  . "INSERT INTO shop.stock VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET n = shop.stock.n + 1; COMMIT";
}

#
# DML and nothing else
#
accepted($app, "INSERT INTO shop.job (id, fence_token) VALUES (1, 10), (2, 10), (3, 10)", 'row mark: insert');
accepted($app, "UPDATE shop.job SET note = 'a', fence_token = 11 WHERE id = 1", 'row mark: update');
accepted($app, "BEGIN; SELECT fencing.present('job:2', 12); DELETE FROM shop.job WHERE id = 2; COMMIT",
	'row mark: delete, which writes a mark');
accepted($app, "BEGIN; SELECT fencing.present('job:1', 13); UPDATE shop.job SET id = 4 WHERE id = 1; COMMIT",
	'row mark: change of the key, which writes a mark');
gives($app, 'SELECT resource, token FROM fencing.marks ORDER BY 1', "job:1|13\njob:2|12",
	'... the marks are there to read');
accepted($app, write_resource(10), 'resource mark: first write');
accepted($app, write_resource(11), 'resource mark: newer write');
gives($app, "SELECT fencing.mark('sku:1')", '11', '... is the mark');
accepted($app, "SELECT fencing.claim('free', 5)", 'claim');
accepted($app, "SELECT fencing.claim(ARRAY['a', 'b'], ARRAY[1, 2])", 'claim of several');
gives($app, "SELECT fencing.next_token('free')", '6', 'next_token');
gives($app, 'SELECT count(*) FROM fencing.fences', '3', 'fencing.fences');
refused($app, 'INSERT INTO shop.job (id, fence_token) VALUES (2, 11)', 'ZF001', 'row mark: older insert');
refused($app, write_resource(10), 'ZF001', 'resource mark: older write');

# A right on the token column is not needed where the token is presented.
refused($app, 'UPDATE shop.priced SET stock = 2 WHERE id = 1', 'ZF002', 'no right on the token column, no token');
refused($app, 'UPDATE shop.priced SET stock = 2, fence_token = 5 WHERE id = 1', '42501',
	'no right on the token column, token in it');
accepted($app, "BEGIN; SELECT fencing.present('priced:1', 5); UPDATE shop.priced SET stock = 2 WHERE id = 1; COMMIT",
	'no right on the token column, token presented');
gives($admin, 'SELECT stock, fence_token FROM shop.priced', '2|5', '... is stamped into the column');
refused($app, "BEGIN; SELECT fencing.present('priced:1', 4); UPDATE shop.priced SET stock = 3 WHERE id = 1; COMMIT",
	'ZF001', '... and an older one is refused');

#
# not on what is the extension's
#
my $marks = 'SELECT resource, token FROM fencing.marks ORDER BY resource';
my $issued = 'SELECT resource, token FROM fencing.issued ORDER BY resource';
my $sequence = 'SELECT last_value, is_called FROM fencing.token_sequence';
my %kept = map { $_ => $admin->query($_) } ($marks, $issued, $sequence);

for my $table ('fencing.marks', 'fencing.issued')
{
	for ("INSERT INTO $table VALUES ('sku:9', 1, now())",
		"INSERT INTO $table VALUES ('sku:1', 1, now()) ON CONFLICT (resource) DO UPDATE SET token = 1",
		"UPDATE $table SET token = 1", "DELETE FROM $table", "TRUNCATE $table",
		"SELECT * FROM $table FOR UPDATE", "SELECT * FROM $table FOR SHARE",
		"BEGIN; LOCK TABLE $table IN EXCLUSIVE MODE; COMMIT",
		"ALTER TABLE $table DISABLE TRIGGER ALL", "ALTER TABLE $table ADD x int", "DROP TABLE $table",
		"CREATE TRIGGER t BEFORE UPDATE ON $table EXECUTE FUNCTION suppress_redundant_updates_trigger()",
		"CREATE RULE r AS ON INSERT TO $table DO INSTEAD NOTHING")
	{
		refused($app, $_, '42501', "denied: $_");
	}
}
for ("SELECT nextval('fencing.token_sequence')", "SELECT setval('fencing.token_sequence', 1)",
	'ALTER SEQUENCE fencing.token_sequence RESTART', 'DROP SEQUENCE fencing.token_sequence',
	"SELECT fencing.set_mark('sku:1', 1, 'because')", "SELECT fencing.compact('0')",
	'DROP EXTENSION fencing CASCADE', 'DROP SCHEMA fencing CASCADE', 'ALTER EXTENSION fencing DROP TABLE fencing.marks',
	'CREATE TABLE fencing.mine ()', 'CREATE OR REPLACE FUNCTION fencing.guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$',
	"SELECT fencing.fence('shop.stock', 'sku:{id}', mark => 'resource', shadow => true)", "SELECT fencing.unfence('shop.stock')",
	'ALTER TABLE shop.stock DISABLE TRIGGER ALL', 'TRUNCATE shop.stock',
	'SET session_replication_role = replica')
{
	refused($app, $_, '42501', "denied: $_");
}
gives($admin, $_, $kept{$_}, "unchanged: $_") for ($marks, $issued, $sequence);
# set_mark and compact work for whom they are granted to
accepted($admin, 'GRANT EXECUTE ON FUNCTION fencing.compact(interval) TO app', 'grant of compact');
refused($app, "SELECT fencing.compact('0')", '55000', '... reaches the function');
$admin->query('REVOKE EXECUTE ON FUNCTION fencing.compact(interval) FROM app');

# The owner of a table declares its fence, and needs no other right.
my $owner = session($node, user => 'owner');
accepted($owner, "SELECT fencing.fence('shop.job')", 'the owner declares a fence');
refused($owner, 'UPDATE shop.job SET fence_token = 1 WHERE id = 3', 'ZF001', '... which is in force for the owner, too');
refused($owner, 'UPDATE fencing.marks SET token = 1', '42501', '... who has no right on the marks');

#
# names in the way
#
my $shadow = session($node, user => 'app');
$shadow->query(q{
	CREATE SCHEMA evil;
	CREATE FUNCTION evil.yes(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';
	CREATE FUNCTION evil.no(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false';
	CREATE FUNCTION evil.yes(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
	CREATE FUNCTION evil.yes(name, name) RETURNS boolean LANGUAGE sql AS 'SELECT true';
	CREATE OPERATOR evil.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.yes);
	CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.yes);
	CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.yes);
	CREATE OPERATOR evil.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.no);
	CREATE OPERATOR evil.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.no);
	CREATE OPERATOR evil.>= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.no);
	CREATE TABLE evil.marks (resource text PRIMARY KEY, token bigint, updated_at timestamptz);
	CREATE TABLE evil.issued (LIKE evil.marks);
	CREATE SEQUENCE evil.token_sequence;
	CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT '-infinity'::timestamptz $$;
	CREATE FUNCTION evil.nextval(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
	CREATE FUNCTION evil.mark(text) RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';
	CREATE FUNCTION evil."coalesce"(bigint, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';
	CREATE TEMP TABLE marks (resource text PRIMARY KEY, token bigint, updated_at timestamptz);
	CREATE TEMP TABLE issued (resource text PRIMARY KEY, token bigint, updated_at timestamptz);
	CREATE TEMP SEQUENCE token_sequence;
	CREATE TEMP TABLE pg_class (oid oid, relname name);
	CREATE TEMP TABLE pg_trigger (oid oid);
	CREATE TEMP TABLE pg_namespace (oid oid, nspname name);
	CREATE TEMP TABLE stock (id int, n int);
	INSERT INTO marks VALUES ('sku:1', 1, now()), ('job:2', 1, now());
	INSERT INTO evil.marks VALUES ('sku:1', 1, now()), ('job:2', 1, now());
	CREATE FUNCTION pg_temp.int4out(int) RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$;
	CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (VALUE <> 'sku:1');
	CREATE DOMAIN evil.bigint AS pg_catalog.int8 CHECK (VALUE < 0);
});
is($shadow->state, '00000', 'things with the names of what the extension uses');
my $highest = $admin->query("SELECT fencing.next_token('free')");
my $mark = 11;
for my $path ('pg_temp, evil, pg_catalog', 'evil, pg_temp, pg_catalog, fencing', 'evil', "''", 'pg_temp, evil, shop, pg_catalog')
{
	accepted($shadow, "SET search_path = $path", "search_path $path");
	refused($shadow, write_resource(5), 'ZF001', '... older write, resource mark');
	accepted($shadow, write_resource(++$mark), '... newer write, resource mark');
	gives($shadow, q{SELECT fencing.mark('sku:1')}, $mark, '... is the mark');
	refused($shadow, "SELECT fencing.claim('sku:1', 5)", 'ZF001', '... older claim');
	refused($shadow, 'INSERT INTO shop.job (id, fence_token) VALUES (2, 11)', 'ZF001', '... older insert, row mark');
	refused($shadow, 'UPDATE shop.job SET fence_token = 9 WHERE id OPERATOR(pg_catalog.=) 3', 'ZF001', '... older update, row mark');
	my $token = $shadow->query("SELECT fencing.next_token('free')");
	cmp_ok($token, '==', ++$highest, '... next_token');
	gives($shadow, 'SELECT pg_catalog.count(*) FROM fencing.fences', '3', '... fencing.fences');
	refused($shadow, "SELECT fencing.set_mark('sku:1', 1, 'because')", '42501', '... set_mark');
}
gives($shadow, "RESET search_path; SELECT count(*), max(token) FROM evil.marks", '2|1', 'the other marks are as they were');
gives($shadow, "SELECT count(*), max(token) FROM pg_temp.marks", '2|1', '... the temporary ones, too');

# the same in the way of an administrator
$admin->query(q{GRANT USAGE ON SCHEMA evil TO PUBLIC});
my $trapped = session($node);
accepted($trapped, q{SET search_path = evil, pg_catalog; SELECT fencing.claim('lone', fencing.next_token('lone'))},
	'administrator with that search_path: next_token and claim');
$highest++;
refused($trapped, "SELECT fencing.compact('1 hour')", '55000', '... compact sees what did not come from here');
gives($trapped, "SELECT fencing.set_mark('sku:1', 11, 'a test')", $mark, '... set_mark');
gives($trapped, "SELECT fencing.mark('sku:1')", '11', '... sets the mark');
$trapped->quit;

#
# row-level security
#
$admin->query(q{
	ALTER TABLE shop.stock ENABLE ROW LEVEL SECURITY;
	ALTER TABLE shop.stock FORCE ROW LEVEL SECURITY;
	ALTER TABLE shop.job ENABLE ROW LEVEL SECURITY;
	ALTER TABLE shop.job FORCE ROW LEVEL SECURITY;
	CREATE POLICY low ON shop.stock USING (id < 100);
	CREATE POLICY low ON shop.job USING (id < 100);
	SET ROLE owner;
	BEGIN;
	SELECT fencing.present('sku:50', 7);
	INSERT INTO shop.stock VALUES (50, 1);
	COMMIT;
	RESET ROLE});
is($admin->state, '00000', 'row-level security');
for my $s ($app, $owner)
{
	my $who = $s == $app ? 'app' : 'owner';

	refused($s, write_resource(10), 'ZF001', "row-level security, $who: older write, resource mark");
	accepted($s, write_resource(++$mark), "row-level security, $who: newer write, resource mark");
	gives($s, "SELECT fencing.mark('sku:1')", $mark, '... is the mark');
	refused($s, 'UPDATE shop.job SET fence_token = 9 WHERE id = 3', 'ZF001', "row-level security, $who: older write, row mark");
	refused($s, 'INSERT INTO shop.job (id, fence_token) VALUES (2, 11)', 'ZF001', "row-level security, $who: older insert, row mark");
	refused($s, "BEGIN; SELECT fencing.present('sku:200', 1); INSERT INTO shop.stock VALUES (200, 1); COMMIT",
		'42501', "row-level security, $who: a row that the policy does not let in");
	gives($s, "SELECT fencing.mark('sku:200')", '0', '... leaves no mark');
}

#
# SET ROLE within a transaction
#
accepted($app, "BEGIN; SELECT fencing.present('sku:1', $mark); UPDATE shop.stock SET n = 1 WHERE id = 1;"
	  . 'SET ROLE other; UPDATE shop.stock SET n = 2 WHERE id = 1; COMMIT',
	'SET ROLE: what is presented and checked stays');
gives($app, 'SELECT current_user, n FROM shop.stock WHERE id = 1', 'other|2', '... and the row is written');
refused($app, write_resource(10), 'ZF001', '... and an older write is refused');
accepted($app, 'RESET ROLE', 'RESET ROLE');
accepted($admin, "SET ROLE app; SELECT fencing.claim('free', 10); RESET ROLE", 'administrator as another role: claim');
refused($admin, "SET ROLE app; SELECT fencing.set_mark('free', 1, 'because')", '42501', '... but no set_mark');
$admin->query('RESET ROLE');
refused($admin, "SET SESSION AUTHORIZATION app; SELECT fencing.compact('0')", '42501', '... and no compact');
$admin->query('RESET SESSION AUTHORIZATION');

# A definer function may write for those who may not.
$admin->query(q{
	SET ROLE owner;
	CREATE FUNCTION shop.sell(token bigint) RETURNS void SECURITY DEFINER LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM fencing.present('sku:1', token);
		UPDATE shop.stock SET n = n - 1 WHERE id = 1;
	END $$;
	RESET ROLE;
	REVOKE ALL ON shop.stock FROM other});
my $other = session($node, user => 'other');
refused($other, 'UPDATE shop.stock SET n = 0', '42501', 'without a right on the table');
accepted($other, 'SELECT shop.sell(' . ++$mark . ')', 'through a definer function');
refused($other, 'SELECT shop.sell(10)', 'ZF001', '... an older write is refused');
gives($other, "SELECT fencing.mark('sku:1')", $mark, '... the mark is read');
$other->quit;

#
# without a right on the schema
#
accepted($admin, 'REVOKE USAGE ON SCHEMA fencing FROM PUBLIC', 'no USAGE on the schema for PUBLIC');
accepted($app, 'UPDATE shop.job SET fence_token = 20 WHERE id = 3', 'row mark: write by column');
refused($app, 'UPDATE shop.job SET fence_token = 19 WHERE id = 3', 'ZF001', 'row mark: older write by column');
refused($app, "UPDATE shop.job SET note = 'x' WHERE id = 3", 'ZF002', 'row mark: write without a token');
accepted($app, 'INSERT INTO shop.job (id, fence_token) VALUES (5, 5)', 'row mark: insert');
refused($app, 'INSERT INTO shop.job (id, fence_token) VALUES (2, 11)', 'ZF001', 'row mark: older insert');
accepted($app, q{BEGIN; SET LOCAL fencing.tokens = 'job:5=6'; DELETE FROM shop.job WHERE id = 5; COMMIT}, 'row mark: delete');
accepted($app, "BEGIN; SET LOCAL fencing.tokens = 'sku:1=@{[++$mark]}'; UPDATE shop.stock SET n = 3 WHERE id = 1; COMMIT",
	'resource mark: write with the setting');
refused($app, q{BEGIN; SET LOCAL fencing.tokens = 'sku:1=10'; UPDATE shop.stock SET n = 3 WHERE id = 1; COMMIT},
	'ZF001', 'resource mark: older write with the setting');
refused($app, "SELECT fencing.mark('sku:1')", '42501', 'functions are out of reach');
gives($admin, "SELECT fencing.mark('sku:1'), fencing.mark('job:5')", "$mark|6", 'and the marks are right');

# a session that loads the library only now
my $late = session($node, user => 'app');
accepted($late, 'UPDATE shop.job SET fence_token = 21 WHERE id = 3', 'fresh session, row mark: write by column');
refused($late, 'UPDATE shop.job SET fence_token = 20 WHERE id = 3', 'ZF001', 'fresh session, row mark: older write');
$late->quit;

$_->quit for ($admin, $app, $owner, $shadow);
$node->stop;
done_testing();
