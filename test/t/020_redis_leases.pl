# Leases from one Redis server: grant, renewal, release, names, times, options
# and rights.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RedisTest;
use Test::More;

my $missing = redis_missing();
plan skip_all => $missing if $missing;

my $redis = redis_server();
my $node = cluster_with_redis('leases');
my $admin = session($node);
$admin->query(q{
	CREATE SERVER locks FOREIGN DATA WRAPPER fencing_redis OPTIONS (nodes '} . $redis->address . q{');
	CREATE USER MAPPING FOR CURRENT_USER SERVER locks;
	ALTER ROLE CURRENT_USER SET fencing_redis.server = 'locks';
	SET fencing_redis.server = 'locks'});
is($admin->state, '00000', 'a server and its user mapping');
my $other = session($node);

sub held
{
	my ($session, $resource) = @_;
	my $token = $session->query("SELECT token FROM fencing_redis.held() WHERE resource = '$resource'");

	return $token;
}

#
# One holder
#
accepted($admin, q{SELECT fencing_redis.acquire('a', '10 s')}, 'acquire');
my $token = held($admin, 'a');
cmp_ok($token, '>=', 1, '... has a token');
is($redis->cli('GET', 'lock:a'), $admin->query(q{SELECT holder FROM fencing_redis.held()}), '... the lock has the holder for its value');
is($redis->cli('GET', 'fence:a'), $token, '... the counter is at the token');
cmp_ok($redis->cli('PTTL', 'lock:a'), '>', 9000, '... and the ttl is the one asked for');
refused($other, q{SELECT fencing_redis.acquire('a')}, '55P03', 'somebody else: busy');
gives($other, q{SELECT fencing_redis.try_acquire('a') IS NULL}, 't', 'try_acquire: NULL');
refused($admin, q{SELECT fencing_redis.acquire('a')}, '55P03', 'the same session with another holder: busy');
accepted($admin, "SELECT fencing_redis.renew('a', $token, '60 s')", 'renew');
cmp_ok($redis->cli('PTTL', 'lock:a'), '>', 50000, '... has set the ttl');
gives($admin, q{SELECT expires_at - clock_timestamp() BETWEEN '59 s' AND '60 s' FROM fencing_redis.held()}, 't', '... and the expiry');
gives($other, "SELECT fencing_redis.release('a', $token)", 'f', 'a session that did not acquire it does not release it');
like($other->messages, qr/WARNING:  ZF004: /, '... and is warned');
gives($admin, "SELECT fencing_redis.release('a', $token)", 't', 'release');
is($redis->cli('EXISTS', 'lock:a'), '0', '... the lock is gone');
gives($admin, "SELECT fencing_redis.release('a', $token)", 'f', 'release again: false');
gives($admin, 'SELECT count(*) FROM fencing_redis.held()', '0', 'nothing is held');
gives($admin, "SELECT fencing_redis.renew('a', $token) IS NULL", 't', 'renew after release: NULL');
like($admin->messages, qr/WARNING:  ZF004: /, '... with a warning');
is($redis->cli('EXISTS', 'lock:a'), '0', '... sets nothing');

# a lapsed lease is not revived, and the next holder's is not touched
accepted($admin, q{SELECT fencing_redis.acquire('lapse', '60 ms')}, 'a short lease');
my $first = $admin->query(q{SELECT token FROM fencing_redis.held() WHERE resource = 'lapse'}) || $redis->cli('GET', 'fence:lapse');
$admin->query('SELECT pg_sleep(0.1)');
gives($admin, "SELECT fencing_redis.renew('lapse', $first) IS NULL", 't', 'renew after it has lapsed: NULL');
accepted($other, q{SELECT fencing_redis.acquire('lapse', '20 s')}, 'the next holder');
gives($admin, "SELECT fencing_redis.release('lapse', $first)", 'f', 'release by the old one: false');
cmp_ok($redis->cli('PTTL', 'lock:lapse'), '>', 15000, '... leaves the next one its time');
cmp_ok(held($other, 'lapse'), '>', $first, '... whose token is larger');

# the same holder
accepted($admin, q{SELECT fencing_redis.acquire('own', '5 s', holder => 'w1')}, 'a holder with a name');
$token = held($admin, 'own');
gives($admin, q{SELECT token FROM fencing_redis.acquire('own', '30 s', holder => 'w1')}, $token, 'acquires again: the same token');
cmp_ok($redis->cli('PTTL', 'lock:own'), '>', 25000, '... and a new expiry');
gives($other, q{SELECT token FROM fencing_redis.acquire('own', '30 s', holder => 'w1')}, $token, '... from another session, too');
refused($other, q{SELECT fencing_redis.acquire('own', holder => 'W1')}, '55P03', 'a name in capitals is another holder');
gives($other, "SELECT fencing_redis.release('own', @{[$token - 1]}, holder => 'w1')", 'f', 'an older token does not release it');
gives($other, "SELECT fencing_redis.release('own', $token, holder => 'w1')", 't', 'holder and token do, from anywhere');
gives($admin, "SELECT fencing_redis.release('own', $token)", 'f', '... and only once');
accepted($admin, q{SELECT fencing_redis.acquire('own', holder => 'w1')}, 'the holder again, after the release');
cmp_ok(held($admin, 'own'), '>', $token, '... has a larger token');

# by hand
$redis->cli('DEL', 'lock:own');
gives($admin, "SELECT fencing_redis.renew('own', @{[held($admin, 'own')]}) IS NULL", 't', 'renew of a lock that was deleted by hand: NULL');

# what failed after the grant
refused($admin, q{SELECT fencing_redis.acquire('kept'), 1 / (random() * 0)::int}, '22012', 'a statement that fails after the grant');
cmp_ok(held($admin, 'kept'), '>=', 1, '... the lease is held and can be seen');
accepted($admin, q{SELECT fencing_redis.release('kept', token) FROM fencing_redis.held() WHERE resource = 'kept'}, '... and released');

# the end of a session
my $gone = session($node);
accepted($gone, q{SELECT fencing_redis.acquire('gone')}, 'a session with a lease');
$gone->quit;
ok($node->poll_query_until('postgres', q{SELECT (fencing_redis.try_acquire('gone', server => 'locks')).token IS NOT NULL}),
	'... leaves none behind');

#
# Names
#
my @names = (' ', 'stock 1', '50%off', 'a%sb', 'x{y}z', '{}', 'a}b{c', "new\nline", "tab\t", "\x{f0}\x{9f}\x{94}\x{92}",
	'A', 'x' x 512, "caf\xc3\xa9", "cafe\xcc\x81", '"quoted"', '$1', "\\", "\r\n*1\r\n");
for my $name (@names)
{
	my $shown = $name =~ s/[^ -~]/?/gr;
	$shown = substr($shown, 0, 20);
	my $literal = "E'" . ($name =~ s/([\\'])/\\$1/gr =~ s/\n/\\n/gr =~ s/\t/\\t/gr =~ s/\r/\\r/gr) . "'";

	accepted($admin, "SELECT fencing_redis.acquire($literal)", "name \"$shown\": acquire");
	my $value = $redis->cli('GET', "lock:$name");
	is($value, $admin->query("SELECT holder FROM fencing_redis.held() WHERE resource = $literal"), '... is the key to the byte');
	gives($admin, "SELECT fencing_redis.release(resource, token) FROM fencing_redis.held() WHERE resource = $literal", 't', '... and release');
}
for ([ 'NULL', 'NULL' ], [ "''", 'empty' ], [ "repeat('x', 513)", '513 bytes' ], [ "repeat('x', 1000000)", 'a megabyte' ])
{
	refused($admin, "SELECT fencing_redis.acquire($_->[0])", '22023', "name: $_->[1]");
	refused($admin, "SELECT fencing_redis.acquire('n', holder => $_->[0])", '22023', "holder: $_->[1]") if $_->[0] ne 'NULL';
}

#
# Arguments are looked at before anything is sent
#
$redis->cli('CONFIG', 'RESETSTAT');
for my $ttl ('NULL', "'0'", "'-1 s'", "'300 years'", "'102 years'", "'1 month -31 days'")
{
	refused($admin, "SELECT fencing_redis.acquire('t', $ttl)", '22023', "acquire: ttl $ttl");
	refused($admin, "SELECT fencing_redis.renew('t', 1, $ttl)", '22023', "renew: ttl $ttl");
}
refused($admin, "SELECT fencing_redis.acquire('t', 'infinity')", $admin->query('SHOW server_version_num') >= 170000 ? '22023' : '22007', 'acquire: ttl infinity');
refused($admin, q{SELECT fencing_redis.acquire('t', wait => '-1 s')}, '22023', 'wait below zero');
refused($admin, q{SELECT fencing_redis.acquire('t', wait => NULL)}, '22023', 'wait NULL');
refused($admin, q{SELECT fencing_redis.acquire('t', scope => 'forever')}, '22023', 'an unknown scope');
refused($admin, q{SELECT fencing_redis.acquire('t', scope => NULL)}, '22023', 'scope NULL');
refused($admin, q{SELECT fencing_redis.acquire('t', floor => -1)}, '22023', 'floor below zero');
refused($admin, q{SELECT fencing_redis.acquire('t', floor => NULL)}, '22023', 'floor NULL');
refused($admin, q{SELECT fencing_redis.acquire('t', server => NULL)}, '22023', 'server NULL');
refused($admin, q{SELECT fencing_redis.acquire('t', server => '')}, '22023', 'server empty');
refused($admin, q{SELECT fencing_redis.release('t', 0)}, '22023', 'token 0');
refused($admin, q{SELECT fencing_redis.renew('t', NULL)}, '22023', 'token NULL');
refused($admin, q{SELECT fencing_redis.acquire('t', server => 'nowhere')}, '42704', 'no such server');
refused($admin, q{BEGIN READ ONLY; SELECT fencing_redis.acquire('t'); ROLLBACK}, '25006', 'a read-only transaction');
refused($admin, q{BEGIN READ ONLY; SELECT fencing_redis.renew('t', 1); ROLLBACK}, '25006', '... renew');
refused($admin, q{BEGIN READ ONLY; SELECT fencing_redis.release('t', 1); ROLLBACK}, '25006', '... release');
accepted($admin, q{BEGIN READ ONLY; SELECT * FROM fencing_redis.held(), fencing_redis.connections(); COMMIT}, '... but what is held can be seen');
is($redis->commands, 0, 'for all of these Redis was not asked');

# as short and as long as can be
for ([ '999 us', 0, 1 ], [ '1 us', 0, 1 ], [ '1 month', 2591990000, 2592000000 ], [ '99 years', 3e12, 3.2e12 ])
{
	my ($ttl, $least, $most) = @$_;
	my $out = $admin->query("SELECT (fencing_redis.acquire('ttl $ttl', '$ttl')).token");

	if ($most > 1)
	{
		my $pttl = $redis->cli('PTTL', "lock:ttl $ttl");
		ok($pttl > $least && $pttl <= $most, "ttl $ttl") || diag("PTTL $pttl");
	}
	else
	{
		ok($admin->state eq 'ZF005' || $out >= 1, "ttl $ttl: granted or too late");
		is($redis->cli('PTTL', "lock:ttl $ttl"), '-2', '... and over') if $admin->query('SELECT pg_sleep(0.005)') eq '';
	}
}

#
# Options
#
sub bad_options
{
	my ($options, $state, $name) = @_;

	refused($admin, "CREATE SERVER bad FOREIGN DATA WRAPPER fencing_redis OPTIONS ($options)", $state, $name);
}
bad_options("nodes '127.0.0.1:1', colour 'red'", 'HV00D', 'an unknown option');
like($admin->messages, qr/colour.*nodes, database, /s, '... is named, and those that exist');
bad_options("nodes '127.0.0.1:1', password 'x'", 'HV00D', 'a password in a server');
like($admin->messages, qr/user mapping/, '... belongs elsewhere');
bad_options("database '0'", '22023', 'no nodes');
bad_options("nodes ''", '22023', 'empty nodes');
bad_options("nodes 'a,,b'", '22023', 'an empty entry');
bad_options("nodes 'a:0'", '22023', 'port 0');
bad_options("nodes 'a:65536'", '22023', 'port 65536');
bad_options("nodes 'a:6379x'", '22023', 'port 6379x');
bad_options("nodes 'a b'", '22023', 'a space in a host');
bad_options("nodes '::1'", '22023', 'IPv6 without brackets');
bad_options("nodes '[/]'", '22023', 'brackets around a path');
bad_options("nodes '[redis]:6379'", '22023', 'brackets around a name');
bad_options("nodes '[::1'", '22023', 'half a bracket');
bad_options("nodes ':6379'", '22023', 'no host');
bad_options("nodes 'a:6379, A'", '22023', 'a node twice');
bad_options("nodes '" . join(',', map { "h$_" } 1 .. 32) . "'", '22023', '32 nodes');
bad_options("nodes 'a', database '-1'", '22023', 'database -1');
bad_options("nodes 'a', database 'x'", '22023', 'database x');
bad_options("nodes 'a', connect_timeout '0'", '22023', 'connect_timeout 0');
bad_options("nodes 'a', command_timeout '2 parsecs'", '22023', 'a unit that is none');
bad_options("nodes 'a', hash_tag 'maybe'", '22023', 'hash_tag maybe');
bad_options("nodes 'a', lock_prefix 'fence:'", '22023', 'the same prefix twice');
bad_options("nodes 'a', lock_prefix 'fence:x'", '22023', 'a prefix that begins with the other');
bad_options("nodes 'a', lock_prefix '{l}', hash_tag 'on'", '22023', 'a brace in a prefix, and hash_tag');
bad_options("nodes 'a', nodes 'b'", '42710', 'an option twice') if $admin->query('SHOW server_version_num') >= 180000;
refused($admin, q{CREATE USER MAPPING FOR PUBLIC SERVER locks OPTIONS (nodes 'a')}, 'HV00D', 'an option of the server in a user mapping');
refused($admin, q{CREATE FOREIGN TABLE ft (a int) SERVER locks OPTIONS (a 'b')}, 'HV00D', 'an option of a table');
refused($admin, q{ALTER FOREIGN DATA WRAPPER fencing_redis OPTIONS (ADD a 'b')}, 'HV00D', 'an option of the wrapper');
accepted($admin, q{CREATE SERVER good FOREIGN DATA WRAPPER fencing_redis OPTIONS (nodes 'a, b:1, [::1]:2, 10.0.0.1, /run/redis/redis.sock',
	database '3', connect_timeout '2s', command_timeout '250', lock_prefix '', token_prefix 't:', replicas '1', replica_timeout '50ms')}, 'options that are good');

# the other ways to reach it, another database, other prefixes
for my $place ("[::1]:$redis->{port}", "localhost:$redis->{port}", $redis->{socket})
{
	accepted($admin, "ALTER SERVER locks OPTIONS (SET nodes '$place')", "nodes '$place'");
	accepted($admin, q{SELECT fencing_redis.release('place', (fencing_redis.acquire('place')).token)}, '... is reached');
}
accepted($admin, q{ALTER SERVER locks OPTIONS (ADD database '2', ADD lock_prefix 'l/', ADD token_prefix 't/')}, 'another database and other prefixes');
accepted($admin, q{SELECT fencing_redis.acquire('a')}, '... acquire');
is($redis->cli('-n', '2', 'EXISTS', 'l/a', 't/a'), '2', '... the keys are there');
accepted($admin, q{ALTER SERVER locks OPTIONS (SET database '99')}, 'a database that does not exist');
refused($admin, q{SELECT fencing_redis.acquire('b')}, 'ZF005', '... acquire');
like($admin->messages, qr/database refused: ERR DB index is out of range/, '... says why');
is($redis->cli('EXISTS', 'l/b'), '0', '... and nothing is in database 0');
accepted($admin, q{ALTER SERVER locks OPTIONS (DROP database, SET lock_prefix '', SET token_prefix 't:')}, 'no prefix for locks');
accepted($admin, q{SELECT fencing_redis.acquire('bare')}, '... acquire');
is($redis->cli('EXISTS', 'bare'), '1', '... the key is the name');
refused($admin, q{SELECT fencing_redis.acquire('t:bare')}, '22023', '... a name that is the key of a counter');
accepted($admin, q{ALTER SERVER locks OPTIONS (DROP lock_prefix, DROP token_prefix)}, 'back to the defaults');

# a name that is the key of something else
$redis->cli('HSET', 'lock:hash', 'f', 'v');
refused($admin, q{SELECT fencing_redis.acquire('hash')}, 'ZF005', 'a hash for a lock');
like($admin->messages, qr/WRONGTYPE/, '... WRONGTYPE');
$redis->cli('HSET', 'fence:hash2', 'f', 'v');
refused($admin, q{SELECT fencing_redis.acquire('hash2')}, 'ZF005', 'a hash for a counter');
like($admin->messages, qr/WRONGTYPE/, '... WRONGTYPE');
is($redis->cli('EXISTS', 'lock:hash2'), '0', '... leaves no lock behind');
is($redis->cli('HGET', 'lock:hash', 'f') . $redis->cli('HGET', 'fence:hash2', 'f'), 'vv', '... and the data as they were');

#
# Rights
#
# as docs/redis.md has it
$redis->cli('ACL', 'SETUSER', 'app', 'on', '>secret word', '~lock:*', '~fence:*', '&lock:*', split ' ',
	'+eval +evalsha +get +set +incr +del +pexpire +pttl +publish +pubsub|numsub +subscribe +select +info +ping +time +wait');
$admin->query(q{CREATE ROLE app LOGIN; CREATE ROLE nobody2 LOGIN});
my $app = session($node, user => 'app');
refused($app, q{SELECT fencing_redis.acquire('x', server => 'locks')}, '42501', 'without USAGE on the server');
$admin->query('GRANT USAGE ON FOREIGN SERVER locks TO app');
refused($app, q{SELECT fencing_redis.acquire('x', server => 'locks')}, '42704', 'without a user mapping');
accepted($app, q{CREATE USER MAPPING FOR app SERVER locks}, 'a mapping without a password');
refused($app, q{SELECT fencing_redis.acquire('x', server => 'locks')}, '2F003', '... is not enough');
refused($app, q{ALTER USER MAPPING FOR app SERVER locks OPTIONS (ADD password_required 'false')}, '42501', '... and only superusers may say that it is');
accepted($app, q{ALTER USER MAPPING FOR app SERVER locks OPTIONS (ADD user 'app', ADD password 'wrong word')}, 'a wrong password');
refused($app, q{SELECT fencing_redis.acquire('x', server => 'locks')}, 'ZF005', '... is refused');
like($app->messages, qr/login refused: WRONGPASS/, '... by Redis');
unlike($app->messages, qr/wrong word/, '... and not shown');
accepted($app, q{ALTER USER MAPPING FOR app SERVER locks OPTIONS (SET password 'secret word')}, 'the right one');
accepted($app, q{SELECT fencing_redis.acquire('x', server => 'locks')}, '... acquire');
gives($app, q{SELECT (fencing_redis.renew('x', token, server => 'locks')).token = token, fencing_redis.release('x', token, 'locks') FROM fencing_redis.held()}, 't|t', '... renew, release');
gives($app, q{SELECT reachable, role, warning IS NULL FROM fencing_redis.ping('locks')}, 't|master|t', '... ping');
gives($app, q{SELECT role, state FROM fencing_redis.connections() WHERE state = 'ready'}, 'app|ready', '... one connection');
$admin->query('REVOKE USAGE ON FOREIGN SERVER locks FROM app');
refused($app, q{SELECT fencing_redis.renew('x', 1, server => 'locks')}, '42501', 'USAGE withdrawn: the next call');
$admin->query('GRANT USAGE ON FOREIGN SERVER locks TO app');
accepted($app, q{SELECT fencing_redis.ping('locks')}, 'USAGE granted again');
accepted($admin, q{ALTER USER MAPPING FOR app SERVER locks OPTIONS (ADD password_required 'false', DROP password, DROP user)}, 'a superuser does without a password');
accepted($app, q{SELECT fencing_redis.acquire('y', server => 'locks')}, '... acquire');

# a Redis user who may not do what is needed, or not all that is useful
$redis->cli('ACL', 'SETUSER', 'low', 'on', '>low word', '~lock:*', '~fence:*', '+@all', '-set');
$admin->query(q{ALTER USER MAPPING FOR app SERVER locks OPTIONS (ADD user 'low', ADD password 'low word')});
refused($app, q{SELECT fencing_redis.acquire('z', server => 'locks')}, 'ZF005', 'without the right to SET');
like($app->messages, qr/NOPERM|Allow the Redis user/, '... is told as what it is');
$redis->cli('ACL', 'SETUSER', 'low', '+set', 'resetchannels', '-pubsub');
accepted($app, q{SELECT fencing_redis.release('z', (fencing_redis.acquire('z', server => 'locks')).token, 'locks')}, 'without a right on channels: acquire and release');
$redis->cli('ACL', 'SETUSER', 'low', '-incr');
refused($app, q{SELECT fencing_redis.acquire('z', server => 'locks')}, 'ZF005', 'without the right to INCR');
is($redis->cli('EXISTS', 'lock:z'), '0', '... leaves no lock behind');
unlike(log_since($node, 0) =~ s/^.*(?:STATEMENT|ALTER USER MAPPING).*$//gmr, qr/secret word|wrong word/, 'no password in the log');

# a server of another kind
$admin->query(q{CREATE FOREIGN DATA WRAPPER plain; CREATE SERVER plain FOREIGN DATA WRAPPER plain; CREATE USER MAPPING FOR CURRENT_USER SERVER plain});
refused($admin, q{SELECT fencing_redis.acquire('x', server => 'plain')}, '42809', 'a server of another kind');
accepted($admin, q{DROP SERVER locks CASCADE}, 'DROP SERVER');
refused($admin, q{SELECT fencing_redis.acquire('x')}, '42704', '... the next call');
gives($admin, q{SELECT count(*) FROM fencing_redis.connections() WHERE server = 'locks'}, '0', '... its connections are closed');

# the extension goes and comes back in one session
accepted($admin, q{DROP EXTENSION fencing CASCADE}, 'DROP EXTENSION');
accepted($admin, q{CREATE EXTENSION fencing_redis CASCADE}, 'CREATE EXTENSION');
$admin->query(q{CREATE SERVER locks FOREIGN DATA WRAPPER fencing_redis OPTIONS (nodes '} . $redis->address . q{'); CREATE USER MAPPING FOR CURRENT_USER SERVER locks});
accepted($admin, q{SELECT fencing_redis.acquire('again')}, '... acquire in the same session');

$_->quit for ($admin, $other, $app);
$node->stop;
done_testing();
