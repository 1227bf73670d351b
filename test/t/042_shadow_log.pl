# Shadow mode on a live table: what would be refused passes and is written to
# the server log, once for a table, application and minute, in a line of one
# form; and the change to enforcing is quick.  Also where there are no
# statistics: up to 16 without preloading.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $shadow = qr/LOG:  fencing: shadow .*/;

# A minute must not end between two statements that are compared.
sub early_in_the_minute
{
	my ($session) = @_;

	$session->query('SELECT pg_sleep(60.5 - s) FROM (SELECT extract(second FROM clock_timestamp())::float8 AS s) AS x WHERE s > 55');
	return;
}

sub as_application
{
	my ($node, $name) = @_;
	my $session = session($node);

	$session->query("SET application_name = '$name'");
	return $session;
}

sub prepare
{
	my ($node) = @_;

	$node->safe_psql(
		'postgres', q{
		CREATE TABLE stock (id int PRIMARY KEY, note text);
		CREATE TABLE other (id int PRIMARY KEY, note text);
		SELECT fencing.fence('stock', 'sku:{id}', shadow => true);
		SELECT fencing.fence('other', shadow => true);
		CREATE TABLE names (name text);
		SELECT fencing.fence('names', 'n:{name}', mark => 'resource', shadow => true);
		INSERT INTO stock SELECT g, 'note', 10 FROM generate_series(1, 100) g;
		INSERT INTO other VALUES (1, 'note', 10);
	});
	return;
}

my $node = watched_node('main', '');
prepare($node);
my $one = as_application($node, 'one');
my $same = as_application($node, 'one');
my $two = as_application($node, 'two');
my $admin = session($node);

early_in_the_minute($admin);
my $position = log_size($node);
my $stale = 'UPDATE stock SET fence_token = 9';

accepted($one, $stale, 'stale writes pass');
my $text = log_since($node, $position);
is(count_matches($text, $shadow), 1, '... with one line for all of them');
like($text, qr/LOG:  fencing: shadow reason="stale_token" table="public\.stock" resource="sku:1" token=9 mark=10 role="\w+" application="one"(?: client="[^"]+")?$/m,
	'... in the documented form');
gives($one, "SELECT min(fence_token) || ' ' || max(fence_token) FROM stock", '10 10', '... and no mark goes down');
accepted($one, $stale, 'again');
accepted($same, $stale, 'from another session of the application');
is(count_matches(log_since($node, $position), $shadow), 1, '... no other line');
accepted($two, $stale, 'from another application');
is(count_matches(log_since($node, $position), $shadow), 2, '... a second line');
accepted($one, 'UPDATE other SET fence_token = 9', 'to another table');
is(count_matches(log_since($node, $position), $shadow), 3, '... a third');
gives($admin, "SELECT shadowed, accepted, stale FROM fencing.stat_fences WHERE relation = 'stock'::regclass", '400|100|0', 'all are counted, apart');
gives($admin, "SELECT string_agg(application_name, ' ' ORDER BY at) FROM fencing.recent_refusals WHERE outcome = 'shadowed'", 'one two one',
	'what was logged is remembered');

# What stands in a line, and what does not
my $third = as_application($node, 'three "quoted" \\');
$position = log_size($node);
accepted($third, "DO \$\$ BEGIN INSERT INTO names VALUES (E'a\\nLOG:  forged \"line\" \\\\'); END \$\$", 'a name that looks like a line of the log');
$text = log_since($node, $position);
like($text, qr/LOG:  fencing: shadow reason="missing_token" table="public\.names" resource="n:a\\x0ALOG:  forged \\"line\\" \\\\" mark=0 role=.* application="three \\"quoted\\" \\\\"/,
	'... stays within its quotes');
unlike($text, qr/(?:CONTEXT|STATEMENT):/, '... without the statement or its context');
accepted($third, "TRUNCATE other", 'TRUNCATE passes');
like(log_since($node, $position), qr/fencing: shadow reason="truncate" table="public\.other" role=/, '... with its line');
accepted($third, "SELECT fencing.claim('m', 5); SELECT fencing.set_mark('m', 3, 'a test')", 'an administrator sets a mark');
like(log_since($node, $position), qr/LOG:  fencing: set_mark resource="m" token=3 mark=5 role="\w+" application="three.*" reason="a test"$/m, '... with its line');
unlike(log_since($node, $position), qr/LOG:  (?!fencing: |statement: ).*fenc/, 'nothing of the extension has another form');

# A minute later there is one again.
$admin->query('SELECT pg_sleep(60.5 - extract(second FROM clock_timestamp())::float8)');
$position = log_size($node);
accepted($one, $stale, 'in the next minute');
is(count_matches(log_since($node, $position), $shadow), 1, '... one line again');

# From shadow to enforcing: no rewrite, and readers are not in the way.
my $file = $admin->query("SELECT pg_relation_filenode('stock')");
$one->query('BEGIN; SELECT count(*) FROM stock');
accepted($admin, "BEGIN; SET LOCAL lock_timeout = '1s'; SELECT fencing.fence('stock', 'sku:{id}')", 'a reader is not waited for');
gives($admin, "SELECT string_agg(DISTINCT mode, ' ') FROM pg_locks WHERE relation = 'stock'::regclass AND pid = pg_backend_pid() AND mode NOT IN ('AccessShareLock')",
	'ShareRowExclusiveLock', '... and only writers would wait');
accepted($admin, 'COMMIT', 'enforced');
gives($admin, "SELECT pg_relation_filenode('stock')", $file, '... and nothing was written anew');
accepted($one, 'COMMIT', 'the reader goes on');
refused($one, $stale, 'ZF001', '... and is refused from now on');
accepted($one, 'UPDATE stock SET fence_token = 10 WHERE id = 1', 'the marks of the time before hold');
$_->quit for ($one, $same, $two, $third, $admin);
$node->stop;

# Where the library is not preloaded
SKIP:
{
	skip 'from 17 on statistics need no preloading', 9 if $node->pg_version >= 17;

	my $plain = PostgreSQL::Test::Cluster->new('plain');
	$plain->init;
	$plain->start;
	$plain->safe_psql('postgres', 'CREATE EXTENSION fencing');
	prepare($plain);
	my $s = as_application($plain, 'one');
	early_in_the_minute($s);
	$position = log_size($plain);
	accepted($s, "$stale; $stale; UPDATE other SET fence_token = 9", 'without statistics: stale writes pass');
	is(count_matches(log_since($plain, $position), $shadow), 2, '... with a line for table and minute, by session');
	my $t = as_application($plain, 'one');
	accepted($t, $stale, 'another session');
	is(count_matches(log_since($plain, $position), $shadow), 3, '... has its own');
	$s->query("SELECT fencing.fence('stock', 'sku:{id}')");
	refused($s, $stale, 'ZF001', 'refusals are as ever');
	gives($s, 'SELECT count(*) FROM fencing.stat_fences', '0', 'the views are empty');
	like($s->messages, qr/NOTICE:  .*statistics of fencing are not available.*HINT:  .*shared_preload_libraries/s, '... and say why');
	$s->query('SELECT * FROM fencing.stat_fences; SELECT * FROM fencing.stat_leases; SELECT * FROM fencing.recent_refusals; SELECT fencing.stat_reset()');
	is($s->messages, '', '... once in a session');
	gives($s, 'SELECT count(*) FROM fencing.stat_fences', '0', '... and go on');
	$_->quit for ($s, $t);
	$plain->stop;
}

done_testing();
