/*-------------------------------------------------------------------------
 *
 * queue.h
 *		Waiting for a lease: who is first, for how long, and who is woken.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_QUEUE_H
#define FENCING_QUEUE_H

#include "portability/instr_time.h"
#include "storage/itemptr.h"
#include "storage/lock.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "resource.h"
#include "store.h"

/* What ended a wait that did not get what it waited for. */
typedef enum WaitLimit
{
	LIMIT_WAIT,		   /* the caller's own */
	LIMIT_LOCK_TIMEOUT /* the setting lock_timeout */
} WaitLimit;

/* A caller's place in the queue of a resource, and its patience. */
typedef struct Queue
{
	LOCKTAG tag;
	bool first; /* this is the one session that looks at the lease */
	int64 wait; /* microseconds, 0 for none */
	instr_time began;
} Queue;

/*
 * Begins a wait of at most this many microseconds for a resource.  Takes
 * nothing yet.
 */
extern void fencing_queue_init(Queue *queue, const ResourceName *name,
							   int64 wait);

/*
 * Becomes first in the queue, behind those who came before.  Returns false if
 * that takes longer than the wait or lock_timeout, which *limit tells; at
 * once if there is no wait at all.  The place is given up by
 * fencing_queue_leave(), and by any error.
 */
extern bool fencing_queue_enter(Queue *queue, WaitLimit *limit);

/* Lets the next one in.  Does nothing for who is not first. */
extern void fencing_queue_leave(Queue *queue);

/*
 * What only the first in the queue does: waits for a running transaction to
 * end, or until a moment of the server's clock or a little earlier (the
 * caller looks again).  Returns false if the wait is over before.
 */
extern bool fencing_queue_wait_for(Queue *queue, const Store *store,
								   const InFlight *in_flight,
								   WaitLimit *limit);
extern bool fencing_queue_sleep_until(Queue *queue, TimestampTz until,
									  WaitLimit *limit);

/*
 * Sleeps for a moment, for lack of anything to wait for; also for those that
 * are not in the queue.  Returns false if the wait is over before.
 */
extern bool fencing_queue_nap(Queue *queue, WaitLimit *limit);

/* Microseconds since the wait began. */
extern int64 fencing_queue_waited(const Queue *queue);

/*
 * Wakes the first in a resource's queue when this transaction has committed.
 * Allocates in TopTransactionContext.
 */
extern void fencing_queue_wake_at_commit(const ResourceName *name);

extern void fencing_queue_init_library(void);

#endif /* FENCING_QUEUE_H */
