# The counters of fencing.stat_fences are exact: what was committed is counted
# as accepted, once for each row, whatever savepoints, COPY, two-phase commit
# and parallel sessions do; what was refused, skipped or let pass in shadow
# mode is counted whether or not it was rolled back.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = watched_node('main',
	"max_prepared_transactions = 5\nfencing.stat_max_fences = 100\nrestart_after_crash = on\n");
$node->safe_psql(
	'postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v text);
	SELECT fencing.fence('t', max_step => 1000000);
	INSERT INTO t SELECT g, 'a', 10 FROM generate_series(1, 1000) AS g;
	CREATE TABLE orders (id int, v text);
	SELECT fencing.fence('orders', 'order:{id}', mark => 'resource');
	CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
	CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (100);
	CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (100) TO (200);
	SELECT fencing.fence('p');
});

my $a = session($node);
my $watch = session($node);
my %before;

# What has been added since the last look, "accepted stale missing invalid
# skipped shadowed", as another session sees it.
sub counted
{
	my ($relation) = @_;
	my $where = defined $relation ? "= '$relation'::regclass" : 'IS NULL';
	my @now = split /\|/, $watch->query(
		'SELECT accepted, stale, missing, invalid, skipped, shadowed'
		  . " FROM fencing.stat_fences WHERE relation $where");
	my $old = $before{ $relation // 'claims' } || [ (0) x 6 ];

	@now = (0) x 6 if !@now;
	$before{ $relation // 'claims' } = \@now;
	return join ' ', map { $now[$_] - $old->[$_] } 0 .. 5;
}

# added($relation, $sql, $expected, $name)
sub added
{
	my ($relation, $sql, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$a->query($sql);
	return is(counted($relation), $expected, $name) || diag($a->messages);
}

is(counted('t'), '1000 0 0 0 0 0', 'rows of an INSERT');

# one row mark
my $fresh = 'UPDATE t SET fence_token = 11 WHERE id =';
my $stale = 'UPDATE t SET fence_token = 9 WHERE id =';
added('t', "$fresh 1", '1 0 0 0 0 0', 'an accepted UPDATE');
added('t', "$stale 1", '0 1 0 0 0 0', 'a stale one');
added('t', "UPDATE t SET v = 'b' WHERE id = 1", '0 0 1 0 0 0', 'one without a token');
added('t', 'UPDATE t SET fence_token = 2000000 WHERE id = 1', '0 0 0 1 0 0', 'one above max_step');
added('t', 'UPDATE t SET fence_token = -1 WHERE id = 1', '0 0 0 1 0 0', 'an invalid one');
added('t', 'TRUNCATE t', '0 0 1 0 0 0', 'a TRUNCATE carries no token');
added('t', "BEGIN; SELECT fencing.present('t:1', 12); DELETE FROM t WHERE id = 1; COMMIT", '1 0 0 0 0 0', 'a DELETE');
added('t', "INSERT INTO t VALUES (1, 'b', 11)", '0 1 0 0 0 0', 'a stale INSERT');
added('t', "INSERT INTO t VALUES (1, 'b', 12)", '1 0 0 0 0 0', 'an INSERT');
added('t', 'UPDATE t SET id = 1001, fence_token = 13 WHERE id = 1', '1 0 0 0 0 0', 'a change of name is one write');
added('t', "INSERT INTO t VALUES (2, 'c', 20) ON CONFLICT DO NOTHING", '1 0 0 0 0 0', 'ON CONFLICT DO NOTHING: the proposed row');
added('t', "INSERT INTO t VALUES (2, 'c', 20) ON CONFLICT (id) DO UPDATE SET fence_token = excluded.fence_token",
	'2 0 0 0 0 0', 'ON CONFLICT DO UPDATE: the proposed row and the update');
added('t', 'SET fencing.enforcement = off; UPDATE t SET fence_token = 1 WHERE id = 3; RESET fencing.enforcement',
	'0 0 0 0 0 0', 'enforcement off looks at nothing');

# rollback and savepoints
added('t', "BEGIN; $fresh 10; ROLLBACK", '0 0 0 0 0 0', 'rolled back');
added('t', "BEGIN; $fresh 10; $stale 11; ROLLBACK", '0 1 0 0 0 0', 'a refusal counts, what came before it does not');
added('t', "BEGIN; SAVEPOINT a; $stale 10; ROLLBACK TO a; $fresh 10; COMMIT", '1 1 0 0 0 0', 'a refusal that was caught');
added('t', "BEGIN; $fresh 20; SAVEPOINT a; $fresh 21; $fresh 22; ROLLBACK TO a; $fresh 23; COMMIT",
	'2 0 0 0 0 0', 'rolled back to a savepoint');
added('t', "BEGIN; $fresh 30; SAVEPOINT a; $fresh 31; RELEASE a; $fresh 32; COMMIT", '3 0 0 0 0 0', 'a released savepoint');
added('t', "BEGIN; SAVEPOINT a; $fresh 40; SAVEPOINT b; $fresh 41; RELEASE b; SAVEPOINT c; $fresh 42; ROLLBACK TO c; $fresh 43; ROLLBACK TO a; $fresh 44; COMMIT",
	'1 0 0 0 0 0', 'released into one that is rolled back');
added('t', "BEGIN; SAVEPOINT a; SAVEPOINT b; SAVEPOINT c; $fresh 50; RELEASE b; $fresh 51; RELEASE a; $fresh 52; COMMIT",
	'3 0 0 0 0 0', 'used first in the innermost');
added('t', "BEGIN; SAVEPOINT a; SAVEPOINT b; $fresh 60; RELEASE b; ROLLBACK TO a; $fresh 61; COMMIT",
	'1 0 0 0 0 0', 'used first in the innermost, and rolled back further out');
added('t', "BEGIN; $fresh 70; SAVEPOINT a; $fresh 71; SAVEPOINT b; $fresh 72; ROLLBACK", '0 0 0 0 0 0', 'all rolled back');
added('t', qq{DO \$\$ BEGIN
	FOR i IN 100 .. 199 LOOP
		BEGIN
			UPDATE t SET fence_token = CASE WHEN i % 2 = 0 THEN 11 ELSE 9 END WHERE id = i;
			IF i % 10 = 0 THEN RAISE 'undone'; END IF;
		EXCEPTION WHEN OTHERS THEN NULL;
		END;
	END LOOP; END \$\$}, '40 50 0 0 0 0', 'a hundred blocks with EXCEPTION');
added('t', q{CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$ BEGIN
	UPDATE t SET fence_token = 12 WHERE id = 200; COMMIT;
	UPDATE t SET fence_token = 12 WHERE id = 201; ROLLBACK;
	UPDATE t SET fence_token = 12 WHERE id = 202; END $$; CALL steps()},
	'2 0 0 0 0 0', 'transactions within a procedure');
is(counted('orders'), '0 0 0 0 0 0', 'all that concerned one fence alone');

# two-phase commit
added('t', "BEGIN; $fresh 300; PREPARE TRANSACTION 'one'", '1 0 0 0 0 0', 'counted when it is prepared');
added('t', "COMMIT PREPARED 'one'", '0 0 0 0 0 0', '... and not again when it is committed');
added('t', "BEGIN; SAVEPOINT a; $fresh 301; ROLLBACK TO a; $fresh 302; PREPARE TRANSACTION 'two'; ROLLBACK PREPARED 'two'",
	'1 0 0 0 0 0', 'nor taken back when that is rolled back');

# many rows at once
added('t', 'UPDATE t SET fence_token = 21', '1000 0 0 0 0 0', 'many rows');
my $copied = $node->basedir . '/copied';
open my $file, '>', $copied or die;
print $file "$_\tcopied\t21\n" for 2000 .. 2999;
close $file;
added('t', "COPY t FROM '$copied'", '1000 0 0 0 0 0', 'COPY');
added('t', "BEGIN; SELECT fencing.present(array_agg('t:' || g), array_agg(22::bigint)) FROM generate_series(2000, 2999) g;"
	  . "DELETE FROM t WHERE id >= 2000; COMMIT", '1000 0 0 0 0 0', 'DELETE');
added('t', "COPY t FROM '$copied'", '0 1 0 0 0 0', 'COPY with stale rows ends at the first');

# skip
$a->query("SELECT fencing.fence('t', on_stale => 'skip'); $stale 500; UPDATE t SET fence_token = 50 WHERE id = 500");
counted('t');
added('t', 'UPDATE t SET fence_token = 30', '999 0 0 0 1 0', 'skip: 999 rows and the one that was left');
is($a->query('WITH u AS (UPDATE t SET fence_token = 31 RETURNING 1) SELECT count(*) FROM u'), '999', 'as RETURNING says');
counted('t');
added('t', 'BEGIN; UPDATE t SET fence_token = 9; ROLLBACK', '0 0 0 0 1000 0', 'skipped rows count, rolled back or not');
added('t', "COPY t FROM '$copied'", '0 0 0 0 1000 0', 'skipped rows of a COPY');

# shadow
$a->query("SELECT fencing.fence('t', shadow => true)");
added('t', 'UPDATE t SET fence_token = 9', '0 0 0 0 0 1000', 'shadow: writes that pass');
added('t', 'UPDATE t SET fence_token = 40', '999 0 0 0 0 1', 'shadow: and those that are accepted');
added('t', "BEGIN; UPDATE t SET v = 'x'; ROLLBACK", '0 0 0 0 0 1000', 'shadow: also when rolled back');
added('t', 'UPDATE t SET id = -id WHERE id = 5', '0 0 0 0 0 1', 'shadow: a change of name counts once');
$a->query("SELECT fencing.fence('t')");
added('t', 'SET fencing.enforcement = shadow; UPDATE t SET fence_token = 9 WHERE id = 1; RESET fencing.enforcement',
	'0 0 0 0 0 0', 'shadow: no such row');
added('t', 'SET fencing.enforcement = shadow; UPDATE t SET fence_token = 9 WHERE id = 2; RESET fencing.enforcement',
	'0 0 0 0 0 1', 'shadow of the session');

# resource marks, claims
my $present = sub { "BEGIN; SELECT fencing.present('order:1', $_[0]); " };
added('orders', $present->(5) . "INSERT INTO orders SELECT 1, 'x' FROM generate_series(1, 500); COMMIT", '500 0 0 0 0 0',
	'resource marks: rows, of which the first is checked');
added('orders', $present->(4) . "INSERT INTO orders VALUES (1, 'x'); COMMIT", '0 1 0 0 0 0', 'a stale one');
added('orders', "INSERT INTO orders VALUES (1, 'x')", '0 0 1 0 0 0', 'one without a token');
is(counted(undef), '0 0 0 0 0 0', 'no claim yet');
added(undef, "SELECT fencing.claim(ARRAY['a', 'b'], ARRAY[5, 6])", '2 0 0 0 0 0', 'claims');
added(undef, "SELECT fencing.claim('a', 4)", '0 1 0 0 0 0', 'a stale claim');
added(undef, "BEGIN; SELECT fencing.claim('a', 7); ROLLBACK", '0 0 0 0 0 0', 'one that was rolled back');

# partitions
added('p', "INSERT INTO p SELECT g, 'x', 5 FROM generate_series(0, 199) g", '200 0 0 0 0 0', 'partitions count for their table');
added('p', 'UPDATE p SET id = 150, fence_token = 6 WHERE id = 50', '0 0 0 0 0 0', 'a move that ends in a unique violation');
added('p', "BEGIN; SELECT fencing.present('p:150', 7); DELETE FROM p WHERE id = 150; COMMIT", '1 0 0 0 0 0', 'a row is deleted');
added('p', "BEGIN; SELECT fencing.present(ARRAY['p:50', 'p:150'], ARRAY[8, 8]); UPDATE p SET id = 150 WHERE id = 50; COMMIT",
	'1 0 0 0 0 0', 'a row that moves counts once');
added('p', 'UPDATE p_1 SET fence_token = 4 WHERE id = 1', '0 1 0 0 0 0', 'a partition written directly');
is($watch->query("SELECT count(*) FROM fencing.stat_fences WHERE relation IN ('p_1'::regclass, 'p_2')"), '0',
	'partitions have no rows of their own');

# what a session has counted in a long transaction is told before its end
$a->query("SELECT fencing.fence('t', on_stale => 'skip')");
$a->query('BEGIN; UPDATE t SET fence_token = 3 WHERE id = 20');
is(counted('t'), '0 0 0 0 0 0', 'a transaction has not told yet');
$a->query('SELECT pg_sleep(5.1); UPDATE t SET fence_token = 3 WHERE id = 20');
is(counted('t'), '0 0 0 0 2 0', 'after some seconds it has, what will not be taken back');
$a->query('ROLLBACK');
is(counted('t'), '0 0 0 0 0 0', '... and its end adds no more');

# fencing.track
added('t', "SET fencing.track = off; UPDATE t SET fence_token = 90 WHERE id = 20; $stale 20; RESET fencing.track",
	'0 0 0 0 0 0', 'fencing.track = off');

# eight sessions at once: the sum is what they saw
$a->query(q{SELECT fencing.fence('t'); CREATE TABLE seen (client int, ok bool)});
$a->query('UPDATE t SET fence_token = 1000');
counted('t');
my $script = $node->basedir . '/writers.sql';
open $file, '>', $script or die;
print $file q{
\set row random(10, 19)
\set token random(1001, 1400)
SELECT attempt(:row, :token, :client_id);
};
close $file;
$a->query(
	q{CREATE FUNCTION attempt(which int, token bigint, client int) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		fine bool := false;
		hit int;
	BEGIN
		BEGIN
			UPDATE t SET fence_token = token WHERE id = which;
			GET DIAGNOSTICS hit = ROW_COUNT;
			fine := hit = 1;
		EXCEPTION WHEN SQLSTATE 'ZF001' THEN NULL;
		END;
		INSERT INTO seen VALUES (client, fine);
	END $$});
$node->command_ok([ $node->installed_command('pgbench'), '-n', '-c', '8', '-j', '2', '-t', '300', '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
	'eight clients');
my ($accepted, $refused) = split /\|/, $watch->query('SELECT count(*) FILTER (WHERE ok), count(*) FILTER (WHERE NOT ok) FROM seen');
is($accepted + $refused, 2400, 'all clients have seen their results');
cmp_ok($refused, '>', 100, 'refusals among them');
is(counted('t'), "$accepted $refused 0 0 0 0", 'and their sum was counted');

# more fences than there is room for: the one not written for the longest makes
# room, and the others keep their numbers
gives($watch, 'SELECT evicted FROM fencing.stat_memory()', '0', 'there was room for all');
$a->query(
	q{DO $$ BEGIN FOR i IN 1 .. 105 LOOP
		EXECUTE format('CREATE TABLE many_%s (id int PRIMARY KEY)', i);
		PERFORM fencing.fence(format('many_%s', i)::regclass);
	END LOOP; END $$});
$a->query("INSERT INTO many_$_ VALUES (1)") for 1 .. 105;
is($watch->query(q{SELECT string_agg(DISTINCT accepted::text, ',') FROM fencing.stat_fences
	WHERE relation::text IN (SELECT 'many_' || g FROM generate_series(10, 105) g)}), '1', 'the last ones are counted');
gives($watch, q{SELECT accepted FROM fencing.stat_fences WHERE relation = 'orders'::regclass}, '0', 'the oldest has made room');
gives($watch, 'SELECT fences || \' \' || (evicted > 0) FROM fencing.stat_memory()', '100 true', 'which is known');
gives($watch, 'SELECT problem FROM fencing.problems', 'statistics_full', 'and is listed as a problem');

# reset
$a->query("SELECT fencing.stat_reset('t')");
gives($watch, "SELECT accepted, stale FROM fencing.stat_fences WHERE relation = 't'::regclass", '0|0', 'reset of one fence');
gives($watch, "SELECT accepted FROM fencing.stat_fences WHERE relation = 'many_105'::regclass", '1', '... leaves the others');
$a->query('CREATE DATABASE beside');
my $beside = session($node, dbname => 'beside');
$beside->query("CREATE EXTENSION fencing; CREATE TABLE t (id int PRIMARY KEY); SELECT fencing.fence('t'); INSERT INTO t VALUES (1)");
$a->query('SELECT fencing.stat_reset()');
gives($watch, 'SELECT sum(accepted + stale + missing + invalid + skipped + shadowed) FROM fencing.stat_fences', '0', 'reset of all');
gives($beside, 'SELECT accepted FROM fencing.stat_fences', '1', '... in this database alone');
gives($watch, 'SELECT count(*) FROM fencing.problems', '0', 'the problem is gone');

# a restart and a crash begin with nothing
$a->query('UPDATE t SET fence_token = 2000 WHERE id = 1001');
$_->quit for ($a, $watch, $beside);
$node->restart;
$watch = session($node);
gives($watch, 'SELECT sum(accepted) FROM fencing.stat_fences', '0', 'a restart begins with nothing');
accepted($watch, 'UPDATE t SET fence_token = 2001 WHERE id = 1001', 'and goes on');
gives($watch, "SELECT accepted FROM fencing.stat_fences WHERE relation = 't'::regclass", '1', 'counting');
my $victim = session($node);
kill 'KILL', $victim->pid;
$node->poll_query_until('postgres', 'SELECT true') or die;
$watch->quit;
ok($node->poll_query_until('postgres', "SELECT sum(accepted) = 0 FROM fencing.stat_fences"), 'so does a crash');
$watch = session($node);
accepted($watch, 'UPDATE t SET fence_token = 2002 WHERE id = 1001', 'and goes on');
gives($watch, "SELECT accepted FROM fencing.stat_fences WHERE relation = 't'::regclass", '1', 'counting');
$watch->quit;

$node->stop;
done_testing();
