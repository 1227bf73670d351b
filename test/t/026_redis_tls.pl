# TLS to Redis: the certificate must be signed by somebody trusted, and be the
# host's; where hiredis has no TLS, the option is refused.

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

my $node = cluster_with_redis('tls');
my $s = session($node);
$s->query(q{CREATE SERVER tls FOREIGN DATA WRAPPER fencing_redis OPTIONS (nodes '127.0.0.1:1', tls 'on')});
if ($s->state eq '0A000')
{
	like($s->messages, qr/was built without TLS/, 'without TLS in hiredis the option is refused');
	$s->quit;
	$node->stop;
	done_testing();
	exit;
}
is($s->state, '00000', 'a server with TLS');

my $dir = $PostgreSQL::Test::Utils::tmp_check;

# certificate($name, $san): signed by the CA in ca.crt
sub certificate
{
	my ($name, $san) = @_;

	append_to_file("$dir/$name.ext", "subjectAltName=$san\n");
	return system("openssl req -newkey rsa:2048 -nodes -keyout $dir/$name.key -out $dir/$name.csr -subj /CN=$name >/dev/null 2>&1 && "
		  . "openssl x509 -req -in $dir/$name.csr -CA $dir/ca.crt -CAkey $dir/ca.key -CAcreateserial -days 2 "
		  . "-extfile $dir/$name.ext -out $dir/$name.crt >/dev/null 2>&1") == 0;
}
SKIP:
{
	skip 'no openssl', 1
	  if system("openssl req -x509 -newkey rsa:2048 -nodes -keyout $dir/ca.key -out $dir/ca.crt -days 2 -subj /CN=ca >/dev/null 2>&1") != 0;
	ok(certificate('server', 'DNS:localhost,IP:127.0.0.1'), 'a certificate for the server');
	ok(certificate('other', 'DNS:elsewhere.example'), '... for another host');
	ok(certificate('client', 'DNS:client'), '... for a client');

	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my %tls = (
		'tls-port' => $port, 'tls-ca-cert-file' => "$dir/ca.crt",
		'tls-cert-file' => "$dir/server.crt", 'tls-key-file' => "$dir/server.key",
		'tls-auth-clients' => 'no');
	my $redis = eval { redis_server(%tls) };
	skip 'this Redis has no TLS', 1 if !$redis;

	$s->query(qq{ALTER SERVER tls OPTIONS (SET nodes '127.0.0.1:$port', ADD tls_ca '$dir/ca.crt', ADD connect_timeout '2s', ADD command_timeout '2s');
		CREATE USER MAPPING FOR CURRENT_USER SERVER tls; SET fencing_redis.server = 'tls'});
	my $pair = q{SELECT fencing_redis.release('a', (fencing_redis.acquire('a')).token)};
	for my $nodes ("127.0.0.1:$port", "localhost:$port")
	{
		$s->query(qq{ALTER SERVER tls OPTIONS (SET nodes '$nodes')});
		gives($s, $pair, 't', "TLS to $nodes");
	}
	gives($s, $pair, 't', '... on the same connection');
	accepted($s, q{BEGIN; SELECT fencing_redis.acquire('t', scope => 'transaction'); COMMIT}, 'a lease of the transaction');
	sleep 0.1;
	is($redis->cli('EXISTS', 'lock:t'), '0', '... is released');
	$redis->freeze;
	within(took { refused($s, "SET statement_timeout = '300ms'; $pair", '57014', 'a Redis that is stopped: statement_timeout') }, 0.2, 0.6, '... in time');
	$s->query('RESET statement_timeout; SELECT fencing_redis.disconnect()');
	within(took { refused($s, "SET statement_timeout = '300ms'; $pair", '57014', '... during the handshake') }, 0.2, 0.6, '... in time');
	$redis->thaw;
	$s->query('RESET statement_timeout');
	sleep 0.1;
	gives($s, $pair, 't', '... goes on');

	$s->query(q{ALTER SERVER tls OPTIONS (DROP tls_ca)});
	refused($s, $pair, 'ZF005', 'a CA that nobody trusts');
	like($s->messages, qr/TLS refused: .*certificate/, '... says so');
	$s->query(qq{ALTER SERVER tls OPTIONS (ADD tls_ca '$dir/none.crt')});
	refused($s, $pair, 'ZF005', 'a CA file that does not exist');
	like($s->messages, qr/tls_ca/, '... is named');
	$s->query(qq{ALTER SERVER tls OPTIONS (SET tls_ca '$dir/ca.crt')});
	$redis->cli('CONFIG', 'SET', 'tls-cert-file', "$dir/other.crt", 'tls-key-file', "$dir/other.key");
	$s->query(q{SELECT fencing_redis.disconnect()});
	refused($s, $pair, 'ZF005', 'a certificate of another host');
	like($s->messages, qr/TLS refused: .*(?:mismatch|hostname)/i, '... says so');
	$redis->cli('CONFIG', 'SET', 'tls-cert-file', "$dir/server.crt", 'tls-key-file', "$dir/server.key");
	$redis->cli('CONFIG', 'SET', 'tls-auth-clients', 'yes');
	$s->query(q{SELECT fencing_redis.disconnect()});
	refused($s, $pair, 'ZF005', 'a server that asks for a certificate, without one');
	$s->query(qq{ALTER SERVER tls OPTIONS (ADD tls_cert '$dir/client.crt', ADD tls_key '$dir/client.key')});
	gives($s, $pair, 't', '... with one');
	$s->query(qq{ALTER SERVER tls OPTIONS (SET nodes '127.0.0.1:$redis->{port}')});
	refused($s, $pair, 'ZF005', 'TLS to a port that does not speak it');
}
$s->quit;
$node->stop;
done_testing();
