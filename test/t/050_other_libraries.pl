# Other libraries in shared_preload_libraries, before fencing and behind it,
# are called as if it were not there: hooks are passed on.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

for my $order ('pg_stat_statements, fencing', 'fencing, pg_stat_statements')
{
	(my $name = $order) =~ s/\W+/_/g;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my $dir = $node->config_data('--pkglibdir');

	plan skip_all => 'no pg_stat_statements' if !-e "$dir/pg_stat_statements.so";
	$node->init;
	$node->append_conf('postgresql.conf',
		"shared_preload_libraries = '$order'\nfsync = off\n"
		  . "pg_stat_statements.track = 'all'\nfencing.stat_max_fences = 10\n");
	$node->start;
	$node->safe_psql(
		'postgres', q{
		CREATE EXTENSION pg_stat_statements;
		CREATE EXTENSION fencing;
		CREATE TABLE t (id int PRIMARY KEY, v text);
		SELECT fencing.fence('t');
		INSERT INTO t VALUES (1, 'a', 5);
		UPDATE t SET v = 'b', fence_token = 6 WHERE id = 1;
		MERGE INTO t USING (VALUES (2)) AS s (id) ON t.id = s.id
			WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'c', 7);
	});
	my ($status, undef, $stderr) = $node->psql('postgres',
		q{UPDATE t SET v = 'c', fence_token = 5 WHERE id = 1});

	isnt($status, 0, "$order: a stale write is refused");
	like($stderr, qr/stale/i, 'with its error');
	is( $node->safe_psql(
			'postgres', q{SELECT calls, rows FROM pg_stat_statements
			WHERE query LIKE 'UPDATE t %' ORDER BY calls, rows}),
		'1|1', 'the statement that was done is counted by the other library');
	is( $node->safe_psql(
			'postgres', q{SELECT accepted, stale FROM fencing.stat_fences
			WHERE relation = 't'::regclass}),
		'3|1', 'and each write by fencing');
	$node->stop;
}

done_testing();
