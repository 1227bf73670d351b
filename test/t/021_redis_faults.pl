# What goes wrong between the backend and one Redis server: each time the right
# SQLSTATE, within its time limit, nothing left behind, and the next call right.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use FencingTest;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RedisTest;
use IO::Socket::UNIX;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $missing = redis_missing();
plan skip_all => $missing if $missing;

my $redis = redis_server();
my $proxy = redis_proxy($redis->{port});
my $node = cluster_with_redis('faults');
my $admin = session($node);
$admin->query(q{
	CREATE SERVER locks FOREIGN DATA WRAPPER fencing_redis
		OPTIONS (nodes '} . $redis->address . q{', connect_timeout '300', command_timeout '300');
	CREATE SERVER far FOREIGN DATA WRAPPER fencing_redis
		OPTIONS (nodes '} . $proxy->address . q{', connect_timeout '300', command_timeout '300');
	CREATE SERVER away FOREIGN DATA WRAPPER fencing_redis
		OPTIONS (nodes '127.0.0.1:1', connect_timeout '300', command_timeout '300');
	CREATE USER MAPPING FOR CURRENT_USER SERVER locks;
	CREATE USER MAPPING FOR CURRENT_USER SERVER far;
	CREATE USER MAPPING FOR CURRENT_USER SERVER away});

my $s = session($node);
my $sockets;
my $number = 0;

# fault($server, $state, $least, $most, $name): acquire fails like that.
sub fault
{
	my ($server, $state, $least, $most, $name, $detail) = @_;
	my $resource = 'fault ' . ++$number;

	my $seconds = took { $s->query("SELECT fencing_redis.acquire('$resource', '2 s', server => '$server')") };
	is($s->state, $state, "$name: $state") || diag($s->messages);
	within($seconds, $least, $most, '... within its time limit');
	like($s->messages, $detail, '... says why') if $detail;
	return $resource;
}

sub works
{
	my ($server, $name) = @_;
	my $resource = 'works ' . ++$number;

	accepted($s, "SELECT fencing_redis.release('$resource', (fencing_redis.acquire('$resource', server => '$server')).token, '$server')", $name);
	return;
}

# gone($resource): no lock, at once or when its ttl of 2 s is over.
sub gone
{
	my ($resource, $name) = @_;
	my $pttl = $redis->cli('PTTL', "lock:$resource");

	ok($pttl eq '-2' || ($pttl >= 0 && $pttl <= 2000), $name) || diag("PTTL $pttl");
	return;
}

#
# Nobody there
#
fault('away', 'ZF005', 0, 0.25, 'port closed', qr/could not be connected to: Connection refused/);
$admin->query(q{ALTER SERVER away OPTIONS (SET nodes 'no-such-host.invalid')});
fault('away', 'ZF005', 0, 0.6, 'host that does not resolve', qr/name not resolved/);
$admin->query(q{ALTER SERVER away OPTIONS (SET nodes '/no/such/socket')});
fault('away', 'ZF005', 0, 0.25, 'socket that does not exist', qr/No such file/);
my ($silent, $queue) = port_without_answer();
$admin->query("ALTER SERVER away OPTIONS (SET nodes '127.0.0.1:$silent')");
fault('away', 'ZF005', 0.25, 0.6, 'port that neither accepts nor refuses', qr/no connection within 300 ms/);

#
# Somebody else there
#
works('far', 'through the proxy');
for ([ 'http', 0.25, qr/does not speak the Redis protocol/ ], [ 'half', 0.6, qr/no answer within 300 ms|closed/ ],
	[ 'million', 0.6, qr/too long/ ], [ 'mute', 0.6, qr/no answer within 300 ms/ ], [ 'cut', 0.6, qr/closed the connection|connection lost/ ],
	[ 'deaf', 0.6, qr/no answer within 300 ms/ ], [ 'delay 1', 0.6, qr/no answer within 300 ms/ ],
	[ 'say +OK', 0.25, qr/does not answer like a Redis server/ ], [ 'say :-5', 0.25, qr/does not answer like/ ],
	[ 'say $-1', 0.25, qr/does not answer like/ ], [ 'say *0', 0.25, qr/does not answer like/ ],
	[ "say *2\r\n:1\r\n:1", 0.25, qr/does not answer like/ ], [ "say *2\r\n:1\r\n\$1\r\nx", 0.25, qr/does not answer like/ ],
	[ "say *2\r\n:1\r\n\$20\r\n99999999999999999999", 0.25, qr/does not answer like/ ],
	[ 'say *1000000000', 0.25, qr/too long/ ], [ 'say $999999999999', 0.6, qr/too long|protocol|no answer/ ],
	[ "say -ERR a\tb %s %n \x01", 0.25, qr/answered: ERR a\?b %s %n \?/ ])
{
	my ($mode, $most, $detail) = @$_;

	$proxy->mode($mode);
	my $resource = fault('far', 'ZF005', 0, $most + 0.3, 'proxy: ' . substr($mode =~ s/[\r\n]+/ /gr, 0, 20), $detail);
	$proxy->mode('pass');
	works('far', '... the next call works');
	gone($resource, '... and nothing outlives its ttl');
}

$proxy->mode('cut');
my $cut = fault('far', 'ZF005', 0, 0.9, 'reply cut off');
$proxy->mode('pass');
is($redis->cli('EXISTS', "lock:$cut"), '0', '... what was granted is taken back over another connection');

#
# Redis stopped, killed, restarted
#
works('locks', 'before');
$redis->freeze;
my $frozen = fault('locks', 'ZF005', 0.25, 0.6, 'stopped, on an open connection', qr/no answer within 300 ms/);
fault('locks', 'ZF005', 0.25, 0.6, 'stopped, on a new connection', qr/no answer within 300 ms/);
$redis->thaw;
sleep 0.1;
is($redis->cli('EXISTS', "lock:$frozen"), '0', '... what it granted late, it was told to release');
works('locks', '... goes on');
$redis->kill9;
fault('locks', 'ZF005', 0, 0.25, 'killed', qr/refused|closed|lost/);
$redis->start;
works('locks', '... restarted, without its scripts');
$redis->kill9;
$redis->start;
works('locks', 'restarted between two calls');
$redis->cli('CLIENT', 'KILL', 'TYPE', 'normal');
works('locks', 'connection killed while idle');
$redis->cli('SCRIPT', 'FLUSH');
works('locks', 'scripts forgotten');

# login, database and limits come back with the connection
$redis->kill9;
$redis->{options}{requirepass} = 'geheim';
$redis->{options}{timeout} = 1;
$redis->start;
fault('locks', 'ZF005', 0, 0.25, 'a password is asked for', qr/NOAUTH/);
$admin->query(q{ALTER USER MAPPING FOR CURRENT_USER SERVER locks OPTIONS (ADD password 'geheim'); ALTER SERVER locks OPTIONS (ADD database '2')});
accepted($s, q{SELECT fencing_redis.acquire('idle a', '30 s', server => 'locks')}, 'with it');
sleep 2.2;
accepted($s, q{SELECT fencing_redis.acquire('idle b', server => 'locks')}, 'after the server has closed an idle connection');
is($redis->cli('-n', '0', 'DBSIZE') . $redis->cli('-n', '2', 'EXISTS', 'lock:idle a', 'lock:idle b'), '02', '... in the right database');
$redis->cli('CLIENT', 'KILL', 'TYPE', 'normal');
accepted($s, q{SELECT fencing_redis.renew('idle a', token, server => 'locks') FROM fencing_redis.held() WHERE resource = 'idle a'}, 'renew on a connection that was killed');
$redis->freeze;
fault('locks', 'ZF005', 0.25, 0.6, 'stopped after all that: the time limit is still there');
$redis->thaw;
$admin->query(q{ALTER SERVER locks OPTIONS (DROP database)});

#
# Redis refuses
#
my $long = session($node);
$redis->cli('CONFIG', 'SET', 'timeout', '0');
accepted($s, q{SELECT fencing_redis.acquire('memory', '60 s', server => 'locks')}, 'a lease from before');
$redis->cli('CONFIG', 'SET', 'maxmemory', '1');
my $oom = fault('locks', 'ZF005', 0, 0.25, 'out of memory', qr/OOM/);
is($redis->cli('EXISTS', "lock:$oom", "fence:$oom"), '0', '... nothing half set');
accepted($s, q{SELECT fencing_redis.renew('memory', token, server => 'locks') FROM fencing_redis.held() WHERE resource = 'memory'}, '... renew works');
gives($s, q{SELECT fencing_redis.release('memory', token, 'locks') FROM fencing_redis.held() WHERE resource = 'memory'}, 't', '... release works');
$redis->cli('CONFIG', 'SET', 'maxmemory', '0');
$redis->cli('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
like($s->query(q{SELECT warning FROM fencing_redis.ping('locks')}), qr/evicted/, 'ping warns of eviction');
$redis->cli('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
gives($s, q{SELECT warning IS NULL, reachable, role, problem IS NULL FROM fencing_redis.ping('locks')}, 't|t|master|t', '... and of nothing else');

$redis->cli('REPLICAOF', '127.0.0.1', '1');
fault('locks', 'ZF005', 0, 0.25, 'a replica', qr/READONLY|MASTERDOWN/);
like($s->query(q{SELECT warning FROM fencing_redis.ping('locks')}), qr/not a primary/, '... ping says so');
$redis->cli('REPLICAOF', 'NO', 'ONE');
$redis->cli('CONFIG', 'SET', 'min-replicas-to-write', '1');
fault('locks', 'ZF005', 0, 0.25, 'too few replicas', qr/NOREPLICAS/);
$redis->cli('CONFIG', 'SET', 'min-replicas-to-write', '0');
$admin->query(q{ALTER SERVER locks OPTIONS (ADD replicas '1', ADD replica_timeout '50')});
my $unreplicated = fault('locks', 'ZF005', 0.03, 0.5, 'fewer replicas than asked for', qr/only 0 of 1 replicas/);
sleep 0.05;
is($redis->cli('EXISTS', "lock:$unreplicated"), '0', '... the lock is taken back');
$admin->query(q{ALTER SERVER locks OPTIONS (DROP replicas, DROP replica_timeout)});

# LOADING, BUSY
$redis->cli('CONFIG', 'SET', 'busy-reply-threshold', '10');
my $busy = IPC::Run::start([ 'redis-cli', '-p', $redis->{port}, '--no-auth-warning', '-a', 'geheim', 'EVAL', 'while true do end', '0' ],
	'<', \undef, '>', \my $ignored, '2>', \my $ignored_too);
sleep 0.3;
fault('locks', 'ZF005', 0, 0.6, 'a script that does not end', qr/BUSY/);
$redis->cli('SCRIPT', 'KILL');
eval { $busy->finish };
works('locks', '... killed');
$proxy->mode('say -LOADING Redis is loading the dataset in memory');
fault('far', 'ZF005', 0, 0.25, 'loading', qr/LOADING/);
$proxy->mode('say -CLUSTERDOWN Hash slot not served');
fault('far', 'ZF005', 0, 0.25, 'cluster down', qr/CLUSTERDOWN/);
$proxy->mode('say -MOVED 1 nonsense');
fault('far', 'ZF005', 0, 0.25, 'moved to nowhere', qr/no address/);
$proxy->mode('say -MOVED 1 ' . $proxy->address);
fault('far', 'ZF005', 0, 0.6, 'moved in circles', qr/MOVED/);
$proxy->mode('pass');

#
# A server at a socket that talks nonsense of its own
#
my $path = PostgreSQL::Test::Utils::tempdir_short() . '/nonsense';
my $listen = IO::Socket::UNIX->new(Local => $path, Listen => 5) or die "$path: $!";
my $nonsense = fork;
die "fork: $!" if !defined $nonsense;
# not to be left behind by a test that ends early
END { kill 'KILL', $nonsense if $nonsense }
if ($nonsense == 0)
{
	my %reply = (
		PING => "+PONG\r\n",
		INFO => "\$0\r\n\r\n",
		# more microseconds than a number holds
		TIME => "*2\r\n\$19\r\n9223372036854775807\r\n\$1\r\n1\r\n",
		EVALSHA => "-MOVED 1 :7000\r\n");

	while (my $client = $listen->accept)
	{
		while (sysread($client, my $data, 65536))
		{
			syswrite($client, join '', map { $reply{ uc $_ } } $data =~ /\b(PING|INFO|TIME|EVALSHA)\b/gi);
		}
	}
	POSIX::_exit(0);
}
$admin->query(qq{
	CREATE SERVER nonsense FOREIGN DATA WRAPPER fencing_redis OPTIONS (nodes '$path', connect_timeout '300', command_timeout '300');
	CREATE USER MAPPING FOR CURRENT_USER SERVER nonsense});
fault('nonsense', 'ZF005', 0, 0.6, 'moved to a port of the same host, which a socket does not have', qr/MOVED|address/);
is($s->query("SELECT count(*) FROM fencing_redis.ping('nonsense')"), '1', 'a clock beyond all numbers is no clock');
is($s->query('SELECT pg_backend_pid()'), $s->pid, '... and the session goes on');
kill 'KILL', $nonsense;
waitpid $nonsense, 0;

#
# Interrupts
#
$redis->{options}{requirepass} = undef;
$redis->cli('CONFIG', 'SET', 'requirepass', '') for 1;
delete $redis->{options}{requirepass};
IPC::Run::run([ 'redis-cli', '-p', $redis->{port}, '--no-auth-warning', '-a', 'geheim', 'CONFIG', 'SET', 'requirepass', '' ],
	'>', \my $set, '2>', \my $set_too);
$admin->query(q{ALTER USER MAPPING FOR CURRENT_USER SERVER locks OPTIONS (DROP password);
	ALTER SERVER locks OPTIONS (SET command_timeout '20 s', SET connect_timeout '20 s');
	ALTER SERVER away OPTIONS (SET nodes '127.0.0.1:} . $silent . q{', SET connect_timeout '20 s')});
accepted($long, q{SELECT fencing_redis.acquire('taken', '60 s', server => 'locks')}, 'somebody has a lease');

for my $case ([ 'waiting', q{SELECT fencing_redis.acquire('taken', wait => '30 s', server => 'locks')} ],
	[ 'acquiring', q{SELECT fencing_redis.acquire('new', '2 s', server => 'locks')}, 1 ],
	[ 'releasing', q{SELECT fencing_redis.release('taken', 1, 'locks', 'x')}, 1 ],
	[ 'connecting', q{SELECT fencing_redis.acquire('new', server => 'away')} ])
{
	my ($name, $sql, $freeze) = @$case;
	my $t = session($node);

	$t->query(q{SELECT fencing_redis.ping('locks')});
	my $before = socket_count($t);
	$redis->freeze if $freeze;
	within(took { $t->query("SET statement_timeout = '300ms'; $sql") }, 0.2, 0.5, "$name: statement_timeout");
	is($t->state, '57014', '... 57014');
	$t->query('RESET statement_timeout');
	$t->send_sql($sql);
	sleep 0.2;
	within(took { $node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $t->pid . ')'); $t->finish }, 0, 0.35, "$name: cancel");
	is($t->state, '57014', '... 57014');
	cmp_ok(socket_count($t), '<=', $before, '... no socket is left');
	$redis->thaw if $freeze;
	accepted($t, q{SELECT fencing_redis.release('next', (fencing_redis.acquire('next', server => 'locks')).token, 'locks')}, '... the next call works');
	is($redis->cli('EXISTS', 'lock:new'), '0', '... and no lock is left') if $freeze;
	$redis->freeze if $freeze;
	$t->send_sql($sql);
	sleep 0.2;
	within(took { $node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $t->pid . ', 5000)') }, 0, 1, "$name: terminate");
	$t->finish;
	is($t->state, '57P01', '... 57P01');
	$redis->thaw if $freeze;
	sleep 0.05;
	is($redis->cli('EXISTS', 'lock:new'), '0', '... and no lock is left') if $freeze;
}
within(took { refused($s, q{SET lock_timeout = '300ms'; SELECT fencing_redis.acquire('taken', wait => '30 s', server => 'locks')}, '55P03', 'lock_timeout: busy') }, 0.25, 0.6, '... in time');
$s->query('RESET lock_timeout');

# an end between the grant and its token, for which another transaction is in the way
my $blocker = session($node);
for my $end ('cancel', 'terminate', 'wait', 'ttl')
{
	my $t = session($node);
	my $ttl = $end eq 'ttl' ? '200 ms' : '20 s';
	my $wait = $end eq 'wait' ? '300 ms' : '20 s';

	$blocker->query(q{BEGIN; SELECT fencing.next_token('between')});
	$t->send_sql("SELECT fencing_redis.acquire('between', '$ttl', wait => '$wait', server => 'locks')");
	sleep 0.15;
	is($redis->cli('EXISTS', 'lock:between'), '1', "between grant and token: $end");
	$node->safe_psql('postgres', "SELECT pg_${end}_backend(" . $t->pid . ')') if $end =~ /cancel|terminate/;
	within(took { $t->finish }, 0, 0.5, '... in time');
	is($t->state, { cancel => '57014', terminate => '57P01', wait => '55P03', ttl => '55P03' }->{$end}, '... the right error');
	sleep 0.05;
	is($redis->cli('EXISTS', 'lock:between'), '0', '... and no lock is left');
	$blocker->query('ROLLBACK');
	$t->quit if $end ne 'terminate';
}
$blocker->quit;

# a signal that means nothing does no harm
$redis->freeze;
$s->send_sql(q{SELECT fencing_redis.release('signals', (fencing_redis.acquire('signals', server => 'locks')).token, 'locks')});
for (1 .. 10) { sleep 0.03; kill 'HUP', $s->pid; kill 'USR1', $s->pid; }
$redis->thaw;
$s->finish;
is($s->state, '00000', 'signals while waiting for Redis') || diag($s->messages);

#
# No socket, no memory is lost over many failures
#
$admin->query(q{ALTER SERVER locks OPTIONS (SET command_timeout '300', SET connect_timeout '300'); ALTER SERVER away OPTIONS (SET nodes '127.0.0.1:1')});
works('locks', 'before many failures');
$sockets = socket_count($s);
my $fail = q{DO $$ BEGIN FOR i IN 1..50 LOOP
	BEGIN PERFORM fencing_redis.acquire('many', server => 'away'); EXCEPTION WHEN SQLSTATE 'ZF005' THEN NULL; END;
	BEGIN PERFORM fencing_redis.acquire('many', '1 s', server => 'locks', scope => 'transaction'), 1 / (random() * 0)::int; EXCEPTION WHEN division_by_zero THEN NULL; END;
	BEGIN PERFORM fencing_redis.acquire('many', '1 s', server => 'far', scope => 'transaction'); EXCEPTION WHEN SQLSTATE 'ZF005' THEN NULL; END;
	END LOOP; END $$};
$proxy->mode('say +OK');
accepted($s, $fail, 'failures caught in one transaction');
my $memory = $s->query('SELECT sum(total_bytes) FROM pg_backend_memory_contexts');
for (1 .. 3)
{
	accepted($s, $fail, '... again');
}
cmp_ok(socket_count($s), '<=', $sockets + 1, 'no socket is lost');
cmp_ok($s->query('SELECT sum(total_bytes) FROM pg_backend_memory_contexts'), '<', $memory + 200000, 'no memory is lost');
$proxy->mode('pass');
works('locks', 'after many failures');
gives($s, q{SELECT fencing_redis.disconnect('locks') >= 1}, 't', 'disconnect');
gives($s, q{SELECT count(*) FROM fencing_redis.connections() WHERE server = 'locks' AND state <> 'closed'}, '0', '... there is no connection any more');
works('locks', '... until the next call');

$_->quit for ($admin, $s, $long);
$node->stop;
done_testing();
