# Leases that end with the transaction: released after the commit, never before,
# and whatever becomes of Redis meanwhile.

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
my $node = cluster_with_redis('transactions', 'max_prepared_transactions = 5');
my $admin = session($node);
$admin->query(q{
	CREATE SERVER locks FOREIGN DATA WRAPPER fencing_redis
		OPTIONS (nodes '} . $redis->address . q{', connect_timeout '300', command_timeout '300');
	CREATE USER MAPPING FOR CURRENT_USER SERVER locks;
	ALTER DATABASE postgres SET fencing_redis.server = 'locks';
	CREATE TABLE stock (id int PRIMARY KEY, n int);
	INSERT INTO stock VALUES (1, 10);
	SELECT fencing.fence('stock', 'sku:{id}', mark => 'resource')});
is($admin->state, '00000', 'set-up') || diag($admin->messages);
my $s = session($node);
my $rival = session($node);

sub lock_there
{
	my ($resource, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	sleep 0.02;
	return is($redis->cli('EXISTS', "lock:$resource"), $expected, $name);
}

#
# What it comes with
#
$s->query('BEGIN');
accepted($s, q{SELECT fencing_redis.acquire('sku:1', '20 s', scope => 'transaction')}, 'acquire for the transaction');
gives($s, q{SELECT p.token = h.token, current_setting('fencing.deadline')::timestamptz = h.expires_at, h.scope
	FROM fencing.presented() p JOIN fencing_redis.held() h USING (resource)}, 't|t|transaction', '... token presented, deadline set');
accepted($s, 'UPDATE stock SET n = n - 1', '... a fenced write needs no more');
lock_there('sku:1', '1', 'held before the commit');
accepted($s, 'COMMIT', 'COMMIT');
lock_there('sku:1', '0', '... released');
gives($s, 'SELECT count(*) FROM fencing_redis.held()', '0', '... and not held any more');
$s->query(q{BEGIN; SELECT fencing_redis.acquire('sku:1', scope => 'transaction')});
accepted($s, 'ROLLBACK', 'ROLLBACK');
lock_there('sku:1', '0', '... released');
refused($s, q{SELECT fencing_redis.acquire('sku:1', scope => 'transaction'), 1 / (random() * 0)::int}, '22012', 'a statement that fails');
lock_there('sku:1', '0', '... released');

# a deadline that passes
$s->query(q{BEGIN; SELECT fencing_redis.acquire('sku:1', '100 ms', scope => 'transaction'); UPDATE stock SET n = n - 1});
$s->query('SELECT pg_sleep(0.15)');
refused($s, 'COMMIT', 'ZF003', 'no commit after the lease is over');
gives($admin, 'SELECT n FROM stock', '9', '... nothing is written');

#
# Savepoints
#
$s->query(q{BEGIN; SELECT fencing_redis.acquire('outer', scope => 'transaction'); SAVEPOINT a;
	SELECT fencing_redis.acquire('inner', scope => 'transaction'); SAVEPOINT b;
	SELECT fencing_redis.acquire('kept', scope => 'transaction'); RELEASE b});
accepted($s, 'ROLLBACK TO a', 'ROLLBACK TO');
lock_there('inner', '0', '... releases what came after the savepoint');
lock_there('kept', '0', '... also what came in a savepoint below');
lock_there('outer', '1', '... and not what came before');
$s->query(q{SELECT fencing_redis.acquire('inner', scope => 'transaction'); RELEASE a});
lock_there('inner', '1', 'RELEASE keeps it');
$s->query('COMMIT');
lock_there('inner', '0', '... to the end of the transaction');
lock_there('outer', '0', '... as the other one');

$s->query(q{BEGIN; SELECT fencing_redis.acquire('same', holder => 'h', scope => 'transaction'); SAVEPOINT a;
	SELECT fencing_redis.acquire('same', holder => 'h', scope => 'transaction'); ROLLBACK TO a});
lock_there('same', '1', 'acquired again behind a savepoint, which is rolled back: still held');
$s->query('COMMIT');
lock_there('same', '0', '... to the end of the transaction');

#
# Scopes
#
$s->query(q{BEGIN; SELECT fencing_redis.acquire('mixed', scope => 'session'); SELECT fencing_redis.acquire('mixed 2', holder => 'h')});
$s->query(q{SELECT fencing_redis.acquire('mixed 2', holder => 'h', scope => 'transaction'); ROLLBACK});
lock_there('mixed', '1', 'a lease of the session outlives a rollback');
lock_there('mixed 2', '1', '... also when it was acquired again for the transaction');
accepted($s, q{SELECT fencing_redis.release(resource, token) FROM fencing_redis.held()}, '... until it is released');
$s->query(q{BEGIN; SELECT fencing_redis.acquire('early', scope => 'transaction')});
gives($s, q{SELECT fencing_redis.release(resource, token) FROM fencing_redis.held()}, 't', 'released by hand before the end');
accepted($s, 'COMMIT', '... and the commit');

#
# PREPARE
#
$s->query(q{BEGIN; SELECT fencing_redis.acquire('two phases', scope => 'transaction')});
refused($s, q{PREPARE TRANSACTION 'p'}, '0A000', 'PREPARE TRANSACTION');
lock_there('two phases', '0', '... and the lease is released');
$s->query(q{BEGIN; SELECT fencing_redis.acquire('two phases', '20 s')});
accepted($s, q{PREPARE TRANSACTION 'p'}, 'with a lease of the session it may');
lock_there('two phases', '1', '... which stays');
$s->query(q{COMMIT PREPARED 'p'; SELECT fencing_redis.release(resource, token) FROM fencing_redis.held()});

#
# Released after the commit is visible
#
$admin->query(q{
	CREATE TABLE slow (id int);
	CREATE FUNCTION sleep_at_commit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END';
	CREATE CONSTRAINT TRIGGER sleep AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION sleep_at_commit()});
$s->query(q{BEGIN; SELECT fencing_redis.acquire('sku:1', scope => 'transaction'); UPDATE stock SET n = 5; INSERT INTO slow VALUES (1)});
$s->send_sql('COMMIT');
sleep 0.1;
my $waited = took { $rival->query(q{SELECT fencing_redis.acquire('sku:1', wait => '5 s')}) };
is($rival->query('SELECT n FROM stock'), '5', 'who gets the lease next sees what was committed');
within($waited, 0.15, 0.6, '... and waited for the commit');
$s->finish;
$rival->query(q{SELECT fencing_redis.release(resource, token) FROM fencing_redis.held()});

# a hundred decrements by four sessions, without a lost one
$admin->query(q{UPDATE stock SET n = 100 WHERE false; CREATE TABLE plain (n int); INSERT INTO plain VALUES (100)});
my @workers = map { session($node) } 1 .. 4;
for my $w (@workers)
{
	$w->send_sql(q{DO $$ DECLARE v int; BEGIN FOR i IN 1..25 LOOP
		PERFORM fencing_redis.acquire('plain', wait => '20 s', scope => 'transaction');
		SELECT n INTO v FROM plain; UPDATE plain SET n = v - 1; COMMIT; END LOOP; END $$});
}
for my $w (@workers) { $w->finish; is($w->state, '00000', 'a worker') || diag($w->messages); $w->quit; }
gives($admin, 'SELECT n FROM plain', '0', 'no decrement is lost');

#
# Redis goes away
#
my $from = log_size($node);
$s->query(q{BEGIN; SELECT fencing_redis.acquire('down', '3 s', scope => 'transaction'); CREATE TABLE IF NOT EXISTS kept (a int); INSERT INTO kept VALUES (1)});
$redis->kill9;
within(took { accepted($s, 'COMMIT', 'Redis is down at the commit: it commits') }, 0, 0.6, '... in time');
gives($s, 'SELECT count(*) FROM kept', '1', '... and is there');
like(log_since($node, $from), qr/WARNING:  lease on resource "down" could not be released/, '... with a warning in the log');
$redis->start;
accepted($s, q{SELECT fencing_redis.release('up', (fencing_redis.acquire('up')).token)}, 'the next call');

$s->query(q{BEGIN; SELECT fencing_redis.acquire('frozen', '20 s', scope => 'transaction'); INSERT INTO kept VALUES (2)});
$redis->freeze;
within(took { accepted($s, 'COMMIT', 'Redis is stopped at the commit: it commits') }, 0, 0.3, '... in time');
$redis->thaw;
lock_there('frozen', '0', '... and releases when it goes on');

$s->query(q{BEGIN; SELECT fencing_redis.acquire('killed', '20 s', scope => 'transaction'); INSERT INTO kept VALUES (3)});
$redis->cli('CLIENT', 'KILL', 'TYPE', 'normal');
accepted($s, 'COMMIT', 'the connection is gone at the commit');
lock_there('killed', '0', '... released over another one');
$s->query(q{BEGIN; SELECT fencing_redis.acquire('killed 2', '20 s', scope => 'transaction')});
$redis->cli('CLIENT', 'KILL', 'TYPE', 'normal');
accepted($s, 'ROLLBACK', 'the connection is gone at the rollback');
$s->query(q{SELECT fencing_redis.try_acquire('other')});
$s->query(q{SELECT fencing_redis.try_acquire('other 2')});
lock_there('killed 2', '0', '... released with the next calls');

# an interrupt on the connection that the release needs
$s->query(q{BEGIN; SELECT fencing_redis.acquire('interrupted', '20 s', scope => 'transaction')});
$redis->freeze;
refused($s, q{SET LOCAL statement_timeout = '100ms'; SELECT fencing_redis.acquire('second')}, '57014', 'an interrupt in a transaction with a lease');
$redis->thaw;
$s->query('ROLLBACK');
lock_there('interrupted', '0', '... whose lease is released');
lock_there('second', '0', '... as the one that was being acquired');
$s->query(q{BEGIN; SELECT fencing_redis.acquire('fatal', '20 s', scope => 'transaction'); SELECT fencing_redis.acquire('fatal 2', '20 s')});
$s->send_sql('SELECT pg_sleep(60)');
sleep 0.1;
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $s->pid . ', 5000)');
$s->finish;
lock_there('fatal', '0', 'a session that is terminated: its transaction\'s lease is released');
lock_there('fatal 2', '0', '... and its own');

# the end of a session with Redis stopped
my $last = session($node);
$last->query(q{SELECT fencing_redis.acquire('last', '20 s')});
$redis->freeze;
within(took { $node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $last->pid . ', 5000)') }, 0, 1.2, 'the end of a session while Redis is stopped');
$redis->thaw;
lock_there('last', '0', '... releases when it goes on');

# a server that is changed while a transaction has a lease of it
my $t = session($node);
$t->query(q{BEGIN; SELECT fencing_redis.acquire('changed', '20 s', scope => 'transaction'); ALTER SERVER locks OPTIONS (ADD database '3')});
accepted($t, q{SELECT fencing_redis.acquire('changed', '20 s')}, 'after the change it is the other database');
accepted($t, 'COMMIT', '... COMMIT');
lock_there('changed', '0', '... the lease is released where it was acquired');
is($redis->cli('-n', '3', 'EXISTS', 'lock:changed'), '1', '... and the other one is held');
$t->quit;

# a library that the postmaster has loaded, and a standby
$_->quit for ($admin, $rival);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'fencing, fencing_redis'");
$node->restart;
my $preloaded = session($node);
$preloaded->query(q{SELECT fencing_redis.acquire('preloaded', '20 s')});
is($redis->cli('-n', '3', 'EXISTS', 'lock:preloaded'), '1', 'loaded by the postmaster: acquire');
$preloaded->quit;
sleep 0.2;
is($redis->cli('-n', '3', 'EXISTS', 'lock:preloaded'), '0', '... the end of the session');
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
my $reader = session($standby);
$redis->cli('CONFIG', 'RESETSTAT');
refused($reader, q{SELECT fencing_redis.acquire('standby')}, '25006', 'a standby: acquire');
refused($reader, q{SELECT fencing_redis.release('standby', 1)}, '25006', '... release');
is($redis->commands, 0, '... and Redis is not asked');
accepted($reader, q{SELECT * FROM fencing_redis.ping()}, '... ping');
$reader->quit;
$standby->stop;
$node->stop;
done_testing();
