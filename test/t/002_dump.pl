# What is in a dump: every declaration, every mark, the numbers handed out.
#
# A database with all kinds of fences is dumped in the ways that pg_dump has,
# and restored where other tables were created first.  Nothing is reported by
# the restore, and the restored database refuses what the first one refused.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->start;

$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql(
	'source', q{
	CREATE EXTENSION fencing;

	CREATE TABLE account (id int PRIMARY KEY, note text);
	SELECT fencing.fence('account');
	INSERT INTO account (id, note, fence_token) VALUES (3, 'c', 30), (1, 'a', 10), (2, 'b', 500), (4, 'd', 5), (5, 'e', 5);
	INSERT INTO account (id, note) VALUES (6, 'no mark');
	-- deleted: the mark stays
	BEGIN; SELECT fencing.present('account:4', 40); DELETE FROM account WHERE id = 4; COMMIT;
	-- deleted and there again: a mark in both places
	BEGIN; SELECT fencing.present('account:5', 50); DELETE FROM account WHERE id = 5; COMMIT;
	INSERT INTO account (id, note, fence_token) VALUES (5, 'e again', 50);

	CREATE TABLE stock (sku text PRIMARY KEY, n int NOT NULL);
	SELECT fencing.fence('stock', 'sku:{sku}', mark => 'resource', max_step => 1000, on_stale => 'skip');
	BEGIN;
	SELECT fencing.present(ARRAY['sku:a', 'sku:b, c'], ARRAY[70, 80]);
	INSERT INTO stock VALUES ('b, c', 2), ('a', 1);
	COMMIT;

	CREATE TABLE event (id int, region text, note text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
	CREATE TABLE event_n PARTITION OF event FOR VALUES IN ('north');
	CREATE TABLE event_s (note text, region text NOT NULL, id int NOT NULL);
	ALTER TABLE event ATTACH PARTITION event_s FOR VALUES IN ('south');
	SELECT fencing.fence('event', 'event:{id}:{region}', token_column => 'tok', strict => true);
	INSERT INTO event (id, region, note, tok) VALUES (1, 'north', 'n', 90), (1, 'south', 's', 91);

	-- elsewhere, and under another name, than when it was fenced
	CREATE TABLE job (id int PRIMARY KEY, note text);
	SELECT fencing.fence('job');
	INSERT INTO job (id, note, fence_token) VALUES (1, 'j', 100);
	CREATE SCHEMA "Other Place";
	ALTER TABLE job RENAME TO "Old Job";
	ALTER TABLE "Old Job" SET SCHEMA "Other Place";

	SELECT fencing.next_token('lock') FROM generate_series(1, 500);
	SELECT fencing.claim('lock', 500);
});

my $declarations =
  'SELECT * FROM fencing.fences ORDER BY relation::text COLLATE "C"';
my $triggers = q{
	SELECT tgrelid::regclass, tgname, tgenabled, pg_get_triggerdef(oid)
	FROM pg_trigger WHERE NOT tgisinternal OR tgparentid <> 0
	ORDER BY tgrelid::regclass::text COLLATE "C", tgname};
my $marks = 'SELECT * FROM fencing.marks ORDER BY resource';
my $issued = 'SELECT * FROM fencing.issued ORDER BY resource';
my $sequence = 'SELECT last_value, is_called FROM fencing.token_sequence';
my $rows = q{
	SELECT 'account', id::text, note, fence_token FROM account
	UNION ALL SELECT 'stock', sku, n::text, NULL FROM stock
	UNION ALL SELECT 'event', id::text, note, tok FROM event
	UNION ALL SELECT 'job', id::text, note, fence_token FROM "Other Place"."Old Job"
	ORDER BY 1, 2, 3};

# What the source has, to compare with.
my $source = session($node, dbname => 'source');
my %had = map { $_ => $source->query($_) }
  ($declarations, $triggers, $marks, $issued, $sequence, $rows);
is($had{$sequence}, '500|t', 'source: numbers handed out');
like($had{$marks}, qr/^account:4\|40\|.*^account:5\|50\|.*^lock\|500\|.*^sku:a\|70\|.*^sku:b, c\|80\|/ms,
	'source: marks');
is(scalar(() = $had{$declarations} =~ /^/mg), 4, 'source: declarations');
like($had{$declarations}, qr/^"Other Place"."Old Job"\|job:\{id\}\|row\|/m,
	'source: declaration of a table that was renamed and moved');

my $dir = $PostgreSQL::Test::Utils::tmp_check;

sub dump_source
{
	my ($from, $file, @options) = @_;

	command_ok(
		[
			$from->installed_command('pg_dump'), '-f', "$dir/$file", @options,
			'-d', $from->connstr('source')
		],
		"pg_dump for $file");
	return "$dir/$file";
}

# A database in which other things were created first, so that every OID
# differs.
my $databases = 0;

sub new_database
{
	my $name = 'target_' . ++$databases;

	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, 'CREATE TABLE "first" (id int PRIMARY KEY, t text); CREATE TABLE second (LIKE "first")');
	return $name;
}

sub restore
{
	my ($database, $file, @options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $connstr = $node->connstr($database);
	my ($out, $err) = ('', '');

	IPC::Run::run(
		$file =~ /\.sql$/
		? [
			$node->installed_command('psql'), '-XAtq', '-v',
			'ON_ERROR_STOP=1', '-d', $connstr, '-f', $file, @options
		  ]
		: [
			$node->installed_command('pg_restore'), '-e', '-d', $connstr, @options, $file
		],
		'>', \$out, '2>', \$err);
	return $err;
}

# Everything is as in the source.
sub check_same
{
	my ($database, $how) = @_;
	my $s = session($node, dbname => $database);

	gives($s, $declarations, $had{$declarations}, "$how: declarations");
	gives($s, $triggers, $had{$triggers}, "$how: triggers");
	gives($s, $marks, $had{$marks}, "$how: marks");
	gives($s, $issued, $had{$issued}, "$how: fencing.issued");
	gives($s, $sequence, $had{$sequence}, "$how: sequence");
	gives($s, $rows, $had{$rows}, "$how: rows");
	$s->quit;
	return;
}

# The fences are in force, and the marks count.
sub check_refusals
{
	my ($database, $how) = @_;
	my $s = session($node, dbname => $database);

	refused($s, 'UPDATE account SET fence_token = 499 WHERE id = 2',
		'ZF001', "$how: older write, row mark");
	accepted($s, 'UPDATE account SET fence_token = 500 WHERE id = 2',
		"$how: equal write, row mark");
	refused($s, 'UPDATE account SET note = NULL WHERE id = 2',
		'ZF002', "$how: write without a token");
	refused($s, 'INSERT INTO account (id, fence_token) VALUES (4, 39)',
		'ZF001', "$how: older write against the mark of a deleted row");
	gives($s, q{BEGIN; SELECT fencing.present('sku:a', 69); WITH u AS (UPDATE stock SET n = 0 WHERE sku = 'a' RETURNING 1) SELECT count(*) FROM u; COMMIT},
		"\n0", "$how: older write, resource mark, is skipped");
	gives($s, q{BEGIN; SELECT fencing.present('sku:a', 71); WITH u AS (UPDATE stock SET n = n WHERE sku = 'a' RETURNING 1) SELECT count(*) FROM u; COMMIT},
		"\n1", "$how: newer write, resource mark");
	refused($s, q{BEGIN; SELECT fencing.present('sku:a', 1072); UPDATE stock SET n = n WHERE sku = 'a'; COMMIT},
		'ZF006', "$how: write too far above the resource mark");
	for my $region ('north', 'south')
	{
		refused($s, "UPDATE event SET tok = 89 WHERE region = '$region'",
			'ZF001', "$how: older write, partition $region");
		refused($s, "UPDATE event_" . substr($region, 0, 1) . " SET tok = 89",
			'ZF001', "$how: older write, directly to partition $region");
	}
	refused($s, 'UPDATE event SET tok = 90 WHERE region = \'north\'',
		'ZF001', "$how: equal write, strict");
	refused($s, 'UPDATE "Other Place"."Old Job" SET fence_token = 99',
		'ZF001', "$how: older write, renamed table");
	refused($s, 'TRUNCATE account', 'ZF002', "$how: TRUNCATE");
	refused($s, "SELECT fencing.claim('lock', 499)", 'ZF001', "$how: older claim");
	my $token = $s->query("SELECT fencing.next_token('lock')");
	cmp_ok($token, '==', 501, "$how: next token");
	$s->quit;
	return;
}

#
# whole dumps
#
my $plain = dump_source($node, 'plain.sql');
my $custom = dump_source($node, 'custom.dump', '-Fc');
my $inserts = dump_source($node, 'inserts.sql', '--rows-per-insert=2', '--column-inserts');
for ([ plain => $plain ], [ custom => $custom ],
	[ 'custom, in parallel' => $custom, '-j', '2' ], [ inserts => $inserts ])
{
	my ($how, $file, @options) = @$_;
	my $database = new_database();

	is(restore($database, $file, @options), '', "$how: restored without a word");
	check_same($database, $how);
	check_refusals($database, $how);
}

#
# schema alone, then data alone
#
my $schema = dump_source($node, 'schema.sql', '--schema-only');
my $data = dump_source($node, 'data.sql', '--data-only', '--disable-triggers');
my $bare_data = dump_source($node, 'bare_data.sql', '--data-only');
my $custom_data = dump_source($node, 'data.dump', '-Fc', '--data-only');

my $database = new_database();
is(restore($database, $schema), '', 'schema-only: restored without a word');
my $s = session($node, dbname => $database);
gives($s, $declarations, $had{$declarations}, 'schema-only: declarations');
gives($s, $triggers, $had{$triggers}, 'schema-only: triggers');
gives($s, 'SELECT count(*) FROM fencing.marks', '0', 'schema-only: no marks');
refused($s, q{INSERT INTO stock VALUES ('x', 1)}, 'ZF002', 'schema-only: fence is in force');
$s->quit;
is(restore($database, $data), '', 'data-only, --disable-triggers: restored without a word');
check_same($database, 'data-only, --disable-triggers');
check_refusals($database, 'data-only, --disable-triggers');

$database = new_database();
restore($database, $schema);
is(restore($database, $custom_data, '--disable-triggers'),
	'', 'data-only, custom, --disable-triggers: restored without a word');
check_same($database, 'data-only, custom, --disable-triggers');

# Fences that fire during a restore of data: a superuser turns them off ...
for ([ plain => $bare_data ], [ custom => $custom_data ])
{
	my ($how, $file) = @$_;

	$database = new_database();
	restore($database, $schema);
	{
		local $ENV{PGOPTIONS} = '-c fencing.enforcement=off';
		unlike(restore($database, $file), qr/ERROR/,
			"data-only, $how, enforcement off: restored");
	}
	check_same($database, "data-only, $how, enforcement off");
}

# ... or sees them refuse what carries no token ...
$database = new_database();
restore($database, $schema);
like(restore($database, $bare_data),
	qr/ERROR:  write to fenced table "stock" carries no token/,
	'data-only: a resource mark does not let rows in without a token');

# ... while row marks let the rows in as they are, in any order.
for my $order ('ASC', 'DESC')
{
	$database = new_database();
	restore($database, $schema);
	$s = session($node, dbname => $database);
	for ([ 'account', 'fence_token', '' ], [ 'event', 'tok', '' ],
		[ '"Other Place"."Old Job"', 'fence_token', '' ],
		[ 'fencing.marks', 'resource', '' ])
	{
		my ($table, $column) = @$_;
		my $file = "$dir/rows";

		# as pg_dump, but with the rows in this order
		$s->query(
			"\\connect source\n"
			  . "\\copy (SELECT * FROM $table ORDER BY $column $order) TO '$file'\n"
			  . "\\connect $database\nSET search_path = ''");
		$table = "public.$table" if $table !~ /\./;
		accepted($s, "\\copy $table FROM '$file'",
			"data of $table, in order $order, with the fence in force");
		$s->query('RESET search_path');
	}
	for ([ $marks, 'marks' ],
		[ 'SELECT * FROM account ORDER BY id', 'rows of account' ],
		[ 'SELECT * FROM event ORDER BY region', 'rows of event' ],
		[ 'SELECT * FROM "Other Place"."Old Job"', 'rows of the renamed table' ])
	{
		my ($sql, $what) = @$_;

		gives($s, $sql, $source->query($sql), "in order $order: $what");
	}
	refused($s, 'UPDATE account SET fence_token = 499 WHERE id = 2',
		'ZF001', "in order $order: older write");
	$s->quit;
}

# Rows before the marks, as above, or after them: deleted rows' marks count
# then, and every row that was dumped passes.
$database = new_database();
restore($database, $schema);
$s = session($node, dbname => $database);
$s->query("\\connect source\n\\copy fencing.marks TO '$dir/marks'\n\\copy account TO '$dir/rows'\n\\connect $database");
accepted($s, "\\copy fencing.marks FROM '$dir/marks'", 'marks first');
accepted($s, "\\copy account FROM '$dir/rows'", 'then the rows');
gives($s, $marks, $had{$marks}, 'and the marks are the same');
$s->quit;

#
# one table
#
my $one = dump_source($node, 'one.sql', '-t', 'public.account');
$database = new_database();
like(restore($database, $one), qr/ERROR:  schema "fencing" does not exist/,
	'one table, without the extension: it does not go unnoticed');
$database = new_database();
$node->safe_psql($database, 'CREATE EXTENSION fencing');
is(restore($database, $one), '', 'one table: restored without a word');
$s = session($node, dbname => $database);
gives($s, 'SELECT relation, resource, mark, enabled FROM fencing.fences',
	'account|account:{id}|row|t', 'one table: declaration');
gives($s, 'SELECT * FROM account ORDER BY id',
	$source->query('SELECT * FROM account ORDER BY id'), 'one table: rows');
gives($s, 'SELECT count(*) FROM fencing.marks', '0', 'one table: no marks of others');
refused($s, 'UPDATE account SET fence_token = 499 WHERE id = 2',
	'ZF001', 'one table: older write');
refused($s, 'TRUNCATE account', 'ZF002', 'one table: TRUNCATE');
$s->quit;

#
# from a later timeline to the first one
#
$source->quit;
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('write'));
$standby->promote;
$standby->poll_query_until('source', 'SELECT NOT pg_is_in_recovery()');
my $high = $standby->safe_psql('source', "SELECT fencing.next_token('lock')");
cmp_ok($high, '>', 2**40, 'later timeline: token');
$standby->safe_psql('source', "SELECT fencing.claim('lock', $high)");
my $highest = $standby->safe_psql('source', "SELECT fencing.next_token('other')");
my $later = dump_source($standby, 'later.sql');
$standby->stop;

$database = new_database();
is(restore($database, $later), '', 'later timeline: restored without a word');
$s = session($node, dbname => $database);
gives($s, "SELECT fencing.mark('lock')", $high, 'later timeline: mark');
refused($s, "SELECT fencing.claim('lock', 501)", 'ZF001', 'later timeline: older claim');
for my $resource ('other', 'lock', 'never seen')
{
	my $token = $s->query("SELECT fencing.next_token('$resource')");
	cmp_ok($token, '>', $highest, "later timeline: next token of $resource");
	$highest = $token;
}
$s->quit;

$node->stop;
done_testing();
