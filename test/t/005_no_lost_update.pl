# No update is lost: the promise that everything else is there for.
#
# Twenty clients read a counter, think, and write it back plus one, at READ
# COMMITTED.  Each does so under a lease that may run out while it thinks, and
# is then somebody else's.  (A table stands for the lock service; it hands out
# rising tokens and knows nothing of the fence.)  Where the table is fenced and
# the clients claim before they read, the counter is in the end what the
# clients were told that they added.  The same work on a table without a fence
# loses some of it; if it did not, this would show nothing.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $clients = 20;
my $turns = 9;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION fencing;
	CREATE TABLE lease (resource text PRIMARY KEY, token bigint NOT NULL, ends timestamptz NOT NULL, lapsed int NOT NULL DEFAULT 0);

	-- waits for the lease of the resource and takes it for 20 ms
	CREATE FUNCTION take(name text) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE result bigint;
	BEGIN
		LOOP
			UPDATE lease
			SET token = token + 1, ends = clock_timestamp() + interval '20 ms',
				lapsed = lapsed + (ends > '-infinity')::int
			WHERE resource = name AND ends < clock_timestamp()
			RETURNING token INTO result;
			EXIT WHEN FOUND;
			PERFORM pg_sleep(0.004 + random() * 0.008);
		END LOOP;
		RETURN result;
	END $$;

	-- gives it back, if it is still there
	CREATE FUNCTION give_back(name text, held bigint) RETURNS void LANGUAGE sql AS $$
		UPDATE lease SET ends = '-infinity' WHERE resource = name AND token = held
	$$;

	-- mostly shorter than the lease, now and then longer
	CREATE FUNCTION think() RETURNS void LANGUAGE sql AS $$
		SELECT pg_sleep(CASE WHEN random() < 0.2 THEN 0.03 ELSE random() * 0.004 END)
	$$;

	CREATE TABLE fenced (name text PRIMARY KEY, value bigint NOT NULL);
	CREATE TABLE row_fenced (name text PRIMARY KEY, value bigint NOT NULL);
	CREATE TABLE bare (LIKE fenced);
	SELECT fencing.fence('fenced', '{name}', mark => 'resource');
	SELECT fencing.fence('row_fenced');
	INSERT INTO row_fenced VALUES ('row', 0);
	INSERT INTO bare VALUES ('bare', 0), ('bare in steps', 0);
	BEGIN;
	SELECT fencing.present(ARRAY['one', 'steps'], ARRAY[1, 1]);
	INSERT INTO fenced VALUES ('one', 0), ('steps', 0);
	COMMIT;
	INSERT INTO lease SELECT r, 1, '-infinity' FROM unnest(ARRAY['one', 'steps', 'row', 'bare', 'bare in steps']) r;
});

# What a client says in one turn; name is the resource.
my %turn = (

	# all in one transaction
	'one' => q{
		BEGIN;
		SELECT think();
		SELECT fencing.claim('one', :token);
		SELECT value FROM fenced WHERE name = 'one' \gset
		SELECT think();
		UPDATE fenced SET value = :value + 1 WHERE name = 'one';
		COMMIT;
	},

	# claimed, read and written in a transaction each
	'steps' => q{
		SELECT think();
		SELECT fencing.claim('steps', :token);
		SELECT value FROM fenced WHERE name = 'steps' \gset
		SELECT think();
		BEGIN;
		SET LOCAL fencing.tokens = 'steps=:token';
		UPDATE fenced SET value = :value + 1 WHERE name = 'steps';
		SELECT think();
		COMMIT;
	},

	# a row mark, which the reading claims
	'row' => q{
		SELECT think();
		UPDATE row_fenced SET fence_token = :token WHERE name = 'row' RETURNING value \gset
		SELECT think();
		BEGIN;
		UPDATE row_fenced SET value = :value + 1, fence_token = :token WHERE name = 'row';
		SELECT think();
		COMMIT;
	},

	'bare' => q{
		BEGIN;
		SELECT think();
		SELECT value FROM bare WHERE name = 'bare' \gset
		SELECT think();
		UPDATE bare SET value = :value + 1 WHERE name = 'bare';
		COMMIT;
	},

	'bare in steps' => q{
		SELECT think();
		SELECT value FROM bare WHERE name = 'bare in steps' \gset
		SELECT think();
		BEGIN;
		UPDATE bare SET value = :value + 1 WHERE name = 'bare in steps';
		SELECT think();
		COMMIT;
	});

# psql refuses to put a variable into a literal; let it make the statement.
$turn{steps} =~ s/SET LOCAL fencing.tokens = 'steps=:token';/SELECT set_config('fencing.tokens', 'steps=' || :token, true);/;

# Where the reading is refused there is no value; what is written then, if it
# were, would show in the sum.
#
# Returns how many turns were acknowledged, and what else the clients said.
sub work
{
	my ($name) = @_;
	my $dir = $PostgreSQL::Test::Utils::tmp_check;
	(my $file = "$dir/turns_$name") =~ tr/ /_/;

	append_to_file(
		"$file.sql",
		"\\set VERBOSITY sqlstate\n"
		  . qq{
		\\set value -1000
		SELECT take('$name') AS token \\gset
		\\echo turn
		$turn{$name}
		SELECT give_back('$name', :token);
	} x $turns);

	my @runs = map {
		IPC::Run::start(
			[
				$node->installed_command('psql'), '-XAt',
				'-d', $node->connstr('postgres'), '-f', "$file.sql"
			],
			'>', "$file.$_.out", '2>', "$file.$_.err",
			IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default))
	} 1 .. $clients;
	$_->finish for @runs;

	my ($turns_begun, $acknowledged, $errors) = (0, 0, '');
	for (1 .. $clients)
	{
		my $out = slurp_file("$file.$_.out");

		$turns_begun += count_matches($out, qr/^turn$/m);
		$acknowledged += count_matches($out, qr/^UPDATE 1\n(?:\n)?COMMIT$/m);
		$errors .= slurp_file("$file.$_.err");
	}
	is($turns_begun, $clients * $turns, "$name: every client had its turns");
	return ($acknowledged, $errors);
}

my $begun = time;
for my $name ('one', 'steps', 'row', 'bare', 'bare in steps')
{
	my ($acknowledged, $errors) = work($name);
	my $table = $name =~ /bare/ ? 'bare' : $name eq 'row' ? 'row_fenced' : 'fenced';
	my $value = $node->safe_psql('postgres', "SELECT value FROM $table WHERE name = '$name'");
	my $lapsed = $node->safe_psql('postgres', "SELECT lapsed FROM lease WHERE resource = '$name'");
	my $refused = count_matches($errors, qr/ERROR:  ZF001$/m);

	note("$name: $acknowledged acknowledged, value $value, $refused refused, $lapsed leases ran out");
	cmp_ok($lapsed, '>', 5, "$name: leases ran out and were taken over");
	cmp_ok($acknowledged, '>', $clients, "$name: work was done");
	if ($table eq 'bare')
	{
		is($acknowledged, $clients * $turns, "$name: every turn was acknowledged");
		cmp_ok($value, '<', $acknowledged, "$name: updates are lost");
	}
	else
	{
		is($value, $acknowledged, "$name: no update is lost");
		cmp_ok($refused, '>', 0, "$name: old holders were refused");
		unlike($errors, qr/ERROR:  (?!ZF001|25P02)/, "$name: ... and met no other error");
	}
}
cmp_ok(time - $begun, '<', 60, 'it did not take long');

$node->stop;
done_testing();
