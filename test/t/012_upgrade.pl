# From the first version to this one: with the new library and the old catalog
# everything goes on being guarded; after ALTER EXTENSION UPDATE the catalog is
# that of a fresh installation, and nothing that was accepted is lost.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE fresh');
$node->safe_psql('postgres', 'CREATE DATABASE old');
$node->safe_psql('fresh', 'CREATE EXTENSION fencing');
my $current = $node->safe_psql('fresh', "SELECT extversion FROM pg_extension WHERE extname = 'fencing'");

#
# the old catalog under the new library
#
$node->safe_psql(
	'old', q{
	CREATE EXTENSION fencing VERSION '1.0';
	CREATE TABLE job (id int PRIMARY KEY, note text);
	SELECT fencing.fence('job', 'job:{id}');
	INSERT INTO job (id, note, fence_token) VALUES (1, 'a', 10), (2, 'b', 20);
	CREATE TABLE entry (n int);
	SELECT fencing.fence('entry', 'ledger', mark => 'resource', issuer => 'database');
});
my $old = session($node, dbname => 'old');
accepted($old, "BEGIN; SELECT fencing.present('job:2', 21); DELETE FROM job WHERE id = 2; COMMIT", '1.0: a tombstone');
my $token = $old->query("SELECT fencing.next_token('ledger')");
is($old->state, '00000', '1.0: a token');
accepted($old, "BEGIN; SELECT fencing.claim('ledger', $token); INSERT INTO entry VALUES (1); COMMIT", '1.0: a claim');
gives($old, "SELECT fencing.mark('ledger'), fencing.mark('job:2')", "$token|21", '1.0: the marks');
refused($old, "UPDATE job SET fence_token = 9 WHERE id = 1", 'ZF001', '1.0: a stale write to a row');
refused($old, "INSERT INTO job (id, note, fence_token) VALUES (2, 'late', 20)", 'ZF001', '1.0: and to a tombstone');
refused($old, 'INSERT INTO entry VALUES (2)', 'ZF002', '1.0: a write with nothing presented');
refused($old, "BEGIN; SELECT fencing.present('ledger', 9000); INSERT INTO entry VALUES (2); COMMIT",
	'ZF006', '1.0: a token that was never issued');
$old->query('ROLLBACK');
accepted($old, "SELECT fencing.set_mark('job:2', 20, 'a test')", '1.0: set_mark');
refused($old, 'SELECT * FROM fencing.fences', '55000', '1.0: the view of fences has to wait');
like($old->messages, qr/ALTER EXTENSION fencing UPDATE/, '1.0: and says for what');

#
# the update
#
accepted($old, 'ALTER EXTENSION fencing UPDATE', 'the update');
is($node->safe_psql('old', "SELECT extversion FROM pg_extension WHERE extname = 'fencing'"),
	$current, 'to the current version');

# Everything about the extension's objects, without the numbers that differ.
my $catalog = q{
	SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid) || coalesce(p.proacl::text, '')
		|| coalesce(obj_description(p.oid, 'pg_proc'), '')
	FROM pg_proc p WHERE p.pronamespace = 'fencing'::regnamespace
	UNION ALL
	SELECT 'relation', c.oid::regclass::text, concat_ws(' ', c.relkind, c.relpersistence, c.reloptions, c.relacl,
		obj_description(c.oid, 'pg_class'), CASE c.relkind WHEN 'v' THEN pg_get_viewdef(c.oid) END)
	FROM pg_class c WHERE c.relnamespace = 'fencing'::regnamespace
	UNION ALL
	SELECT 'column', a.attrelid::regclass || '.' || a.attnum, concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod),
		a.attnotnull, a.attcollation::regcollation, a.attstorage, pg_get_expr(d.adbin, d.adrelid), col_description(a.attrelid, a.attnum))
	FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
	WHERE c.relnamespace = 'fencing'::regnamespace AND c.relkind IN ('r', 'v', 'c', 'i', 'S') AND a.attnum > 0
	UNION ALL
	SELECT 'constraint', conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'fencing'::regnamespace
	UNION ALL
	SELECT 'type', t.oid::regtype::text, concat_ws(' ', t.typtype, obj_description(t.oid, 'pg_type'), t.typacl)
	FROM pg_type t WHERE t.typnamespace = 'fencing'::regnamespace
	UNION ALL
	SELECT 'dumped', c::regclass::text, cond FROM pg_extension, unnest(extconfig, extcondition) AS u(c, cond) WHERE extname = 'fencing'
	UNION ALL
	SELECT 'member', pg_describe_object(classid, objid, objsubid), deptype::text FROM pg_depend
	WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'fencing')
	UNION ALL
	SELECT 'initial right', pg_describe_object(classoid, objoid, objsubid), initprivs::text FROM pg_init_privs
	WHERE privtype = 'e' AND classoid IN ('pg_class'::regclass, 'pg_proc'::regclass)
	ORDER BY 1, 2, 3};
my @fresh = split /\n/, $node->safe_psql('fresh', $catalog);
my @updated = split /\n/, $node->safe_psql('old', $catalog);
cmp_ok(scalar @fresh, '>', 200, 'there is something to compare');
is(scalar @updated, scalar @fresh, 'as many lines about the updated catalog as about a fresh one');
my %fresh = map { $_ => 1 } @fresh;
my %updated = map { $_ => 1 } @updated;
is(join("\n", grep { !$fresh{$_} } @updated), '', 'nothing in the updated one that is not in the fresh one');
is(join("\n", grep { !$updated{$_} } @fresh), '', 'nothing in the fresh one that is not in the updated one');

#
# what was there is there
#
gives($old, "SELECT fencing.mark('ledger'), fencing.mark('job:2')", "$token|20", 'the marks');
gives($old, 'SELECT relation, mark FROM fencing.fences ORDER BY relation::text', "entry|resource\njob|row", 'the fences');
refused($old, "UPDATE job SET fence_token = 9 WHERE id = 1", 'ZF001', 'a stale write to a row');
refused($old, "INSERT INTO job (id, note, fence_token) VALUES (2, 'late', 19)", 'ZF001', 'and to a tombstone');
accepted($old, 'UPDATE job SET fence_token = 11 WHERE id = 1', 'a newer one');
my $lease = $old->query("SELECT token FROM fencing.acquire('ledger', '1 hour', '0', 'h')");
cmp_ok($lease, '>', $token, 'a lease, with a token above what was handed out');
accepted($old, "BEGIN; SELECT fencing.claim('ledger', $lease); INSERT INTO entry VALUES (3); COMMIT", 'its claim');
gives($old, "SELECT raised_by FROM fencing.marks WHERE resource = 'ledger'", '012_upgrade.pl', 'the mark knows who raised it');
gives($old, "SELECT count(*) FROM fencing.problems WHERE object IN ('job', 'entry')", '0', 'no problem of theirs is found');

# a session from before the update
my $before = session($node, dbname => 'old');
$before->query("BEGIN; SELECT fencing.claim('ledger', $lease); COMMIT");
is($before->state, '00000', 'another session goes on');
$before->quit;

#
# dumped and restored with the old version's rows in it
#
my $dump = "$PostgreSQL::Test::Utils::tmp_check/upgraded.sql";
command_ok([ 'pg_dump', '-d', $node->connstr('old'), '-f', $dump ], 'dumped');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'restored');
is($node->safe_psql('restored', "SELECT fencing.mark('ledger')"), $lease, 'with the marks');

$old->quit;
$node->stop;
done_testing();
