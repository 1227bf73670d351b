# Waiting for a lease: everybody is served, one at a time, whoever is told to
# stop stops at once and holds nothing, and those who wait cost nothing.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use IPC::Run;
use List::Util qw(sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $waiters = 200;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', 'max_connections = ' . ($waiters + 20));
# A deadlock check by each of them would be most of what they do.
$node->append_conf('postgresql.conf', 'deadlock_timeout = 10s');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION fencing');

my $admin = session($node);
my $holder = session($node);

# Waits until a session waits for a lease: the first in line by itself, the
# others in the lock manager.
sub wait_until_waiting
{
	my ($session, $type) = @_;

	return $node->poll_query_until('postgres',
		"SELECT wait_event_type = '$type' FROM pg_stat_activity WHERE pid = $session->{pid}");
}

#
# Giving up
#
my %places = (
	'first, for the end of a lease' => {
		type => 'Extension',
		before => "SELECT fencing.acquire('r', '1 hour', '0', 'h')",
		after => "SELECT fencing.release(resource, token) FROM fencing.leases"
	},
	'first, for another transaction' => {
		type => 'Lock',
		before => "BEGIN; SELECT fencing.acquire('r', '1 hour', '0', 'h')",
		after => 'ROLLBACK'
	},
	'behind another' => {
		type => 'Lock',
		before => "SELECT fencing.acquire('r', '1 hour', '0', 'h')",
		after => "SELECT fencing.release(resource, token) FROM fencing.leases",
		behind => 1
	});

for my $place (sort keys %places)
{
	my ($type, $before, $after, $behind) = @{ $places{$place} }{ 'type', 'before', 'after', 'behind' };
	my $first = session($node);
	my %took;

	$holder->query($before);
	if ($behind)
	{
		$first->send_sql("SELECT fencing.acquire('r', '1 hour', '1 hour')");
		wait_until_waiting($first, 'Extension');
	}
	for my $round (1 .. 5)
	{
		my $waiter = session($node);
		my $begun;

		# a cancel
		$waiter->query('BEGIN; SAVEPOINT s');
		$waiter->send_sql("SELECT fencing.acquire('r', '1 hour', '1 hour')");
		wait_until_waiting($waiter, $type);
		$begun = time;
		$admin->query("SELECT pg_cancel_backend($waiter->{pid})");
		$waiter->finish;
		push @{ $took{cancel} }, time - $begun;
		is($waiter->state, '57014', "$place, $round: canceled");
		gives($waiter,
			"ROLLBACK TO s; SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()"
			  . " AND (locktype IN ('object', 'tuple', 'transactionid') AND mode <> 'ExclusiveLock' OR locktype = 'object')",
			'0', "$place, $round: who gave up holds nothing");
		$waiter->query('ROLLBACK');

		# the time limits
		for ([ 'statement_timeout', '57014' ], [ 'lock_timeout', '55P03' ])
		{
			my ($setting, $state) = @$_;

			$waiter->query("SET $setting = '200ms'");
			$begun = time;
			refused($waiter, "SELECT fencing.acquire('r', '1 hour', '1 hour')",
				$state, "$place, $round: $setting");
			push @{ $took{$setting} }, time - $begun - 0.2;
			$waiter->query("RESET $setting");
		}
		$begun = time;
		refused($waiter, "SELECT fencing.acquire('r', '1 hour', '200 ms')",
			'55P03', "$place, $round: the call's own limit");
		push @{ $took{wait} }, time - $begun - 0.2;
		like($waiter->messages, qr/lease on resource "r" is busy/, "$place, $round: which is told as that");

		# the end of the session
		$waiter->send_sql("SELECT fencing.acquire('r', '1 hour', '1 hour')");
		wait_until_waiting($waiter, $type);
		$begun = time;
		$admin->query("SELECT pg_terminate_backend($waiter->{pid})");
		$waiter->finish;
		push @{ $took{terminate} }, time - $begun;
		is($waiter->state, '57P01', "$place, $round: terminated");
		$waiter->quit;
	}
	for my $how (sort keys %took)
	{
		my ($median) = (sort { $a <=> $b } @{ $took{$how} })[2];

		cmp_ok($median, '<', 0.1, "$place: $how ends the wait within 100 ms")
		  || diag("took @{ $took{$how} } s");
		cmp_ok((sort { $a <=> $b } @{ $took{$how} })[0], '>', -0.01, "$place: $how, not before its time");
	}
	if ($behind)
	{
		$admin->query("SELECT pg_cancel_backend($first->{pid})");
		$first->finish;
	}
	$first->quit;
	$holder->query($after);
	gives($admin, "SELECT fencing.release('r', token) FROM fencing.try_acquire('r')",
		't', "$place: nobody is left in the way");
}

#
# A holder that is gone
#
my $dying = session($node);
$dying->query("BEGIN; SELECT fencing.acquire('dying', '1 hour', '0', 'h')");
my $heir = session($node);
$heir->send_sql("SELECT holder FROM fencing.acquire('dying', '1 hour', '1 min', 'heir')");
wait_until_waiting($heir, 'Lock');
my $begun = time;
$admin->query("SELECT pg_terminate_backend($dying->{pid})");
is($heir->finish, 'heir', 'a lease that was not committed ends with its session');
cmp_ok(time - $begun, '<', 1, 'at once');
$dying->quit;

# revoked
$holder->query("SELECT fencing.acquire('revoked', '1 hour', '0', 'h')");
$heir->send_sql("SELECT holder FROM fencing.acquire('revoked', '1 hour', '1 min', 'heir')");
wait_until_waiting($heir, 'Extension');
$begun = time;
$admin->query("SELECT fencing.revoke('revoked')");
is($heir->finish, 'heir', 'a lease that was revoked is free');
cmp_ok(time - $begun, '<', 1, 'at once');

# deleted by hand, which wakes nobody
$holder->query("SELECT fencing.acquire('deleted', '1 hour', '0', 'h')");
$heir->send_sql("SELECT holder FROM fencing.acquire('deleted', '1 hour', '1 min', 'heir')");
wait_until_waiting($heir, 'Extension');
$begun = time;
$admin->query("DELETE FROM fencing.issued WHERE resource = 'deleted'");
is($heir->finish, 'heir', 'a lease whose row was deleted is free');
cmp_ok(time - $begun, '<', 1, 'soon');
$heir->quit;

# advisory locks are somebody else's
my $advisory = session($node);
$advisory->query('SELECT pg_advisory_lock(n) FROM generate_series(1, 100) n');
gives($admin, "SELECT holder FROM fencing.acquire('advisory', holder => 'h')", 'h',
	'advisory locks are no hindrance');
$holder->send_sql("SELECT fencing.acquire('advisory', '1 hour', '1 hour')");
wait_until_waiting($holder, 'Extension');
gives($advisory, "SELECT count(*) FROM pg_locks WHERE pid = $holder->{pid} AND locktype = 'advisory'",
	'0', 'nor does a wait take one');
$admin->query("SELECT pg_cancel_backend($holder->{pid})");
$holder->finish;
$advisory->quit;

#
# Many at once
#
$admin->query(q{
	CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL);
	INSERT INTO counter VALUES (1, 0);
	SELECT fencing.fence('counter', 'counter', mark => 'resource', issuer => 'database');
	CREATE TABLE served (token bigint PRIMARY KEY, began timestamptz NOT NULL, ended timestamptz NOT NULL, came int NOT NULL);
});

# Each waits for the lease, works for 100 ms, adds one to what it has read when
# it began (a second holder at the same time would make one of them lost), and
# releases it.
my $script = "$PostgreSQL::Test::Utils::tmp_check/waiter.sql";
append_to_file(
	$script, q{
	SELECT token, clock_timestamp() AS began FROM fencing.acquire('counter', '1 min', '5 min') \gset
	BEGIN;
	SELECT fencing.claim('counter', :token);
	SELECT n FROM counter \gset
	COMMIT;
	SELECT pg_sleep(0.1);
	BEGIN;
	SELECT fencing.present('counter', :token);
	UPDATE counter SET n = :n + 1;
	INSERT INTO served VALUES (:token, :'began', clock_timestamp(), :came);
	SELECT fencing.release('counter', :token);
	COMMIT;
});

$admin->query("SELECT token FROM fencing.acquire('counter', '1 hour', '0', 'gate')");
my $gate = $admin->query("SELECT token FROM fencing.leases WHERE resource = 'counter'");
my @clients;
for my $came (1 .. $waiters)
{
	my ($in, $out) = ('', '');
	push @clients,
	  IPC::Run::start(
		[
			$node->installed_command('psql'), '-XAtq', '-v', 'ON_ERROR_STOP=1',
			'-v', "came=$came", '-d', $node->connstr('postgres'), '-f', $script
		],
		'<', \$in, '>', '/dev/null', '2>', \$out);
}
ok( $node->poll_query_until(
		'postgres', "SELECT count(*) = $waiters FROM pg_stat_activity WHERE wait_event_type IN ('Extension', 'Lock')"),
	"$waiters sessions wait");

# What the server's processes have used of a CPU while they do.
sub cpu_seconds
{
	my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	my $ns = 0;

	for my $pid (split ' ', slurp_file("/proc/$postmaster/task/$postmaster/children"))
	{
		my $stat = eval { slurp_file("/proc/$pid/schedstat") };
		$ns += (split ' ', $stat)[0] if defined $stat;
	}
	return $ns / 1e9;
}

my ($cpu, $clock) = (cpu_seconds(), time);
sleep 3;
my $share = (cpu_seconds() - $cpu) / (time - $clock);
note(sprintf "%d sessions waiting: %.2f %% of one CPU", $waiters, 100 * $share);
cmp_ok($share, '<', 0.1, 'those who wait use less than a tenth of one CPU, all of them together')
  || diag(sprintf '%.1f %%', 100 * $share);

my @first_in_line = split /\n/, $admin->query(
	"SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%fencing.acquire%'");
is(scalar @first_in_line, 1, 'one of them looks at the lease');

gives($admin, "SELECT fencing.release('counter', $gate)", 't', 'the way is free');
is(sum0(map { $_->finish ? 0 : 1 } @clients), 0, 'every one of them is served');
gives($admin, 'SELECT n FROM counter', $waiters, 'no two at once: no update is lost');
gives($admin, 'SELECT count(*), count(DISTINCT token) FROM served', "$waiters|$waiters", 'each with a token of its own');
gives($admin,
	'SELECT count(*) FROM (SELECT began < lag(ended) OVER (ORDER BY token) AS early FROM served) s WHERE early',
	'0', 'in the order of the tokens, none begins before the one before has ended');
my $hand_off = $admin->query(
	"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) FROM (SELECT extract('epoch' FROM began"
	  . " - lag(ended) OVER (ORDER BY token)) * 1000 AS ms FROM served) s");
note("from a release to the next grant: median $hand_off ms");
cmp_ok($hand_off, '<', 20, 'the next one is woken, it does not poll');

$admin->quit;
$holder->quit;
$node->stop;
done_testing();
