# One key, many callers: one effect, and everybody gets its outcome, at every
# isolation level, whatever becomes of the first.

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
$node->append_conf('postgresql.conf', "max_prepared_transactions = 5\nfsync = off\n");
$node->start;
$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION fencing;
	CREATE TABLE counter (n int NOT NULL);
	INSERT INTO counter VALUES (0);
	CREATE TABLE answer (key text, state text, outcome jsonb);

	-- What an application does: the effect is a number that rises by one.
	CREATE FUNCTION handle(command_key text, nowait boolean DEFAULT false) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		c record;
		made jsonb;
	BEGIN
		SELECT * INTO c FROM fencing.begin_command('shop', command_key, to_jsonb(command_key), nowait => nowait);
		IF c.state = 'new' THEN
			UPDATE counter SET n = n + 1 RETURNING to_jsonb(n) INTO made;
			PERFORM pg_sleep(0.05);
			PERFORM fencing.finish_command('shop', command_key, made, c.token);
		END IF;
		RETURN c.state || ' ' || coalesce(c.outcome, made);
	END $$;
});
my $admin = session($node);
my @clients = map { session($node) } 1 .. 50;
my $effects = 0;

# All at once: they wait for a lock that is given up when all have been sent
# off.  Returns how often each answer came.
sub all_at_once
{
	my ($begin, $call, @who) = @_;
	my %answers;

	$admin->query('SELECT pg_advisory_lock(1)');
	$_->send_sql("SELECT pg_advisory_lock_shared(1) \\g /dev/null\n"
		  . "SELECT pg_advisory_unlock_shared(1) \\g /dev/null\n"
		  . "$begin;\n$call;\nCOMMIT") for @who;
	$node->poll_query_until('postgres',
		"SELECT count(*) = " . @who . " FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
	  or die "clients do not come";
	$admin->query('SELECT pg_advisory_unlock(1)');
	for my $client (@who)
	{
		my $out = $client->finish;

		$out = $client->state if $client->state ne '00000';
		$answers{$out}++;
	}
	return \%answers;
}

#
# 50 calls with one key, then the same where the first are rolled back
#
for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	my $key = "one $level";
	my $answers = all_at_once("BEGIN ISOLATION LEVEL $level", "SELECT handle('$key')", @clients);
	my $n = ++$effects;

	if ($level eq 'READ COMMITTED')
	{
		is_deeply($answers, { "new $n" => 1, "done $n" => 49 }, "$level: one effect, 49 replays");
	}
	else
	{
		# nothing but these, and a failed one is right when retried
		is($answers->{"new $n"}, 1, "$level: one is new");
		is(50 - ($answers->{"done $n"} // 0) - ($answers->{40001} // 0), 1, "$level: the others get its outcome, or 40001")
		  or diag(explain($answers));
		is_deeply(all_at_once("BEGIN ISOLATION LEVEL $level", "SELECT handle('$key')", @clients),
			{ "done $n" => 50 }, "$level: retried, all get it");
	}
	gives($admin, 'SELECT n FROM counter', $n, "$level: the counter has risen by one");
}

# Whoever is first rolls back, and the next one, and so on, five times.
$admin->query(q{CREATE SEQUENCE attempt;
	CREATE FUNCTION fail_at_first() RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF nextval('attempt') <= 5 THEN RAISE division_by_zero; END IF;
	END $$});
my $answers = all_at_once(
	'BEGIN',
	"SELECT handle('failing') \\gset\nSELECT CASE WHEN :'handle' LIKE 'new%' THEN fail_at_first() END \\g /dev/null\n\\echo :handle\nSELECT 1 \\g /dev/null",
	@clients);
$effects++;
my ($new) = grep { /^new/ } keys %$answers;
is($answers->{"new $effects"}, 1, 'five rolled back: one is new') or diag(explain($answers));
is($answers->{22012}, 5, '... five have failed');
is($answers->{"done $effects"}, 44, '... 44 get the outcome');
gives($admin, 'SELECT n FROM counter', $effects, '... the counter has risen by one');

#
# the form that does not wait
#
$answers = all_at_once('BEGIN', "SELECT handle('no wait', true)", @clients);
$effects++;
is($answers->{"new $effects"}, 1, 'no wait: one is new');
is(50 - ($answers->{"done $effects"} // 0) - ($answers->{ZF008} // 0), 1, '... the others are told that it is in progress, or its outcome')
  or diag(explain($answers));
cmp_ok($answers->{ZF008} // 0, '>', 0, '... some did not wait');
gives($admin, 'SELECT n FROM counter', $effects, '... the counter has risen by one');

#
# many commands, each from several at once
#
my @five = @clients[ 0 .. 4 ];
$answers = all_at_once('BEGIN', "SELECT count(handle('many ' || i)) FROM generate_series(1, 10) AS i", @five);
$effects += 10;
is_deeply($answers, { 10 => 5 }, 'ten commands in a transaction, the same from five at once');
gives($admin, 'SELECT n FROM counter', $effects, '... each has its effect once');

#
# a waiter that gives up
#
my ($first, $second, $third) = @clients;
$first->query("BEGIN; SELECT handle('held')");
refused($second, "SET statement_timeout = '300 ms'; SELECT handle('held')", '57014', 'a waiter has its time limit');
refused($second, "RESET statement_timeout; SET lock_timeout = '300 ms'; SELECT handle('held')", '55P03', 'for locks, too');
$second->query('RESET lock_timeout');
$second->send_sql("SELECT handle('held')");
wait_until_blocked($second, 'it waits');
$admin->query('SELECT pg_cancel_backend(' . $second->pid . ')');
$second->finish;
is($second->state, '57014', 'and can be cancelled');
$third->send_sql("SELECT handle('held')");
wait_until_blocked($third, 'another one waits');
$first->query('COMMIT');
$effects++;
is($third->finish, "done $effects", 'and gets the outcome');
gives($second, "SELECT handle('held')", "done $effects", 'so does the one that gave up');

#
# a call repeated in the transaction that others wait for
#
$first->query("BEGIN; SELECT handle('again')");
$second->send_sql("SELECT handle('again')");
wait_until_blocked($second, 'a duplicate waits');
$effects++;
gives($first, "SELECT handle('again')", "done $effects", 'repeated in the same transaction: done, no deadlock');
accepted($first, 'COMMIT', '... which commits');
is($second->finish, "done $effects", '... the duplicate gets the outcome');
is($second->state, '00000', '... without an error');

# the same for finish
$first->query("BEGIN; SELECT token FROM fencing.begin_command('shop', 'finish again') \\gset\nSELECT fencing.finish_command('shop', 'finish again', '1', :token)");
$second->send_sql("SELECT outcome FROM fencing.begin_command('shop', 'finish again')");
wait_until_blocked($second, 'a duplicate waits');
gives($first, "SELECT fencing.finish_command('shop', 'finish again', '1', :token)", 'f', 'finished again in the same transaction: it was, no deadlock');
accepted($first, 'COMMIT', '... which commits');
is($second->finish, '1', '... the duplicate gets the outcome');

#
# a worker whose connection ends between begin and finish
#
$first = session($node);
$first->query("BEGIN; SELECT token FROM fencing.begin_command('shop', 'lost') \\gset\nUPDATE counter SET n = n + 1");
$second->send_sql("SELECT handle('lost')");
wait_until_blocked($second, 'a duplicate waits for a worker');
$admin->query('SELECT pg_terminate_backend(' . $first->pid . ')');
$effects++;
is($second->finish, "new $effects", 'whose backend is terminated: the key is free at once, and there was no effect');

#
# prepared transactions
#
$first = session($node);
$first->query("BEGIN; SELECT handle('prepared'); PREPARE TRANSACTION 'p'");
is($first->state, '00000', 'a finished command can be prepared');
$second->send_sql("SELECT handle('prepared')");
wait_until_blocked($second, 'a duplicate waits for a prepared transaction');
refused($third, "SELECT handle('prepared', true)", 'ZF008', '... or is told that it is in progress');
$admin->query("COMMIT PREPARED 'p'");
$effects++;
is($second->finish, "done $effects", '... and gets its outcome');
refused($first, "BEGIN; SELECT fencing.begin_command('shop', 'half'); PREPARE TRANSACTION 'h'", '55000', 'one that is not finished cannot be prepared');
$first->query('ROLLBACK');

#
# a crash: what was committed is there, what was not is gone
#
$first->query("SELECT handle('before')");
$effects++;
my $pending = $first->query("SELECT token FROM fencing.begin_command('pay', 'accepted', takeover => '1 hour')");
$first->query("BEGIN; SELECT handle('during')");
$node->stop('immediate');
$node->start;
my $after = session($node);
gives($after, "SELECT handle('before')", "done $effects", 'after a crash: what was committed is known');
$effects++;
gives($after, "SELECT handle('during')", "new $effects", '... what was not is new');
gives($after, "SELECT state FROM fencing.begin_command('pay', 'accepted')", 'pending', '... what was accepted is pending');
gives($after, "SELECT fencing.finish_command('pay', 'accepted', '1', $pending)", 't', '... and its worker can finish it');
gives($after, 'SELECT n FROM counter', $effects, '... the counter');

#
# read-only places
#
refused($after, "BEGIN READ ONLY; SELECT fencing.begin_command('shop', 'before')", '25006', 'read-only: begin is refused');
$after->query('ROLLBACK');
gives($after, "BEGIN READ ONLY; SELECT state FROM fencing.find_command('shop', 'before'); COMMIT", 'done', '... a look is not');

#
# a dump, restored elsewhere
#
my $dump = "$PostgreSQL::Test::Utils::tmp_check/commands.dump";
$after->query("SELECT fencing.begin_command('pay', 'open', takeover => '1 hour')");
my $highest = $after->query('SELECT max(token) FROM fencing.commands');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $dump ], 'dumped');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'restored');
my $restored = session($node, dbname => 'restored');
gives($restored, "SELECT handle('before')", "done " . ($effects - 1), 'an old key gets its outcome there');
gives($restored, "SELECT state FROM fencing.begin_command('pay', 'open')", 'pending', '... what was pending is pending');
refused($restored, "SELECT fencing.begin_command('shop', 'before', '1')", 'ZF007', '... another request is refused');
cmp_ok($restored->query("SELECT token FROM fencing.begin_command('pay', 'next', takeover => '1 hour')"), '>', $highest, '... the next token is larger');
$restored->quit;

$after->quit;
$node->stop;
done_testing();
