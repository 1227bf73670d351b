/*-------------------------------------------------------------------------
 *
 * queue.c
 *		Waiting for a lease: who is first, for how long, and who is woken.
 *
 * The sessions that wait for one resource stand in the wait queue of a
 * heavyweight lock, which PostgreSQL serves first come, first served.  Its
 * holder is the first in the queue, the only one that looks at the lease: it
 * sleeps until the lease ends, or until the end of the transaction that is
 * changing it.  Everybody else sleeps in the lock manager and costs nothing.
 * The lock belongs to the (sub)transaction, so an error gives it up; who got
 * the lease gives it up by hand, long before its commit.
 *
 * The lock is of type "object": its class is the table fencing.issued, which
 * is no system catalog, so the server never makes one like it; advisory locks
 * are of another type.  The name's hash is 48 bits long.  Two resources whose
 * hashes collide wait for each other's waiters, no more.
 *
 * A wait in the lock manager is bounded with its own timeout: LockTimeout is
 * set to what is left of ours for the length of the call.  When that runs out
 * the server raises 55P03, which is taken back if it was our limit.  Nothing
 * but lock manager calls run in there, and those clean up after themselves
 * before they raise, so it is safe to go on without a subtransaction.
 *
 * Whoever ends a lease wakes the first in the queue, if there is one, by its
 * latch, right after the commit has become visible.  That may miss: the first
 * may have changed between the look and the commit, a prepared transaction
 * wakes nobody, an administrator may have deleted the row.  So the sleeper
 * looks again after QUEUE_LOOK at the latest.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "compat.h"
#include "queue.h"

#define QUEUE_LOCKMODE ExclusiveLock

/* Microseconds after which a sleeper looks at a lease in any case ... */
#define QUEUE_LOOK INT64CONST(100000)

/* ... and at a row that somebody has locked for a moment. */
#define QUEUE_NAP INT64CONST(10000)

/* A resource whose lease this transaction has ended. */
typedef struct Wake
{
	slist_node node;
	LOCKTAG tag;
	PGPROC *sleeper; /* found before the commit, NULL if there was none */
} Wake;

static slist_head wakes = SLIST_STATIC_INIT(wakes); /* this transaction's */

static void make_tag(LOCKTAG *tag, const ResourceName *name);
static int64 time_left(const Queue *queue, WaitLimit *limit);
static bool sleep_for(Queue *queue, int64 length, WaitLimit *limit);
static void find_sleepers(void);
static void xact_callback(XactEvent event, void *arg);

/* A wait in the lock manager, with what it needs. */
typedef bool (*LockWait)(Queue *queue, const Store *store,
						 const InFlight *in_flight);

static bool lock_wait_limited(Queue *queue, LockWait wait, const Store *store,
							  const InFlight *in_flight, WaitLimit *limit);

void
fencing_queue_init_library(void)
{
	RegisterXactCallback(xact_callback, NULL);
}

static void
make_tag(LOCKTAG *tag, const ResourceName *name)
{
	uint64 hash = hash_bytes_extended((const unsigned char *) name->data,
									  name->len, 0);

	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, fencing_store_oid(STORE_ISSUED),
					   (uint32) hash, (uint16) (hash >> 32));
}

void
fencing_queue_init(Queue *queue, const ResourceName *name, int64 wait)
{
	make_tag(&queue->tag, name);
	queue->first = false;
	queue->wait = wait;
	INSTR_TIME_SET_CURRENT(queue->began);
}

int64
fencing_queue_waited(const Queue *queue)
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, queue->began);
	return INSTR_TIME_GET_MICROSEC(now);
}

/*
 * Microseconds until one of the limits, below 1 if it is reached.  The clock
 * is one that nobody sets.
 */
static int64
time_left(const Queue *queue, WaitLimit *limit)
{
	int64 waited = fencing_queue_waited(queue);
	int64 timeout = (int64) LockTimeout * 1000;

	if (timeout > 0 && timeout < queue->wait)
	{
		*limit = LIMIT_LOCK_TIMEOUT;
		return timeout - waited;
	}
	*limit = LIMIT_WAIT;
	return queue->wait - waited;
}

static bool
acquire_place(Queue *queue, const Store *store, const InFlight *in_flight)
{
	(void) LockAcquire(&queue->tag, QUEUE_LOCKMODE, false, false);
	return true;
}

static bool
wait_for_transaction(Queue *queue, const Store *store,
					 const InFlight *in_flight)
{
	fencing_store_wait(store, in_flight);
	return true;
}

/* Runs a wait in the lock manager for as long as the limits let it. */
static bool
lock_wait_limited(Queue *queue, LockWait wait, const Store *store,
				  const InFlight *in_flight, WaitLimit *limit)
{
	volatile bool done = false;
	MemoryContext cxt = CurrentMemoryContext;
	int lock_timeout = LockTimeout;
	int64 left = time_left(queue, limit);

	if (left <= 0)
		return false;

	PG_TRY();
	{
		/* rounded up to the milliseconds in which the server counts */
		LockTimeout = (int) Min((left + 999) / 1000, INT_MAX);
		done = wait(queue, store, in_flight);
		LockTimeout = lock_timeout;
	}
	PG_CATCH();
	{
		LockTimeout = lock_timeout;
		if (geterrcode() != ERRCODE_LOCK_NOT_AVAILABLE)
			PG_RE_THROW();
		MemoryContextSwitchTo(cxt);
		FlushErrorState();
	}
	PG_END_TRY();
	return done;
}

bool
fencing_queue_enter(Queue *queue, WaitLimit *limit)
{
	/* nobody before us is the usual case */
	if (LockAcquire(&queue->tag, QUEUE_LOCKMODE, false, true) !=
		LOCKACQUIRE_NOT_AVAIL)
		queue->first = true;
	else if (queue->wait > 0)
		queue->first = lock_wait_limited(queue, acquire_place, NULL, NULL,
										 limit);
	else
		*limit = LIMIT_WAIT;
	return queue->first;
}

void
fencing_queue_leave(Queue *queue)
{
	if (queue->first)
		LockRelease(&queue->tag, QUEUE_LOCKMODE, false);
	queue->first = false;
}

bool
fencing_queue_wait_for(Queue *queue, const Store *store,
					   const InFlight *in_flight, WaitLimit *limit)
{
	Assert(queue->first);
	return lock_wait_limited(queue, wait_for_transaction, store, in_flight,
							 limit);
}

/* Sleeps for these microseconds or less.  False if no time is left. */
static bool
sleep_for(Queue *queue, int64 length, WaitLimit *limit)
{
	static uint32 wait_event = 0;
	int64 left = time_left(queue, limit);

	if (left <= 0)
		return false;
	if (length > 0)
	{
		if (wait_event == 0)
			wait_event = fencing_wait_event("FencingLease");
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 (long) ((Min(length, left) + 999) / 1000),
						 wait_event);
		ResetLatch(MyLatch);
	}
	CHECK_FOR_INTERRUPTS();
	return true;
}

bool
fencing_queue_sleep_until(Queue *queue, TimestampTz until, WaitLimit *limit)
{
	Assert(queue->first);
	return sleep_for(queue, Min(until - GetCurrentTimestamp(), QUEUE_LOOK),
					 limit);
}

bool
fencing_queue_nap(Queue *queue, WaitLimit *limit)
{
	return sleep_for(queue, QUEUE_NAP, limit);
}

void
fencing_queue_wake_at_commit(const ResourceName *name)
{
	Wake *wake = MemoryContextAllocZero(TopTransactionContext, sizeof(Wake));

	make_tag(&wake->tag, name);
	slist_push_head(&wakes, &wake->node);
}

/* Who sleeps now, while an error does no harm yet. */
static void
find_sleepers(void)
{
	slist_iter iter;

	slist_foreach(iter, &wakes)
	{
		Wake *wake = slist_container(Wake, node, iter.cur);
		VirtualTransactionId *first;

		first = GetLockConflicts(&wake->tag, QUEUE_LOCKMODE, NULL);
		if (VirtualTransactionIdIsValid(*first))
			wake->sleeper = fencing_vxid_proc(first);
		pfree(first);
	}
}

static void
xact_callback(XactEvent event, void *arg)
{
	slist_iter iter;

	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			find_sleepers();
			break;
		case XACT_EVENT_COMMIT:

			/*
			 * The session may be gone, and its place taken by another: a
			 * latch that is set for nothing does no harm.
			 */
			slist_foreach(iter, &wakes)
			{
				Wake *wake = slist_container(Wake, node, iter.cur);

				if (wake->sleeper != NULL)
					SetLatch(&wake->sleeper->procLatch);
			}
			slist_init(&wakes); /* the memory goes with its context */
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			slist_init(&wakes);
			break;
		default:
			break;
	}
}
