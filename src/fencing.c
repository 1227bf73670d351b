/*-------------------------------------------------------------------------
 *
 * fencing.c
 *		The library's beginning: settings, callbacks.
 *
 * Dependencies point one way.  guard.c, claim.c, lease.c, command.c,
 * retention.c and declare.c are what SQL calls; below them stand fence.c (declarations), mark.c (the rule), tokens.c
 * and deadline.c (settings), commit.c (what must hold before a commit); below
 * those store.c (the tables), issuer.c, resource.c (names), statement.c (the
 * running statement), and refuse.c, which everybody may call and which calls
 * nobody but to note a refusal.  At the bottom, what is seen of all that:
 * stats.c (counters), recent.c (the last refusals), logline.c (the server log),
 * shmem.c (memory that sessions share).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/guc.h"

#include "command.h"
#include "commit.h"
#include "compat.h"
#include "deadline.h"
#include "fence.h"
#include "fencing.h"
#include "queue.h"
#include "recent.h"
#include "shmem.h"
#include "statement.h"
#include "stats.h"
#include "store.h"
#include "tokens.h"

PG_MODULE_MAGIC;

int fencing_enforcement = ENFORCEMENT_ON;
bool fencing_stale_aborts = false;

static const struct config_enum_entry enforcement_options[] = {
	{"on",	   ENFORCEMENT_ON,	   false},
	{"shadow", ENFORCEMENT_SHADOW, false},
	{"off",	ENFORCEMENT_OFF,	 false},
	{NULL,	   0,				  false}
};

PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	DefineCustomEnumVariable("fencing.enforcement",
							 "Whether fences refuse writes.",
							 "\"shadow\" counts and logs what would be refused and lets it pass; \"off\" looks at nothing.",
							 &fencing_enforcement, ENFORCEMENT_ON,
							 enforcement_options, PGC_SUSET, 0, NULL, NULL,
							 NULL);
	DefineCustomBoolVariable("fencing.stale_aborts",
							 "A transaction in which a write was refused as stale cannot commit.",
							 "Even if the error was caught.",
							 &fencing_stale_aborts, false, PGC_USERSET, 0,
							 NULL, NULL, NULL);
	fencing_tokens_init();
	fencing_deadline_init();
	fencing_stats_init();
	fencing_recent_init();
	fencing_shmem_init();
	MarkGUCPrefixReserved("fencing");

	fencing_statement_init();
	fencing_store_init();
	fencing_queue_init_library();
	fencing_fence_init();
	fencing_commit_init();
	fencing_command_init();
}
