# Leases and their tokens outlive what happens to a server.
#
# A lease that was granted is there after a crash, whatever synchronous_commit
# says, and after a failover if it had got there; a token that a client has seen
# is never handed out again, by this server or by one that never heard of it.  A
# restored dump has the tokens and not the leases.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
# Nothing reaches the disk by itself soon.
$node->append_conf('postgresql.conf', "wal_writer_delay = 10s");
$node->append_conf('postgresql.conf', "checkpoint_timeout = 1h");
$node->append_conf('postgresql.conf', "synchronous_commit = off");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION fencing');

# SIGKILL of the server and of every one of its processes.
sub kill_all
{
	my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	my @children = split ' ', slurp_file("/proc/$postmaster/task/$postmaster/children");

	kill 'KILL', $postmaster, @children;
	$node->kill9;
	for my $pid ($postmaster, @children)
	{
		for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
		{
			last if !kill 0, $pid;
			sleep 0.1;
		}
	}
	$node->start;
	return;
}

#
# SIGKILL of all of it, right after the answer
#
my $last = 0;
for my $round (1 .. 5)
{
	my $client = session($node);
	my $token = $client->query("SELECT token FROM fencing.acquire('crash $round', '1 hour', '0', 'h')");

	cmp_ok($token, '>', $last, "round $round: a larger token");
	# the last one is taken in a transaction that never commits
	my $open = $client->query("BEGIN; SELECT token FROM fencing.acquire('open', '1 hour', '0', 'h')");
	cmp_ok($open, '>', $token, "round $round: a token of an open transaction");
	my $renewed = session($node)->query("SELECT expires_at FROM fencing.renew('crash $round', $token, '2 hours')");

	kill_all();

	$client = session($node);
	gives($client, "SELECT token FROM fencing.leases WHERE resource = 'crash $round'",
		$token, "round $round: the lease survives the crash");
	gives($client, "SELECT expires_at FROM fencing.leases WHERE resource = 'crash $round'",
		$renewed, "round $round: with the time that a renewal gave it");
	gives($client, "SELECT fencing.try_acquire('crash $round') IS NULL", 't', "round $round: it is held");
	gives($client, "SELECT count(*) FROM fencing.leases WHERE resource = 'open'",
		'0', "round $round: what was not committed is not");
	$last = $client->query("SELECT token FROM fencing.acquire('other', '1 us')");
	cmp_ok($last, '>', $open, "round $round: no token comes twice");
	gives($client, "SELECT fencing.release('crash $round', $token)", 't', "round $round: the holder releases it");
	$client->quit;
}

#
# a killed holder frees its resource at the end of its lease
#
my $holder = session($node);
$holder->query("SELECT fencing.acquire('killed', '2 s', '0', 'h')");
my $next = session($node);
$next->send_sql("SELECT extract('epoch' FROM acquired_at) FROM fencing.acquire('killed', '1 hour', '1 min', 'next')");
my $ends = $node->safe_psql('postgres',
	"SELECT extract('epoch' FROM expires_at) FROM fencing.leases WHERE resource = 'killed'");
$node->safe_psql('postgres', "SELECT pg_terminate_backend($holder->{pid})");
my $taken = $next->finish;
cmp_ok($taken, '>=', $ends, 'not before it has ended');
cmp_ok($taken, '<', $ends + 1, 'and then at once');
$next->quit;

#
# failover to a standby that missed the last ones
#
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
my $kept = $node->safe_psql('postgres', "SELECT token FROM fencing.acquire('kept', '1 hour', '0', 'h')");
$node->wait_for_catchup($standby, 'replay', $node->lsn('write'));

my $reader = session($standby);
gives($reader, "SELECT resource, token, holder, expired FROM fencing.leases WHERE resource = 'kept'",
	"kept|$kept|h|f", 'the standby shows the lease');
for ("fencing.acquire('kept')", "fencing.try_acquire('new')", "fencing.renew('kept', $kept)",
	"fencing.release('kept', $kept)", "fencing.revoke('kept')", "fencing.acquire('new', wait => '1 hour')",
	"fencing.purge_leases('0')")
{
	refused($reader, "SELECT $_", '25006', "standby: $_");
}
$reader->quit;

$standby->stop;
my $lost = 0;
$lost = $node->safe_psql('postgres', "SELECT token FROM fencing.acquire('lost $_', '1 hour', '0', 'h')")
  for 1 .. 100;
my $revoked = $node->safe_psql('postgres', "SELECT fencing.revoke('kept')");
$node->stop('immediate');
$standby->start;
$standby->promote;
# the first checkpoint of the new timeline may still be on its way
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');

my $client = session($standby);
gives($client, "SELECT fencing.try_acquire('kept') IS NULL", 't', 'a lease that got there is held after the failover');
gives($client, "SELECT token FROM fencing.renew('kept', $kept)", $kept, 'and renewed by who knows its token');
my $new = $client->query("SELECT token FROM fencing.acquire('lost 100')");
cmp_ok($new, '>', $lost, 'a resource whose lease was lost gets a larger token');
cmp_ok($new, '>', $revoked, 'larger than any the old server handed out');
cmp_ok($new, '<', 2**53, 'and one that a double holds');
cmp_ok($client->query("SELECT fencing.next_token('kept')"), '>', $new, 'tokens go on from there');

#
# dump and restore into another server
#
$client->query("SELECT fencing.claim('marked', 5000000000000)");
my $dumped = $client->query("SELECT token FROM fencing.acquire('dumped', '1 hour', '0', 'h')");
cmp_ok($dumped, '>', $new, 'one more token');
my $dump = "$PostgreSQL::Test::Utils::tmp_check/leases.dump";
for my $format ('plain', 'custom')
{
	command_ok([ 'pg_dump', '-d', $standby->connstr('postgres'), '-F', $format, '-f', $dump ],
		"$format: dumped");
	my $other = PostgreSQL::Test::Cluster->new("other_$format");
	$other->init;
	$other->start;
	command_ok(
		$format eq 'plain'
		? [ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $other->connstr('postgres'), '-f', $dump ]
		: [ 'pg_restore', '--exit-on-error', '-d', $other->connstr('postgres'), $dump ],
		"$format: restored without an error");
	my $there = session($other);
	gives($there, 'SELECT count(*) FROM fencing.leases', '0', "$format: a restored lease has no holder");
	my $first = $there->query("SELECT token FROM fencing.acquire('dumped', '1 hour')");
	cmp_ok($first, '>', $dumped, "$format: so it can be acquired, with a token above the dumped ones");
	cmp_ok($there->query("SELECT token FROM fencing.acquire('marked')"), '>', 5000000000000,
		"$format: and above every mark");
	$there->quit;
	$other->stop;
}

# a copy inside the server
$client->quit;
$standby->safe_psql('template1', 'CREATE DATABASE copy TEMPLATE postgres');
my $copy = session($standby, dbname => 'copy');
gives($copy, 'SELECT count(*) FROM fencing.leases', '0', 'a copied database has no leases');
cmp_ok($copy->query("SELECT token FROM fencing.acquire('dumped')"), '>', $dumped, 'and hands out larger tokens');
$copy->quit;

$standby->stop;
done_testing();
