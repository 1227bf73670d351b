# What is in examples/monitoring fits the views: generating it again changes
# nothing, the files are well formed, and every query runs as pg_monitor and
# gives the columns that its metrics name.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $examples = "$FindBin::RealBin/../../examples/monitoring";
my $node = watched_node('main', '');
$node->safe_psql(
	'postgres', q{
	CREATE ROLE exporter LOGIN IN ROLE pg_monitor;
	CREATE TABLE t (id int PRIMARY KEY);
	SELECT fencing.fence('t', shadow => true);
	INSERT INTO t VALUES (1, 5);
	UPDATE t SET fence_token = 4;
});

my $again = $node->basedir . '/generated';
mkdir $again or die;
{
	local %ENV = $node->_get_env;
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = 'postgres';

	command_ok([ "$examples/generate", $again ], 'the files are generated');
}
for my $file (qw(postgres_exporter.yaml fencing.collector.yml alerts.yaml grafana.json))
{
	is(slurp_file("$again/$file"), slurp_file("$examples/$file"), "$file is what the views give");
}

my $watch = session($node, user => 'exporter');
my $queries = slurp_file("$examples/postgres_exporter.yaml");
my $count = 0;
my %metrics;
while ($queries =~ /^(\w+):\n  query: "(.*)"\n  metrics:\n((?:    .*\n)+)/mg)
{
	my ($name, $sql, $list) = ($1, $2, $3);
	my @columns = $list =~ /^    - (\w+):$/mg;

	$sql =~ s/\\(["\\])/$1/g;
	$count++;
	$metrics{"${name}_$_"} = 1 for @columns;
	gives($watch, "SELECT count(*) > 0 FROM ($sql) AS q", 't', "$name gives a row");
	accepted($watch, 'SELECT ' . join(', ', @columns) . " FROM ($sql) AS q", "$name has the columns of its metrics");
}
is($count, 4, 'all queries were run');

my $collector = slurp_file("$examples/fencing.collector.yml");
for my $sql ($collector =~ /^    query: "(.*)"$/mg)
{
	$sql =~ s/\\(["\\])/$1/g;
	accepted($watch, $sql, 'a query of the collector');
}

my $dashboard = decode_json(slurp_file("$examples/grafana.json"));
cmp_ok(scalar @{ $dashboard->{panels} }, '>', 8, 'the dashboard has panels');
my @used = map { $_->{targets}[0]{expr} } @{ $dashboard->{panels} };
push @used, slurp_file("$examples/alerts.yaml") =~ /expr: "(.*)"/g;
for my $metric (map { /(fencing_\w+)/g } @used)
{
	ok($metrics{$metric}, "$metric, which a panel or an alert uses, exists");
}
$watch->quit;
$node->stop;
done_testing();
