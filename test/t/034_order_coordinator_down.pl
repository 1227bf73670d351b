# What hands out leases does not answer: Redis is down, or somebody has locked
# the table of leases.  Work pauses, or fails in a way that is worth a retry, or
# stays pending; nothing is written without protection.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use OrderTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RedisTest;
use Test::More;
use Time::HiRes qw(sleep);

my $node = order_server('main');
my $provider = provider();
my $admin = session($node);
my $s = session($node);
my $other = session($node);
$admin->query("INSERT INTO items VALUES ('kettle', 100)");

# Everything that can be seen of an order.
sub state_of
{
	my ($order) = @_;

	return $admin->query("SELECT status, (SELECT available FROM items WHERE sku = 'kettle'),"
		  . " (SELECT count(*) FROM reservations AS r WHERE r.order_id = o.order_id),"
		  . " (SELECT count(*) FROM outbox AS e WHERE e.order_id = o.order_id),"
		  . " (SELECT count(*) FROM fencing.commands) FROM orders AS o WHERE order_id = $order");
}

#
# The table of leases is locked
#
my $order = new_order($admin, 'locked', '{"kettle": 1}');
my $token = lease($admin, $order, '10 min');
my $before = state_of($order);
my $locker = session($node);

$locker->query('BEGIN; LOCK TABLE fencing.issued');
$s->query("SET lock_timeout = '200 ms'");
refused($s, "SELECT fencing.acquire('order:$order')", '55P03', 'leases locked: no lease');
refused($s, "SELECT fencing.renew('order:$order', $token)", '55P03', '... no renewal');
refused($s, "SELECT place_order('locked 2', 'Ben', '{\"kettle\": 1}')", '55P03', '... no new order');
refused($s, "SELECT reserve_order('locked', $order, $token)", '55P03', '... no reservation, since an item needs a new token');
is(state_of($order), $before, '... nothing was written, no command is there');
$other->send_sql("SELECT reserve_order('locked', $order, $token)");
wait_until_blocked($other, '... who has no time limit waits');
is(state_of($order), $before, '... and writes nothing meanwhile');
$locker->query('ROLLBACK');
is($other->finish, '{"reserved": true}', '... until it is over');
gives($s, "SELECT reserve_order('locked', $order, $token)", '{"reserved": true}', '... a retry gets the same answer');

# A holder goes on with what needs no new lease or token.
$locker->query('BEGIN; LOCK TABLE fencing.issued');
gives($s, "SELECT confirm_order('locked', $order, $token, 'pay locked', 10)", '{"confirmed": true}',
	'leases locked: who holds one confirms with it');
refused($s, "SELECT confirm_order('stale', $order, $token - 1, 'pay stale', 10)", 'ZF001', '... who is late does not');
my ($state, $command, $key) = split /\|/, $s->query("SELECT state, command_token, provider_key FROM request_refund('pay locked', $token, '1 min')");
is($state, 'new', '... a refund is accepted');
$locker->query('ROLLBACK');
$admin->query('BEGIN; LOCK TABLE fencing.marks');
refused($s, "SELECT finish_refund('pay locked', $token, $command, '{\"refund\": \"re_1\"}')", '55P03', 'marks locked: it cannot be finished');
gives($other, "SELECT state FROM fencing.find_command('refund', 'pay locked')", 'pending', '... and stays pending');
$admin->query('ROLLBACK');
my $answer = $provider->refund($key, 10);
gives($s, "SELECT finish_refund('pay locked', $token, $command, '$answer') ->> 'refund'", 're_1', '... then it is finished');

# The table of commands
$order = new_order($admin, 'records', '{"kettle": 1}');
$token = lease($admin, $order, '10 min');
$before = state_of($order);
$locker->query('BEGIN; LOCK TABLE fencing.command_records');
refused($s, "SELECT reserve_order('records', $order, $token)", '55P03', 'commands locked: none is begun');
$locker->query('ROLLBACK');
is(state_of($order), $before, '... nothing was written');
gives($s, "SELECT reserve_order('records', $order, $token)", '{"reserved": true}', '... a retry does it');
invariants($admin, 'nothing is broken');

#
# Redis is down
#
SKIP:
{
	my $missing = redis_missing();
	skip $missing, 1 if $missing;

	my $redis = redis_server();
	$admin->query(q{
		CREATE EXTENSION fencing_redis;
		CREATE SERVER locks FOREIGN DATA WRAPPER fencing_redis OPTIONS (nodes '} . $redis->address . q{', connect_timeout '2000', command_timeout '2000');
		CREATE USER MAPPING FOR CURRENT_USER SERVER locks;
		ALTER DATABASE postgres SET fencing_redis.server = 'locks'});
	is($admin->state, '00000', 'Redis: a server for leases');
	my $r = session($node);
	my $late = session($node);
	$order = new_order($admin, 'redis', '{"kettle": 1}');

	# An order's leases come from one place; its token is above those of the other.
	my $held = $r->query("SELECT token FROM fencing_redis.acquire('order:$order', '1 s')");
	gives($r, "SELECT reserve_order('redis', $order, $held)", '{"reserved": true}', 'a worker with a lease from Redis reserves');
	$redis->kill9;
	$before = state_of($order);
	refused($late, "SELECT fencing_redis.acquire('order:$order', '10 s')", 'ZF005', 'Redis is down: nobody gets a lease');
	refused($late, "SELECT confirm_order('redis 1', $order, (SELECT token FROM fencing_redis.acquire('order:$order', '10 s')), 'pay 1', 5)",
		'ZF005', '... nor does work that would begin with one');
	refused($late, "SELECT confirm_order('redis 2', $order, NULL, 'pay 2', 5)", '22023', '... nor without a token');
	refused($late, "UPDATE orders SET status = 'confirmed' WHERE order_id = $order", 'ZF002', '... nor past the functions');
	is(state_of($order), $before, '... nothing was written');
	gives($r, "SELECT confirm_order('redis', $order, $held, 'pay redis', 5)", '{"confirmed": true}',
		'... who had one goes on: the database knows that nobody has come after it');
	($state, $command, $key) = split /\|/, $r->query("SELECT state, command_token, provider_key FROM request_refund('pay redis', $held, '1 min')");
	is($state, 'new', '... a refund is accepted');

	$redis->start;
	my $new = $late->query("SELECT token FROM fencing_redis.acquire('order:$order', '10 s')");
	cmp_ok($new, '>', $held, 'Redis is back, and empty: the next token is larger all the same');
	$answer = $provider->refund($key, 5);
	gives($late, "SELECT finish_refund('pay redis', $new, $command, '$answer') ->> 'refund'", 're_2', '... the refund is finished with it');
	refused($r, "SELECT fencing.claim('order:$order', $held)", 'ZF001', '... and the one before is late');
	invariants($admin, '... nothing is broken');
}

$node->stop;
done_testing();
