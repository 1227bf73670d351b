# Checks a history of claims and writes for what must never be in it.
#
# A history row is [id, n, kind, token, worker, value, was]: what was done to a
# resource, in the order of the commits (n), with which token, by whom, and from
# which value to which.  A line of a worker's log is what it was told:
# [grant|claim|write|refused, id, token, worker, n].

package History;

use strict;
use warnings;

my @kinds = (
	'a write or claim with a token lower than one before it',
	'an update that overwrote another, unseen',
	'a token that two workers were granted',
	'a commit that was acknowledged and is not there',
	'a gap or a doublet in the numbers, or a value that does not add up');

sub kinds
{
	return @kinds;
}

sub check
{
	my (%arg) = @_;
	my %violations = map { $_ => { count => 0, example => '' } } @kinds;

	my $violation = sub {
		my ($kind, $example) = @_;

		$violations{ $kinds[$kind] }{example} ||= $example;
		$violations{ $kinds[$kind] }{count}++;
	};

	my (%last_n, %highest, %value, %there);
	for my $row (@{ $arg{history} })
	{
		my ($id, $n, $kind, $token, $worker, $value, $was) = @$row;

		$there{"$id $n"} = $row;
		$violation->(4, "resource $id: number $n after " . ($last_n{$id} // 0))
		  if $n != ($last_n{$id} // 0) + 1;
		$last_n{$id} = $n;
		$violation->(0, "resource $id, number $n: a $kind with token $token after $highest{$id}")
		  if $token < ($highest{$id} // 0);
		$highest{$id} = $token if $token > ($highest{$id} // 0);
		if ($kind eq 'write')
		{
			$violation->(1, "resource $id, number $n: from $was, which was " . ($value{$id} // 0))
			  if $was != ($value{$id} // 0);
			$violation->(4, "resource $id, number $n: from $was to $value") if $value != $was + 1;
			$value{$id} = $value;
		}
	}
	for my $row (@{ $arg{final} })
	{
		my ($id, $n, $value) = @$row;

		$violation->(4, "resource $id: number $n in the end, value $value")
		  if $n != ($last_n{$id} // 0) || $value != ($value{$id} // 0);
	}

	my %holder;
	for my $line (@{ $arg{logs} })
	{
		my ($what, $id, $token, $worker, $n) = @$line;

		if ($what eq 'grant')
		{
			$violation->(2, "resource $id: token $token to $worker and $holder{\"$id $token\"}")
			  if $arg{lease} && defined $holder{"$id $token"} && $holder{"$id $token"} ne $worker;
			$holder{"$id $token"} = $worker;
		}
		elsif ($what eq 'write' && $arg{acknowledged})
		{
			my $row = $there{"$id $n"};

			$violation->(3, "resource $id, number $n, by $worker")
			  if !defined $row || $row->[4] ne $worker || $row->[3] != $token;
		}
	}
	return \%violations;
}

1;
