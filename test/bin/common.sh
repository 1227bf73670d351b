# shellcheck shell=bash
#
# common.sh: what the scripts beside it share.  Sourced, never run.
#
# Nothing is installed into a PostgreSQL that is already on the machine, and
# no server that is already there is touched.  The scripts work in one
# temporary directory instead, which holds
#
#	src/	a copy of this tree (the clone may lie where only its owner reads)
#	pg/	a mirror of the PostgreSQL installation, see mirror_postgres
#	data/	a server's data directory
#	run/	its socket, the only place where it listens
#	tmp/	TMPDIR of everything that is started
#	log/	what happened
#
# A server refuses to run as root, so root hands the directory to a user
# without rights and starts everything from there on as that user.

# Scripts that source this file use what it sets.
# shellcheck disable=SC2034

tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$tree/test/bin
work=
work_user=
run_as=()

say()
{
	printf '%s\n' "$*"
}

die()
{
	printf '%s\n' "$*" >&2
	exit 1
}

# The C sources that .clang-format is for, from the top of the tree.
list_c_files()
{
	find src bench dev -name '*.[ch]' 2>/dev/null | sort
}

# Versions of clang-format differ in taste; .clang-format was made with 14.
find_clang_format()
{
	command -v clang-format-14 || command -v clang-format
}

# ---------------------------------------------------------------------------
# Which PostgreSQL
# ---------------------------------------------------------------------------

# Can an extension be built and tried with this pg_config?  The one in PATH may
# belong to the client library alone.
usable_pg_config()
{
	local bindir pgxs

	bindir=$("$1" --bindir 2>/dev/null) || return 1
	pgxs=$("$1" --pgxs 2>/dev/null) || return 1
	[[ -x $bindir/postgres && -x $bindir/initdb && -f $pgxs ]] &&
		[[ -f $("$1" --includedir-server)/postgres.h ]]
}

# Sets pg_config and pg_major; false if there is none that can be used.  One
# that the user names is the only one looked at.
find_pg_config()
{
	local candidates candidate

	if [[ -n ${PG_CONFIG:-} ]]; then
		candidates=("$PG_CONFIG")
	else
		mapfile -t candidates < <(
			command -v pg_config
			printf '%s\n' /usr/lib/postgresql/*/bin/pg_config |
				sort -t / -k 5,5 -V -r
		)
	fi
	for candidate in "${candidates[@]}"; do
		candidate=$(command -v "$candidate") || continue
		if usable_pg_config "$candidate"; then
			pg_config=$candidate
			pg_major=$("$pg_config" --version | grep -o '[0-9]*' | head -n 1)
			return 0
		fi
	done
	return 1
}

# ---------------------------------------------------------------------------
# The working directory
# ---------------------------------------------------------------------------

as_user()
{
	"${run_as[@]}" "$@"
}

# Can work_user write in the directory and run a program from it?
usable_work()
{
	[[ $(id -u) != 0 ]] || chown "$work_user" "$1"
	as_user cp /bin/true "$1/true" 2>/dev/null &&
		as_user "$1/true" 2>/dev/null &&
		as_user rm "$1/true"
}

# Sets work, work_user and run_as.
make_work()
{
	local user base users=("$(id -un)")

	[[ $(id -u) != 0 ]] || users=(nobody postgres)
	for user in "${users[@]}"; do
		id "$user" >/dev/null 2>&1 || continue
		work_user=$user
		if [[ $(id -u) == 0 ]]; then
			run_as=(setpriv "--reuid=$(id -u "$user")"
				"--regid=$(id -g "$user")" --clear-groups --)
			# A server in a place that only root enters is of no use.
			as_user test -r "$("$pg_config" --pgxs)" || continue
		fi
		for base in "${TMPDIR:-/tmp}" /tmp /var/tmp; do
			# The path of a socket may have about 100 bytes.
			[[ ${#base} -le 40 ]] || continue
			work=$(mktemp -d "$base/fencing.XXXXXX" 2>/dev/null) || continue
			if usable_work "$work"; then
				break 2
			fi
			rm -rf "$work"
			work=
		done
	done
	[[ -n $work ]] ||
		die "found no directory to work in (or nobody but root can read $("$pg_config" --bindir))"

	as_user mkdir "$work"/{src,pg,run,tmp,log}

	# What is started sees this directory and nothing of the caller's setup:
	# no PGHOST or PGOPTIONS, no variables of the make above us.
	local name
	for name in $(compgen -e PG); do
		case $name in
			PG_CONFIG | PG_TEST_*) ;;
			*) unset "$name" ;;
		esac
	done
	unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES LANGUAGE
	export LC_ALL=C TMPDIR=$work/tmp HOME=$work USER=$work_user LOGNAME=$work_user
	umask 022
	cd "$work" || exit
}

# Stops every server below the working directory and removes it.  For the EXIT
# trap: must not fail.
remove_work()
{
	local pidfile

	[[ -n $work ]] || return 0
	while read -r pidfile; do
		as_user "$pg_bindir/pg_ctl" -D "${pidfile%/*}" -m immediate stop \
			>/dev/null 2>&1 || true
	done < <(find "$work" -name postmaster.pid 2>/dev/null)
	if [[ ${KEEP:-0} == 1 ]]; then
		say "kept: $work"
		return 0
	fi
	cd /
	# A process on its way out may still write a file.
	rm -rf "$work" 2>/dev/null || { sleep 1 && rm -rf "$work"; } || true
}

# ---------------------------------------------------------------------------
# The mirror
# ---------------------------------------------------------------------------

# PostgreSQL's programs find their directories relative to where they are
# themselves (make_relative_path), and they resolve links to find that out.
# So real copies of the programs in a tree of links to everything else make an
# installation of its own: its pg_config answers with paths in the mirror, and
# "make install" with that pg_config writes there and nowhere else.
#
# Sets pg_bindir, and PATH.
mirror_postgres()
{
	local mirror=$work/pg dir program
	local bindir sharedir pkglibdir

	bindir=$("$pg_config" --bindir)
	sharedir=$("$pg_config" --sharedir)
	pkglibdir=$("$pg_config" --pkglibdir)

	pg_bindir=$mirror$bindir
	mkdir -p "$pg_bindir"
	# By name: elsewhere than on Debian this may be /usr/bin.
	for program in "$bindir"/{postgres,initdb,psql,pg_*,pgbench,createdb,dropdb,createuser,dropuser,vacuumdb,reindexdb,clusterdb}; do
		[[ ! -f $program ]] || cp -L "$program" "$pg_bindir/"
	done

	# A server that runs within another program.  PostgreSQL takes the name it
	# was started by for its own, so the program has to stand in its place; what
	# initdb asks of it goes past.
	if [[ -n ${SERVER_WITHIN:-} ]]; then
		mv "$pg_bindir/postgres" "$pg_bindir/postgres.itself"
		cat >"$pg_bindir/postgres" <<-EOF
			#!/bin/sh
			case " \$* " in
				*" -D "*) exec $SERVER_WITHIN "$pg_bindir/postgres.itself" "\$@" ;;
			esac
			exec "$pg_bindir/postgres.itself" "\$@"
		EOF
		chmod 755 "$pg_bindir/postgres"
	fi

	for dir in "$sharedir" "$pkglibdir" "$("$pg_config" --pkgincludedir)" \
		"$("$pg_config" --includedir-server)"; do
		# One may lie inside another.
		[[ -d $dir && ! -d $mirror$dir ]] || continue
		mkdir -p "$mirror${dir%/*}"
		cp -as "$dir" "$mirror${dir%/*}/"
	done
	dir=$("$pg_config" --libdir)
	mkdir -p "$mirror$dir"
	find "$dir" -maxdepth 1 -name 'lib[pe][qgc]*' \
		-exec ln -sf -t "$mirror$dir" {} +

	# An installed fencing is not the one to be tried, and must not be
	# written through its links.
	rm -rf "$mirror$sharedir"/extension/fencing{,_redis}{.control,--*} \
		"$mirror$pkglibdir"/fencing{,_redis}.so \
		"$mirror$pkglibdir"/bitcode/fencing{,_redis}{,.*}

	# pgTAP is SQL: the packaged one serves a server of one's own build.
	dir=/usr/share/postgresql/$pg_major/extension
	if [[ ! -e $mirror$sharedir/extension/pgtap.control && -e $dir/pgtap.control ]]; then
		ln -s "$dir"/pgtap* "$mirror$sharedir/extension/"
	fi

	if [[ $(id -u) == 0 ]]; then
		find "$mirror" -type d -exec chown "$work_user" {} +
	fi

	[[ $(as_user "$pg_bindir/pg_config" --pkglibdir) == "$mirror$pkglibdir" &&
		$(as_user "$pg_bindir/pg_config" --sharedir) == "$mirror$sharedir" ]] ||
		die "$pg_config: this installation cannot be mirrored"
	export PATH=$pg_bindir:$PATH
}

copy_tree()
{
	tar -C "$tree" -cf - --exclude=./.git --exclude=./tmp_check \
		--exclude=./results --exclude=./output_iso \
		--exclude='*.o' --exclude='*.bc' --exclude='*.so' . |
		as_user tar -C "$work/src" -xf - --no-same-owner
}

# make_in DIRECTORY ARGUMENT...: make, against the mirror.
make_in()
{
	as_user make -C "$1" --no-print-directory \
		PG_CONFIG="$pg_bindir/pg_config" "${@:2}"
}

# build [DIRECTORY...]: builds and installs into the mirror, without a word but
# the compiler's warnings.
build()
{
	local log=$work/log/build.log dir

	for dir in src "$@"; do
		if ! make_in "$work/$dir" -s -j "$(nproc)" all >>"$log" 2>&1 ||
			! make_in "$work/$dir" -s install >>"$log" 2>&1; then
			head -n 100 "$log"
			die "the build failed"
		fi
	done
	cat "$log"
}

# set_up [MODULE...]: everything up to a server that could be started.
# shellcheck disable=SC2120
set_up()
{
	find_pg_config || die "no PostgreSQL with server headers was found"
	make_work
	mirror_postgres
	copy_tree
	build "$@"
}

# ---------------------------------------------------------------------------
# The server
# ---------------------------------------------------------------------------

# start_server [SETTING...]: settings as lines of postgresql.conf.
# shellcheck disable=SC2120
start_server()
{
	as_user initdb -D "$work/data" -U postgres -A trust -E UTF8 --locale=C \
		--no-sync >"$work/log/initdb.log" 2>&1 || {
		cat "$work/log/initdb.log"
		die "initdb failed"
	}
	{
		say "listen_addresses = ''"
		say "unix_socket_directories = '$work/run'"
		say "log_line_prefix = '%m [%p] %q%a '"
		[[ $# == 0 ]] || printf '%s\n' "$@"
	} >>"$work/data/postgresql.conf"
	export PGHOST=$work/run PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
	ensure_server
}

# Starts the server if it does not run (any more).
ensure_server()
{
	if as_user pg_ctl -D "$work/data" status >/dev/null 2>&1; then
		return 0
	fi
	as_user pg_ctl -D "$work/data" -l "$work/log/server.log" -w -t 120 start \
		>"$work/log/start.log" 2>&1 || {
		tail -n 30 "$work/log/server.log"
		die "the server did not start"
	}
}
