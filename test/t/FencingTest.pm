# What the TAP scripts share: a psql that stays connected and tells the
# SQLSTATE of what it was given, and assertions made of it.
#
# PostgreSQL::Test::BackgroundPsql does something alike, but came with version
# 16, and does not tell the SQLSTATE.

package FencingTest;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

our @EXPORT = qw(session accepted refused gives log_size log_since
  count_matches wait_until_blocked wait_for_end watched_node);

# watched_node($name, $conf): a started server with the extension, and with
# statistics: up to 16 the library has to be preloaded for that.
sub watched_node
{
	my ($name, $conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'fencing'\n")
	  if $node->pg_version < 17;
	$node->append_conf('postgresql.conf', $conf // '');
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION fencing');
	return $node;
}

# session($node, dbname => ..., user => ..., options => ..., connstr => ...)
#
# options are what PGOPTIONS has; connstr is another way to the node.
sub session
{
	my ($node, %params) = @_;
	my $self = bless {
		node => $node,
		in => '',
		out => '',
		err => '',
		number => 0,
		timer => IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default)
	}, __PACKAGE__;
	my $connstr = $params{connstr} || $node->connstr($params{dbname} || 'postgres');
	$connstr .= " user=$params{user}" if defined $params{user};

	local $ENV{PGOPTIONS} = $params{options} if defined $params{options};
	$self->{run} = IPC::Run::start(
		[
			$node->installed_command('psql'), '-XAtq',
			'-v', 'VERBOSITY=verbose', '-d', $connstr, '-f', '-'
		],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err},
		$self->{timer});
	$self->{pid} = $self->query('SELECT pg_backend_pid()');
	die "no connection: $self->{err}" if $self->{pid} !~ /^\d+$/;
	return $self;
}

# Sends statements without waiting for their end.  They need no semicolon at
# their end.
sub send_sql
{
	my ($self, $sql) = @_;
	my $marker = 'end of ' . ++$self->{number};

	die "session is busy" if defined $self->{marker};
	$self->{marker} = $marker;
	$self->{out} = $self->{err} = '';
	$self->{in} .= "$sql\n;\n\\echo $marker\n\\warn $marker\n";
	$self->{timer}->start;
	$self->{run}->pump_nb;
	return;
}

# Waits for the end of what was sent.  Returns what was printed; the SQLSTATE
# of the first error is in state ('00000' if there was none, 'lost' with the
# connection), everything else that was said in messages.
sub finish
{
	my ($self) = @_;
	my $marker = $self->{marker};
	my $end = qr/^\Q$marker\E\n/m;

	until ($self->{out} =~ $end && $self->{err} =~ $end)
	{
		last if !$self->{run}->pumpable;
		$self->{run}->pump;
	}
	$self->{marker} = undef;
	$self->{messages} = $self->{err};
	$self->{messages} =~ s/$end.*//s;
	$self->{state} =
		$self->{messages} =~ /^(?:psql:[^\n]*?)?(?:ERROR|FATAL|PANIC):  (\w{5}): /m ? $1
	  : $self->{out} =~ $end ? '00000'
	  : 'lost';
	my $out = $self->{out};
	$out =~ s/$end.*//s;
	chomp $out;
	return $out;
}

sub query
{
	my ($self, $sql) = @_;

	$self->send_sql($sql);
	return $self->finish;
}

sub state
{
	return $_[0]->{state};
}

sub messages
{
	return $_[0]->{messages};
}

sub pid
{
	return $_[0]->{pid};
}

sub quit
{
	my ($self) = @_;

	$self->{in} .= "\\q\n";
	eval { $self->{run}->finish; };
	return;
}

# accepted($session, $sql, $name): it ends without an error.
sub accepted
{
	my ($session, $sql, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$session->query($sql);
	return is($session->state, '00000', $name)
	  || diag($session->messages);
}

# refused($session, $sql, $sqlstate, $name): its first error is this one.
sub refused
{
	my ($session, $sql, $sqlstate, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$session->query($sql);
	return is($session->state, $sqlstate, $name)
	  || diag($session->messages);
}

# gives($session, $sql, $expected, $name): it ends without an error and prints
# this.
sub gives
{
	my ($session, $sql, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	my $out = $session->query($sql);
	$out = "SQLSTATE " . $session->state if $session->state ne '00000';
	return is($out, $expected, $name) || diag($session->messages);
}

# What the server's log has from a position on.
sub log_size
{
	my ($node) = @_;

	return -s $node->logfile;
}

sub log_since
{
	my ($node, $position) = @_;

	return substr(slurp_file($node->logfile), $position);
}

sub count_matches
{
	my ($text, $regexp) = @_;

	return scalar(() = $text =~ /$regexp/g);
}

# Waits until the session's backend waits for a lock.
sub wait_until_blocked
{
	my ($session, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return ok(
		$session->{node}->poll_query_until(
			'postgres',
			"SELECT wait_event_type = 'Lock' FROM pg_stat_activity"
			  . " WHERE pid = $session->{pid}"),
		$name);
}

# Waits for the end of a process that is on its way out.
sub wait_for_end
{
	my ($run) = @_;

	eval { $run->finish; };
	return;
}

1;
