/*-------------------------------------------------------------------------
 *
 * shmem.c
 *		Memory that all sessions share.
 *
 * Up to 16 a library gets shared memory only if the postmaster loads it: the
 * parts are asked for in one hook and made in another.  From 17 on a session
 * can make a named segment that lasts as long as the server, and whoever comes
 * later finds it by its name; nothing has to be preloaded, and we always do it
 * that way (see compat.h).
 *
 * A segment that is there cannot be asked for in another size.  The settings
 * for the sizes may have changed since, so the sizes that were taken are kept
 * in a first, small segment of their own.
 *
 * Where there is no shared memory, counting goes nowhere and the views are
 * empty.  That never stops a write.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "compat.h"
#include "logline.h"
#include "shmem.h"

#define TRANCHE_NAME "fencing"

SharedSizes fencing_shared_sizes;

static SharedPart *parts = NULL;
static bool attached = false;
static bool given_up = false; /* an attempt has failed in this session */

/* The part that init_part is called for. */
static SharedPart *making = NULL;

static shmem_request_hook_type prev_request_hook = NULL;
static shmem_startup_hook_type prev_startup_hook = NULL;

static void request_hook(void);
static void startup_hook(void);
static void attach(void);
static void attach_guarded(void);
static void init_part(void *address);
static void init_sizes(void *address);

void
fencing_shmem_init(void)
{
	bool preloaded = process_shared_preload_libraries_in_progress;

	/*
	 * Nothing changes the size of what is there already, so a change needs a
	 * restart.  Only a library that the postmaster loads may say so.
	 */
	GucContext context = preloaded ? PGC_POSTMASTER : PGC_SIGHUP;

	DefineCustomIntVariable("fencing.stat_max_fences",
							"Number of fences, of all databases, that counters are kept for.",
							"Takes effect when the server starts.",
							&fencing_shared_sizes.max_fences, 10000, 100,
							1000000, context, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fencing.recent_max_refusals",
							"Number of refusals, of all databases, that are remembered.",
							"Takes effect when the server starts.",
							&fencing_shared_sizes.max_refusals, 1000, 10,
							1000000, context, 0, NULL, NULL, NULL);

	if (preloaded && !FENCING_NAMED_SEGMENTS)
	{
		prev_request_hook = shmem_request_hook;
		shmem_request_hook = request_hook;
		prev_startup_hook = shmem_startup_hook;
		shmem_startup_hook = startup_hook;
	}
}

void
fencing_shmem_register(SharedPart *part)
{
	part->next = parts;
	parts = part;
}

bool
fencing_shmem_attached(void)
{
	return attached;
}

bool
fencing_shmem_attach(bool guarded)
{
	if (likely(attached))
		return true;
	if (!FENCING_NAMED_SEGMENTS || (given_up && guarded))
		return false;
	if (guarded)
		attach_guarded();
	else
		attach();
	return attached;
}

bool
fencing_shmem_attach_for_view(void)
{
	static bool said = false;

	if (fencing_shmem_attach(false))
		return true;
	if (!said)
		ereport(NOTICE,
				(errmsg(
					 "statistics of fencing are not available on this server"),
				 errhint(
					 "Before PostgreSQL 17 they need fencing in shared_preload_libraries.")));
	said = true;
	return false;
}

/* ----------
 * Preloaded, up to 16
 * ----------
 */

static void
request_hook(void)
{
	if (prev_request_hook)
		prev_request_hook();
	for (SharedPart *part = parts; part; part = part->next)
		RequestAddinShmemSpace(MAXALIGN(part->size()));
}

/*
 * Runs in the postmaster, and after a crash again, when everything begins
 * empty.  Sessions inherit the addresses.
 */
static void
startup_hook(void)
{
	if (prev_startup_hook)
		prev_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (making = parts; making; making = making->next)
	{
		bool found;

		making->address = ShmemInitStruct(making->name, making->size(),
										  &found);
		if (!found)
			init_part(making->address);
		fencing_register_tranche(((SharedHeader *) making->address)->tranche,
								 TRANCHE_NAME);
	}
	LWLockRelease(AddinShmemInitLock);
	attached = true;
}

/* ----------
 * From 17 on
 * ----------
 */

static void
attach(void)
{
	SharedSizes *sizes;

	sizes = fencing_named_segment("fencing 1 sizes", sizeof(SharedSizes),
								  init_sizes);
	fencing_shared_sizes = *sizes;
	for (making = parts; making; making = making->next)
	{
		making->address = fencing_named_segment(making->name, making->size(),
												init_part);
		fencing_register_tranche(((SharedHeader *) making->address)->tranche,
								 TRANCHE_NAME);
	}
	attached = true;
}

/*
 * The same for a write: a full /dev/shm, say, is no reason to refuse one.  The
 * subtransaction cleans up what the error leaves.
 */
static void
attach_guarded(void)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		attach();
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData *error;
		StringInfoData line;

		/* somebody wants the whole statement to end */
		if (geterrcode() == ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
		given_up = true;
		fencing_log_begin(&line, "statistics_unavailable");
		fencing_log_who(&line);
		fencing_log_text(&line, "reason", error->message);
		fencing_log_write(&line, error->sqlerrcode);
		FreeErrorData(error);
	}
	PG_END_TRY();
}

/* ----------
 * Both
 * ----------
 */

static void
init_part(void *address)
{
	SharedHeader *header = address;

	header->tranche = fencing_new_tranche(TRANCHE_NAME);
	LWLockInitialize(&header->lock, header->tranche);
	making->init(address);
}

static void
init_sizes(void *address)
{
	*(SharedSizes *) address = fencing_shared_sizes;
}
