# An old primary that is rewound to a new one takes over the new one's marks,
# leases and commands, and when it is promoted again, it hands out larger tokens
# than both have.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $old = PostgreSQL::Test::Cluster->new('old');
$old->init(allows_streaming => 1);
$old->append_conf('postgresql.conf', "wal_log_hints = on\nwal_keep_size = 256MB\nfull_page_writes = on");
$old->start;
$old->safe_psql(
	'postgres', q{
	CREATE EXTENSION fencing;
	CREATE TABLE job (id int PRIMARY KEY, note text);
	SELECT fencing.fence('job');
	INSERT INTO job (id, note, fence_token) VALUES (1, 'both', 10);
	SELECT fencing.claim('ledger', 10);
	SELECT fencing.acquire('both', '1 hour', '0', 'h');
});
$old->backup('backup');
my $new = PostgreSQL::Test::Cluster->new('new');
$new->init_from_backup($old, 'backup', has_streaming => 1);
$new->start;
$old->wait_for_catchup($new, 'replay', $old->lsn('write'));
$new->promote;
$new->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');

# both go on for themselves
$old->safe_psql(
	'postgres', q{
	UPDATE job SET note = 'lost', fence_token = 99 WHERE id = 1;
	SELECT fencing.claim('ledger', 99);
	SELECT fencing.acquire('old', '1 hour', '0', 'h');
	SELECT fencing.begin_command('s', 'lost', takeover => '1 hour');
});
my $lost = $old->safe_psql('postgres', "SELECT fencing.next_token('lost')");
$new->safe_psql(
	'postgres', q{
	UPDATE job SET note = 'kept', fence_token = 20 WHERE id = 1;
	SELECT fencing.claim('ledger', 20);
	SELECT fencing.acquire('new', '1 hour', '0', 'h');
	SELECT fencing.begin_command('s', 'kept', takeover => '1 hour');
});
my $kept = $new->safe_psql('postgres', "SELECT fencing.next_token('kept')");
cmp_ok($kept, '>', $lost, 'the new primary is ahead of the old one');

$old->stop;
$new->safe_psql('postgres', 'CHECKPOINT');
command_ok(
	[
		'pg_rewind', '--target-pgdata', $old->data_dir,
		'--source-server', $new->connstr('postgres'), '--no-sync'
	],
	'pg_rewind');
# what the rewind has copied of the other's settings
my $port = $old->port;
append_to_file($old->data_dir . '/postgresql.conf', "\nport = $port\n");
$old->enable_streaming($new);
$old->set_standby_mode;
$old->start;
$new->wait_for_catchup($old, 'replay', $new->lsn('write'));

my $reader = session($old);
gives($reader, 'SELECT note, fence_token FROM job', 'kept|20', 'rewound: the row of the new primary, and its mark');
gives($reader, "SELECT fencing.mark('ledger')", '20', 'the resource mark');
gives($reader, 'SELECT resource FROM fencing.leases ORDER BY 1', "both\nnew", 'the leases');
gives($reader, 'SELECT key FROM fencing.commands', 'kept', 'the commands');
$reader->quit;

# and back
$new->stop;
$old->promote;
$old->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
my $client = session($old);
cmp_ok($client->query("SELECT fencing.next_token('kept')"), '>', $kept, 'promoted again, its tokens are larger');
refused($client, 'UPDATE job SET fence_token = 19 WHERE id = 1', 'ZF001', 'an older write is refused');
gives($client, "SELECT fencing.try_acquire('new') IS NULL", 't', 'a lease of the other one is held');
$client->quit;
$old->stop;
done_testing();
