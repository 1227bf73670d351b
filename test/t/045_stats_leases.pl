# fencing.stat_leases counts what leases came to: granted and committed, busy,
# taken over after they had lapsed, lost; and the time spent waiting.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = watched_node('main', '');
my $a = session($node);
my $b = session($node);
my $watch = session($node);
my $numbers = 'acquired, busy, expired, lost';

gives($watch, "SELECT $numbers, wait_seconds, since FROM fencing.stat_leases", '0|0|0|0|0|', 'nothing at first, in one row');

my $token = $a->query("SELECT token FROM fencing.acquire('r', '1 h', holder => 'a')");
like($token, qr/^\d+$/, 'a lease');
gives($watch, "SELECT $numbers FROM fencing.stat_leases", '1|0|0|0', '... is counted');
accepted($a, "SELECT fencing.acquire('r', '1 h', holder => 'a')", 'the same holder again');
gives($watch, "SELECT $numbers FROM fencing.stat_leases", '2|0|0|0', '... is another grant');
refused($b, "SELECT fencing.acquire('r', '1 h', holder => 'b')", '55P03', 'busy');
gives($b, "SELECT fencing.try_acquire('r', '1 h', holder => 'b') IS NULL", 't', 'busy without an error');
gives($watch, "SELECT $numbers FROM fencing.stat_leases", '2|2|0|0', '... both are counted');
accepted($a, "BEGIN; SELECT fencing.acquire('other', '1 h'); ROLLBACK", 'one that is rolled back');
gives($watch, "SELECT $numbers FROM fencing.stat_leases", '2|2|0|0', '... was not acquired');

refused($b, "SELECT fencing.acquire('r', '1 h', '1 s', 'b')", '55P03', 'waiting in vain');
gives($watch, "SELECT $numbers, wait_seconds BETWEEN 0.9 AND 30 FROM fencing.stat_leases", '2|3|0|0|t', '... counts the time');

accepted($a, "SELECT fencing.renew('r', $token, '1 ms'); SELECT pg_sleep(0.1)", 'a lease lapses');
accepted($b, "SELECT fencing.acquire('r', '1 h', holder => 'b')", '... and is taken over');
gives($watch, "SELECT $numbers FROM fencing.stat_leases", '3|3|1|0', '... which is counted as both');
gives($a, "SELECT fencing.renew('r', $token, '1 h') IS NULL", 't', 'its first holder cannot renew it');
gives($a, "SELECT fencing.release('r', $token)", 'f', '... nor release it');
gives($watch, "SELECT $numbers FROM fencing.stat_leases", '3|3|1|2', '... and has lost it twice');
accepted($b, "SELECT fencing.release(resource, token) FROM fencing.acquire('r', '1 h', holder => 'b')", 'released');
gives($watch, "SELECT $numbers FROM fencing.stat_leases", '4|3|1|2', '... is nothing lost');

accepted($watch, 'SELECT fencing.stat_reset()', 'reset');
gives($watch, "SELECT $numbers, wait_seconds FROM fencing.stat_leases", '0|0|0|0|0', '... to nothing');
$_->quit for ($a, $b, $watch);
$node->stop;
done_testing();
