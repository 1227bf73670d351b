# Leases that several Redis servers grant together.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RedisTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $missing = redis_missing();
plan skip_all => $missing if $missing;

my @redis = map { redis_server() } 1 .. 5;
my @proxy = map { redis_proxy($_->{port}) } @redis;
my $node = cluster_with_redis('redlock');
my $admin = session($node);
$admin->query(q{ALTER DATABASE postgres SET fencing_redis.server = 'locks'; SET fencing_redis.server = 'locks'});

# use_nodes(addresses): the server is made of these.
sub use_nodes
{
	my (@nodes) = @_;
	my $nodes = join ',', @nodes;

	$admin->query(qq{DROP SERVER IF EXISTS locks CASCADE;
		CREATE SERVER locks FOREIGN DATA WRAPPER fencing_redis
			OPTIONS (nodes '$nodes', connect_timeout '400', command_timeout '400');
		CREATE USER MAPPING FOR CURRENT_USER SERVER locks});
	return is($admin->state, '00000', scalar(@nodes) . ' nodes');
}

my $number = 0;

sub acquire
{
	my ($session, $state, $least, $most, $name, $ttl) = @_;
	my $resource = 'r' . ++$number;
	$ttl //= '10 s';
	my $out;

	my $seconds = took { $out = $session->query("SELECT expires_at - clock_timestamp() FROM fencing_redis.acquire('$resource', '$ttl')") };
	is($session->state, $state, "$name: $state") || diag($session->messages);
	within($seconds, $least, $most, '... in time');
	return $resource;
}

# votes($resource): how many of the servers that answer have the lock.
sub votes
{
	my ($resource, @of) = @_;
	my $votes = 0;

	sleep 0.03;
	$votes += $_->cli('EXISTS', "lock:$resource") for (@of ? @of : @redis);
	return $votes;
}

use_nodes(map { $_->address } @redis);
my $s = session($node);

# connections, scripts
$s->query(q{SELECT fencing_redis.acquire('warm'), pg_sleep(0.2); SELECT fencing_redis.release('warm', token) FROM fencing_redis.held()});

#
# All there
#
my $r = acquire($s, '00000', 0, 0.5, 'all there');
is(votes($r), 5, '... on all of them');
gives($s, q{SELECT expires_at - clock_timestamp() BETWEEN '9.5 s' AND '9.898 s' FROM fencing_redis.held()}, 't', '... and valid for less than its ttl');
my $token = $s->query("SELECT token FROM fencing_redis.held()");
sleep 0.02;
is(join(',', map { $_->cli('GET', "fence:$r") } @redis), join(',', ($token) x 5), '... all counters are at the token');
refused($admin, "SELECT fencing_redis.acquire('$r')", '55P03', '... busy for others');
accepted($s, "SELECT fencing_redis.renew('$r', $token, '20 s')", '... renew');
gives($s, "SELECT fencing_redis.release('$r', $token)", 't', '... release');
is(votes($r), 0, '... on all of them');
refused($s, q{SELECT fencing_redis.acquire('x', '2 ms')}, '22023', 'a ttl that the drift uses up');

# counters that differ: the highest counts
for my $i (0 .. 4) { $redis[$i]->cli('SET', 'fence:differ', 100 * $i + 7); }
gives($s, q{SELECT token FROM fencing_redis.acquire('differ')}, '408', 'counters that differ: the highest');
sleep 0.02;
is($redis[0]->cli('GET', 'fence:differ'), '408', '... and the others are raised');

#
# Some of them down or stopped
#
for my $down (1, 2, 3, 5)
{
	$_->kill9 for @redis[ 0 .. $down - 1 ];
	my $state = $down <= 2 ? '00000' : 'ZF005';
	my @left = @redis[ $down .. 4 ];
	my $resource = acquire($s, $state, 0, 0.5, "$down of 5 down");
	is(votes($resource, @left), $down <= 2 ? @left : 0, $down <= 2 ? '... granted by the others' : '... nothing is left') if @left;
	gives($s, "SELECT fencing_redis.release('$resource', token) FROM fencing_redis.held() WHERE resource = '$resource'", 't', '... release') if $down <= 2;
	$_->start for @redis[ 0 .. $down - 1 ];
}
for my $down (1, 2, 3)
{
	my $old = acquire($s, '00000', 0, 0.5, 'before');
	$_->freeze for @redis[ 0 .. $down - 1 ];
	my $resource = acquire($s, $down <= 2 ? '00000' : 'ZF005', $down <= 2 ? 0 : 0.35, $down <= 2 ? 0.3 : 0.9, "$down of 5 stopped", '2 s');
	my $fresh = session($node);
	acquire($fresh, $down <= 2 ? '00000' : 'ZF005', $down <= 2 ? 0 : 0.35, $down <= 2 ? 0.3 : 0.9, '... in a new session', '2 s');
	gives($s, "SELECT fencing_redis.release('$old', token) FROM fencing_redis.held() WHERE resource = '$old'", 't', '... release of one from before') if $down <= 2;
	$_->thaw for @redis[ 0 .. $down - 1 ];
	sleep 0.1;
	is(votes($resource), $down <= 2 ? 5 : 0, $down <= 2 ? '... when they go on they have it, too' : '... nothing is left when they go on');
	is(votes($old), 0, '... what was released is gone when they go on') if $down <= 2;
	$fresh->quit;
}
acquire($s, '00000', 0, 0.5, 'all there again');

# held by somebody on some
for my $busy (1 .. 5)
{
	my $resource = "split $busy";
	$redis[$_]->cli('SET', "lock:$resource", 'x', 'NX', 'PX', '20000') for 0 .. $busy - 1;
	my $state = $busy <= 2 ? '00000' : '55P03';
	refused($s, "SELECT fencing_redis.acquire('$resource')", $state, "busy on $busy of 5: $state");
	is(votes($resource), $busy <= 2 ? 5 : $busy, $busy <= 2 ? '... the others grant it' : '... and is taken back from the others');
}
$redis[0]->cli('SET', 'lock:mixed', 'x', 'NX', 'PX', '20000');
$_->kill9 for @redis[ 1, 2, 3 ];
refused($s, q{SELECT fencing_redis.acquire('mixed')}, 'ZF005', 'busy on one, three down: nobody knows');
$_->start for @redis[ 1, 2, 3 ];

#
# Slow ones, lost replies
#
use_nodes(map { $_->address } @proxy[ 0 .. 2 ]);
my $p = session($node);
acquire($p, '00000', 0, 0.5, 'three through proxies');
$proxy[0]->mode('delay 0.6');
acquire($p, '00000', 0, 0.3, 'one is slow', '500 ms');
$proxy[1]->mode('delay 0.2');
acquire($p, '00000', 0.15, 0.5, 'two are slow, in time', '1 s');
sleep 0.7;
my $late = acquire($p, 'ZF005', 0.05, 0.6, 'two are slow, and the ttl is over when they answer', '100 ms');
like($p->messages, qr/nothing was left of its 100 ms|no answer/, '... says so');
sleep 0.7;
is(votes($late), 0, '... nothing is left');
$_->mode('mute') for @proxy[ 0, 1 ];
my $lost = acquire($p, 'ZF005', 0.3, 0.9, 'two lose their replies', '5 s');
is(votes($lost, $redis[2]), 0, '... taken back from the one that answered');
is(votes($lost, @redis[ 0, 1 ]), 0, '... and from those that did not') ;
$_->mode('cut') for @proxy[ 0, 1 ];
$lost = acquire($p, 'ZF005', 0, 0.9, 'two are cut off', '5 s');
is(votes($lost, @redis[ 0 .. 2 ]), 0, '... nothing is left');
$_->mode('pass') for @proxy;
acquire($p, '00000', 0, 0.5, '... and all is well again');

# interrupts
$_->mode('mute') for @proxy[ 0 .. 1 ];
refused($p, q{SET statement_timeout = '150ms'; SELECT fencing_redis.acquire('cancelled', '20 s')}, '57014', 'cancelled');
$p->query('RESET statement_timeout');
is(votes('cancelled', @redis[ 0 .. 2 ]), 0, '... nothing is left');
$p->send_sql(q{SELECT fencing_redis.acquire('terminated', '20 s')});
sleep 0.15;
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $p->pid . ', 5000)');
$p->finish;
is(votes('terminated', @redis[ 0 .. 2 ]), 0, 'terminated: nothing is left');
$_->mode('pass') for @proxy;

#
# Restarted empty
#
use_nodes(map { $_->address } @redis[ 0 .. 2 ]);
my $a = session($node);
my $b = session($node);
$a->query(q{SELECT fencing_redis.acquire('empty', '30 s')});
$token = $a->query(q{SELECT token FROM fencing_redis.held()});
$redis[2]->kill9;
$redis[2]->start;
gives($a, "SELECT token FROM fencing_redis.renew('empty', $token)", $token, 'one node restarted empty: renew');
is($redis[2]->cli('EXISTS', 'lock:empty'), '0', '... and does not set it there');
refused($b, q{SELECT fencing_redis.acquire('empty')}, '55P03', '... still busy for others');
$redis[1]->kill9;
$redis[1]->start;
gives($a, "SELECT fencing_redis.renew('empty', $token) IS NULL", 't', 'a second one: the lease is lost');
like($a->messages, qr/ZF004/, '... and said to be');
is(votes('empty', @redis[ 0 .. 2 ]), 0, '... what was left of it is removed');
accepted($b, q{SELECT fencing_redis.acquire('empty')}, '... and others can have it');
cmp_ok($b->query(q{SELECT token FROM fencing_redis.held()}), '>', $token, '... with a larger token');

# the same holder again while a node is down keeps what it has
$a->query(q{SELECT fencing_redis.acquire('again', '30 s', holder => 'w')});
$_->kill9 for @redis[ 1, 2 ];
refused($a, q{SELECT fencing_redis.acquire('again', '30 s', holder => 'w')}, 'ZF005', 'the same holder without a quorum');
is($redis[0]->cli('GET', 'lock:again'), 'w', '... loses nothing by it');
$_->start for @redis[ 1, 2 ];

#
# Arithmetic
#
for my $n (1 .. 5)
{
	use_nodes(map { $_->address } @redis[ 0 .. $n - 1 ]);
	my $one = session($node);
	my $quorum = int($n / 2) + 1;

	for my $up ($quorum, $quorum - 1)
	{
		next if $up > $n;
		$_->kill9 for @redis[ 0 .. $n - $up - 1 ];
		acquire($one, $up >= $quorum ? '00000' : 'ZF005', 0, 0.6, "$up of $n nodes up");
		$_->start for @redis[ 0 .. $n - $up - 1 ];
	}
	$one->quit;
}
my $port = $redis[0]{port};
use_nodes("localhost:$port", "127.0.0.1:$port", $redis[1]->address);
my $alias = session($node);
acquire($alias, '00000', 0, 0.5, 'one server by two names: its vote counts once');
like($alias->query(q{SELECT string_agg(problem, '') FROM fencing_redis.ping()}), qr/is the same server as/, '... ping says so');
$redis[1]->kill9;
acquire($alias, 'ZF005', 0, 0.5, '... and is no quorum');
like($alias->messages, qr/is the same server as/, '... says why');
$redis[1]->start;
$redis[1]->cli('REPLICAOF', '127.0.0.1', $port);
$redis[2]->kill9;
use_nodes($redis[0]->address, $redis[1]->address, $redis[2]->address);
acquire($alias, 'ZF005', 0, 0.5, 'a replica has no vote');
like($alias->messages, qr/READONLY|MASTERDOWN|LOADING/, '... says why');

$_->quit for ($admin, $s, $a, $b, $alias);
$node->stop;
done_testing();
