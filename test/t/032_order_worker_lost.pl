# Workers that are paused past their lease, and workers that are killed: the
# late one writes and publishes nothing, the killed one's retry gets the answer
# of what was done, and a reservation that is over is given back once.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use OrderTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = order_server('main');
my $admin = session($node);
$admin->query("INSERT INTO items VALUES ('kettle', 1000), ('mug', 10)");

sub status_of
{
	my ($order) = @_;

	return $admin->query("SELECT status FROM orders WHERE order_id = $order");
}

sub events_of
{
	my ($order) = @_;

	return $admin->query("SELECT string_agg(topic, ' ' ORDER BY event_id) FROM outbox WHERE order_id = $order");
}

#
# Stopped past its lease
#
my $order = new_order($admin, 'paused', '{"kettle": 1}');
my $worker = worker(
	$node,
	sub {
		my ($s, $self) = @_;
		my $token = lease($s, $order, '300 ms');

		$s->query("SELECT reserve_order('paused 1', $order, $token)");
		$self->tell($s->query("SELECT status FROM orders WHERE order_id = $order"));
		$self->pause;

		# it knows nothing of it
		$s->query("SELECT confirm_order('paused 2', $order, $token, 'pay late', 5)");
		$self->tell($s->state);
		$s->query("BEGIN; SELECT fencing.present('order:$order', $token)");
		$s->query("INSERT INTO outbox (order_id, topic, payload) VALUES ($order, 'order.late', '{}')");
		$self->tell($s->state);
		$s->query('ROLLBACK');
		$s->query("BEGIN; SELECT fencing.present('order:$order', $token)");
		$s->query("UPDATE orders SET status = 'refunding' WHERE order_id = $order");
		$self->tell($s->state);
		$s->query('ROLLBACK');
		$self->tell($s->query("SELECT fencing.release('order:$order', $token)"));
		$self->tell($s->query("SELECT reserve_order('paused 1', $order, $token)"));
	});
is($worker->hear, 'reserved', 'a worker reserves');
$worker->wait_until_stopped;
my $owner = lease($admin, $order, '10 min');
gives($admin, "SELECT confirm_order('owner', $order, $owner, 'pay owner', 7.5)", '{"confirmed": true}', 'the next one gets the lease when it is over, and confirms');
$worker->resume;
is($worker->hear, 'ZF001', 'resumed, its transition is refused');
is($worker->hear, 'ZF001', 'its publication, too');
is($worker->hear, 'ZF001', 'and a transition past the functions');
is($worker->hear, 'f', 'it does not release the new one\'s lease');
is($worker->hear, '{"reserved": true}', 'what it has done in time it still learns');
$worker->wait_for;
is(status_of($order), 'confirmed', 'the state is the new owner\'s');
is(events_of($order), 'order.reserved order.confirmed', 'so are the events');
gives($admin, "SELECT string_agg(payment_id, ',') FROM payments WHERE order_id = $order", 'pay owner', 'and the payment');
gives($admin, "SELECT state FROM fencing.find_command('confirm', 'paused 2')", '', 'of the late command there is no record');

#
# Stopped inside of its transaction: the next one waits for it, or ends it
#
$order = new_order($admin, 'inside', '{"kettle": 1}');
$worker = worker(
	$node,
	sub {
		my ($s, $self) = @_;
		my $token = lease($s, $order, '300 ms');

		$s->query("BEGIN; SELECT reserve_order('inside', $order, $token)");
		$self->tell($s->pid);
		$self->pause;
		$s->query('COMMIT');
		$self->tell($s->state);
	});
my $pid = $worker->hear;
$worker->wait_until_stopped;
my $next = session($node);
$owner = lease($next, $order, '10 min');
$next->send_sql("SELECT reserve_order('inside', $order, $owner)");
wait_until_blocked($next, 'stopped inside its transaction: the next one waits');
gives($admin, "SELECT pg_terminate_backend($pid)", 't', 'an operator ends that session');
is($next->finish, '{"reserved": true}', 'and the next one does the work');
$worker->resume;
like($worker->hear, qr/^(57P01|lost)$/, 'the late one has lost its connection');
$worker->wait_for;
gives($admin, "SELECT count(*) FROM reservations WHERE order_id = $order", '1', 'there is one reservation');
is($admin->query("SELECT available FROM items WHERE sku = 'kettle'"), 998, 'and one kettle less');

#
# Killed right after it has sent COMMIT
#
# A deferred trigger holds the commit until the test lets it go: the worker is
# killed while the server is in it.
$admin->query(q{
	CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(2); RETURN NULL; END $$;
	CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON payments DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION slow_commit()});
my $token;
for my $round (1 .. 3)
{
	$order = new_order($admin, "killed $round", '{"kettle": 1}');
	$token = lease($admin, $order, '10 min');
	$admin->query("SELECT reserve_order('killed $round', $order, $token); SELECT pg_advisory_lock(2)");
	$worker = worker(
		$node,
		sub {
			my ($s, $self) = @_;

			$s->query("BEGIN; SELECT confirm_order('killed $round', $order, $token, 'pay killed $round', 3)");
			$self->tell($s->pid);
			$s->send_sql('COMMIT');
			sleep 60;
		});
	$pid = $worker->hear;
	ok($node->poll_query_until('postgres', "SELECT query ~ '^COMMIT' AND wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid"),
		"round $round: COMMIT is under way");
	$worker->kill9;
	$next->send_sql("SELECT confirm_order('killed $round', $order, $token, 'pay killed $round', 3)");
	wait_until_blocked($next, '... its worker is killed; a retry waits for it');
	$admin->query('SELECT pg_advisory_unlock(2)');
	is($next->finish, '{"confirmed": true}', '... and gets the answer');
	gives($admin, "SELECT count(*) FROM payments WHERE order_id = $order", '1', '... one payment');
	is(events_of($order), 'order.reserved order.confirmed', '... one event');
	gives($admin, "SELECT attempts FROM fencing.commands WHERE scope = 'confirm' AND key = 'killed $round'", '1', '... it was handled once');
}
$admin->query('DROP TRIGGER slow_commit ON payments');

# Killed at any moment: whatever is there, one retry makes it whole.
srand(7);
my %found;
for my $round (1 .. 15)
{
	$order = new_order($admin, "any moment $round", '{"kettle": 1, "mug": 1}');
	$token = lease($admin, $order, '10 min');
	my ($reserve, $confirm) = (
		"SELECT reserve_order('any moment $round', $order, $token, '1 hour')",
		"SELECT confirm_order('any moment $round', $order, $token, 'pay any $round', 2)");
	$worker = worker(
		$node,
		sub {
			my ($s, $self) = @_;

			$self->tell('ready');
			$s->query("BEGIN; $reserve; COMMIT; BEGIN; $confirm; COMMIT");
			sleep 60;
		});
	$worker->hear;
	sleep rand 0.012;
	$worker->kill9;
	# a backend that does not know yet is at work
	my $first = $next->query($reserve);
	$found{ status_of($order) }++;
	my $second = $next->query($confirm);
	my $sold = $first eq '{"reserved": true}';
	my $expected = $sold ? 'order.reserved order.confirmed' : '';
	my $is = events_of($order);
	is($is, $expected, "killed at any moment $round: each step is there once") or diag("$first, $second");
}
note(join ', ', map { "$_: $found{$_}" } sort keys %found);
gives($admin, q{SELECT string_agg(sku || available, ' ' ORDER BY sku) FROM items},
	'kettle' . (1000 - $admin->query(q{SELECT count(*) FROM reservations JOIN order_lines USING (order_id, line) WHERE sku = 'kettle' AND state = 'sold'}) - 1)
	  . ' mug0', 'stock and reservations agree');

#
# A reservation that is over
#
$admin->query("INSERT INTO items VALUES ('vase', 20)");
my @orders = map { new_order($admin, "expires $_", '{"vase": 1, "kettle": 1}') } 1 .. 10;
$admin->query("SELECT reserve_order('expires $_', $_, " . lease($admin, $_, '50 ms') . ", '100 ms')") for @orders;
gives($admin, "SELECT available FROM items WHERE sku = 'vase'", '10', 'ten are held');
my $kettles = $admin->query("SELECT available FROM items WHERE sku = 'kettle'");
sleep 0.2;
gives($admin, 'SELECT count(*) FROM expired_orders', '10', 'until their time is over');

# One that is paused between looking and giving back, and four at once.
my $sweep = sub {
	my ($s, $self, $pause) = @_;
	my $returned = 0;

	for my $expired (split /\n/, $s->query('SELECT order_id FROM expired_orders ORDER BY random()'))
	{
		my $t = $s->query("SELECT token FROM fencing.try_acquire('order:$expired', '200 ms')");

		next if $t eq '';
		if ($pause)
		{
			$self->tell($expired);
			$self->pause;
			$pause = 0;
			$s->query("SELECT expire_order($expired, $t)");
			$self->tell($s->state);
			last;
		}
		my $n = $s->query("SELECT expire_order($expired, $t)");
		$returned += $n if $s->state eq '00000';
		$s->query("SELECT fencing.release('order:$expired', $t)");
	}
	$self->tell($returned);
};
my $late = worker($node, sub { $sweep->(@_, 1) });
my $late_order = $late->hear;
$late->wait_until_stopped;
sleep 0.3;
my @sweepers = map { worker($node, $sweep) } 1 .. 4;
my $returned = 0;
$returned += $_->hear for @sweepers;
$_->wait_for for @sweepers;
my $rest = session($node);
for my $expired (split /\n/, $admin->query('SELECT order_id FROM expired_orders'))
{
	# what one sweeper had leased when another one looked
	$returned += $rest->query("SELECT expire_order($expired, " . lease($rest, $expired, '10 s') . ')');
}
is($returned, 20, 'four sweepers at once give back each line once');
$late->resume;
is($late->hear, 'ZF001', 'a sweeper that was paused past its lease is late');
$late->hear;
$late->wait_for;
gives($admin, "SELECT available FROM items WHERE sku = 'vase'", '20', 'the stock is what it was');
is($admin->query("SELECT available FROM items WHERE sku = 'kettle'"), $kettles + 10, 'of both items');
gives($admin, "SELECT confirm_order('expires late', $late_order, " . lease($admin, $late_order, '10 s') . ", 'pay expired', 1)",
	'{"reason": "reservation is over", "confirmed": false}', 'it cannot be confirmed any more');
is(events_of($late_order), 'order.reserved reservation.expired', 'its events');

# paying at the last moment, while a sweeper comes
my %ends;
for my $round (1 .. 20)
{
	$order = new_order($admin, "last moment $round", '{"vase": 1}');
	$token = lease($admin, $order, '10 min');
	$admin->query("SELECT reserve_order('last moment $round', $order, $token, '15 ms')");
	sleep 0.008 + rand 0.008;
	$next->send_sql("SELECT confirm_order('last moment $round', $order, $token, 'pay last $round', 1) ->> 'confirmed'");
	my $n = $rest->query("SELECT expire_order($order, fencing.next_token('order:$order'))");
	my $confirmed = $next->finish;
	$confirmed = $next->state if $next->state ne '00000';
	$ends{"$confirmed $n " . status_of($order)}++;
}
note(join ', ', map { "$_: $ends{$_}" } sort keys %ends);
is_deeply([ grep { !/^(true 0 confirmed|(false|ZF001) [01] (new|reserved))$/ } sort keys %ends ], [],
	'paid at the last moment: confirmed or given back, never both');
gives($admin, q{SELECT 20 - count(*) FILTER (WHERE state <> 'returned') = (SELECT available FROM items WHERE sku = 'vase')
	FROM reservations JOIN order_lines USING (order_id, line) WHERE sku = 'vase'}, 't', 'the stock agrees');
invariants($admin, 'nothing is broken');

$node->stop;
done_testing();
