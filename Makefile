# fencing: fencing tokens for PostgreSQL
#
#	make test	build, and run every test against a server of its own
#	make demo	the same, with the demonstration
#	make help	the rest
#
# "make", "make install" and "make installcheck" are the usual PGXS targets,
# for people who have a server; PG_CONFIG chooses which.  The other targets
# work on a machine without PostgreSQL too: nothing here may fail only because
# there is no pg_config.

MODULE_big = fencing
EXTENSION = fencing
PGFILEDESC = "fencing - fencing tokens for PostgreSQL"

# Where this file is.  PGXS sets srcdir, but only once it is included.
here := $(dir $(firstword $(MAKEFILE_LIST)))

headers := $(sort $(wildcard $(here)src/*.h))
OBJS = $(patsubst $(here)%.c,%.o,$(sort $(wildcard $(here)src/*.c)))

# The control file is the only place that holds the version.
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" $(here)fencing.control)

# One SQL script is edited; the versioned one is a copy of it.  Upgrade
# scripts are written by hand, one for each release; the script of the first
# release stays, so that every later one can be reached from it.
DATA_built = sql/fencing--$(EXTVERSION).sql
DATA = sql/fencing--1.0.sql \
	$(patsubst $(here)%,%,$(sort $(wildcard $(here)sql/fencing--*--*.sql)))

# The second extension, where hiredis is found and WITH_REDIS is not "no".  Its
# library has a makefile of its own: PGXS makes one in each.
HIREDIS_CFLAGS ?= $(shell pkg-config --cflags-only-I hiredis 2>/dev/null)
hash := \#
ifneq ($(WITH_REDIS),no)
with_redis := $(shell echo '$(hash)include <hiredis/hiredis.h>' | \
	$(CC) $(HIREDIS_CFLAGS) -E -x c - >/dev/null 2>&1 && echo yes)
endif
ifeq ($(with_redis),yes)
EXTENSION += fencing_redis
DATA_built += sql/fencing_redis--$(EXTVERSION).sql
DATA += $(patsubst $(here)%,%,$(sort $(wildcard $(here)sql/fencing_redis--*--*.sql)))
endif

# The server's headers as system headers: -Wextra is for our code, not theirs.
# (An -I for the same directory is ignored once there is an -isystem.)
PG_CPPFLAGS = -I$(srcdir)/src -isystem $(includedir_server)

# Callbacks have the arguments their caller passes, used or not.
# Symbols are hidden by default since 16; compat.h marks the others for 15.
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -fvisibility=hidden

# Tests run one after another, each for itself.  Their expected output is in
# expected/ at the top of the tree.
REGRESS = $(patsubst %.sql,%,$(notdir $(sort $(wildcard $(here)test/sql/*.sql))))
ISOLATION = $(patsubst %.spec,%,$(notdir $(sort $(wildcard $(here)test/specs/*.spec))))
REGRESS_OPTS = --inputdir=$(srcdir)/test $(EXPECTED_OPT) --load-extension=fencing
ISOLATION_OPTS = --inputdir=output_iso --load-extension=fencing

# What a run of the tests, or a build with coverage, leaves behind.
EXTRA_CLEAN = results output_iso tmp_check tmp_check_iso log \
	regression.diffs regression.out src/*.gcno src/*.gcda

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)

# A pg_config without pgxs.mk behind it is that of a client library.
ifneq ($(wildcard $(PGXS)),)

# A server built with LLVM names the clang it was built with.  Where that is
# gone, do without bitcode instead of failing.
server_clang := $(shell sed -n 's/^CLANG *= *//p' $(dir $(PGXS))../Makefile.global)
ifeq ($(shell command -v $(or $(CLANG),$(server_clang),none)),)
override with_llvm = no
endif

include $(PGXS)

# pg_regress looks for expected output in its output directory up to 15, and
# where --expecteddir says from 16 on; only 15 outside the tree needs a link.
# pg_isolation_regress has no such option in any version, so its input
# directory is one that holds links to both.
ifeq ($(filter 15,$(MAJORVERSION)),)
EXPECTED_OPT = --expecteddir=$(abspath $(srcdir))
else ifneq ($(realpath $(srcdir)),$(realpath $(CURDIR)))
installcheck: $(CURDIR)/expected
EXTRA_CLEAN += expected
endif

# With absolute names, because make would find the others by VPATH.
links := $(addprefix $(CURDIR)/,output_iso/specs output_iso/expected expected)
installcheck: $(filter $(CURDIR)/output_iso/%,$(links))
$(filter %/specs,$(links)): link_to = test/specs
$(filter %/expected,$(links)): link_to = expected
$(links):
	$(MKDIR_P) $(dir $@)
	ln -sfn $(abspath $(srcdir))/$(link_to) $@

# Few enough files that a changed header may rebuild all of them.
$(OBJS) $(OBJS:.o=.bc): $(headers) | $(CURDIR)/src
$(CURDIR)/src:
	$(MKDIR_P) $@

$(DATA_built): sql/%--$(EXTVERSION).sql: $(here)sql/%.sql $(here)fencing.control
	$(MKDIR_P) $(dir $@)
	cp $< $@

ifeq ($(with_redis),yes)
all: redis-all
install: redis-install
uninstall: redis-uninstall
endif
clean distclean: redis-clean

.PHONY: redis-all redis-install redis-uninstall redis-clean
redis-install: redis-all
redis-all redis-install redis-uninstall redis-clean:
	$(MKDIR_P) src/redis
	$(MAKE) -C src/redis -f $(abspath $(here)src/redis/Makefile) \
		PG_CONFIG=$(PG_CONFIG) HIREDIS_CFLAGS='$(HIREDIS_CFLAGS)' \
		$(@:redis-%=%)

else # no server to build for

.PHONY: all install uninstall installcheck clean distclean
all install uninstall installcheck:
	@echo "This needs PostgreSQL's server headers: install them (on Debian," >&2
	@echo "postgresql-server-dev-NN), or name a pg_config with PG_CONFIG=..." >&2
	@echo '"make test" and "make demo" find or install what they need.' >&2
	@exit 1

clean distclean:
	rm -f fencing.so libfencing.a libfencing.pc src/*.o src/*.bc $(DATA_built) \
		src/redis/*.so src/redis/*.a src/redis/*.pc src/redis/*.o src/redis/*.bc
	rm -rf $(EXTRA_CLEAN)

endif

# ---------------------------------------------------------------------------
# For people who work on fencing.  The scripts behind these get what was given
# on make's command line (ONLY=..., TESTS=..., KEEP=1, PG_CONFIG=...) from the
# environment, where make puts it.

.PHONY: help demo test bench torture format lint

help:
	@echo "make                 build for the server of PG_CONFIG (default: pg_config)"
	@echo "make install         install there"
	@echo "make installcheck    regression and isolation tests on that running server"
	@echo
	@echo "make demo            see it work: a server of its own, gone afterwards"
	@echo "make test            every test, on a server of its own"
	@echo "make test ONLY=tap   one suite: regress, isolation, pgtap, tap, demo (or a,b)"
	@echo "make test TESTS=name the tests of that name (or 'a b')"
	@echo "make bench           measure what a fence costs"
	@echo "make torture         workers, faults at random, and a check of what they left"
	@echo "make format          lay the C sources out (clang-format)"
	@echo "make lint            what the compilers do not find (cppcheck, clang-tidy, ...)"
	@echo "make clean           remove what was built"
	@echo
	@echo "demo, test, bench: KEEP=1 keeps the working directory;"
	@echo "PG_CONFIG=/path/to/pg_config chooses the server."

demo test bench torture:
	@$(here)test/bin/$@

format lint:
	@$(here)test/bin/$@
