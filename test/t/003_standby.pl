# A physical standby has the marks and can be read, refuses every write at
# once, and after its promotion hands out larger tokens than the old primary
# ever did, those among them that it never heard of.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->start;
$primary->safe_psql(
	'postgres', q{
	CREATE EXTENSION fencing;
	CREATE TABLE job (id int PRIMARY KEY, note text);
	SELECT fencing.fence('job');
	CREATE TABLE entry (n int);
	SELECT fencing.fence('entry', 'ledger', mark => 'resource');
	INSERT INTO job (id, note, fence_token) VALUES (1, 'first', 10);
	SELECT fencing.claim('ledger', 20);
	SELECT fencing.next_token('job:1');
});
$primary->backup('backup');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

# raised after the backup: this comes with the WAL
$primary->safe_psql(
	'postgres', q{
	UPDATE job SET note = 'second', fence_token = 11 WHERE id = 1;
	INSERT INTO job (id, note, fence_token) VALUES (2, 'gone', 5);
	BEGIN; SELECT fencing.present('job:2', 6); DELETE FROM job WHERE id = 2; COMMIT;
	BEGIN; SELECT fencing.claim('ledger', 21); INSERT INTO entry VALUES (1); COMMIT;
});
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('write'));

#
# reading
#
my $reader = session($standby);
gives($reader, "SELECT fencing.mark('ledger'), fencing.mark('job:2'), fencing.mark('none')",
	'21|6|0', 'standby: marks');
gives($reader, 'SELECT resource, token FROM fencing.marks ORDER BY 1',
	"job:2|6\nledger|21", 'standby: fencing.marks');
gives($reader, 'SELECT relation, resource, mark, enabled FROM fencing.fences ORDER BY relation::text',
	"entry|ledger|resource|t\njob|job:{id}|row|t", 'standby: fencing.fences');
gives($reader, 'SELECT note, fence_token FROM job', 'second|11', 'standby: row mark');
gives($reader,
	q{BEGIN; SELECT fencing.present('ledger', 21); SELECT * FROM fencing.presented(); COMMIT},
	"\nledger|21", 'standby: present and presented');
gives($reader, 'SELECT count(*) FROM fencing.presented()',
	'0', 'standby: presented ends with the transaction');
gives($reader,
	q{SET fencing.tokens = 'ledger=21'; SELECT * FROM fencing.presented(); RESET fencing.tokens},
	'ledger|21', 'standby: the setting');

#
# not writing
#
my @writes = (
	[ 'claim, equal', "SELECT fencing.claim('ledger', 21)" ],
	[ 'claim, newer', "SELECT fencing.claim('ledger', 22)" ],
	[ 'claim, older', "SELECT fencing.claim('ledger', 1)" ],
	[ 'claim, several', "SELECT fencing.claim(ARRAY['a', 'b'], ARRAY[1, 2])" ],
	[ 'claim, first use', "SELECT fencing.claim('none', 1)" ],
	[ 'next_token', "SELECT fencing.next_token('ledger')" ],
	[ 'set_mark', "SELECT fencing.set_mark('ledger', 1, 'a test')" ],
	[ 'compact', "SELECT fencing.compact('0')" ],
	[ 'write, row mark', 'UPDATE job SET fence_token = 12 WHERE id = 1' ],
	[ 'older write, row mark', 'UPDATE job SET fence_token = 1 WHERE id = 1' ],
	[ 'write, resource mark', 'INSERT INTO entry VALUES (2)' ],
	[ 'fence', "SELECT fencing.fence('job')" ],
	[ 'unfence', "SELECT fencing.unfence('job')" ]);
$reader->query("SET lock_timeout = '5s'");
for (@writes)
{
	my ($what, $sql) = @$_;

	refused($reader, $sql, '25006', "standby: $what");
	refused($reader, "BEGIN; SELECT fencing.present('ledger', 21); $sql; COMMIT",
		'25006', "standby: $what, with a token presented");
}

# The same in a read-only transaction of the primary, where there is somebody
# to wait for: the refusal comes first.
my $holder = session($primary);
$holder->query("BEGIN; SELECT fencing.claim('ledger', 22); SELECT fencing.next_token('ledger')");
is($holder->state, '00000', 'primary: the mark is locked');
my $readonly = session($primary);
$readonly->query("SET lock_timeout = '5s'");
for (@writes)
{
	my ($what, $sql) = @$_;

	refused($readonly, "BEGIN READ ONLY; $sql; COMMIT",
		'25006', "read-only transaction: $what");
}
gives($readonly, "BEGIN READ ONLY; SELECT fencing.mark('ledger'); SELECT fencing.present('a', 1);"
	  . "SELECT * FROM fencing.presented(); COMMIT",
	"21\n\na|1", 'read-only transaction: mark, present, presented');
$holder->query('ROLLBACK');
$readonly->quit;

#
# a promotion that loses the last tokens
#
my $known = $primary->safe_psql('postgres', "SELECT fencing.next_token('ledger')");
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('write'));
$reader->quit;
$standby->stop;

my $lost = $primary->safe_psql('postgres',
	"SELECT max(fencing.next_token('ledger')) FROM generate_series(1, 1000)");
cmp_ok($lost, '>=', $known + 1000, 'primary: tokens that the standby misses');
# a foreign token, far ahead of the sequence; the standby misses this too
my $far = 5_000_000;
$primary->safe_psql('postgres', "SELECT fencing.claim('far', $far)");
my $after_far = $primary->safe_psql('postgres', "SELECT fencing.next_token('far')");
cmp_ok($after_far, '>', $far, 'primary: next token is above the mark');
$primary->stop('immediate');
$holder->quit;

$standby->start;
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');

my $writer = session($standby);
my $first = $writer->query("SELECT fencing.next_token('ledger')");
cmp_ok($first, '>', $after_far, 'promoted: next token is above every lost one');
my $second = $writer->query("SELECT fencing.next_token('new')");
cmp_ok($second, '>', $first, 'promoted: tokens rise across resources');
cmp_ok($second, '<', 2**53, 'promoted: tokens are exact in JavaScript');
gives($writer, 'SELECT last_value FROM fencing.token_sequence',
	$second, 'promoted: the sequence is what was handed out last');

gives($writer, "SELECT fencing.mark('ledger'), fencing.mark('job:2')",
	'21|6', 'promoted: marks');
accepted($writer, "BEGIN; SELECT fencing.present('ledger', 21); INSERT INTO entry VALUES (2); COMMIT",
	'promoted: a holder from before writes');
accepted($writer, "SELECT fencing.claim('ledger', $first)", 'promoted: a new holder claims');
for my $token (21, $lost, $after_far)
{
	refused($writer,
		"BEGIN; SELECT fencing.present('ledger', $token); INSERT INTO entry VALUES (3); COMMIT",
		'ZF001', "promoted: a holder from before, token $token, is stale after that");
}
refused($writer, 'UPDATE job SET fence_token = 10 WHERE id = 1',
	'ZF001', 'promoted: an older write, row mark');
refused($writer, 'INSERT INTO job (id, fence_token) VALUES (2, 5)',
	'ZF001', 'promoted: an older write against the mark of a deleted row');
gives($writer, 'SELECT count(*) FROM entry', '2', 'promoted: rows');

# Once more: the second promotion is above the first.
$standby->backup('backup2');
my $third = PostgreSQL::Test::Cluster->new('third');
$third->init_from_backup($standby, 'backup2', has_streaming => 1);
$third->start;
$standby->wait_for_catchup($third, 'replay', $standby->lsn('write'));
$third->stop;
my $lost_again = $writer->query("SELECT max(fencing.next_token('ledger')) FROM generate_series(1, 100)");
$writer->quit;
$standby->stop('immediate');
$third->start;
$third->promote;
$third->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
my $token = $third->safe_psql('postgres', "SELECT fencing.next_token('ledger')");
cmp_ok($token, '>', $lost_again, 'promoted again: next token is above every lost one');
is($token >> 40, 2, 'promoted again: two timelines away from the first');
$third->stop;

done_testing();
