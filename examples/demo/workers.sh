# shellcheck shell=bash
#
# workers.sh: what the acts of the demonstration share: workers that are
# processes, each with a connection to the shop, and can be stopped.  Sourced,
# never run.

# Scripts that source this file use what it sets, and set what it uses: "name"
# and "session" are the worker's.
# shellcheck disable=SC2034,SC2154

set -euo pipefail
export LC_ALL=C PGOPTIONS="${PGOPTIONS:-} -c client_min_messages=warning"

comment='demonstration of fencing'
tmp=$(mktemp -d)
worker_a=

clean_up()
{
	# A stopped process does not hear SIGTERM before it goes on.
	if [[ -n $worker_a ]]; then
		kill -TERM "$worker_a" 2>/dev/null || true
		kill -CONT "$worker_a" 2>/dev/null || true
	fi
	rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

die()
{
	printf 'demo: %s\n' "$*" >&2
	exit 1
}

# query SQL: in a connection of its own.
query()
{
	psql -X -q -A -t -v ON_ERROR_STOP=1 -c "$1"
}

# refuse_foreign SCHEMA...: not to drop what is somebody's.
refuse_foreign()
{
	local schema

	for schema in "$@"; do
		[[ $(query "
			SELECT count(*) FROM pg_namespace
			WHERE nspname = '$schema' AND
				obj_description(oid, 'pg_namespace') IS DISTINCT FROM '$comment'") == 0 ]] ||
			die "this database has a schema \"$schema\" already; use another database"
	done
}

# ---------------------------------------------------------------------------
# The workers
# ---------------------------------------------------------------------------

# tell WHAT: a line of the timeline.
tell()
{
	local ms=$((${EPOCHREALTIME/./} / 1000 - story_began))

	printf '  %3d.%02d s  %s  %s\n' $((ms / 1000)) $((ms % 1000 / 10)) "$name" "$1"
}

# ask SQL: one statement in the worker's session.  Sets reply, sqlstate and
# rows, and prints nothing.
ask()
{
	local line

	printf '%s;\n\\echo == :SQLSTATE :ROW_COUNT\n' "$1" >&"${session[1]}"
	reply=
	while IFS= read -r line <&"${session[0]}"; do
		if [[ $line == "== "* ]]; then
			read -r sqlstate rows <<<"${line#== }"
			return 0
		fi
		reply+=${reply:+$'\n'}$line
	done
	die "the session of worker $name ended: $reply"
}

# must SQL: one that cannot be refused.
must()
{
	ask "$1"
	[[ $sqlstate == 00000 ]] || die "worker $name: $1: $reply"
}

# race: worker A runs until it is paused, worker B runs to its end, A wakes up
# and runs to its end.  What they met is in the files A and B of $tmp.  The
# caller defines worker NAME CUSTOMER PAUSE, which stops itself.
race()
{
	local from_a line began=$SECONDS

	rm -f "$tmp/A" "$tmp/B"
	story_began=$((${EPOCHREALTIME/./} / 1000))
	exec {from_a}< <(worker A Ann pause)
	worker_a=$!
	while IFS= read -r line <&"$from_a" && [[ -n $line ]]; do
		printf '%s\n' "$line"
	done
	worker B Ben "" &
	wait "$!"

	# Again and again: one that comes before A has stopped is lost.
	while kill -CONT "$worker_a" 2>/dev/null && [[ ! -s $tmp/A ]]; do
		((SECONDS - began < 60)) || die "worker A does not end"
		sleep 0.05
	done
	cat <&"$from_a"
	exec {from_a}<&-
	worker_a=
	[[ -s $tmp/A && -s $tmp/B ]]
}
