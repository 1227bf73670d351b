# A fence guards the database where a write begins, not the copy of it.
#
# On a subscriber the apply worker's writes pass a fence that is declared as
# usual, while everybody else's are guarded.  Whose fence is ENABLE ALWAYS
# guards against the publisher, too: an older token stops replication with the
# refusal in the log, and it goes on where it stopped when the trigger is set
# back.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $publisher = PostgreSQL::Test::Cluster->new('publisher');
$publisher->init(allows_streaming => 'logical');
$publisher->start;
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init(allows_streaming => 'logical');
$subscriber->start;

my $tables = q{
	CREATE EXTENSION fencing;
	CREATE TABLE job (id int PRIMARY KEY, note text);
	SELECT fencing.fence('job');
	CREATE TABLE stock (sku text PRIMARY KEY, n int);
	SELECT fencing.fence('stock', 'sku:{sku}', mark => 'resource');
};
$publisher->safe_psql('postgres', $tables);
$subscriber->safe_psql('postgres', $tables);

my $p = session($publisher);
my $s = session($subscriber);
accepted($p, q{
	INSERT INTO job (id, note, fence_token) VALUES (2, 'b', 20), (1, 'a', 10);
	INSERT INTO job (id, note) VALUES (3, 'c');
	BEGIN;
	SELECT fencing.present('sku:x', 30);
	INSERT INTO stock VALUES ('x', 1);
	COMMIT;
	CREATE PUBLICATION publication FOR TABLE job, stock},
	'publisher: rows');

my $connstr = $publisher->connstr . ' dbname=postgres';
sub caught_up
{
	my ($what) = @_;

	$publisher->wait_for_catchup('subscription');
	return pass("subscriber caught up: $what");
}

#
# the default: replicated writes are not guarded
#
# What is there before the first copy, and higher than what will come.
accepted($s, q{
	INSERT INTO job (id, fence_token) VALUES (1, 50);
	BEGIN; SELECT fencing.present('job:1', 50); DELETE FROM job WHERE id = 1; COMMIT;
	SELECT fencing.claim('sku:x', 50)}, 'subscriber: higher marks');
$s->query("CREATE SUBSCRIPTION subscription CONNECTION '$connstr' PUBLICATION publication");
is($s->state, '00000', 'subscription');
$subscriber->wait_for_subscription_sync($publisher, 'subscription');
gives($s, 'SELECT id, note, fence_token FROM job ORDER BY id', "1|a|10\n2|b|20\n3|c|0",
	'first copy: row marks');
gives($s, 'SELECT * FROM stock', 'x|1', 'first copy: resource mark');
gives($s, 'SELECT resource, token FROM fencing.marks', "job:1|50\nsku:x|50",
	'first copy: marks of the subscriber are as they were');

accepted($s, 'UPDATE job SET fence_token = 50 WHERE id = 1', 'subscriber: a mark above the publisher\'s');
accepted($p, q{UPDATE job SET note = 'applied', fence_token = 11 WHERE id = 1}, 'publisher: a lower token');
accepted($p, q{BEGIN; SELECT fencing.claim('sku:x', 31); UPDATE stock SET n = 2; COMMIT}, 'publisher: resource mark');
accepted($p, q{BEGIN; SELECT fencing.present('job:3', 1); DELETE FROM job WHERE id = 3; COMMIT}, 'publisher: delete');
caught_up('updates');
gives($s, 'SELECT id, note, fence_token FROM job ORDER BY id', "1|applied|11\n2|b|20",
	'origin fence: updates and deletes are applied');
gives($s, 'SELECT * FROM stock', 'x|2', 'origin fence: under a resource mark, too');
gives($s, 'SELECT resource, token FROM fencing.marks', "job:1|50\nsku:x|50",
	'marks do not travel with the rows');
gives($p, q{SELECT fencing.mark('sku:x'), fencing.mark('job:3')}, '31|1', 'publisher: marks');
refused($s, 'UPDATE job SET fence_token = 10 WHERE id = 1', 'ZF001', 'subscriber: an older write of its own');
refused($s, 'DELETE FROM stock', 'ZF002', 'subscriber: a write of its own without a token');

# TRUNCATE of the publisher's, which needs enforcement off there
accepted($p, 'BEGIN; SET LOCAL fencing.enforcement = off; TRUNCATE stock; COMMIT', 'publisher: TRUNCATE');
caught_up('TRUNCATE');
gives($s, 'SELECT count(*) FROM stock', '0', 'origin fence: TRUNCATE is applied');
refused($s, 'TRUNCATE job', 'ZF002', 'subscriber: TRUNCATE of its own');

#
# ENABLE ALWAYS
#
my ($guard) = $s->query(q{SELECT quote_ident(tgname) FROM pg_trigger
	WHERE tgrelid = 'job'::regclass AND tgfoid = 'fencing.guard()'::regprocedure});

# once refused, the message is there again and again
sub stops
{
	my ($what, $sql, $message) = @_;
	my $position = log_size($subscriber);

	accepted($p, $sql, "publisher: $what");
	$subscriber->wait_for_log($message, $position);
	like(log_since($subscriber, $position), $message, "$what: refusal in the subscriber's log");
	return;
}

accepted($s, "UPDATE job SET note = 'mine', fence_token = 60 WHERE id = 1", 'subscriber: a high mark');
accepted($s, "ALTER TABLE job ENABLE ALWAYS TRIGGER $guard", 'ENABLE ALWAYS');
gives($s, q{SELECT enabled FROM fencing.fences WHERE relation = 'job'::regclass}, 't', '... is enabled');
accepted($p, q{UPDATE job SET note = 'newer', fence_token = 70 WHERE id = 2}, 'publisher: a newer token');
caught_up('a newer token');
gives($s, 'SELECT note, fence_token FROM job WHERE id = 2', 'newer|70', 'ENABLE ALWAYS: a newer token is applied');
accepted($p, q{UPDATE job SET note = 'again', fence_token = 70 WHERE id = 2}, 'publisher: the same token');
accepted($p, q{INSERT INTO job (id, note, fence_token) VALUES (4, 'new', 1)}, 'publisher: a new row');
caught_up('a new row');
gives($s, 'SELECT note, fence_token FROM job WHERE id IN (2, 4) ORDER BY id', "again|70\nnew|1",
	'ENABLE ALWAYS: an equal token and a new row are applied');

stops('ENABLE ALWAYS: an older token',
	q{UPDATE job SET note = 'older', fence_token = 12 WHERE id = 1},
	qr/ERROR:  stale token for resource "job:1"\n(?:.*\n)??.*DETAIL:  Resource "job:1": token 12 is lower than mark 60/);
accepted($p, q{INSERT INTO job (id, note, fence_token) VALUES (5, 'behind', 1)}, 'publisher: a row behind it');
gives($s, 'SELECT note, fence_token FROM job WHERE id = 1', 'mine|60', 'ENABLE ALWAYS: the row is as it was');
gives($s, 'SELECT count(*) FROM job WHERE id = 5', '0', 'ENABLE ALWAYS: what comes later waits');
ok($subscriber->poll_query_until('postgres',
		q{SELECT apply_error_count > 0 FROM pg_stat_subscription_stats}),
	'ENABLE ALWAYS: the error is counted');

accepted($s, "ALTER TABLE job ENABLE TRIGGER $guard", 'set back');
caught_up('what was held up');
gives($s, 'SELECT id, note, fence_token FROM job ORDER BY id',
	"1|older|12\n2|again|70\n4|new|1\n5|behind|1", 'set back: it goes on where it stopped');

# A resource mark needs a token that replication does not carry.
my ($resource_guard) = $s->query(q{SELECT quote_ident(tgname) FROM pg_trigger
	WHERE tgrelid = 'stock'::regclass AND tgfoid = 'fencing.guard()'::regprocedure});
accepted($s, "ALTER TABLE stock ENABLE ALWAYS TRIGGER $resource_guard", 'ENABLE ALWAYS, resource mark');
stops('ENABLE ALWAYS, resource mark',
	q{BEGIN; SELECT fencing.claim('sku:y', 1); INSERT INTO stock VALUES ('y', 1); COMMIT},
	qr/ERROR:  write to fenced table "stock" carries no token/);
accepted($s, "ALTER TABLE stock ENABLE TRIGGER $resource_guard", 'set back');
caught_up('what was held up');
gives($s, 'SELECT * FROM stock', 'y|1', 'set back: it goes on');

# A first copy into a fence that is always enabled.
accepted($s, 'ALTER SUBSCRIPTION subscription DISABLE; ALTER SUBSCRIPTION subscription SET (slot_name = NONE); DROP SUBSCRIPTION subscription',
	'subscription is dropped');
$p->query("SELECT pg_drop_replication_slot('subscription')");
is($p->state, '00000', '... and its slot');
accepted($s, 'BEGIN; SET LOCAL fencing.enforcement = off; TRUNCATE job; TRUNCATE stock; COMMIT', 'subscriber is empty');
accepted($s, "ALTER TABLE job ENABLE ALWAYS TRIGGER $guard", 'ENABLE ALWAYS');
$s->query("CREATE SUBSCRIPTION subscription CONNECTION '$connstr' PUBLICATION publication");
is($s->state, '00000', 'subscription again');
my $position = log_size($subscriber);
# row 1 has a mark of 50 from when it was deleted
$subscriber->wait_for_log(qr/ERROR:  stale token for resource "job:1"/, $position);
pass('ENABLE ALWAYS: first copy of a row that is older than the mark is refused');
accepted($p, q{UPDATE job SET fence_token = 51 WHERE id = 1}, 'publisher: a newer token');
$subscriber->wait_for_subscription_sync($publisher, 'subscription');
gives($s, 'SELECT id, note, fence_token FROM job ORDER BY id',
	"1|older|51\n2|again|70\n4|new|1\n5|behind|1", 'ENABLE ALWAYS: first copy of newer rows');

for my $node ($publisher, $subscriber)
{
	unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP:/, $node->name . ': no crash');
}
$p->quit;
$s->quit;
$subscriber->stop;
$publisher->stop;
done_testing();
