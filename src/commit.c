/*-------------------------------------------------------------------------
 *
 * commit.c
 *		What must hold before a transaction with fenced writes commits.
 *
 * Three things are looked at as late as an error is still possible: in the
 * PRE_COMMIT and PRE_PREPARE callbacks, after deferred triggers have run and
 * before the commit record is written.  (In the COMMIT callback an error
 * would be a PANIC.)
 *
 * - The deadline, by the server's clock.
 * - fencing.stale_aborts: whether a stale write was refused and the error
 *   caught.  The note of that survives the rollback to a savepoint, since
 *   such a rollback is just what it is about.
 * - Rows that were given the name of another resource.  For them an UPDATE is
 *   an insert, and may have waited at the unique key for a transaction that
 *   deleted a row of that name and left a tombstone.  The guard looked before
 *   that wait.  An INSERT is looked at again by an AFTER trigger; for UPDATE
 *   such a trigger would make the server fetch the old version of every
 *   updated row a second time, for the sake of the few that change their key,
 *   so those few are listed here.  A rolled back savepoint takes its entries
 *   along.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "commit.h"
#include "deadline.h"
#include "logline.h"
#include "mark.h"
#include "refuse.h"
#include "rowmove.h"
#include "stats.h"
#include "tokens.h"

/* A row that took another resource's name. */
typedef struct PendingRecheck
{
	slist_node node;
	SubTransactionId subid; /* goes with this subtransaction */
	Oid relid;
	int64 token; /* 0: none */
	bool strict;
	bool shadow;
	StatCounter *counter;
	int len;
	char name[FLEXIBLE_ARRAY_MEMBER];
} PendingRecheck;

bool fencing_commit_carried = false;

/* all of the current transaction; reset at its end */
static bool stale_refused = false;
static bool stale_must_abort = false; /* ... while stale_aborts was on */
static bool off_noted = false;
static slist_head rechecks = SLIST_STATIC_INIT(rechecks);

static void before_commit(void);
static void xact_callback(XactEvent event, void *arg);
static void subxact_callback(SubXactEvent event, SubTransactionId mySubid,
							 SubTransactionId parentSubid, void *arg);

void
fencing_commit_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}

void
fencing_commit_note_stale(void)
{
	stale_refused = true;
	if (fencing_stale_aborts)
		stale_must_abort = true;
}

void
fencing_commit_note_off(Relation rel)
{
	StringInfoData line;

	if (off_noted)
		return;
	off_noted = true;
	fencing_log_begin(&line, "off");
	fencing_log_table(&line, rel);
	fencing_log_who(&line);
	fencing_log_write(&line, 0);
}

void
fencing_commit_recheck(Relation rel, const ResourceName *name, int64 token,
					   bool strict, bool shadow, StatCounter *counter)
{
	PendingRecheck *pending;

	pending = MemoryContextAlloc(TopTransactionContext,
								 offsetof(PendingRecheck, name) + name->len +
									 1);
	pending->subid = GetCurrentSubTransactionId();
	pending->relid = RelationGetRelid(rel);
	pending->token = token;
	pending->strict = strict;
	pending->shadow = shadow;
	pending->counter = counter;
	pending->len = name->len;
	memcpy(pending->name, name->data, name->len + 1);
	slist_push_head(&rechecks, &pending->node);
}

void
fencing_recheck(Relation rel, const ResourceName *name, int64 token,
				bool strict, bool shadow, StatCounter *counter)
{
	Refusal refusal = {0};
	bool own;
	int64 mark = fencing_mark_read(name, &own);

	/*
	 * A mark that this transaction wrote is the tombstone of the very row: it
	 * was deleted or renamed again, and checked then.  Without a mark there is
	 * nothing to compare with, however strict the fence.
	 */
	if (own || mark == 0 || token > mark || (token == mark && !strict))
		return;
	refusal.kind = token == 0 ? REFUSAL_MISSING
		: token == mark		  ? REFUSAL_STALE_EQUAL
							  : REFUSAL_STALE;
	refusal.rel = rel;
	refusal.resource = name->data;
	refusal.token = token;
	refusal.mark = mark;
	refusal.mark_stored = true;
	refusal.counter = counter;
	if (!shadow)
		fencing_refuse(&refusal);
	fencing_stat_not_accepted(counter);
	fencing_refuse_in_shadow(&refusal);
}

static void
before_commit(void)
{
	slist_iter iter;

	if (stale_must_abort || (stale_refused && fencing_stale_aborts))
		fencing_stale_aborted();

	slist_foreach(iter, &rechecks)
	{
		PendingRecheck *pending = slist_container(PendingRecheck, node,
												  iter.cur);
		ResourceName name;
		Relation rel;

		/* a table dropped since then has no row left to be wrong */
		rel = try_relation_open(pending->relid, AccessShareLock);
		if (rel == NULL)
			continue;
		name.len = pending->len;
		memcpy(name.data, pending->name, pending->len + 1);
		fencing_recheck(rel, &name, pending->token, pending->strict,
						pending->shadow, pending->counter);
		relation_close(rel, AccessShareLock);
	}

	/* last, so that the time the checks took counts too */
	if (fencing_deadline != DT_NOEND &&
		(fencing_commit_carried || fencing_tokens_count > 0))
	{
		TimestampTz now = GetCurrentTimestamp();

		if (now > fencing_deadline)
			fencing_deadline_passed(fencing_deadline, now);
	}
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			before_commit();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			fencing_commit_carried = false;
			stale_refused = false;
			stale_must_abort = false;
			off_noted = false;
			slist_init(&rechecks); /* the memory goes with its context */
			fencing_checked_end_of_transaction();
			fencing_rowmove_forget();
			fencing_stat_end_of_transaction(event != XACT_EVENT_ABORT);
			break;
		default:
			break; /* parallel workers neither write nor claim */
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId mySubid,
				 SubTransactionId parentSubid, void *arg)
{
	slist_mutable_iter iter;

	if (event == SUBXACT_EVENT_START_SUB)
		fencing_stat_begin_subtransaction();
	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	slist_foreach_modify(iter, &rechecks)
	{
		PendingRecheck *pending = slist_container(PendingRecheck, node,
												  iter.cur);

		/* newest first: the ended subtransaction's are all at the front */
		if (pending->subid != mySubid)
			break;
		if (event == SUBXACT_EVENT_ABORT_SUB)
			slist_delete_current(&iter);
		else
			pending->subid = parentSubid;
	}
	if (event == SUBXACT_EVENT_ABORT_SUB)
		fencing_rowmove_forget();
	fencing_checked_end_of_subtransaction(mySubid, parentSubid,
										  event == SUBXACT_EVENT_COMMIT_SUB);
	fencing_stat_end_of_subtransaction(event == SUBXACT_EVENT_COMMIT_SUB);
}
