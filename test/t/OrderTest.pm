# What the TAP scripts of the order workflow share: a server with the example's
# tables and functions, its payment provider, and workers, which are processes
# that can be stopped and killed.

package OrderTest;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename;
use IPC::Run;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use FencingTest;

our @EXPORT = qw(order_server new_order lease worker provider invariants);

my $example = abs_path(dirname(__FILE__) . '/../../examples/order_workflow');
my @running;

# A started server whose database has the example in it.
sub order_server
{
	my ($name, %params) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf('postgresql.conf', "fsync = off\n" . ($params{conf} // ''));
	$node->start;
	$node->command_ok(
		[
			'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'),
			'-f', "$example/schema.sql", '-f', "$example/functions.sql"
		],
		'the tables and functions of the example');
	$node->safe_psql('postgres',
		'ALTER DATABASE postgres SET search_path = order_workflow, public');
	return $node;
}

# new_order($session, $key, '{"sku": quantity}'): its number
sub new_order
{
	my ($session, $key, $lines) = @_;
	my $order = $session->query("SELECT place_order('$key', 'Ann', '$lines') ->> 'order'");

	die 'no order: ' . $session->messages if $order !~ /^\d+$/;
	return $order;
}

# lease($session, $order, $ttl): the token
sub lease
{
	my ($session, $order, $ttl) = @_;
	my $token = $session->query(
		"SELECT token FROM fencing.acquire('order:$order', '$ttl', wait => '20 s')");

	die 'no lease: ' . $session->messages if $token !~ /^\d+$/;
	return $token;
}

# What no fault may break.
sub invariants
{
	my ($session, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	gives($session, q{
		SELECT 'stock of ' || sku FROM items WHERE available < 0
		UNION ALL
		SELECT 'reservations of order ' || order_id FROM orders AS o
		WHERE (status IN ('reserved', 'confirmed', 'refunding', 'refunded')) <>
			EXISTS (SELECT FROM reservations AS r WHERE r.order_id = o.order_id AND r.state <> 'returned')
		UNION ALL
		SELECT 'payment of order ' || order_id FROM orders AS o
		WHERE (status IN ('confirmed', 'refunding', 'refunded')) <>
			EXISTS (SELECT FROM payments AS p WHERE p.order_id = o.order_id)
		UNION ALL
		SELECT 'points of payment ' || payment_id FROM payments AS p JOIN orders USING (order_id)
		WHERE (SELECT sum(points) FROM rewards AS r WHERE r.payment_id = p.payment_id) <>
			CASE WHEN status = 'refunded' THEN 0 ELSE floor(amount) END
		UNION ALL
		SELECT 'refund of order ' || order_id FROM orders AS o
		WHERE (status = 'refunded') <> EXISTS (SELECT FROM refunds AS r WHERE r.order_id = o.order_id)
		UNION ALL
		SELECT 'events of order ' || order_id FROM orders AS o
		WHERE (SELECT count(*) FROM outbox AS e WHERE e.order_id = o.order_id AND topic = 'order.confirmed') <>
			(SELECT count(*) FROM payments AS p WHERE p.order_id = o.order_id)},
		'', $name);
	return;
}

# ---------------------------------------------------------------------------
# Workers
# ---------------------------------------------------------------------------

# worker($node, sub { my ($session, $self) = @_; ... }): a process that has a
# connection of its own and runs this.  It is a leader of a process group that
# has its psql in it.  In it, $self->tell(text) says something to the test,
# and $self->pause stops the group, the worker itself included.
sub worker
{
	my ($node, $code) = @_;
	my $self = bless {}, __PACKAGE__;

	pipe my $from, my $to or die $!;
	$self->{pid} = fork // die $!;
	if (!$self->{pid})
	{
		setpgrp 0, 0;
		close $from;
		$to->autoflush(1);
		$self->{to} = $to;
		$self->{pid} = $$;
		eval { $code->(session($node), $self); 1 } or $self->tell("died: $@");
		POSIX::_exit(0);
	}
	close $to;
	$self->{from} = $from;
	push @running, $self;
	return $self;
}

sub tell
{
	my ($self, $text) = @_;

	$text =~ s/\n/ /g;
	print { $self->{to} } "$text\n";
	return;
}

# hear: the next thing that the worker says; '' when it has ended.
sub hear
{
	my ($self) = @_;
	my $text = readline($self->{from}) // '';

	chomp $text;
	return $text;
}

sub pause
{
	my ($self) = @_;

	kill 'STOP', -$self->{pid};
	return;
}

# In the test: waits until the worker is stopped.
sub wait_until_stopped
{
	my ($self) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $pid = waitpid $self->{pid}, POSIX::WUNTRACED();

	# perl does not tell the status of a stopped process, but it is still there
	return ok($pid == $self->{pid} && kill(0, $pid), 'the worker is stopped');
}

sub resume
{
	my ($self) = @_;

	kill 'CONT', -$self->{pid};
	return;
}

sub kill9
{
	my ($self) = @_;

	kill 'KILL', -$self->{pid};
	waitpid $self->{pid}, 0;
	$self->{pid} = 0;
	return;
}

sub wait_for
{
	my ($self) = @_;

	waitpid $self->{pid}, 0;
	$self->{pid} = 0;
	return;
}

# ---------------------------------------------------------------------------
# The provider
# ---------------------------------------------------------------------------

package OrderTest::Provider;

use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep);

sub OrderTest::provider
{
	my $self = bless { socket => PostgreSQL::Test::Utils::tempdir_short() . '/p' }, __PACKAGE__;

	$self->{pid} = fork // die $!;
	if (!$self->{pid})
	{
		exec "$example/provider", 'serve', $self->{socket} or POSIX::_exit(1);
	}
	push @running, $self;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return $self if -S $self->{socket};
		sleep 0.1;
	}
	die 'no provider';
}

sub run
{
	my ($self, $what, @arguments) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ "$example/provider", $what, $self->{socket}, @arguments ],
		'<', \undef, '>', \$out, '2>', \$err);
	$self->{status} = $? >> 8;
	chomp $out;
	return $out;
}

sub refund
{
	my ($self, @arguments) = @_;

	return $self->run('refund', @arguments);
}

sub mode
{
	my ($self, @arguments) = @_;

	return $self->run('mode', @arguments);
}

sub list
{
	my ($self) = @_;

	return $self->run('list');
}

package OrderTest;

END
{
	my $status = $?;

	for my $one (grep { $_->{pid} && $_->{pid} != $$ } @running)
	{
		kill 'KILL', ref $one eq __PACKAGE__ ? -$one->{pid} : $one->{pid};
		waitpid $one->{pid}, 0;
	}
	$? = $status;
}

1;
