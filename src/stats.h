/*-------------------------------------------------------------------------
 *
 * stats.h
 *		Counters of what fences and leases have done.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_STATS_H
#define FENCING_STATS_H

#include "access/xact.h"
#include "datatype/timestamp.h"
#include "lib/ilist.h"

/*
 * What is counted for a fence.  The first of a counter's numbers is
 * transactional: it counts what has been committed (or prepared).  The others
 * count what was decided, whatever became of the transaction.
 */
typedef enum StatNumber
{
	STAT_ACCEPTED, /* writes of committed transactions */
	STAT_STALE,
	STAT_MISSING,
	STAT_OUT_OF_RANGE, /* max_step, never issued, below 1 */
	STAT_SKIPPED,
	STAT_SHADOWED,
	STAT_NUMBERS
} StatNumber;

/* The same places, for the leases of a database. */
typedef enum LeaseEvent
{
	LEASE_ACQUIRED = STAT_ACCEPTED, /* granted, and committed */
	LEASE_BUSY,						/* not granted: somebody else holds it */
	LEASE_EXPIRED,					/* a lapsed one was taken over */
	LEASE_LOST,		 /* renew or release found it not held any more */
	LEASE_WAITED_US, /* time spent waiting, in microseconds */
	LEASE_NUMBERS
} LeaseEvent;

/* What this session has counted and not told the others yet. */
typedef struct StatCounter
{
	Oid relid;		 /* hash key: a fenced table, or one of those below */
	int level;		 /* subtransaction that "accepted" belongs to, or 0 */
	uint64 accepted; /* ... and not to those above it */
	uint64 decided[STAT_NUMBERS]; /* not to be taken back */
	TimestampTz last_refusal;	  /* 0: none since the last flush */
	bool touched;				  /* is in the list */
	slist_node node;
} StatCounter;

/* In place of a table's OID. */
#define STAT_CLAIMS ((Oid) 0)
#define STAT_LEASES ((Oid) 1)

/* Setting fencing.track. */
extern bool fencing_track;

/*
 * Writes accepted one after the other for the same fence, not yet in its
 * counter.  Ends with the subtransaction.
 */
typedef struct StatRun
{
	StatCounter *counter; /* NULL: none, or nothing is counted */
	uint64 accepted;
} StatRun;

extern StatRun fencing_stat_run;

/*
 * The session's counter of a fence, by the table that it is declared on.  It
 * stays where it is for the rest of the session.  Attaches to shared memory on
 * the way, guarded: called where a subtransaction may begin.  Raises nothing
 * but out of memory.
 */
extern StatCounter *fencing_stat_counter(Oid relid);

/* One more write was accepted: begins a run. */
extern void fencing_stat_begin_run(StatCounter *counter);

/* One more write was accepted. */
static inline void
fencing_stat_accept(StatCounter *counter)
{
	if (likely(counter == fencing_stat_run.counter))
		fencing_stat_run.accepted++;
	else
		fencing_stat_begin_run(counter);
}

/* What was counted as accepted last turned out not to be (in shadow mode). */
extern void fencing_stat_not_accepted(StatCounter *counter);

/*
 * One more write was refused, skipped, or would have been refused.  Raises
 * nothing.  Told to the others at the end of the transaction, or now if that
 * was not done for some seconds.
 */
extern void fencing_stat_decide(StatCounter *counter, StatNumber number);

/*
 * Something happened to a lease of this database.  With LEASE_ACQUIRED,
 * LEASE_EXPIRED or LEASE_BUSY, waited_us is how long the caller waited for it.
 * LEASE_EXPIRED comes in addition to LEASE_ACQUIRED, with 0.  Called within a
 * transaction.
 */
extern void fencing_stat_lease(LeaseEvent event, uint64 waited_us);

/* For the transaction callbacks; they raise nothing. */
extern void fencing_stat_begin_subtransaction(void);
extern void fencing_stat_end_of_subtransaction(bool committed);
extern void fencing_stat_end_of_transaction(bool committed);

extern void fencing_stats_init(void);

#endif /* FENCING_STATS_H */
