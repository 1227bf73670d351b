# A refund at a provider that accepts and does not answer, answers with a no, or
# is down; workers that die or are paused between accept and finish.  However it
# goes, the provider is sent one key, and refunds once.

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
my $provider = provider();
my $admin = session($node);
$admin->query("INSERT INTO items VALUES ('kettle', 100)");

# An order that is paid.
sub paid_order
{
	my ($payment) = @_;
	my $order = new_order($admin, $payment, '{"kettle": 1}');
	my $token = lease($admin, $order, '10 min');

	$admin->query("SELECT reserve_order('$payment', $order, $token, '1 hour'); SELECT confirm_order('$payment', $order, $token, '$payment', 20)");
	return ($order, $token);
}

# Asks for a refund: state, token, provider key.
sub request
{
	my ($s, $payment, $order_token, $takeover) = @_;

	return split /\|/, $s->query("SELECT state, command_token, provider_key FROM request_refund('$payment', $order_token, '$takeover')"), -1;
}

sub order_is
{
	my ($order, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	gives($admin, "SELECT status, (SELECT count(*) FROM refunds AS r WHERE r.order_id = o.order_id),"
		  . " (SELECT sum(points) FROM rewards AS w WHERE w.order_id = o.order_id) FROM orders AS o WHERE order_id = $order",
		$expected, $name);
	return;
}

# What the provider has of a key: answer, amount, how often it was asked.
sub provider_has
{
	my ($key, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($has) = map { /^\Q$key\E (.*)/ ? $1 : () } split /\n/, $provider->list;

	is($has // 'nothing', $expected, $name);
	return;
}

#
# The provider accepts, and its answer does not come
#
my ($order, $token) = paid_order('pay 1');
my ($state, $command, $key) = request($admin, 'pay 1', $token, '1 min');
is($state, 'new', 'timeout: accepted here');
order_is($order, 'refunding|0|20', '... which is not completed');
is((request($admin, 'pay 1', $token, '1 min'))[0], 'pending', '... others are told that it is pending');
$provider->mode('timeout');
$provider->refund($key, 20, 0.3);
is($provider->{status}, 75, '... the provider does not answer');
provider_has($key, '{"refund":"re_1"} 20 1', '... but it has refunded');
gives($admin, "SELECT state, outcome FROM fencing.find_command('refund', 'pay 1')", 'pending|', '... the command stays pending');
is($provider->refund($key, 20), '{"refund":"re_1"}', '... the same worker asks again with the key: the answer');
gives($admin, qq(SELECT finish_refund('pay 1', $token, $command, '{"refund":"re_1"}')), '{"refund": "re_1"}', '... and finishes');
order_is($order, 'refunded|1|0', '... completed');
provider_has($key, '{"refund":"re_1"} 20 2', '... refunded once');
gives($admin, qq(SELECT finish_refund('pay 1', $token, $command, '{"refund":"re_1"}')), '{"refund": "re_1"}', '... finished again: the same');
gives($admin, "SELECT state, outcome FROM request_refund('pay 1', $token)", 'done|{"refund": "re_1"}', '... requested again: the outcome');
gives($admin, "SELECT count(*) FROM outbox WHERE order_id = $order AND topic = 'refund.finished'", '1', '... published once');

#
# The worker is killed after the provider accepted
#
($order, $token) = paid_order('pay 2');
my $worker = worker(
	$node,
	sub {
		my ($s, $self) = @_;
		my (undef, $t, $k) = request($s, 'pay 2', $token, '3 s');

		$provider->refund($k, 20);
		$self->tell($k);
		$self->tell($t);
		sleep 60;
	});
my $first_key = $worker->hear;
my $first_command = $worker->hear;
$worker->kill9;
is((request($admin, 'pay 2', $token, '10 min'))[0], 'pending', 'killed: it is not taken over before its time');
$node->poll_query_until('postgres', "SELECT overdue FROM fencing.commands WHERE scope = 'refund' AND key = 'pay 2'");
# ten at once, the same in each: one takes it over
my @rivals = map { session($node) } 1 .. 10;
$_->send_sql("SELECT state, command_token, provider_key FROM request_refund('pay 2', $token, '10 min')") for @rivals;
my @answers = sort map { $_->finish } @rivals;
my @new = grep { /^new/ } @answers;
is(scalar @new, 1, '... ten try then: one takes it over') or diag(explain(\@answers));
is(scalar(grep { /^pending\|\|/ } @answers), 9, '... the others are told that it is pending, and get no token');
(undef, $command, $key) = split /\|/, $new[0];
is($key, $first_key, '... the key for the provider is the same');
cmp_ok($command, '>', $first_command, '... the token is larger');
my $answer = $provider->refund($key, 20);
gives($admin, "SELECT finish_refund('pay 2', $token, $command, '$answer') ->> 'refund'", 're_2', '... it finishes');
refused($admin, "SELECT finish_refund('pay 2', $token, $first_command, '$answer')", 'ZF001', '... with the token of the first one nobody does');
order_is($order, 'refunded|1|0', '... completed');
provider_has($key, '{"refund":"re_2"} 20 2', '... refunded once');

#
# The worker is paused between accept and finish, and finishes late
#
($order, $token) = paid_order('pay 3');
$worker = worker(
	$node,
	sub {
		my ($s, $self) = @_;
		my (undef, $t, $k) = request($s, 'pay 3', $token, '300 ms');
		my $a = $provider->refund($k, 20);

		$self->tell($k);
		$self->pause;
		$s->query("SELECT finish_refund('pay 3', $token, $t, '$a')");
		$self->tell($s->state);
	});
$first_key = $worker->hear;
$worker->wait_until_stopped;
$node->poll_query_until('postgres', "SELECT overdue FROM fencing.commands WHERE scope = 'refund' AND key = 'pay 3'");
($state, $command, $key) = request($admin, 'pay 3', $token, '10 min');
is("$state $key", "new $first_key", 'paused: taken over, with the same key');
$worker->resume;
is($worker->hear, 'ZF001', '... its finish is late, though nobody has finished yet');
$worker->wait_for;
order_is($order, 'refunding|0|20', '... and has changed nothing');
$answer = $provider->refund($key, 20);
gives($admin, "SELECT finish_refund('pay 3', $token, $command, '$answer') ->> 'refund'", 're_3', '... the second one finishes');
order_is($order, 'refunded|1|0', '... completed');
provider_has($key, '{"refund":"re_3"} 20 2', '... refunded once');

# The order itself has another owner by now: neither may write it.
($order, $token) = paid_order('pay 4');
(undef, $command, $key) = request($admin, 'pay 4', $token, '10 min');
$answer = $provider->refund($key, 20);
$admin->query("SELECT fencing.revoke('order:$order')");
refused($admin, "SELECT finish_refund('pay 4', $token, $command, '$answer')", 'ZF001', 'finished with the token of an order that was revoked: refused');
gives($admin, "SELECT state FROM fencing.find_command('refund', 'pay 4')", 'pending', '... all of it is rolled back, the command is pending');
$token = lease($admin, $order, '10 min');
gives($admin, "SELECT finish_refund('pay 4', $token, $command, '$answer') ->> 'refund'", 're_4', '... with a new lease it is finished');
order_is($order, 'refunded|1|0', '... completed');

#
# A no is an outcome, no answer is none
#
($order, $token) = paid_order('pay 5');
(undef, $command, $key) = request($admin, 'pay 5', $token, '1 s');
$provider->mode('down', 2);
$provider->refund($key, 20) for 1 .. 2;
is($provider->{status}, 75, 'down: the provider does not answer');
provider_has($key, 'nothing', '... and has done nothing');
gives($admin, "SELECT state FROM fencing.find_command('refund', 'pay 5')", 'pending', '... the command stays pending');
$provider->mode('decline');
$answer = $provider->refund($key, 20);
is($answer, '{"declined":"card_closed"}', 'then it declines');
gives($admin, "SELECT finish_refund('pay 5', $token, $command, '$answer') ->> 'declined'", 'card_closed', '... which is an outcome');
order_is($order, 'confirmed|0|20', '... the order is as it was');
gives($admin, "SELECT state, outcome FROM request_refund('pay 5', $token)", 'done|{"declined": "card_closed"}', '... and a retry gets it');

# alerts see what is overdue, purging leaves what is pending
($order, $token) = paid_order('pay 6');
request($admin, 'pay 6', $token, '1 ms');
gives($admin, "SELECT count(*) FROM fencing.commands WHERE scope = 'refund' AND state = 'pending'", '1', 'one refund is pending');
gives($admin, "SELECT key FROM fencing.commands WHERE overdue", 'pay 6', '... and overdue');
$admin->query("SELECT fencing.purge_commands('0')");
gives($admin, 'SELECT string_agg(key, \',\') FROM fencing.commands', 'pay 6', '... purging leaves it');
my ($again, $t, $same) = request($admin, 'pay 6', $token, '10 min');
$answer = $provider->refund($same, 20);
gives($admin, "SELECT finish_refund('pay 6', $token, $t, '$answer') ->> 'refund'", 're_6', '... it is finished in the end');
invariants($admin, 'nothing is broken');
is(scalar(() = $provider->list =~ /"refund"/g), $admin->query('SELECT count(*) FROM refunds'), 'the provider has as many refunds as we have');

$node->stop;
done_testing();
