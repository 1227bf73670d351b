/*-------------------------------------------------------------------------
 *
 * recent.c
 *		The last refusals, and what was said of them.
 *
 * A refusal rolls its transaction back, and with it whatever the transaction
 * could have written about it.  So the last refusals are kept in a ring in
 * shared memory, each with copies of all that the person on call will ask for.
 * The ring belongs to all databases; a session sees those of its own.  What is
 * recorded is recorded at once, before the error is raised.
 *
 * One statement can skip a million rows, and a table in shadow mode can have
 * any number of writes that would be refused.  Of those only the first in each
 * minute, table and application is recorded and logged; the counters have the
 * rest.  For that there is a table of places, a few for each hash value; a
 * place is one number, so that no lock is needed: the key's hash above the
 * minute that it was last seen in.  When all places of a hash value have been
 * taken in this minute, others are not the first: better one line too few than
 * a flood.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "fencing.h"
#include "logline.h"
#include "recent.h"
#include "shmem.h"
#include "stats.h"

typedef struct RingEntry
{
	Oid database; /* InvalidOid: nothing */
	Oid relid;
	Oid role;
	int pid;
	int sqlstate;
	uint8 outcome;
	bool has_mark;
	TimestampTz at;
	TimestampTz raised_at;
	int64 token;
	int64 mark;
	char application[NAMEDATALEN];
	char address[CLIENT_ADDRESS_MAX];
	char raised_by[NAMEDATALEN];
	char resource[FENCING_RESOURCE_MAX + 1];
} RingEntry;

#define SEEN_WAYS 4	  /* places for one hash value */
#define SEEN_SETS 256 /* a power of 2 */
#define SEEN_PLACES (SEEN_SETS * SEEN_WAYS)
#define MINUTE_BITS 24 /* some thirty years of minutes */
#define MINUTE_MASK ((UINT64CONST(1) << MINUTE_BITS) - 1)

typedef struct SharedRecent
{
	SharedHeader header;
	int max;
	int next; /* where the next one goes */
	pg_atomic_uint64 seen[SEEN_PLACES];
	RingEntry ring[FLEXIBLE_ARRAY_MEMBER];
} SharedRecent;

FENCING_FUNCTION(fencing_refusals);

static Size shared_size(void);
static void shared_init(void *address);

static SharedPart part = {"fencing 1 refusals", shared_size, shared_init, NULL,
						  NULL};

static void copy_string(char *to, Size size, const char *from);

void
fencing_recent_init(void)
{
	fencing_shmem_register(&part);
}

static Size
shared_size(void)
{
	return offsetof(SharedRecent, ring) +
		fencing_shared_sizes.max_refusals * sizeof(RingEntry);
}

static void
shared_init(void *address)
{
	SharedRecent *shared = address;

	shared->max = fencing_shared_sizes.max_refusals;
	shared->next = 0;
	for (int i = 0; i < SEEN_PLACES; i++)
		pg_atomic_init_u64(&shared->seen[i], 0);
	for (int i = 0; i < shared->max; i++)
		shared->ring[i].database = InvalidOid;
}

void
fencing_recent_add(const RecentRefusal *refusal)
{
	SharedRecent *shared = part.address;
	const char *address;
	RingEntry *entry;

	if (shared == NULL || !fencing_track)
		return;
	address = fencing_client_address();

	LWLockAcquire(&shared->header.lock, LW_EXCLUSIVE);
	entry = &shared->ring[shared->next];
	shared->next = (shared->next + 1) % shared->max;
	entry->database = MyDatabaseId;
	entry->relid = refusal->relid;
	entry->role = GetSessionUserId();
	entry->pid = MyProcPid;
	entry->sqlstate = refusal->sqlstate;
	entry->outcome = refusal->outcome;
	entry->has_mark = refusal->has_mark;
	entry->at = GetCurrentTimestamp(); /* under the lock, so in order */
	entry->raised_at = refusal->raised_at;
	entry->token = refusal->token;
	entry->mark = refusal->mark;
	copy_string(entry->application, sizeof(entry->application),
				application_name);
	copy_string(entry->address, sizeof(entry->address), address);
	copy_string(entry->raised_by, sizeof(entry->raised_by),
				refusal->raised_by);
	copy_string(entry->resource, sizeof(entry->resource), refusal->resource);
	LWLockRelease(&shared->header.lock);
}

/* An absent string becomes an empty one; none of them is ever empty. */
static void
copy_string(char *to, Size size, const char *from)
{
	if (from == NULL)
		from = "";
	strlcpy(to, from, size);
	if (strlen(from) >= size)
		to[pg_mbcliplen(from, (int) strlen(from), (int) size - 1)] = '\0';
}

bool
fencing_recent_is_first(Oid relid, RecentOutcome outcome)
{
	static pg_atomic_uint64 *own = NULL;
	SharedRecent *shared = part.address;
	pg_atomic_uint64 *seen;
	const char *application = application_name ? application_name : "";
	uint64 minute = (GetCurrentTimestamp() / USECS_PER_MINUTE) & MINUTE_MASK;
	uint64 hash;
	uint64 wanted;

	if (shared)
		seen = shared->seen;
	else
	{
		if (own == NULL)
		{
			own = MemoryContextAlloc(TopMemoryContext,
									 sizeof(pg_atomic_uint64[SEEN_PLACES]));
			for (int i = 0; i < SEEN_PLACES; i++)
				pg_atomic_init_u64(&own[i], 0);
		}
		seen = own;
	}

	hash = hash_bytes_extended((const unsigned char *) application,
							   (int) strlen(application),
							   ((uint64) MyDatabaseId << 32) ^
								   ((uint64) relid << 2) ^ outcome);
	seen += (hash & (SEEN_SETS - 1)) * SEEN_WAYS;
	wanted = (hash & ~MINUTE_MASK) | minute;

	for (;;)
	{
		pg_atomic_uint64 *place = NULL;
		uint64 before = 0;

		for (int i = 0; i < SEEN_WAYS; i++)
		{
			uint64 value = pg_atomic_read_u64(&seen[i]);

			if (value == wanted)
				return false;
			if ((value & MINUTE_MASK) != minute &&
				(place == NULL || ((value ^ wanted) & ~MINUTE_MASK) == 0))
			{
				place = &seen[i];
				before = value;
			}
		}
		if (place == NULL)
			return false;
		if (pg_atomic_compare_exchange_u64(place, &before, wanted))
			return true;
		/* somebody else was here at this moment; look again */
	}
}

void
fencing_recent_reset(void)
{
	SharedRecent *shared = part.address;

	LWLockAcquire(&shared->header.lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->max; i++)
		if (shared->ring[i].database == MyDatabaseId)
			shared->ring[i].database = InvalidOid;
	LWLockRelease(&shared->header.lock);
}

/* fencing.refusals(): this database's part of the ring, newest first */
Datum
fencing_refusals(PG_FUNCTION_ARGS)
{
	static const char *const outcomes[] = {"refused", "skipped", "shadowed"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SharedRecent *shared;
	RingEntry *copy;
	int count = 0;

	InitMaterializedSRF(fcinfo, 0);
	if (!fencing_shmem_attach_for_view())
		return (Datum) 0;

	/* no row is made under the lock */
	shared = part.address;
	copy = MemoryContextAllocHuge(CurrentMemoryContext,
								  shared->max * sizeof(RingEntry));
	LWLockAcquire(&shared->header.lock, LW_SHARED);
	for (int i = 0; i < shared->max; i++)
	{
		int at = (shared->next + shared->max - 1 - i) % shared->max;

		if (shared->ring[at].database == MyDatabaseId)
			memcpy(&copy[count++], &shared->ring[at], sizeof(RingEntry));
	}
	LWLockRelease(&shared->header.lock);

	for (int i = 0; i < count; i++)
	{
		const RingEntry *entry = &copy[i];
		Datum values[13];
		bool nulls[13] = {false};

#define TEXT_OR_NULL(n, string)                                               \
	do                                                                        \
	{                                                                         \
		nulls[n] = (string)[0] == '\0';                                       \
		values[n] = nulls[n] ? (Datum) 0 : CStringGetTextDatum(string);       \
	} while (0)
		values[0] = TimestampTzGetDatum(entry->at);
		values[1] = CStringGetTextDatum(outcomes[entry->outcome]);
		values[2] = CStringGetTextDatum(unpack_sql_state(entry->sqlstate));
		values[3] = ObjectIdGetDatum(entry->relid);
		nulls[3] = !OidIsValid(entry->relid);
		TEXT_OR_NULL(4, entry->resource);
		values[5] = Int64GetDatum(entry->token);
		nulls[5] = entry->token == 0;
		values[6] = Int64GetDatum(entry->mark);
		nulls[6] = !entry->has_mark;
		values[7] = Int32GetDatum(entry->pid);
		values[8] = ObjectIdGetDatum(entry->role);
		TEXT_OR_NULL(9, entry->application);
		TEXT_OR_NULL(10, entry->address);
		TEXT_OR_NULL(11, entry->raised_by);
		values[12] = TimestampTzGetDatum(entry->raised_at);
		nulls[12] = entry->raised_at == 0;
#undef TEXT_OR_NULL
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
							 nulls);
	}
	pfree(copy);
	return (Datum) 0;
}
