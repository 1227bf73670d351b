# A mark is as durable as the write that raised it.
#
# Clients raise a row mark and a resource mark and take tokens, one after
# another, and keep the numbers that the server acknowledged.  The server is
# killed under them, in three ways.  After recovery no mark is below what was
# acknowledged, marks that were raised but not committed are as before, an
# older write is refused, and no token is handed out a second time.

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
$node->init;
$node->append_conf('postgresql.conf', "restart_after_crash = on");
# Nothing reaches the disk by itself soon.
$node->append_conf('postgresql.conf', "wal_writer_delay = 10s");
$node->append_conf('postgresql.conf', "checkpoint_timeout = 1h");
$node->start;

$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION fencing;
	CREATE TABLE job (id int PRIMARY KEY, done bigint NOT NULL DEFAULT 0);
	SELECT fencing.fence('job');
	INSERT INTO job (id, fence_token) VALUES (1, 1), (2, 7);
	CREATE TABLE entry (n bigint);
	SELECT fencing.fence('entry', 'ledger', mark => 'resource');
	SELECT fencing.claim('ledger', 1);
	SELECT fencing.claim('open', 7);
});

# psql that runs a script and writes what it is told into a file.  It ends with
# the connection.
my $files = 0;

sub start_client
{
	my ($script) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/client_" . ++$files;

	append_to_file("$file.sql", $script);
	my $run = IPC::Run::start(
		[
			$node->installed_command('psql'), '-XAt',
			'-d', $node->connstr('postgres'), '-f', "$file.sql"
		],
		'>', "$file.out", '2>', "$file.err");

	return { run => $run, file => "$file.out" };
}

sub client_output
{
	my ($client) = @_;

	wait_for_end($client->{run});
	return slurp_file($client->{file});
}

sub wait_until_gone
{
	for my $pid (@_)
	{
		for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
		{
			last if !kill 0, $pid;
			sleep 0.1;
		}
	}
	return;
}

# The three ways to end a server that is in the middle of something.
my %crash = (
	'immediate shutdown' => sub {
		$node->stop('immediate');
		$node->start;
	},
	'SIGKILL of the server and of a backend' => sub {
		my ($backend) = @_;
		my ($postmaster) =
		  slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
		my @children = split /\n/,
		  $node->safe_psql('postgres', 'SELECT pid FROM pg_stat_activity');

		$node->kill9;
		kill 'KILL', $backend;
		# Its children see that it is gone and end; a server that is started
		# before they have refuses.
		wait_until_gone($postmaster, @children);
		$node->start;
	},
	'SIGKILL of a backend' => sub {
		my ($backend) = @_;

		kill 'KILL', $backend;
		# All other backends are ended, and the server recovers by itself.
		sleep 0.2;
		$node->poll_query_until('postgres', 'SELECT true');
	});

my $last = 1;
my $highest_token = 0;
my $acknowledged_in_all = 0;
srand(42);

for my $how ((sort keys %crash) x 2)
{
	# A transaction that is under way when the server ends.
	my $open = session($node);
	$open->query(
		q{BEGIN;
		UPDATE job SET done = 1000000, fence_token = 1000000 WHERE id = 2;
		SELECT fencing.claim('open', 1000000)});
	is($open->state, '00000', "$how: a transaction is open");

	my $writer = start_client(
		join '',
		map {
			"\\echo next $_\nBEGIN;\n"
			  . "UPDATE job SET done = $_, fence_token = $_ WHERE id = 1;\n"
			  . "SELECT fencing.claim('ledger', $_);\n"
			  . "INSERT INTO entry VALUES ($_);\nCOMMIT;\n"
		} $last + 1 .. $last + 5000);
	# every other transaction is rolled back; its token counts all the same
	my $taker = start_client(
		join '',
		map {
			"SELECT 'token ' || fencing.next_token('job');\n"
			  . "BEGIN;\nSELECT 'token ' || fencing.next_token('job');\nROLLBACK;\n"
		} 1 .. 5000);

	# Some way into the work of both; the session that is open sees it, too.
	my $writes = $last + 5 + int rand 200;
	my $tokens = $highest_token + 5 + int rand 200;
	my $there = 0;
	for (1 .. 50 * $PostgreSQL::Test::Utils::timeout_default)
	{
		last
		  if $there = $open->query(
			"SELECT (SELECT fence_token >= $writes FROM job WHERE id = 1)"
			  . " AND (SELECT last_value >= $tokens FROM fencing.token_sequence)") eq 't';
		sleep 0.02;
	}
	ok($there, "$how: clients are at work");
	$crash{$how}->($open->pid);

	my $written = client_output($writer);
	my $taken = client_output($taker);
	my ($acknowledged) = $written =~ /.*^next (\d+)\nBEGIN\nUPDATE 1\n\nINSERT 0 1\nCOMMIT\n/ms;
	ok(defined $acknowledged && $acknowledged < $last + 5000,
		"$how: writes were acknowledged, and it hit the client");
	$acknowledged_in_all += $acknowledged - $last;
	for ($taken =~ /^token (\d+)$/mg)
	{
		$highest_token = $_ if $_ > $highest_token;
	}

	my $after = session($node);
	my $row = $after->query('SELECT fence_token FROM job WHERE id = 1');
	my $resource = $after->query("SELECT fencing.mark('ledger')");
	cmp_ok($row, '>=', $acknowledged, "$how: row mark");
	cmp_ok($row, '<=', $acknowledged + 1, "$how: row mark is not above what was sent");
	is($resource, $row, "$how: resource mark of the same transaction");
	gives($after, 'SELECT done FROM job WHERE id = 1',
		$row, "$how: row and mark belong together");
	gives($after, 'SELECT count(*), max(n) FROM entry',
		($row - 1) . "|$row", "$how: rows under the resource mark");

	refused($after,
		"UPDATE job SET done = 0, fence_token = $acknowledged - 1 WHERE id = 1",
		'ZF001', "$how: older write, row mark");
	refused($after,
		"BEGIN; SELECT fencing.present('ledger', $acknowledged - 1);"
		  . "INSERT INTO entry VALUES (0); COMMIT",
		'ZF001', "$how: older write, resource mark");
	refused($after, "SELECT fencing.claim('ledger', $acknowledged - 1)",
		'ZF001', "$how: older claim");

	gives($after, 'SELECT done, fence_token FROM job WHERE id = 2',
		'0|7', "$how: row mark that was not committed");
	gives($after, "SELECT fencing.mark('open')",
		'7', "$how: resource mark that was not committed");
	accepted($after, "SELECT fencing.claim('open', 7)",
		"$how: the open transaction holds no lock any more");

	my $token = $after->query("SELECT fencing.next_token('job')");
	cmp_ok($token, '>', $highest_token, "$how: next token");
	$highest_token = $token;

	$last = $row;
	$after->quit;
	$open->quit;
}
cmp_ok($acknowledged_in_all, '>', 50, 'enough was written to mean something');

# Tokens whose transaction did not commit, with nobody else around whose commit
# would take the sequence's WAL along.
for my $end ('ROLLBACK', 'SELECT 1')
{
	my $taker = session($node);
	my $out = $taker->query(
		"BEGIN; SELECT fencing.next_token('job') FROM generate_series(1, 100); $end");
	my ($highest) = sort { $b <=> $a } split /\n/, $out;

	cmp_ok($highest, '>=', $highest_token + 100, "tokens taken before $end");
	$node->stop('immediate');
	$node->start;
	$taker->quit;

	my $after = session($node);
	my $token = $after->query("SELECT fencing.next_token('job')");
	cmp_ok($token, '>', $highest, "after $end and a crash, next token");
	$highest_token = $token > $highest ? $token : $highest;
	$after->quit;
}

$node->stop;
done_testing();
