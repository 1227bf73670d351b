# fencing.recent_refusals tells who was refused what, after the rollback that a
# refusal is, in a ring that any number of refusals at once does not disturb.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# So that there is a client address.
$PostgreSQL::Test::Cluster::use_tcp = 1;
$PostgreSQL::Test::Cluster::test_pghost = '127.0.0.1';
my $node = watched_node('main', "fencing.recent_max_refusals = 1200\n");
$node->safe_psql(
	'postgres', q{
	CREATE ROLE app LOGIN;
	CREATE ROLE watcher LOGIN IN ROLE pg_monitor;
	CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL DEFAULT 0);
	SELECT fencing.fence('stock', 'sku:{id}', max_step => 1000);
	INSERT INTO stock SELECT g, 0, 10 FROM generate_series(1, 100) g;
	CREATE TABLE orders (id int);
	SELECT fencing.fence('orders', 'order:{id}', mark => 'resource');
	CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id);
	CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (100);
	SELECT fencing.fence('p');
	INSERT INTO p VALUES (1, 10);
	GRANT ALL ON stock, orders, p TO app;
});
my $trust = $node->data_dir . '/pg_hba.conf';
append_to_file($trust, "host all all 127.0.0.1/32 trust\n");
$node->reload;

# PGAPPNAME, which the test's modules set, would win over a connection's option.
sub named
{
	my $session = session($node, user => 'app');
	$session->query("SET application_name = '$_[0]'");
	return $session;
}

my $app = named('worker-7');
my $watch = session($node, user => 'watcher');

# The last refusal, as an observer sees it.
sub last_is
{
	my ($columns, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return gives($watch, "SELECT $columns FROM fencing.recent_refusals LIMIT 1", $expected, $name);
}

my $pid = $app->pid;
my $numbers = 'outcome, sqlstate, relation, resource, token, mark';
my $who = 'pid, role, application_name, client_addr';

gives($watch, 'SELECT count(*) FROM fencing.recent_refusals', '0', 'none at first');
refused($app, 'UPDATE stock SET n = 1, fence_token = 9 WHERE id = 42', 'ZF001', 'a stale write');
last_is($numbers, 'refused|ZF001|stock|sku:42|9|10', '... with what, on what, against what');
last_is($who, "$pid|app|worker-7|127.0.0.1", '... by whom');
last_is("abs(extract(epoch FROM clock_timestamp() - at)) < 60, raised_by, raised_at", 't||', '... when; a row does not tell who raised its mark');
refused($app, 'UPDATE stock SET n = 1 WHERE id = 42', 'ZF002', 'a write without a token');
last_is($numbers, 'refused|ZF002|stock|sku:42||10', '... is remembered as such');
refused($app, 'UPDATE stock SET fence_token = 5000 WHERE id = 42', 'ZF006', 'a token out of range');
last_is($numbers, 'refused|ZF006|stock|sku:42|5000|10', '... with its number');
refused($app, 'UPDATE p SET fence_token = 9', 'ZF001', 'a row of a partition');
last_is('relation', 'p_1', '... names the partition');

# who had raised the mark
my $new = named('worker-8');
accepted($new, "SELECT fencing.claim('order:1', 7)", 'a new holder claims');
refused($app, "BEGIN; SELECT fencing.present('order:1', 6); INSERT INTO orders VALUES (1)", 'ZF001', 'the old one is refused');
$app->query('ROLLBACK');
last_is("$numbers, raised_by", 'refused|ZF001|orders|order:1|6|7|worker-8', '... by whose mark');
last_is("raised_at <= at AND raised_at > at - interval '1 minute'", 't', '... raised when');
refused($app, "SELECT fencing.claim('order:1', 6)", 'ZF001', 'a stale claim');
last_is("$numbers, raised_by", 'refused|ZF001||order:1|6|7|worker-8', '... has no table');
accepted($new, "BEGIN; SELECT fencing.present('sku:1', 11); DELETE FROM stock WHERE id = 1; COMMIT", 'a row is deleted');
refused($app, 'INSERT INTO stock VALUES (1, 1, 5)', 'ZF001', '... and a stale one inserted');
last_is("$numbers, raised_by", 'refused|ZF001|stock|sku:1|5|11|worker-8', 'a tombstone tells who left it');

# refusals that are about no row
refused($app, "BEGIN; SET LOCAL fencing.deadline = '2000-01-01 00:00:00+00'; UPDATE stock SET fence_token = 11 WHERE id = 2; COMMIT",
	'ZF003', 'a deadline that has passed');
last_is($numbers, 'refused|ZF003||||', '... is remembered');
$node->safe_psql('postgres', 'CREATE TABLE broken (id int PRIMARY KEY); SELECT fencing.fence(\'broken\'); GRANT ALL ON broken TO app; ALTER TABLE broken RENAME id TO nr');
refused($app, 'INSERT INTO broken VALUES (1)', 'ZF009', 'a broken fence');
last_is($numbers, 'refused|ZF009|broken|||', '... too');
$node->safe_psql('postgres', 'GRANT TRUNCATE ON orders TO app');
refused($app, 'TRUNCATE orders', 'ZF002', 'TRUNCATE');
last_is($numbers, 'refused|ZF002|orders|||', '... too');

# skipped: the first in a minute, for table and application
$node->safe_psql('postgres', "SELECT fencing.fence('stock', 'sku:{id}', on_stale => 'skip')");
accepted($app, 'UPDATE stock SET fence_token = 3', 'a hundred rows are skipped');
like($watch->query("SELECT count(*), min(token) FROM fencing.recent_refusals WHERE outcome = 'skipped' AND application_name = 'worker-7'"),
	qr/^[12]\|3$/, '... of which one is remembered');
$node->safe_psql('postgres', "SELECT fencing.fence('stock', 'sku:{id}')");

# names of any form
my $name = 'sku:' . "\x{c3}\x{a4}" x 254;
$node->safe_psql('postgres', "SELECT fencing.claim('$name', 9)");
refused($app, "SELECT fencing.claim('$name', 8)", 'ZF001', 'a name of 512 bytes');
last_is('resource', $name, '... is kept whole');
my $twice = named('');
refused($twice, "SELECT fencing.claim('order:1', 5)", 'ZF001', 'a session without application_name');
last_is('application_name', '', '... has none');
$twice->quit;

# who may look
refused($app, 'SELECT * FROM fencing.recent_refusals', '42501', 'an ordinary role may not see them');
refused($app, 'SELECT * FROM fencing.refusals()', '42501', '... by the function neither');
refused($app, 'SELECT fencing.stat_reset()', '42501', '... nor reset');
refused($watch, 'SELECT fencing.stat_reset()', '42501', 'a monitor may look, not reset');
accepted($app, 'SELECT * FROM fencing.stat_fences, fencing.stat_leases, fencing.problems', 'an ordinary role sees the numbers and the problems');

# each database sees its own
$node->safe_psql('postgres', 'CREATE DATABASE beside');
$node->safe_psql('beside', "CREATE EXTENSION fencing; SELECT fencing.claim('order:1', 3)");
is($node->safe_psql('beside', 'SELECT count(*) FROM fencing.recent_refusals'), '0', 'another database sees none of these');

# what a terminal shows
sub widest
{
	my ($sql) = @_;
	my ($out, $err) = run_command([ 'psql', '-X', '-h', $node->host, '-p', $node->port, '-U', 'watcher', '-c', $sql, 'postgres' ]);

	return (sort { $b <=> $a } map { length } split /\n/, $out)[0];
}
cmp_ok(widest('SELECT * FROM fencing.stat_fences'), '<=', 100, 'stat_fences fits 100 columns');
cmp_ok(widest('SELECT * FROM fencing.stat_leases'), '<=', 100, 'stat_leases fits 100 columns');
cmp_ok(widest("SELECT at, outcome, sqlstate, relation, resource, token, mark FROM fencing.recent_refusals WHERE length(resource) < 20"),
	'<=', 100, 'what was refused, in recent_refusals, fits 100 columns');

# a thousand at once
$node->safe_psql('postgres', 'SELECT fencing.stat_reset()');
gives($watch, 'SELECT count(*) FROM fencing.recent_refusals', '0', 'forgotten');
my $script = $node->basedir . '/refused.sql';
append_to_file(
	$script, q{
\set row random(2, 100)
DO $$ BEGIN UPDATE stock SET fence_token = 9 WHERE id = :row; EXCEPTION WHEN SQLSTATE 'ZF001' THEN NULL; END $$;
});
$node->command_ok([ 'pgbench', '-n', '-c', '20', '-j', '2', '-t', '50', '-f', $script, '-h', $node->host, '-p', $node->port, '-U', 'app', 'postgres' ],
	'twenty clients, a thousand refusals');
gives($watch, q{SELECT count(*), count(DISTINCT pid), bool_and(outcome = 'refused' AND sqlstate = 'ZF001' AND relation = 'stock'::regclass
	AND resource ~ '^sku:\d+$' AND token = 9 AND mark >= 10 AND role = 'app' AND application_name <> '') FROM fencing.recent_refusals},
	'1000|20|t', 'are all there, whole');
gives($watch, 'SELECT stale FROM fencing.stat_fences WHERE relation = \'stock\'::regclass', '1000', '... and counted');
gives($watch, 'SELECT bool_and(ok) FROM (SELECT at <= lag(at, 1, at) OVER () AS ok FROM fencing.recent_refusals) AS x', 't', 'newest first');
$node->command_ok([ 'pgbench', '-n', '-c', '20', '-j', '2', '-t', '50', '-f', $script, '-h', $node->host, '-p', $node->port, '-U', 'app', 'postgres' ],
	'and again');
gives($watch, 'SELECT count(*) FROM fencing.recent_refusals', '1200', 'the ring holds as many as it was made for');

$_->quit for ($app, $new);
$watch->quit;
$node->restart;
is($node->safe_psql('postgres', 'SELECT count(*) FROM fencing.recent_refusals'), '0', 'a restart forgets');
$node->stop;
done_testing();
