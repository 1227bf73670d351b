# Tokens when the counter in Redis is lost, set back, or at its end; and locks
# that other clients take and respect.

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
my $node = cluster_with_redis('counters');
my $s = session($node);
$s->query(q{
	CREATE SERVER locks FOREIGN DATA WRAPPER fencing_redis OPTIONS (nodes '} . $redis->address . q{');
	CREATE USER MAPPING FOR CURRENT_USER SERVER locks;
	SET fencing_redis.server = 'locks';
	CREATE TABLE t (id text PRIMARY KEY, v int);
	SELECT fencing.fence('t', '{id}', mark => 'resource')});

# next_token_of($resource): acquires, releases, returns the token, '' on error.
sub next_token_of
{
	my ($resource, $floor) = @_;
	$floor //= 0;

	return $s->query("SELECT a.token FROM fencing_redis.acquire('$resource', floor => $floor) a, "
		  . "LATERAL fencing_redis.release('$resource', a.token)");
}

sub write_with
{
	my ($resource, $token) = @_;

	return "BEGIN; SELECT fencing.present('$resource', $token); INSERT INTO t VALUES ('$resource', 1) ON CONFLICT (id) DO UPDATE SET v = t.v + 1; COMMIT";
}

#
# A counter that is ahead: the token is the next number
#
$redis->cli('SET', 'fence:ahead', '89');
is(next_token_of('ahead'), '90', 'a counter at 89: token 90');
accepted($s, write_with('ahead', 90), 'a write with 90');
is(next_token_of('ahead'), '91', 'then 91');

# flushed, deleted, set back
for my $how ([ 'flushed', sub { $redis->cli('FLUSHALL') } ], [ 'deleted', sub { $redis->cli('DEL', 'fence:ahead') } ],
	[ 'set back', sub { $redis->cli('SET', 'fence:ahead', '81') } ], [ 'below zero', sub { $redis->cli('SET', 'fence:ahead', '-81') } ])
{
	my ($name, $code) = @$how;
	my $before = next_token_of('ahead');

	$code->();
	my $after = next_token_of('ahead');
	cmp_ok($after, '>', $before, "counter $name: the next token is larger");
	accepted($s, write_with('ahead', $after), '... and accepted');
	refused($s, write_with('ahead', $before), 'ZF001', '... and the one before refused');
	sleep 0.02;
	is($redis->cli('GET', 'fence:ahead'), $after, '... and the counter is raised to it');
}

# a token that was never written with is not handed out, or undercut, either
$redis->cli('SET', 'fence:unused', '5000');
my $unused = next_token_of('unused');
is($unused, '5001', 'a token that nobody has written with yet');
$redis->cli('FLUSHALL');
cmp_ok(next_token_of('unused'), '>', $unused, '... the one after the flush is larger');
$s->query('BEGIN');
$redis->cli('SET', 'fence:undone', '7000');
is(next_token_of('undone'), '7001', 'a token in a transaction');
$s->query('ROLLBACK');
$redis->cli('FLUSHALL');
cmp_ok(next_token_of('undone'), '>', 7001, '... is not taken back by its rollback and a flush');

# the floor
is(next_token_of('floor', 20000), '20000', 'a floor above everything');
cmp_ok(next_token_of('floor', 20000), '>', 20000, '... and never the same number twice');
cmp_ok(next_token_of('floor', 1), '>', 20001, '... a floor below everything');

#
# Large numbers
#
$redis->cli('SET', 'fence:large', '9007199254740992');
is(next_token_of('large'), '9007199254740993', 'counter at 2^53: exact');
is(next_token_of('large'), '9007199254740994', 'counter at 2^53 + 1: exact');
accepted($s, write_with('large', '9007199254740994'), '... accepted');
is(next_token_of('large'), '9007199254740995', '... and goes on');
$redis->cli('SET', 'fence:last', '9223372036854775806');
is(next_token_of('last'), '9223372036854775807', 'the last one');
refused($s, q{SELECT fencing_redis.acquire('last')}, 'ZF006', '... and no more');
is($redis->cli('EXISTS', 'lock:last'), '0', '... no lock is left behind');
is($redis->cli('GET', 'fence:last'), '9223372036854775807', '... and the counter is as it was');
for my $bad ('x', '1.5', ' 12', '9223372036854775808', '')
{
	$redis->cli('SET', 'fence:bad', $bad);
	refused($s, q{SELECT fencing_redis.acquire('bad')}, 'ZF005', "counter \"$bad\"");
	is($redis->cli('EXISTS', 'lock:bad'), '0', '... no lock is left behind');
}
cmp_ok(next_token_of('small'), '<', 1000000, 'other resources are not concerned') || diag($s->messages);

# a mark that is higher than everything
$s->query(write_with('marked', 600000));
my $above = next_token_of('marked');
cmp_ok($above, '>', 600000, 'a mark that a token from elsewhere has set: the next one is above');

# evicted, as Redis may with another policy
my $other = session($node);
$other->query(q{SET fencing_redis.server = 'locks'});
$s->query(q{SELECT fencing_redis.acquire('evicted', '60 s')});
my $old = $s->query(q{SELECT token FROM fencing_redis.held() WHERE resource = 'evicted'});
$redis->cli('DEL', 'lock:evicted', 'fence:evicted');
my $new = $other->query(q{SELECT (fencing_redis.acquire('evicted', '60 s')).token});
cmp_ok($new, '>', $old, 'a lease that was evicted: the next holder has a larger token');
accepted($other, write_with('evicted', $new), '... its write');
refused($s, write_with('evicted', $old), 'ZF001', '... the write of the one before');

#
# Locks of others
#
is($redis->cli('SET', 'lock:plain', 'me', 'NX', 'PX', '300'), 'OK', 'redis-cli: SET NX PX');
refused($s, q{SELECT fencing_redis.acquire('plain')}, '55P03', '... excludes us');
within(took { accepted($s, q{SELECT fencing_redis.acquire('plain', '30 s', wait => '2 s')}, '... until it ends') }, 0.1, 0.6, '... and we have it soon');
is($redis->cli('SET', 'lock:plain', 'me', 'NX', 'PX', '300'), '', '... and exclude it');
$redis->cli('SET', 'lock:forever', 'me');
refused($s, q{SELECT fencing_redis.acquire('forever', wait => '300 ms')}, '55P03', 'a lock without an end');

SKIP:
{
	my $python = '/usr/bin/python3';
	skip 'no python3 with redis', 6
	  if !-x $python || system("$python -c 'import redis' 2>/dev/null") != 0;
	my $script = "$PostgreSQL::Test::Utils::tmp_check/lock.py";
	append_to_file($script, <<'PY');
import sys, redis
r = redis.Redis(port=int(sys.argv[1]))
if sys.argv[2] == 'try':
    lock = r.lock('lock:py', timeout=5, blocking=False)
    print(lock.acquire(), flush=True)
else:
    lock = r.lock('lock:py', timeout=5, blocking=True, blocking_timeout=3)
    print(lock.acquire(), flush=True)
    sys.stdin.readline()
    lock.release()
    print('released', flush=True)
PY
	my $py = sub { my $out = qx($python $script $redis->{port} @_); chomp $out; return $out; };
	$s->query(q{SELECT fencing_redis.acquire('py', '20 s')});
	is($py->('try'), 'False', "redis-py's Lock respects a lease of ours");
	my ($in, $out) = ('', '');
	my $run = IPC::Run::start([ $python, $script, $redis->{port}, 'hold' ], '<', \$in, '>', \$out, IPC::Run::timeout(30));
	sleep 0.3;
	$s->query(q{SELECT fencing_redis.release('py', token) FROM fencing_redis.held() WHERE resource = 'py'});
	$run->pump until $out =~ /True/;
	pass("... and takes it when it is released");
	refused($s, q{SELECT fencing_redis.acquire('py')}, '55P03', '... and excludes us');
	my $stolen = $redis->cli('GET', 'lock:py');
	gives($s, q{SELECT fencing_redis.release('py', 1, holder => 'somebody')}, 'f', '... we cannot release it');
	is($redis->cli('GET', 'lock:py'), $stolen, '... and it is untouched');
	$s->send_sql(q{SELECT fencing_redis.acquire('py', wait => '5 s')});
	$in .= "\n";
	$run->pump until $out =~ /released/;
	$s->finish;
	is($s->state, '00000', '... until it releases it');
	$run->finish;
}

$_->quit for ($s, $other);
$node->stop;
done_testing();
