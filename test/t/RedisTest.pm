# What the TAP scripts for fencing_redis share: Redis servers in the test's
# temporary directory, and a proxy that harms what goes through it.

package RedisTest;

use strict;
use warnings;

use Exporter 'import';
use File::Temp;
use IO::Select;
use IO::Socket::INET;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(redis_missing redis_server redis_proxy cluster_with_redis
  port_without_answer socket_count within took);

my @running;

# Why these tests cannot run; undef if they can.
sub redis_missing
{
	my $lib = qx(pg_config --pkglibdir);
	chomp $lib;

	return "fencing_redis is not built" if !-e "$lib/fencing_redis.so";
	return "no Redis server" if !server_program();
	return "no redis-cli" if !grep { -x "$_/redis-cli" } split /:/, $ENV{PATH};
	return;
}

# redis-check-rdb is the server under another name, and is there where nobody
# wanted a service.
sub server_program
{
	for my $dir (split /:/, $ENV{PATH})
	{
		return "$dir/redis-server" if -x "$dir/redis-server";
	}
	for my $dir (split /:/, $ENV{PATH})
	{
		next if !-x "$dir/redis-check-rdb";
		my $link = "$PostgreSQL::Test::Utils::tmp_check/redis-server";
		symlink "$dir/redis-check-rdb", $link if !-e $link;
		return $link;
	}
	return;
}

# A PostgreSQL server with both extensions.
sub cluster_with_redis
{
	my ($name, @settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(allows_streaming => 1);
	$node->append_conf('postgresql.conf', join("\n", 'fsync = off', @settings) . "\n");
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION fencing_redis CASCADE');
	return $node;
}

# redis_server(option => value, ...): one that has just been started.
sub redis_server
{
	my %options = @_;
	my $self = bless {
		options => \%options,
		port => PostgreSQL::Test::Cluster::get_free_port(),
		dir => File::Temp::tempdir(DIR => $PostgreSQL::Test::Utils::tmp_check)
	}, __PACKAGE__;

	$self->{socket} = PostgreSQL::Test::Utils::tempdir_short() . '/r';
	push @running, $self;
	return $self->start;
}

sub start
{
	my ($self) = @_;
	my %options = (
		port => $self->{port},
		bind => '127.0.0.1 ::1',
		unixsocket => $self->{socket},
		dir => $self->{dir},
		save => '',
		appendonly => 'no',
		logfile => "$self->{dir}/log",
		'enable-debug-command' => 'yes',
		%{ $self->{options} });
	my $conf = "$self->{dir}/redis.conf";
	my $text = '';

	for my $name (sort keys %options)
	{
		$text .= $options{$name} eq '' ? "$name \"\"\n" : "$name $options{$name}\n";
	}
	open my $fh, '>', $conf or die "$conf: $!";
	print $fh $text;
	close $fh;
	$self->{pid} = fork;
	if (!$self->{pid})
	{
		open STDOUT, '>>', "$self->{dir}/out";
		open STDERR, '>&', \*STDOUT;
		exec server_program(), $conf;
	}
	for (1 .. 200)
	{
		my $answer = $self->cli('PING');
		return $self if $answer =~ /PONG|NOAUTH|LOADING/;
		sleep 0.05;
	}
	die "redis-server did not start: " . slurp_file("$self->{dir}/log");
}

# What redis-cli prints for a command.
sub cli
{
	my ($self, @words) = @_;
	my @auth = defined $self->{options}{requirepass}
	  ? ('--no-auth-warning', '-a', $self->{options}{requirepass}) : ();
	my ($out, $err) = ('', '');

	IPC::Run::run([ 'redis-cli', '-p', $self->{port}, @auth, @words ],
		'<', \undef, '>', \$out, '2>', \$err);
	chomp $out;
	return $out . $err;
}

sub address
{
	my ($self) = @_;

	return "127.0.0.1:$self->{port}";
}

# How many commands it has carried out, but for those that ask.
sub commands
{
	my ($self) = @_;

	return $self->cli('INFO', 'commandstats') =~ /cmdstat_evalsha:calls=(\d+)/ ? $1 : 0;
}

sub freeze
{
	my ($self) = @_;

	kill 'STOP', $self->{pid};
	return;
}

sub thaw
{
	my ($self) = @_;

	kill 'CONT', $self->{pid};
	return;
}

sub kill9
{
	my ($self) = @_;

	return if !$self->{pid};
	kill 'KILL', $self->{pid};
	waitpid $self->{pid}, 0;
	$self->{pid} = 0;
	return;
}

# redis_proxy($port): a TCP proxy.  $proxy->mode(...) says what it does to the
# connections from now on, those that are open included:
#
#	pass			nothing
#	delay SECONDS	replies come that much later
#	mute			replies are dropped
#	cut				a reply closes the connection instead
#	deaf			accepts, and reads nothing
#	http			answers like a web server
#	half			the first three bytes of a reply, and no more
#	million			a million bytes for a reply
#	say TEXT		this for a reply
sub redis_proxy
{
	my ($target) = @_;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $file = "$PostgreSQL::Test::Utils::tmp_check/proxy.$port";
	my $self = bless {
		port => $port,
		file => $file,
		options => {}
	}, __PACKAGE__;

	$self->mode('pass');
	my $listen = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		LocalPort => $port,
		Listen => 64,
		ReuseAddr => 1) or die "proxy: $!";
	$self->{pid} = fork;
	if (!$self->{pid})
	{
		eval { proxy_loop($listen, $target, $file) };
		POSIX::_exit(1);
	}
	close $listen;
	push @running, $self;
	return $self;
}

sub mode
{
	my ($self, $mode) = @_;

	open my $fh, '>', "$self->{file}.new" or die $!;
	print $fh $mode;
	close $fh;
	rename "$self->{file}.new", $self->{file} or die $!;
	return;
}

sub proxy_loop
{
	my ($listen, $target, $file) = @_;
	my $select = IO::Select->new($listen);
	my %peer;
	my %client;
	my @later;

	local $SIG{PIPE} = 'IGNORE';
	while (1)
	{
		my @ready = $select->can_read(@later ? 0.005 : 0.5);
		open my $fh, '<', $file or last;
		my ($mode, $argument) = split / /, do { local $/; <$fh> } // 'pass', 2;
		close $fh;

		while (@later && $later[0][0] <= time)
		{
			my (undef, $to, $data) = @{ shift @later };
			syswrite $to, $data;
		}
		for my $from (@ready)
		{
			if ($from == $listen)
			{
				my $new = $listen->accept or next;
				my $back = IO::Socket::INET->new("127.0.0.1:$target");
				if (!$back) { close $new; next; }
				$peer{$new} = $back;
				$peer{$back} = $new;
				$client{$new} = 1;
				$select->add($new, $back);
				next;
			}
			my $to = $peer{$from} or next;
			if ($mode eq 'deaf')
			{
				sleep 0.01;
				next;
			}
			my $n = sysread $from, my $data, 65536;
			my $reply = !$client{$from};
			if (!$n || ($reply && $mode eq 'cut'))
			{
				$select->remove($from, $to);
				delete @peer{ $from, $to };
				delete @client{ $from, $to };
				close $_ for ($from, $to);
				next;
			}
			if ($reply)
			{
				next if $mode eq 'mute';
				$data = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" if $mode eq 'http';
				$data = substr $data, 0, 3 if $mode eq 'half';
				$data = "\$1000000\r\n" . ('x' x 1000000) . "\r\n" if $mode eq 'million';
				$data = "$argument\r\n" if $mode eq 'say';
				if ($mode eq 'delay')
				{
					push @later, [ time + $argument, $to, $data ];
					next;
				}
			}
			$to->blocking(1);
			while (length $data)
			{
				my $sent = syswrite $to, $data or last;
				substr($data, 0, $sent) = '';
			}
		}
	}
	return;
}

# A port where a connection is neither accepted nor refused: the queue of those
# who want to is full.
sub port_without_answer
{
	my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 1)
	  or die $!;
	my @queue = ($listen);

	for (1 .. 4)
	{
		push @queue, IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $listen->sockport, Blocking => 0);
	}
	return ($listen->sockport, \@queue);
}

# Sockets of a backend, the one to its client included.
sub socket_count
{
	my ($session) = @_;

	return scalar grep { (readlink($_) // '') =~ /^socket:/ }
	  glob '/proc/' . $session->pid . '/fd/*';
}

my $started;

# took { ... }: seconds
sub took (&)
{
	my ($code) = @_;
	my $begun = time;

	$code->();
	return time - $begun;
}

# within($seconds, $least, $most, $name)
sub within
{
	my ($seconds, $least, $most, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return ok($seconds >= $least && $seconds <= $most, $name)
	  || diag(sprintf('took %.3f s, expected %.3f to %.3f s', $seconds, $least, $most));
}

END
{
	my $status = $?;

	for my $one (grep { $_->{pid} } @running)
	{
		kill 'KILL', $one->{pid};
		waitpid $one->{pid}, 0;
	}
	$? = $status;
}

1;
