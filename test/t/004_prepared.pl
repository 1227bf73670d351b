# A prepared transaction keeps the locks on its marks, over a restart too, and
# whatever must hold before a commit must hold before PREPARE TRANSACTION.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', 'max_prepared_transactions = 10');
$node->start;
$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION fencing;
	CREATE TABLE job (id int PRIMARY KEY, note text);
	SELECT fencing.fence('job');
	INSERT INTO job (id, fence_token) VALUES (1, 10), (2, 10), (3, 10);
	CREATE TABLE entry (n int);
	SELECT fencing.fence('entry', 'ledger', mark => 'resource');
	SELECT fencing.claim(ARRAY['raised', 'ledger', 'shared', 'undone'], ARRAY[10, 10, 10, 10]);
});

my $a = session($node);
accepted($a, "BEGIN; SELECT fencing.claim('raised', 20); PREPARE TRANSACTION 'raised'",
	'prepare a claim that raises a mark');
accepted($a, "BEGIN; SELECT fencing.claim('shared', 10); PREPARE TRANSACTION 'shared'",
	'prepare a claim with the token of the mark');
accepted($a, "BEGIN; SELECT fencing.claim('undone', 20); PREPARE TRANSACTION 'undone'",
	'prepare a claim that will be rolled back');
accepted($a, "BEGIN; SELECT fencing.present('ledger', 20); INSERT INTO entry VALUES (20); PREPARE TRANSACTION 'ledger'",
	'prepare a write under a resource mark');
accepted($a, "BEGIN; UPDATE job SET note = 'twenty', fence_token = 20 WHERE id = 1; PREPARE TRANSACTION 'row'",
	'prepare a write under a row mark');
gives($a, 'SELECT count(*) FROM fencing.presented()',
	'0', 'nothing is presented after PREPARE');

sub check_locks
{
	my ($when) = @_;
	my $b = session($node);

	gives($b, q{SELECT string_agg(fencing.mark(r)::text, ',') FROM unnest(ARRAY['raised', 'shared', 'undone', 'ledger']) r},
		'10,10,10,10', "$when: marks as committed");
	$b->query("SET lock_timeout = '300ms'");
	for my $resource ('raised', 'shared', 'undone', 'ledger')
	{
		refused($b, "SELECT fencing.claim('$resource', 30)",
			'55P03', "$when: a newer claim of $resource waits");
	}
	refused($b, "SELECT fencing.claim('raised', 10)",
		'55P03', "$when: a claim with the old mark waits for the one that raises it");
	accepted($b, "SELECT fencing.claim('shared', 10)",
		"$when: a claim with the same token does not wait");
	refused($b, "SELECT fencing.claim('shared', 9)",
		'ZF001', "$when: an older claim is refused without waiting");
	refused($b, "BEGIN; SELECT fencing.present('ledger', 30); INSERT INTO entry VALUES (30); COMMIT",
		'55P03', "$when: a newer write under the resource mark waits");
	refused($b, 'UPDATE job SET fence_token = 30 WHERE id = 1',
		'55P03', "$when: a newer write under the row mark waits");
	$b->quit;
	return;
}

check_locks('prepared');
$a->quit;
$node->restart;
check_locks('after a restart');
$node->stop('immediate');
$node->start;
check_locks('after a crash');

# A newer writer that waits goes on when the prepared transaction ends.
$a = session($node);
my $b = session($node);
$b->send_sql("SELECT fencing.claim('raised', 30)");
wait_until_blocked($b, 'a newer claim waits for COMMIT PREPARED');
accepted($a, "COMMIT PREPARED 'raised'", 'commit prepared');
$b->finish;
is($b->state, '00000', 'the newer claim is accepted after it');
gives($a, "SELECT fencing.mark('raised')", '30', 'and is the mark');
refused($a, "SELECT fencing.claim('raised', 20)", 'ZF001', 'the prepared one is older now');

for my $name ('shared', 'ledger', 'row')
{
	accepted($a, "COMMIT PREPARED '$name'", "commit prepared: $name");
}
refused($a, "BEGIN; SELECT fencing.present('ledger', 19); INSERT INTO entry VALUES (19); COMMIT",
	'ZF001', 'an older write is refused after COMMIT PREPARED, resource mark');
refused($a, 'UPDATE job SET fence_token = 19 WHERE id = 1',
	'ZF001', 'an older write is refused after COMMIT PREPARED, row mark');
gives($a, "SELECT fencing.mark('ledger'), (SELECT string_agg(n::text, ',') FROM entry), (SELECT note || fence_token FROM job WHERE id = 1)",
	'20|20|twenty20', 'what COMMIT PREPARED leaves');

# An older one that waits is refused when it goes on.
$a->query("BEGIN; SELECT fencing.claim('raised', 50); PREPARE TRANSACTION 'newest'");
is($a->state, '00000', 'prepare a claim again');
$b->send_sql("SELECT fencing.claim('raised', 40)");
wait_until_blocked($b, 'a claim above the mark and below the prepared one waits');
$a->query("COMMIT PREPARED 'newest'");
$b->finish;
is($b->state, 'ZF001', 'and is stale after COMMIT PREPARED');

accepted($a, "ROLLBACK PREPARED 'undone'", 'rollback prepared');
gives($a, "SELECT fencing.mark('undone')", '10', 'the old mark is left');
accepted($a, "SELECT fencing.claim('undone', 15)", 'a token below the one rolled back is accepted');

#
# what must hold before PREPARE
#
my $prepared = 'SELECT count(*) FROM pg_prepared_xacts';

refused($a,
	"BEGIN; SELECT fencing.claim('undone', 16, clock_timestamp() + interval '100 ms');"
	  . "SELECT pg_sleep(0.2); PREPARE TRANSACTION 'late'",
	'ZF003', 'PREPARE after the deadline');
gives($a, $prepared, '0', '... leaves nothing prepared');
gives($a, "SELECT fencing.mark('undone')", '15', '... and the old mark');
refused($a,
	"BEGIN; SET LOCAL fencing.deadline = '2000-01-01 00:00:00+00';"
	  . "UPDATE job SET fence_token = 11 WHERE id = 2; PREPARE TRANSACTION 'late'",
	'ZF003', 'PREPARE after the deadline, token in the column');
gives($a, 'SELECT fence_token FROM job WHERE id = 2', '10', '... leaves the old mark');
accepted($a,
	"BEGIN; SELECT fencing.claim('undone', 16, clock_timestamp() + interval '1 hour');"
	  . "PREPARE TRANSACTION 'in time'",
	'PREPARE before the deadline');
accepted($a, "COMMIT PREPARED 'in time'", 'and its commit');
accepted($a,
	"BEGIN; SELECT fencing.claim('undone', 17, clock_timestamp() + interval '500 ms'); PREPARE TRANSACTION 'slow'",
	'PREPARE just before the deadline');
accepted($a, "SELECT pg_sleep(0.6); COMMIT PREPARED 'slow'",
	'COMMIT PREPARED after the deadline: what is prepared can be committed');

my $stale = "BEGIN; UPDATE job SET note = 'kept', fence_token = 11 WHERE id = 2; SAVEPOINT s;"
  . "UPDATE job SET fence_token = 1 WHERE id = 3; ROLLBACK TO s; PREPARE TRANSACTION 'stale'";
$a->query("SET fencing.stale_aborts = on; $stale");
like($a->messages, qr/^.*ERROR:  ZF001: stale token.*ERROR:  ZF001: transaction cannot commit/ms,
	'PREPARE with stale_aborts after a stale write that was caught');
gives($a, $prepared, '0', '... leaves nothing prepared');
gives($a, 'SELECT fence_token FROM job WHERE id = 2', '10', '... and no write');
$a->query("SET fencing.stale_aborts = off; $stale");
gives($a, $prepared, '1', 'the same without stale_aborts');
accepted($a, "COMMIT PREPARED 'stale'", 'and its commit');

# A row takes the name of one that is being deleted: the update waits at the
# unique key, and the mark of the deleted row is seen by PREPARE.
for my $token (15, 25)
{
	$b->query("BEGIN; SELECT fencing.present('job:3', 20); DELETE FROM job WHERE id = 3");
	is($b->state, '00000', 'a row is being deleted');
	$a->query("BEGIN; SELECT fencing.present(ARRAY['job:2', 'job:3'], ARRAY[30, $token])");
	$a->send_sql("UPDATE job SET id = 3 WHERE id = 2");
	wait_until_blocked($a, 'another one takes its key, and waits');
	$b->query('COMMIT');
	$a->finish;
	is($a->state, '00000', 'it goes on');
	$a->query("PREPARE TRANSACTION 'key'");
	is($a->state, $token == 15 ? 'ZF001' : '00000',
		"PREPARE looks at the mark of the deleted row, token $token");
	gives($a, $prepared, $token == 15 ? '0' : '1', '... and prepares accordingly');
	# for the second round
	$a->query("INSERT INTO job (id, fence_token) VALUES (3, 20)") if $token == 15;
}
accepted($a, "COMMIT PREPARED 'key'", 'commit prepared: key');
gives($a, 'SELECT id, fence_token FROM job ORDER BY id',
	"1|20\n3|25", 'the row has its new key and the mark of that');
refused($a, 'UPDATE job SET fence_token = 24 WHERE id = 3',
	'ZF001', 'an older write of it is refused');

$a->quit;
$b->quit;
$node->stop;
done_testing();
