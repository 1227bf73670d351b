# Settings have the scope of settings, from before the library is loaded on.
#
# A value that is set before the library is loaded is a placeholder that the
# server keeps unchecked.  The first fenced write loads the library: what was
# set well counts from then on, a malformed value and one that the role may not
# set are dropped with a warning and count as nothing.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(auth_extra => [ '--create-role', 'app,maintainer' ]);
$node->start;
$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION fencing;
	CREATE ROLE app LOGIN;
	CREATE ROLE maintainer LOGIN;
	CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL DEFAULT 0);
	SELECT fencing.fence('stock', 'sku:{id}', mark => 'resource');
	GRANT SELECT, INSERT, UPDATE, DELETE ON stock TO app, maintainer;
	BEGIN;
	SELECT fencing.present(ARRAY['sku:1', 'sku:2'], ARRAY[5, 5]);
	INSERT INTO stock VALUES (1), (2);
	COMMIT;
	-- many rows of one fence that needs no token for them
	CREATE TABLE many (id int PRIMARY KEY, n int);
	INSERT INTO many SELECT g, 0 FROM generate_series(1, 100) g;
	SELECT fencing.fence('many');
	GRANT SELECT, INSERT, UPDATE, DELETE ON many TO app, maintainer;
});

my $write = 'UPDATE stock SET n = n + 1 WHERE id = 1';
my $mark = "SELECT fencing.mark('sku:1')";
my $admin = session($node);

sub fresh
{
	return session($node, user => 'app', @_);
}

#
# before the library is loaded
#
for ('x', 'sku:1', 'sku:1=', 'sku:1=0', 'sku:1=-1', 'sku:1=5x', 'sku:1=5,',
	'sku:1=9223372036854775808', '"sku:1=5', '=5', 'sku:1=5, sku:1=6')
{
	my $s = fresh();

	accepted($s, "SET fencing.tokens = '$_'", "not loaded: \"$_\" can be set");
	refused($s, $write, 'ZF002', "not loaded: \"$_\" presents nothing");
	like($s->messages, qr/WARNING:  22023: invalid value for parameter "fencing.tokens": "\Q$_\E"/,
		"not loaded: \"$_\" is warned of");
	gives($s, 'SHOW fencing.tokens', '', "not loaded: \"$_\" is dropped");
	refused($s, "SET fencing.tokens = '$_'", '22023', "loaded: \"$_\" is refused");
	accepted($s, "SET fencing.tokens = 'sku:1=5'; $write", 'loaded: a good one counts');
	$s->quit;
}

my $s = fresh();
accepted($s, "SET fencing.tokens = 'sku:1=6'; $write", 'not loaded: a well-formed value counts');
gives($s, $mark, '6', '... and is the mark');
is($s->messages, '', '... without a word');
$s->quit;

$s = fresh();
$s->query("SET fencing.deadline = 'soon'; SET fencing.tokens = 'sku:1=6'");
accepted($s, $write, 'not loaded: a malformed deadline is no deadline');
like($s->messages, qr/WARNING:  22023: invalid value for parameter "fencing.deadline": "soon"/,
	'... and is warned of');
$s->quit;

$s = fresh();
refused($s, "SET fencing.deadline = '2000-01-01 00:00:00+00'; SET fencing.tokens = 'sku:1=7'; $write",
	'ZF003', 'not loaded: a well-formed deadline counts');
gives($admin, $mark, '6', '... and the write is undone');
$s->quit;

$s = fresh();
$s->query("SET fencing.no_such = 1");
refused($s, $write, 'ZF002', 'a setting that does not exist');
like($s->messages, qr/WARNING:.*invalid configuration parameter name "fencing.no_such"/,
	'... is warned of when the library is loaded');
refused($s, 'SET fencing.no_such = 1', '42602', '... and refused after that');
$s->quit;

# Scopes that begin before the library is loaded and end after it.
$s = fresh();
accepted($s, "BEGIN; SET LOCAL fencing.tokens = 'sku:1=7'; $write; COMMIT",
	'not loaded: SET LOCAL counts');
refused($s, $write, 'ZF002', '... to the end of the transaction');
gives($s, $mark, '7', '... and is the mark');
$s->quit;

$s = fresh();
accepted($s, "SET fencing.tokens = 'sku:1=7'; BEGIN; SET LOCAL fencing.tokens = 'sku:1=8'; $write; ROLLBACK",
	'not loaded: SET LOCAL over SET');
gives($s, 'SHOW fencing.tokens', 'sku:1=7', '... uncovers it when it ends');
accepted($s, $write, '... which counts again');
gives($s, $mark, '7', '... and is the mark');
$s->quit;

$s = fresh();
$s->query("BEGIN; SET LOCAL fencing.tokens = 'sku:1=8'; SAVEPOINT a;"
	  . "SET LOCAL fencing.tokens = 'sku:1=20'; $write; ROLLBACK TO a");
is($s->state, '00000', 'not loaded: loaded under a savepoint');
gives($s, 'SELECT * FROM fencing.presented()', 'sku:1|8', '... whose end uncovers what was set before');
accepted($s, "$write; COMMIT", '... which counts');
gives($s, $mark, '8', '... and is the mark');
$s->quit;

$s = fresh();
$s->query("BEGIN; SET LOCAL fencing.tokens = 'sku:1=9'; SAVEPOINT a;"
	  . "SET LOCAL fencing.tokens = 'x'");
accepted($s, $write, 'not loaded: malformed under a savepoint is as if it were not set');
like($s->messages, qr/WARNING:  22023: invalid value for parameter "fencing.tokens": "x"/,
	'... and is warned of');
# The server forgets what was set outside the savepoint along with the value
# that it could not apply: then nothing is presented.
$s->query("ROLLBACK TO a; $write");
like($s->state, qr/^(?:00000|ZF002)$/, '... and after it, the good one counts or none');
$s->query('ROLLBACK');
$s->quit;

$admin->query(q{
	CREATE FUNCTION write_with_10() RETURNS int LANGUAGE sql SET fencing.tokens = 'sku:1=10' AS
		$$ UPDATE stock SET n = n + 1 WHERE id = 1 RETURNING id $$});
$s = fresh();
gives($s, "BEGIN; SELECT write_with_10(); $mark", "1\n10", "not loaded: a function's SET clause counts");
gives($s, "SELECT current_setting('fencing.tokens', true)", '', '... to the end of the function');
refused($s, "$write; COMMIT", 'ZF002', '... and not after it');
accepted($s, 'SELECT write_with_10()', 'loaded: the same');
accepted($s, "BEGIN; SET LOCAL fencing.tokens = 'sku:1=11'; SELECT write_with_10(); $write; COMMIT",
	'loaded: a SET clause hides what is presented, and uncovers it');
gives($s, $mark, '11', '... which is the mark');
$s->quit;

#
# where else a setting can come from
#
$s = fresh(options => '-c fencing.tokens=sku:1=12');
accepted($s, $write, 'connection option counts');
accepted($s, "BEGIN; SELECT fencing.present('sku:2', 6); $write; UPDATE stock SET n = 0 WHERE id = 2; COMMIT",
	'present adds to it');
refused($s, 'UPDATE stock SET n = 0 WHERE id = 2', 'ZF002', '... for the transaction');
accepted($s, "$write; RESET ALL; $write", 'RESET ALL leaves the connection option');
gives($s, $mark, '12', '... which is the mark');
$s->quit;

$s = fresh(options => '-c fencing.tokens=x');
refused($s, $write, 'ZF002', 'malformed connection option presents nothing');
$s->quit;

accepted($admin, "ALTER ROLE app SET fencing.tokens = 'sku:1=13'", 'ALTER ROLE');
$s = fresh();
accepted($s, $write, 'setting of the role counts');
gives($s, "SELECT * FROM fencing.presented()", 'sku:1|13', '... and is presented');
refused($s, "SET fencing.tokens = ''; $write", 'ZF002', '... but can be emptied');
accepted($s, "RESET fencing.tokens; $write", '... and reset to');
$s->quit;
refused($admin, "SELECT fencing.mark('sku:1'), count(*) FROM fencing.presented(); ALTER ROLE app SET fencing.tokens = 'x'",
	'22023', 'ALTER ROLE with a malformed value, loaded');
my $unloaded = session($node);
accepted($unloaded, "ALTER ROLE app SET fencing.tokens = 'x'",
	'ALTER ROLE with a malformed value, not loaded');
$unloaded->quit;
$s = fresh();
refused($s, $write, 'ZF002', '... presents nothing');
accepted($s, "BEGIN; SELECT fencing.present('sku:1', 13); $write; COMMIT", '... and does no harm');
$s->quit;
$admin->query('ALTER ROLE app RESET ALL');

# DISCARD ALL, as poolers send it
$s = fresh();
accepted($s, "SET fencing.tokens = 'sku:1=14'; SET fencing.deadline = '2000-01-01 00:00:00+00'; SET fencing.stale_aborts = on",
	'a client leaves settings behind');
accepted($s, 'DISCARD ALL', 'DISCARD ALL before the library is loaded');
refused($s, $write, 'ZF002', '... leaves nothing presented');
$s->query("SET fencing.tokens = 'sku:1=14'; $write; SET fencing.deadline = '2000-01-01 00:00:00+00'; SET fencing.stale_aborts = on");
accepted($s, 'DISCARD ALL', 'DISCARD ALL after it');
refused($s, $write, 'ZF002', '... leaves nothing presented');
gives($s, "SELECT count(*) FROM fencing.presented()", '0', '... as presented() says');
gives($s, "SELECT current_setting('fencing.tokens'), current_setting('fencing.deadline'), current_setting('fencing.stale_aborts')",
	'||off', '... and no other setting');
accepted($s, "BEGIN; SELECT fencing.present('sku:1', 14); $write; COMMIT", '... and the session works');
$s->quit;

#
# enforcement
#
my $before = $node->safe_psql('postgres', 'SELECT n FROM stock WHERE id = 1');
for my $value ('off', 'shadow')
{
	$s = fresh();
	$s->query("SET fencing.enforcement = $value");
	refused($s, $write, 'ZF002', "not loaded: enforcement $value by an ordinary role, write is refused");
	like($s->messages, qr/WARNING:  42501: permission denied to set parameter "fencing.enforcement"/,
		'... with a warning');
	gives($s, 'SHOW fencing.enforcement', 'on', '... and is dropped');
	refused($s, "SET fencing.enforcement = $value", '42501', '... and refused when loaded');
	refused($s, $write, 'ZF002', '... as is the write');
	$s->quit;

	$s = fresh();
	refused($s, "BEGIN; SET LOCAL fencing.enforcement = $value; $write; COMMIT",
		'ZF002', "not loaded: SET LOCAL enforcement $value by an ordinary role");
	$s->quit;

	$s = fresh(options => "-c fencing.enforcement=$value");
	refused($s, $write, 'ZF002', "connection option, enforcement $value by an ordinary role");
	gives($s, 'SHOW fencing.enforcement', 'on', '... is dropped');
	$s->quit;

	$s = fresh();
	$s->query("ALTER ROLE app SET fencing.enforcement = $value");
	is($s->state, '42501', "not loaded: ALTER ROLE SET enforcement $value by the role itself");
	$s->query("SELECT fencing.mark('x'); SELECT count(*) FROM fencing.presented(); ALTER ROLE app SET fencing.enforcement = $value");
	is($s->state, '42501', '... and loaded');
	refused($s, "CREATE FUNCTION pg_temp.f() RETURNS void LANGUAGE sql SET fencing.enforcement = $value AS '$write'",
		'42501', "loaded: a function's SET clause with enforcement $value, by an ordinary role");
	$s->quit;

	# a function made before the library is loaded
	$s = fresh();
	$s->query("CREATE FUNCTION pg_temp.f() RETURNS void LANGUAGE sql SET fencing.enforcement = $value AS '$write'");
	$s->query('SELECT pg_temp.f()');
	isnt($s->state, '00000', "not loaded: a function's SET clause with enforcement $value, by an ordinary role");
	$s->query('SELECT pg_temp.f()');
	isnt($s->state, '00000', '... and called again');
	$s->quit;
}
is($node->safe_psql('postgres', 'SELECT n FROM stock WHERE id = 1'),
	$before, 'nothing of all that was written');

# Those who may, and the trace that it leaves.
accepted($admin, 'GRANT SET ON PARAMETER fencing.enforcement TO maintainer', 'GRANT SET');
my $off = qr/LOG:  fencing: off table="public\.\w+" role="\w+"/;
my $position = log_size($node);
$s = fresh(user => 'maintainer');
gives($s, 'SET fencing.enforcement = off; WITH u AS (UPDATE many SET n = 1 RETURNING 1) SELECT count(*) FROM u',
	'100', 'granted: enforcement off, set before loading, lets 100 rows pass');
is(count_matches(log_since($node, $position), $off), 1, '... and is logged once');
like(log_since($node, $position), qr/fencing: off table="public\.many" role="maintainer" application=/,
	'... by name of role and table');
$position = log_size($node);
accepted($s, "BEGIN; UPDATE many SET n = 2; UPDATE many SET n = 3; $write; SAVEPOINT a; UPDATE many SET n = 4; ROLLBACK TO a; UPDATE many SET n = 4; COMMIT",
	'granted: several statements');
is(count_matches(log_since($node, $position), $off), 1, '... are logged once a transaction');
$position = log_size($node);
accepted($s, 'UPDATE many SET n = 5', 'granted: one more transaction');
accepted($s, 'UPDATE many SET n = 6', 'granted: and one more');
is(count_matches(log_since($node, $position), $off), 2, '... are logged each');
gives($s, 'SELECT count(*) FROM many WHERE n = 6 AND fence_token = 0', '100', '... and were written');
$position = log_size($node);
$s->query('BEGIN; UPDATE many SET n = 7; ROLLBACK');
is(count_matches(log_since($node, $position), $off), 1, '... logged when it is rolled back, too');
refused($s, 'SET fencing.enforcement = on; UPDATE many SET n = 7', 'ZF002', 'on again, and in force');
$s->quit;

# TRUNCATE too
$position = log_size($node);
accepted($admin, 'BEGIN; SET LOCAL fencing.enforcement = off; TRUNCATE many; UPDATE stock SET n = 0; ROLLBACK',
	'superuser: TRUNCATE with enforcement off');
is(count_matches(log_since($node, $position), $off), 1, '... is logged once');
gives($admin, 'SHOW fencing.enforcement', 'on', '... and is over');

$admin->query('REVOKE SET ON PARAMETER fencing.enforcement FROM maintainer');
$s = fresh(user => 'maintainer');
refused($s, "SET fencing.enforcement = off; $write", 'ZF002', 'revoked: it has no effect any more');
$s->quit;

#
# preloaded for sessions
#
$admin->query("ALTER DATABASE postgres SET session_preload_libraries = 'fencing'");
is($admin->state, '00000', 'session_preload_libraries');
$s = fresh();
refused($s, "SET fencing.tokens = 'x'", '22023', 'preloaded: malformed value is refused at once');
refused($s, 'SET fencing.enforcement = off', '42501', 'preloaded: enforcement off is refused at once');
accepted($s, "BEGIN; SET LOCAL fencing.tokens = 'sku:1=15'; $write; COMMIT", 'preloaded: a write');
$s->quit;
$s = fresh(options => '-c fencing.tokens=sku:1=16');
accepted($s, $write, 'preloaded: connection option counts');
$s->quit;
$s = fresh(options => '-c fencing.enforcement=off -c fencing.tokens=x');
refused($s, $write, 'ZF002', 'preloaded: connection options that are malformed or not allowed have no effect');
gives($s, 'SHOW fencing.enforcement', 'on', '... and are dropped');
$s->quit;
$admin->query("ALTER DATABASE postgres RESET session_preload_libraries");

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'fencing'\nfencing.tokens = 'sku:1=17'");
$admin->quit;
$node->restart;
$s = fresh();
accepted($s, $write, 'preloaded with the server: a value in postgresql.conf counts');
gives($s, $mark, '17', '... and is the mark');
refused($s, "SET fencing.tokens = 'x'", '22023', 'preloaded with the server: malformed value is refused');
$s->quit;

$node->stop;
done_testing();
