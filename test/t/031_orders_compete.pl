# Two orders compete for the last unit, each sent by ten clients at once, as a
# retry that overtakes the first try: one gets it, a retried command deducts
# nothing, and everybody with the same command gets the same answer.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use OrderTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = order_server('main');
my $admin = session($node);
my @clients = map { session($node) } 1 .. 20;
my %wins;
my @bad;

for my $round (1 .. 50)
{
	my $sku = "last unit $round";
	my (%order, %token, %answers);

	$admin->query("INSERT INTO items VALUES ('$sku', 1)");
	for my $who ('a', 'b')
	{
		$order{$who} = new_order($admin, "place $who $round", qq({"$sku": 1}));
		$token{$who} = lease($admin, $order{$who}, '10 min');
	}

	# They start together: all wait for a lock that is given up.
	$admin->query('SELECT pg_advisory_lock(1)');
	for my $i (0 .. $#clients)
	{
		my $who = $i % 2 ? 'a' : 'b';

		$clients[$i]->send_sql("SELECT pg_advisory_lock_shared(1) \\g /dev/null\n"
			  . "SELECT pg_advisory_unlock_shared(1) \\g /dev/null\n"
			  . "SELECT '$who ' || reserve_order('reserve $who $round', $order{$who}, $token{$who})::text");
	}
	$node->poll_query_until('postgres',
		"SELECT count(*) = 20 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
	  or die 'clients do not come';
	$admin->query('SELECT pg_advisory_unlock(1)');
	for my $client (@clients)
	{
		my $answer = $client->finish;

		$answers{ $client->state eq '00000' ? $answer : $client->state }++;
	}

	my ($won) = map { /^(.) \{"reserved": true\}/ ? $1 : () } sort keys %answers;
	my $lost = ($won // '') eq 'a' ? 'b' : 'a';
	my $end = $admin->query("SELECT available, (SELECT count(*) FROM reservations JOIN order_lines USING (order_id, line)"
		  . " WHERE sku = '$sku' AND state = 'held') FROM items WHERE sku = '$sku'");
	push @bad, [ $round, $end, \%answers ]
	  if !defined $won
	  || keys %answers != 2
	  || ($answers{"$won {\"reserved\": true}"} // 0) != 10
	  || ($answers{qq($lost {"reserved": false, "sold_out": "$sku"})} // 0) != 10
	  || $end ne '0|1';
	$wins{ $won // 'nobody' }++;
}
is_deeply(\@bad, [], '50 rounds, 20 clients: one reservation each, and the same answer for the same command');
note(join ', ', map { "$_ has won $wins{$_} times" } sort keys %wins);

# The same commands once more, much later.
gives($admin, q{SELECT count(DISTINCT answer) FROM (SELECT reserve_order('reserve a 1', order_id, 1) AS answer FROM orders
	WHERE order_id = (SELECT min(order_id) FROM orders)) AS x}, '1', 'a retry after the round, with whatever token: the answer');
gives($admin, 'SELECT sum(available) FROM items', '0', 'nothing was deducted again');

# Orders with several lines, sent in opposite orders: all or nothing, and no
# deadlock.
$admin->query("INSERT INTO items VALUES ('x', 30), ('y', 25)");
my @lines = ('{"x": 1, "y": 1}', '{"y": 1, "x": 1}');
my %sent;
for my $i (0 .. $#clients)
{
	my @orders = map { new_order($admin, "several $i $_", $lines[ $i % 2 ]) } 1 .. 2;

	$sent{$i} = join ";\n", map { "SELECT reserve_order('several $i $_', $_, " . lease($admin, $_, '10 min') . ')' } @orders;
}
$clients[$_]->send_sql($sent{$_}) for 0 .. $#clients;
my %answers;
for my $client (@clients)
{
	$answers{$_}++ for split /\n/, $client->finish;
	$answers{ $client->state }++ if $client->state ne '00000';
}
is_deeply(\%answers, { '{"reserved": true}' => 25, '{"reserved": false, "sold_out": "y"}' => 15 },
	'40 orders for 30 of one item and 25 of another: 25 get both')
  or diag(explain(\%answers));
gives($admin, "SELECT string_agg(sku || available, ' ' ORDER BY sku) FROM items WHERE sku IN ('x', 'y')", 'x5 y0',
	'the first line of those that lost was given back');
invariants($admin, 'nothing is broken');

$node->stop;
done_testing();
