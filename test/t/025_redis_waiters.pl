# Waiting for a lease that is busy: woken by the release, not in lockstep, at
# little cost; and a Redis cluster, whose nodes send callers to each other.

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

my $redis = redis_server();
my $node = cluster_with_redis('waiters', 'max_connections = 60');
my $admin = session($node);
$admin->query(q{
	CREATE SERVER locks FOREIGN DATA WRAPPER fencing_redis OPTIONS (nodes '} . $redis->address . q{');
	CREATE USER MAPPING FOR CURRENT_USER SERVER locks;
	ALTER DATABASE postgres SET fencing_redis.server = 'locks';
	CREATE TABLE handed (i int, released timestamptz, granted timestamptz);
	CREATE TABLE work (n int, busy boolean);
	INSERT INTO work VALUES (0, false)});
my @s = map { session($node) } 1 .. 20;

#
# From a release to the next grant
#
my @ms;
for (1 .. 21)
{
	my ($holder, $waiter) = @s[ 0, 1 ];

	$holder->query(q{SELECT fencing_redis.acquire('hand', '20 s')});
	$waiter->send_sql(q{SELECT fencing_redis.acquire('hand', '20 s', wait => '5 s'); SELECT extract(epoch FROM acquired_at) FROM fencing_redis.held()});
	sleep 0.05 + rand 0.1;
	my $released = $holder->query(q{SELECT extract(epoch FROM clock_timestamp()), fencing_redis.release('hand', token) FROM fencing_redis.held()});
	$released =~ s/\|.*//;
	my ($granted) = $waiter->finish =~ /([\d.]+)\z/;
	push @ms, 1000 * ($granted - $released);
	$waiter->query(q{SELECT fencing_redis.release('hand', token) FROM fencing_redis.held()});
}
@ms = sort { $a <=> $b } @ms;
note(sprintf 'hand-off: median %.2f ms, worst %.2f ms', $ms[10], $ms[20]);
cmp_ok($ms[10], '<', 5, 'one waiter: it is granted within 5 ms of the release (median)');

# a long wait costs little
$s[0]->query(q{SELECT fencing_redis.acquire('long', '60 s')});
$redis->cli('CONFIG', 'RESETSTAT');
$_->send_sql(q{SELECT fencing_redis.acquire('long', wait => '3 s')}) for @s[ 1 .. 10 ];
$_->finish for @s[ 1 .. 10 ];
is(join(',', map { $_->state } @s[ 1 .. 10 ]), join(',', ('55P03') x 10), 'ten wait for three seconds, in vain');
my $each = $redis->commands / 10 / 3;
note(sprintf '%.1f commands a second for each', $each);
cmp_ok($each, '<=', 20, '... and ask at most 20 times a second');

# many of them, one after the other
$s[0]->query(q{SELECT fencing_redis.release('long', token) FROM fencing_redis.held()});
$redis->cli('CONFIG', 'RESETSTAT');
my $seconds = took
{
	$_->send_sql(q{DO $$ DECLARE t bigint; BEGIN FOR i IN 1..3 LOOP
		t := (fencing_redis.acquire('many', '20 s', wait => '60 s')).token;
		COMMIT;
		UPDATE work SET n = n + 1, busy = NOT busy WHERE NOT busy;
		IF NOT FOUND THEN RAISE 'two at once'; END IF;
		COMMIT;
		PERFORM pg_sleep(0.02);
		UPDATE work SET busy = false;
		COMMIT;
		PERFORM fencing_redis.release('many', t);
		COMMIT;
		END LOOP; END $$}) for @s;
	$_->finish for @s;
};
is(join(',', map { $_->state } @s), join(',', ('00000') x 20), 'twenty waiters, three turns each') || diag(join '', map { $_->messages } @s);
is($admin->query('SELECT n FROM work'), '60', '... one at a time');
$each = ($redis->commands - 2 * 60) / 20 / $seconds;
note(sprintf '%.1f s for 60 turns of 20 ms, %.1f commands a second for each', $seconds, $each);
cmp_ok($each, '<=', 20, '... at most 20 commands a second for each waiter');
cmp_ok($seconds, '<', 6, '... without long gaps');

# nobody may listen: slower, but it works
$redis->cli('ACL', 'SETUSER', 'deaf', 'on', '>d', '~*', 'resetchannels', '+@all');
$admin->query(q{ALTER USER MAPPING FOR CURRENT_USER SERVER locks OPTIONS (ADD user 'deaf', ADD password 'd')});
$s[0]->query(q{SELECT fencing_redis.acquire('deaf', '20 s')});
$s[1]->send_sql(q{SELECT fencing_redis.acquire('deaf', wait => '5 s')});
sleep 0.3;
within(took { $s[0]->query(q{SELECT fencing_redis.release('deaf', token) FROM fencing_redis.held()}); $s[1]->finish }, 0, 0.8, 'no right to listen');
is($s[1]->state, '00000', '... granted');
$_->quit for @s;

#
# A cluster of two
#
SKIP:
{
	my @node = map { redis_server('cluster-enabled' => 'yes', 'cluster-require-full-coverage' => 'no') } 1 .. 2;
	skip 'this Redis has no cluster mode', 12 if $node[0]->cli('CLUSTER', 'INFO') !~ /cluster_state/;
	$node[0]->cli('CLUSTER', 'ADDSLOTSRANGE', '0', '8191');
	$node[1]->cli('CLUSTER', 'ADDSLOTSRANGE', '8192', '16383');
	$node[0]->cli('CLUSTER', 'MEET', '127.0.0.1', $node[1]{port});
	for (1 .. 100)
	{
		last if 2 == grep { $_->cli('CLUSTER', 'INFO') =~ /cluster_state:ok.*cluster_slots_ok:16384/s } @node;
		sleep 0.1;
	}
	$admin->query(q{CREATE SERVER cluster FOREIGN DATA WRAPPER fencing_redis OPTIONS (nodes '} . $node[0]->address . q{');
		CREATE USER MAPPING FOR CURRENT_USER SERVER cluster});
	my $c = session($node, options => '-c fencing_redis.server=cluster');
	my %where;

	refused($c, q{SELECT fencing_redis.acquire('a')}, 'ZF005', 'a cluster, without hash_tag');
	like($c->messages, qr/CROSSSLOT.*hash_tag/s, '... says what to do');
	$admin->query(q{ALTER SERVER cluster OPTIONS (ADD hash_tag 'true')});
	for my $name ('a', 'b', 'c', 'd', 'e', 'x{y}z', '{}', 'a}b{c', '}x', '{', '}')
	{
		accepted($c, "SELECT fencing_redis.acquire('$name', scope => 'session')", "cluster, name \"$name\"");
		my $key = $name =~ /^\}/ ? "{#}$name" : "{$name}";
		my ($on) = grep { $node[$_]->cli('EXISTS', "lock:$key") eq '1' } 0, 1;
		$where{ $on // 'nowhere' }++;
		is($node[ $on // 0 ]->cli('EXISTS', "fence:$key"), '1', '... lock and counter on one node');
		gives($c, "SELECT fencing_redis.release(resource, token) FROM fencing_redis.held()", 't', '... release');
	}
	ok($where{0} && $where{1} && !$where{nowhere}, 'both nodes have had some: MOVED was followed');
	gives($c, q{SELECT count(*) FROM fencing_redis.connections() WHERE server = 'cluster'}, '2', '... over one connection each');

	# a lease of the transaction, on the other node
	$c->query(q{BEGIN; SELECT fencing_redis.acquire(n, scope => 'transaction') FROM unnest('{a,b,c,d,e}'::text[]) n; COMMIT});
	is($c->state, '00000', 'leases of the transaction');
	sleep 0.05;
	is($node[0]->cli('KEYS', 'lock:*') . $node[1]->cli('KEYS', 'lock:*'), '', '... are released wherever they are');

	# a slot that is on its way from one to the other
	my $slot = $node[0]->cli('CLUSTER', 'KEYSLOT', '{a}');
	my ($from, $to) = $slot < 8192 ? @node : reverse @node;
	my ($from_id, $to_id) = map { $_->cli('CLUSTER', 'MYID') } $from, $to;
	$from->cli('DEL', 'lock:{a}', 'fence:{a}');
	$to->cli('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $from_id);
	$from->cli('CLUSTER', 'SETSLOT', $slot, 'MIGRATING', $to_id);
	refused($c, q{SELECT fencing_redis.acquire('a')}, 'ZF005', 'a slot on its way: no grant');
	like($c->messages, qr/TRYAGAIN.*moving this key/s, '... says why');
	my $commands = "ASKING\nSET lock:{a} h PX 20000\nASKING\nSET fence:{a} 5\n";
	IPC::Run::run([ 'redis-cli', '-p', $to->{port} ], '<', \$commands, '>', \my $out);
	gives($c, q{SELECT token FROM fencing_redis.renew('a', 5, '30 s', holder => 'h')}, '5', 'ASK is followed: renew');
	gives($c, q{SELECT fencing_redis.release('a', 5, holder => 'h')}, 't', '... release');
	$c->quit;
}

$admin->quit;
$node->stop;
done_testing();
