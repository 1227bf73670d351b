# The extension can be dropped and made again under running sessions, and
# cannot be dropped from under a fence by mistake.

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

my $a = session($node);
my $b = session($node);
my $fence = q{
	SELECT fencing.fence('job');
	SELECT fencing.fence('entry', 'ledger', mark => 'resource')};

$a->query('CREATE TABLE job (id int PRIMARY KEY, note text); CREATE TABLE entry (n int)');
accepted($a, "CREATE EXTENSION fencing; $fence", 'made');

# each round is met by sessions that remember the round before
for my $round (1 .. 3)
{
	for my $s ($a, $b)
	{
		my $who = $s == $a ? 'the session that made it' : 'another session';
		my $token = $s == $a ? 10 : 20;

		accepted($s, "INSERT INTO job (id, fence_token) VALUES ($token, $token)",
			"round $round: $who writes, row mark");
		refused($s, "UPDATE job SET fence_token = $token - 1 WHERE id = $token",
			'ZF001', "round $round: $who, older write, row mark");
		accepted($s, "BEGIN; SELECT fencing.claim('ledger', $token); INSERT INTO entry VALUES ($token); COMMIT",
			"round $round: $who writes, resource mark");
		refused($s, "BEGIN; SELECT fencing.present('ledger', $token - 1); INSERT INTO entry VALUES (0); COMMIT",
			'ZF001', "round $round: $who, older write, resource mark");
		gives($s, "SELECT fencing.mark('ledger')", $token, "round $round: $who reads the mark");
		gives($s, "SELECT fencing.next_token('round')", $s == $a ? 1 : 2,
			"round $round: $who takes a token");
		accepted($s, "BEGIN; SELECT fencing.present('job:$token', $token); DELETE FROM job WHERE id = $token; COMMIT",
			"round $round: $who deletes a row");
		gives($s, "SELECT fencing.mark('job:$token')", $token,
			"round $round: $who finds the deleted row's mark");
	}
	is($a->query('SELECT count(*) FROM entry'), 2 * $round, "round $round: rows");

	# A table with a fence says no for the extension.
	refused($b, 'DROP EXTENSION fencing', '2BP01', "round $round: DROP EXTENSION is refused");
	like($b->messages, qr/trigger \S+ on table job depends on/, '... and names the fence');
	gives($b, 'SELECT relation FROM fencing.fences ORDER BY relation::text',
		"entry\njob", '... and the fences are there');
	refused($b, 'DROP TABLE fencing.marks', '2BP01', "round $round: DROP of fencing.marks is refused");
	refused($b, 'DROP FUNCTION fencing.guard()', '2BP01', "round $round: DROP of the trigger function is refused");

	if ($round == 2)
	{
		accepted($b, "SELECT fencing.unfence('job'); SELECT fencing.unfence('entry'); DROP EXTENSION fencing",
			"round $round: dropped after unfence");
	}
	else
	{
		accepted($b, 'DROP EXTENSION fencing CASCADE', "round $round: dropped with CASCADE");
	}
	gives($a, q{SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal}, '0', '... no trigger is left');
	gives($a, q{SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = n.oid) + (SELECT count(*) FROM pg_proc WHERE pronamespace = n.oid) FROM pg_namespace n WHERE nspname = 'fencing'},
		'0', '... and nothing in the schema');
	accepted($a, 'INSERT INTO job (id) VALUES (100); UPDATE job SET note = NULL; INSERT INTO entry VALUES (0); DELETE FROM entry WHERE n = 0; DELETE FROM job',
		'... and the tables are like any other');
	refused($a, "SELECT fencing.mark('ledger')", '42883', '... and the functions are gone');

	accepted($round % 2 ? $a : $b, "CREATE EXTENSION fencing; $fence", "round $round: made again");
	gives($a, "SELECT fencing.mark('ledger'), (SELECT count(*) FROM fencing.marks)",
		'0|0', '... with no marks');
}

# All in one transaction, with tokens presented in it and checked marks
# remembered.
accepted($a, "BEGIN; SELECT fencing.claim('ledger', 50); INSERT INTO entry VALUES (50);"
	  . "DROP EXTENSION fencing CASCADE; CREATE EXTENSION fencing; $fence",
	'dropped and made in one transaction');
gives($a, "SELECT fencing.mark('ledger')", '0', '... there is no mark');
accepted($a, 'INSERT INTO entry VALUES (51)', '... and what is presented still counts');
gives($a, "SELECT fencing.mark('ledger')", '50', '... and raises the new mark');
accepted($a, 'COMMIT', '... and it commits');
gives($b, "SELECT fencing.mark('ledger')", '50', '... as another session sees');
refused($b, "SELECT fencing.claim('ledger', 49)", 'ZF001', '... and meets');

# Rolled back: all is as before.
accepted($a, "BEGIN; DROP EXTENSION fencing CASCADE; CREATE EXTENSION fencing; SELECT fencing.claim('ledger', 1); ROLLBACK",
	'dropped and made, and rolled back');
gives($a, "SELECT fencing.mark('ledger')", '50', '... the mark is there');
refused($a, "BEGIN; SELECT fencing.present('ledger', 49); INSERT INTO entry VALUES (0); COMMIT",
	'ZF001', '... and the fence');
refused($a, 'TRUNCATE job', 'ZF002', '... and its guard against TRUNCATE');

# DROP waits for a writer, and a writer for DROP.
$a->query("BEGIN; SELECT fencing.claim('ledger', 60); INSERT INTO entry VALUES (60)");
$b->send_sql('DROP EXTENSION fencing CASCADE');
wait_until_blocked($b, 'DROP EXTENSION waits for a writer');
accepted($a, 'COMMIT', 'the writer commits');
$b->finish;
is($b->state, '00000', 'and DROP EXTENSION goes on');

$a->quit;
$b->quit;
$node->stop;
done_testing();
