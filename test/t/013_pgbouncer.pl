# Behind pgbouncer in transaction mode, one backend serves many clients, and the
# transactions of one client are served by many backends.  Nothing that a client
# has presented or begun is met by the next one, leases are held and given back
# from any connection, and a client that is killed leaves nothing behind.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my ($pgbouncer) = grep { -x $_ } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';
plan skip_all => 'no pgbouncer' if !defined $pgbouncer;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
# A backend learns that its client is gone while it waits.
$node->append_conf('postgresql.conf', "client_connection_check_interval = '200ms'");
$node->start;
$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION fencing;
	CREATE TABLE job (id int PRIMARY KEY, note text);
	SELECT fencing.fence('job', 'job:{id}');
	INSERT INTO job (id, note) VALUES (1, 'first');
	CREATE TABLE entry (n int);
	SELECT fencing.fence('entry', 'ledger', mark => 'resource');
});

my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $port = $node->port;
my $user = $node->safe_psql('postgres', 'SELECT current_user');
append_to_file("$dir/users.txt", qq{"$user" ""\n});
append_to_file(
	"$dir/pgbouncer.ini", qq{
[databases]
one = host=${\ $node->host} port=$port dbname=postgres pool_size=1
two = host=${\ $node->host} port=$port dbname=postgres pool_size=2
[pgbouncer]
pool_mode = transaction
listen_addr =
listen_port = $port
unix_socket_dir = $dir
auth_type = trust
auth_file = $dir/users.txt
max_client_conn = 100
logfile = $dir/log
pidfile = $dir/pid
});
my $out = '';
my $bouncer = IPC::Run::start([ $pgbouncer, "$dir/pgbouncer.ini" ], '>', \$out, '2>&1');
for (1 .. 100)
{
	last if -S "$dir/.s.PGSQL.$port";
	sleep 0.1;
}

sub client
{
	my ($database) = @_;

	return session($node, connstr => "host=$dir port=$port dbname=$database user=$user");
}

# kill -9, as a client's machine that is switched off.
sub kill_client
{
	my ($client) = @_;

	$client->{run}->signal('KILL');
	eval { $client->{run}->finish };
	return;
}

#
# what is presented ends with the transaction
#
my ($one, $two) = (client('one'), client('one'));
is($two->pid, $one->pid, 'two clients share a backend');
accepted($one,
	"BEGIN; SELECT fencing.present('job:1', 5); UPDATE job SET note = 'a' WHERE id = 1; COMMIT",
	'a client presents and writes');
gives($two, 'SELECT count(*) FROM fencing.presented()', '0', 'the next one has presented nothing');
refused($two, "UPDATE job SET note = 'b' WHERE id = 1", 'ZF002', 'and has to');
accepted($one, "BEGIN; SELECT fencing.claim('ledger', 7); INSERT INTO entry VALUES (1); COMMIT",
	'a client claims and writes');
refused($two, 'INSERT INTO entry VALUES (2)', 'ZF002', 'the next one has claimed nothing');
accepted($one,
	"BEGIN; SET LOCAL fencing.deadline = '2000-01-01 00:00+00'; SET LOCAL fencing.stale_aborts = on; ROLLBACK",
	'a client has a deadline');
accepted($two, "BEGIN; SELECT fencing.present('job:1', 6); UPDATE job SET note = 'c' WHERE id = 1; COMMIT",
	'the next one has none');

#
# killed in the middle of a transaction
#
$one->query("BEGIN; SELECT fencing.claim('ledger', 8); INSERT INTO entry VALUES (3);"
	  . "SELECT fencing.acquire('r', '1 hour'); SELECT fencing.begin_command('s', 'k')");
is($one->state, '00000', 'a client is in the middle of it');
my $backend = $one->query('SELECT pg_backend_pid()');
kill_client($one);
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $backend");
gives($two, "SELECT fencing.mark('ledger'), count(*) FROM entry", '7|1', 'killed, nothing of it happened');
gives($two, "SELECT fencing.try_acquire('r', '1 us') IS NOT NULL", 't', 'its lease is free');
gives($two, 'SELECT count(*) FROM fencing.presented()', '0', 'nothing is presented');
gives($two, "BEGIN; SELECT state FROM fencing.begin_command('s', 'k'); ROLLBACK", 'new', 'its command is new');
accepted($two, "BEGIN; SELECT fencing.claim('ledger', 8); COMMIT", 'its mark is free');
$two->quit;

#
# leases belong to no connection
#
($one, $two) = (client('two'), client('two'));
my $token = $one->query("SELECT token FROM fencing.acquire('lease', '1 hour', '0', 'h')");
like($token, qr/^\d+$/, 'a client acquires');
$one->query('BEGIN; SELECT 1');
isnt($two->query('SELECT pg_backend_pid()'), $one->query('SELECT pg_backend_pid()'), 'there are two backends');
gives($two, "SELECT fencing.try_acquire('lease') IS NULL", 't', 'it is busy on the other one');
gives($two, "SELECT token FROM fencing.renew('lease', $token, '2 hours')", $token, 'and is renewed there');
$one->query('COMMIT');
kill_client($one);
gives($two, "SELECT fencing.try_acquire('lease') IS NULL", 't', 'a client that is killed still holds it');
gives($two, "SELECT fencing.release('lease', $token)", 't', 'who knows the token releases it');

# killed while it waits
$token = $two->query("SELECT token FROM fencing.acquire('lease', '1 hour', '0', 'h')");
$one = client('two');
$one->send_sql("SELECT fencing.acquire('lease', '1 hour', '1 hour')");
ok( $node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%acquire%'"),
	'a client waits');
kill_client($one);
ok( $node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%acquire%'"),
	'killed, it waits no more');
accepted($two, "SELECT fencing.release('lease', $token)", 'the holder releases');
gives($two, "SELECT holder FROM fencing.try_acquire('lease', '1 us', 'next')", 'next', 'and nobody is in the way');

# commands: the outcome is there for whoever asks
$two->query("BEGIN; SELECT token FROM fencing.begin_command('s', 'done') \\gset\n"
	  . "SELECT fencing.finish_command('s', 'done', '1', :token); COMMIT");
$one = client('one');
gives($one, "SELECT state, outcome FROM fencing.begin_command('s', 'done')", 'done|1', 'a command is known to every client');

#
# many at once, some of them killed
#
my $script = "$PostgreSQL::Test::Utils::tmp_check/bouncer.sql";
append_to_file($script, q{
	SELECT token FROM fencing.acquire('busy', '300 ms', '30 s') \gset
	BEGIN;
	SELECT fencing.claim('ledger', :token + 1000);
	INSERT INTO entry VALUES (4);
	SELECT fencing.release('busy', :token);
	COMMIT;
});
my @clients;
for (1 .. 20)
{
	my ($in, $ignored) = ('', '');
	push @clients, IPC::Run::start(
		[ $node->installed_command('psql'), '-XAtq', '-v', 'ON_ERROR_STOP=1',
			'-d', "host=$dir port=$port dbname=two user=$user", '-f', $script ],
		'<', \$in, '>', \$ignored, '2>&1');
}
sleep 0.05;
for my $n (0, 5, 10, 15)
{
	$clients[$n]->signal('KILL');
}
my $begun = time;
my $served = 0;
for my $client (@clients)
{
	eval { $client->finish };
	$served++ if $client->full_result(0) == 0;
}
cmp_ok($served, '>=', 16, 'every client that was not killed is served');
cmp_ok(time - $begun, '<', 30, 'none waits for a killed one longer than its lease');
my $entries = $node->safe_psql('postgres', 'SELECT count(*) FROM entry WHERE n = 4');
cmp_ok($entries, '>=', $served, 'as many entries as commits that were told');
gives($two, 'SELECT count(*) FROM fencing.presented()', '0', 'and nothing is left presented');

$one->quit;
$two->quit;
$bouncer->signal('TERM');
eval { $bouncer->finish };
$node->stop;
done_testing();
