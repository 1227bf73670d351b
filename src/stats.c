/*-------------------------------------------------------------------------
 *
 * stats.c
 *		Counters of what fences and leases have done.
 *
 * A write must not pay for being counted, so a session counts for itself, in
 * one StatCounter for each fence, and adds that to the shared numbers when its
 * transaction ends.  Numbers that are not taken back by a rollback are added
 * earlier too, every few seconds, if the transaction is long.
 *
 * Accepted writes count when they are committed, or prepared.  To take back
 * those of a savepoint, a counter that is used in a subtransaction puts what
 * it had before into a frame.  The frames are one stack, the innermost
 * subtransaction's at its end: the commit of a subtransaction passes its
 * frames to the one above or merges them, its abort restores from them.
 * A session that uses no savepoints never makes one.  Between two writes of a
 * statement even the counter is out of the processor's cache; so writes to the
 * same fence, one after the other, are a run, which is one variable.
 *
 * Shared memory holds a fixed number of entries, chained in hash buckets.
 * Numbers are atomic and are added to under a shared lock; making an entry
 * takes it exclusively.  When all are in use, the fence that nobody has
 * written to for the longest makes room: it is likely to be dropped, or in a
 * database that is.  If it comes back, it counts from 0 again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/hashfn.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "recent.h"
#include "shmem.h"
#include "stats.h"

/* A long transaction tells what it can this often, in milliseconds. */
#define FLUSH_INTERVAL 5000

/* One fence, for all sessions. */
typedef struct StatEntry
{
	Oid database;
	Oid relid;
	int next; /* of the bucket, -1 at its end */
	TimestampTz since;
	pg_atomic_uint64 numbers[STAT_NUMBERS];
	pg_atomic_uint64 last_refusal;
	pg_atomic_uint64 last_used;
} StatEntry;

typedef struct SharedStats
{
	SharedHeader header;
	int max;		/* entries that there is room for */
	int used;		/* ... and those in use, the first ones */
	int nbuckets;	/* a power of 2 */
	uint64 evicted; /* entries that made room for others */
	int buckets[FLEXIBLE_ARRAY_MEMBER]; /* first entry, or -1 */

	/* StatEntry entries[max], see entries() */
} SharedStats;

/* What a counter had before a subtransaction used it. */
typedef struct StatFrame
{
	StatCounter *counter;
	int level; /* of the subtransaction */
	int saved_level;
	uint64 saved_accepted;
} StatFrame;

FENCING_FUNCTION(fencing_stat_available);
FENCING_FUNCTION(fencing_stat_counters);
FENCING_FUNCTION(fencing_stat_memory);
FENCING_FUNCTION(fencing_stat_reset);

bool fencing_track = true;
StatRun fencing_stat_run;

/* Nesting level of the running subtransaction, 1 at the top. */
static int current_level = 1;

static HTAB *counters = NULL;
static slist_head touched = SLIST_STATIC_INIT(touched);
static TimestampTz last_flush = 0;

static StatFrame *frames = NULL;
static int nframes = 0;
static int max_frames = 0;

static Size shared_size(void);
static void shared_init(void *address);

static SharedPart part = {"fencing 1 counters", shared_size, shared_init, NULL,
						  NULL};

static void assign_track(bool newval, void *extra);
static void end_run(void);
static void enter_level(StatCounter *counter);
static void touch(StatCounter *counter);
static void flush(TimestampTz now);
static bool add_to_entry(SharedStats *shared, const StatCounter *counter,
						 bool make, TimestampTz now);
static StatEntry *entry_find(SharedStats *shared, Oid relid);
static StatEntry *entry_make(SharedStats *shared, Oid relid, TimestampTz now);
static void entry_unlink(SharedStats *shared, StatEntry *entry);
static void entry_clear(StatEntry *entry, TimestampTz now);

static inline StatEntry *
entries(SharedStats *shared)
{
	return (StatEntry *) ((char *) shared +
						  MAXALIGN(offsetof(SharedStats, buckets) +
								   shared->nbuckets * sizeof(int)));
}

static inline int *
bucket_of(SharedStats *shared, Oid database, Oid relid)
{
	uint32 hash = hash_combine(murmurhash32(database), murmurhash32(relid));

	return &shared->buckets[hash & (shared->nbuckets - 1)];
}

void
fencing_stats_init(void)
{
	HASHCTL ctl = {0};

	DefineCustomBoolVariable("fencing.track",
							 "Counts what fences and leases do, and remembers refusals.",
							 NULL, &fencing_track, true, PGC_SUSET, 0, NULL,
							 assign_track, NULL);
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(StatCounter);
	counters = hash_create("fencing counters", 32, &ctl,
						   HASH_ELEM | HASH_BLOBS);
	fencing_shmem_register(&part);
	if (IsTransactionState())
		current_level = GetCurrentTransactionNestLevel();
}

/* ----------
 * The session's counters
 * ----------
 */

StatCounter *
fencing_stat_counter(Oid relid)
{
	StatCounter *counter;
	bool found;

	(void) fencing_shmem_attach(true);
	counter = hash_search(counters, &relid, HASH_ENTER, &found);
	if (!found)
	{
		memset(counter, 0, sizeof(*counter));
		counter->relid = relid;
	}
	return counter;
}

static void
touch(StatCounter *counter)
{
	if (counter->touched)
		return;
	slist_push_head(&touched, &counter->node);
	counter->touched = true;
}

/* What is counted already stays counted. */
static void
assign_track(bool newval, void *extra)
{
	end_run();
}

void
fencing_stat_begin_run(StatCounter *counter)
{
	end_run();
	if (!fencing_track)
		return;
	if (counter->level != current_level)
		enter_level(counter);
	counter->accepted++;
	fencing_stat_run.counter = counter;
}

static void
end_run(void)
{
	if (fencing_stat_run.counter)
		fencing_stat_run.counter->accepted += fencing_stat_run.accepted;
	fencing_stat_run.counter = NULL;
	fencing_stat_run.accepted = 0;
}

/* Prepares a counter for the running subtransaction. */
static void
enter_level(StatCounter *counter)
{
	if (current_level > 1)
	{
		StatFrame *frame;

		if (nframes == max_frames)
		{
			int want = Max(16, max_frames * 2);

			frames = frames ? repalloc(frames, want * sizeof(StatFrame))
							: MemoryContextAlloc(TopMemoryContext,
												 want * sizeof(StatFrame));
			max_frames = want;
		}
		frame = &frames[nframes++];
		frame->counter = counter;
		frame->level = current_level;
		frame->saved_level = counter->level;
		frame->saved_accepted = counter->accepted;
	}
	touch(counter);
	counter->accepted = 0;
	counter->level = current_level;
}

void
fencing_stat_decide(StatCounter *counter, StatNumber number)
{
	TimestampTz now;

	if (!fencing_track)
		return;
	now = GetCurrentTimestamp();
	touch(counter);
	counter->decided[number]++;
	counter->last_refusal = now;
	if (last_flush == 0)
		last_flush = now;
	else if (TimestampDifferenceExceeds(last_flush, now, FLUSH_INTERVAL))
		flush(now);
}

void
fencing_stat_not_accepted(StatCounter *counter)
{
	end_run();
	if (counter->level == current_level && counter->accepted > 0)
		counter->accepted--;
}

void
fencing_stat_lease(LeaseEvent event, uint64 waited_us)
{
	StatCounter *counter;

	if (!fencing_track)
		return;
	counter = fencing_stat_counter(STAT_LEASES);
	if (event == LEASE_ACQUIRED)
		fencing_stat_accept(counter);
	else
		counter->decided[event]++;
	counter->decided[LEASE_WAITED_US] += waited_us;
	touch(counter);
}

void
fencing_stat_begin_subtransaction(void)
{
	end_run();
	current_level = GetCurrentTransactionNestLevel();
}

void
fencing_stat_end_of_subtransaction(bool committed)
{
	int level = GetCurrentTransactionNestLevel();
	int first = nframes;
	int kept;

	end_run();
	current_level = level - 1;
	while (first > 0 && frames[first - 1].level == level)
		first--;
	kept = first;
	for (int i = first; i < nframes; i++)
	{
		StatFrame *frame = &frames[i];
		StatCounter *counter = frame->counter;

		if (!committed)
		{
			counter->accepted = frame->saved_accepted;
			counter->level = frame->saved_level;
			continue;
		}

		/*
		 * Now they are the parent's.  If it has used the counter itself, the
		 * numbers are one; the top needs no frame, it takes back everything.
		 */
		counter->level = level - 1;
		if (frame->saved_level == level - 1 || level - 1 == 1)
			counter->accepted += frame->saved_accepted;
		else
		{
			frame->level = level - 1;
			frames[kept++] = *frame;
		}
	}
	nframes = kept;
}

void
fencing_stat_end_of_transaction(bool committed)
{
	slist_iter iter;

	end_run();
	nframes = 0;
	current_level = 1;
	if (slist_is_empty(&touched))
		return;
	slist_foreach(iter, &touched)
	{
		StatCounter *counter = slist_container(StatCounter, node, iter.cur);

		if (committed && counter->level > 0)
			counter->decided[STAT_ACCEPTED] += counter->accepted;
		counter->accepted = 0;
		counter->level = 0;
	}
	flush(GetCurrentTransactionStopTimestamp());
	slist_foreach(iter, &touched)
		slist_container(StatCounter, node, iter.cur)->touched = false;
	slist_init(&touched);
	last_flush = 0;
}

/*
 * Adds what is decided to the shared numbers.  Called at the end of a
 * transaction, where nothing may fail and little may take time.
 */
static void
flush(TimestampTz now)
{
	SharedStats *shared = part.address;
	bool missing = false;
	slist_iter iter;

	last_flush = now;
	if (shared == NULL)
	{
		slist_foreach(iter, &touched)
		{
			StatCounter *counter = slist_container(StatCounter, node,
												   iter.cur);

			memset(counter->decided, 0, sizeof(counter->decided));
			counter->last_refusal = 0;
		}
		return;
	}

	for (int round = 0; round < 2; round++)
	{
		LWLockAcquire(&shared->header.lock,
					  round == 0 ? LW_SHARED : LW_EXCLUSIVE);
		slist_foreach(iter, &touched)
		{
			StatCounter *counter = slist_container(StatCounter, node,
												   iter.cur);

			if (!add_to_entry(shared, counter, round == 1, now))
			{
				missing = true;
				continue;
			}
			memset(counter->decided, 0, sizeof(counter->decided));
			counter->last_refusal = 0;
		}
		LWLockRelease(&shared->header.lock);
		if (!missing)
			break;
	}
}

/* ----------
 * The shared entries
 * ----------
 */

static Size
shared_size(void)
{
	Size max = fencing_shared_sizes.max_fences;

	return MAXALIGN(offsetof(SharedStats, buckets) +
					pg_nextpower2_32(max) * sizeof(int)) +
		max * sizeof(StatEntry);
}

static void
shared_init(void *address)
{
	SharedStats *shared = address;

	shared->max = fencing_shared_sizes.max_fences;
	shared->used = 0;
	shared->nbuckets = pg_nextpower2_32(shared->max);
	shared->evicted = 0;
	for (int i = 0; i < shared->nbuckets; i++)
		shared->buckets[i] = -1;
	for (int i = 0; i < shared->max; i++)
	{
		StatEntry *entry = &entries(shared)[i];

		for (int n = 0; n < STAT_NUMBERS; n++)
			pg_atomic_init_u64(&entry->numbers[n], 0);
		pg_atomic_init_u64(&entry->last_refusal, 0);
		pg_atomic_init_u64(&entry->last_used, 0);
	}
}

/* Returns false if there is no entry, and none is to be made. */
static bool
add_to_entry(SharedStats *shared, const StatCounter *counter, bool make,
			 TimestampTz now)
{
	StatEntry *entry = NULL;
	bool anything = false;

	for (int n = 0; n < STAT_NUMBERS; n++)
	{
		if (counter->decided[n] == 0)
			continue;
		if (!anything)
		{
			anything = true;
			entry = entry_find(shared, counter->relid);
			if (entry == NULL && !make)
				return false;
			if (entry == NULL)
				entry = entry_make(shared, counter->relid, now);
			pg_atomic_write_u64(&entry->last_used, now);
		}
		pg_atomic_fetch_add_u64(&entry->numbers[n], counter->decided[n]);
	}
	if (anything && counter->last_refusal != 0)
		pg_atomic_write_u64(&entry->last_refusal, counter->last_refusal);
	return true;
}

static StatEntry *
entry_find(SharedStats *shared, Oid relid)
{
	int i = *bucket_of(shared, MyDatabaseId, relid);

	while (i >= 0)
	{
		StatEntry *entry = &entries(shared)[i];

		if (entry->database == MyDatabaseId && entry->relid == relid)
			return entry;
		i = entry->next;
	}
	return NULL;
}

/* A free entry, or that of the fence that was not written for the longest. */
static StatEntry *
entry_make(SharedStats *shared, Oid relid, TimestampTz now)
{
	StatEntry *entry;
	int *bucket;

	if (shared->used < shared->max)
		entry = &entries(shared)[shared->used++];
	else
	{
		entry = &entries(shared)[0];
		for (int i = 1; i < shared->max; i++)
		{
			StatEntry *other = &entries(shared)[i];

			if (pg_atomic_read_u64(&other->last_used) <
				pg_atomic_read_u64(&entry->last_used))
				entry = other;
		}
		entry_unlink(shared, entry);
		shared->evicted++;
	}
	entry->database = MyDatabaseId;
	entry->relid = relid;
	entry_clear(entry, now);
	bucket = bucket_of(shared, entry->database, entry->relid);
	entry->next = *bucket;
	*bucket = (int) (entry - entries(shared));
	return entry;
}

static void
entry_unlink(SharedStats *shared, StatEntry *entry)
{
	int *link = bucket_of(shared, entry->database, entry->relid);
	int at = (int) (entry - entries(shared));

	while (*link != at)
		link = &entries(shared)[*link].next;
	*link = entry->next;
}

static void
entry_clear(StatEntry *entry, TimestampTz now)
{
	for (int n = 0; n < STAT_NUMBERS; n++)
		pg_atomic_write_u64(&entry->numbers[n], 0);
	pg_atomic_write_u64(&entry->last_refusal, 0);
	entry->since = now;
}

/* ----------
 * What SQL sees of them
 * ----------
 */

/* fencing.stat_available(): says so if not */
Datum
fencing_stat_available(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(fencing_shmem_attach_for_view());
}

/* fencing.stat_counters(): this database's entries as they are */
Datum
fencing_stat_counters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SharedStats *shared;
	StatEntry *copy;
	int used;

	InitMaterializedSRF(fcinfo, 0);
	if (!fencing_shmem_attach_for_view())
		return (Datum) 0;

	/* no row is made under the lock */
	shared = part.address;
	copy = MemoryContextAllocHuge(CurrentMemoryContext,
								  shared->max * sizeof(StatEntry));
	LWLockAcquire(&shared->header.lock, LW_SHARED);
	used = shared->used;
	memcpy(copy, entries(shared), used * sizeof(StatEntry));
	LWLockRelease(&shared->header.lock);

	for (int i = 0; i < used; i++)
	{
		StatEntry *entry = &copy[i];
		Datum values[STAT_NUMBERS + 3];
		bool nulls[STAT_NUMBERS + 3] = {false};
		TimestampTz last = pg_atomic_read_u64(&entry->last_refusal);

		if (entry->database != MyDatabaseId)
			continue;
		values[0] = ObjectIdGetDatum(entry->relid);
		for (int n = 0; n < STAT_NUMBERS; n++)
			values[1 + n] = Int64GetDatum(
				pg_atomic_read_u64(&entry->numbers[n]));
		values[STAT_NUMBERS + 1] = TimestampTzGetDatum(last);
		nulls[STAT_NUMBERS + 1] = last == 0;
		values[STAT_NUMBERS + 2] = TimestampTzGetDatum(entry->since);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
							 nulls);
	}
	pfree(copy);
	return (Datum) 0;
}

/* fencing.stat_memory(): is there any, how much is in use */
Datum
fencing_stat_memory(PG_FUNCTION_ARGS)
{
	TupleDesc desc;
	Datum values[5];
	bool nulls[5] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	/* that there is none is an answer */
	values[0] = BoolGetDatum(fencing_shmem_attach(true));
	if (fencing_shmem_attached())
	{
		SharedStats *shared = part.address;

		LWLockAcquire(&shared->header.lock, LW_SHARED);
		values[1] = Int32GetDatum(shared->used);
		values[2] = Int32GetDatum(shared->max);
		values[3] = Int64GetDatum(shared->evicted);
		LWLockRelease(&shared->header.lock);
		values[4] = Int32GetDatum(fencing_shared_sizes.max_refusals);
	}
	else
		memset(nulls + 1, true, sizeof(nulls) - sizeof(*nulls));
	PG_RETURN_DATUM(HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/*
 * fencing.stat_reset(relation): this database's counters, or those of one
 * fence, begin at 0 again; without a table the recent refusals go too.
 */
Datum
fencing_stat_reset(PG_FUNCTION_ARGS)
{
	bool all = PG_ARGISNULL(0);
	Oid relid = all ? InvalidOid : PG_GETARG_OID(0);
	TimestampTz now = GetCurrentTimestamp();
	SharedStats *shared;

	if (!fencing_shmem_attach_for_view())
		PG_RETURN_VOID();
	shared = part.address;
	LWLockAcquire(&shared->header.lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->used; i++)
	{
		StatEntry *entry = &entries(shared)[i];

		if (entry->database == MyDatabaseId && (all || entry->relid == relid))
			entry_clear(entry, now);
	}
	if (all)
		shared->evicted = 0;
	LWLockRelease(&shared->header.lock);
	if (all)
		fencing_recent_reset();
	PG_RETURN_VOID();
}
