# fencing.problems on a server: nothing where all is well; what is set for the
# whole server, mended by the statements that it gives; and no wait for a table
# that somebody has locked.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->start;
$node->safe_psql('postgres', "CREATE EXTENSION fencing; CREATE TABLE t (id int PRIMARY KEY); SELECT fencing.fence('t')");

# Runs the statements of all remedies, each by itself.
sub mend
{
	my $statements = $node->safe_psql('postgres', "SELECT remedy || ';' FROM fencing.problems");

	$node->safe_psql('postgres', $statements);
	return;
}

sub problems
{
	return $node->safe_psql('postgres', "SELECT string_agg(problem || ' of ' || object, ', ' ORDER BY problem) FROM fencing.problems");
}

SKIP:
{
	skip 'from 17 on statistics need no preloading', 2 if $node->pg_version >= 17;

	is(problems(), 'not_preloaded of server', 'the library is not preloaded');
	mend();
	$node->restart;
	is($node->safe_psql('postgres', 'SHOW shared_preload_libraries'), 'fencing', 'it is after the remedy and a restart');
}
is(problems(), '', 'no problem where all is well');

for my $setting ([ 'fencing.enforcement', 'shadow', 'enforcement' ], [ 'session_replication_role', 'replica', 'replication_role' ])
{
	my ($name, $value, $problem) = @$setting;

	$node->append_conf('postgresql.conf', "$name = $value");
	$node->reload;
	ok($node->poll_query_until('postgres', "SELECT current_setting('$name', true) = '$value'"), "$name = $value");
	is(problems(), "$problem of server", '... is a problem of the server');
	mend();
	ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM fencing.problems"), '... and mended by what it gives');
}

$node->safe_psql('postgres', 'CREATE ROLE loader LOGIN SUPERUSER; ALTER ROLE ALL SET fencing.enforcement = off; ALTER ROLE loader SET session_replication_role = replica');
like($node->safe_psql('postgres', "SELECT problem || ': ' || remedy FROM fencing.problems ORDER BY 1"),
	qr/\Aenforcement: ALTER ROLE ALL RESET fencing\.enforcement\nreplication_role: ALTER ROLE loader RESET session_replication_role\z/,
	'settings of roles');
mend();
is(problems(), '', '... are mended');

# A table is being changed: monitoring must not hang behind it.
my $owner = session($node);
my $watch = session($node);
$owner->query('BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE; ALTER TABLE t DISABLE TRIGGER zzz_fencing_guard');
accepted($watch, "SET statement_timeout = '20s'; SELECT * FROM fencing.problems; SELECT * FROM fencing.fences; SELECT * FROM fencing.stat_fences",
	'the views wait for no lock on a table');
$owner->query('COMMIT');
gives($watch, 'SELECT problem FROM fencing.problems', 'trigger_disabled', 'and see what has been committed');
$_->quit for ($owner, $watch);

# On a standby too
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', 'SELECT problem FROM fencing.problems'), 'trigger_disabled', 'a standby lists them');
is($standby->safe_psql('postgres', "SELECT accepted FROM fencing.stat_fences WHERE relation = 't'::regclass"), '0', '... and has counters of its own');
$standby->stop;
$node->stop;
done_testing();
